//! Our decisions on upstream's quirks, as conditions on the bundle and as the way back to upstream's answer.

use olm_bundle::{BundleFiles, MEMORY_BYTES_MAX, ReadError};
use olm_render::RenderError;
use olm_test::prelude::*;

use super::{Case, as_file, documents, is_error_about, sort_key};

/// The decision by which we render what upstream refuses.
pub(super) fn accepted_here(files: &BundleFiles, case: &Case, ours: &[Value]) -> Option<&'static str> {
    if has_line_separators(files) {
        return Some("line separators");
    }
    if case.options.config == Some(json!({"deploymentConfig": null})) {
        return Some("null configuration");
    }
    let hyphenated = is_hyphenated(files);
    let stripped = ours
        .iter()
        .filter(|object| text(object, "kind").ends_with("WebhookConfiguration"))
        .all(|object| !sort_key(object).2.ends_with('-'));
    (hyphenated && stripped).then_some("webhook names")
}

fn is_hyphenated(files: &BundleFiles) -> bool {
    webhooks(files).into_iter().any(|webhook| text(&webhook, "generateName").ends_with('-'))
}

/// Whether a file has characters that are ends of lines for go-yaml and nothing special in YAML 1.2.
fn has_line_separators(files: &BundleFiles) -> bool {
    let texts = files.iter().filter_map(|(_, content)| std::str::from_utf8(content).ok());
    texts.into_iter().any(|text| text.contains(['\u{2028}', '\u{2029}']))
}

/// The decision by which upstream and we refuse a bundle for different reasons: without it, the one would render the
/// bundle, or find what the other finds.
pub(super) fn other_refusal(
    files: &BundleFiles,
    case: &Case,
    theirs: &str,
    ours: &RenderError,
) -> Option<&'static str> {
    if is_hyphenated(files) && theirs.contains("has invalid name") && theirs.contains("-': ") {
        return Some("webhook names");
    }
    if has_line_separators(files) && theirs.contains("error converting YAML to JSON") {
        return Some("line separators");
    }
    refused_here(files, case, ours)
}

/// The decision by which we refuse what upstream renders.
pub(super) fn refused_here(files: &BundleFiles, case: &Case, error: &RenderError) -> Option<&'static str> {
    let of_kind = |kind| documents(files).iter().filter(|document| text(document, "kind") == kind).count();
    if of_kind("ClusterServiceVersion") > 1 {
        let right = matches!(error, RenderError::Bundle(ReadError::SeveralClusterServiceVersions { .. }));
        return right.then_some("several CSVs");
    }
    let (generated, shipped) = parts(files, case)?;
    let twins = !different_twins(generated.iter().chain(&shipped)).is_empty();
    (twins && is_error_about(error, "different objects")).then_some("twins")
}

/// What upstream renders, made from our objects by taking back every decision that the bundle meets, and
/// the decisions' name.
pub(super) fn taken_back(files: &BundleFiles, case: &Case, ours: &[Value]) -> Option<(Vec<Value>, String)> {
    let mut objects = ours.to_vec();
    let mut names = Vec::new();
    if let Some(lost) = merged_twins(files, case, ours) {
        objects.extend(lost);
        names.push("twins");
    }
    for (name, take_back) in [
        ("webhook port", ports as fn(&BundleFiles, &mut [Value]) -> bool),
        ("port names", port_names),
        ("common name", common_names),
        ("autoscalers", autoscalers),
        ("line separators", separators),
    ] {
        if take_back(files, &mut objects) {
            names.push(name);
        }
    }
    // A case that several decisions change is counted under all of their names together.
    (!names.is_empty()).then(|| (objects, names.join(" + ")))
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The CSV's webhook definitions as shipped.
fn webhooks(files: &BundleFiles) -> Vec<Value> {
    documents(files)
        .iter()
        .filter(|document| text(document, "kind") == "ClusterServiceVersion")
        .filter_map(|csv| csv.pointer("/spec/webhookdefinitions").and_then(Value::as_array).cloned())
        .flatten()
        .collect()
}

/// What is generated from the bundle without its other objects, and those as upstream ships them.
fn parts(files: &BundleFiles, case: &Case) -> Option<(Vec<Value>, Vec<Value>)> {
    let mut bare = BundleFiles::new();
    let mut shipped = Vec::new();
    for (path, content) in files.iter().filter(|(path, _)| !path.starts_with("manifests/")) {
        bare.insert(path, content);
    }
    for (index, document) in documents(files).iter().enumerate() {
        let path = format!("manifests/{index:05}.json");
        match text(document, "kind") {
            "ClusterServiceVersion" | "CustomResourceDefinition" => bare.insert(&path, as_file(document)),
            _ => shipped.push(placed(document.clone(), &case.options.install_namespace)),
        }
    }
    Some((case.render(&bare, MEMORY_BYTES_MAX).ok()?.objects, shipped))
}

/// A shipped object in the install namespace, unless its kind has none.
fn placed(mut object: Value, namespace: &str) -> Value {
    let kind = text(&object, "kind");
    if !kind.starts_with("Cluster") && !kind.starts_with("Console") && kind != "PriorityClass" {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// Identities that different objects have.
fn different_twins<'a>(objects: impl Iterator<Item = &'a Value>) -> Vec<(String, String, String)> {
    let mut by_identity: BTreeMap<_, Vec<&Value>> = BTreeMap::new();
    for object in objects {
        by_identity.entry(sort_key(object)).or_default().push(object);
    }
    by_identity
        .into_iter()
        .filter(|(_, twins)| twins.windows(2).any(|pair| pair[0] != pair[1]))
        .map(|(identity, _)| identity)
        .collect()
}

/// The objects that were merged away: what is generated or shipped a second time, and repeated permissions.
fn merged_twins(files: &BundleFiles, case: &Case, ours: &[Value]) -> Option<Vec<Value>> {
    let (generated, shipped) = parts(files, case)?;
    let mut left = ours.to_vec();
    let mut lost = Vec::new();
    for object in shipped.iter().chain(&generated) {
        match left.iter().position(|other| other == object) {
            Some(place) => drop(left.swap_remove(place)),
            None => lost.push(object.clone()),
        }
    }
    lost.extend(repeated_permissions(files, ours));
    // Of each identity exactly one is left, and a shipped one if there is any.
    let kept = lost.iter().all(|object| {
        let same = |other: &&Value| sort_key(other) == sort_key(object);
        let from = if shipped.iter().any(|other| same(&other)) { &shipped } else { &generated };
        ours.iter().filter(same).count() == 1 && ours.iter().filter(same).all(|other| from.contains(other))
    });
    (kept && left.is_empty() && !lost.is_empty()).then_some(lost)
}

/// Roles and bindings of permission entries that occur again in the same list.
fn repeated_permissions(files: &BundleFiles, ours: &[Value]) -> Vec<Value> {
    let documents = documents(files);
    let mut again = Vec::new();
    for csv in documents.iter().filter(|document| text(document, "kind") == "ClusterServiceVersion") {
        for field in ["permissions", "clusterPermissions"] {
            let entries = csv.pointer(&format!("/spec/install/spec/{field}")).and_then(Value::as_array);
            let entries = entries.map(Vec::as_slice).unwrap_or_default();
            for (index, entry) in entries.iter().enumerate() {
                if entries[..index].contains(entry) {
                    again.extend(roles_of(entry, field, ours));
                }
            }
        }
    }
    again
}

/// The role and binding made for a permission entry.
fn roles_of(entry: &Value, field: &str, ours: &[Value]) -> Vec<Value> {
    let account =
        Some(text(entry, "serviceAccountName")).filter(|name| !name.is_empty()).unwrap_or("default");
    let bound = |name: &str| {
        ours.iter().any(|object| {
            text(object, "kind").ends_with("RoleBinding")
                && sort_key(object).2 == name
                && object.pointer("/subjects/0/name").and_then(Value::as_str) == Some(account)
        })
    };
    let name = ours.iter().find_map(|object| {
        // Promoted to the cluster, an entry has one rule more.
        let more = match (text(object, "kind"), field) {
            ("Role", "permissions") | ("ClusterRole", "clusterPermissions") => 0,
            ("ClusterRole", "permissions") => 1,
            _ => return None,
        };
        let name = sort_key(object).2;
        (has_rules(object, entry, more) && bound(&name)).then(|| (text(object, "kind").to_owned(), name))
    });
    let Some((role, name)) = name else { return Vec::new() };
    let is_of_role = |object: &&Value| {
        text(object, "kind").strip_suffix("Binding").unwrap_or(text(object, "kind")) == role
            && sort_key(object).2 == name
    };
    ours.iter().filter(is_of_role).cloned().collect()
}

/// Whether a role has the rules of an entry and `more` others.
fn has_rules(role: &Value, entry: &Value, more: usize) -> bool {
    let rules = |value: &Value| value["rules"].as_array().cloned().unwrap_or_default();
    let (found, wanted) = (rules(role), rules(entry));
    let list = |rule: &Value, field: &str| rule[field].as_array().cloned().unwrap_or_default();
    found.len() == wanted.len() + more
        && found.iter().zip(&wanted).all(|(found, wanted)| {
            ["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"]
                .iter()
                .all(|field| list(found, field) == list(wanted, field))
        })
}

fn port_is_absent(webhook: &Value) -> bool {
    webhook.get("containerPort").and_then(Value::as_i64).unwrap_or(0) <= 0
}

/// References to webhooks without `containerPort` get port 0, which API servers refuse.
fn ports(files: &BundleFiles, objects: &mut [Value]) -> bool {
    let mut changed = false;
    for webhook in webhooks(files).iter().filter(|webhook| port_is_absent(webhook)) {
        let name = text(webhook, "generateName");
        let crds = webhook.get("conversionCRDs").and_then(Value::as_array).cloned().unwrap_or_default();
        for object in objects.iter_mut() {
            let found = sort_key(object);
            let port = match (text(webhook, "type"), found.0.as_str()) {
                ("ValidatingAdmissionWebhook", "ValidatingWebhookConfiguration")
                | ("MutatingAdmissionWebhook", "MutatingWebhookConfiguration")
                    if found.2 == name.strip_suffix('-').unwrap_or(name) =>
                {
                    object.pointer_mut("/webhooks/0/clientConfig/service/port")
                }
                ("ConversionWebhook", "CustomResourceDefinition") if crds.contains(&json!(found.2)) => {
                    object.pointer_mut("/spec/conversion/webhook/clientConfig/service/port")
                }
                _ => None,
            };
            if let Some(port) = port.filter(|port| **port == json!(443)) {
                *port = json!(0);
                changed = true;
            }
        }
    }
    changed
}

/// Two targets behind one port get one name, which API servers refuse.
fn port_names(files: &BundleFiles, objects: &mut [Value]) -> bool {
    let mut changed = false;
    let number =
        |webhook: &Value| if port_is_absent(webhook) { json!(443) } else { webhook["containerPort"].clone() };
    let webhooks = webhooks(files);
    for webhook in &webhooks {
        let deployment = text(webhook, "deploymentName");
        let shares_port = webhooks.iter().any(|other| {
            text(other, "deploymentName") == deployment
                && number(other) == number(webhook)
                && other.get("targetPort") != webhook.get("targetPort")
        });
        let service = format!("{}-service", deployment.replace('.', "-"));
        let services = objects.iter_mut().filter(|object| text(object, "kind") == "Service" && shares_port);
        for object in services.filter(|object| sort_key(object).2 == service) {
            for port in object.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten()
            {
                let number = port["port"].to_string();
                changed |= text(port, "name") != number;
                port["name"] = json!(number);
            }
        }
    }
    changed
}

/// Certificates whose names are too long for X.509 get a common name all the same.
fn common_names(_: &BundleFiles, objects: &mut [Value]) -> bool {
    let mut changed = false;
    for object in objects.iter_mut().filter(|object| text(object, "kind") == "Certificate") {
        let host = object.pointer("/spec/dnsNames/0").and_then(Value::as_str).map(str::to_owned);
        if let (Some(host), None) = (host, object.pointer("/spec/commonName"))
            && host.len() > 64
        {
            object["spec"]["commonName"] = json!(host);
            changed = true;
        }
    }
    changed
}

/// Blanks around line separators go, and no line end behind them is folded.
fn separators(files: &BundleFiles, objects: &mut [Value]) -> bool {
    if !has_line_separators(files) {
        return false;
    }
    let mut changed = false;
    for object in objects.iter_mut().filter(|object| text(object, "kind") == "ConfigMap") {
        for value in object["data"].as_object_mut().into_iter().flatten().map(|(_, value)| value) {
            let old = value.as_str().unwrap_or_default();
            let mut new = String::new();
            for segment in old.split_inclusive(['\u{2028}', '\u{2029}']) {
                let begins = if new.is_empty() { segment } else { segment.trim_start_matches(' ') };
                let end =
                    begins.char_indices().next_back().filter(|(_, c)| matches!(c, '\u{2028}' | '\u{2029}'));
                match end {
                    Some((at, separator)) => {
                        new.extend(begins[..at].trim_end_matches(' ').chars().chain([separator]));
                    }
                    None if begins.starts_with('\n') => new.extend(["\n", begins]),
                    None => new.push_str(begins),
                }
            }
            changed |= old != new;
            *value = json!(new);
        }
    }
    changed
}

/// VerticalPodAutoscalers keep the namespace they were shipped with, mostly none.
fn autoscalers(files: &BundleFiles, objects: &mut [Value]) -> bool {
    let shipped = documents(files);
    let mut changed = false;
    for object in objects.iter_mut().filter(|object| text(object, "kind") == "VerticalPodAutoscaler") {
        let original = shipped.iter().find(|document| {
            text(document, "kind") == "VerticalPodAutoscaler" && sort_key(document).2 == sort_key(object).2
        });
        if let Some(original) = original {
            object["metadata"] = original["metadata"].clone();
            changed = true;
        }
    }
    changed
}
