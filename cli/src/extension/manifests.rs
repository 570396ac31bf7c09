//! The objects that `olm install` creates beside an extension: created only where there is none, changed only where this
//! command created them.

use anyhow::{Context as _, bail};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use olm_api::names::{CLI_FIELD_MANAGER, GROUP, INSTALLED_FOR_ANNOTATION, MANAGED_BY_LABEL};
use olm_object::{known_kind, text};
use olm_runtime::{bounded, if_exists, post_as};
use serde_json::{Value, json};

/// Whether an object is there, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Absent,
    /// This command created it for the same extension.
    Ours,
    Foreign,
}

/// The resource of a kind that these commands write.
pub(crate) fn resource(api_version: &str, kind: &str) -> anyhow::Result<ApiResource> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let plural = match (known_kind(group, kind), kind) {
        (Some(known), _) => known.plural.to_owned(),
        (None, "Namespace" | "ClusterExtension" | "ClusterCatalog") => format!("{}s", kind.to_lowercase()),
        (None, _) => bail!("{kind} is not a kind that this command writes"),
    };
    Ok(ApiResource::from_gvk_with_plural(&gvk, &plural))
}

/// The objects of a manifest's kind, in its namespace.
pub(crate) fn api(client: &Client, manifest: &Value) -> anyhow::Result<Api<DynamicObject>> {
    let resource = resource(text(manifest, "/apiVersion"), text(manifest, "/kind"))?;
    let namespace = text(manifest, "/metadata/namespace");
    Ok(if namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    })
}

/// Kind, namespace and name.
pub(crate) fn label(manifest: &Value) -> String {
    let (kind, name) = (text(manifest, "/kind"), text(manifest, "/metadata/name"));
    match text(manifest, "/metadata/namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// The manifest with the marks by which it is found again.
pub(crate) fn with_marks(mut manifest: Value, extension: &str) -> Value {
    manifest["metadata"]["labels"][MANAGED_BY_LABEL] = CLI_FIELD_MANAGER.into();
    manifest["metadata"]["annotations"][INSTALLED_FOR_ANNOTATION] = extension.into();
    manifest
}

/// Whether the object is there.
pub(crate) async fn presence(client: &Client, manifest: &Value, extension: &str) -> anyhow::Result<Presence> {
    Ok(match live(client, manifest).await? {
        None => Presence::Absent,
        Some(live) if is_ours(&live, extension) => Presence::Ours,
        Some(_) => Presence::Foreign,
    })
}

async fn live(client: &Client, manifest: &Value) -> anyhow::Result<Option<DynamicObject>> {
    let api = api(client, manifest)?;
    let found = if_exists(api.get(text(manifest, "/metadata/name"))).await;
    found.with_context(|| format!("reading {}", label(manifest)))
}

/// Whether this command line has made an object for the extension.
pub(crate) fn is_ours(live: &impl ResourceExt, extension: &str) -> bool {
    live.labels().get(MANAGED_BY_LABEL).is_some_and(|by| by == CLI_FIELD_MANAGER)
        && live.annotations().get(INSTALLED_FOR_ANNOTATION).is_some_and(|name| name == extension)
}

/// Creates an object; one that has appeared since the plan is left alone.
pub(crate) async fn create(client: &Client, manifest: &Value) -> anyhow::Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(manifest.clone())?;
    match bounded(api(client, manifest)?.create(&post_as(CLI_FIELD_MANAGER), &object)).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => bail!(
            "{} was created by another program meanwhile, and is left alone: run the command again",
            label(manifest)
        ),
        created => created.with_context(|| format!("creating {}", label(manifest))),
    }
}

/// Creates an object, or changes the one that this command created before.
pub(crate) async fn apply(client: &Client, manifest: &Value, extension: &str) -> anyhow::Result<()> {
    let Some(live) = live(client, manifest).await? else {
        create(client, manifest).await?;
        return Ok(());
    };
    if !is_ours(&live, extension) {
        bail!("{} was not created by \"olm install\" for {extension}, and is left alone", label(manifest));
    }
    let mut manifest = manifest.clone();
    // No other object of this name is changed.
    let (api, name) = (api(client, &manifest)?, live.name_any());
    manifest["metadata"]["uid"] = live.metadata.uid.into();
    let params = PatchParams::apply(CLI_FIELD_MANAGER).force();
    let written = bounded(api.patch(&name, &params, &Patch::Apply(&manifest))).await;
    written.with_context(|| format!("changing {}", label(&manifest)))?;
    Ok(())
}

/// A manifest of the extension itself.
pub(crate) fn extension_manifest(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterExtension",
        "metadata": {"name": name}, "spec": spec,
    })
}
