use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use olm_fbc::{CatalogFiles, content_paths};

use super::{LoadError, each_document, outline};
use crate::validate;

struct Tree(BTreeMap<&'static str, &'static str>);

impl CatalogFiles for Tree {
    fn paths(&self) -> Vec<String> {
        self.0.keys().rev().map(|path| (*path).to_owned()).collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        let content = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(content.as_bytes()))
    }
}

fn tree<const N: usize>(files: [(&'static str, &'static str); N]) -> Tree {
    Tree(files.into_iter().collect())
}

fn names(tree: &Tree) -> Result<Vec<String>, LoadError> {
    let mut names = Vec::new();
    each_document::<LoadError>(tree, &mut |path, meta| {
        names.push(format!("{path}: {} {}", meta.envelope.schema, meta.envelope.subject()));
        Ok(())
    })?;
    Ok(names)
}

#[test]
fn the_documented_tree_loads_as_one_catalog_of_three_packages() {
    let tree = tree([
        (
            "packageA/index.yaml",
            "---\nschema: olm.package\nname: packagea\n---\nschema: olm.channel\npackage: packagea\nname: c\n",
        ),
        ("packageB/.indexignore", "/objects\n"),
        ("packageB/index.yaml", "schema: olm.package\nname: packageb\n"),
        ("packageB/objects/packageB.v0.1.0.clusterserviceversion.yaml", "kind: ClusterServiceVersion\n"),
        ("packageC/index.json", "{\"schema\":\"olm.package\",\"name\":\"packagec\"}"),
        ("packageC/deprecations.yaml", "schema: olm.deprecations\npackage: packagec\nentries: []\n"),
    ]);
    assert_eq!(
        names(&tree).unwrap(),
        [
            "packageA/index.yaml: olm.package packagea",
            "packageA/index.yaml: olm.channel packagea",
            "packageB/index.yaml: olm.package packageb",
            "packageC/deprecations.yaml: olm.deprecations packagec",
            "packageC/index.json: olm.package packagec",
        ]
    );
}

#[test]
fn every_file_that_is_not_ignored_has_to_be_content() {
    let package = "schema: olm.package\nname: a\n";
    for (path, content, expected) in [
        ("README.md", "# A catalog\n\ntext\n", "README.md: document at offset 0 is not an object"),
        (
            "OWNERS",
            "approvers:\n- me\n",
            "OWNERS: object '{\"approvers\":[\"me\"]}\n' is missing root schema field",
        ),
        (
            ".git/HEAD",
            "ref: refs/heads/main\n",
            ".git/HEAD: object '{\"ref\":\"refs/heads/main\"}\n' is missing root schema field",
        ),
        ("Dockerfile", "FROM scratch\n", "Dockerfile: document at offset 0 is not an object"),
        (
            "b.json",
            "{\"schema\":\"x\"",
            "b.json: unexpected EOF: the document that begins at line 1 is not complete",
        ),
    ] {
        let loaded = outline(&tree([("a.yaml", package), (path, content)]), |_| Ok(()));
        assert_eq!(loaded.unwrap_err().to_string(), expected, "{path}");
        let pattern: &'static str = match path {
            ".git/HEAD" => ".git",
            other => other,
        };
        let ignoring = tree([("a.yaml", package), (path, content), (".indexignore", pattern)]);
        assert_eq!(outline(&ignoring, |_| Ok(())).unwrap().packages.len(), 1, "{path}");
    }
}

#[test]
fn an_empty_tree_is_an_empty_and_valid_catalog() {
    let empty = outline(&tree([]), |_| Ok(())).unwrap();
    assert!(validate(&empty).passed());
    assert_eq!(content_paths(&tree([(".indexignore", "*")])).unwrap(), Vec::<String>::new());
    let ignored = tree([("a", "x"), ("sub/b", "y"), (".indexignore", "*\n!b")]);
    assert_eq!(content_paths(&ignored).unwrap(), ["sub/b"]);
}

#[test]
fn empty_documents_are_an_error_where_opm_makes_them_one() {
    let refused = "object '' is missing root schema field";
    for (content, expected) in [
        ("", ""),
        ("---\nschema: x\n---\n", ""),
        ("schema: x\n---\n", ""),
        ("schema: x\n---", ""),
        ("schema: x\n---\n---\nschema: z\n", ""),
        ("{\"schema\":\"x\"}\n---\nschema: z\n", ""),
        ("{\"schema\":\"x\"}\n", ""),
        ("schema: x\n---\n\n---\nschema: z\n", refused),
        ("schema: x\n---\n# nothing\n---\nschema: z\n", refused),
        ("schema: x\n---\nnull\n", refused),
        ("schema: x\n---\n---\n---\nschema: z\n", refused),
        ("---\n---\nschema: x\n", refused),
        ("---\n", refused),
        ("# a comment only\n", refused),
        ("schema: x\n---\n\n", refused),
        ("{}", "object '{}\n' is missing root schema field"),
    ] {
        let loaded = outline(&Tree(BTreeMap::from([("f", content)])), |_| Ok(()));
        let found = loaded.map_or_else(|error| error.to_string(), |_| String::new());
        let expected = if expected.is_empty() { String::new() } else { format!("f: {expected}") };
        assert_eq!(found, expected, "{content:?}");
    }
}

#[test]
fn catalogs_are_combined_by_putting_their_trees_together_and_files_have_no_meaning() {
    let (a, b) = (
        "schema: olm.package\nname: a\ndefaultChannel: c\n",
        "schema: olm.package\nname: b\ndefaultChannel: c\n",
    );
    let (a_rest, b_rest) = (
        "{\"schema\":\"olm.channel\",\"package\":\"a\",\"name\":\"c\",\"entries\":[{\"name\":\"a.v1\"}]}{\"schema\":\"olm.bundle\",\"package\":\"a\",\"name\":\"a.v1\",\"image\":\"i\",\"properties\":[{\"type\":\"olm.package\",\"value\":{\"packageName\":\"a\",\"version\":\"1.0.0\"}}]}",
        "{\"schema\":\"olm.channel\",\"package\":\"b\",\"name\":\"c\",\"entries\":[{\"name\":\"b.v1\"}]}{\"schema\":\"olm.bundle\",\"package\":\"b\",\"name\":\"b.v1\",\"image\":\"i\",\"properties\":[{\"type\":\"olm.package\",\"value\":{\"packageName\":\"b\",\"version\":\"1.0.0\"}}]}",
    );
    for tree in [
        tree([("a/p.yaml", a), ("a/rest", a_rest), ("b/p.yaml", b), ("b/rest", b_rest)]),
        tree([("x/y/catalogA/p.yaml", a), ("z", a_rest), ("0/p", b), ("deep/er/rest.txt", b_rest)]),
    ] {
        let outline = outline(&tree, |_| Ok(())).unwrap();
        assert_eq!(outline.packages.len(), 2);
        assert_eq!(validate(&outline).message(), None);
    }
}
