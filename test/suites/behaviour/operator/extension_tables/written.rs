//! What goes into a revision: each kind into its phase, and nothing that no Secret holds.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Service;
use olm_api::names::{OBJECT_FIELD_MANAGER, PACKAGE_NAME, REVISION_NAME_LABEL};
use olm_object::ObjectKey;
use olm_objectset::unpack;
use olm_test::{bundle::webhook, cluster::AuditEvent, prelude::*};

use super::{rows, shows};

/// The phases of a revision and the objects of each, as they stand in its Secrets.
async fn written(client: &Client, set: &ClusterObjectSet) -> Result<Vec<(String, Vec<Value>)>> {
    let mut phases = Vec::new();
    for phase in &set.spec.phases {
        let mut objects = Vec::new();
        for object in &phase.objects {
            let place = object.ref_.as_ref().context("an object that is no reference")?;
            let secret = Api::<Secret>::namespaced(client.clone(), &place.namespace).get(&place.name).await?;
            let data = secret.data.unwrap_or_default();
            objects.push(unpack(&data.get(&place.key).context("its key")?.0)?);
        }
        phases.push((phase.name.clone(), objects));
    }
    Ok(phases)
}

/// The same with nothing but the kinds.
pub(crate) async fn kinds(client: &Client, set: &ClusterObjectSet) -> Result<Vec<(String, Vec<String>)>> {
    let kind = |object: &Value| object["kind"].as_str().unwrap_or_default().to_owned();
    let phases = written(client, set).await?;
    Ok(phases.into_iter().map(|(phase, objects)| (phase, objects.iter().map(kind).collect())).collect())
}

/// The form of [`kinds`] in which a test says what it wants.
pub(crate) fn wanted(phases: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let owned = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect();
    phases.iter().map(|(phase, kinds)| ((*phase).to_owned(), owned(kinds))).collect()
}

/// The phases that objects of a bundle can be in, and the kinds of this test's in each. A bundle may ship neither
/// namespaces nor storage; cert-manager's kinds stand in the test of its certificates.
const PHASES: [(&str, &[&str]); 11] = [
    ("policies", &["NetworkPolicy", "PodDisruptionBudget", "PriorityClass"]),
    ("identity", &["ServiceAccount"]),
    ("configuration", &["ConfigMap", "ConfigMap", "ConfigMap", "Secret"]),
    ("crds", &["CustomResourceDefinition"]),
    ("roles", &["ClusterRole", "Role"]),
    ("bindings", &["ClusterRoleBinding", "RoleBinding"]),
    ("infrastructure", &["Service", "Service"]),
    ("deploy", &["Deployment"]),
    ("scaling", &["VerticalPodAutoscaler"]),
    (
        "publish",
        &[
            "ConsoleCLIDownload",
            "ConsoleLink",
            "ConsolePlugin",
            "ConsoleQuickStart",
            "ConsoleYAMLSample",
            "PodMonitor",
            "PrometheusRule",
            "ServiceMonitor",
        ],
    ),
    ("admission", &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]),
];

/// Objects of every kind that a bundle may ship, in no order; those of the whole cluster are this scenario's alone.
fn shipped(scenario: &Scenario<'_>) -> Vec<Value> {
    let name = scenario.name.as_str();
    let rbac = "rbac.authorization.k8s.io";
    let role = json!({"apiGroup": rbac, "kind": "Role", "name": "shipped"});
    let subjects = json!([{"kind": "ServiceAccount", "name": "default", "namespace": name}]);
    let object = |api_version: &str, kind: &str, name: &str, rest: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        for (field, value) in rest.as_object().into_iter().flatten() {
            object[field] = value.clone();
        }
        object
    };
    let mut objects = vec![
        object(
            &format!("{rbac}/v1"),
            "RoleBinding",
            "shipped",
            json!({"roleRef": role, "subjects": subjects}),
        ),
        service(),
        object("v1", "ConfigMap", "b", json!({})),
        object("v1", "Secret", "a", json!({})),
        object("v1", "ConfigMap", "a", json!({})),
        object("scheduling.k8s.io/v1", "PriorityClass", name, json!({"value": 7})),
        object(&format!("{rbac}/v1"), "Role", "shipped", json!({"rules": []})),
        object("policy/v1", "PodDisruptionBudget", "shipped", json!({"spec": {"minAvailable": 0}})),
        object("networking.k8s.io/v1", "NetworkPolicy", "shipped", json!({"spec": {"podSelector": {}}})),
        object("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", "shipped", json!({})),
    ];
    for kind in ["ServiceMonitor", "PodMonitor", "PrometheusRule"] {
        objects.push(object("monitoring.coreos.com/v1", kind, "shipped", json!({})));
    }
    for kind in
        ["ConsoleYAMLSample", "ConsolePlugin", "ConsoleLink", "ConsoleQuickStart", "ConsoleCLIDownload"]
    {
        objects.push(object("console.openshift.io/v1", kind, name, json!({})));
    }
    objects
}

/// A Service with more in it than a bundle may say.
fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "shipped", "namespace": "elsewhere", "uid": "u", "finalizers": ["example.com/held"],
            "labels": {"team": "a"},
            "annotations": {"note": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": "u"}],
        },
        "spec": {"ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    })
}

/// What becomes of it in the revision, and in the cluster.
async fn only_what_a_bundle_may_say_is_left(
    scenario: &Scenario<'_>,
    set: &ClusterObjectSet,
    stored: &Value,
) -> Result<()> {
    let mut labels = json!({
        "team": "a", "olm.operatorframework.io/owner-kind": "ClusterExtension",
        "olm.operatorframework.io/owner-name": scenario.name,
    });
    let mut annotations = json!({
        "note": "b", "olm.operatorframework.io/bundle-version": "1.0.0",
        "olm.operatorframework.io/package-name": set.annotations()[PACKAGE_NAME],
    });
    let metadata =
        json!({"name": "shipped", "namespace": scenario.name, "labels": labels, "annotations": annotations});
    let spec = json!({"ports": [{"port": 80}]});
    let wanted = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
    ensure!(*stored == wanted, "{stored}");
    let services: Api<Service> = Api::namespaced(scenario.client.clone(), &scenario.name);
    let live = services.get("shipped").await?;
    let managers: Vec<_> = live.managed_fields().iter().filter_map(|entry| entry.manager.clone()).collect();
    ensure!(managers.contains(&OBJECT_FIELD_MANAGER.to_owned()), "{managers:?}");
    let live = serde_json::to_value(live)?;
    labels["app.kubernetes.io/managed-by"] = "olm.operatorframework.io".into();
    annotations["olm.operatorframework.io/revision"] = "1".into();
    let owner = json!([{
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "name": set.name_any(),
        "uid": set.uid(), "controller": true, "blockOwnerDeletion": true,
    }]);
    for (field, wanted) in [("labels", labels), ("annotations", annotations), ("ownerReferences", owner)] {
        ensure!(live["metadata"][field] == wanted, "{field}: {}", live["metadata"][field]);
    }
    ensure!(live["metadata"]["finalizers"].is_null(), "{live}");
    ensure!(live["status"]["loadBalancer"]["ingress"].is_null(), "{live}");
    Ok(())
}

/// The resource of a kind.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_is_in_its_phase_and_the_phases_are_rolled_out_in_order() -> Result<()> {
    let scenario = Scenario::shared("phases").await?;
    let package = format!("{}-op", scenario.name);
    let mut bundle = small(&package, "1.0.0").brings(&scenario.group(), "Beacon").deployment(true);
    for kind in ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook"] {
        let name = format!("{}.{package}.example.com", kind.to_lowercase());
        // There are no objects that it could be asked about.
        let rules = json!([{"apiGroups": [scenario.group()], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"]}]);
        bundle = bundle.webhook(webhook(kind, &name, &package, json!({"rules": rules})));
    }
    bundle = shipped(&scenario).into_iter().fold(bundle, Bundle::ships);
    scenario.offer(&[bundle]).await?;
    scenario.allow_everything().await?;
    let mark = scenario.world.cluster.audit_mark()?;
    scenario.install(&package, json!({}), "1.0.0").await?;

    let set = scenario.revisions().await?.remove(0);
    let found = kinds(&scenario.client, &set).await?;
    ensure!(found == wanted(&PHASES), "{found:?}");
    let phases = written(&scenario.client, &set).await?;
    let is_shipped = |object: &&Value| object["kind"] == "Service" && object["metadata"]["name"] == "shipped";
    let service = phases.iter().flat_map(|(_, objects)| objects).find(is_shipped).context("no Service")?;
    only_what_a_bundle_may_say_is_left(&scenario, &set, service).await?;
    let keys = |objects: &Vec<Value>| objects.iter().map(ObjectKey::of).collect::<Vec<_>>();
    let phases: Vec<Vec<ObjectKey>> = phases.iter().map(|(_, objects)| keys(objects)).collect();
    ensure!(phases.iter().all(|keys| keys.is_sorted()), "{phases:?}");

    // What the API server heard of: the CRD, then nothing of a phase before everything of the one before it.
    let crds = phases.iter().position(|keys| keys.iter().any(ObjectKey::is_crd)).context("no CRD")?;
    let account = format!("system:serviceaccount:{}:{ACCOUNT}", scenario.name);
    let phase_of = |event: &AuditEvent| {
        let is = |key: &ObjectKey| key.name == event.name && plural(&key.kind) == event.resource;
        phases.iter().position(|keys| keys.iter().any(is))
    };
    wait::until("the creation of everything to be in the audit log", DEADLINE, || async {
        let events = scenario.world.cluster.audit_events_since(mark)?;
        let created =
            |event: &&AuditEvent| event.verb == "create" && event.code == 201 && !event.is_dry_run();
        let ours = events.iter().filter(|event| event.user == account).filter(created);
        let order: Vec<usize> = ours.filter_map(phase_of).collect();
        let (first, others) = order.split_first().context("nothing yet")?;
        ensure!(*first == crds && !others.contains(&crds) && others.is_sorted(), "{order:?}");
        // Without what the cluster does not serve.
        let begun: BTreeSet<usize> = order.into_iter().collect();
        wait::check(begun == [0, 1, 2, 3, 4, 5, 6, 7, 10].into(), || format!("{begun:?}"))
    })
    .await?;
    scenario.uninstall().await
}

/// More than a Secret holds, of an object that the API server would take.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_no_secret_holds_is_told_and_other_content_goes_on() -> Result<()> {
    let scenario = Scenario::shared("heavy").await?;
    let package = format!("{}-op", scenario.name);
    let mut noise = vec![0; 1_000_000];
    fastrand::Rng::with_seed(7).fill(&mut noise);
    let heavy = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "weight"},
        "binaryData": {"noise": STANDARD.encode(&noise)},
    });
    let map = |name: &str, text: String| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}});
    let large = small(&package, "1.1.0").replaces("1.0.0");
    let large = large.ships(map("wide", "a".repeat(1_000_000)));
    let large = large.ships(map("x", "b".repeat(600_000))).ships(map("y", "c".repeat(600_000)));
    let bundles = [small(&package, "1.0.0").ships(heavy.clone()), large];
    scenario.offer(&bundles).await?;
    scenario.account_for(ACCOUNT, &[""], &["configmaps"]).await?;
    // It is no fault of the object.
    scenario
        .maps()
        .create(&PostParams { dry_run: true, ..PostParams::default() }, &serde_json::from_value(heavy)?)
        .await?;
    scenario.create_extension(&package, json!({"version": "1.0.0"})).await?;
    let begin = format!(
        "True/Retrying/error for resolved bundle \"{package}.v1.0.0\" with version \"1.0.0\": \
         packing objects into Secrets: object in phase 0 index 1 exceeds maximum Secret data size ("
    );
    scenario.shows(Progressing, &begin).await?;
    let told = scenario.shown().await?.condition(Progressing);
    let sizes = told.strip_prefix(&begin).context("another text")?;
    let bytes = sizes.strip_suffix(" bytes > 921600 bytes) even after compression").context(told.clone())?;
    let bytes: usize = bytes.parse()?;
    ensure!(bytes > 1_000_000, "{told}");
    shows(&scenario, &scenario.name, &rows([(Installed, "False/Failed/No bundle installed")])).await?;
    ensure!(scenario.revisions().await?.is_empty(), "a revision was made");
    scenario.upgrade("1.1.0").await?;
    large_content_is_spread(&scenario).await?;
    scenario.delete_extension().await
}

/// What is too large for a Secret is compressed, and what does not fit into one together lies in several.
async fn large_content_is_spread(scenario: &Scenario<'_>) -> Result<()> {
    let set = scenario.revisions().await?.remove(0);
    let found = kinds(&scenario.client, &set).await?;
    ensure!(found == wanted(&[("configuration", &["ConfigMap"; 4])]), "{found:?}");
    let secrets: Api<Secret> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let mine = ListParams::default().labels(&format!("{REVISION_NAME_LABEL}={}", set.name_any()));
    let mut packed = 0;
    let found = secrets.list(&mine).await?.items;
    for secret in &found {
        let data: Vec<_> = secret.data.iter().flatten().map(|(_, bytes)| &bytes.0).collect();
        let bytes: usize = data.iter().map(|bytes| bytes.len()).sum();
        ensure!(bytes <= 921_600, "{}: {bytes} bytes", secret.name_any());
        packed += data.iter().filter(|bytes| bytes.starts_with(&[0x1f, 0x8b])).count();
    }
    ensure!((found.len(), packed) == (2, 1), "{} Secrets, {packed} packed objects", found.len());
    Ok(())
}
