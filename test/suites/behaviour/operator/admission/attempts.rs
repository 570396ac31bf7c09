//! Every way in which the API server can be asked to write an extension or an object set, tried by somebody who may write
//! both and may use none of the accounts.

use std::fmt::Write as _;

use olm_api::names::{EXTENSION_FIELD_MANAGER, IDENTITY_ANNOTATION};
use olm_test::prelude::*;

use super::{object_set, wants};

/// The only account that the attacker may use.
const WEAK: &str = "weak";
const NOT_ALLOWED: &str = "may not act as the service account \"installer\"";
/// What has this number of parts costs the policies more than they may.
const MANY: usize = 1_200;

const MERGE: &str = "application/merge-patch+json";
const STEPS: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const WHOLE: &str = "application/json";

/// A request to write something.
struct Attempt {
    how: &'static str,
    verb: &'static str,
    /// Name, subresource and parameters.
    target: String,
    form: &'static str,
    body: Value,
}

fn attempt(how: &'static str, verb: &'static str, target: &str, form: &'static str, body: Value) -> Attempt {
    Attempt { how, verb, target: target.to_owned(), form, body }
}

/// Makes the request; what the API server says against it, or nothing.
async fn refusal(client: &Client, plural: &str, attempt: &Attempt) -> Result<Option<String>> {
    let path = format!("/apis/olm.operatorframework.io/v1/{plural}{}", attempt.target);
    let request = http::Request::builder()
        .method(attempt.verb)
        .uri(path)
        .header(http::header::CONTENT_TYPE, attempt.form)
        .body(serde_json::to_vec(&attempt.body)?)?;
    match client.request_text(request).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message)),
        Err(error) => Err(error).context("asking the API server"),
    }
}

/// A user with every verb on extensions, object sets and their status, and one weak account.
async fn attacker(scenario: &Scenario<'_>) -> Result<Client> {
    let resources = [
        "clusterextensions",
        "clusterextensions/status",
        "clusterextensions/finalizers",
        "clusterobjectsets",
        "clusterobjectsets/status",
    ];
    let rules = json!([
        {"apiGroups": ["olm.operatorframework.io"], "verbs": ["*"], "resources": resources},
        {"apiGroups": [""], "verbs": ["impersonate"], "resources": ["serviceaccounts"], "resourceNames": [WEAK]},
    ]);
    let (_, client) = scenario.user("attacker", rules).await?;
    // The authorizer learns of new roles by a watch.
    let mut plain = set_as(scenario, WEAK);
    plain["metadata"]["name"] = format!("{}-mine", scenario.name).into();
    wait::until("the attacker's own set to be accepted", DEADLINE, async || {
        let made = attempt("its own", "POST", "", WHOLE, plain.clone());
        let answer = refusal(&client, "clusterobjectsets", &made).await?;
        ensure!(answer.is_none(), "{answer:?}");
        Ok(())
    })
    .await?;
    Ok(client)
}

/// An object set that acts as this account of the scenario's namespace.
fn set_as(scenario: &Scenario<'_>, account: &str) -> Value {
    let annotations = json!({
        SERVICE_ACCOUNT_NAME_ANNOTATION: account, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: scenario.name,
    });
    object_set(scenario, &annotations, &json!({}))
}

/// Requests that make `object` under another name, in every way there is.
fn creations(object: &Value, name: &str) -> Vec<Attempt> {
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut object = object.clone();
        object["metadata"]["name"] = name.into();
        change(&mut object);
        object
    };
    let plain = changed(&|_| {});
    let by_prefix = changed(&|object| {
        object["metadata"]["generateName"] = format!("{name}-").into();
        object["metadata"]["name"] = Value::Null;
    });
    let dying = changed(&|object| {
        object["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
        object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        object["metadata"]["finalizers"] = json!(["example.com/held"]);
    });
    let apply = format!("/{name}?force=true&fieldManager=");
    vec![
        attempt("created", "POST", "", WHOLE, plain.clone()),
        attempt("created without being stored", "POST", "?dryRun=All", WHOLE, plain.clone()),
        attempt("created without checks", "POST", "?fieldValidation=Ignore", WHOLE, plain.clone()),
        attempt("created by prefix", "POST", "", WHOLE, by_prefix),
        attempt("created as if it were being deleted", "POST", "", WHOLE, dying),
        attempt("applied", "PATCH", &format!("{apply}mine"), APPLY, plain.clone()),
        attempt(
            "applied in another's name",
            "PATCH",
            &format!("{apply}{EXTENSION_FIELD_MANAGER}"),
            APPLY,
            plain,
        ),
    ]
}

/// Requests that change `before` into `after`, or `fields` of it.
fn changes(before: &Value, after: &Value, pointer: &str, fields: &Value) -> Vec<Attempt> {
    let name = before["metadata"]["name"].as_str().unwrap_or_default();
    let target = format!("/{name}");
    let value = after.pointer(pointer).cloned().unwrap_or_default();
    let steps = json!([{"op": "test", "path": pointer, "value": before.pointer(pointer)},
                       {"op": "replace", "path": pointer, "value": value}]);
    let applied = {
        let mut applied = fields.clone();
        applied["apiVersion"] = before["apiVersion"].clone();
        applied["kind"] = before["kind"].clone();
        applied["metadata"]["name"] = name.into();
        applied
    };
    let apply = format!("{target}?force=true&fieldManager=");
    vec![
        attempt("merged", "PATCH", &target, MERGE, fields.clone()),
        attempt(
            "merged without being stored",
            "PATCH",
            &format!("{target}?dryRun=All"),
            MERGE,
            fields.clone(),
        ),
        attempt("replaced in steps", "PATCH", &target, STEPS, steps),
        attempt("replaced as a whole", "PUT", &target, WHOLE, after.clone()),
        attempt("applied", "PATCH", &format!("{apply}mine"), APPLY, applied.clone()),
        attempt(
            "applied in another's name",
            "PATCH",
            &format!("{apply}{EXTENSION_FIELD_MANAGER}"),
            APPLY,
            applied,
        ),
    ]
}

/// The same requests through the status, which leave everything else as it is.
async fn status_changes_nothing_else(
    client: &Client,
    plural: &str,
    attempts: Vec<Attempt>,
    read: impl AsyncFn() -> Result<(Value, Value)>,
) -> Result<()> {
    let before = read().await?;
    for mut attempt in attempts {
        attempt.target = match attempt.target.split_once('?') {
            Some((name, parameters)) => format!("{name}/status?{parameters}"),
            None => format!("{}/status", attempt.target),
        };
        // Some are refused for their form, which does no harm either.
        let answer = refusal(client, plural, &attempt).await?;
        let after = read().await?;
        ensure!(after == before, "{} through the status ({answer:?}): {after:?}", attempt.how);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_way_of_writing_an_extension_leads_around_the_policies() -> Result<()> {
    let scenario = Scenario::shared("ways").await?;
    scenario.offer(&[small("ways", "1.0.0"), small("ways", "1.1.0").replaces("1.0.0")]).await?;
    scenario.install("ways", json!({"version": "1.0.0"}), "1.0.0").await?;
    let attacker = attacker(&scenario).await?;
    let plural = "clusterextensions";
    let second = format!("{}-second", scenario.name);

    let named = scenario.extension_object("ways");
    for attempt in creations(&named, &second) {
        let answer = refusal(&attacker, plural, &attempt).await?;
        wants(answer.as_deref(), NOT_ALLOWED).with_context(|| attempt.how)?;
    }
    for (account, wanted) in [
        (Value::Null, "not set, and the cluster has no default account"),
        (json!({}), "spec.serviceAccount in body should have at least 1 properties"),
        (json!({"name": ""}), "spec.serviceAccount.name"),
        (json!({"name": "../installer"}), "spec.serviceAccount.name"),
        (json!({"name": "a/installer"}), "spec.serviceAccount.name"),
    ] {
        let mut object = named.clone();
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.insert("serviceAccount".to_owned(), account.clone());
            spec.retain(|_, value| !value.is_null());
        }
        for attempt in creations(&object, &second) {
            let answer = refusal(&attacker, plural, &attempt).await?;
            wants(answer.as_deref(), wanted).with_context(|| format!("{account}, {}", attempt.how))?;
        }
    }
    let made = scenario.extensions().all().await?;
    let made = made.iter().filter(|made| made.name_any().starts_with(&second)).count();
    ensure!(made == 0, "{made} were made");
    nothing_of_an_extension_is_changed(&scenario, &attacker).await?;
    scenario.installed("1.0.0").await?;
    scenario.delete_extension().await
}

async fn nothing_of_an_extension_is_changed(scenario: &Scenario<'_>, attacker: &Client) -> Result<()> {
    let plural = "clusterextensions";
    let read = async || -> Result<(Value, Value)> {
        let found = scenario.extensions().get(&scenario.name).await?;
        Ok((serde_json::to_value(&found.spec)?, json!(found.annotations())))
    };
    let fields = |annotation: &str, value: Value| json!({"metadata": {"annotations": {format!("extensions.olm.operatorframework.io/{annotation}"): value}}});
    let source = json!({"spec": {"source": {"catalog": {"version": "1.1.0"}}}});
    let mut wanted_changes = vec![("/spec/source/catalog/version", source)];
    for (annotation, value) in [
        ("reinstall", json!("now")),
        ("rollback-to", json!("1")),
        ("deletion-policy", json!("Orphan")),
        ("paused", json!("true")),
        ("allow-crd-changes", json!("*")),
        ("unknown-kinds", json!("Block")),
    ] {
        wanted_changes.push(("/metadata/annotations", fields(annotation, value)));
    }
    for (pointer, fields) in &wanted_changes {
        let mut before = serde_json::to_value(scenario.extensions().get(&scenario.name).await?)?;
        before["metadata"]["managedFields"] = Value::Null;
        let mut after = before.clone();
        merge(&mut after, fields);
        let attempts = changes(&before, &after, pointer, fields);
        for attempt in &attempts {
            let answer = refusal(attacker, plural, attempt).await?;
            // An application that leaves out what is required is refused for that first.
            let by_schema = attempt.form == APPLY
                && answer.as_deref().is_some_and(|answer| answer.contains("Required value"));
            if !by_schema {
                wants(answer.as_deref(), NOT_ALLOWED)
                    .with_context(|| format!("{fields}, {}", attempt.how))?;
            }
        }
        status_changes_nothing_else(attacker, plural, attempts, read).await?;
    }
    let identity = json!({"metadata": {"annotations": {IDENTITY_ANNOTATION: null}}});
    let taken = attempt("the record", "PATCH", &format!("/{}", scenario.name), MERGE, identity);
    wants(refusal(attacker, plural, &taken).await?.as_deref(), NOT_ALLOWED)
}

/// Merges as a merge patch does.
fn merge(into: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    for (name, value) in fields {
        merge(&mut into[name], value);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_way_of_writing_an_object_set_leads_to_anothers_account() -> Result<()> {
    let scenario = Scenario::shared("setways").await?;
    olm_test::permissions::create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    let attacker = attacker(&scenario).await?;
    let plural = "clusterobjectsets";
    let half = |name: &str, value: &str| object_set(&scenario, &json!({name: value}), &json!({}));
    for (what, set, wanted) in [
        ("another's account", set_as(&scenario, ACCOUNT), NOT_ALLOWED),
        ("no account", object_set(&scenario, &json!({}), &json!({})), "name the service account"),
        ("a name alone", half(SERVICE_ACCOUNT_NAME_ANNOTATION, WEAK), "service account"),
        ("a namespace alone", half(SERVICE_ACCOUNT_NAMESPACE_ANNOTATION, &scenario.name), "service account"),
        ("an empty name", set_as(&scenario, ""), "service account"),
    ] {
        for attempt in creations(&set, &format!("{}-other", scenario.name)) {
            let answer = refusal(&attacker, plural, &attempt).await?;
            wants(answer.as_deref(), wanted).with_context(|| format!("{what}, {}", attempt.how))?;
        }
    }

    let name = format!("{}-mine", scenario.name);
    let read = async || -> Result<(Value, Value)> {
        let found = scenario.sets().get(&name).await?;
        Ok((serde_json::to_value(&found.spec)?, json!(found.annotations())))
    };
    for (what, account, namespace) in [
        ("another's account", json!(ACCOUNT), json!(scenario.name)),
        ("one of another namespace", json!("default"), json!("kube-system")),
        ("no account", Value::Null, Value::Null),
        ("no name", Value::Null, json!(scenario.name)),
        ("no namespace", json!(WEAK), Value::Null),
    ] {
        let fields = json!({"metadata": {"annotations": {
            SERVICE_ACCOUNT_NAME_ANNOTATION: account, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: namespace,
        }}});
        let mut before = serde_json::to_value(scenario.sets().get(&name).await?)?;
        before["metadata"]["managedFields"] = Value::Null;
        let mut after = before.clone();
        merge(&mut after, &fields);
        if let Some(annotations) = after["metadata"]["annotations"].as_object_mut() {
            annotations.retain(|_, value| !value.is_null());
        }
        let attempts = changes(&before, &after, "/metadata/annotations", &fields);
        // Who applies an annotation of null says nothing about it.
        let takes_away = account.is_null() || namespace.is_null();
        for attempt in attempts.iter().filter(|attempt| !(takes_away && attempt.form == APPLY)) {
            let answer = refusal(&attacker, plural, attempt).await?;
            wants(answer.as_deref(), "service account")
                .with_context(|| format!("{what}, {}", attempt.how))?;
        }
        status_changes_nothing_else(&attacker, plural, attempts, read).await?;
    }
    let found = scenario.sets().get(&name).await?;
    ensure!(found.annotations().get(SERVICE_ACCOUNT_NAME_ANNOTATION).map(String::as_str) == Some(WEAK));
    scenario.sets().delete(&name, &DeleteParams::default()).await.map(drop).map_err(Into::into)
}

/// What costs the policies more than they may is refused, and can be deleted all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_for_the_policies_is_refused_and_can_be_deleted() -> Result<()> {
    let scenario = Scenario::shared("much").await?;
    olm_test::permissions::create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    let attacker = attacker(&scenario).await?;
    let references = |kind: &str| -> Vec<Value> {
        (0..MANY)
            .map(|i| json!({"apiVersion": "not.olm/v1", "kind": kind, "name": format!("n{i}"), "uid": format!("u{i}")}))
            .collect()
    };
    let many = |kind: &str| {
        let mut set = set_as(&scenario, WEAK);
        set["metadata"]["name"] = format!("{}-many", scenario.name).into();
        set["metadata"]["finalizers"] = json!(["example.com/held"]);
        set["metadata"]["ownerReferences"] = references(kind).into();
        set
    };
    let claims = attempt("claims", "POST", "", WHOLE, many("ClusterExtension"));
    let answer = refusal(&attacker, "clusterobjectsets", &claims).await?;
    ensure!(answer.is_some(), "{MANY} claims were accepted");
    let made = scenario.sets().make(many("ConfigMap")).await?;
    let name = made.name_any();
    let target = format!("/{name}");
    let account = json!({"metadata": {"annotations": {SERVICE_ACCOUNT_NAME_ANNOTATION: ACCOUNT}}});
    let answer =
        refusal(&attacker, "clusterobjectsets", &attempt("account", "PATCH", &target, MERGE, account))
            .await?;
    wants(answer.as_deref(), NOT_ALLOWED)?;
    let mut claims = references("ConfigMap");
    claims[MANY - 1] = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
                              "name": "victim", "uid": "u", "controller": true});
    let claim = json!({"metadata": {"ownerReferences": claims}});
    let answer =
        refusal(&attacker, "clusterobjectsets", &attempt("claim", "PATCH", &target, MERGE, claim)).await?;
    wants(answer.as_deref(), "'clusterobjectset-owner.olm.operatorframework.io' denied request")?;
    scenario.sets().remove(&name).await?;
    let free = json!({"metadata": {"finalizers": null}});
    let answer =
        refusal(&attacker, "clusterobjectsets", &attempt("free", "PATCH", &target, MERGE, free.clone()))
            .await?;
    ensure!(answer.is_none(), "its finalizers stay: {answer:?}");

    // The same with annotations of an extension.
    let mut object = scenario.extension_object("none");
    object["metadata"]["finalizers"] = json!(["example.com/held"]);
    for number in 0..4_000 {
        object["metadata"]["annotations"][format!("example.com/n{number}")] = "x".into();
    }
    scenario.extensions().make(object).await?;
    let target = format!("/{}", scenario.name);
    let mut unknown = json!({"metadata": {"annotations": {}}});
    for number in 0..MANY {
        let mut name = String::from("extensions.olm.operatorframework.io/n");
        write!(name, "{number}")?;
        unknown["metadata"]["annotations"][name] = "x".into();
    }
    let paused = json!({"metadata": {"annotations": {"extensions.olm.operatorframework.io/paused": "true"}}});
    let version = json!({"spec": {"source": {"catalog": {"version": "9.9.9"}}}});
    // Two policies refuse unknown annotations, and the API server names either.
    for (how, fields, reason) in [
        ("unknown annotations", unknown, "denied request"),
        ("paused", paused, NOT_ALLOWED),
        ("another version", version, NOT_ALLOWED),
    ] {
        let answer =
            refusal(&attacker, "clusterextensions", &attempt(how, "PATCH", &target, MERGE, fields)).await?;
        wants(answer.as_deref(), reason).with_context(|| how)?;
    }
    let extensions: Api<ClusterExtension> = Api::all(attacker.clone());
    extensions.remove(&scenario.name).await?;
    let answer =
        refusal(&attacker, "clusterextensions", &attempt("free", "PATCH", &target, MERGE, free)).await?;
    ensure!(answer.is_none(), "its finalizers stay: {answer:?}");
    Ok(())
}
