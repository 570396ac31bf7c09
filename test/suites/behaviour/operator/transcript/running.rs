//! Extensions that roll out, collide, are paused or deleted, and manifests that are refused.

use k8s_openapi::api::core::v1::Pod;
use olm_test::{cli, prelude::*};

use super::{State, Transcript};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_roll_out_waits_for() -> Result<()> {
    let scenario = Scenario::shared("rolling").await?;
    let package = format!("{}-operator", scenario.name);
    scenario.offer(&[small(&package, "1.0.0").deployment(false)]).await?;
    let mut shown = Transcript::new(&scenario);
    let waits = |reason: &str| format!("Waiting for Deployment {}/{package}: {reason}: Pod ", scenario.name);
    scenario.create_extension(&package, json!({})).await?;
    let reason = waits("FailedScheduling");
    let state = (State::Reconciling, &[&*reason][..]);
    shown.extension("No node takes the Pod", &scenario.name, state, &["FailedScheduling: "]).await?;

    // There is no kubelet: the states that one would report are written here.
    let pods: Api<Pod> = scenario.here();
    let pod = pods.list(&ListParams::default()).await?.items.first().context("no Pod")?.name_any();
    let waiting = |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
    let ended = json!({"terminated": {
        "reason": "Error", "exitCode": 2, "message": "password=hunter2", "startedAt": null, "finishedAt": null,
    }});
    let rows = [
        (
            "An image cannot be pulled",
            "ImagePullBackOff",
            waiting("ErrImagePull", "manifest unknown"),
            json!({}),
        ),
        ("A container crashes", "CrashLoopBackOff", waiting("CrashLoopBackOff", "back-off 40s"), ended),
    ];
    for (title, reason, now, last) in rows {
        let container = json!({
            "name": "manager", "image": "registry.example.com/op:v1", "imageID": "", "ready": false,
            "restartCount": 3, "state": now, "lastState": last,
        });
        let patch = Patch::Merge(json!({"status": {"containerStatuses": [container]}}));
        pods.patch_status(&pod, &PatchParams::default(), &patch).await?;
        let (waits, explained) = (waits(reason), format!("{reason}: "));
        let state = (State::Reconciling, &[&*waits][..]);
        shown.extension(title, &scenario.name, state, &[&*explained]).await?;
    }
    ensure!(!shown.text.contains("hunter2"), "the end of a log is shown:\n{}", shown.text);
    scenario.delete_extension().await?;
    shown.write()
}

#[tokio::test(flavor = "multi_thread")]
async fn collisions_repairs_pauses_rollbacks_and_deletion() -> Result<()> {
    let scenario = Scenario::shared("running").await?;
    let (package, name) = (format!("{}-operator", scenario.name), scenario.name.as_str());
    let version = |version: &str, max: u32| {
        small(&package, version).brings_with(
            &scenario.group(),
            "Lamp",
            &json!({"size": {"type": "integer", "maximum": max}}),
        )
    };
    scenario
        .offer(&[version("1.0.0", 10), version("1.1.0", 10).replaces("1.0.0"), version("0.9.0", 5)])
        .await?;
    let mut shown = Transcript::new(&scenario);
    scenario.install(&package, json!({"version": "1.0.0"}), "1.0.0").await?;
    let state = (State::Ready, &["Revision 1.0.0 has rolled out."][..]);
    shown.extension("Installed, with an update", name, state, &["not chosen: "]).await?;

    let second = format!("{name}-second");
    scenario.another(&second, &package, json!({})).await?;
    let owner = format!(" to ClusterExtension {name}: remove one of the two extensions.");
    let state = (State::Stalled, &["revision object collisions", &*owner][..]);
    shown.extension("Two extensions of one package", &second, state, &[&owner]).await?;
    scenario.remove_extension(&second).await?;

    let map = format!("{package}-data");
    scenario.maps().remove(&map).await?;
    scenario.event("ClusterExtension", name, "DriftRepaired", &map).await?;
    scenario.installed("1.0.0").await?;
    let state = (State::Ready, &["Revision 1.0.0 has rolled out."][..]);
    shown.extension("An object was deleted and is back", name, state, &[]).await?;

    scenario.annotate("paused", json!("true")).await?;
    scenario.set_version("1.1.0").await?;
    let state = (State::Ready, &["Paused by the annotation", "v1.1.0"][..]);
    let pending = "pending    waits for the end of the pause: bundle ";
    let explained = ["state      Paused", pending, "with version \"1.1.0\"", "Objects\n"];
    shown.extension("Paused, while another version is asked for", name, state, &explained).await?;
    scenario.annotate("paused", Value::Null).await?;
    scenario.installed("1.1.0").await?;

    let certified = json!({"version": "0.9.0", "upgradeConstraintPolicy": "SelfCertified"});
    scenario.patch_extension(json!({"spec": {"source": {"catalog": certified}}})).await?;
    let change = "maximum: maximum decreased : 10 -> 5";
    let state = (State::Stalled, &["validating upgrade for CRD", "allow-crd-changes"][..]);
    shown.extension("A CRD that would change unsafely", name, state, &[change]).await?;
    scenario.upgrade("1.1.0").await?;

    scenario.annotate("rollback-to", json!("1")).await?;
    let state = (State::Ready, &["Rolled back to revision 1"][..]);
    shown.extension("Rolled back", name, state, &["1.0.0"]).await?;

    let held = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    scenario.patch_extension(held(json!(["example.com/hold"]))).await?;
    scenario.extensions().delete(name, &DeleteParams::default()).await?;
    let waits =
        "The deletion waits for the finalizer example.com/hold, which the program that set it has to remove.";
    let state = (State::Reconciling, &[waits][..]);
    let explained = ["Deleting", waits, "none: the extension is being deleted"];
    shown.extension("Being deleted", name, state, &explained).await?;
    let status = ["status", name];
    let status = cli::olm(&scenario.world.cluster.kubeconfig_admin(), &status).await?;
    status.ensure(0, &["pending    The deletion waits for the finalizer example.com/hold"])?;
    scenario.patch_extension(held(Value::Null)).await?;
    shown.write()
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_that_are_refused() -> Result<()> {
    let scenario = Scenario::shared("refused").await?;
    let mut shown = Transcript::new(&scenario);
    let mut version = scenario.extension_object("lamp");
    version["spec"]["source"]["catalog"]["version"] = "latest".into();
    shown.refused(
        "A version that is none",
        &version,
        &["invalid version expression: write a version such as 1.2.3, or a range such as 1.4.x"],
    )?;
    let annotated = |annotation: &str, value: &str| {
        let mut object = scenario.extension_object("lamp");
        let key = format!("extensions.olm.operatorframework.io/{annotation}");
        object["metadata"]["annotations"] = json!({key: value});
        object
    };
    let parts = ["/paused", "cannot be \"yes\": set it to \"true\" or a time such as"];
    shown.refused("An annotation with a wrong value", &annotated("paused", "yes"), &parts)?;
    shown.refused(
        "An annotation that there is not",
        &annotated("pause", "true"),
        &["/pause\"", "remove it. Did you mean paused?"],
    )?;
    let rules = json!([{"apiGroups": ["olm.operatorframework.io"], "resources": ["clusterextensions"], "verbs": ["*"]}]);
    let (bob, _) = scenario.user("bob", rules).await?;
    let object = scenario.extension_object("lamp");
    let denied = format!("{bob} may not act as the service account \"{ACCOUNT}\"");
    let parts = [&*denied, "ask for permission to impersonate it, or to create its token"];
    shown.refused_with(&["--as", &bob], "A ServiceAccount that the user may not use", &object, &parts)?;
    shown.write()
}
