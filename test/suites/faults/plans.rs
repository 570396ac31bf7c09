//! A Subscription of OLM Classic with a dependency, through all writes until both operators are installed and removed: the
//! program, with all its roles, is killed before and after each of them. Each life ends as the undisturbed one.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use olm_api_classic::{ClusterServiceVersion, InstallPlan, OperatorGroup, Subscription};
use olm_test::{
    catalog,
    classic::{Classic, Source, USER, install},
    instance::Instance,
    operator::GROUPS,
    prelude::*,
    proxy::{Blow, Proxy},
};
use regex::Regex;

use crate::{
    lives::{Life, Lives, State, objects, without},
    snapshot::Kind,
};

const HOME: &str = "plan-home";
const GROUP: &str = "plan-faults.example.com";
const CATALOG: &str = "cat";
const CSVS: [&str; 2] = ["lamp.v1.0.0", "plug.v1.0.0"];
const CRDS: [&str; 2] = ["lamps.plan-faults.example.com", "plugs.plan-faults.example.com"];

/// Longest time in which the API server removes CRDs: it fails again and again.
const CRDS_REMOVED: Duration = Duration::from_mins(3);

/// Everything that the operators leave, and the CatalogSource.
const KINDS: [Kind; 16] = [
    ("v1", "Namespace", "namespaces"),
    ("v1", "ConfigMap", "configmaps"),
    ("v1", "Secret", "secrets"),
    ("v1", "Service", "services"),
    ("v1", "ServiceAccount", "serviceaccounts"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings"),
    ("rbac.authorization.k8s.io/v1", "Role", "roles"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
    ("operators.coreos.com/v1alpha1", "CatalogSource", "catalogsources"),
    ("operators.coreos.com/v1alpha1", "Subscription", "subscriptions"),
    ("operators.coreos.com/v1alpha1", "InstallPlan", "installplans"),
    ("operators.coreos.com/v1alpha1", "ClusterServiceVersion", "clusterserviceversions"),
    ("operators.coreos.com/v1", "OperatorGroup", "operatorgroups"),
    ("operators.coreos.com/v2", "OperatorCondition", "operatorconditions"),
];

/// Fields that differ from life to life: times, and what the API server counts.
const FLEETING: [&str; 10] = [
    "clusterIP",
    "clusterIPs",
    "creationTimestamp",
    "generation",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastUpdated",
    "managedFields",
    "resourceVersion",
    "startTime",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Install,
    Remove,
}

/// A namespace with an OperatorGroup and a catalog, and the program behind the proxy. The fields are dropped in this order.
struct Place {
    classic: Classic,
    proxy: Proxy,
    subscriptions: Api<Subscription>,
    plans: Api<InstallPlan>,
    csvs: Api<ClusterServiceVersion>,
    crds: Api<CustomResourceDefinition>,
    client: Client,
    site: Site,
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_write_a_subscription_ends_the_same() -> Result<()> {
    if !olm_test::long::wanted() {
        return Ok(());
    }
    Lives::of(Place::start().await?).await?.strike().await
}

impl Place {
    async fn start() -> Result<Self> {
        let site = Site::start_on(Options { nodes: 1, ..Options::default() }).await?;
        install(&site.cluster)?;
        site.cluster.create_namespace(HOME).await?;
        let proxy = Proxy::start(&site.cluster.kubeconfig_for(USER, &GROUPS)?).await?;
        let kubeconfig = format!("--kubeconfig={}", proxy.kubeconfig().display());
        let classic = Classic::start(&site.cluster, &site.images.settings(&[]).arg(kubeconfig)).await?;
        let client = site.cluster.client().await?;
        let group = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "group"}, "spec": {},
        });
        Api::<OperatorGroup>::namespaced(client.clone(), HOME).make(group).await?;
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        let permitted = |bundle: Bundle, account: &str| {
            let account = json!(account);
            bundle.rules("permissions", &account, &rules).rules("clusterPermissions", &account, &rules)
        };
        let plug = json!({"group": GROUP, "version": "v1", "kind": "Plug"});
        let lamp = small("lamp", "1.0.0").brings(GROUP, "Lamp").property("olm.gvk.required", plug);
        let bundles =
            [permitted(lamp, "lamp"), permitted(small("plug", "1.0.0").brings(GROUP, "Plug"), "plug")];
        let mut entries = Vec::new();
        for bundle in &bundles {
            let name = format!("{}:v1", bundle.entry.package);
            entries.push((bundle.entry.clone(), site.images.push_made(bundle, &name).await?));
        }
        let image = site.images.push_catalog(&catalog::text(&entries), "catalog:v1").await?;
        let spec = json!({"sourceType": "grpc", "image": image});
        let source = Source::create(&site.cluster, HOME, CATALOG, json!({}), spec).await?;
        source.shows("READY", "", "True/Serving").await?;
        Ok(Self {
            subscriptions: Api::namespaced(client.clone(), HOME),
            plans: Api::namespaced(client.clone(), HOME),
            csvs: Api::namespaced(client.clone(), HOME),
            crds: Api::all(client.clone()),
            classic,
            proxy,
            client,
            site,
        })
    }

    /// Removes everything but the catalog and the OperatorGroup, as far as it is there.
    async fn remove(&self) -> Result<()> {
        for subscription in self.subscriptions.all().await? {
            delete(&self.subscriptions, &subscription.name_any()).await?;
        }
        for name in CSVS {
            delete(&self.csvs, name).await?;
        }
        for name in CRDS {
            delete(&self.crds, name).await?;
        }
        Ok(())
    }

    /// One look whether both operators are installed.
    async fn is_installed(&self) -> Result<()> {
        let subscriptions = self.subscriptions.all().await?;
        let installed: BTreeSet<_> = subscriptions
            .iter()
            .filter_map(|one| {
                let status = one.status.as_ref()?;
                let is_ready =
                    status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
                status.installed_csv.clone().filter(|_| is_ready)
            })
            .collect();
        wait::check(installed.iter().eq(CSVS), || {
            let statuses = subscriptions.iter().map(|one| &one.status);
            format!("{:?}", statuses.collect::<Vec<_>>())
        })
    }

    /// Changes a CRD that is being deleted, so that the API server tries again to remove its finalizer: after some failures, of
    /// which it has many with one that is made and removed again and again ("storage is (re)initializing"), it waits for
    /// minutes.
    async fn wake_finalizer(&self, name: &str) {
        let patch = json!({"metadata": {"annotations": {"test": fastrand::u32(..).to_string()}}});
        // It may be gone.
        let _ = self.crds.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    }

    /// One look whether nothing that a person sees is left of them.
    async fn is_removed(&self) -> Result<()> {
        let mut left: Vec<String> =
            self.subscriptions.all().await?.iter().map(ResourceExt::name_any).collect();
        left.extend(self.plans.all().await?.iter().map(ResourceExt::name_any));
        left.extend(self.csvs.all().await?.iter().map(ResourceExt::name_any));
        let crds = self.crds.all().await?;
        for crd in crds.iter().filter(|crd| CRDS.contains(&crd.name_any().as_str())) {
            if crd.metadata.deletion_timestamp.is_some() {
                self.wake_finalizer(&crd.name_any()).await;
            }
            left.push(crd.name_any());
        }
        // Operators list what belongs to them; a start would correct a list that is out of date.
        let operators = resource("operators.coreos.com/v1", "Operator", "operators");
        for operator in Api::<DynamicObject>::all_with(self.client.clone(), &operators).all().await? {
            let listed = operator.data["status"]["components"]["refs"].as_array().map_or(0, Vec::len);
            left.extend(
                (listed > 0).then(|| format!("{listed} objects of Operator {}", operator.name_any())),
            );
        }
        wait::check(left.is_empty(), || format!("{left:?}"))
    }
}

impl Life for Place {
    type Stage = Stage;

    const BLOWS: &'static [Blow] = &[Blow::Before, Blow::After];
    const SAMPLE: usize = 6;
    const ALL_FALL: bool = false;

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Install, Stage::Remove]
    }

    fn cluster(&self) -> &Cluster {
        &self.site.cluster
    }

    fn program(&self) -> &Instance {
        &self.classic
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    async fn ask(&self, stage: Stage) -> Result<()> {
        if stage == Stage::Remove {
            return self.remove().await;
        }
        let subscription = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": "lamp"},
            "spec": {"name": "lamp", "source": CATALOG, "sourceNamespace": HOME},
        });
        self.subscriptions.make(subscription).await.map(drop)
    }

    async fn is_over(&self, stage: Stage) -> Result<()> {
        match stage {
            Stage::Install => self.is_installed().await,
            Stage::Remove => self.is_removed().await,
        }
    }

    async fn is_collected(&self, stage: Stage) -> Result<()> {
        let mut left: Vec<String> = self.state().await?.into_keys().collect();
        left.retain(|id| stage == Stage::Remove && (id.contains("lamp") || id.contains("plug")));
        wait::check(left.is_empty(), || format!("{left:?}"))
    }

    fn deadline(&self, stage: Stage) -> Duration {
        if stage == Stage::Remove { CRDS_REMOVED } else { DEADLINE * 2 }
    }

    async fn state(&self) -> Result<State> {
        objects(&self.client, &KINDS, is_of_place, normal).await
    }

    async fn clear(&self) -> Result<()> {
        wait::until("the operators to be gone", CRDS_REMOVED, async || {
            self.remove().await?;
            self.is_removed().await
        })
        .await
    }
}

/// Deletes an object that may be gone. The API server refuses to if the object is written at the same time.
async fn delete<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    wait::until(&format!("{name} to be deleted"), DEADLINE, async || {
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => answer.map(drop).map_err(Into::into),
        }
    })
    .await
}

fn is_of_place(object: &DynamicObject) -> bool {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let of_group = || name.contains("lamp") || name.contains("plug");
    namespace == HOME
        || namespace.is_empty() && (name == HOME || of_group() || name.starts_with("olm.og.group."))
}

/// An object as it is compared.
fn normal(object: &Value) -> Value {
    // A plan's name is made of the UIDs of its Subscriptions.
    let name = Regex::new("install-[a-z0-9]{5}").expect("a pattern");
    let text = name.replace_all(&object.to_string(), "install-PLAN").into_owned();
    let mut object =
        without(&serde_json::from_str(&text).expect("JSON in which only texts changed"), &FLEETING);
    match object["kind"].as_str().unwrap_or_default() {
        "InstallPlan" => {
            for step in object["status"]["plan"].as_array_mut().into_iter().flatten() {
                // A step that was carried out before the program was killed finds its object.
                if step["status"] == "Created" {
                    step["status"] = "Present".into();
                }
            }
            if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
                // They stand in the order in which they were first reported.
                conditions.sort_by_key(|condition| condition["type"].to_string());
                // The seal covers the UID of the plan.
                for condition in conditions.iter_mut().filter(|condition| condition["type"] == "Sealed") {
                    condition["message"] = Value::Null;
                }
            }
        }
        // They are a history: a phase that was reported before the program was killed may be in it twice.
        "ClusterServiceVersion" => object["status"]["conditions"] = Value::Null,
        "Secret" => {
            let names = object["data"].as_object().map(|data| data.keys().cloned().collect::<Vec<_>>());
            object["data"] = json!(names);
        }
        _ => {}
    }
    object
}
