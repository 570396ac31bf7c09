use super::{IgnoreRules, walk_order};

const TREE: [&str; 7] = [
    "a.yaml",
    "b.json",
    "README.md",
    "objects/o.yaml",
    "sub/a.yaml",
    "sub/objects/o.yaml",
    "sub/deep/x.yaml",
];

fn ignored(files: &[(&str, &str)]) -> Vec<&'static str> {
    let mut rules = IgnoreRules::default();
    for (path, text) in files {
        rules.push_file(path, text).unwrap();
    }
    TREE.into_iter().filter(|path| rules.ignores(path)).collect()
}

#[test]
fn patterns_ignore_what_the_original_ignores() {
    let all_but = |kept: &[&str]| TREE.into_iter().filter(|path| !kept.contains(path)).collect::<Vec<_>>();
    let objects = vec!["objects/o.yaml", "sub/objects/o.yaml"];
    for (text, expected) in [
        ("*", all_but(&[])),
        ("**", all_but(&[])),
        ("*.md", vec!["README.md"]),
        ("objects/", objects.clone()),
        ("objects", objects.clone()),
        ("/objects", vec!["objects/o.yaml"]),
        ("/objects/", vec!["objects/o.yaml"]),
        ("sub/objects", vec!["sub/objects/o.yaml"]),
        ("**/objects/*.yaml", objects.clone()),
        ("*\n!a.yaml", all_but(&["a.yaml", "sub/a.yaml"])),
        (
            "**/*\n!*.json\n!*.yaml\n**/objects/*.json\n**/objects/*.yaml",
            vec!["README.md", "objects/o.yaml", "sub/objects/o.yaml"],
        ),
        ("!a.yaml\na.yaml", vec!["a.yaml", "sub/a.yaml"]),
        ("a.yaml/", vec![]),
        ("A.YAML", vec![]),
        ("sub/**", vec!["sub/a.yaml", "sub/objects/o.yaml", "sub/deep/x.yaml"]),
        ("sub/**/x.yaml", vec!["sub/deep/x.yaml"]),
        ("?.yaml", vec!["a.yaml", "objects/o.yaml", "sub/a.yaml", "sub/objects/o.yaml", "sub/deep/x.yaml"]),
        ("[ab].*", vec!["a.yaml", "b.json", "sub/a.yaml"]),
        ("[a-b].*", vec!["a.yaml", "b.json", "sub/a.yaml"]),
        ("[^a].json", vec!["b.json"]),
        ("[a", vec![]),
        ("a**", vec![]),
        ("**b", vec![]),
        ("  *.md  \n# *.json\n", vec!["README.md"]),
        ("sub/\n!sub/a.yaml", vec!["sub/objects/o.yaml", "sub/deep/x.yaml"]),
    ] {
        assert_eq!(ignored(&[(".indexignore", text)]), expected, "{text:?}");
    }
}

#[test]
fn patterns_hold_below_their_own_directory() {
    assert_eq!(ignored(&[("sub/.indexignore", "/a.yaml")]), ["sub/a.yaml"]);
    assert_eq!(ignored(&[("sub/.indexignore", "*\n!deep/")]), ["sub/a.yaml", "sub/objects/o.yaml"]);
    assert_eq!(
        ignored(&[(".indexignore", "*.yaml"), ("sub/.indexignore", "!a.yaml")]),
        ["a.yaml", "objects/o.yaml", "sub/objects/o.yaml", "sub/deep/x.yaml"]
    );
}

#[test]
fn pattern_files_are_no_content() {
    assert!(IgnoreRules::default().ignores("sub/.indexignore"));
}

#[test]
fn too_many_patterns_are_refused() {
    let error = IgnoreRules::default().push_file(".indexignore", &"a\n".repeat(1_001)).unwrap_err();
    assert_eq!(error.to_string(), ".indexignore files have more than 1000 patterns");
}

#[test]
fn files_come_in_the_order_of_a_walk() {
    let mut paths = ["b", "a.yaml", "a/z", "a-b/x", "a/b/c", "B"].map(String::from);
    paths.sort_by(|one, other| walk_order(one, other));
    assert_eq!(paths, ["B", "a/b/c", "a/z", "a-b/x", "a.yaml", "b"]);
}
