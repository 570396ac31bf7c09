//! Both loops in a world of their own: an extension is installed, upgraded because its catalog changes, rolled back
//! and deleted. The same seed gives the same requests at the same times.

mod dependencies;
mod facts;
mod policies;
mod returns;
mod runs;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use catalogd::{CatalogChanged, CatalogReader};
use olm_api::names::ROLLBACK_TO_ANNOTATION;
use olm_bundle::BundleFiles;
use olm_fbc::{CatalogError, PackageContent};
use olm_runtime::PANIC_REPORT;
use serde_json::{Value, json};
use tokio::{sync::broadcast, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::simulation::{ApiServer, loops, runtime};

const PACKAGE: &str = "lighthouse-operator";
const CATALOG: &str = "coast";
const VERSIONS: [&str; 2] = ["1.0.0", "1.1.0"];
/// The file of the CRD that all versions have.
const CRD_FILE: &str = "beacons.lighthouse.example.com.crd.yaml";
/// A CRD that only the first version has: the next one drops it.
const DROPPED_CRD: &str = "buoys.lighthouse.example.com";
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
        if version == VERSIONS[0] {
            let crd =
                std::fs::read_to_string(samples.join(version).join("manifests").join(CRD_FILE)).unwrap();
            let dropped = crd.replace("beacon", "buoy").replace("Beacon", "Buoy");
            files.insert("manifests/buoys.yaml", dropped.into_bytes());
        }
        olm_bundles::keep(folder, &digest(version), &files).unwrap();
    }
}

/// A catalog that has the first few of the versions. With none, a reader panics.
struct Content(Mutex<usize>);

#[async_trait]
impl CatalogReader for Content {
    async fn package(&self, _: &str, _: &str) -> Result<Arc<PackageContent>, CatalogError> {
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
        Ok(Arc::new(content))
    }

    async fn mentioning(&self, _: &str, _: &str) -> Result<Vec<PackageContent>, CatalogError> {
        Ok(Vec::new())
    }

    async fn packages(&self, _: &str) -> Result<Vec<String>, CatalogError> {
        Ok(Vec::new())
    }
}

/// Starts both loops, wired as in the program, until `stop`.
fn start(
    server: &ApiServer,
    run: (u64, u16),
    folder: &Path,
    (content, changes): (&Arc<Content>, &broadcast::Sender<CatalogChanged>),
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let content = crate::content::Content::Given(content.clone(), changes.clone());
    let clock = server.clock();
    let loops = loops(server.client(), run, clock, (content, folder.to_owned()));
    let stop = stop.clone();
    tokio::spawn(async move { Box::pin(loops.run(stop)).await })
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
        let (changes, _) = broadcast::channel(8);
        let content = Arc::new(Content(Mutex::new(0)));
        let work = start(&server, (1, 1), folder.path(), (&content, &changes), &stop);
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
        let (changes, _) = broadcast::channel(8);
        let content = Arc::new(Content(Mutex::new(1)));
        let work = start(&server, (seed, workers), folder.path(), (&content, &changes), &stop);
        let minutes = async |count| tokio::time::sleep(Duration::from_mins(count)).await;
        let objects = || -> Vec<Value> {
            server.objects().iter().map(|text| serde_json::from_str(text).unwrap()).collect()
        };
        server.create(catalog());
        server.create(extension());
        minutes(STAGE_MINUTES).await;
        *content.0.lock().unwrap_or_else(PoisonError::into_inner) = 2;
        changes.send(CatalogChanged { catalog: CATALOG.to_owned(), reference: None }).unwrap();
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
