//! Both loops in a world of their own: an extension is installed, upgraded because its catalog changes, rolled back
//! and deleted. The same seed gives the same requests at the same times.

mod runs;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use catalogd::CatalogChanged;
use futures::future::BoxFuture;
use kube::Client;
use olm_api::{
    names::ROLLBACK_TO_ANNOTATION,
    v1::{ClusterExtension, ClusterObjectSet},
};
use olm_bundle::{BundleFiles, MEMORY_BYTES_MAX};
use olm_fbc::{CatalogError, PackageContent};
use olm_image::{Puller, PullerConfig};
use olm_runtime::{
    Accounts, BackoffLimits, Chance, ControllerSettings, Discovery, MemoryBudget, Metrics, OwnerChanged,
    PANIC_REPORT, Source, WatchManager, run_controller,
};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::{
    sync::{broadcast, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    owners,
    wakes::{WAKES, known_catalogs, names, revisions},
};
use crate::{
    Gates, ProviderSetting,
    access::Waiting,
    admission::Guard,
    bundles::{self, Bundles},
    catalogs::{self, CatalogReader, Catalogs},
    cluster_extension, cluster_object_set,
    dependents::Dependents,
    events::Events,
    interest::{Interest, Interests},
    platform::Platform,
    settings::Settings,
    simulation::{ApiServer, Since, runtime},
};

const PACKAGE: &str = "lighthouse-operator";
const CATALOG: &str = "coast";
const VERSIONS: [&str; 2] = ["1.0.0", "1.1.0"];
/// What is asked for one after another is that far apart.
const STAGE_MINUTES: u64 = 33;
/// One request in so many fails.
const ONE_IN: u64 = 25;

/// A digest that stands for a version.
fn digest(version: &str) -> String {
    format!("sha256:{:0>64}", version.replace('.', ""))
}

/// Puts the bundles where pulled ones are kept, so that nothing is pulled.
fn keep_bundles(folder: &Path) {
    let samples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../config/samples/lighthouse/bundles");
    for version in VERSIONS {
        let mut files = BundleFiles::new();
        for part in ["manifests", "metadata"] {
            for entry in std::fs::read_dir(samples.join(version).join(part)).unwrap() {
                let entry = entry.unwrap();
                let path = format!("{part}/{}", entry.file_name().to_string_lossy());
                files.insert(&path, std::fs::read(entry.path()).unwrap());
            }
        }
        bundles::keep(folder, &digest(version), &files);
    }
}

/// A catalog that has the first few of the versions. With none, whoever asks panics.
struct Content(Mutex<usize>);

impl CatalogReader for Content {
    fn package<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Arc<PackageContent>, CatalogError>> {
        let count = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(count > 0, "secrets of somebody");
        let mut content = PackageContent::default();
        let name = |version: &str| format!("{PACKAGE}.v{version}");
        let mut entries = vec![json!({"name": name(VERSIONS[0])})];
        entries.push(json!({"name": name(VERSIONS[1]), "replaces": name(VERSIONS[0])}));
        let mut blobs = vec![
            json!({"schema": "olm.package", "name": PACKAGE, "defaultChannel": "stable"}),
            json!({"schema": "olm.channel", "package": PACKAGE, "name": "stable", "entries": entries[..count]}),
        ];
        blobs.extend(VERSIONS[..count].iter().map(|version| {
            json!({
                "schema": "olm.bundle", "package": PACKAGE, "name": name(version),
                "image": format!("registry.example.com/lighthouse@{}", digest(version)),
                "properties": [
                    {"type": "olm.package", "value": {"packageName": PACKAGE, "version": version}},
                ],
            })
        }));
        for blob in &blobs {
            content.push_json(blob.to_string().as_bytes()).unwrap();
        }
        Box::pin(async { Ok(Arc::new(content)) })
    }

    fn mentioning<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Vec<PackageContent>, CatalogError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// What a life is given beside the cluster.
struct Given {
    seed: u64,
    workers: u16,
    bundles: PathBuf,
    content: Arc<Content>,
    changes: broadcast::Receiver<CatalogChanged>,
}

fn bundles(folder: PathBuf) -> Bundles {
    let puller = Puller::new(PullerConfig::new(&folder));
    Bundles::new(&puller, folder, MemoryBudget::new(MEMORY_BYTES_MAX)).unwrap()
}

/// What the controller of revisions shares with the one of extensions.
fn set_ports(
    ports: &cluster_extension::Ports,
    watches: WatchManager,
    metrics: &Metrics,
) -> cluster_object_set::Ports {
    cluster_object_set::Ports {
        accounts: ports.accounts.clone(),
        discovery: ports.discovery.clone(),
        watches,
        sets: ports.sets.clone(),
        waiting: ports.waiting.clone(),
        events: ports.events.clone(),
        settings: ports.settings.clone(),
        guard: ports.guard.clone(),
        objects: metrics.objects(),
        preflight_permissions: ports.features.preflight_permissions,
        system_namespace: ports.system_namespace.clone(),
        certificate_lifetime: Duration::from_hours(1),
        clock: ports.clock.clone(),
    }
}

/// Both loops, wired as the program wires them, until they are told to stop.
async fn run_loops(client: Client, given: Given, stop: CancellationToken) {
    let chance = Chance::seeded(given.seed);
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let (wake, woken) = mpsc::channel::<String>(WAKES);
    let (owner_changed, changed_owners) = mpsc::channel::<OwnerChanged>(WAKES);
    let dependents = Arc::new(Dependents::new(wake.clone()));
    let extensions = Source::<ClusterExtension>::all(client.clone(), &chance);
    let wake_owner = (wake.clone(), extensions.store.clone());
    let sets = revisions(client.clone(), &chance, wake_owner, dependents.clone());
    let (known, _names) = known_catalogs(client.clone(), &chance);
    let interests = Interests::default();
    let fired = interests.clone();
    let ended = Arc::new(move |extension: &str| fired.fire(&Interest::Job(extension.to_owned())));
    let ports = cluster_extension::Ports {
        accounts: Accounts::of(client.clone(), client.clone()),
        discovery: Discovery::new(client.clone()),
        catalogs: Catalogs::new(known.store.clone(), given.content, Duration::from_mins(1)),
        bundles: bundles(given.bundles).pulling_by_jobs(ended, &chance),
        events: Events::new(client.clone(), "test"),
        waiting: Arc::new(Waiting::default()),
        sets: sets.store.clone(),
        dependents,
        platform: Arc::new(Platform::default()),
        features: Gates::default().features(ProviderSetting::Auto),
        settings: Settings::new(None),
        guard: Guard::in_force(),
        system_namespace: "system".to_owned(),
        clock: Arc::new(Since(Instant::now())),
    };
    let watches = WatchManager::new(client, "", owner_changed, chance.clone());
    let set_ports = set_ports(&ports, watches, &metrics);
    let settings = |name| {
        let (concurrency, backoff) = (given.workers, BackoffLimits::default());
        ControllerSettings { name, concurrency, backoff, chance: chance.clone() }
    };
    let set_wakes = (&interests, vec![owners(changed_owners, sets.store.clone())]);
    let all = extensions.store.clone();
    let controller = Arc::new(cluster_extension::Extensions::new(ports));
    let reporter = controller.clone();
    let report_panic = move |extension| reporter.clone().report_panic(extension);
    let pass = move |extension: Arc<ClusterExtension>| {
        let controller = controller.clone();
        async move { Box::pin(controller.reconcile(extension)).await }
    };
    let set_controller = Arc::new(cluster_object_set::ObjectSets::new(set_ports));
    let set_reporter = set_controller.clone();
    let report_set_panic = move |set| set_reporter.clone().report_panic(set);
    let set_pass = move |set: Arc<ClusterObjectSet>| {
        let controller = set_controller.clone();
        async move { Box::pin(controller.reconcile(set)).await }
    };
    let of_extensions = (settings("extensions"), metrics.controller("extensions"));
    let of_sets = (settings("sets"), metrics.controller("sets"));
    tokio::join!(
        // In this order, as in the loops themselves.
        biased;
        catalogs::follow(known, given.changes, all, wake, stop.clone()),
        run_controller(
            of_extensions.0,
            extensions,
            (&interests, vec![names(woken)]),
            of_extensions.1,
            stop.clone(),
            pass,
            report_panic
        ),
        run_controller(of_sets.0, sets, set_wakes, of_sets.1, stop, set_pass, report_set_panic),
    );
}

/// What came of a life.
struct Life {
    /// The requests, each with its time.
    log: Vec<String>,
    /// The objects before the deletion.
    objects: Vec<Value>,
    /// Those after it.
    left: Vec<Value>,
}

/// An extension of the package.
fn extension() -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": "ext"},
        "spec": {
            "namespace": "n", "serviceAccount": {"name": "installer"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": PACKAGE}},
        },
    })
}

fn catalog() -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": CATALOG},
        "spec": {"source": {"type": "Image", "image": {"ref": "registry.example.com/coast:latest"}}},
    })
}

/// Says on the extension what a reconcile of it did not live to say.
#[test]
fn a_panic_is_reported_on_the_extension_without_its_text_and_heals() {
    let folder = tempfile::tempdir().unwrap();
    keep_bundles(folder.path());
    runtime().block_on(async {
        let server = ApiServer::new(0);
        let stop = CancellationToken::new();
        let (_tell, changes) = broadcast::channel(8);
        let content = Arc::new(Content(Mutex::new(0)));
        let bundles = folder.path().to_owned();
        let given = Given { seed: 1, workers: 1, bundles, content: content.clone(), changes };
        let work = tokio::spawn(run_loops(server.client(), given, stop.clone()));
        server.create(catalog());
        server.create(extension());
        let ready = || -> (Value, Value) {
            let objects = server.objects();
            let all = objects.iter().map(|text| serde_json::from_str::<Value>(text).unwrap());
            let extension = all.into_iter().find(|object| object["kind"] == "ClusterExtension").unwrap();
            let conditions = extension["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap();
            (ready["status"].clone(), ready["message"].clone())
        };
        tokio::time::sleep(Duration::from_mins(20)).await;
        assert_eq!(ready(), ("False".into(), PANIC_REPORT.into()));
        *content.0.lock().unwrap_or_else(PoisonError::into_inner) = 1;
        tokio::time::sleep(Duration::from_mins(20)).await;
        assert_eq!(ready().0, "True", "{}", ready().1);
        let log = server.log();
        let told: Vec<_> = log.iter().filter(|line| line.contains("secrets of somebody")).collect();
        assert!(told.is_empty(), "{told:#?}");
        stop.cancel();
        work.await.unwrap();
    });
}

fn life(seed: u64, workers: u16) -> Life {
    let folder = tempfile::tempdir().unwrap();
    keep_bundles(folder.path());
    runtime().block_on(async {
        let server = ApiServer::new(ONE_IN);
        let stop = CancellationToken::new();
        let (tell, changes) = broadcast::channel(8);
        let content = Arc::new(Content(Mutex::new(1)));
        let bundles = folder.path().to_owned();
        let given = Given { seed, workers, bundles, content: content.clone(), changes };
        let work = tokio::spawn(run_loops(server.client(), given, stop.clone()));
        let minutes = async |count| tokio::time::sleep(Duration::from_mins(count)).await;
        let objects = || -> Vec<Value> {
            server.objects().iter().map(|text| serde_json::from_str(text).unwrap()).collect()
        };
        server.create(catalog());
        server.create(extension());
        minutes(STAGE_MINUTES).await;
        *content.0.lock().unwrap_or_else(PoisonError::into_inner) = 2;
        tell.send(CatalogChanged { catalog: CATALOG.to_owned(), reference: None }).unwrap();
        minutes(STAGE_MINUTES).await;
        let back = json!({"metadata": {"annotations": {ROLLBACK_TO_ANNOTATION: "1"}}});
        server.edit("clusterextensions", "", "ext", &back);
        minutes(STAGE_MINUTES).await;
        // What failed last is tried again within some minutes.
        server.calm();
        minutes(60).await;
        let before = objects();
        server.remove("clusterextensions", "", "ext");
        minutes(10).await;
        stop.cancel();
        work.await.unwrap();
        Life { log: server.log(), objects: before, left: objects() }
    })
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

#[test]
fn one_seed_has_one_log_of_requests_of_both_loops() {
    let (first, again) = (life(7, 1), life(7, 1));
    assert_same(&first.log, &again.log);
    assert_eq!((&first.objects, &first.left), (&again.objects, &again.left));
    assert!(first.log.iter().any(|line| line.ends_with("500")), "no request failed");

    let other = life(8, 1);
    assert_ne!(first.log, other.log, "chance decides about nothing");
    // What failed is a note in the plan, whose digest covers it.
    assert_same(&without_plans(&first.objects), &without_plans(&other.objects));
    assert_same(&without_plans(&first.objects), &without_plans(&life(7, 3).objects));

    let extensions = of_kind(&first.objects, "ClusterExtension");
    assert_eq!(extensions[0]["status"]["install"]["bundle"]["version"], "1.0.0", "{extensions:#?}");
    let sets = of_kind(&first.objects, "ClusterObjectSet");
    let states: Vec<_> = sets.iter().map(|set| set["spec"]["lifecycleState"].as_str().unwrap()).collect();
    assert_eq!(states, ["Archived", "Archived", "Active"]);
    assert_eq!(of_kind(&first.objects, "Deployment").len(), 1);
    let last: Vec<String> = first.log.iter().rev().take(8).map(|line| shortened(line, None, None)).collect();
    assert!(of_kind(&first.left, "ClusterExtension").is_empty(), "not let go: {last:#?}");
}

/// Says where two lists part.
fn assert_same(first: &[String], again: &[String]) {
    let Some(at) = (0..first.len().max(again.len())).find(|at| first.get(*at) != again.get(*at)) else {
        return;
    };
    let shown = |list: &[String]| list.get(at).map(|line| shortened(line, first.get(at), again.get(at)));
    let before: Vec<String> =
        first[..at].iter().rev().take(4).map(|line| shortened(line, None, None)).collect();
    panic!("line {at} differs:\n{:#?}\n{:#?}\nbefore: {before:#?}", shown(first), shown(again));
}

/// What a person can read of a line: its beginning, and where it parts from the other.
fn shortened(line: &str, first: Option<&String>, again: Option<&String>) -> String {
    let parted = first.zip(again).and_then(|(a, b)| a.bytes().zip(b.bytes()).position(|(a, b)| a != b));
    let part = |from: usize| line.chars().skip(from).take(150).collect::<String>();
    match parted {
        Some(at) if at > 100 => format!("{} ... {}", part(0), part(at - 50)),
        _ => part(0),
    }
}

/// The objects as text, without the digests of plans.
fn without_plans(objects: &[Value]) -> Vec<String> {
    let mut objects = objects.to_vec();
    for object in &mut objects {
        if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        {
            annotations.remove(olm_api::names::PLAN_DIGEST_ANNOTATION);
        }
    }
    objects.iter().map(ToString::to_string).collect()
}
