//! A cluster whose Deployments run, the part of olm-classic that installs operators, and operators in it.

use k8s_openapi::{api::apps::v1::Deployment, kube_aggregator::pkg::apis::apiregistration::v1::APIService};
use olm_api_classic::{ClusterServiceVersion, OperatorGroup};
use olm_test::{
    bundle,
    classic::{Classic, csv, install},
    instance::Settings,
    kubectl::kubectl_with,
    prelude::*,
};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// What tests of operators share.
pub(crate) struct Operators {
    pub(crate) cluster: Cluster,
    pub(crate) classic: Classic,
}

impl Operators {
    async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options { nodes: 1, ..Options::default() }).await?;
        install(&cluster)?;
        // Namespaces are not deleted while an API does not answer, and nothing serves PackageManifests here.
        let services: Api<APIService> = Api::all(cluster.client().await?);
        services.delete("v1.packages.operators.coreos.com", &DeleteParams::default()).await?;
        let classic = Classic::start(&cluster, &Settings::default().arg("--role=olm")).await?;
        Ok(Self { cluster, classic })
    }

    pub(crate) async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Operators> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// Another cluster for tests that change what all operators see, one at a time.
    pub(crate) async fn alone() -> Result<MutexGuard<'static, Self>> {
        static ALONE: OnceCell<Mutex<Operators>> = OnceCell::const_new();
        let world = ALONE.get_or_try_init(|| async { Self::start().await.map(Mutex::new) }).await?;
        Ok(world.lock().await)
    }

    /// A namespace that no other test uses.
    pub(crate) async fn place(&self, base: &str) -> Result<Place> {
        let namespace = unique_name(base);
        self.cluster.create_namespace(&namespace).await?;
        let client = self.cluster.client().await?;
        Ok(Place {
            csvs: Api::namespaced(client.clone(), &namespace),
            groups: Api::namespaced(client.clone(), &namespace),
            deployments: Api::namespaced(client.clone(), &namespace),
            client,
            namespace,
        })
    }
}

/// Creates a ServiceAccount `runner` in the place, to which this rule applies.
pub(crate) fn create_runner(cluster: &Cluster, place: &Place, rule: &Value) -> Result<()> {
    let name = json!({"name": "runner", "namespace": place.namespace});
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": name},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": name, "rules": [rule]},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": name,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "runner"},
            "subjects": [{"kind": "ServiceAccount", "name": "runner", "namespace": place.namespace}],
        },
    ]});
    kubectl_with(cluster, &["create", "-f", "-"], objects.to_string().as_bytes()).map(drop)
}

/// A namespace with operators.
pub(crate) struct Place {
    pub(crate) namespace: String,
    pub(crate) client: Client,
    pub(crate) csvs: Api<ClusterServiceVersion>,
    pub(crate) groups: Api<OperatorGroup>,
    pub(crate) deployments: Api<Deployment>,
}

/// A Deployment of a strategy.
pub(crate) fn deployment(name: &str) -> Value {
    csv::deployment(name, 1)
}

impl Place {
    /// Creates a group with this spec.
    pub(crate) async fn group(&self, spec: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "g"}, "spec": spec,
        });
        self.groups.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Creates an operator with one Deployment of its name, and these fields of the spec.
    pub(crate) async fn operator(&self, name: &str, fields: Value) -> Result<()> {
        let mut all = json!({"install": csv::strategy(&[deployment(&name.replace('.', "-"))], &json!([]))});
        for (key, value) in fields.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        self.csvs.make(csv::csv(name, &all)).await.map(drop)
    }

    /// Waits until phase and reason of an operator are these; answers the object.
    pub(crate) async fn shows(&self, name: &str, wanted: &str) -> Result<ClusterServiceVersion> {
        wait::until(&format!("{name} to be {wanted}"), DEADLINE, || async {
            let csv = self.csvs.get(name).await?;
            let found = state(&csv);
            let message = csv.status.as_ref().and_then(|status| status.message.clone());
            wait::check(found == wanted, || format!("it is {found}: {message:?}"))?;
            Ok(csv)
        })
        .await
    }

    /// Waits until an operator is gone.
    pub(crate) async fn gone(&self, name: &str) -> Result<()> {
        self.csvs.gone(name).await
    }

    /// The annotation with the APIs of the group.
    pub(crate) async fn provided(&self) -> Result<String> {
        let group = self.groups.get("g").await?;
        Ok(group.annotations().get("olm.providedAPIs").cloned().unwrap_or_default())
    }
}

/// `Phase/Reason`.
pub(crate) fn state(csv: &ClusterServiceVersion) -> String {
    let status = csv.status.clone().unwrap_or_default();
    format!("{}/{}", status.phase.unwrap_or_default(), status.reason.unwrap_or_default())
}

/// The part of a spec that says that the operator provides a kind of a CustomResourceDefinition.
pub(crate) fn provides(plural: &str, kind: &str) -> Value {
    json!({"customresourcedefinitions": {"owned": [
        {"name": format!("{plural}.operators.example.com"), "version": "v1", "kind": kind},
    ]}})
}

/// Creates that CustomResourceDefinition.
pub(crate) fn define(cluster: &Cluster, plural: &str, kind: &str) -> Result<()> {
    let mut crd = bundle::open_crd("operators.example.com", kind);
    crd["metadata"]["name"] = format!("{plural}.operators.example.com").into();
    crd["spec"]["names"]["plural"] = plural.into();
    let apply = ["apply", "--server-side", "-f", "-"];
    kubectl_with(cluster, &apply, crd.to_string().as_bytes()).map(drop)
}
