//! The rules of the CRDs on a real API server: what it accepts, what it refuses, and with which words.
//!
//! A row is one object that differs from a valid one in what the row is about. Creates are dry runs.
//! A refusal must name exactly the fields the row names: a row refused for another reason fails.

mod cluster_catalog;
mod cluster_extension;
mod cluster_object_set;
mod probes;
mod status;
mod versions;

use futures::StreamExt;
use kube::Resource;
use kube::api::Api;
use kube::core::Status;
use olm_test::prelude::*;

/// Requests under way at once.
const CONCURRENCY: usize = 8;

/// What the API server adds when an object is so wrong that it does not look further.
const NOT_CHECKED: &str = "some validation rules were not checked";

/// An object and what becomes of it.
struct Row {
    name: String,
    object: Value,
    /// Field and message of every refusal; none: accepted.
    refused: Vec<(String, String)>,
}

/// Rows that differ from a valid object in one place each. A path is as in `spec.phases.0.name`.
struct Rows {
    base: Value,
    rows: Vec<Row>,
}

impl Rows {
    /// The first row is the valid object itself.
    fn of(base: &Value) -> Self {
        Self { base: base.clone(), rows: Vec::new() }.row("base", base.clone(), &[])
    }

    /// With this value at the path the object is accepted.
    fn yes(self, path: &str, value: impl Into<Value>) -> Self {
        self.no_for(path, value, &[])
    }

    /// With this value at the path the object is refused there.
    fn no(self, path: &str, value: impl Into<Value>, message: &str) -> Self {
        let field = field(path);
        self.no_for(path, value, &[(&field, message)])
    }

    /// With this value at the path the object is refused at these fields.
    fn no_for(self, path: &str, value: impl Into<Value>, because: &[(&str, &str)]) -> Self {
        let value = value.into();
        let name: String = format!("{path}: {value}").chars().take(120).collect();
        let object = with(&self.base, path, value);
        self.row(name, object, because)
    }

    /// Without the field the object is accepted.
    fn yes_without(self, path: &str) -> Self {
        let object = without(&self.base, path);
        self.row(format!("without {path}"), object, &[])
    }

    /// Without the field the object is refused, because it is required.
    fn required(self, path: &str) -> Self {
        let field = field(path);
        self.no_without(path, &field, "Required value")
    }

    /// Without the field the object is refused at another one.
    fn no_without(self, path: &str, field: &str, message: &str) -> Self {
        let object = without(&self.base, path);
        self.row(format!("without {path}"), object, &[(field, message)])
    }

    /// Any object.
    fn row(mut self, name: impl Into<String>, object: Value, because: &[(&str, &str)]) -> Self {
        let refused =
            because.iter().map(|&(field, message)| (field.to_owned(), message.to_owned())).collect();
        self.rows.push(Row { name: name.into(), object, refused });
        self
    }
}

/// A path as the API server writes it: `spec.phases[0].name`.
fn field(path: &str) -> String {
    path.split('.').fold(String::new(), |field, segment| match segment.parse::<usize>() {
        Ok(index) => format!("{field}[{index}]"),
        Err(_) if field.is_empty() => segment.to_owned(),
        Err(_) => format!("{field}.{segment}"),
    })
}

/// A copy of the object with a field set.
fn with(object: &Value, path: &str, value: impl Into<Value>) -> Value {
    let mut changed = object.clone();
    *place(&mut changed, path) = value.into();
    changed
}

/// A copy of the object without a field.
fn without(object: &Value, path: &str) -> Value {
    let mut changed = object.clone();
    let (parent, field) = match path.rsplit_once('.') {
        Some((parent, field)) => (place(&mut changed, parent), field),
        None => (&mut changed, path),
    };
    parent.as_object_mut().unwrap().remove(field).unwrap();
    changed
}

fn place<'a>(object: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(object, |place, segment| match segment.parse::<usize>() {
        Ok(index) => &mut place[index],
        Err(_) => &mut place[segment],
    })
}

fn api<K: Resource<DynamicType = ()>>(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &ApiResource::erase::<K>(&()))
}

/// Creates each row's object, as a dry run, and compares.
async fn check_creates<K: Resource<DynamicType = ()>>(rows: Rows) -> Result<()> {
    let api = api::<K>(Cluster::shared().await?.client().await?);
    check(rows.rows, async |object| {
        let object = serde_json::from_value(object)?;
        Ok(api.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await)
    })
    .await
}

/// Creates the rows' base in earnest and then makes of it what each row says, as dry runs.
async fn check_updates<K: Resource<DynamicType = ()>>(rows: Rows) -> Result<()> {
    let (api, before) = create::<K>(&rows.base).await?;
    let name = before.metadata.name.clone().context("no name")?;
    let result = check(rows.rows, async |object| {
        let mut after: DynamicObject = serde_json::from_value(object)?;
        after.metadata.name = Some(name.clone());
        after.metadata.resource_version.clone_from(&before.metadata.resource_version);
        Ok(api.replace(&name, &PostParams { dry_run: true, ..PostParams::default() }, &after).await)
    })
    .await;
    api.remove(&name).await?;
    result
}

/// Creates an object in earnest, gives it the rows' base status, and then makes of that what each row says,
/// as dry runs.
async fn check_status<K: Resource<DynamicType = ()>>(object: &Value, rows: Rows) -> Result<()> {
    let (api, mut created) = create::<K>(object).await?;
    let name = created.metadata.name.clone().context("no name")?;
    created.data["status"] = rows.base["status"].clone();
    let created = api.replace_status(&name, &PostParams::default(), &created).await?;
    let result = check(rows.rows, async |object| {
        let mut after = created.clone();
        after.data["status"] = object["status"].clone();
        Ok(api.replace_status(&name, &PostParams { dry_run: true, ..PostParams::default() }, &after).await)
    })
    .await;
    api.remove(&name).await?;
    result
}

async fn create<K: Resource<DynamicType = ()>>(
    object: &Value,
) -> Result<(Api<DynamicObject>, DynamicObject)> {
    let api = api::<K>(Cluster::shared().await?.client().await?);
    let object = with(object, "metadata.name", unique_name("crds"));
    let created = api.make(object).await?;
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

/// 1.33 is the oldest version this API server can play; rules that need a newer function fail here.
#[tokio::test]
async fn an_older_api_server_takes_the_definitions() -> Result<()> {
    if skip_on_given_cluster() {
        return Ok(());
    }
    let older = vec!["--emulated-version=1.33".to_owned(), "--min-compatibility-version=1.33".to_owned()];
    let cluster = Cluster::start(Options { nodes: 0, api_server_args: older, ..Options::default() }).await?;
    let version = cluster.client().await?.apiserver_version().await?;
    assert_eq!(version.emulation_minor.as_deref(), Some("33"));
    cluster.apply_crds(olm_api::crds::all()).await?;
    let sets = api::<olm_api::v1::ClusterObjectSet>(cluster.client().await?);
    sets.make(cluster_object_set::object_set()).await?;
    Ok(())
}
