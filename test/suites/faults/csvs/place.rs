//! Where operators of OLM Classic live: two namespaces, the program behind the proxy, and what is there when nothing
//! happens any more.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use olm_api_classic::{ClusterServiceVersion, OperatorGroup};
use olm_test::{
    classic::{Classic, USER, install},
    instance::Settings,
    operator::GROUPS,
    prelude::*,
    proxy::Proxy,
};
use regex::Regex;

use crate::snapshot::Id;

pub(crate) const HOME: &str = "csv-home";
const SERVED: &str = "csv-served";
const KIND: &str = "Beacon";
const CRD: &str = "beacons.csv-faults.example.com";

/// Group, version, kind and plural of everything that operators leave.
const KINDS: [(&str, &str, &str, &str); 13] = [
    ("", "v1", "Namespace", "namespaces"),
    ("", "v1", "Secret", "secrets"),
    ("", "v1", "Service", "services"),
    ("apps", "v1", "Deployment", "deployments"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", "clusterserviceversions"),
    ("operators.coreos.com", "v1", "OperatorGroup", "operatorgroups"),
    ("operators.coreos.com", "v2", "OperatorCondition", "operatorconditions"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
];
/// Fields, labels and annotations that differ from life to life: times, addresses, certificates and what follows from these.
const FLEETING: [&str; 14] = [
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
    _cluster: Cluster,
}

impl Place {
    pub(crate) async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options { nodes: 1, ..Options::default() }).await?;
        install(&cluster)?;
        for namespace in [HOME, SERVED] {
            cluster.create_namespace(namespace).await?;
        }
        cluster.apply_crds(vec![serde_json::from_value(crd())?]).await?;
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
            _cluster: cluster,
        };
        place.bind().await?;
        Ok(place)
    }

    /// Kills the program and starts it again.
    pub(crate) async fn restart(&self) -> Result<()> {
        self.classic.process().kill()?;
        // What was stopped shall not reach the cluster after the death of who sent it.
        self.proxy.thaw();
        self.classic.process().restart()?;
        self.classic.ready().await
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
        let group = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "group"},
            "spec": {"targetNamespaces": [HOME, SERVED]},
        });
        self.groups.make(group).await.map(drop)
    }

    /// Creates a version with an API, a webhook and permissions.
    pub(crate) async fn operator(&self, version: u32, replaces: Option<&str>) -> Result<()> {
        let name = format!("beacon-{version}");
        let labels = json!({"app": name});
        let deployment = json!({"name": name, "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "node.local/pause:1"}]},
        }}});
        let webhook = json!({
            "type": "ValidatingAdmissionWebhook", "generateName": "beacon.example.com", "deploymentName": name,
            "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"], "containerPort": 443,
            "rules": [{"apiGroups": ["csv-faults.example.com"], "apiVersions": ["v1"], "resources": ["beacons"],
                "operations": ["CREATE"]}],
        });
        let mut csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("beacon.v{version}")},
            "spec": {
                "displayName": "beacon",
                "installModes": [{"type": "OwnNamespace", "supported": true}, {"type": "MultiNamespace", "supported": true}],
                "customresourcedefinitions": {"owned": [{"name": CRD, "version": "v1", "kind": KIND}]},
                "webhookdefinitions": [webhook],
                "install": {"strategy": "deployment", "spec": {
                    "deployments": [deployment],
                    "permissions": [{"serviceAccountName": "default", "rules": [rule()]}],
                }},
            },
        });
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
    pub(crate) async fn is_collected(&self, versions: &[u32]) -> Result<()> {
        let names: Vec<String> =
            versions.iter().flat_map(|one| [format!("/beacon-{one}"), format!("/beacon.v{one}")]).collect();
        let mut left: Vec<Id> = self.snapshot().await?.into_keys().collect();
        left.retain(|id| names.iter().any(|name| id.contains(name.as_str())));
        wait::check(left.is_empty(), || format!("{left:?}"))
    }

    /// What there is, without what differs although nothing does.
    pub(crate) async fn snapshot(&self) -> Result<BTreeMap<Id, Value>> {
        let mut objects = BTreeMap::new();
        for (group, version, kind, plural) in KINDS {
            let api_version =
                if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
            let resource = ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version,
                kind: kind.to_owned(),
                plural: plural.to_owned(),
            };
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
            for object in api.all().await?.into_iter().filter(is_of_operators) {
                let namespace = object.namespace().unwrap_or_default();
                // Another webhook configuration in each life.
                let name = object.metadata.generate_name.clone().unwrap_or_else(|| object.name_any());
                let mut id = format!("{kind} {namespace}/{name}");
                while objects.contains_key(&id) {
                    id.push('+');
                }
                objects.insert(id, normal(&serde_json::to_value(&object)?));
            }
        }
        Ok(objects)
    }
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

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": CRD},
        "spec": {
            "group": "csv-faults.example.com", "scope": "Namespaced",
            "names": {"plural": "beacons", "singular": "beacon", "kind": KIND},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

/// An object as it is compared: of the status what the operator's state is, of Secrets the names of what is in them.
fn normal(object: &Value) -> Value {
    let uid = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").expect("a pattern");
    let text = uid.replace_all(&object.to_string(), "UID").into_owned();
    let mut object: Value = serde_json::from_str(&text).expect("JSON in which only texts changed");
    let status = object["status"].take();
    if let Some(data) = object["data"].as_object() {
        object["data"] = json!(data.keys().collect::<Vec<_>>());
    }
    if object["metadata"]["generateName"].is_string() {
        object["metadata"]["name"] = Value::Null;
    }
    strip(&mut object);
    let kept = ["phase", "reason", "message", "namespaces", "requirementStatus"];
    object["status"] = kept.iter().map(|field| ((*field).to_owned(), status[*field].clone())).collect();
    object
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !FLEETING.contains(&name.as_str()));
            fields.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}
