//! Objects of manifests, from files, kustomize and helm.

use olm_test::{
    helm::{KUBE_VERSION, helm},
    prelude::*,
};
use olm_test_programs::controlplane::{Tool, Tools};

/// Objects by kind, namespace and name.
pub(crate) type Objects = BTreeMap<(String, String, String), Value>;

/// The account the program runs as.
pub(crate) const ACCOUNT: &str = "system:serviceaccount:olmv1-system:operator-controller-controller-manager";

/// A path below `config`, as an argument.
pub(crate) fn config_arg(path: &str) -> String {
    kubectl::config(path).display().to_string()
}

/// The objects of a file below `config`.
pub(crate) fn file(path: &str) -> Result<Objects> {
    let path = kubectl::config(path);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    objects(&text)
}

/// What kustomize, which kubectl has inside, makes of a folder below `config`.
pub(crate) fn kustomized(folder: &str) -> Result<Objects> {
    kustomize(&kubectl::config(folder))
}

/// The same of a kustomization like those of users: a folder below `config` with a component of `config/components`.
pub(crate) fn kustomized_with(folder: &str, component: &str) -> Result<Objects> {
    let own = tempfile::tempdir()?;
    let place = own.path().canonicalize()?;
    // Kustomize takes no absolute paths.
    let up = "../".repeat(place.components().count() - 1);
    let path = |of: PathBuf| -> Result<String> {
        let whole = of.canonicalize().with_context(|| of.display().to_string())?;
        Ok(format!("{up}{}", whole.strip_prefix("/")?.display()))
    };
    let text = serde_json::json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [path(kubectl::config(folder))?],
        "components": [path(kubectl::config("components").join(component))?],
    });
    std::fs::write(place.join("kustomization.yaml"), text.to_string())?;
    kustomize(&place)
}

/// What kustomize makes of a folder.
pub(crate) fn kustomize(folder: &Path) -> Result<Objects> {
    let given = olm_test_programs::variable("KUBECONFIG").is_some();
    let kubectl =
        if given { PathBuf::from("kubectl") } else { Tools::locate(&[Tool::Kubectl])?.path(Tool::Kubectl) };
    objects(&run(Command::new(kubectl).arg("kustomize").arg(folder))?)
}

/// What the chart makes of values, each `<name>=<value>` of helm's `--set`.
pub(crate) fn templated(values: &[&str]) -> Result<Objects> {
    templated_with(&values.iter().map(|value| format!("--set={value}")).collect::<Vec<_>>())
}

/// What the chart makes with arguments of helm's.
pub(crate) fn templated_with(args: &[String]) -> Result<Objects> {
    let mut command = Command::new(helm()?);
    command.args(["template", "olmv1", &config_arg("helm/olmv1"), "--kube-version", KUBE_VERSION]);
    command.args(args);
    let mut objects = objects(&run(&mut command)?)?;
    // What helm alone needs, and what the chart says about its values.
    for object in objects.values_mut() {
        let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
        let Some(annotations) = annotations else { continue };
        annotations.remove("helm.sh/resource-policy");
        annotations.remove("olm.operatorframework.io/feature-set");
        if annotations.is_empty() {
            object["metadata"].as_object_mut().context("metadata")?.remove("annotations");
        }
    }
    Ok(objects)
}

/// Runs a program; its output, or what it complains about.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{}", errors.trim());
    String::from_utf8(output.stdout).context("its output is text")
}

fn objects(text: &str) -> Result<Objects> {
    let mut objects = Objects::new();
    for document in olm_yaml::documents(text) {
        let mut object = document.context("a document")?;
        if object.is_null() {
            continue;
        }
        drop_nulls(&mut object);
        let part = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let key = (object["kind"].as_str().unwrap_or_default().to_owned(), part("namespace"), part("name"));
        ensure!(!objects.contains_key(&key), "{key:?} is there twice");
        objects.insert(key, object);
    }
    Ok(objects)
}

/// A field without a value is none, for the API server and for those who render.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Fails with the names of the objects that differ.
pub(crate) fn assert_same(what: &str, left: &Objects, right: &Objects) {
    let missing: Vec<_> = left.keys().filter(|key| !right.contains_key(*key)).collect();
    let new: Vec<_> = right.keys().filter(|key| !left.contains_key(*key)).collect();
    assert!(missing.is_empty() && new.is_empty(), "{what}: only left {missing:?}, only right {new:?}");
    for (key, object) in left {
        assert_eq!(object, &right[key], "{what}: {key:?}");
    }
    assert!(!left.is_empty(), "{what}: nothing was rendered");
}
