//! Readers of bundles: their files, what is rendered of them, the permissions in them, and templates of catalogs.

use std::collections::BTreeMap;

use olm_bundle::{Bundle, BundleFiles, MEMORY_BYTES_MAX, ReadError, usual_memory};
use olm_opm::{RegistryV1Bundle, template::Template};
use olm_rbac::{Grant, Held, Style, escalation_rules, missing, needed, report, targets};
use olm_render::{Options, RenderError, render};
use serde_json::Value;

use super::{json_lines, kind};

/// The files in an input: each begins with a line `=== path`.
fn files(input: &[u8]) -> BundleFiles {
    let text = String::from_utf8_lossy(input);
    let parts = text.split("=== ").skip(1);
    parts
        .map(|part| part.split_once('\n').unwrap_or((part, "")))
        .map(|(path, content)| (path, content.as_bytes()))
        .collect()
}

/// Bundles: what is rendered are objects, and the permissions that they need can be told.
pub(super) fn bundle(input: &[u8]) -> String {
    let files = files(input);
    let within = |memory| {
        let read = Bundle::read(&files, memory).map_err(RenderError::from);
        read.and_then(|bundle| render(bundle, &Options::new("ns")))
    };
    // As the controller does: with what bundles of that size usually take, and with everything if that is too little.
    let usual = match within(usual_memory(files.bytes())) {
        Err(RenderError::Bundle(ReadError::Memory { .. })) => within(MEMORY_BYTES_MAX),
        usual => usual,
    };
    let rendered = match usual {
        Ok(rendered) => rendered,
        Err(error) => return kind(&error),
    };
    assert!(rendered.objects.iter().all(Value::is_object));
    format!("{} objects, {}", rendered.objects.len().min(5), permissions(&rendered.objects))
}

/// What somebody needs who installs `objects`.
fn permissions(objects: &[Value]) -> String {
    let targets = match targets(objects) {
        Ok(targets) => targets,
        Err(error) => return kind(&error),
    };
    let held = Held::default();
    let mut all = needed(&targets, "ext-1");
    all.extend(escalation_rules(&targets, &held, &BTreeMap::new()));
    let missing = missing(&all, &held);
    assert!(!missing.is_empty() && !report(&missing).is_empty());
    let grant = Grant::new("ns", "installer", std::slice::from_ref(&targets), Style::Exact);
    let rights = olm_plan::operator_permissions([], objects);
    format!("{} roles, {} accounts", grant.rules().count().min(3), rights.held.len().min(3))
}

/// Rules of a role, and on the lines after those rules that are held: what is missing is never more than the role.
pub(super) fn rules(input: &[u8]) -> String {
    let values = json_lines(input);
    let [rules, held @ ..] = values.as_slice() else { return "no rules".to_owned() };
    let held: Vec<olm_object::Rule> = held.iter().map(olm_object::Rule::of).collect();
    let held = Held { cluster: held, namespaces: BTreeMap::new() };
    let meta = |name: &str| serde_json::json!({"name": name});
    let role = serde_json::json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": meta("r"), "rules": rules});
    let binding = serde_json::json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": meta("b"), "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "ns"}]});
    let objects = [role, binding];
    let told = permissions(&objects);
    let targets = targets(&objects).expect("kinds of the table");
    let all = escalation_rules(&targets, &held, &BTreeMap::new());
    let missing = missing(&all, &held);
    let again = olm_rbac::missing(&missing, &held);
    assert_eq!(again.is_empty(), missing.is_empty(), "what is missing is not held");
    format!("{told}, {} missing", missing.len().min(4))
}

/// Bundles as the tools of catalog authors read them.
pub(super) fn bundle_blob(input: &[u8]) -> String {
    match RegistryV1Bundle::read(&files(input)).map(|bundle| bundle.render("r.example/b:1")) {
        Ok(_) => "a bundle".to_owned(),
        Err(error) => kind(&error),
    }
}

/// Templates of catalogs.
pub(super) fn template(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else { return "no text".to_owned() };
    let rendered = Template::read(text, None).and_then(|template| {
        let no_bundle = |image: &str| Err(format!("no image {image:?}").into());
        template.render(&no_bundle, &|_| Ok(())).map(|blobs| (template.images().len(), blobs))
    });
    match rendered {
        Ok((images, blobs)) => format!("{} images, {} blobs", images.min(3), blobs.len().min(3)),
        Err(error) => kind(&error),
    }
}
