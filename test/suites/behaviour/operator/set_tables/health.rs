//! Probes, phases and errors.

use olm_test::prelude::*;

use super::{begins, condition, create, create_with, inline, map, patch, rolled_out, scenario, shows, spec};

fn probe(assertions: &Value) -> Value {
    json!([{
        "selector": {"type": "GroupKind", "groupKind": {"group": "", "kind": "ConfigMap"}},
        "assertions": assertions,
    }])
}

fn field(path: &str, value: &str) -> Value {
    json!({"type": "FieldValue", "fieldValue": {"fieldPath": path, "value": value}})
}

fn equal(a: &str, b: &str) -> Value {
    json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": a, "fieldB": b}})
}

fn has_condition(type_: &str, status: &str) -> Value {
    json!({"type": "ConditionEqual", "conditionEqual": {"type": type_, "status": status}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_fails_says_why() -> Result<()> {
    let scenario = scenario(World::shared().await?, "probes").await?;
    let rows = [
        (json!([has_condition("Ready", "True")]), "missing .status.conditions"),
        (json!([field("data.a", "x")]), "value at key \"data.a\" != \"x\"; expected: \"x\" got: \"b\""),
        (json!([field("data.none", "x")]), "missing key: \"data.none\""),
        (json!([equal("data.a", "data.c")]), "\"data.a\" != \"data.c\" expected: \"b\" got: \"d\""),
        (json!([equal("data.a", "data.none")]), "\"data.none\" missing"),
        (
            json!([field("data.none", "x"), equal("data.a", "data.none")]),
            "missing key: \"data.none\" and \"data.none\" missing",
        ),
    ];
    for (index, (assertions, _)) in rows.iter().enumerate() {
        // The second phase waits for the first, of which the first object that fails is named.
        let first = inline(&[map(&scenario, &format!("p{index}")), map(&scenario, &format!("q{index}"))]);
        let second = inline(&[map(&scenario, &format!("later{index}"))]);
        let mut spec = spec(&[("one", first), ("two", second)]);
        spec["progressionProbes"] = probe(assertions);
        create(&scenario, &index.to_string(), spec).await?;
    }
    // Who makes a revision by hand may leave its version out.
    let mut nameless = spec(&[("one", inline(&[map(&scenario, "nameless")]))]);
    nameless["progressionProbes"] = probe(&rows[0].0);
    let mut annotations = scenario.by_hand();
    annotations[BUNDLE_VERSION] = "".into();
    let nameless = create_with(&scenario, "nameless", annotations, nameless).await?;
    shows(&scenario, &nameless, Progressing, "True/RollingOut/Revision  is rolling out.").await?;
    for (index, (_, text)) in rows.iter().enumerate() {
        let set = format!("{}-{index}", scenario.name);
        let message = format!("Object ConfigMap.v1 {}/p{index}: {text}", scenario.name);
        shows(&scenario, &set, Available, &format!("False/ProbeFailure/{message}")).await?;
        shows(&scenario, &set, Progressing, "True/RollingOut/Revision 7.0.0 is rolling out.").await?;
        ensure!(condition(&scenario, &set, Succeeded).await?.is_empty(), "{set} succeeded");
        ensure!(scenario.maps().get_opt(&format!("later{index}")).await?.is_none(), "{set} went on");
    }
    let set = format!("{}-0", scenario.name);
    scenario.event("ClusterObjectSet", &set, "RollingOut", "Revision 7.0.0 is rolling out.").await?;
    // Probes may be changed.
    patch(&scenario, &set, json!({"spec": {"progressionProbes": probe(&json!([field("data.a", "b")]))}}))
        .await?;
    rolled_out(&scenario, &set).await?;
    scenario.event("ClusterObjectSet", &set, "RolledOut", "Revision 7.0.0 has rolled out.").await?;
    // Succeeded is never taken back; availability is.
    patch(&scenario, &set, json!({"spec": {"progressionProbes": probe(&json!([field("data.a", "x")]))}}))
        .await?;
    let text = format!(
        "Object ConfigMap.v1 {}/p0: value at key \"data.a\" != \"x\"; expected: \"x\" got: \"b\"",
        scenario.name
    );
    shows(&scenario, &set, Available, &format!("False/ProbeFailure/{text}")).await?;
    ensure!(condition(&scenario, &set, Succeeded).await?.starts_with("True/Succeeded/"), "taken back");
    scenario.event("ClusterObjectSet", &set, "ProbeFailure", "value at key").await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_selector_and_missing_accounts_are_told() -> Result<()> {
    let scenario = scenario(World::shared().await?, "told").await?;
    let phases = || spec(&[("one", inline(&[map(&scenario, "a")]))]);
    let mut selecting = phases();
    selecting["progressionProbes"] = json!([{
        "selector": {"type": "Label", "label": {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}},
        "assertions": [field("data.a", "b")],
    }]);
    let set = create(&scenario, "selector", selecting).await?;
    begins(&scenario, &set, Progressing, "True/Retrying/invalid label selector in progressionProbe (")
        .await?;

    let name = "olm.operatorframework.io/service-account-name";
    let namespace = "olm.operatorframework.io/service-account-namespace";
    let place = scenario.name.as_str();
    let rows = [
        (
            "none",
            json!({}),
            format!(
                "False/Blocked/revision \"{{}}\" is missing required annotations: set {name} and {namespace} to the service account to use, or configure a default service account for the cluster"
            ),
        ),
        (
            "name",
            json!({name: ACCOUNT}),
            "False/Blocked/revision \"{}\" is missing ServiceAccount namespace annotation".to_owned(),
        ),
        (
            "namespace",
            json!({namespace: place}),
            "False/Blocked/revision \"{}\" is missing ServiceAccount name annotation".to_owned(),
        ),
        (
            "gone",
            json!({name: "nobody", namespace: place}),
            format!(
                "True/Retrying/service account \"nobody\" not found in namespace \"{place}\": unable to authenticate with the Kubernetes cluster."
            ),
        ),
    ];
    for (suffix, annotations, wanted) in rows {
        let set = create_with(&scenario, suffix, annotations, phases()).await?;
        shows(&scenario, &set, Progressing, &wanted.replace("{}", &set)).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_objects_of_a_phase_are_tried_and_drift_is_repaired() -> Result<()> {
    let scenario = scenario(World::shared().await?, "tried").await?;
    let elsewhere = |name: &str| {
        let mut object = map(&scenario, name);
        object["metadata"]["namespace"] = "kube-public".into();
        object
    };
    let one = inline(&[elsewhere("x"), map(&scenario, "fine"), elsewhere("y")]);
    let set = create(&scenario, "errors", spec(&[("one", one), ("two", inline(&[map(&scenario, "later")]))]))
        .await?;
    let begin = "True/Retrying/Object ConfigMap.v1 kube-public/x: configmaps \"x\" is forbidden:";
    begins(&scenario, &set, Progressing, begin).await?;
    let told = condition(&scenario, &set, Progressing).await?;
    ensure!(told.contains("\nObject ConfigMap.v1 kube-public/y: configmaps \"y\" is forbidden:"), "{told}");
    ensure!(scenario.maps().get_opt("fine").await?.is_some(), "the object between was not tried");
    ensure!(scenario.maps().get_opt("later").await?.is_none(), "the second phase began");
    scenario.event("ClusterObjectSet", &set, "Retrying", "kube-public/x").await?;

    let set = create(&scenario, "drift", spec(&[("one", inline(&[map(&scenario, "kept")]))])).await?;
    rolled_out(&scenario, &set).await?;
    scenario.maps().remove("kept").await?;
    scenario.maps().appears("kept").await?;
    let text = format!("Restored after an outside change: ConfigMap.v1 {}/kept", scenario.name);
    scenario.event("ClusterObjectSet", &set, "DriftRepaired", &text).await?;
    // What a user adds stays, what he changes is put back.
    let edit = json!({"metadata": {"annotations": {"mine": "1"}}, "data": {"a": "changed", "user": "x"}});
    scenario.maps().merge("kept", &edit).await?;
    wait::until("the edit to be repaired", DEADLINE, || async {
        let found = scenario.maps().get("kept").await?;
        let data = found.data.unwrap_or_default();
        let mine = found.metadata.annotations.unwrap_or_default().contains_key("mine");
        wait::check(data["a"] == "b" && data.contains_key("user") && mine, || format!("{data:?}"))
    })
    .await?;
    // Deletion needs nothing but the finalizer to go: objects go by garbage collection.
    scenario.sets().remove(&set).await?;
    scenario.sets().gone(&set).await
}
