//! Namespaces and catalogs for tests.

use serde_json::{Value, json};

use olm_api_classic::{ClusterServiceVersion, Subscription};

use crate::{
    graph::Snapshot,
    registry_model::{self, Property},
    resolve::{Catalog, Conflict, Part, Request, Scope, Solution, Unresolved, resolve},
};

/// A bundle in channels.
#[derive(Debug, Clone)]
pub(super) struct TestBundle {
    bundle: registry_model::Bundle,
    channels: Vec<String>,
}

/// A bundle `<package>.v<version>` in channel `stable`.
pub(super) fn bundle(package: &str, version: &str) -> TestBundle {
    let bundle = registry_model::Bundle {
        csv_name: format!("{package}.v{version}"),
        package_name: package.to_owned(),
        version: version.to_owned(),
        bundle_path: format!("example.com/{package}:{version}"),
        ..registry_model::Bundle::default()
    };
    TestBundle { bundle, channels: vec!["stable".to_owned()] }
}

/// The group `example.com`, version `v1`.
pub(super) fn gvk(kind: &str) -> Value {
    json!({"group": "example.com", "version": "v1", "kind": kind})
}

impl TestBundle {
    pub(super) fn channels(mut self, channels: &[&str]) -> Self {
        self.channels = channels.iter().map(|one| (*one).to_owned()).collect();
        self
    }

    pub(super) fn replaces(mut self, version: &str) -> Self {
        self.bundle.replaces = format!("{}.v{version}", self.bundle.package_name);
        self
    }

    pub(super) fn skips(mut self, version: &str) -> Self {
        self.bundle.skips.push(format!("{}.v{version}", self.bundle.package_name));
        self
    }

    pub(super) fn skip_range(mut self, range: &str) -> Self {
        range.clone_into(&mut self.bundle.skip_range);
        self
    }

    pub(super) fn property(mut self, kind: &str, value: &Value) -> Self {
        self.bundle.properties.push(Property { kind: kind.to_owned(), value: value.to_string() });
        self
    }

    pub(super) fn provides(self, kind: &str) -> Self {
        self.property("olm.gvk", &gvk(kind))
    }

    pub(super) fn needs(self, kind: &str) -> Self {
        self.property("olm.gvk.required", &gvk(kind))
    }

    pub(super) fn needs_package(self, package: &str, range: &str) -> Self {
        self.property("olm.package.required", &json!({"packageName": package, "versionRange": range}))
    }

    pub(super) fn needs_rule(self, rule: &str) -> Self {
        self.property("olm.constraint", &json!({"failureMessage": "sorry", "cel": {"rule": rule}}))
    }

    pub(super) fn deprecated(self) -> Self {
        self.property("olm.deprecated", &json!({}))
    }
}

/// A catalog. Its packages have the default channel `stable`.
#[derive(Debug, Clone, Default)]
pub(super) struct TestCatalog {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) priority: i32,
    pub(super) bundles: Vec<TestBundle>,
    pub(super) error: Option<String>,
}

impl TestCatalog {
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for TestBundle { bundle, channels } in &self.bundles {
            if !snapshot.packages.contains_key(&bundle.package_name) {
                let package = registry_model::Package {
                    name: bundle.package_name.clone(),
                    default_channel_name: "stable".to_owned(),
                    ..registry_model::Package::default()
                };
                snapshot.push_package(&package).unwrap();
            }
            for channel in channels {
                let bundle = registry_model::Bundle { channel_name: channel.clone(), ..bundle.clone() };
                assert!(snapshot.push_bundle(&bundle).unwrap());
            }
        }
        snapshot
    }
}

/// The namespace `ns`, which sees global catalogs of the namespace `olm`.
#[derive(Debug, Clone, Default)]
pub(super) struct World {
    pub(super) catalogs: Vec<TestCatalog>,
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) csvs: Vec<ClusterServiceVersion>,
    pub(super) fails_forward: bool,
}

impl World {
    /// With a catalog `olm/cat` of these bundles.
    pub(super) fn of(bundles: impl IntoIterator<Item = TestBundle>) -> Self {
        Self::default().catalog("olm", "cat", 0, bundles)
    }

    pub(super) fn catalog(
        mut self,
        namespace: &str,
        name: &str,
        priority: i32,
        bundles: impl IntoIterator<Item = TestBundle>,
    ) -> Self {
        self.catalogs.push(TestCatalog {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            priority,
            bundles: bundles.into_iter().collect(),
            error: None,
        });
        self
    }

    pub(super) fn unreadable(mut self, name: &str, cause: &str) -> Self {
        let error = Some(cause.to_owned());
        self.catalogs.push(TestCatalog {
            namespace: "olm".to_owned(),
            name: name.to_owned(),
            error,
            ..TestCatalog::default()
        });
        self
    }

    /// With a Subscription of catalog `olm/cat`, whose spec has these further fields.
    pub(super) fn subscribe(self, name: &str, package: &str, fields: &Value) -> Self {
        self.subscribe_installed(name, package, fields, None)
    }

    pub(super) fn subscribe_installed(
        mut self,
        name: &str,
        package: &str,
        fields: &Value,
        installed: Option<&str>,
    ) -> Self {
        let mut subscription = json!({
            "metadata": {"name": name},
            "spec": {"name": package, "source": "cat", "sourceNamespace": "olm"},
            "status": {"installedCSV": installed, "currentCSV": installed},
        });
        for (field, value) in fields.as_object().into_iter().flatten() {
            subscription["spec"][field] = value.clone();
        }
        self.subscriptions.push(serde_json::from_value(subscription).unwrap());
        self
    }

    /// With a ClusterServiceVersion that has these properties, or an annotation that is no JSON.
    pub(super) fn csv(mut self, name: &str, version: &str, properties: Option<Value>) -> Self {
        let mut csv = json!({
            "metadata": {"name": name},
            "spec": {"version": version, "install": {"strategy": "deployment"}, "displayName": name},
        });
        if let Some(properties) = properties {
            let text = json!({ "properties": properties }).to_string();
            csv["metadata"]["annotations"] = json!({"operatorframework.io/properties": text});
        }
        self.csvs.push(serde_json::from_value(csv).unwrap());
        self
    }

    pub(super) fn parts(&self, scope: Scope) -> Vec<Part> {
        self.with_catalogs(|catalogs| resolve(&self.request(scope), catalogs))
    }

    pub(super) fn request(&self, scope: Scope) -> Request<'_> {
        Request {
            namespace: "ns",
            global: Some("olm"),
            subscriptions: &self.subscriptions,
            csvs: &self.csvs,
            scope,
            fails_forward: self.fails_forward,
        }
    }

    pub(super) fn with_catalogs<T>(&self, act: impl FnOnce(&[Catalog<'_>]) -> T) -> T {
        let snapshots: Vec<Snapshot> = self.catalogs.iter().map(TestCatalog::snapshot).collect();
        let catalogs = self.catalogs.iter().zip(&snapshots).map(|(catalog, snapshot)| Catalog {
            namespace: &catalog.namespace,
            name: &catalog.name,
            priority: catalog.priority,
            content: catalog.error.as_deref().map_or(Ok(snapshot), Err),
        });
        act(&catalogs.collect::<Vec<_>>())
    }

    fn whole(&self) -> Result<Solution, Unresolved> {
        let [part]: [Part; 1] = self.parts(Scope::Namespace).try_into().unwrap();
        part.outcome
    }

    pub(super) fn solution(&self) -> Solution {
        self.whole().unwrap_or_else(|unresolved| panic!("{unresolved}"))
    }

    /// Names of the bundles to install.
    pub(super) fn installs(&self) -> Vec<String> {
        self.solution().bundles.into_iter().map(|bundle| bundle.name).collect()
    }

    pub(super) fn error(&self) -> String {
        self.whole().unwrap_err().to_string()
    }

    pub(super) fn conflict(&self) -> Conflict {
        match self.whole() {
            Err(Unresolved::Conflict(conflict)) => conflict,
            other => panic!("{other:?}"),
        }
    }
}
