//! Where operators of OLM Classic live: two namespaces, the program behind the proxy, and what is there when nothing
//! happens any more.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use olm_api_classic::{ClusterServiceVersion, OperatorGroup};
use olm_test::{
    bundle::open_crd,
    classic::{
        Classic, USER,
        csv::{csv, deployment, strategy},
        install,
    },
    instance::Settings,
    operator::GROUPS,
    prelude::*,
    proxy::Proxy,
};

use crate::{
    lives::{State, objects, without},
    snapshot::{Kind, all_of},
};

pub(crate) const HOME: &str = "csv-home";
const SERVED: &str = "csv-served";
const KIND: &str = "Beacon";
const CRD: &str = "beacons.csv-faults.example.com";

/// Everything that operators leave.
const KINDS: [Kind; 13] = [
    ("v1", "Namespace", "namespaces"),
    ("v1", "Secret", "secrets"),
    ("v1", "Service", "services"),
    ("apps/v1", "Deployment", "deployments"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings"),
    ("rbac.authorization.k8s.io/v1", "Role", "roles"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ("operators.coreos.com/v1alpha1", "ClusterServiceVersion", "clusterserviceversions"),
    ("operators.coreos.com/v1", "OperatorGroup", "operatorgroups"),
    ("operators.coreos.com/v2", "OperatorCondition", "operatorconditions"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
];
/// API versions of which a random run loses objects.
const LOST: [&str; 4] = ["v1", "apps/v1", "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"];
/// Fields, labels and annotations that differ from life to life: times, addresses, certificates and what follows from these.
const FLEETING: [&str; 15] = [
    "caBundle",
    "clusterIP",
    "clusterIPs",
    "conditions",
    "creationTimestamp",
    "deployment.kubernetes.io/revision",
    "generation",
    "lastTransitionTime",
    "lastUpdateTime",
    "managedFields",
    "olm.deployment-spec-hash",
    "olm.webhook-description-hash",
    "olmcahash",
    "resourceVersion",
    "selfLink",
];

/// The place. The fields are dropped in this order.
pub(crate) struct Place {
    pub(crate) classic: Classic,
    pub(crate) proxy: Proxy,
    pub(crate) csvs: Api<ClusterServiceVersion>,
    pub(crate) groups: Api<OperatorGroup>,
    client: Client,
    pub(crate) cluster: Cluster,
}

impl Place {
    pub(crate) async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options { nodes: 1, ..Options::default() }).await?;
        install(&cluster)?;
        for namespace in [HOME, SERVED] {
            cluster.create_namespace(namespace).await?;
        }
        cluster.apply_crds(vec![serde_json::from_value(open_crd("csv-faults.example.com", KIND))?]).await?;
        let proxy = Proxy::start(&cluster.kubeconfig_for(USER, &GROUPS)?).await?;
        let kubeconfig = format!("--kubeconfig={}", proxy.kubeconfig().display());
        let settings = Settings::default().arg("--role=olm").arg(kubeconfig);
        let classic = Classic::start(&cluster, &settings).await?;
        let client = cluster.client().await?;
        let role = json!({"metadata": {"name": "runner"}, "rules": [rule()]});
        Api::<Role>::namespaced(client.clone(), HOME).make(role).await?;
        let place = Self {
            csvs: Api::namespaced(client.clone(), HOME),
            groups: Api::namespaced(client.clone(), HOME),
            classic,
            proxy,
            client,
            cluster,
        };
        place.bind().await?;
        Ok(place)
    }

    fn bindings(&self) -> Api<RoleBinding> {
        Api::namespaced(self.client.clone(), HOME)
    }

    /// Gives the operator's ServiceAccount its permission.
    pub(crate) async fn bind(&self) -> Result<()> {
        let binding = json!({
            "metadata": {"name": "runner"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "runner"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": HOME}],
        });
        self.bindings().make(binding).await.map(drop)
    }

    /// Takes it away.
    pub(crate) async fn unbind(&self) -> Result<()> {
        self.bindings().remove("runner").await
    }

    pub(crate) async fn group(&self) -> Result<()> {
        self.group_for(true).await
    }

    /// Creates the group for the operator's namespace, and another one too if it is `wide`.
    pub(crate) async fn group_for(&self, wide: bool) -> Result<()> {
        let group = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "group"},
            "spec": targets(wide),
        });
        self.groups.make(group).await.map(drop)
    }

    /// Changes the namespaces of the group.
    pub(crate) async fn retarget(&self, wide: bool) -> Result<()> {
        self.groups.merge("group", json!({"spec": targets(wide)})).await.map(drop)
    }

    /// Creates another group: with two no operator runs.
    pub(crate) async fn second_group(&self) -> Result<()> {
        let group = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "second"},
            "spec": targets(false),
        });
        self.groups.make(group).await.map(drop)
    }

    /// Deletes something that belongs to an operator, if there is something.
    pub(crate) async fn lose(&self, random: usize) -> Result<()> {
        let kinds: Vec<Kind> =
            KINDS.into_iter().filter(|(api_version, ..)| LOST.contains(api_version)).collect();
        let of_operator = |object: &DynamicObject| {
            let owners = object.owner_references();
            let is_owned = owners.iter().any(|owner| owner.kind == "ClusterServiceVersion");
            let by_label = object.labels().get("olm.owner.kind").map(String::as_str);
            is_of_operators(object) && (is_owned || by_label == Some("ClusterServiceVersion"))
        };
        let all = all_of(&self.client, &kinds).await?;
        let found: Vec<_> = all.into_iter().filter(|(_, object)| of_operator(object)).collect();
        if found.is_empty() {
            return Ok(());
        }
        let (kind, object) = &found[random % found.len()];
        let (api_version, kind, plural) =
            kinds.iter().find(|(_, known, _)| known == kind).context("a kind of the list")?;
        let resource = resource(api_version, kind, plural);
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), &namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let name = &object.name_any();
        // It may have gone with the operator meanwhile.
        drop(api.delete(name, &DeleteParams::default()).await);
        Ok(())
    }

    /// Waits until groups and operators are gone.
    pub(crate) async fn is_empty(&self) -> Result<()> {
        wait::until("the groups to be gone", DEADLINE, async || {
            let left = self.groups.all().await?.len();
            wait::check(left == 0, || format!("{left} of them"))?;
            self.is(&[]).await
        })
        .await
    }

    /// Creates a version with an API, a webhook and permissions.
    pub(crate) async fn operator(&self, version: u32, replaces: Option<&str>) -> Result<()> {
        let name = format!("beacon-{version}");
        let webhook = json!({
            "type": "ValidatingAdmissionWebhook", "generateName": "beacon.example.com", "deploymentName": name,
            "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"], "containerPort": 443,
            "rules": [{"apiGroups": ["csv-faults.example.com"], "apiVersions": ["v1"], "resources": ["beacons"],
                "operations": ["CREATE"]}],
        });
        let permissions = json!([{"serviceAccountName": "default", "rules": [rule()]}]);
        let fields = json!({
            "customresourcedefinitions": {"owned": [{"name": CRD, "version": "v1", "kind": KIND}]},
            "webhookdefinitions": [webhook],
            "install": strategy(&[deployment(&name, 0)], &permissions),
        });
        let mut csv = csv(&format!("beacon.v{version}"), &fields);
        if let Some(replaces) = replaces {
            csv["spec"]["replaces"] = replaces.into();
        }
        self.csvs.make(csv).await.map(drop)
    }

    /// One look whether the operators are these, each as `name Phase/Reason`.
    pub(crate) async fn is(&self, wanted: &[&str]) -> Result<()> {
        let text = |text: Option<String>| text.unwrap_or_default();
        let found: Vec<String> = self
            .csvs
            .all()
            .await?
            .into_iter()
            .map(|csv| {
                let name = csv.name_any();
                let status = csv.status.unwrap_or_default();
                format!("{name} {}/{}", text(status.phase), text(status.reason))
            })
            .collect();
        wait::check(found == wanted, || format!("{found:?}"))
    }

    /// One look whether Kubernetes has collected what belonged to versions that are gone.
    pub(crate) async fn are_collected(&self, gone: &[u32]) -> Result<()> {
        let of = |one: &u32| [format!("/beacon-{one}"), format!("/beacon.v{one}")];
        let names: Vec<String> = gone.iter().flat_map(of).collect();
        let mut left: Vec<String> = self.snapshot().await?.into_keys().collect();
        left.retain(|id| names.iter().any(|name| id.contains(name.as_str())));
        wait::check(left.is_empty(), || format!("{left:?}"))
    }

    /// What there is, without what differs although nothing does.
    pub(crate) async fn snapshot(&self) -> Result<State> {
        objects(&self.client, &KINDS, is_of_operators, normal).await
    }
}

fn targets(wide: bool) -> Value {
    let all: &[&str] = if wide { &[HOME, SERVED] } else { &[HOME] };
    json!({"targetNamespaces": all})
}

fn is_of_operators(object: &DynamicObject) -> bool {
    let namespace = object.namespace().unwrap_or_default();
    let places = [HOME, SERVED];
    let is_labelled = || object.labels().keys().any(|label| label.starts_with("olm."));
    let is_role_of_api = || object.owner_references().iter().any(|owner| owner.name == CRD);
    places.contains(&namespace.as_str())
        || namespace == "kube-system" && is_labelled()
        || namespace.is_empty()
            && (places.contains(&object.name_any().as_str()) || is_labelled() || is_role_of_api())
}

fn rule() -> Value {
    json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]})
}

/// An object as it is compared: of the status what the operator's state is, of Secrets the names of what is in them.
fn normal(object: &Value) -> Value {
    let mut object = without(object, &FLEETING);
    let status = object["status"].take();
    if let Some(data) = object["data"].as_object() {
        object["data"] = json!(data.keys().collect::<Vec<_>>());
    }
    if object["metadata"]["generateName"].is_string() {
        object["metadata"]["name"] = Value::Null;
    }
    let kept = ["phase", "reason", "message", "namespaces", "requirementStatus"];
    object["status"] = kept.iter().map(|field| ((*field).to_owned(), status[*field].clone())).collect();
    object
}
