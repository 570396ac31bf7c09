//! File-based catalogs, and the objects that name them.

use crate::prelude::*;

/// A bundle as a catalog lists it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The package.
    pub package: String,
    /// The version.
    pub version: String,
    /// The bundle's name, that of its ClusterServiceVersion.
    pub name: String,
    /// Channels with this bundle.
    pub channels: Vec<String>,
    /// `replaces`, `skips`, `skipRange` in each channel.
    pub edges: Value,
    /// Properties beside `olm.package`.
    pub properties: Vec<Value>,
}

impl Entry {
    /// An entry in the channel `stable` without edges.
    pub fn new(package: &str, version: &str) -> Self {
        Self {
            package: package.to_owned(),
            version: version.to_owned(),
            // A release follows a plus sign, which no name may have.
            name: format!("{package}.v{}", version.replace('+', "-")),
            channels: vec!["stable".to_owned()],
            edges: json!({}),
            properties: Vec::new(),
        }
    }

    fn blob(&self, image: &str) -> Value {
        let Self { package, version, name, .. } = self;
        let own = json!({"type": "olm.package", "value": {"packageName": package, "version": version}});
        let properties: Vec<&Value> = std::iter::once(&own).chain(&self.properties).collect();
        json!({"schema": "olm.bundle", "package": package, "name": name, "image": image, "properties": properties})
    }

    fn in_channel(&self) -> Value {
        let mut entry = self.edges.clone();
        entry["name"] = self.name.as_str().into();
        entry
    }
}

/// The text of a catalog of bundles with their images; the default channel of every package is `stable`.
pub fn text(bundles: &[(Entry, String)]) -> String {
    let sorted = |mut names: Vec<String>| {
        names.sort_unstable();
        names.dedup();
        names
    };
    let mut blobs = Vec::new();
    for package in sorted(bundles.iter().map(|(entry, _)| entry.package.clone()).collect()) {
        blobs.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        let entries: Vec<&Entry> =
            bundles.iter().map(|(entry, _)| entry).filter(|entry| entry.package == package).collect();
        for channel in sorted(entries.iter().flat_map(|entry| entry.channels.clone()).collect()) {
            let listed: Vec<Value> = entries
                .iter()
                .filter(|entry| entry.channels.contains(&channel))
                .map(|entry| entry.in_channel())
                .collect();
            blobs.push(
                json!({"schema": "olm.channel", "package": package, "name": channel, "entries": listed}),
            );
        }
    }
    blobs.extend(bundles.iter().map(|(entry, image)| entry.blob(image)));
    lines(&blobs)
}

/// Documents of a catalog, one a line.
pub fn lines(documents: &[Value]) -> String {
    documents.iter().fold(String::new(), |text, document| text + &document.to_string() + "\n")
}

/// The text of a catalog of one package whose versions, given with their images, replace one another in this order.
pub fn chain(package: &str, bundles: &[(&str, &str)]) -> String {
    let mut entries: Vec<(Entry, String)> = Vec::new();
    for (version, image) in bundles {
        let mut entry = Entry::new(package, version);
        if let Some((before, _)) = entries.last() {
            entry.edges = json!({"replaces": before.name});
        }
        entries.push((entry, (*image).to_owned()));
    }
    text(&entries)
}

/// A ClusterCatalog with this `spec.source.image`.
pub fn cluster_catalog(name: &str, image: &Value) -> ClusterCatalog {
    let object = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": image}},
    });
    serde_json::from_value(object).expect("a ClusterCatalog")
}

/// Waits until a catalog is served.
pub async fn serves(client: &Client, name: &str, deadline: Duration) -> Result<()> {
    let api: Api<ClusterCatalog> = Api::all(client.clone());
    wait::until(&format!("the catalog {name} to serve"), deadline, || async {
        let conditions = api.get(name).await?.status.unwrap_or_default().conditions;
        wait::check(conditions.is_true(Serving), || {
            conditions.find(Progressing).map(|c| c.message.clone()).unwrap_or_default()
        })
    })
    .await
}
