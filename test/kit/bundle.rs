//! Bundles in the format registry+v1. A test names what its bundle contains; everything else is as in most bundles.

use olm_bundle::BundleFiles;

use crate::{catalog::Entry, prelude::*};

/// An image for Pods that nothing runs in.
pub const IMAGE: &str = "registry.k8s.io/pause:3.10";

/// A bundle, and its entry in a catalog.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Package, version, name, channels, upgrade edges and catalog properties.
    pub entry: Entry,
    csv: Value,
    manifests: Vec<Value>,
    unpermitted: Vec<Value>,
    files: Vec<(String, String)>,
}

impl Bundle {
    /// A bundle with a ClusterServiceVersion only, for all namespaces.
    pub fn new(package: &str, version: &str) -> Self {
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"annotations": {}},
            "spec": {
                "displayName": package, "version": version,
                "customresourcedefinitions": {"owned": []}, "webhookdefinitions": [],
                "install": {"strategy": "deployment", "spec": {
                    "deployments": [], "permissions": [], "clusterPermissions": [],
                }},
            },
        });
        let entry = Entry::new(package, version);
        Self { entry, csv, manifests: Vec::new(), unpermitted: Vec::new(), files: Vec::new() }
            .modes(&["AllNamespaces"])
    }

    fn spec(&mut self) -> &mut Value {
        &mut self.csv["spec"]
    }

    fn install(&mut self) -> &mut Value {
        &mut self.spec()["install"]["spec"]
    }

    fn change_entry(mut self, change: impl FnOnce(&mut Entry)) -> Self {
        change(&mut self.entry);
        self
    }

    /// Replaces its name, `<package>.v<version>`.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        self.change_entry(|entry| name.clone_into(&mut entry.name))
    }

    /// Replaces its channel, `stable`.
    #[must_use]
    pub fn channels(self, channels: &[&str]) -> Self {
        self.change_entry(|entry| entry.channels = channels.iter().map(|c| (*c).to_owned()).collect())
    }

    /// Sets `replaces`, `skips`, `skipRange` in its channels.
    #[must_use]
    pub fn edges(self, edges: Value) -> Self {
        self.change_entry(|entry| entry.edges = edges)
    }

    /// Makes it the successor of a version of the same package.
    #[must_use]
    pub fn replaces(self, version: &str) -> Self {
        let replaced = format!("{}.v{version}", self.entry.package);
        self.edges(json!({"replaces": replaced}))
    }

    /// Adds a property in the catalog.
    #[must_use]
    pub fn property(self, kind: &str, value: Value) -> Self {
        let mut property = json!({"type": kind});
        property["value"] = value;
        self.change_entry(|entry| entry.properties.push(property))
    }

    /// Sets the supported install modes, `AllNamespaces` at first.
    #[must_use]
    pub fn modes(mut self, supported: &[&str]) -> Self {
        let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
        self.spec()["installModes"] =
            modes.map(|mode| json!({"type": mode, "supported": supported.contains(&mode)})).as_slice().into();
        self
    }

    /// Adds an annotation of the ClusterServiceVersion.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.csv["metadata"]["annotations"][key] = value.into();
        self
    }

    /// Adds a manifest, or replaces the one of the same kind and name. CRDs are owned.
    #[must_use]
    pub fn contains(mut self, object: Value) -> Self {
        let id = |object: &Value| (object["kind"].clone(), object["metadata"]["name"].clone());
        self.manifests.retain(|present| id(present) != id(&object));
        self.manifests.push(object);
        self
    }

    /// Adds a manifest for which the accounts of tests get no permissions.
    #[must_use]
    pub fn ships(mut self, object: Value) -> Self {
        self.unpermitted.push(object);
        self
    }

    /// Replaces the content of its ConfigMap, `<package>-data`.
    #[must_use]
    pub fn data(self, data: &str) -> Self {
        let map = config_map(&format!("{}-data", self.entry.package), &json!({"data": data}));
        self.contains(map)
    }

    /// Adds a CRD, and the catalog's property for it.
    #[must_use]
    pub fn brings(self, group: &str, kind: &str) -> Self {
        self.brings_with(group, kind, &json!({}))
    }

    /// The same, with properties of the CRD's `spec`.
    #[must_use]
    pub fn brings_with(self, group: &str, kind: &str, properties: &Value) -> Self {
        self.contains(crd(group, kind, properties))
            .property("olm.gvk", json!({"group": group, "version": "v1", "kind": kind}))
    }

    /// Adds a Deployment and a ServiceAccount of the package's name; its Pods find a node, or never do.
    #[must_use]
    pub fn deployment(self, runs: bool) -> Self {
        let name = self.entry.package.clone();
        let deployment = if runs { deployment(&name, IMAGE) } else { unschedulable(&name) };
        self.operator(deployment, &reads_config_maps())
    }

    /// Adds a Deployment with a ServiceAccount of the same name, which gets these rules in the whole cluster.
    #[must_use]
    pub fn operator(self, mut deployment: Value, rules: &Value) -> Self {
        let account = deployment["name"].clone();
        deployment["spec"]["template"]["spec"]["serviceAccountName"] = account.clone();
        self.rules("clusterPermissions", &account, rules).workload(deployment)
    }

    /// Adds a Deployment, as [`deployment`] makes it.
    #[must_use]
    pub fn workload(mut self, deployment: Value) -> Self {
        push(&mut self.install()["deployments"], deployment);
        self
    }

    /// Adds rules of a ServiceAccount to `permissions` or `clusterPermissions`.
    #[must_use]
    pub fn rules(mut self, list: &str, account: &Value, rules: &Value) -> Self {
        push(&mut self.install()[list], json!({"serviceAccountName": account, "rules": rules}));
        self
    }

    /// Adds a webhook, as [`webhook`] makes it.
    #[must_use]
    pub fn webhook(mut self, webhook: Value) -> Self {
        push(&mut self.spec()["webhookdefinitions"], webhook);
        self
    }

    /// Sets `metadata/dependencies.yaml`.
    #[must_use]
    pub fn dependencies(self, text: &str) -> Self {
        self.file("metadata/dependencies.yaml", text)
    }

    /// Adds a file as it is.
    #[must_use]
    pub fn file(mut self, path: &str, text: impl Into<String>) -> Self {
        self.files.push((path.to_owned(), text.into()));
        self
    }

    /// Its files, but for what [`Self::ships`] added.
    pub fn permitted_files(&self) -> BundleFiles {
        let Self { entry, manifests, .. } = self;
        let mut csv = self.csv.clone();
        csv["metadata"]["name"] = entry.name.as_str().into();
        for crd in manifests.iter().filter(|object| object["kind"] == "CustomResourceDefinition") {
            for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
                let (name, kind) = (&crd["metadata"]["name"], &crd["spec"]["names"]["kind"]);
                push(
                    &mut csv["spec"]["customresourcedefinitions"]["owned"],
                    json!({"name": name, "version": version["name"], "kind": kind, "displayName": kind}),
                );
            }
        }
        let annotations = json!({"annotations": {
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
            "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
            "operators.operatorframework.io.bundle.package.v1": entry.package,
            "operators.operatorframework.io.bundle.channels.v1": entry.channels.join(","),
        }});
        let manifests = manifests.iter().enumerate();
        [("manifests/csv.yaml".to_owned(), csv.to_string())]
            .into_iter()
            .chain([("metadata/annotations.yaml".to_owned(), annotations.to_string())])
            .chain(manifests.map(|(index, object)| (format!("manifests/{index}.yaml"), object.to_string())))
            .chain(self.files.iter().cloned())
            .collect()
    }

    /// Its files.
    pub fn files(&self) -> BundleFiles {
        let mut files = self.permitted_files();
        for (index, object) in self.unpermitted.iter().enumerate() {
            files.insert(&format!("manifests/shipped-{index}.yaml"), object.to_string());
        }
        files
    }

    /// Writes its files below a folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        for (path, content) in self.files().iter() {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            fs::write(path, content)?;
        }
        Ok(())
    }
}

fn push(list: &mut Value, item: Value) {
    list.as_array_mut().expect("a list").push(item);
}

/// A bundle with a ConfigMap, `<package>-data`, that holds the version.
pub fn small(package: &str, version: &str) -> Bundle {
    Bundle::new(package, version).data(version)
}

/// A ConfigMap.
pub fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// A namespaced CRD with version `v1`, whose `spec` has these properties; its plural is the kind with an `s`.
pub fn crd(group: &str, kind: &str, properties: &Value) -> Value {
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    crd_with_versions(group, kind, &[("v1", schema)])
}

/// The same with fields of any form.
pub fn open_crd(group: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    crd_with_versions(group, kind, &[("v1", schema)])
}

/// The same with these versions and their schemas; the first one is stored.
pub fn crd_with_versions(group: &str, kind: &str, versions: &[(&str, Value)]) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(index, (name, schema))| {
            json!({"name": name, "served": true, "storage": index == 0, "schema": {"openAPIV3Schema": schema}})
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List")},
        },
    })
}

/// A Deployment of a ClusterServiceVersion with one container of this image, to be changed further.
pub fn deployment(name: &str, image: &str) -> Value {
    let labels = json!({"app": name});
    json!({"name": name, "spec": {
        "replicas": 1, "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": {}},
            "spec": {"containers": [{"name": "manager", "image": image}]},
        },
    }})
}

/// A Deployment whose Pods find no node.
pub fn unschedulable(name: &str) -> Value {
    let mut deployment = deployment(name, IMAGE);
    deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({"nowhere": "true"});
    deployment
}

/// The rule of an operator that reads ConfigMaps.
pub fn reads_config_maps() -> Value {
    json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}])
}

/// A webhook of a ClusterServiceVersion that a Deployment serves, with further fields.
pub fn webhook(kind: &str, name: &str, deployment: &str, more: Value) -> Value {
    let mut webhook = json!({
        "type": kind, "generateName": name, "deploymentName": deployment, "containerPort": 443,
        "webhookPath": "/", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
    });
    if let (Value::Object(webhook), Value::Object(more)) = (&mut webhook, more) {
        webhook.extend(more);
    }
    webhook
}

/// The folder of a sample bundle of the project, `lighthouse-operator`.
pub fn lighthouse(version: &str) -> PathBuf {
    kubectl::config("samples/lighthouse/bundles").join(version)
}

/// The API group of the sample bundles.
pub const LIGHTHOUSE_GROUP: &str = "lighthouse.example.com";

/// Copies the folder of a bundle with texts replaced, each by the one beside it.
pub fn copy(from: &Path, to: &Path, replaced: &[(&str, &str)]) -> Result<()> {
    for part in ["manifests", "metadata"] {
        fs::create_dir_all(to.join(part))?;
        for entry in fs::read_dir(from.join(part))? {
            let entry = entry?;
            let text = fs::read_to_string(entry.path())?;
            let text = replaced.iter().fold(text, |text, (old, new)| text.replace(old, new));
            fs::write(to.join(part).join(entry.file_name()), text)?;
        }
    }
    Ok(())
}
