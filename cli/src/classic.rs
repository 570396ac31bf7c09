//! What `olm` says of OLM Classic: its CatalogSources and packages, where a cluster has them.

mod candidates;
mod cluster_service_version;
mod difference;
mod install_plan;
mod listed;
mod subscription;

use std::fmt::Write as _;

use anyhow::Context as _;
use kube::{Api, Client, ResourceExt};
use olm_api_classic::{
    CatalogSource, ClusterServiceVersion, InstallPlan, PackageManifest, Subscription,
    names::IMAGE_TEMPLATE_ANNOTATION,
};
use olm_fbc::MetaReader;
use olm_opm::SearchIndex;
use olm_runtime::if_exists;
use olm_text::one_line;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    cluster::list_if_served,
    output::{below, columns, counted},
};

pub(crate) use candidates::{Access, Resolution};
pub(crate) use cluster_service_version::CsvView;
pub(crate) use difference::Difference;
pub(crate) use install_plan::PlanView;
use listed::Listed;
pub(crate) use subscription::SubscriptionView;

/// The names of the kind Subscription.
pub(crate) const SUBSCRIPTION: [&str; 4] = ["subscription", "subscriptions", "sub", "subs"];

/// The objects of OLM Classic.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Classic {
    catalog_sources: Vec<SourceView>,
    subscriptions: Vec<Listed>,
    cluster_service_versions: Vec<Listed>,
    /// Copies of those, in other namespaces.
    copies: usize,
    install_plans: Vec<Listed>,
}

/// A CatalogSource.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceView {
    namespace: String,
    name: String,
    #[serde(rename = "type")]
    type_: String,
    /// Image, address or ConfigMap.
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<String>,
    /// State of the connection.
    state: String,
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_poll: Option<String>,
    /// Whether content is served, and why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<ReadyView>,
}

#[derive(Debug, Serialize)]
struct ReadyView {
    status: String,
    reason: String,
    message: String,
}

impl Classic {
    /// What the cluster has; none where it does not serve CatalogSources.
    pub(crate) async fn of(client: &Client, namespace: Option<&str>) -> anyhow::Result<Option<Self>> {
        let Some(mut sources) = list_if_served::<CatalogSource>(client).await? else { return Ok(None) };
        sources.retain(|source| namespace.is_none() || source.namespace().as_deref() == namespace);
        let is_wanted = |own: Option<String>| namespace.is_none() || own.as_deref() == namespace;
        let mut subscriptions = list_if_served::<Subscription>(client).await?.unwrap_or_default();
        let mut versions = list_if_served::<ClusterServiceVersion>(client).await?.unwrap_or_default();
        let mut plans = list_if_served::<InstallPlan>(client).await?.unwrap_or_default();
        subscriptions.retain(|one| is_wanted(one.namespace()));
        versions.retain(|one| is_wanted(one.namespace()));
        plans.retain(|one| is_wanted(one.namespace()));
        let (copies, own): (Vec<_>, Vec<_>) = versions.iter().partition(|one| listed::is_copy(one));
        Ok(Some(Self {
            catalog_sources: sources.iter().map(SourceView::of).collect(),
            subscriptions: subscriptions.iter().map(Listed::subscription).collect(),
            cluster_service_versions: own.into_iter().map(Listed::version).collect(),
            copies: copies.len(),
            install_plans: plans.iter().map(Listed::plan).collect(),
        }))
    }

    /// A line for each object that is not over, and one for the rest.
    pub(crate) fn lines(&self) -> String {
        let mut text = String::new();
        for SourceView { namespace, name, state, .. } in &self.catalog_sources {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "CatalogSource {namespace}/{name} is {}", one_line(state));
        }
        listed::lines("Subscription", self.subscriptions.iter(), &mut text);
        listed::lines("ClusterServiceVersion", self.cluster_service_versions.iter(), &mut text);
        let open: Vec<&Listed> = self.install_plans.iter().filter(|plan| !plan.is_over()).collect();
        listed::lines("InstallPlan", open.iter().copied(), &mut text);
        let over = self.install_plans.len() - open.len();
        let counts = [
            counted(self.subscriptions.len(), "Subscription"),
            counted(self.cluster_service_versions.len(), "ClusterServiceVersion"),
            counted(over, "complete InstallPlan"),
        ];
        let _ = writeln!(text, "{} of OLM Classic", counts.join(", "));
        if self.copies > 0 {
            let _ = writeln!(
                text,
                "{} in other namespaces",
                counted(self.copies, "copied ClusterServiceVersion")
            );
        }
        text
    }
}

impl SourceView {
    fn of(source: &CatalogSource) -> Self {
        let spec = &source.spec;
        let content = spec.address.as_ref().or(spec.image.as_ref()).or(spec.config_map.as_ref());
        let status = source.status.clone().unwrap_or_default();
        let connection = status.connection_state.unwrap_or_default();
        let state = Some(connection.last_observed_state).filter(|state| !state.is_empty());
        let ready = status.conditions.into_iter().find(|condition| condition.type_ == "Ready");
        Self {
            namespace: source.namespace().unwrap_or_default(),
            name: source.name_any(),
            type_: spec.source_type.clone(),
            content: content.cloned().unwrap_or_default(),
            template: source.annotations().get(IMAGE_TEMPLATE_ANNOTATION).cloned(),
            state: state.or(status.reason.clone()).unwrap_or_else(|| "not connected".to_owned()),
            address: connection.address.unwrap_or_default(),
            reason: status.reason,
            message: status.message,
            last_poll: status.latest_image_registry_poll.map(|time| time.0.to_string()),
            ready: ready.map(|ready| ReadyView {
                status: ready.status,
                reason: ready.reason,
                message: ready.message,
            }),
        }
    }

    /// A CatalogSource of a cluster.
    pub(crate) async fn read(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Self> {
        let api: Api<CatalogSource> = Api::namespaced(client.clone(), namespace);
        let found = if_exists(api.get(name)).await;
        let found = found.with_context(|| format!("reading CatalogSource {namespace}/{name}"))?;
        let source = found.with_context(|| {
            format!("there is no CatalogSource {name:?} in namespace {namespace}: name another one with -n")
        })?;
        Ok(Self::of(&source))
    }

    /// Everything about it.
    pub(crate) fn detail(&self) -> String {
        let line = |text: &str| one_line(text).into_owned();
        let optional = |text: &Option<String>| text.as_deref().map(line);
        let rows = [
            ("type", Some(line(&self.type_))),
            ("content", Some(line(&self.content))),
            ("template", optional(&self.template)),
            ("connection", Some(line(&self.state))),
            ("address", Some(line(&self.address)).filter(|address| !address.is_empty())),
            ("reason", optional(&self.reason)),
            ("message", optional(&self.message)),
            ("last poll", optional(&self.last_poll)),
        ];
        let rows: Vec<[String; 2]> =
            rows.into_iter().filter_map(|(name, text)| Some([format!("  {name}"), text?])).collect();
        let mut text = format!("CatalogSource {}/{}\n{}", self.namespace, self.name, columns(&rows));
        if let Some(ready) = &self.ready {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "Content\n  {}: {}", line(&ready.reason), below(&ready.message, 4));
        }
        text
    }
}

/// The packages that PackageManifests show, by catalog: namespace, name, and an index of its packages.
pub(crate) async fn packages(client: &Client) -> anyhow::Result<Vec<(String, SearchIndex)>> {
    let Some(manifests) = list_if_served::<PackageManifest>(client).await? else { return Ok(Vec::new()) };
    let mut catalogs = std::collections::BTreeMap::<String, SearchIndex>::new();
    for manifest in manifests {
        let status = &manifest.status;
        let catalog = format!("{}/{} (Classic)", status.catalog_source_namespace, status.catalog_source);
        let documents: Vec<u8> =
            documents(&manifest).iter().flat_map(|one| format!("{one}\n").into_bytes()).collect();
        let mut reader = MetaReader::new(documents.as_slice());
        let index = catalogs.entry(catalog).or_default();
        while let Some(meta) = reader.next_meta()? {
            index.push(&meta);
        }
    }
    Ok(catalogs.into_iter().collect())
}

/// What is searched of a package, as documents of a file-based catalog.
fn documents(manifest: &PackageManifest) -> Vec<Value> {
    let (status, package) = (&manifest.status, manifest.name_any());
    let mut documents =
        vec![json!({"schema": "olm.package", "name": package, "defaultChannel": status.default_channel})];
    let Some(channel) = status.channels.iter().find(|channel| channel.name == status.default_channel) else {
        return documents;
    };
    let (head, shown) = (&channel.current_csv, &channel.current_csv_desc);
    documents.push(json!({
        "schema": "olm.channel", "name": channel.name, "package": package, "entries": [{"name": head}],
    }));
    documents.push(json!({
        "schema": "olm.bundle", "name": head, "package": package, "image": "",
        "properties": [
            {"type": "olm.package", "value": {"packageName": package, "version": shown.version}},
            {"type": "olm.csv.metadata", "value": {
                "displayName": shown.display_name, "keywords": shown.keywords, "provider": shown.provider,
                "annotations": shown.annotations, "description": shown.long_description,
            }},
        ],
    }));
    documents
}
