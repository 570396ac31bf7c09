//! Bundles and catalogs that are small to send and large to hold.

use std::fmt::Write as _;
use std::io::Read;

use anyhow::Result;
use olm_image::{Compression, ImageBuilder, LayerBuilder, PackedImage};
use serde_json::{Value, json};

/// Bytes of a file that a node's memory would notice.
const LARGE_FILE_BYTES: u64 = 30 << 20;
/// Bytes of the largest file that a bundle may have.
const LARGEST_FILE_BYTES: usize = 15 << 20;

/// A hostile bundle.
pub(super) struct Bundle {
    /// Its name, its package's and its extension's.
    pub(super) name: &'static str,
    /// Part of what its extension has to say.
    pub(super) rejection: &'static str,
    /// Files beside those of every bundle.
    files: Vec<(String, String)>,
    /// Files of [`LARGE_FILE_BYTES`] beside them.
    large_files: usize,
    cluster_permissions: Value,
}

/// A hostile catalog.
pub(super) struct Catalog {
    pub(super) name: &'static str,
    /// Part of what it has to say; empty if it is served.
    pub(super) rejection: &'static str,
    pub(super) text: String,
}

impl Bundle {
    fn new(name: &'static str, rejection: &'static str, files: &[(&str, String)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.clone())).collect();
        Self { name, rejection, files, large_files: 0, cluster_permissions: json!([]) }
    }

    pub(super) fn image(&self) -> Result<PackedImage> {
        let annotations = json!({"annotations": {
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.package.v1": self.name,
        }});
        let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
            .map(|mode| json!({"type": mode, "supported": mode == "AllNamespaces"}));
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("{}.v1.0.0", self.name)},
            "spec": {
                "displayName": self.name, "version": "1.0.0", "installModes": modes,
                "install": {"strategy": "deployment", "spec": {
                    "deployments": [], "clusterPermissions": self.cluster_permissions,
                }},
            },
        });
        let mut layer = LayerBuilder::new(Compression::Gzip)
            .file("metadata/annotations.yaml", annotations.to_string())?
            .file("manifests/csv.yaml", csv.to_string())?;
        for (path, text) in &self.files {
            layer = layer.file(path, text)?;
        }
        for index in 0..self.large_files {
            let content = std::io::repeat(b'#').take(LARGE_FILE_BYTES);
            layer = layer.stream(&format!("manifests/large-{index}.yaml"), LARGE_FILE_BYTES, content)?;
        }
        Ok(ImageBuilder::new().layer(layer.build()?).build())
    }
}

/// One of each shape.
pub(super) fn bundles() -> [Bundle; 8] {
    // Of nodes, of memory for one text, or of memory for all: whichever limit comes first.
    let too_much = "more than";
    [
        Bundle {
            large_files: 12,
            ..Bundle::new("files", "file \"manifests/large-0.yaml\" is larger than 16777216 bytes", &[])
        },
        Bundle::new("scalars", too_much, &[("manifests/a.yaml", list("0", 4_100_000))]),
        Bundle {
            files: (0..10).map(|index| (format!("manifests/{index}.yaml"), list("{}", 1_900_000))).collect(),
            ..Bundle::new("braces", too_much, &[])
        },
        Bundle::new("laughs", too_much, &[("manifests/a.yaml", laughs())]),
        Bundle {
            cluster_permissions: product(),
            ..Bundle::new("product", "service account requires the following permissions", &[])
        },
        Bundle::new("repair", "error parsing objects in", &[("manifests/a.yaml", unindented())]),
        Bundle::new("deep", "unable to decode", &[("manifests/a.yaml", "[".repeat(1_000_000))]),
        Bundle {
            files: (0..4).map(|index| (format!("manifests/{index}.yaml"), long(index))).collect(),
            ..Bundle::new("long", too_much, &[])
        },
    ]
}

/// Hundreds of thousands of documents, each of a schema of its own, and as many of them as are accepted; and one document
/// of millions of numbers.
pub(super) fn catalogs() -> [Catalog; 3] {
    let documents = |count: usize| {
        (0..count).fold(String::new(), |mut text, index| {
            let _ = writeln!(text, "{{\"schema\":\"s{index}\"}}");
            text
        })
    };
    let numbers = format!("{{\"schema\":\"numbers\",\"numbers\":[1{}]}}", ",1".repeat(7_000_000));
    [
        Catalog {
            name: "documents",
            rejection: "their index takes more than 32 MiB",
            text: documents(400_000),
        },
        Catalog { name: "schemas", rejection: "", text: documents(200_000) },
        Catalog { name: "numbers", rejection: "", text: numbers },
    ]
}

/// A ConfigMap with a list in flow style.
fn list(item: &str, count: usize) -> String {
    let items = format!("{item},").repeat(count);
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\nlist: [{items}]\n")
}

/// Aliases of aliases.
fn laughs() -> String {
    let mut text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n".to_owned();
    for level in 1..11 {
        let items = vec![format!("*a{}", level - 1); 9].join(", ");
        let _ = writeln!(text, "a{level}: &a{level} [{items}]");
    }
    text
}

/// A rule that stands for more combinations than there is memory for.
fn product() -> Value {
    let names = |what: &str| -> Vec<String> { (0..2_000).map(|index| format!("{what}{index}")).collect() };
    let rule = json!({
        "apiGroups": names("g"), "resources": names("r"), "resourceNames": names("n"), "verbs": names("v"),
    });
    json!([{"serviceAccountName": "product", "rules": [rule]}])
}

/// A quoted text whose lines are indented too little, after a line that is indented very far.
fn unindented() -> String {
    let blanks = " ".repeat(1_000_000);
    let lines = "x\n".repeat(100_000);
    format!("a: &a 1\nb: |\n{blanks}x\nc:\n  d: \"x\n{lines}\"\n")
}

/// A ConfigMap of one long text.
fn long(index: usize) -> String {
    let text = "x".repeat(LARGEST_FILE_BYTES);
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a{index}}}\ndata: {{a: {text}}}\n")
}
