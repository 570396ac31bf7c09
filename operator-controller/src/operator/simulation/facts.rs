//! What the facts of the cluster bring about: each change of one reaches who depends on it, and a start changes nothing.

use olm_api::names::{
    DELETION_POLICY_ANNOTATION, OBJECT_DATA_SECRET_TYPE, OWNER_NAME_LABEL, PAUSED_ANNOTATION,
    REVISION_NAME_LABEL,
};

use super::*;
use crate::{
    admission::{DEFAULT_ACCOUNT_KEY, NAMES, SETTINGS_CONFIG_MAP},
    admission_objects,
    simulation::SYSTEM_NAMESPACE,
};

/// A program over a server, for a test that waits for what comes of a change.
pub(super) struct World {
    pub(super) server: ApiServer,
    pub(super) content: Arc<Content>,
    pub(super) changes: broadcast::Sender<CatalogChanged>,
    folder: tempfile::TempDir,
}

impl World {
    /// A catalog with one version.
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        keep_bundles(folder.path());
        let server = ApiServer::new(0);
        server.create(catalog());
        Self { server, content: Arc::new(Content(Mutex::new(1))), changes: broadcast::channel(8).0, folder }
    }

    /// Runs the program for some minutes.
    pub(super) async fn run(&self, during: impl AsyncFnOnce()) {
        let stop = CancellationToken::new();
        let parts = (&self.content, &self.changes);
        let work = start(&self.server, (1, 1), self.folder.path(), parts, &stop);
        during().await;
        stop.cancel();
        work.await.unwrap();
    }

    /// Status and message of `Ready`.
    pub(super) fn ready(&self) -> (String, String) {
        let objects = self.server.objects();
        let all = objects.iter().map(|text| serde_json::from_str::<Value>(text).unwrap());
        let extension = all.into_iter().find(|object| object["kind"] == "ClusterExtension").unwrap();
        let conditions = extension["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap();
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("message"))
    }
}

pub(super) async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_mins(count)).await;
}

/// Gathering, and some requests one after another.
pub(super) async fn a_moment() {
    tokio::time::sleep(Duration::from_secs(20)).await;
}

#[test]
fn the_default_account_brings_those_that_name_none() {
    runtime().block_on(async {
        let world = World::new();
        let mut without = extension();
        without["spec"].as_object_mut().unwrap().remove("serviceAccount");
        world.server.create(without);
        world
            .run(async || {
                minutes(60).await;
                assert_eq!(world.ready().0, "False");
                let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {}});
                map["metadata"] = json!({"name": SETTINGS_CONFIG_MAP, "namespace": SYSTEM_NAMESPACE});
                map["data"][DEFAULT_ACCOUNT_KEY] = "n/installer".into();
                world.server.create(map);
                a_moment().await;
                assert_eq!(world.ready().0, "True", "{}", world.ready().1);
            })
            .await;
    });
}

#[test]
fn a_policy_that_goes_is_reported_and_so_is_its_return() {
    runtime().block_on(async {
        let world = World::new();
        world.server.create(extension());
        world
            .run(async || {
                minutes(60).await;
                assert!(!world.ready().1.contains("absent"), "{}", world.ready().1);
                world.server.remove("validatingadmissionpolicies", "", NAMES[0]);
                a_moment().await;
                assert!(world.ready().1.contains("absent"), "{}", world.ready().1);
                for policy in admission_objects(SYSTEM_NAMESPACE).unwrap() {
                    world.server.create(policy);
                }
                a_moment().await;
                assert!(!world.ready().1.contains("absent"), "{}", world.ready().1);
            })
            .await;
    });
}

#[test]
fn a_process_that_starts_anew_writes_nothing() {
    runtime().block_on(async {
        let world = World::new();
        world.server.create(extension());
        world.run(async || minutes(60).await).await;
        assert_eq!(world.ready().0, "True", "{}", world.ready().1);
        let before = world.server.log().len();
        world.run(async || minutes(60).await).await;
        let log = world.server.log();
        let is_write = |line: &&String| {
            ["PUT", "PATCH", "POST", "DELETE"].iter().any(|method| line.contains(&format!(" {method} ")))
                && !line.contains("/token ")
        };
        let written: Vec<_> = log.iter().skip(before).filter(is_write).collect();
        assert!(log.len() > before && written.is_empty(), "{written:#?}");
    });
}

/// The request that creates the revision may still be on its way from a replica that leads no more.
#[test]
fn content_waits_for_its_revision_before_it_is_removed() {
    runtime().block_on(async {
        let world = World::new();
        world.server.create(extension());
        world.run(async || minutes(60).await).await;
        let name = "ext-2-content";
        world.server.create(json!({
            "apiVersion": "v1", "kind": "Secret", "type": OBJECT_DATA_SECRET_TYPE,
            "metadata": {
                "name": name, "namespace": SYSTEM_NAMESPACE,
                "labels": {OWNER_NAME_LABEL: "ext", REVISION_NAME_LABEL: "ext-2"},
            },
        }));
        let is_stored = || world.server.get("secrets", SYSTEM_NAMESPACE, name).is_some();
        world
            .run(async || {
                minutes(1).await;
                assert!(is_stored());
                minutes(2).await;
                assert!(!is_stored());
            })
            .await;
    });
}

#[test]
fn a_catalog_that_comes_is_asked_at_once() {
    runtime().block_on(async {
        let world = World::new();
        world.server.remove("clustercatalogs", "", CATALOG);
        world.server.create(extension());
        world
            .run(async || {
                minutes(60).await;
                assert_eq!(world.ready().0, "False");
                world.server.create(catalog());
                a_moment().await;
                assert_eq!(world.ready().0, "True", "{}", world.ready().1);
            })
            .await;
    });
}

/// The times of the requests for an object of a kind of ours, in milliseconds.
fn times(log: &[String], request: &str) -> Vec<u64> {
    let of_object = log.iter().filter(|line| line.contains(request));
    of_object.map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect()
}

const API: &str = "/apis/olm.operatorframework.io/v1";

/// One status less for each installation: it would say that a revision was made, which the revision's own state says too.
#[test]
fn a_first_revision_is_reported_with_what_it_says_first() {
    runtime().block_on(async {
        let world = World::new();
        world.server.create(extension());
        world.run(async || minutes(1).await).await;
        let log = world.server.log();
        let reported = times(&log, &format!(" PUT {API}/clusterextensions/ext/status"));
        let said = times(&log, &format!(" PUT {API}/clusterobjectsets/ext-1/status"));
        assert!(reported.len() == 1 && reported >= said, "at {reported:?}, the revision at {said:?}");
    });
}

#[test]
fn a_first_revision_that_stays_silent_is_reported_after_a_moment() {
    runtime().block_on(async {
        let world = World::new();
        for _ in 0..4 {
            world.server.refuse_once("PUT olm.operatorframework.io/v1 clusterobjectsets  ext-1", 500);
        }
        world.server.create(extension());
        world.run(async || minutes(1).await).await;
        let log = world.server.log();
        let created = times(&log, &format!(" POST {API}/clusterobjectsets"))[0];
        let reported = times(&log, &format!(" PUT {API}/clusterextensions/ext/status"))[0] - created;
        assert!((500..1_000).contains(&reported), "after {reported} ms");
    });
}

/// The requests of a log that begin with a method, for object sets themselves.
fn of_sets<'a>(log: &'a [String], method: &str) -> Vec<&'a String> {
    let path = format!(" {method} /apis/olm.operatorframework.io/v1/clusterobjectsets ");
    log.iter().filter(|line| line.replace('?', " ").contains(&path)).collect()
}

#[test]
fn revisions_are_listed_once_and_what_was_written_is_waited_for() {
    runtime().block_on(async {
        let world = World::new();
        // Other events bring reconciles that find the store without what was just written.
        world.server.delay("clusterobjectsets", Duration::from_secs(7));
        world.server.create(extension());
        world
            .run(async || {
                minutes(60).await;
                *world.content.0.lock().unwrap_or_else(PoisonError::into_inner) = 2;
                let changed = CatalogChanged { catalog: CATALOG.to_owned(), reference: None };
                world.changes.send(changed).unwrap();
                minutes(60).await;
            })
            .await;
        assert_eq!(world.ready().0, "True", "{}", world.ready().1);
        let log = world.server.log();
        let (listed, created) = (of_sets(&log, "GET"), of_sets(&log, "POST"));
        assert_eq!(listed.len(), 1, "only by the watch: {listed:#?}");
        assert_eq!(created.len(), 2, "{created:#?}");
        assert!(created.iter().all(|line| line.ends_with("201")), "{created:#?}");
    });
}

/// Sets annotations of the extension, or takes them away with `null`.
fn annotate(world: &World, annotations: &Value) {
    world.server.edit("clusterextensions", "", "ext", &json!({"metadata": {"annotations": annotations}}));
}

#[test]
fn no_reconcile_of_a_life_lists_what_the_store_has() {
    runtime().block_on(async {
        let world = World::new();
        world.server.delay("clusterobjectsets", Duration::from_secs(7));
        world.server.create(extension());
        world
            .run(async || {
                minutes(60).await;
                for (annotation, value) in [(ROLLBACK_TO_ANNOTATION, "9"), (PAUSED_ANNOTATION, "true")] {
                    annotate(&world, &json!({annotation: value}));
                    minutes(60).await;
                    annotate(&world, &json!({annotation: null}));
                }
                *world.content.0.lock().unwrap_or_else(PoisonError::into_inner) = 2;
                world.changes.send(CatalogChanged { catalog: CATALOG.to_owned(), reference: None }).unwrap();
                minutes(60).await;
                annotate(&world, &json!({ROLLBACK_TO_ANNOTATION: "1"}));
                minutes(60).await;
                assert_eq!(of_sets(&world.server.log(), "POST").len(), 3, "with the one rolled back to");
                assert_eq!(of_sets(&world.server.log(), "GET").len(), 1, "only by the watch");
                annotate(&world, &json!({DELETION_POLICY_ANNOTATION: "RetainCRDs"}));
                let config = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}});
                let name = "beacons.lighthouse.example.com";
                let patch = json!({"spec": {"conversion": config}});
                world.server.edit("customresourcedefinitions", "", name, &patch);
                minutes(60).await;
                world.server.remove("clusterextensions", "", "ext");
                minutes(60).await;
            })
            .await;
        let left: Vec<Value> =
            world.server.objects().iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        assert!(
            of_kind(&left, "ClusterExtension").is_empty() && of_kind(&left, "ClusterObjectSet").is_empty()
        );
        let crds = of_kind(&left, "CustomResourceDefinition");
        assert_eq!(crds[0]["spec"]["conversion"]["strategy"], "None", "{crds:#?}");
        let log = world.server.log();
        let listed = of_sets(&log, "GET");
        assert_eq!(
            listed.len(),
            3,
            "before revisions are deleted, and before their CRD is left: {listed:#?}"
        );
    });
}
