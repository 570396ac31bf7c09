//! The loop of revisions in a world of its own: one thread, a clock that jumps, chance from a seed, and an API
//! server that is a function. The same seed gives the same requests at the same times.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use catalogd::CatalogReader;
use jiff::Timestamp;
use kube::Client;
use olm_api::names::{OBJECT_DATA_SECRET_TYPE, OWNER_NAME_LABEL, REVISION_NAME_LABEL};
use olm_fbc::{CatalogError, PackageContent};
use olm_objectset::content_key;
use olm_runtime::{Clock, PANIC_REPORT};
use serde_json::{Value, json};
use tokio::{sync::broadcast, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    content::Content,
    simulation::{ApiServer, SYSTEM_NAMESPACE, Since, loops, runtime},
};

/// A revision of the extension `ext` with two phases of ConfigMaps, each of which says the revision's number.
fn revision(number: i64) -> Value {
    let object = |name: String| {
        json!({"object": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "n", "labels": {"olm.operatorframework.io/owner-name": "ext"}},
            "data": {"revision": number.to_string()},
        }})
    };
    let objects = |phase: &str| -> Vec<Value> { (0..4).map(|i| object(format!("{phase}-{i}"))).collect() };
    let mut last = objects("deploy");
    last.push(object(format!("only-{number}")));
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {
            "name": format!("ext-{number}"),
            "labels": {"olm.operatorframework.io/owner-name": "ext"},
            "annotations": {
                "extensions.olm.operatorframework.io/revision-of": "uid-of-ext",
                "olm.operatorframework.io/service-account-name": "installer",
                "olm.operatorframework.io/service-account-namespace": "n",
                "olm.operatorframework.io/bundle-version": format!("{number}.0.0"),
            },
            "ownerReferences": [{
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "ext",
                "uid": "uid-of-ext", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "revision": number, "lifecycleState": "Active", "collisionProtection": "Prevent",
            "phases": [{"name": "policies", "objects": objects("policies")}, {"name": "deploy", "objects": last}],
        },
    })
}

/// A revision with an object of a kind that comes with another operator.
fn watched() -> Value {
    let mut watched = revision(1);
    let object = &mut watched["spec"]["phases"][0]["objects"][0]["object"];
    object["apiVersion"] = "monitoring.coreos.com/v1".into();
    object["kind"] = "ServiceMonitor".into();
    watched
}

/// The loop with `workers`, until `stop`.
async fn run_loop(client: Client, seed: u64, workers: u16, stop: CancellationToken) {
    Box::pin(run_loop_at(client, (seed, workers), Arc::new(Since(Instant::now())), stop)).await;
}

/// The same, by another clock.
async fn run_loop_at(client: Client, run: (u64, u16), clock: Arc<dyn Clock>, stop: CancellationToken) {
    // No extension asks for a catalog or a bundle.
    let folder = tempfile::tempdir().unwrap();
    let content = Content::Given(Arc::new(NoCatalogs), broadcast::channel(1).0);
    Box::pin(loops(client, run, clock, (content, folder.path().to_owned())).run(stop)).await;
}

/// Nothing is read from catalogs.
struct NoCatalogs;

#[async_trait]
impl CatalogReader for NoCatalogs {
    async fn package(&self, _: &str, _: &str) -> Result<Arc<PackageContent>, CatalogError> {
        Ok(Arc::default())
    }

    async fn mentioning(&self, _: &str, _: &str) -> Result<Vec<PackageContent>, CatalogError> {
        Ok(Vec::new())
    }

    async fn packages(&self, _: &str) -> Result<Vec<String>, CatalogError> {
        Ok(Vec::new())
    }
}

/// Two revisions, one after the other, with an object deleted and one edited in between; one request in five fails.
/// Returns the requests, each with its time, and the objects that are there at the end.
fn life(seed: u64, workers: u16) -> (Vec<String>, Vec<String>) {
    runtime().block_on(async {
        let server = ApiServer::new(5);
        let stop = CancellationToken::new();
        let work = tokio::spawn(run_loop(server.client(), seed, workers, stop.clone()));
        // Nothing is waited for: the clock is still until everybody waits, and jumps then.
        let minutes = async |count| tokio::time::sleep(Duration::from_mins(count)).await;
        server.create(revision(1));
        minutes(20).await;
        server.remove("configmaps", "n", "policies-2");
        minutes(20).await;
        server.edit("configmaps", "n", "deploy-0", &json!({"data": {"revision": "edited"}}));
        minutes(20).await;
        server.create(revision(2));
        minutes(20).await;
        // What failed last is tried again within some minutes.
        server.calm();
        minutes(60).await;
        stop.cancel();
        work.await.unwrap();
        (server.log(), server.objects())
    })
}

/// The requests of one worker while `course` runs.
fn simulated(course: impl AsyncFnOnce(&ApiServer)) -> Vec<String> {
    simulated_at(|| Arc::new(Since(Instant::now())), course)
}

/// The same, by a clock that is made when time begins.
fn simulated_at(clock: impl FnOnce() -> Arc<dyn Clock>, course: impl AsyncFnOnce(&ApiServer)) -> Vec<String> {
    runtime().block_on(async {
        let server = ApiServer::new(0);
        let stop = CancellationToken::new();
        let work = tokio::spawn(run_loop_at(server.client(), (3, 1), clock(), stop.clone()));
        course(&server).await;
        stop.cancel();
        work.await.unwrap();
        server.log()
    })
}

/// A revision that only gets errors is checked when its deadline passes, whatever its backoff has come to.
#[test]
fn a_deadline_is_reported_when_it_passes() {
    let log = simulated(async |server| {
        let mut stuck = revision(1);
        stuck["spec"]["progressDeadlineMinutes"] = 47.into();
        stuck["spec"]["phases"][0]["objects"][0]["object"]["kind"] = "Unserved".into();
        server.create(stuck);
        tokio::time::sleep(Duration::from_mins(90)).await;
    });
    let millis = |line: &String| line.trim_start().split(' ').next().unwrap().parse::<u64>().unwrap();
    let statuses: Vec<&String> = log.iter().filter(|line| line.contains("/status ")).collect();
    let reported = statuses.iter().find(|line| line.contains("ProgressDeadlineExceeded")).expect("a report");
    assert!((2_820_000..2_822_000).contains(&millis(reported)), "{reported}");
    let text = "Revision has not rolled out for 47 minute(s). Last status: Object Unserved.v1 n/policies-0: ";
    assert!(reported.contains(text), "{reported}");
    // It is tried again and again, and reported once.
    assert_eq!(statuses.len(), 2, "{statuses:#?}");
}

/// What is recorded on a revision makes it another version, and its status is written for that one.
#[test]
fn an_object_that_is_left_out_brings_no_conflict() {
    let log = simulated(async |server| {
        server.create(watched());
        tokio::time::sleep(Duration::from_mins(20)).await;
    });
    assert!(log.iter().any(|line| line.contains("left-out")), "nothing was left out: {log:#?}");
    assert!(log.iter().any(|line| line.contains("has rolled out")), "{log:#?}");
    let conflicts: Vec<_> = log.iter().filter(|line| line.ends_with("409")).collect();
    assert!(conflicts.is_empty(), "{conflicts:#?}");
}

/// Nothing else brings a reconcile of a revision that has rolled out.
#[test]
fn an_object_that_was_left_out_is_written_when_its_kind_comes() {
    let _ = simulated(async |server| {
        server.create(watched());
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert!(!kinds(&server.objects()).contains(&"ServiceMonitor".to_owned()));
        server.create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
            "spec": {
                "group": "monitoring.coreos.com", "scope": "Namespaced",
                "names": {"plural": "servicemonitors", "kind": "ServiceMonitor"},
                "versions": [{"name": "v1", "served": true, "storage": true}],
            },
        }));
        tokio::time::sleep(Duration::from_secs(20)).await;
        let objects = server.objects();
        assert!(kinds(&objects).contains(&"ServiceMonitor".to_owned()), "{objects:#?}");
    });
}

fn kinds(objects: &[String]) -> Vec<String> {
    let all = objects.iter().map(|text| serde_json::from_str::<Value>(text).unwrap());
    all.filter_map(|object| object["kind"].as_str().map(str::to_owned)).collect()
}

#[test]
fn an_object_that_changes_while_it_is_removed_is_no_error() {
    let log = simulated(async |server| {
        server.create(revision(1));
        tokio::time::sleep(Duration::from_mins(20)).await;
        server.refuse_once("DELETE v1 configmaps n only-1", 409);
        server.create(revision(2));
        tokio::time::sleep(Duration::from_mins(20)).await;
    });
    let deletions: Vec<_> =
        log.iter().filter(|line| line.contains("DELETE") && line.contains("only-1")).collect();
    assert_eq!(deletions.len(), 2, "{deletions:#?}");
    let errors: Vec<_> = log.iter().filter(|line| line.contains("error archiving")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// What was read is no longer so when it is written: the object has another owner by then, or only another version.
#[test]
fn an_object_that_changes_hands_before_it_is_written_stays_where_it_is() {
    let owner = |server: &ApiServer| {
        server.get("configmaps", "n", "policies-0").unwrap()["metadata"]["ownerReferences"][0]["uid"].clone()
    };
    let read = "GET v1 configmaps n policies-0";
    let edited = json!({"data": {"revision": "edited"}});
    let log = simulated(async |server| {
        server.create(revision(1));
        tokio::time::sleep(Duration::from_mins(20)).await;
        let own = owner(server);
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        server.change_after(read, ("configmaps", "n", "policies-0"), labelled);
        server.edit("configmaps", "n", "policies-0", &edited);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let live = server.get("configmaps", "n", "policies-0").unwrap();
        assert_eq!((&live["data"]["revision"], owner(server)), (&"1".into(), own));
        let later = json!({"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Other", "name": "other", "uid": "other", "controller": true},
        ]}});
        server.change_after(read, ("configmaps", "n", "policies-0"), later);
        server.edit("configmaps", "n", "policies-0", &edited);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(owner(server), "other");
    });
    assert!(log.iter().any(|line| line.contains("collision") && line.contains("/status ")), "{log:#?}");
}

/// Its owner is replaced by a patch that tests the version.
#[test]
fn an_object_that_changes_before_the_next_revision_takes_it_is_no_error() {
    let log = simulated(async |server| {
        server.create(revision(1));
        tokio::time::sleep(Duration::from_mins(20)).await;
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        server.change_after("GET v1 configmaps n policies-0", ("configmaps", "n", "policies-0"), labelled);
        server.create(revision(2));
        tokio::time::sleep(Duration::from_mins(20)).await;
    });
    assert_eq!(log.iter().filter(|line| line.ends_with("422")).count(), 1, "{log:#?}");
    let statuses: Vec<&String> = log.iter().filter(|line| line.contains("/status ")).collect();
    assert!(!statuses.iter().any(|line| line.contains("n/policies-0: ")), "{statuses:#?}");
    assert!(statuses.iter().any(|line| line.contains("2.0.0 has rolled out")), "{statuses:#?}");
}

/// An answer that says nothing about a revision is not held against it: it is asked for again.
#[test]
fn an_extension_that_cannot_be_read_for_a_moment_blocks_no_revision() {
    let log = simulated(async |server| {
        let asked = "GET olm.operatorframework.io/v1 clusterextensions  ext";
        server.refuse_once(asked, 500);
        server.refuse_once(asked, 403);
        let mut unmarked = revision(1);
        let annotations = unmarked["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove("extensions.olm.operatorframework.io/revision-of").unwrap();
        server.create(unmarked);
        tokio::time::sleep(Duration::from_mins(20)).await;
    });
    let refused: Vec<_> =
        log.iter().filter(|line| line.contains("/clusterextensions/ext") && !line.ends_with("404")).collect();
    assert_eq!(refused.len(), 2, "{refused:#?}");
    let statuses: Vec<&String> = log.iter().filter(|line| line.contains("/status ")).collect();
    assert!(!statuses.iter().any(|line| line.contains("Blocked")), "{statuses:#?}");
    assert!(statuses.last().is_some_and(|line| line.contains("has rolled out")), "{statuses:#?}");
}

/// The Secret `stored` of the system namespace with a ConfigMap of this color, under the key of `genuine`.
fn stored(color: &str, genuine: &str) -> Value {
    let object = |color: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stored", "namespace": "n"},
               "data": {"color": color}})
        .to_string()
    };
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": OBJECT_DATA_SECRET_TYPE, "immutable": true,
        "metadata": {
            "name": "stored", "namespace": SYSTEM_NAMESPACE,
            "labels": {REVISION_NAME_LABEL: "ext-1", OWNER_NAME_LABEL: "ext"},
        },
        "data": {(content_key(object(genuine).as_bytes())): STANDARD.encode(object(color))},
    })
}

/// The first revision, with nothing but what lies in that Secret.
fn with_stored(secret: &Value) -> Value {
    let mut set = revision(1);
    let key = secret["data"].as_object().unwrap().keys().next().unwrap();
    let reference = json!({"name": "stored", "namespace": SYSTEM_NAMESPACE, "key": key});
    set["spec"]["phases"] = json!([{"name": "all", "objects": [{"ref": reference}]}]);
    set
}

/// How often the Secret was read.
fn reads(server: &ApiServer) -> usize {
    let read = format!(" GET /api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets/stored ");
    server.log().iter().filter(|line| line.contains(&read)).count()
}

fn color(server: &ApiServer) -> Value {
    server.get("configmaps", "n", "stored").map(|map| map["data"]["color"].clone()).unwrap_or_default()
}

/// A set that is deleted and created again is another one.
#[test]
fn content_is_read_once_for_each_revision_and_process() {
    runtime().block_on(async {
        let server = ApiServer::new(0);
        let minutes = async |count| tokio::time::sleep(Duration::from_mins(count)).await;
        let secret = stored("blue", "blue");
        server.create(secret.clone());
        server.create(with_stored(&secret));
        for process in 1..=2 {
            let stop = CancellationToken::new();
            let work = tokio::spawn(run_loop(server.client(), 3, 1, stop.clone()));
            minutes(20).await;
            for _ in 0..3 {
                server.edit("configmaps", "n", "stored", &json!({"data": {"color": "edited"}}));
                minutes(5).await;
                assert_eq!(color(&server), "blue");
            }
            assert_eq!(reads(&server), process);
            if process == 2 {
                server.remove("clusterobjectsets", "", "ext-1");
                minutes(5).await;
                server.create(with_stored(&secret));
                minutes(5).await;
                assert_eq!(reads(&server), 3);
            }
            stop.cancel();
            work.await.unwrap();
        }
    });
}

/// It has another UID, which the watch shows; nothing else would bring a reconcile of a revision that has rolled out.
#[test]
fn content_that_is_replaced_is_refused_although_it_was_read_before() {
    let log = simulated(async |server| {
        let secret = stored("blue", "blue");
        server.create(secret.clone());
        server.create(with_stored(&secret));
        tokio::time::sleep(Duration::from_mins(20)).await;
        let progress = |server: &ApiServer| {
            let set = server.get("clusterobjectsets", "", "ext-1").unwrap();
            let conditions = set["status"]["conditions"].as_array().unwrap().clone();
            let found = conditions.into_iter().find(|one| one["type"] == "Progressing").unwrap();
            (found["reason"].clone(), found["message"].as_str().unwrap().to_owned())
        };
        for (color_now, reason) in [("red", "Blocked"), ("blue", "Succeeded"), ("green", "Blocked")] {
            server.remove("secrets", SYSTEM_NAMESPACE, "stored");
            server.create(stored(color_now, "blue"));
            tokio::time::sleep(Duration::from_secs(20)).await;
            let (found, message) = progress(server);
            assert_eq!(found, reason, "{message}");
            assert_eq!(
                message.contains("is not the digest of its content"),
                reason == "Blocked",
                "{message}"
            );
            assert_eq!(color(server), "blue");
        }
        // The same Secret, of another revision by now.
        server.remove("secrets", SYSTEM_NAMESPACE, "stored");
        server.create(secret);
        tokio::time::sleep(Duration::from_mins(1)).await;
        let other = json!({"metadata": {"labels": {REVISION_NAME_LABEL: "ext-2"}}});
        server.edit("secrets", SYSTEM_NAMESPACE, "stored", &other);
        server.edit("configmaps", "n", "stored", &json!({"data": {"color": "edited"}}));
        tokio::time::sleep(Duration::from_secs(20)).await;
        let (found, message) = progress(server);
        assert_eq!(found, "Blocked");
        assert!(message.contains("does not belong to this revision"), "{message}");
    });
    assert!(!log.iter().any(|line| line.contains("\"red\"") || line.contains("\"green\"")), "{log:#?}");
}

/// A clock that breaks when it is asked for the first and the third time: each reconcile asks, and so does the report.
struct Broken(Since, AtomicU32);

impl Clock for Broken {
    fn now(&self) -> Timestamp {
        let asked = self.1.fetch_add(1, Ordering::SeqCst);
        assert!(![0, 2].contains(&asked), "secrets of somebody");
        self.0.now()
    }

    fn random(&self) -> f64 {
        self.0.random()
    }
}

#[test]
fn a_panic_is_reported_on_the_revision_without_its_text_and_recovers() {
    let clock = || -> Arc<dyn Clock> { Arc::new(Broken(Since(Instant::now()), AtomicU32::new(0))) };
    let log = simulated_at(clock, async |server| {
        server.create(revision(1));
        tokio::time::sleep(Duration::from_mins(20)).await;
    });
    let statuses: Vec<&String> = log.iter().filter(|line| line.contains("/status ")).collect();
    let reported: Vec<_> = statuses.iter().filter(|line| line.contains(PANIC_REPORT)).collect();
    assert_eq!(reported.len(), 1, "{statuses:#?}");
    assert!(statuses.last().is_some_and(|line| line.contains("has rolled out")), "{statuses:#?}");
    assert!(!log.iter().any(|line| line.contains("secrets of somebody")));
}

#[test]
fn one_seed_has_one_log_of_requests() {
    let (log, objects) = life(7, 1);
    let (again, objects_again) = life(7, 1);
    let differing = log.iter().zip(&again).find(|(a, b)| a != b);
    assert_eq!((differing, log.len()), (None, again.len()));
    assert_eq!(objects, objects_again);
    assert!(log.iter().any(|line| line.contains("500")), "no request failed");

    let (other, objects_of_other) = life(8, 1);
    assert_ne!(log, other, "chance decides about nothing");
    assert_eq!(objects, objects_of_other, "chance decides about the end");
    // Several workers take turns as the runtime has it; the end is the same.
    assert_eq!(objects, life(7, 3).1);
    // Everything is the second revision's, and the first is archived without its objects.
    let of_kind = |kind: &str| -> Vec<Value> {
        let all = objects.iter().map(|text| serde_json::from_str::<Value>(text).unwrap());
        all.filter(|object| object["kind"] == kind).collect()
    };
    let states: Vec<_> =
        of_kind("ClusterObjectSet").iter().map(|set| set["spec"]["lifecycleState"].clone()).collect();
    assert_eq!(states, ["Archived", "Active"]);
    let maps = of_kind("ConfigMap");
    assert!(maps.iter().all(|map| map["data"]["revision"] == "2"), "{maps:#?}");
    assert_eq!(maps.len(), 9);
}
