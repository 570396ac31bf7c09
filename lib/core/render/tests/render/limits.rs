//! How much a bundle may be: the limits are those of all its files together.

use std::fmt::Write as _;

use olm_bundle::{Bundle, BundleFiles, MEMORY_BYTES_MAX, ReadError, usual_memory};

use crate::builder::{bundle, object};

/// A ConfigMap with a list of so many scalars, in flow style as JSON and YAML have it.
fn list(name: &str, scalars: usize) -> String {
    let items = vec!["0"; scalars].join(",");
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\nlist: [{items}]\n")
}

/// A ConfigMap with so many mappings of one key.
fn mappings(name: &str, count: usize) -> String {
    let items = "- a: 1\n".repeat(count);
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\nlist:\n{items}")
}

fn within(bundle: &crate::builder::Bundle, memory: usize) -> Result<(), ReadError> {
    bundle.read(memory).map(drop)
}

#[test]
fn nodes_are_counted_over_all_files() {
    let few =
        bundle().file("manifests/a.yaml", list("a", 240_000)).file("manifests/b.yaml", list("b", 240_000));
    assert_eq!(within(&few, MEMORY_BYTES_MAX), Ok(()));
    let many = few.file("manifests/c.yaml", list("c", 30_000));
    assert_eq!(many.refusal(), "bundle has more than 500000 YAML nodes");
    let documents = [list("a", 200_000), list("b", 200_000), list("c", 200_000)].join("---\n");
    assert_eq!(
        bundle().file("manifests/a.yaml", documents).refusal(),
        "bundle has more than 500000 YAML nodes"
    );
    assert_eq!(
        bundle().file("manifests/a.yaml", list("a", 600_000)).refusal(),
        "bundle has more than 500000 YAML nodes"
    );
    // Also where no objects are.
    let items = vec!["0"; 600_000].join(",");
    for path in ["metadata/properties.yaml", "metadata/dependencies.yaml", "metadata/annotations.yaml"] {
        let refusal = bundle().file(path, format!("a: [{items}]")).refusal();
        assert_eq!(refusal, "bundle has more than 500000 YAML nodes", "{path}");
    }
}

#[test]
fn json_counts_as_yaml_does() {
    let items = vec!["0"; 600_000].join(",");
    let text = format!("{{\"kind\":\"ConfigMap\",\"list\":[{items}]}}");
    assert_eq!(bundle().file("manifests/a.json", text).refusal(), "bundle has more than 500000 YAML nodes");
}

#[test]
fn memory_is_what_the_caller_has() {
    let dense = bundle().file("manifests/a.yaml", mappings("a", 10_000));
    let bytes = dense.files().bytes();
    assert!(bytes < 80_000);
    // 10,000 mappings take 6.3 MB, several times.
    assert_eq!(within(&dense, usual_memory(bytes)), Err(ReadError::Memory(9)));
    assert_eq!(within(&dense, MEMORY_BYTES_MAX), Ok(()));
    let denser = ["a", "b", "c"]
        .iter()
        .fold(bundle(), |all, name| all.file(&format!("manifests/{name}.yaml"), mappings(name, 30_000)));
    assert_eq!(within(&denser, MEMORY_BYTES_MAX), Err(ReadError::Memory(128)));
    let message = denser.refusal();
    assert_eq!(message, "rendering the bundle takes more than 128 MiB of memory");
}

#[test]
fn aliases_and_long_texts_are_what_they_expand_to() {
    let mut text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na0: &a0 [x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let items = vec![format!("*a{}", level - 1); 8].join(", ");
        writeln!(text, "a{level}: &a{level} [{items}]").unwrap();
    }
    let laughs = bundle().file("manifests/a.yaml", &text);
    assert!(matches!(within(&laughs, usual_memory(2_000)), Err(ReadError::Memory { .. })));
    assert!(laughs.refusal().contains("more than"), "{}", laughs.refusal());
    let long = "x".repeat(30 << 20);
    let scalar = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: {long}}}\n");
    let once = bundle().file("manifests/a.yaml", &scalar);
    assert_eq!(within(&once, MEMORY_BYTES_MAX), Ok(()));
    let twice = once.file("manifests/b.yaml", scalar.replace("name: a", "name: b"));
    assert_eq!(within(&twice, MEMORY_BYTES_MAX), Err(ReadError::Memory(128)));
}

/// Scalars that have to be mended one by one make their file be read again as often.
#[test]
fn what_is_read_again_is_limited_for_the_bundle_as_a_whole() {
    let mut text = "apiVersion: v1\nkind: ConfigMap\nmetadata: &a {name: a}\ndata:\n".to_owned();
    for index in 0..30 {
        writeln!(text, "  d{index}: 'one\n two'").unwrap();
    }
    // For its sake they are not mended all at once.
    writeln!(text, "  block: |\n    x: 'y\n    z'\n# {}", "x".repeat(600_000)).unwrap();
    let once = bundle().file("manifests/a.yaml", &text);
    assert_eq!(within(&once, MEMORY_BYTES_MAX), Ok(()));
    let twice = once.file("manifests/b.yaml", text.replace("name: a", "name: b"));
    assert!(twice.refusal().contains("manifests/b.yaml"), "{}", twice.refusal());
}

#[test]
fn an_annotation_that_no_object_can_have_is_not_read() {
    let text = format!("[{}null]", "null,".repeat(300_000));
    let long = bundle().set("/metadata/annotations", serde_json::json!({"olm.properties": text}));
    assert_eq!(
        long.refusal(),
        "failed to unmarshal csv.metadata.annotations['olm.properties']: it has more than 1048576 bytes"
    );
    let text = format!("{{\"properties\":[{}null]}}", "null,".repeat(300_000));
    let first =
        bundle().set("/metadata/annotations", serde_json::json!({"operatorframework.io/properties": text}));
    assert!(first.render().is_ok(), "nothing needs it");
}

#[test]
fn files_bytes_and_objects_are_limited() {
    let mut files = bundle().files();
    for index in 0..4_000 {
        files.insert(&format!("manifests/{index}.yaml"), object("ConfigMap", &index.to_string()).to_string());
    }
    let read = Bundle::read(&files, MEMORY_BYTES_MAX);
    assert_eq!(read.unwrap_err(), ReadError::TooLarge { what: "files", limit: 4_000 });
    let mut files = BundleFiles::new();
    files.insert("manifests/a.yaml", vec![b' '; (64 << 20) + 1]);
    let read = Bundle::read(&files, MEMORY_BYTES_MAX);
    assert_eq!(read.unwrap_err(), ReadError::TooLarge { what: "bytes", limit: 64 << 20 });
}
