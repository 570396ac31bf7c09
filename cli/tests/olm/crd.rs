//! `olm crd check` and `olm bundle diff`, as a person runs them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    path::Path,
    process::Output,
};

use serde_json::{Value, json};

use crate::program::{self, command, text, unread};

fn olm(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = program::olm(arguments);
    (status.code(), text(stdout), text(stderr))
}

fn definition(name: &str, size: &Value) -> Value {
    let spec = json!({"type": "object", "properties": {"size": size}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

fn write(folder: &Path, name: &str, documents: &[Value]) -> String {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let text: Vec<String> = documents.iter().map(ToString::to_string).collect();
    fs::write(&path, text.join("\n---\n")).expect("written");
    path.to_str().expect("text").to_owned()
}

#[test]
fn unsafe_changes_are_reported_and_exit_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let size = |most: u32| definition("foos.example.com", &json!({"type": "integer", "maximum": most}));
    let gone = definition("gone.example.com", &json!({}));
    let old = write(folder.path(), "old.yaml", &[size(5), gone]);
    let new = write(folder.path(), "new.yaml", &[size(4), definition("new.example.com", &json!({}))]);
    let (code, text, errors) = olm(&["crd", "check", &old, &new]);
    assert_eq!((code, errors.as_str()), (Some(2), ""));
    assert_eq!(
        text,
        "foos.example.com  changed, UNSAFE\n  unsafe   v1: ^.spec.size: maximum: maximum decreased : 5 -> 4\n\
         gone.example.com  REMOVED: its custom resources are deleted with it\nnew.example.com  added\n\
         There are unsafe changes: in 2 of 3 CRDs.\n"
    );

    let (code, text, _) = olm(&["crd", "check", &old, &new, "-o", "json"]);
    assert_eq!(code, Some(2));
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(answer["safe"], false);
    let finding = &answer["definitions"][0]["findings"][0];
    assert_eq!(
        [&finding["path"], &finding["check"], &finding["old"], &finding["new"], &finding["verdict"]],
        [&json!("^.spec.size"), &json!("maximum"), &json!(5), &json!(4), &json!("Refused")]
    );

    // Accepted by hand, and without the definition that goes, it is safe.
    let old = write(folder.path(), "old.json", &[size(5)]);
    let entry = "foos.example.com:^.spec.size:maximum";
    let (code, text, _) = olm(&["crd", "check", &old, &new, "--allow", entry]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("changed, safe\n  allowed  v1: ^.spec.size: maximum: "), "{text}");
    assert!(text.ends_with("Every change is safe.\n"), "{text}");
}

#[test]
fn findings_that_say_the_same_of_many_places_are_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let sizes = |most: u32, count: usize| {
        let fields = (0..count).map(|i| (format!("f{i}"), json!({"type": "integer", "maximum": most})));
        let fields: serde_json::Map<_, _> = fields.collect();
        definition("foos.example.com", &json!({"type": "object", "properties": fields}))
    };
    let text = |count: usize| {
        let old = write(folder.path(), "old.yaml", &[sizes(5, count)]);
        let new = write(folder.path(), "new.yaml", &[sizes(4, count)]);
        olm(&["crd", "check", &old, &new]).1
    };
    assert_eq!(text(2).matches("  unsafe   ").count(), 2);
    assert_eq!(
        text(5),
        "foos.example.com  changed, UNSAFE\n  \
         unsafe   v1: ^.spec.size.f0: maximum: maximum decreased : 5 -> 4; and 4 more places, listed with -o json\n\
         There are unsafe changes: in 1 of 1 CRD.\n"
    );
}

#[test]
fn the_policy_decides_about_false_alarms() {
    let folder = tempfile::tempdir().expect("a folder");
    let map = |more: Value| {
        let mut size =
            json!({"type": "object", "additionalProperties": {"type": "object", "properties": {}}});
        size["additionalProperties"]["properties"] = more;
        definition("foos.example.com", &size)
    };
    let old = write(folder.path(), "old.yaml", &[map(json!({}))]);
    let new = write(folder.path(), "new.yaml", &[map(json!({"a": {"type": "string"}}))]);
    assert_eq!(olm(&["crd", "check", &old, &new]).0, Some(0));
    let (code, text, _) = olm(&["crd", "check", &old, &new, "--policy", "upstream"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("unhandled: unhandled changes found"), "{text}");
    assert_eq!(olm(&["crd", "check", &old, &old]).0, Some(0));
}

#[test]
fn failures_exit_with_1() {
    let folder = tempfile::tempdir().expect("a folder");
    let crd = write(folder.path(), "crd.yaml", &[definition("foos.example.com", &json!({}))]);
    let other = write(folder.path(), "other.yaml", &[json!({"kind": "ConfigMap"})]);
    let broken = write(folder.path(), "broken.yaml", &[]);
    fs::write(&broken, "a: [").expect("written");
    for (old, new, wanted) in [
        (&crd, &other, "contains no CustomResourceDefinition of apiextensions.k8s.io/v1"),
        (&broken, &crd, "broken.yaml: "),
    ] {
        let (code, text, errors) = olm(&["crd", "check", old, new]);
        assert_eq!((code, text.as_str()), (Some(1), ""), "{errors}");
        assert!(errors.starts_with("error: ") && errors.contains(wanted), "{errors}");
    }
    let (code, _, errors) = olm(&["crd", "check", &crd, &crd, "--allow", "all"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("<CRD name>:<path>:<check>"), "{errors}");
    let (code, _, errors) = olm(&["crd", "check", &crd, &crd, "--kubeconfig", "/does/not/exist"]);
    assert_eq!(code, Some(1), "{errors}");
}

/// A bundle with a CRD, a Deployment and some permissions.
fn bundle(folder: &Path, name: &str, version: &str, crd: &Value, rules: &Value, modes: &[&str]) -> String {
    let modes: Vec<Value> = modes.iter().map(|mode| json!({"type": mode, "supported": true})).collect();
    let image = format!("example.com/c:{version}");
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("sample.v{version}")},
        "spec": {
            "version": version,
            "installModes": modes,
            "customresourcedefinitions": {"owned": [{"name": crd["metadata"]["name"], "kind": "Foo", "version": "v1"}]},
            "install": {"strategy": "deployment", "spec": {
                "deployments": [{"name": "sample", "spec": {
                    "selector": {"matchLabels": {"app": "sample"}},
                    "template": {
                        "metadata": {"labels": {"app": "sample"}},
                        "spec": {"serviceAccountName": "sample", "containers": [{"name": "c", "image": image}]},
                    },
                }}],
                "clusterPermissions": [{"serviceAccountName": "sample", "rules": rules}],
            }},
        },
    });
    let annotations = json!({"annotations": {
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.package.v1": "sample",
    }});
    let root = folder.join(name);
    write(&root, "manifests/csv.yaml", &[csv]);
    write(&root, "manifests/crd.yaml", std::slice::from_ref(crd));
    write(&root, "metadata/annotations.yaml", &[annotations]);
    root.to_str().expect("text").to_owned()
}

#[test]
fn an_upgrade_of_a_bundle_is_reported_in_all_its_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    let crd = |most: u32| definition("foos.example.com", &json!({"type": "integer", "maximum": most}));
    let rules = |verbs: &[&str]| json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": verbs}]);
    let modes = ["AllNamespaces", "OwnNamespace"];
    let old = bundle(folder.path(), "old", "1.0.0", &crd(5), &rules(&["get", "list"]), &modes);
    let new = bundle(folder.path(), "new", "1.1.0", &crd(6), &rules(&["get", "delete"]), &modes);
    let (code, text, errors) = olm(&["bundle", "diff", &old, &new]);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{text}");
    let start =
        "sample.v1.0.0 1.0.0 -> sample.v1.1.0 1.1.0\nCRDs\n  foos.example.com  changed, safe\nObjects\n";
    assert!(text.starts_with(start), "{text}");
    let deployment = "  ~ Deployment.apps/v1 operators/sample\n      \
                      spec.template.spec.containers[c].image: \"example.com/c:1.0.0\" -> \"example.com/c:1.1.0\"\n";
    assert!(text.contains(deployment), "{text}");
    let end = "Images\n  Deployment operators/sample [c]: example.com/c:1.0.0 -> example.com/c:1.1.0\n\
               New permissions of the operator\n  operators/sample\n    \
               + secrets: delete in the whole cluster\nPermissions that the operator loses\n  operators/sample\n    \
               - secrets: list in the whole cluster\nEvery change is safe.\n";
    assert!(text.ends_with(end), "{text}");

    let worse = bundle(folder.path(), "worse", "1.2.0", &crd(4), &rules(&["get", "list"]), &modes[..1]);
    let (code, text, _) = olm(&["bundle", "diff", &old, &worse, "-o", "json"]);
    assert_eq!(code, Some(2));
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(answer["safe"], false);
    assert_eq!(answer["definitions"][0]["safe"], false);
    assert_eq!(answer["installModes"]["removed"], json!(["OwnNamespace"]));
    assert_eq!((&answer["gainedPermissions"], &answer["lostPermissions"]), (&json!([]), &json!([])));
    assert_eq!(olm(&["bundle", "diff", &old, &old]).0, Some(0));
    assert_eq!(olm(&["bundle", "diff", &old, "/does/not/exist"]).0, Some(1));
    // The CRDs of bundles can be checked alone as well.
    assert_eq!(olm(&["crd", "check", &old, &worse]).0, Some(2));
}

#[test]
fn help_documents_the_exit_codes() {
    for command in [["crd", "check"], ["bundle", "diff"]] {
        let (code, text, _) = olm(&[command[0], command[1], "--help"]);
        assert_eq!(code, Some(0));
        assert!(text.contains("Exit codes: 0 ") && text.contains(", 2 a "), "{text}");
    }
}

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let crd = |most: u32| definition("foos.example.com", &json!({"type": "integer", "maximum": most}));
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let old = bundle(folder.path(), "old", "1.0.0", &crd(5), &rules, &["AllNamespaces"]);
    let new = bundle(folder.path(), "new", "1.1.0", &crd(4), &rules, &["AllNamespaces"]);
    for arguments in [
        &["bundle", "diff", &old, &new, "-o", "json"][..],
        &["bundle", "render", &old, "-n", "n", "-o", "json"],
        &["bundle", "rbac", &old, "-n", "n", "-o", "json"],
        &["bundle", "validate", &old, "-o", "json"],
        &["crd", "check", &old, &new, "-o", "json"],
    ] {
        assert_eq!(unread(&mut command(arguments)), (Some(0), String::new()), "{arguments:?}");
    }
}

/// An API server that has this definition, or none, and serves no kind of it, as long as the test runs; the path of a
/// kubeconfig for it.
fn cluster(folder: &Path, definition: Option<&Value>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let not_found = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404,
        "message": "customresourcedefinitions.apiextensions.k8s.io \"foos.example.com\" not found",
    });
    let found = definition.map(Value::to_string);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let Ok(copy) = stream.try_clone() else { return };
            let mut path = String::new();
            for line in BufReader::new(copy).lines() {
                let Ok(line) = line else { break };
                if let Some(asked) = line.strip_prefix("GET ") {
                    asked.clone_into(&mut path);
                }
                if !line.is_empty() {
                    continue;
                }
                let (status, body) = match &found {
                    Some(found) if path.contains("/customresourcedefinitions/") => ("200 OK", found.clone()),
                    None if path.contains("/customresourcedefinitions/") => {
                        ("404 Not Found", not_found.to_string())
                    }
                    // The answer of an API server to a path that it does not know is no Status.
                    _ => ("404 Not Found", "404 page not found\n".to_owned()),
                };
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
                if stream.write_all((head + &body).as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    });
    write(folder, "kubeconfig", &[kubeconfig])
}

#[test]
fn a_cluster_that_does_not_serve_the_definition_has_no_objects_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let size = |most: u32| definition("foos.example.com", &json!({"type": "integer", "maximum": most}));
    let old = write(folder.path(), "old.yaml", &[size(5)]);
    let new = write(folder.path(), "new.yaml", &[size(6)]);
    for (definition, wanted) in [
        (None, "the cluster does not have this CRD: no objects"),
        (Some(size(5)), "not checked: the cluster does not serve version v1 of this CRD"),
    ] {
        let kubeconfig = cluster(folder.path(), definition.as_ref());
        let check = ["crd", "check", &old, &new, "--kubeconfig", &kubeconfig];
        for arguments in [&check[..], &[&check[..], &["--context", "c"]].concat()] {
            let (code, text, errors) = olm(arguments);
            assert_eq!((code, errors.as_str()), (Some(0), ""), "{text}");
            assert_eq!(
                text,
                format!("foos.example.com  changed, safe\n  objects  {wanted}\nEvery change is safe.\n")
            );
        }
        let (code, _, errors) = olm(&[&check[..], &["--context", "d"]].concat());
        assert!(code == Some(1) && errors.contains("--context d"), "{errors}");
    }
}

#[test]
fn the_name_of_a_field_cannot_look_like_the_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let hostile = |most: u32| {
        let mut crd = definition("foos.example.com", &json!({"type": "integer"}));
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        crd.pointer_mut(spec).expect("properties")["a\nEvery change is safe.\u{202e}"] =
            json!({"type": "integer", "maximum": most});
        crd
    };
    let old = write(folder.path(), "old.yaml", &[hostile(5)]);
    let new = write(folder.path(), "new.yaml", &[hostile(4)]);
    let (code, text, _) = olm(&["crd", "check", &old, &new]);
    assert_eq!(code, Some(2));
    assert!(text.contains("a Every change is safe.\\u{202e}"), "{text}");
    assert!(!text.lines().any(|line| line.trim() == "Every change is safe."), "{text}");
}
