//! Renderings of real bundles before the API server: each object in a server-side dry-run, with strict fields.

use futures::{StreamExt, TryStreamExt, stream};
use kube::api::ValidationDirective;
use olm_bundle::{Bundle, MEMORY_BYTES_MAX};
use olm_object::ObjectKey;
use olm_objectset::{Origin, prepare};
use olm_render::{Options, render};
use olm_runtime::Discovery;
use olm_test::{cluster::Options as ClusterOptions, images::bundle_files, prelude::*};

const NAMESPACE: &str = "renderings";
const WATCHED: &str = "renderings-watched";
/// Requests at the same time.
const REQUESTS: usize = 16;

/// Kinds that are not the cluster's own and that no bundle of the sample brings itself.
const STAND_INS: &[(&str, &str, &str)] = &[
    ("cert-manager.io", "Certificate", "certificates"),
    ("cert-manager.io", "Issuer", "issuers"),
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
    ("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
    ("monitoring.coreos.com", "PodMonitor", "podmonitors"),
];

/// What the API server refuses, by bundle, and a part of its reason. Everything else must be accepted.
const REFUSED: &[(&str, &str)] = &[
    // Shipped custom resources that do not fit the bundle's own CRD.
    ("ecr-secret-operator/0.5.0", ".spec.aws_iam_secret: field not declared in schema"),
    ("ecr-secret-operator/0.5.1", ".spec.aws_iam_secret: field not declared in schema"),
    ("ecr-secret-operator/0.6.0", ".spec.aws_iam_secret: field not declared in schema"),
    (
        "prometheus/0.37.0",
        "no matches for kind \"CustomResourceDefinition\" in version \"apiextensions.k8s.io/v1beta1\"",
    ),
];

fn bundles() -> Option<PathBuf> {
    olm_test::data::find("bundles")
}

fn subfolders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut found: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    found.retain(|path| path.is_dir());
    found.sort();
    Ok(found)
}

/// Every object that any bundle renders to in any of its modes, each once, with the bundle it was first seen in.
fn objects(folder: &Path) -> Result<(usize, Vec<(String, Value)>)> {
    let (mut renderings, mut seen, mut objects) = (0, BTreeSet::new(), Vec::new());
    for version in
        subfolders(folder)?.iter().map(|operator| subfolders(operator)).collect::<Result<Vec<_>>>()?.concat()
    {
        let files = bundle_files(&version)?;
        let name = version.strip_prefix(folder)?.display().to_string();
        for config in [json!({}), json!({"watchNamespace": NAMESPACE}), json!({"watchNamespace": WATCHED})] {
            let options = Options { config: Some(config), ..Options::new(NAMESPACE) };
            let Ok(bundle) = Bundle::read(&files, MEMORY_BYTES_MAX) else { continue };
            let Ok(rendered) = render(bundle, &options) else { continue };
            renderings += 1;
            for object in rendered.objects {
                let origin = Origin {
                    extension: "renderings",
                    package: &rendered.package_name,
                    version: &rendered.version,
                };
                let object = prepare(object, &origin)?;
                if seen.insert(object.to_string()) {
                    objects.push((name.clone(), object));
                }
            }
        }
    }
    Ok((renderings, objects))
}

/// The CRDs of kinds that bundles ship objects of: these must be there, or nothing can be said of the objects.
fn crds_in_use(objects: &[(String, Value)]) -> Result<Vec<CustomResourceDefinition>> {
    let used: BTreeSet<(String, String)> =
        objects.iter().map(|(_, object)| ObjectKey::of(object)).map(|key| (key.group, key.kind)).collect();
    let mut crds = BTreeMap::new();
    for (_, object) in objects.iter().filter(|(_, object)| object["kind"] == "CustomResourceDefinition") {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_stand_in = STAND_INS.iter().any(|(group, ..)| *group == text("/spec/group"));
        if used.contains(&(text("/spec/group"), text("/spec/names/kind"))) && !is_stand_in {
            crds.insert(text("/metadata/name"), serde_json::from_value(object.clone())?);
        }
    }
    Ok(crds.into_values().collect())
}

async fn submit(client: &Client, discovery: &Discovery, object: &Value) -> Result<Option<String>> {
    let key = ObjectKey::of(object);
    let kind = match discovery.kind(&key.api_version(), &key.kind).await {
        Ok(kind) => kind,
        Err(error) => return Ok(Some(format!("{key}: {error}"))),
    };
    let api: Api<DynamicObject> = if kind.namespaced {
        Api::namespaced_with(client.clone(), &key.namespace, &kind.resource)
    } else {
        Api::all_with(client.clone(), &kind.resource)
    };
    let params = PatchParams {
        dry_run: true,
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply("olm-test").force()
    };
    match api.patch(&key.name, &params, &Patch::Apply(object)).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(format!("{key}: {}", status.message))),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_takes_what_real_bundles_render_to() -> Result<()> {
    let Some(folder) = bundles() else { return Ok(()) };
    // A cluster of its own: the stand-ins would be in the way of others.
    let cluster = Cluster::start(ClusterOptions::default()).await?;
    let stand_ins = STAND_INS.iter().map(|(group, kind, plural)| {
        Ok(serde_json::from_value(json!({
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        }))?)
    });
    cluster.apply_crds(stand_ins.collect::<Result<_>>()?).await?;
    cluster.create_namespace(NAMESPACE).await?;
    cluster.create_namespace(WATCHED).await?;
    let (renderings, objects) = objects(&folder)?;
    cluster.apply_crds(crds_in_use(&objects)?).await?;
    let client = cluster.client().await?;
    let discovery = Discovery::new(client.clone());
    let submitted = objects.len();
    let answers: Vec<(String, Option<String>)> = stream::iter(objects)
        .map(|(bundle, object)| {
            let (client, discovery) = (&client, &discovery);
            async move { anyhow::Ok((bundle, submit(client, discovery, &object).await?)) }
        })
        .buffer_unordered(REQUESTS)
        .try_collect()
        .await?;
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (bundle, reason) in answers {
        if let Some(reason) = reason {
            println!("refused: {bundle}: {reason}");
            refused.entry(bundle).or_default().push(reason);
        }
    }
    println!(
        "{renderings} renderings, {submitted} different objects, {} bundles with refused ones",
        refused.len()
    );
    let expected = |bundle: &str, reason: &str| {
        REFUSED.iter().any(|(name, part)| *name == bundle && reason.contains(part))
    };
    for (bundle, reasons) in &refused {
        for reason in reasons {
            ensure!(expected(bundle, reason), "{bundle}: {reason}");
        }
    }
    ensure!(submitted > 0, "no object was submitted");
    Ok(())
}
