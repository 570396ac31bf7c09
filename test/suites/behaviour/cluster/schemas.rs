//! The local validation of custom resources against the API server's own.
//!
//! Objects are made for real definitions, half of them spoiled in some place; what the server says to creating
//! them, as a dry run, is what the local validation has to say, or it is undecided.

use std::sync::Mutex;

use futures::StreamExt;
use kube::api::Api;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{Condition as _, conditions::is_crd_established};
use olm_crd::{Policy, Schema, Tristate};
use olm_test::{bundle::crd_with_versions, objects::Objects, prelude::*};

/// Objects for each definition.
const OBJECTS: u64 = 60;
/// Definitions on the cluster at once. Each costs the API server memory and a new description of itself.
const CONCURRENCY: usize = 4;
/// Differences that are printed.
const SHOWN_MAX: usize = 20;

#[derive(Debug, Default)]
struct Counts {
    valid: usize,
    invalid: usize,
    undecided: BTreeMap<String, usize>,
    different: Vec<String>,
}

// The local validation of stored objects before an upgrade gives the API server's answer.
#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_are_validated_as_by_the_api_server() -> Result<()> {
    let Some(folder) = bundles() else { return Ok(()) };
    let definitions = definitions(&folder)?;
    // A cluster of its own: the definitions would be in the way of what the other tests ask.
    let cluster = Cluster::start(Options { nodes: 1, ..Options::default() }).await?;
    let client = cluster.client().await?;
    let counts = Mutex::new(Counts::default());
    let work = definitions.values().enumerate().map(|(index, definition)| {
        let (client, counts) = (client.clone(), &counts);
        async move {
            compare(client, definition, u64::try_from(index)?, counts)
                .await
                .with_context(|| definition["metadata"]["name"].to_string())
        }
    });
    let results: Vec<Result<()>> = futures::stream::iter(work).buffer_unordered(CONCURRENCY).collect().await;
    for result in results {
        result?;
    }
    let counts = counts.into_inner()?;
    let undecided: usize = counts.undecided.values().sum();
    println!(
        "schemas: {} definitions: {} equal ({} valid, {} invalid), {undecided} undecided, {} different",
        definitions.len(),
        counts.valid + counts.invalid,
        counts.valid,
        counts.invalid,
        counts.different.len()
    );
    println!("schemas: undecided because {:?}", counts.undecided);
    for difference in counts.different.iter().take(SHOWN_MAX) {
        println!("schemas: {difference}");
    }
    assert!(counts.different.is_empty());
    assert!(counts.valid > 500 && counts.invalid > 500, "too few of a kind to mean anything");
    assert!(undecided * 20 < counts.valid + counts.invalid, "too much is undecided");
    Ok(())
}

/// The folder with real bundles, or `None`, said on standard output.
fn bundles() -> Option<PathBuf> {
    olm_test::data::find("bundles")
}

/// The definitions of all bundles by name, each with its storage version only and without a webhook.
fn definitions(folder: &Path) -> Result<BTreeMap<String, Value>> {
    let mut definitions = BTreeMap::new();
    for package in sorted(folder)? {
        for version in sorted(&package)? {
            for file in sorted(&version.join("manifests"))? {
                let bytes = fs::read(&file)?;
                let text = olm_yaml::text(&bytes)?;
                for document in olm_yaml::mixed(text).collect::<Result<Vec<_>, _>>()? {
                    if document["kind"] == "CustomResourceDefinition"
                        && document["apiVersion"] == "apiextensions.k8s.io/v1"
                        && let Some(definition) = alone(&document)
                    {
                        definitions.insert(definition["metadata"]["name"].to_string(), definition);
                    }
                }
            }
        }
    }
    Ok(definitions)
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn alone(definition: &Value) -> Option<Value> {
    let versions = definition["spec"]["versions"].as_array()?;
    let mut version = versions.iter().find(|version| version["storage"] == true)?.clone();
    version["served"] = true.into();
    let mut spec = definition["spec"].clone();
    spec["versions"] = json!([version]);
    spec["conversion"] = json!({"strategy": "None"});
    let annotations = &definition["metadata"]["annotations"];
    Some(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition["metadata"]["name"], "annotations": annotations},
        "spec": spec,
    }))
}

async fn compare(client: Client, definition: &Value, seed: u64, counts: &Mutex<Counts>) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let created =
        match crds.create(&PostParams::default(), &serde_json::from_value(definition.clone())?).await {
            Ok(created) => created,
            // Some real definitions are not valid; they never had objects.
            Err(kube::Error::Api(status)) if status.code == 422 => {
                println!("schemas: left out, the API server refuses {}", definition["metadata"]["name"]);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
    let name = created.name_any();
    wait::until("the definition to be established", DEADLINE, || async {
        let crd = crds.get(&name).await?;
        wait::check(is_crd_established().matches_object(Some(&crd)), || "it is not".to_owned())
    })
    .await?;
    let result = objects(client, definition, seed, counts).await;
    crds.remove(&name).await?;
    result
}

async fn objects(client: Client, definition: &Value, seed: u64, counts: &Mutex<Counts>) -> Result<()> {
    let version = &definition["spec"]["versions"][0];
    let text = |value: &Value| value.as_str().map(str::to_owned).context("not a text");
    let (group, kind) = (text(&definition["spec"]["group"])?, text(&definition["spec"]["names"]["kind"])?);
    let gvk = GroupVersionKind::gvk(&group, &text(&version["name"])?, &kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &text(&definition["spec"]["names"]["plural"])?);
    let api: Api<DynamicObject> = if definition["spec"]["scope"] == "Namespaced" {
        Api::namespaced_with(client, "default", &resource)
    } else {
        Api::all_with(client, &resource)
    };
    let schema = Schema::read(definition, &gvk.version)?;
    let mut made = Objects::new(seed);
    for number in 0..OBJECTS {
        let object = object(&mut made, version, number % 2 == 1, &gvk);
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let (accepted, said) = wait::until("an answer", DEADLINE, || async {
            match api.create(&params, &serde_json::from_value(object.clone())?).await {
                Ok(_) => Ok((true, String::new())),
                Err(kube::Error::Api(status)) if [400, 422].contains(&status.code) => {
                    Ok((false, status.message))
                }
                // The kind is not served yet, or the server is busy.
                Err(error) => Err(error.into()),
            }
        })
        .await?;
        let validation = schema.validate(&object);
        let Ok(mut counts) = counts.lock() else { bail!("a task panicked") };
        match (validation.is_valid(), accepted) {
            (Tristate::Yes, true) => counts.valid += 1,
            (Tristate::No, false) => counts.invalid += 1,
            (Tristate::Undecided, _) => {
                let why = validation.undecided.first().map(|note| note.text.clone()).unwrap_or_default();
                *counts.undecided.entry(why).or_default() += 1;
            }
            (is_valid, _) => counts.different.push(format!(
                "{}: {is_valid:?} ({:?}), the server says {said:?}: {object}",
                resource.plural, validation.violations
            )),
        }
    }
    Ok(())
}

fn object(made: &mut Objects, version: &Value, spoil: bool, gvk: &GroupVersionKind) -> Value {
    let mut object = made.value(&version["schema"]["openAPIV3Schema"], 0);
    if !object.is_object() {
        object = json!({});
    }
    // Nobody creates an object with a status, and the server would take it away.
    if version["subresources"]["status"].is_object()
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    if spoil {
        for field in ["apiVersion", "kind", "metadata"] {
            object.as_object_mut().and_then(|fields| fields.remove(field));
        }
        made.spoil(&mut object);
        if !object.is_object() {
            object = json!({"spec": object});
        }
    }
    object["apiVersion"] = gvk.api_version().into();
    object["kind"] = gvk.kind.clone().into();
    object["metadata"] = json!({"name": "one"});
    object
}

/// Pairs of schemas of which the second is said to replace the first without harm.
const SAFE_PAIRS: usize = 60;
/// Values for each of them.
const VALUES: usize = 12;

// Changes that are called safe are safe: values that the API server accepts under the old schema it accepts under the new one.
#[tokio::test(flavor = "multi_thread")]
async fn safe_changes_keep_objects_valid_for_the_api_server() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(11);
    let (mut pairs, mut refused) = (Vec::new(), 0);
    while pairs.len() < SAFE_PAIRS {
        let old = random_schema(&mut rng, 2);
        let mut new = old.clone();
        edit(&mut rng, &mut new);
        if old == new {
            continue;
        }
        let [before, after] =
            [&old, &new].map(|schema| pair_definition("pairs.example.com", &json!({"f": schema})));
        if olm_crd::compare(&before, &after, Policy::Ours)?.is_refused() {
            refused += 1;
        } else {
            pairs.push((old, new));
        }
    }
    let mut properties = serde_json::Map::new();
    for (index, (old, new)) in pairs.iter().enumerate() {
        properties.insert(format!("old{index}"), old.clone());
        properties.insert(format!("new{index}"), new.clone());
    }
    let group = format!("{}.example.com", unique_name("pairs"));
    let definition = pair_definition(&group, &Value::Object(properties));
    let client = Cluster::shared().await?.client().await?;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.make(definition).await?;
    let gvk = GroupVersionKind::gvk(&group, "v1", "Pair");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "pairs");
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut made = Objects::new(5);
    let (mut kept, mut invalid) = (0, 0);
    for (index, (old, new)) in pairs.iter().enumerate() {
        for _ in 0..VALUES {
            let value = made.value(old, 0);
            if !accepts(&api, &resource, &format!("old{index}"), &value).await? {
                invalid += 1;
            } else if accepts(&api, &resource, &format!("new{index}"), &value).await? {
                kept += 1;
            } else {
                bail!("{value} with {old} and then {new}");
            }
        }
    }
    println!(
        "schemas: {} safe pairs, {refused} refused; {kept} values stay valid, {invalid} never were",
        pairs.len()
    );
    assert!(refused > SAFE_PAIRS && kept > SAFE_PAIRS * VALUES / 3 && invalid > 0);
    crds.remove(&format!("pairs.{group}")).await?;
    Ok(())
}

async fn accepts(
    api: &Api<DynamicObject>,
    resource: &ApiResource,
    field: &str,
    value: &Value,
) -> Result<bool> {
    let object = DynamicObject::new("one", resource).data(json!({"spec": {field: value}}));
    let params = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("an answer", DEADLINE, || async {
        match api.create(&params, &object).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 422 => Ok(false),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

fn pair_definition(group: &str, properties: &Value) -> Value {
    let spec = json!({"type": "object", "properties": properties});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let mut definition = crd_with_versions(group, "Pair", &[("v1", schema)]);
    definition["spec"]["scope"] = "Cluster".into();
    definition
}

/// Members that restrict values of a type.
fn members(kind: &str) -> &'static [&'static str] {
    match kind {
        "integer" => &["minimum", "maximum", "multipleOf"],
        "string" => &["minLength", "maxLength", "enum"],
        "array" => &["minItems", "maxItems"],
        _ => &["minProperties", "maxProperties", "required"],
    }
}

fn restriction(rng: &mut fastrand::Rng, member: &str) -> Value {
    match member {
        "enum" => ["a", "b", "abc", "10"].iter().filter(|_| rng.bool()).copied().chain(["1Gi"]).collect(),
        "required" => ["a", "b"].iter().filter(|_| rng.bool()).copied().collect(),
        "multipleOf" => rng.u8(1..3).into(),
        "minimum" | "maximum" => rng.i32(-20..60).into(),
        _ => rng.u8(..4).into(),
    }
}

pub(crate) fn random_schema(rng: &mut fastrand::Rng, depth: usize) -> Value {
    let mut schema = match if depth == 0 { rng.u8(..2) } else { rng.u8(..5) } {
        0 => json!({"type": "integer"}),
        1 => json!({"type": "string"}),
        2 => json!({"type": "array", "items": random_schema(rng, depth - 1)}),
        3 => json!({"type": "object", "additionalProperties": random_schema(rng, depth - 1)}),
        _ => json!({"type": "object", "properties": {
            "a": random_schema(rng, depth - 1), "b": random_schema(rng, depth - 1)}}),
    };
    let members = members(schema["type"].as_str().unwrap_or_default());
    for member in members {
        if rng.u8(..3) == 0 {
            schema[*member] = restriction(rng, member);
        }
    }
    if rng.u8(..4) == 0 {
        let mut branch = || {
            let member = members[rng.usize(..members.len())];
            json!({member: restriction(rng, member)})
        };
        schema["anyOf"] = json!([branch(), branch()]);
    }
    schema
}

/// Changes a restriction somewhere, or adds a field.
pub(crate) fn edit(rng: &mut fastrand::Rng, schema: &mut Value) {
    let below = ["items", "additionalProperties"].into_iter().find(|member| schema[*member].is_object());
    match (below, rng.u8(..4)) {
        (Some(below), 0..2) => return edit(rng, &mut schema[below]),
        (None, 0) if schema["properties"].is_object() => return edit(rng, &mut schema["properties"]["a"]),
        (None, 1) if schema["properties"].is_object() => {
            schema["properties"]["c"] = random_schema(rng, 0);
            return;
        }
        (_, 2) if schema["anyOf"].is_array() => return edit_branch(rng, schema),
        _ => {}
    }
    let members = members(schema["type"].as_str().unwrap_or_default());
    let member = members[rng.usize(..members.len())];
    if rng.bool() {
        schema[member] = restriction(rng, member);
    } else if let Some(schema) = schema.as_object_mut() {
        schema.remove(member);
    }
}

fn edit_branch(rng: &mut fastrand::Rng, schema: &mut Value) {
    let branch = schema["anyOf"][rng.usize(..2)].as_object_mut();
    for (member, value) in branch.into_iter().flatten() {
        *value = restriction(rng, member);
    }
}
