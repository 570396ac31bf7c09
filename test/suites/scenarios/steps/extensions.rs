//! Extensions: what is asked for, and what they report.

use cucumber::{gherkin::Step, given, then, when};
use olm_test::prelude::*;

use super::Outcome;
use crate::{
    kinds::OF_BUNDLES,
    world::{COLLECTED, DEADLINE, World},
};

/// An extension of the scenario's package from its catalog "main", with further fields of its spec.
pub(crate) fn extension(w: &World, name: &str, more: &Value) -> Value {
    let mut object =
        olm_test::extension::extension(name, &w.id, &w.id, &format!("{}-main", w.id), &Value::Null);
    merge(&mut object["spec"], more);
    object
}

/// RFC 7386.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            into.as_object_mut().map(|fields| fields.remove(name));
        } else {
            merge(&mut into[name.as_str()], value);
        }
    }
}

#[when("the extension is created")]
#[given("the extension is created")]
async fn created(w: &mut World) -> Outcome {
    let object = extension(w, &w.id, &json!({}));
    Ok(w.create(&object).await?)
}

#[when("the extension is created with")]
#[given("the extension is created with")]
async fn created_with(w: &mut World, step: &Step) -> Outcome {
    let object = extension(w, &w.id, &w.yaml(step)?);
    Ok(w.create(&object).await?)
}

#[when(expr = "a further extension {string} is created with")]
async fn further(w: &mut World, name: String, step: &Step) -> Outcome {
    let object = extension(w, &w.text(&name), &w.yaml(step)?);
    Ok(w.create(&object).await?)
}

#[when("the extension is changed to")]
async fn changed(w: &mut World, step: &Step) -> Outcome {
    let patch = json!({"spec": w.yaml(step)?});
    Ok(w.patch("ClusterExtension", "${ID}", &patch).await?)
}

#[when("the extension is deleted")]
async fn deleted(w: &mut World) -> Outcome {
    w.delete("ClusterExtension", "${ID}").await?;
    Ok(w.gone("ClusterExtension", "${ID}", DEADLINE).await?)
}

fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().find(|one| one["type"] == type_).unwrap_or(&Value::Null)
}

/// A condition of this generation is so.
fn shows(object: &Value, type_: &str, status: &str, reason: &str, message: &[&str]) -> Result<()> {
    let found = condition(object, type_);
    must!(found["status"] == status && found["reason"] == reason, "{type_} is {found}");
    let told = found["message"].as_str().unwrap_or_default();
    for line in message {
        must!(told.contains(line), "{type_} says {told:?}, without {line:?}");
    }
    let (seen, now) = (&found["observedGeneration"], &object["metadata"]["generation"]);
    must!(seen == now, "{type_} is about generation {seen}, not {now}");
    Ok(())
}

#[then(expr = "the extension is rolled out")]
async fn rolled_out(w: &mut World) -> Outcome {
    Ok(w.until("to be rolled out", "ClusterExtension", "${ID}", |object| {
        shows(object, "Progressing", "True", "Succeeded", &[])
    })
    .await?)
}

#[then(expr = "the extension is available")]
async fn available(w: &mut World) -> Outcome {
    Ok(w.until("to be available", "ClusterExtension", "${ID}", |object| {
        shows(object, "Installed", "True", "Succeeded", &[])
    })
    .await?)
}

#[given(expr = "version {string} is installed")]
#[then(expr = "version {string} is installed")]
async fn installed(w: &mut World, version: String) -> Outcome {
    let name = format!("{}.v{version}", w.id);
    Ok(w.until(&format!("to be installed at {version}"), "ClusterExtension", "${ID}", |object| {
        let bundle = &object["status"]["install"]["bundle"];
        must!(
            bundle["version"] == version.as_str() && bundle["name"] == name.as_str(),
            "installed is {bundle}: {}",
            condition(object, "Progressing")
        );
        Ok(())
    })
    .await?)
}

#[then(expr = "version {string} is still installed")]
async fn still_installed(w: &mut World, version: String) -> Outcome {
    let object = w.get_there("ClusterExtension", "${ID}").await?;
    let bundle = &object["status"]["install"]["bundle"];
    must!(bundle["version"] == version.as_str(), "installed is {bundle}");
    Ok(())
}

#[then("nothing is installed")]
async fn nothing_installed(w: &mut World) -> Outcome {
    let object = w.get_there("ClusterExtension", "${ID}").await?;
    must!(object["status"]["install"].is_null(), "installed is {}", object["status"]["install"]);
    Ok(())
}

#[given(expr = "the extension reports {word} {word} because of {word}")]
#[then(expr = "the extension reports {word} {word} because of {word}")]
async fn reports(w: &mut World, type_: String, status: String, reason: String) -> Outcome {
    object_reports(w, "ClusterExtension".into(), "${ID}".into(), type_, status, reason).await
}

#[then(expr = "the extension reports {word} {word} because of {word}, saying")]
async fn reports_saying(
    w: &mut World,
    type_: String,
    status: String,
    reason: String,
    step: &Step,
) -> Outcome {
    object_reports_saying(w, "ClusterExtension".into(), "${ID}".into(), type_, status, reason, step).await
}

#[then(expr = "the {word} {string} reports {word} {word} because of {word}")]
async fn object_reports(
    w: &mut World,
    kind: String,
    name: String,
    type_: String,
    status: String,
    reason: String,
) -> Outcome {
    Ok(w.until(&format!("to report {type_} {status}"), &kind, &name, |object| {
        shows(object, &type_, &status, &reason, &[])
    })
    .await?)
}

#[then(expr = "the {word} {string} reports {word} {word} because of {word}, saying")]
async fn object_reports_saying(
    w: &mut World,
    kind: String,
    name: String,
    type_: String,
    status: String,
    reason: String,
    step: &Step,
) -> Outcome {
    let text = w.text(step.docstring.as_deref().unwrap_or_default());
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    must!(!lines.is_empty(), "the step has no text below it");
    Ok(w.until(&format!("to report {type_} {status}"), &kind, &name, |object| {
        shows(object, &type_, &status, &reason, &lines)
    })
    .await?)
}

#[then(expr = "the {word} {string} belongs to the extension")]
async fn belongs(w: &mut World, kind: String, name: String) -> Outcome {
    let mut labels = json!({ OWNER_KIND_LABEL: "ClusterExtension" });
    labels[olm_api::names::OWNER_NAME_LABEL] = w.id.as_str().into();
    let owner = json!({"kind": "ClusterObjectSet", "controller": true});
    let parts = json!({"metadata": {"labels": labels, "ownerReferences": [owner]}});
    Ok(w.includes(&kind, &name, &parts).await?)
}

#[then("nothing of the extension is left")]
async fn nothing_left(w: &mut World) -> Outcome {
    Ok(wait::until("everything of the extension to be gone", COLLECTED, async || {
        let mut left = Vec::new();
        for kind in OF_BUNDLES {
            left.extend(w.owned(kind).await?);
        }
        wait::check(left.is_empty(), || format!("left: {left:?}"))
    })
    .await?)
}

#[then(expr = "{int} objects of the extension exist at least")]
async fn some_exist(w: &mut World, wanted: usize) -> Outcome {
    let mut found = Vec::new();
    for kind in OF_BUNDLES {
        found.extend(w.owned(kind).await?);
    }
    must!(found.len() >= wanted, "there are {found:?}");
    Ok(())
}
