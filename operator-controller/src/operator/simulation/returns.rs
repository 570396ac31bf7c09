//! A revision that misses its deadline, under a policy that lets the one before take its place.

use olm_api::names::{
    APPROVED_PLAN_ANNOTATION, PAUSED_ANNOTATION, REINSTALL_ANNOTATION, RETRY_ANNOTATION,
    RETURNED_FROM_ANNOTATION,
};

use super::{
    facts::{World, a_moment, minutes},
    *,
};

/// Minutes after which a roll-out has failed.
const DEADLINE: u64 = 10;
const NOT_AGAIN: &str = "1.1.0 missed its deadline as revision 2 and is replaced by the revision before: it is tried again when the spec, its image in the catalog or the annotation extensions.olm.operatorframework.io/retry changes.";

impl World {
    /// The first version is installed, and the second does not become available; extensions have a deadline.
    fn broken(spec: Value) -> Self {
        let mut spec = spec;
        spec["selector"] = json!({});
        spec["onFailure"] = "Return".into();
        let world = Self::under(&spec);
        world.deadline(Some(DEADLINE));
        world.server.break_version(Some(VERSIONS[1]));
        world
    }

    fn deadline(&self, minutes: Option<u64>) {
        self.server.edit(
            "clusterextensions",
            "",
            "ext",
            &json!({"spec": {"progressDeadlineMinutes": minutes}}),
        );
    }

    /// Versions and states of the revisions.
    fn revisions(&self) -> Vec<String> {
        let version = |set: &Value| {
            let name = set["metadata"]["annotations"][olm_api::names::BUNDLE_VERSION].as_str();
            format!(
                "{} {}",
                name.unwrap_or_default(),
                set["spec"]["lifecycleState"].as_str().unwrap_or_default()
            )
        };
        self.all("ClusterObjectSet").iter().map(version).collect()
    }

    /// What revisions have made, without their number. Applying takes no field away here, so CRDs keep those that they got.
    fn made(&self) -> Vec<String> {
        let mut made = Vec::new();
        for (resource, namespace, name) in self.server.controlled() {
            let mut object = self.server.get(&resource, &namespace, &name).unwrap();
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata["annotations"].as_object_mut().unwrap().remove("olm.operatorframework.io/revision");
            for field in ["ownerReferences", "resourceVersion", "generation"] {
                metadata.remove(field);
            }
            object["status"] = Value::Null;
            if resource == "customresourcedefinitions" {
                object["spec"] = Value::Null;
            }
            made.push(object.to_string());
        }
        made
    }
}

#[test]
fn what_misses_its_deadline_is_replaced_without_approval_and_tried_again_only_with_it() {
    runtime().block_on(async {
        let windows = json!([{"kind": "Allow", "schedule": "0 0 * * *", "duration": "30m"}]);
        let world = World::broken(json!({"approval": "Manual", "windows": windows}));
        let mut before = Vec::new();
        world
            .run(async || {
                minutes(10).await;
                before = world.made();
                world.publish(2);
                minutes(10).await;
                world.annotate(APPROVED_PLAN_ANNOTATION, Some(&world.plan()));
                minutes(8).await;
                assert_eq!(world.revisions(), ["1.0.0 Active", "1.1.0 Active"]);
                assert_ne!(world.made(), before);
            })
            .await;
        // Another process knows nothing of it. The window is closed.
        world
            .run(async || {
                minutes(10).await;
                let revisions = ["1.0.0 Archived", "1.1.0 Archived", "1.0.0 Active"];
                assert_eq!(world.revisions(), revisions);
                assert_eq!(world.made(), before, "the state is that before");
                assert_eq!(world.first_line(), NOT_AGAIN);
                let (_, reason, message) = world.condition("Stalled").expect("a person is needed");
                assert_eq!((reason.as_str(), message.as_str()), ("ProgressDeadlineExceeded", NOT_AGAIN));
                let writes = world.server.properties().writes;
                minutes(120).await;
                assert_eq!(world.server.properties().writes, writes, "nothing is tried again");
                // Nor by another policy, or none.
                world.server.remove("updatepolicies", "", "prod");
                minutes(10).await;
                assert_eq!(world.revisions(), revisions);
            })
            .await;
        world.server.create(json!({
            "apiVersion": "extensions.olm.operatorframework.io/v1alpha1", "kind": "UpdatePolicy",
            "metadata": {"name": "prod"}, "spec": {"selector": {}, "approval": "Manual"},
        }));
        world.server.break_version(None);
        world
            .run(async || {
                minutes(1).await;
                world.annotate(RETRY_ANNOTATION, Some("1"));
                minutes(10).await;
                assert!(world.first_line().starts_with("1.1.0 waits for the approval of plan "));
                world.annotate(APPROVED_PLAN_ANNOTATION, Some(&world.plan()));
                minutes(10).await;
                assert_eq!(world.revisions()[3], "1.1.0 Active");
                assert!(world.condition("Stalled").is_none());
                // What has rolled out is not held because it failed before.
                world.annotate(RETRY_ANNOTATION, None);
                minutes(10).await;
                assert!(!world.ready().1.contains("missed its deadline"), "{}", world.ready().1);
            })
            .await;
        assert_eq!(world.server.properties().violations, Vec::<String>::new());
    });
}

#[test]
fn another_spec_and_another_content_are_tried_again() {
    runtime().block_on(async {
        let world = World::broken(json!({}));
        world
            .run(async || {
                minutes(10).await;
                world.publish(2);
                minutes(20).await;
                assert_eq!(world.sets(), 3);
                world.deadline(Some(DEADLINE + 1));
                minutes(5).await;
                assert_eq!(world.revisions()[3], "1.1.0 Active");
                minutes(15).await;
                assert_eq!(world.revisions()[4], "1.0.0 Active");
                world.annotate(REINSTALL_ANNOTATION, Some("again"));
                minutes(5).await;
                assert_eq!(world.revisions()[5], "1.1.0 Active");
                // What it is made of changes before it has failed: that was not tried.
                world.annotate(PAUSED_ANNOTATION, Some("true"));
                a_moment().await;
                world.annotate(REINSTALL_ANNOTATION, Some("once more"));
                minutes(20).await;
                assert_eq!(world.sets(), 6, "a paused extension stays");
                world.annotate(PAUSED_ANNOTATION, None);
                minutes(5).await;
                let sets = world.all("ClusterObjectSet");
                let of_return = sets.iter().rev().find_map(|set| {
                    set["metadata"]["annotations"][RETURNED_FROM_ANNOTATION].as_str().map(str::to_owned)
                });
                assert_eq!(of_return.as_deref(), Some(r#"{"revision":6,"version":"1.1.0"}"#));
                assert_eq!(world.revisions().last().map(String::as_str), Some("1.1.0 Active"));
            })
            .await;
        assert_eq!(world.server.properties().violations, Vec::<String>::new());
    });
}

#[test]
fn objects_that_need_the_newer_definition_keep_what_failed() {
    runtime().block_on(async {
        let world = World::broken(json!({}));
        world
            .run(async || {
                minutes(10).await;
                world.publish(2);
                minutes(2).await;
                world.server.create(json!({
                    "apiVersion": "lighthouse.example.com/v1", "kind": "Beacon",
                    "metadata": {"name": "north", "namespace": "n"}, "spec": {"intervalSeconds": 5},
                }));
                minutes(20).await;
                assert_eq!(world.revisions(), ["1.0.0 Active", "1.1.0 Active"]);
                let message = world.ready().1;
                let wanted = "Update policy prod lets revision 1 (1.0.0) take the place of revision 2 (1.1.0), which missed its deadline, but stored objects would be in danger: CRD \"beacons.lighthouse.example.com\": at version v1 ";
                assert!(message.contains(wanted), "{message}");
                world.server.remove("beacons", "n", "north");
                minutes(5).await;
                assert_eq!(world.revisions()[2], "1.0.0 Active");
            })
            .await;
    });
}

#[test]
fn where_nothing_can_come_back_the_revision_stays_and_ready_says_why() {
    runtime().block_on(async {
        let world = World::broken(json!({}));
        world.server.break_version(Some(VERSIONS[0]));
        world
            .run(async || {
                minutes(20).await;
                assert_eq!(world.revisions(), ["1.0.0 Active"]);
                let message = world.ready().1;
                let wanted = "Revision 1 missed its deadline and nothing takes its place, because no earlier revision has rolled out: ";
                assert!(message.contains(wanted), "{message}");
                world.deadline(None);
                minutes(1).await;
                let message = world.ready().1;
                let wanted = "Update policy prod is in force. It has onFailure: Return, which has no effect until spec.progressDeadlineMinutes is set: ";
                assert!(message.contains(wanted), "{message}");
            })
            .await;
    });
}
