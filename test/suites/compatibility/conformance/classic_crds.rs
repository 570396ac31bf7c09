//! The CRDs of OLM Classic beside those that upstream left on a recorded cluster, as the API server stores them.
//!
//! Fields of Kubernetes' own types (a Pod's affinity, a Deployment) are compared by their presence: Kubernetes may have added
//! some since. All others are the same, with type, required fields, enumeration, pattern, limits, and how server-side apply
//! merges them. Descriptions are our own.

use olm_test::{data, prelude::*};

/// Fields with types of Kubernetes.
const OF_KUBERNETES: [&str; 9] = [
    "affinity",
    "env",
    "envFrom",
    "resources",
    "tolerations",
    "volumeMounts",
    "volumes",
    "spec.template",
    "strategy",
];
/// Keywords that say what a value may be.
const KEYWORDS: [&str; 18] = [
    "additionalProperties",
    "anyOf",
    "default",
    "enum",
    "format",
    "maxLength",
    "maximum",
    "minLength",
    "minimum",
    "pattern",
    "required",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

pub(crate) fn check() {
    let Some(folder) = data::find("classic") else { return };
    let recorded = fs::File::open(folder.join("node-dump.json.zst")).expect("the recorded cluster");
    let recorded: Value =
        serde_json::from_reader(zstd::Decoder::new(recorded).expect("zstd")).expect("the recorded cluster");
    let theirs: BTreeMap<&str, &Value> = recorded["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|object| object["kind"] == "CustomResourceDefinition")
        .filter_map(|object| Some((object["metadata"]["name"].as_str()?, object)))
        .filter(|(name, _)| name.ends_with(".operators.coreos.com"))
        .collect();
    assert_eq!(theirs.len(), 8, "{:?}", theirs.keys());
    let mut different = Vec::new();
    for crd in olm_api_classic::crds::all() {
        let name = crd.metadata.name.clone().unwrap_or_default();
        let ours = json!(crd);
        let theirs = theirs[name.as_str()];
        for field in ["group", "scope"] {
            compare(&name, &ours["spec"][field], &theirs["spec"][field], &mut different);
        }
        for field in ["kind", "listKind", "plural", "singular", "shortNames", "categories"] {
            compare(&name, &ours["spec"]["names"][field], &theirs["spec"]["names"][field], &mut different);
        }
        let versions = |crd: &Value| crd["spec"]["versions"].as_array().cloned().unwrap_or_default();
        let (ours, theirs) = (versions(&ours), versions(theirs));
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let path = format!("{name} {}", ours["name"]);
            for field in ["name", "served", "storage", "subresources", "additionalPrinterColumns"] {
                compare(&format!("{path} {field}"), &ours[field], &theirs[field], &mut different);
            }
            let root = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
            schemas(&path, &root(ours), &root(theirs), &mut different);
        }
    }
    assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
}

fn compare(path: &str, ours: &Value, theirs: &Value, different: &mut Vec<String>) {
    let same_number = ours.as_f64().is_some() && ours.as_f64() == theirs.as_f64();
    if ours != theirs && !same_number {
        different.push(format!("{path}: {ours}, recorded {theirs}"));
    }
}

fn schemas(path: &str, ours: &Value, theirs: &Value, different: &mut Vec<String>) {
    let sorted = |schema: &Value, keyword: &str| {
        let mut value = schema[keyword].clone();
        if let (Some(list), "required") = (value.as_array_mut(), keyword) {
            list.sort_by_key(ToString::to_string);
        }
        if keyword == "additionalProperties" {
            value = json!(value["type"]);
        }
        value
    };
    for keyword in KEYWORDS {
        compare(&format!("{path} {keyword}"), &sorted(ours, keyword), &sorted(theirs, keyword), different);
    }
    let keys = |schema: &Value| -> BTreeSet<String> {
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let (own, recorded) = (keys(ours), keys(theirs));
    if own != recorded {
        different
            .push(format!("{path}: fields {:?}", own.symmetric_difference(&recorded).collect::<Vec<_>>()));
    }
    for name in recorded.intersection(&own) {
        let path = format!("{path}.{name}");
        if OF_KUBERNETES.iter().any(|field| path.ends_with(&format!(".{field}"))) {
            continue;
        }
        schemas(&path, &ours["properties"][name], &theirs["properties"][name], different);
    }
    if theirs["items"].is_object() {
        schemas(&format!("{path}[]"), &ours["items"], &theirs["items"], different);
    }
}
