//! Update policies: what they hold, until when, and what approves it. The simulation begins on a Thursday, at midnight UTC.

use olm_api::names::{APPROVED_PLAN_ANNOTATION, PLAN_DIGEST_ANNOTATION, REINSTALL_ANNOTATION};

use super::{
    facts::{World, a_moment, minutes},
    *,
};

fn policy(spec: &Value) -> Value {
    json!({
        "apiVersion": "extensions.olm.operatorframework.io/v1alpha1", "kind": "UpdatePolicy",
        "metadata": {"name": "prod"}, "spec": spec,
    })
}

impl World {
    /// A cluster with a policy and an extension, whose first version is being installed.
    pub(super) fn under(spec: &Value) -> Self {
        let world = Self::new();
        world.server.create(policy(spec));
        world.server.create(extension());
        world
    }

    pub(super) fn publish(&self, versions: usize) {
        *self.content.0.lock().unwrap_or_else(PoisonError::into_inner) = versions;
        // Without a process there is no listener.
        let _ = self.changes.send(CatalogChanged { catalog: CATALOG.to_owned(), reference: None });
    }

    pub(super) fn all(&self, kind: &str) -> Vec<Value> {
        let objects: Vec<Value> =
            self.server.objects().iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        of_kind(&objects, kind).into_iter().cloned().collect()
    }

    /// The digest of the one plan that is kept.
    pub(super) fn plan(&self) -> String {
        let plans = self.all("ExtensionPlan");
        assert_eq!(plans.len(), 1, "{plans:#?}");
        plans[0]["spec"]["digest"].as_str().unwrap().to_owned()
    }

    pub(super) fn sets(&self) -> usize {
        self.all("ClusterObjectSet").len()
    }

    pub(super) fn annotate(&self, name: &str, value: Option<&str>) {
        self.server.edit(
            "clusterextensions",
            "",
            "ext",
            &json!({"metadata": {"annotations": {name: value}}}),
        );
    }

    /// Status, reason and message of a condition; nothing if it is not there.
    pub(super) fn condition(&self, kind: &str) -> Option<(String, String, String)> {
        let extension = self.server.get("clusterextensions", "", "ext")?;
        let conditions = extension["status"]["conditions"].as_array().cloned()?;
        let found = conditions.into_iter().find(|condition| condition["type"] == kind)?;
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    /// The first line of `Ready`, which has to be True.
    pub(super) fn first_line(&self) -> String {
        let (status, message) = self.ready();
        assert_eq!(status, "True", "{message}");
        message.lines().next().unwrap_or_default().to_owned()
    }
}

#[test]
fn only_the_approved_plan_is_rolled_out() {
    runtime().block_on(async {
        let world = World::under(&json!({"selector": {}, "approval": "Manual"}));
        world
            .run(async || {
                minutes(10).await;
                assert_eq!(world.sets(), 1, "installations are not held");
                world.publish(2);
                minutes(10).await;
                let digest = world.plan();
                let short: String = digest.chars().take(17).collect();
                assert_eq!(
                    world.first_line(),
                    format!("1.1.0 waits for the approval of plan {short} (update policy prod).")
                );
                let (_, reason, _) = world.condition("Stalled").expect("a person is needed");
                assert_eq!((reason.as_str(), world.sets()), ("ApprovalRequired", 1));
                let policy = &world.all("UpdatePolicy")[0];
                assert_eq!((&policy["status"]["selected"], condition_of(policy)), (&json!(1), "True"));

                let writes = world.server.properties().writes;
                minutes(120).await;
                assert_eq!(
                    world.server.properties().writes,
                    writes,
                    "nothing is written while nothing changes"
                );

                // Another plan is approved.
                world.annotate(APPROVED_PLAN_ANNOTATION, Some(&format!("sha256:{}", "0".repeat(64))));
                minutes(10).await;
                assert_eq!(world.sets(), 1);
                assert!(world.first_line().contains("approved is sha256:0000000000, which is another plan"));
                // The plan changes between reading and approval.
                world.annotate(REINSTALL_ANNOTATION, Some("again"));
                world.annotate(APPROVED_PLAN_ANNOTATION, Some(&digest));
                minutes(10).await;
                let other = world.plan();
                assert!(other != digest && world.sets() == 1);
                let message = world.ready().1;
                assert!(
                    message.contains(
                        "\nThe plan that is approved would not be rolled out any more. Since then: "
                    ),
                    "{message}"
                );
                world.annotate(APPROVED_PLAN_ANNOTATION, Some(&other));
                minutes(10).await;
                assert_eq!(world.sets(), 2);
                let sets = world.all("ClusterObjectSet");
                let of = |set: &Value| set["metadata"]["annotations"][PLAN_DIGEST_ANNOTATION].clone();
                assert!(sets.iter().any(|set| of(set) == json!(other)), "{sets:#?}");
                assert!(world.all("ExtensionPlan").is_empty(), "it is rolled out");
                assert!(world.condition("Stalled").is_none());
            })
            .await;
    });
}

fn condition_of(policy: &Value) -> &str {
    let conditions = policy["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions[0]["status"].as_str().unwrap_or_default()
}

#[test]
fn a_plan_that_is_deleted_is_written_again_and_one_that_nothing_waits_for_is_removed() {
    runtime().block_on(async {
        let world = World::under(&json!({"selector": {}, "approval": "Manual"}));
        world
            .run(async || {
                minutes(10).await;
                world.publish(2);
                minutes(10).await;
                let name = world.all("ExtensionPlan")[0]["metadata"]["name"].as_str().unwrap().to_owned();
                let digest = world.plan();
                world.server.remove("extensionplans", "", &name);
                a_moment().await;
                assert_eq!(world.plan(), digest);
                world.publish(1);
                minutes(10).await;
                assert!(world.all("ExtensionPlan").is_empty(), "nothing waits");
                world.publish(2);
                minutes(10).await;
                world.server.remove("updatepolicies", "", "prod");
                minutes(10).await;
                assert_eq!((world.sets(), world.all("ExtensionPlan").len()), (2, 0), "nothing holds it");
            })
            .await;
    });
}

#[test]
fn a_window_is_waited_for_and_the_next_reconcile_comes_with_it() {
    runtime().block_on(async {
        let window = json!({"kind": "Allow", "schedule": "0 2 * * *", "duration": "1h"});
        let world = World::under(&json!({"selector": {}, "windows": [window]}));
        world
            .run(async || {
                minutes(10).await;
                world.publish(2);
                minutes(100).await;
                assert_eq!(
                    world.first_line(),
                    "1.1.0 waits for the window that opens Thursday 02:00 UTC (update policy prod)."
                );
                let (_, reason, _) = world.condition("Reconciling").expect("it passes by itself");
                assert_eq!((reason.as_str(), world.sets(), world.condition("Stalled")), ("Waiting", 1, None));
            })
            .await;
        // Another process knows nothing of it.
        world
            .run(async || {
                minutes(9).await;
                assert_eq!(world.sets(), 1, "it is 01:59");
                minutes(3).await;
                assert_eq!(world.sets(), 2, "it is 02:02");
            })
            .await;
    });
}

#[test]
fn the_minimum_age_counts_from_when_the_version_became_possible_also_for_another_process_and_plan() {
    runtime().block_on(async {
        let world = World::under(&json!({"selector": {}, "minimumAge": "3h"}));
        world
            .run(async || {
                minutes(10).await;
                world.publish(2);
                minutes(60).await;
                assert_eq!(
                    world.first_line(),
                    "1.1.0 waits for its minimum age, which it has Thursday 03:10 UTC (update policy prod)."
                );
            })
            .await;
        world
            .run(async || {
                minutes(60).await;
                // Another plan for the same version.
                world.annotate(REINSTALL_ANNOTATION, Some("again"));
                minutes(50).await;
                assert_eq!((world.sets(), world.all("ExtensionPlan").len()), (1, 1), "it is 03:00");
                minutes(15).await;
                assert_eq!(world.sets(), 2, "it is 03:15");
            })
            .await;
    });
}

#[test]
fn a_ceiling_holds_a_version_back_and_a_policy_that_is_wrong_holds_all() {
    runtime().block_on(async {
        let world = World::under(&json!({"selector": {}, "versions": "<1.1.0"}));
        world
            .run(async || {
                minutes(10).await;
                world.publish(2);
                minutes(10).await;
                let message = world.ready().1;
                assert!(
                    message.contains(
                        "Bundle lighthouse-operator.v1.1.0 of catalog coast is held back because update policy prod does not allow it."
                    ),
                    "{message}"
                );
                let zone = json!([{"kind": "Allow", "schedule": "0 2 * * *", "duration": "1h", "timeZone": "Mars"}]);
                world.server.edit("updatepolicies", "", "prod", &json!({"spec": {"versions": null, "windows": zone}}));
                minutes(10).await;
                assert_eq!(world.sets(), 1);
                let (_, reason, message) = world.condition("Stalled").expect("a person is needed");
                assert!(reason == "Blocked" && message.contains("timeZone \"Mars\""), "{reason}: {message}");
                assert_eq!(condition_of(&world.all("UpdatePolicy")[0]), "False");
                // Of another extension.
                let other = json!({"spec": {"selector": {"matchLabels": {"team": "b"}}, "windows": null}});
                world.server.edit("updatepolicies", "", "prod", &other);
                minutes(10).await;
                assert_eq!(world.sets(), 2);
                assert_eq!(world.all("UpdatePolicy")[0]["status"]["selected"], 0);
            })
            .await;
    });
}

#[test]
fn a_first_installation_is_held_where_the_policy_says_so() {
    runtime().block_on(async {
        let world = World::under(&json!({"selector": {}, "approval": "Manual", "installs": true}));
        world
            .run(async || {
                minutes(10).await;
                assert_eq!((world.sets(), world.ready().0.as_str()), (0, "False"));
                assert!(
                    world.ready().1.starts_with("1.0.0 waits for the approval of plan "),
                    "{}",
                    world.ready().1
                );
                assert!(world.condition("Progressing").is_none());
                world.annotate(APPROVED_PLAN_ANNOTATION, Some(&world.plan()));
                minutes(10).await;
                assert_eq!((world.sets(), world.ready().0.as_str()), (1, "True"));
            })
            .await;
    });
}

#[test]
fn a_way_back_needs_approval_and_no_window() {
    runtime().block_on(async {
        let world = World::under(&json!({"selector": {}}));
        let window = json!([{"kind": "Allow", "schedule": "0 2 1 1 *", "duration": "1h"}]);
        world
            .run(async || {
                minutes(10).await;
                world.publish(2);
                minutes(10).await;
                assert_eq!(world.sets(), 2);
                world.server.edit(
                    "updatepolicies",
                    "",
                    "prod",
                    &json!({"spec": {"windows": window, "approval": "Manual", "minimumAge": "3h"}}),
                );
                a_moment().await;
                world.annotate(ROLLBACK_TO_ANNOTATION, Some("1"));
                minutes(10).await;
                assert_eq!(world.sets(), 2);
                assert!(world.first_line().starts_with("1.0.0 waits for the approval of plan "));
                world.annotate(APPROVED_PLAN_ANNOTATION, Some(&world.plan()));
                minutes(10).await;
                assert_eq!((world.sets(), world.all("ExtensionPlan").len()), (3, 0));
            })
            .await;
    });
}
