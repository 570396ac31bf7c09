//! The shared cluster with our program in it, and what a test does with it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, ensure};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use olm_api::{
    ConditionType,
    names::{
        BUNDLE_VERSION, CATALOG_NAME_LABEL, SERVICE_ACCOUNT_NAME_ANNOTATION,
        SERVICE_ACCOUNT_NAMESPACE_ANNOTATION,
    },
    v1::{ClusterCatalog, ClusterExtension},
};
use olm_test::{
    cluster::{Cluster, Options, inventory, unique_name},
    images::{Images, bundle_files, catalog},
    operator::Operator,
    registry::Registry,
    rights::{create_account, grant, rules_for},
    wait,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};

/// For anything that should happen by itself. Generous: two cores run a whole control plane.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);
/// For what the cluster's garbage collector does: it learns of new kinds every 30 s only, and goes slower after
/// a miss.
pub(crate) const COLLECTED: Duration = Duration::from_mins(6);
/// The API group of the sample operator as it is shipped.
const SAMPLE_GROUP: &str = "lighthouse.example.com";
/// The account that installs.
pub(crate) const ACCOUNT: &str = "installer";

/// Held by whoever installs strimzi-kafka-operator: its CRDs can be there once only.
pub(crate) static STRIMZI: Mutex<()> = Mutex::const_new(());

/// A control plane, a registry, and our program.
pub(crate) struct World {
    pub(crate) operator: Operator,
    pub(crate) images: Images,
    pub(crate) cluster: Cluster,
    pub(crate) registry: Registry,
}

impl World {
    pub(crate) async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// With further flags of the program.
    pub(crate) async fn start_with(flags: &[&str]) -> Result<Self> {
        Self::start_as(Options::default(), flags).await
    }

    /// On a cluster of its own kind.
    pub(crate) async fn start_on(options: Options) -> Result<Self> {
        Self::start_as(options, &[]).await
    }

    async fn start_as(options: Options, flags: &[&str]) -> Result<Self> {
        let (cluster, registry) = (Cluster::start(options).await?, Registry::start()?);
        let images = Images::new(&registry)?;
        let operator = Operator::start(&cluster, &images, flags).await?;
        Ok(Self { operator, images, cluster, registry })
    }

    pub(crate) async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<World> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }
}

/// The folder with real bundles, or `None`, said on standard output.
pub(crate) fn real_bundles() -> Option<PathBuf> {
    olm_test::data::folder("bundles")
}

/// The sample bundles that are part of the project.
pub(crate) fn sample_bundle(version: &str) -> PathBuf {
    samples().join(version)
}

fn samples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../config/samples/lighthouse/bundles")
}

/// What an extension shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    pub(crate) version: Option<String>,
    pub(crate) generation_seen: bool,
    conditions: BTreeMap<String, (String, String, String)>,
}

impl Shown {
    /// `Status/Reason/Message` of a condition, or nothing.
    pub(crate) fn condition(&self, type_: ConditionType) -> String {
        self.conditions.get(type_.as_str()).map(|(s, r, m)| format!("{s}/{r}/{m}")).unwrap_or_default()
    }
}

/// One test's part of the world.
pub(crate) struct Scenario<'a> {
    pub(crate) world: &'a World,
    pub(crate) client: Client,
    pub(crate) name: String,
    /// Sample bundles whose CRD is this test's own.
    bundles: tempfile::TempDir,
}

impl<'a> Scenario<'a> {
    /// A namespace of its own.
    pub(crate) async fn new(world: &'a World, base: &str) -> Result<Self> {
        let name = unique_name(base);
        world.cluster.create_namespace(&name).await?;
        Ok(Self { world, client: world.cluster.client().await?, name, bundles: tempfile::tempdir()? })
    }

    /// Somebody with these rights in the whole cluster: their name and client. The authorizer learns of them by a watch.
    pub(crate) async fn user(&self, suffix: &str, rules: Value) -> Result<(String, Client)> {
        let name = format!("{}-{suffix}", self.name);
        let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": name}, "rules": rules}))?;
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        }))?;
        Api::all(self.client.clone()).create(&PostParams::default(), &role).await?;
        Api::all(self.client.clone()).create(&PostParams::default(), &binding).await?;
        let client = self.world.cluster.client_for(&name, &["system:authenticated"]).await?;
        Ok((name, client))
    }

    /// The API group of the sample operator in this test: a CRD has one owner, so each test has its own.
    pub(crate) fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    /// The sample bundle in `folder` with the test's own CRD; other bundles as they are.
    pub(crate) fn own(&self, folder: &Path) -> Result<PathBuf> {
        let Some(version) = folder.file_name().filter(|_| folder.starts_with(samples())) else {
            return Ok(folder.to_owned());
        };
        let own = self.bundles.path().join(version);
        for part in ["manifests", "metadata"] {
            fs::create_dir_all(own.join(part))?;
            for entry in fs::read_dir(folder.join(part))? {
                let entry = entry?;
                let text = fs::read_to_string(entry.path())?.replace(SAMPLE_GROUP, &self.group());
                fs::write(own.join(part).join(entry.file_name()), text)?;
            }
        }
        Ok(own)
    }

    /// Pushes bundles (folders by version) and a catalog of them as `<name>-catalog:<tag>`.
    pub(crate) async fn push(&self, package: &str, bundles: &[(&str, PathBuf)], tag: &str) -> Result<String> {
        self.push_catalog(&self.push_bundles(package, bundles).await?, tag).await
    }

    /// Pushes bundles (folders by version) and returns a catalog of them.
    pub(crate) async fn push_bundles(&self, package: &str, bundles: &[(&str, PathBuf)]) -> Result<String> {
        let mut pushed = Vec::new();
        for (version, folder) in bundles {
            // A version may hold characters that a tag may not.
            let image_tag = version.replace('+', "-");
            let image = self
                .world
                .images
                .push_bundle(&self.own(folder)?, &format!("{}/{package}:v{image_tag}", self.name))
                .await?;
            pushed.push((*version, image));
        }
        let listed: Vec<(&str, &str)> = pushed.iter().map(|(v, i)| (*v, i.as_str())).collect();
        Ok(catalog(package, &listed))
    }

    pub(crate) async fn push_catalog(&self, content: &str, tag: &str) -> Result<String> {
        self.world.images.push_catalog(content, &format!("{}-catalog:{tag}", self.name)).await
    }

    /// The tagged reference of the test's catalog image.
    pub(crate) fn catalog_image(&self, tag: &str) -> String {
        format!("{}/{}-catalog:{tag}", self.world.images.host(), self.name)
    }

    /// Annotations of a revision made by hand, of version 7.0.0, that acts as the account.
    pub(crate) fn by_hand(&self) -> Value {
        json!({
            SERVICE_ACCOUNT_NAME_ANNOTATION: ACCOUNT,
            SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: self.name,
            BUNDLE_VERSION: "7.0.0",
        })
    }

    pub(crate) async fn create_catalog(&self, reference: &str, poll_minutes: Option<u32>) -> Result<()> {
        let mut image = json!({"ref": reference});
        if let Some(minutes) = poll_minutes {
            image["pollIntervalMinutes"] = minutes.into();
        }
        let catalog: ClusterCatalog = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
            "metadata": {"name": self.name},
            "spec": {"source": {"type": "Image", "image": image}},
        }))?;
        Api::all(self.client.clone()).create(&PostParams::default(), &catalog).await?;
        Ok(())
    }

    pub(crate) async fn catalog_serves(&self) -> Result<()> {
        let api: Api<ClusterCatalog> = Api::all(self.client.clone());
        wait::until("the catalog to serve", DEADLINE, || async {
            self.world.operator.process().check_running()?;
            let status = api.get(&self.name).await?.status.unwrap_or_default();
            let told = status.conditions.find(ConditionType::Progressing).map(|c| c.message.clone());
            wait::check(status.conditions.is_true(ConditionType::Serving), || told.unwrap_or_default())
        })
        .await
    }

    /// A catalog of these bundles that serves, and an account with exactly the rights for them.
    pub(crate) async fn prepare(&self, package: &str, bundles: &[(&str, PathBuf)]) -> Result<()> {
        let reference = self.push(package, bundles, "latest").await?;
        self.create_catalog(&reference, None).await?;
        create_account(&self.client, &self.name, ACCOUNT).await?;
        self.grant(bundles).await?;
        self.catalog_serves().await
    }

    pub(crate) async fn grant(&self, bundles: &[(&str, PathBuf)]) -> Result<()> {
        let files: Vec<_> =
            bundles.iter().map(|(_, folder)| bundle_files(&self.own(folder)?)).collect::<Result<_>>()?;
        grant(&self.client, &self.name, ACCOUNT, &rules_for(&files, &self.name)?).await
    }

    /// The test's extension: `package` from its own catalog, with further fields of `source.catalog`.
    pub(crate) async fn create_extension(&self, package: &str, filter: Value) -> Result<()> {
        let mut catalog = json!({
            "packageName": package,
            "selector": {"matchLabels": {CATALOG_NAME_LABEL: self.name}},
        });
        if let (Some(catalog), Some(filter)) = (catalog.as_object_mut(), filter.as_object()) {
            catalog.extend(filter.clone());
        }
        let extension: ClusterExtension = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": self.name},
            "spec": {
                "namespace": self.name,
                "serviceAccount": {"name": ACCOUNT},
                "source": {"sourceType": "Catalog", "catalog": catalog},
            },
        }))?;
        self.extensions().create(&PostParams::default(), &extension).await?;
        Ok(())
    }

    pub(crate) async fn patch_extension(&self, patch: Value) -> Result<()> {
        self.extensions().patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    pub(crate) async fn set_version(&self, version: &str) -> Result<()> {
        self.patch_extension(json!({"spec": {"source": {"catalog": {"version": version}}}})).await
    }

    pub(crate) fn extensions(&self) -> Api<ClusterExtension> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn shown(&self) -> Result<Shown> {
        let extension = self.extensions().get(&self.name).await?;
        let generation = extension.metadata.generation;
        let status = extension.status.unwrap_or_default();
        Ok(Shown {
            version: status.install.as_ref().map(|i| i.bundle.version.clone()),
            generation_seen: status
                .conditions
                .find(ConditionType::Progressing)
                .is_some_and(|c| c.observed_generation == generation),
            conditions: status
                .conditions
                .iter()
                .map(|c| (c.type_.clone(), (c.status.clone(), c.reason.clone(), c.message.clone())))
                .collect(),
        })
    }

    /// Waits until the version is installed and everything is ready.
    pub(crate) async fn installed(&self, version: &str) -> Result<()> {
        wait::until(&format!("{} to be installed at {version}", self.name), DEADLINE, || async {
            self.world.operator.process().check_running()?;
            let shown = self.shown().await?;
            ensure!(
                shown.version.as_deref() == Some(version)
                    && shown.generation_seen
                    && shown.condition(ConditionType::Ready).starts_with("True/"),
                "{shown:?}"
            );
            Ok(())
        })
        .await
    }

    /// Waits until a condition is as wanted: `Status/Reason/beginning of the message`.
    pub(crate) async fn shows(&self, type_: ConditionType, wanted: &str) -> Result<()> {
        wait::until(&format!("{type_} to be {wanted}"), DEADLINE, || async {
            self.world.operator.process().check_running()?;
            let shown = self.shown().await?;
            let found = shown.condition(type_);
            ensure!(found.starts_with(wanted), "{type_} is {found}");
            Ok(())
        })
        .await
    }

    pub(crate) async fn delete_extension(&self) -> Result<()> {
        self.extensions().delete(&self.name, &DeleteParams::default()).await?;
        wait::until("the extension to be gone", DEADLINE, || async {
            wait::check(self.extensions().get_opt(&self.name).await?.is_none(), || "it is still there".into())
        })
        .await
    }

    /// Every object in the cluster that carries the extension's owner label, as `<Kind> <namespace>/<name>`.
    pub(crate) async fn owned(&self) -> Result<Vec<String>> {
        let label = format!("olm.operatorframework.io/owner-name={}", self.name);
        let found = inventory(&self.client, &ListParams::default().labels(&label)).await?;
        let told = |(kind, item): (String, ObjectMeta)| {
            let (namespace, name) = (item.namespace.unwrap_or_default(), item.name.unwrap_or_default());
            let going = item.deletion_timestamp.map(|at| format!(" (deleted at {})", at.0));
            format!("{kind} {namespace}/{name}{}", going.unwrap_or_default())
        };
        let mut owned: Vec<String> = found.into_iter().map(told).collect();
        owned.sort_unstable();
        owned.dedup();
        Ok(owned)
    }

    /// Waits until nothing of the extension is left.
    pub(crate) async fn nothing_left(&self) -> Result<()> {
        wait::until("everything of the extension to be gone", COLLECTED, || async {
            let owned = self.owned().await?;
            wait::check(owned.is_empty(), || format!("left: {owned:?}"))
        })
        .await
    }
}
