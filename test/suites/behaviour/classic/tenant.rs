//! A namespace with an OperatorGroup, a catalog and Subscriptions.

use kube::core::NamespaceResourceScope;
use olm_api_classic::{ClusterServiceVersion, InstallPlan, OperatorGroup, Subscription, SubscriptionStatus};
use olm_test::{
    catalog,
    classic::{Source, csv},
    prelude::*,
};

use crate::world::World;

/// The CatalogSource of a tenant.
pub(crate) const CATALOG: &str = "cat";
const API: &str = "operators.coreos.com/v1alpha1";

pub(crate) struct Tenant {
    pub(crate) world: &'static World,
    pub(crate) namespace: String,
    pub(crate) client: Client,
}

impl Tenant {
    /// A namespace with an OperatorGroup.
    pub(crate) async fn new(base: &str) -> Result<Self> {
        let tenant = Self::without_group(base).await?;
        tenant.group("group", json!({})).await?;
        Ok(tenant)
    }

    pub(crate) async fn without_group(base: &str) -> Result<Self> {
        Self::of(World::shared().await?, base).await
    }

    pub(crate) async fn of(world: &'static World, base: &str) -> Result<Self> {
        let namespace = world.namespace(base).await?;
        Ok(Self { world, namespace, client: world.cluster.client().await? })
    }

    pub(crate) async fn group(&self, name: &str, spec: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": name}, "spec": spec,
        });
        self.api::<OperatorGroup>().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A name for images that no other test has.
    fn image(&self, bundle: &Bundle) -> String {
        format!("{}-{}:v{}", self.namespace, bundle.entry.package, bundle.entry.version)
    }

    /// The image of a catalog with these bundles, which are pushed too.
    pub(crate) async fn catalog(&self, bundles: &[Bundle], tag: &str) -> Result<String> {
        let mut entries = Vec::new();
        for bundle in bundles {
            let image = self.world.images.push_made(bundle, &self.image(bundle)).await?;
            entries.push((bundle.entry.clone(), image));
        }
        self.world
            .images
            .push_catalog(&catalog::text(&entries), &format!("{}-catalog:{tag}", self.namespace))
            .await
    }

    /// Has the namespace see a catalog with these bundles.
    pub(crate) async fn offer(&self, bundles: &[Bundle]) -> Result<Source> {
        let image = self.catalog(bundles, "v1").await?;
        let spec = json!({"sourceType": "grpc", "image": image});
        let source = Source::create(&self.world.cluster, &self.namespace, CATALOG, json!({}), spec).await?;
        source.shows("READY", "", "True/Serving").await?;
        Ok(source)
    }

    /// Creates a Subscription of the package of its name, with these fields of its spec, and annotations.
    pub(crate) async fn subscribe_with(&self, name: &str, spec: Value, annotations: Value) -> Result<()> {
        let mut object = json!({
            "apiVersion": API, "kind": "Subscription",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"name": name, "source": CATALOG, "sourceNamespace": self.namespace},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        self.api::<Subscription>().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    pub(crate) async fn subscribe(&self, name: &str, spec: Value) -> Result<()> {
        self.subscribe_with(name, spec, json!({})).await
    }

    pub(crate) async fn status(&self, name: &str) -> Result<SubscriptionStatus> {
        Ok(self.api::<Subscription>().get(name).await?.status.unwrap_or_default())
    }

    /// Status, reason and message of a condition, as `status/reason message`.
    pub(crate) async fn condition(&self, name: &str, type_: &str) -> Result<Option<String>> {
        let found = self.status(name).await?.conditions.into_iter().find(|one| one.type_ == type_);
        Ok(found.map(|one| {
            let text = |text: Option<String>| text.unwrap_or_default();
            format!("{}/{} {}", one.status, text(one.reason), text(one.message))
        }))
    }

    /// Waits until a condition begins so; answers all of it.
    pub(crate) async fn shows(&self, name: &str, type_: &str, wanted: &str) -> Result<String> {
        wait::until(&format!("{type_} of {}/{name} to be {wanted}", self.namespace), DEADLINE, async || {
            let found = self.condition(name, type_).await?.unwrap_or_default();
            wait::check(found.starts_with(wanted), || format!("it is {found:?}"))?;
            Ok(found)
        })
        .await
    }

    /// Waits until state, current and installed version are these.
    pub(crate) async fn is(&self, name: &str, wanted: [&str; 3]) -> Result<SubscriptionStatus> {
        wait::until(&format!("{}/{name} to be {wanted:?}", self.namespace), DEADLINE, async || {
            let status = self.status(name).await?;
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let found = [text(&status.state), text(&status.current_csv), text(&status.installed_csv)];
            wait::check(found == wanted, || format!("it is {found:?}: {:?}", status.conditions))?;
            Ok(status)
        })
        .await
    }

    /// The InstallPlan that a Subscription names.
    pub(crate) async fn plan(&self, name: &str) -> Result<InstallPlan> {
        let reference = self.status(name).await?.install_plan_ref.and_then(|one| one.name);
        Ok(self.api::<InstallPlan>().get(&reference.context("no InstallPlan")?).await?)
    }

    pub(crate) async fn plans(&self) -> Result<Vec<InstallPlan>> {
        Ok(self.api::<InstallPlan>().list(&ListParams::default()).await?.items)
    }

    /// Creates a ClusterServiceVersion without a Subscription.
    pub(crate) async fn csv(&self, name: &str, replaces: &str, properties: Option<&str>) -> Result<()> {
        let version = name.split_once(".v").map_or("0.0.0", |(_, version)| version);
        let modes = json!([{"type": "AllNamespaces", "supported": true}]);
        let mut object = csv::csv(name, &json!({"version": version, "installModes": modes}));
        if let Some(text) = properties {
            object["metadata"]["annotations"] = json!({"operatorframework.io/properties": text});
        }
        if !replaces.is_empty() {
            object["spec"]["replaces"] = replaces.into();
        }
        self.api::<ClusterServiceVersion>().make(object).await.map(drop)
    }

    /// Waits until a Subscription has a version installed; its InstallPlan.
    pub(crate) async fn install(&self, name: &str, csv: &str) -> Result<InstallPlan> {
        wait::until(&format!("{csv} to be installed"), DEADLINE, async || {
            let status = self.status(name).await?;
            wait::check(status.installed_csv.as_deref() == Some(csv), || format!("{status:?}"))
        })
        .await?;
        self.plan(name).await
    }
}
