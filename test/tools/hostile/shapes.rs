//! Bundles and catalogs that are small to send and large to hold.

use std::fmt::Write as _;
use std::io::Read;

use anyhow::Result;
use olm_image::{Compression, ImageBuilder, LayerBuilder, PackedImage};
use serde_json::{Value, json};

use crate::bundle::Bundle;

/// Bytes of a file that a node's memory would notice.
const LARGE_FILE_BYTES: u64 = 30 << 20;
/// Bytes of the largest file that a bundle may have.
const LARGEST_FILE_BYTES: usize = 15 << 20;

/// A hostile bundle.
pub(super) struct Hostile {
    /// Its name, its package's and its extension's.
    pub(super) name: &'static str,
    /// Part of what its extension has to say.
    pub(super) rejection: &'static str,
    bundle: Bundle,
    /// Files of [`LARGE_FILE_BYTES`] beside the others.
    large_files: usize,
}

/// A hostile catalog.
pub(super) struct Catalog {
    pub(super) name: &'static str,
    /// Part of what it has to say; empty if it is served.
    pub(super) rejection: &'static str,
    pub(super) text: String,
}

impl Hostile {
    fn new(name: &'static str, rejection: &'static str, files: impl IntoIterator<Item = String>) -> Self {
        let files = files.into_iter().enumerate();
        let bundle = files.fold(Bundle::new(name, "1.0.0"), |bundle, (index, text)| {
            bundle.file(&format!("manifests/a{index}.yaml"), text)
        });
        Self { name, rejection, bundle, large_files: 0 }
    }

    pub(super) fn image(&self) -> Result<PackedImage> {
        let mut layer = LayerBuilder::new(Compression::Gzip);
        for (path, content) in self.bundle.files().iter() {
            layer = layer.file(path, content)?;
        }
        for index in 0..self.large_files {
            let content = std::io::repeat(b'#').take(LARGE_FILE_BYTES);
            layer = layer.stream(&format!("manifests/large-{index}.yaml"), LARGE_FILE_BYTES, content)?;
        }
        Ok(ImageBuilder::new().layer(layer.build()?).build())
    }
}

/// One of each shape.
pub(super) fn bundles() -> [Hostile; 8] {
    // Of nodes, of memory for one text, or of memory for all: whichever limit comes first.
    let too_much = "more than";
    let mut files =
        Hostile::new("files", "file \"manifests/large-0.yaml\" is larger than 16777216 bytes", []);
    files.large_files = 12;
    let mut product = Hostile::new("product", "service account requires the following permissions", []);
    product.bundle = product.bundle.rules("clusterPermissions", &"product".into(), &rules());
    [
        files,
        Hostile::new("scalars", too_much, [list("0", 4_100_000)]),
        Hostile::new("braces", too_much, (0..10).map(|_| list("{}", 1_900_000))),
        Hostile::new("laughs", too_much, [laughs()]),
        product,
        Hostile::new("repair", "error parsing objects in", [unindented()]),
        Hostile::new("deep", "unable to decode", ["[".repeat(1_000_000)]),
        Hostile::new("long", too_much, (0..4).map(long)),
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
fn rules() -> Value {
    let names = |what: &str| -> Vec<String> { (0..2_000).map(|index| format!("{what}{index}")).collect() };
    json!([{"apiGroups": names("g"), "resources": names("r"), "resourceNames": names("n"), "verbs": names("v")}])
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
