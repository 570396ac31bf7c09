//! The rules of the CRDs on a real API server: what it accepts, what it refuses, and with which words.
//!
//! A row is one object that differs from a valid one in what the row is about. Creates are dry runs.
//! A refusal must name exactly the fields the row names: a row refused for another reason fails.

mod cluster_catalog;
mod cluster_extension;
mod cluster_object_set;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Client, Resource};
use olm_test::cluster::{Cluster, unique_name};
use serde_json::{Value, json};

/// Requests under way at once.
const CONCURRENCY: usize = 8;

/// What the API server adds when an object is so wrong that it does not look further.
const NOT_CHECKED: &str = "some validation rules were not checked";

/// An object and what becomes of it.
struct Row {
    name: String,
    object: Value,
    /// Field and message of every refusal; empty: accepted.
    refused: Vec<(String, String)>,
}

fn accepted(name: impl Into<String>, object: Value) -> Row {
    Row { name: name.into(), object, refused: Vec::new() }
}

fn refused(name: impl Into<String>, object: Value, because: &[(&str, &str)]) -> Row {
    let refused = because.iter().map(|&(field, message)| (field.to_owned(), message.to_owned())).collect();
    Row { name: name.into(), object, refused }
}

/// A row that is refused for one reason.
fn denied(name: impl Into<String>, object: Value, field: &str, message: &str) -> Row {
    refused(name, object, &[(field, message)])
}

/// A copy of the object with a field set. The path is as in `spec.source.catalog`, with numbers for items.
fn with(object: &Value, path: &str, value: impl Into<Value>) -> Value {
    let mut changed = object.clone();
    let mut place = &mut changed;
    for segment in path.split('.') {
        place = match segment.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[segment],
        };
    }
    *place = value.into();
    changed
}

/// A copy of the object without a field.
fn without(object: &Value, path: &str) -> Value {
    let mut changed = object.clone();
    let (parent, field) = path.rsplit_once('.').unwrap_or(("", path));
    let pointer: String =
        parent.split('.').filter(|part| !part.is_empty()).map(|part| format!("/{part}")).collect();
    changed.pointer_mut(&pointer).and_then(Value::as_object_mut).unwrap().remove(field).unwrap();
    changed
}

fn api<K: Resource<DynamicType = ()>>(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &ApiResource::erase::<K>(&()))
}

/// Creates each row's object, as a dry run, and compares.
async fn check_creates<K: Resource<DynamicType = ()>>(rows: Vec<Row>) -> Result<()> {
    let api = api::<K>(Cluster::shared().await?.client().await?);
    check(rows, async |object| {
        let object = serde_json::from_value(object)?;
        Ok(api.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await)
    })
    .await
}

/// Creates an object in earnest and then makes of it what each row says, as dry runs.
async fn check_updates<K: Resource<DynamicType = ()>>(before: &Value, rows: Vec<Row>) -> Result<()> {
    let (api, before) = create::<K>(before).await?;
    let name = before.metadata.name.clone().context("no name")?;
    let result = check(rows, async |object| {
        let mut after: DynamicObject = serde_json::from_value(object)?;
        after.metadata.name = Some(name.clone());
        after.metadata.resource_version.clone_from(&before.metadata.resource_version);
        Ok(api.replace(&name, &PostParams { dry_run: true, ..PostParams::default() }, &after).await)
    })
    .await;
    api.delete(&name, &DeleteParams::default()).await?;
    result
}

/// Creates an object in earnest, gives it a status, and then makes of that what each row says, as dry runs.
async fn check_status<K: Resource<DynamicType = ()>>(
    object: &Value,
    before: Value,
    rows: Vec<Row>,
) -> Result<()> {
    let (api, created) = create::<K>(object).await?;
    let name = created.metadata.name.context("no name")?;
    let earnest = PatchParams::default();
    api.patch_status(&name, &earnest, &Patch::Merge(json!({ "status": before }))).await?;
    let result = check(rows, async |status| {
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        Ok(api.patch_status(&name, &params, &Patch::Merge(json!({ "status": status }))).await)
    })
    .await;
    api.delete(&name, &DeleteParams::default()).await?;
    result
}

async fn create<K: Resource<DynamicType = ()>>(
    object: &Value,
) -> Result<(Api<DynamicObject>, DynamicObject)> {
    let api = api::<K>(Cluster::shared().await?.client().await?);
    let object = with(object, "metadata.name", unique_name("crds"));
    let created = api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok((api, created))
}

async fn check(
    rows: Vec<Row>,
    ask: impl AsyncFn(Value) -> Result<kube::Result<DynamicObject>>,
) -> Result<()> {
    let ask = &ask;
    let wrong: Vec<String> = futures::stream::iter(rows)
        .map(async |row| {
            let answer = ask(row.object).await?;
            Ok(compare(&answer, row.refused)?.map(|wrong| format!("{}: {wrong}", row.name)))
        })
        .buffered(CONCURRENCY)
        .collect::<Vec<Result<Option<String>>>>()
        .await
        .into_iter()
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// What is wrong with the answer, if anything is.
fn compare(
    answer: &kube::Result<DynamicObject>,
    mut expected: Vec<(String, String)>,
) -> Result<Option<String>> {
    let seen = match answer {
        Ok(_) => Vec::new(),
        Err(kube::Error::Api(status)) if status.code == 422 => causes(status),
        Err(error) => bail!("{error}"),
    };
    let mut unexpected = Vec::new();
    for (field, message) in seen {
        let found =
            expected.iter().position(|(path, text)| *path == field && message.contains(text.as_str()));
        match found {
            Some(index) => drop(expected.remove(index)),
            None => unexpected.push(format!("{field}: {message}")),
        }
    }
    Ok((!unexpected.is_empty() || !expected.is_empty())
        .then(|| format!("not refused with {expected:?}, but with {unexpected:?}")))
}

fn causes(status: &Status) -> Vec<(String, String)> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .filter(|cause| !cause.message.contains(NOT_CHECKED))
        .map(|cause| (cause.field.clone(), cause.message.clone()))
        .collect()
}

/// The object as the API server completes it.
async fn completed<K: Resource<DynamicType = ()>>(object: Value) -> Result<Value> {
    let api = api::<K>(Cluster::shared().await?.client().await?);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let created = api.create(&params, &serde_json::from_value(object)?).await?;
    Ok(serde_json::to_value(created)?)
}

/// The columns `kubectl get` shows, by name, for objects of a kind.
async fn columns<K: Resource<DynamicType = ()>>() -> Result<Vec<String>> {
    let client = Cluster::shared().await?.client().await?;
    let request = http::Request::get(K::url_path(&(), None))
        .header("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
        .body(Vec::new())?;
    let table: Value = client.request(request).await?;
    let columns = table["columnDefinitions"].as_array().context("no columns")?;
    Ok(columns.iter().filter_map(|column| column["name"].as_str().map(str::to_owned)).collect())
}
