//! Subscriptions: what they ask for, what came of it, and what their catalog offers.

use std::fmt::Write as _;

use anyhow::Context as _;
use kube::{Api, Client, ResourceExt};
use olm_api_classic::{
    CatalogHealth, ClusterServiceVersion, InstallPlan, PackageManifest, Subscription, SubscriptionStatus,
};
use olm_classic_core::{resolve::VERSION_RANGE_ANNOTATION, subscription::decide::DEPENDENCIES_ANNOTATION};
use olm_runtime::if_exists;
use olm_semver::{SkipRange, Version};
use olm_text::one_line;
use serde::Serialize;

use super::candidates::{self, Access, CandidateView};
use crate::output::{below, columns};

/// Entries of a channel that are shown, from its head.
const ENTRIES_MAX: usize = 20;

/// A Subscription.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionView {
    namespace: String,
    name: String,
    package: String,
    channel: String,
    catalog: String,
    approval: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dependencies: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version_range: Option<String>,
    state: String,
    current: String,
    installed: String,
    /// Phase and message of the current ClusterServiceVersion.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_service_version: Option<[String; 2]>,
    /// Name and phase of the InstallPlan.
    #[serde(skip_serializing_if = "Option::is_none")]
    install_plan: Option<[String; 2]>,
    conditions: Vec<ConditionView>,
    unhealthy_catalogs: Vec<String>,
    /// Entries that the Subscription may choose from, by channel.
    offers: Vec<Offer>,
    /// What becomes of each, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<CandidateView>,
    #[serde(skip_serializing_if = "is_zero")]
    more_candidates: usize,
    /// Catalogs that were not read for that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread_catalogs: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[derive(Debug, Serialize)]
struct ConditionView {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
}

/// An entry of a channel.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Offer {
    channel: String,
    name: String,
    version: String,
    /// What is to be said of it: installed, head, outside the range.
    notes: Vec<String>,
}

impl SubscriptionView {
    /// A Subscription of a cluster.
    pub(crate) async fn read(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Self> {
        let api: Api<Subscription> = Api::namespaced(client.clone(), namespace);
        let found = if_exists(api.get(name)).await;
        let found = found.with_context(|| format!("reading Subscription {namespace}/{name}"))?;
        let subscription = found.with_context(|| {
            format!("there is no Subscription {name:?} in namespace {namespace}: name another one with -n")
        })?;
        let mut view = Self::of(&subscription);
        if !view.current.is_empty() {
            let csvs: Api<ClusterServiceVersion> = Api::namespaced(client.clone(), namespace);
            let csv = if_exists(csvs.get(&view.current)).await?;
            view.cluster_service_version = csv.map(|csv| {
                let status = csv.status.unwrap_or_default();
                [status.phase.unwrap_or_default(), status.message.unwrap_or_default()]
            });
        }
        let status = subscription.status.as_ref();
        if let Some(plan) = status.and_then(|status| status.install_plan_ref.as_ref()?.name.clone()) {
            let plans: Api<InstallPlan> = Api::namespaced(client.clone(), namespace);
            let phase = match if_exists(plans.get(&plan)).await? {
                Some(found) => found.status.unwrap_or_default().phase,
                None => "gone".to_owned(),
            };
            view.install_plan = Some([plan, phase]);
        }
        let packages: Api<PackageManifest> = Api::namespaced(client.clone(), namespace);
        // Whoever may not read them, or has no server of them, sees the rest.
        if let Ok(list) = packages.list(&kube::api::ListParams::default()).await {
            view.add_offers(&subscription, &list.items);
        }
        Ok(view)
    }

    /// Adds what becomes of each candidate.
    pub(crate) async fn weigh(mut self, client: &Client, access: Access<'_>) -> anyhow::Result<Self> {
        let weighed = candidates::read(client, access, &self.namespace, &self.name).await?;
        (self.candidates, self.more_candidates, self.unread_catalogs) = weighed;
        Ok(self)
    }

    fn of(subscription: &Subscription) -> Self {
        let spec = &subscription.spec;
        let status: SubscriptionStatus = subscription.status.clone().unwrap_or_default();
        let annotation = |name: &str| subscription.annotations().get(name).cloned();
        let text = |text: Option<String>| text.unwrap_or_default();
        let named = |one: &CatalogHealth| {
            let reference = &one.catalog_source_ref;
            format!("{}/{}", text(reference.namespace.clone()), text(reference.name.clone()))
        };
        Self {
            namespace: subscription.namespace().unwrap_or_default(),
            name: subscription.name_any(),
            package: spec.name.clone(),
            channel: text(spec.channel.clone()),
            catalog: format!("{}/{}", spec.source_namespace, spec.source),
            approval: spec.install_plan_approval.clone().unwrap_or_else(|| "Automatic".to_owned()),
            dependencies: annotation(DEPENDENCIES_ANNOTATION),
            version_range: annotation(VERSION_RANGE_ANNOTATION),
            state: text(status.state),
            current: text(status.current_csv),
            installed: text(status.installed_csv),
            cluster_service_version: None,
            install_plan: None,
            unhealthy_catalogs: status.catalog_health.iter().filter(|one| !one.healthy).map(named).collect(),
            conditions: status
                .conditions
                .into_iter()
                .map(|one| ConditionView {
                    type_: one.type_,
                    status: one.status,
                    reason: text(one.reason),
                    message: text(one.message),
                })
                .collect(),
            offers: Vec::new(),
            candidates: Vec::new(),
            more_candidates: 0,
            unread_catalogs: Vec::new(),
        }
    }

    fn add_offers(&mut self, subscription: &Subscription, packages: &[PackageManifest]) {
        let spec = &subscription.spec;
        let range = self.version_range.as_ref().and_then(|text| text.parse::<SkipRange>().ok());
        let package = packages.iter().find(|one| {
            one.name_any() == spec.name
                && one.status.catalog_source == spec.source
                && one.status.catalog_source_namespace == spec.source_namespace
        });
        let channels = package.into_iter().flat_map(|package| &package.status.channels);
        for channel in channels.filter(|one| self.channel.is_empty() || self.channel == one.name) {
            for entry in channel.entries.iter().take(ENTRIES_MAX) {
                let mut notes = Vec::new();
                if entry.name == channel.current_csv {
                    notes.push("head of the channel".to_owned());
                }
                if entry.name == self.installed {
                    notes.push("installed".to_owned());
                }
                let version = Version::parse_tolerant(&entry.version).ok();
                let is_outside =
                    |range: &SkipRange| !version.as_ref().is_some_and(|version| range.contains(version));
                if range.as_ref().is_some_and(is_outside) {
                    notes.push(format!("not chosen: outside the annotation {VERSION_RANGE_ANNOTATION}"));
                }
                self.offers.push(Offer {
                    channel: channel.name.clone(),
                    name: entry.name.clone(),
                    version: entry.version.clone(),
                    notes,
                });
            }
        }
    }

    /// Everything about it.
    pub(crate) fn detail(&self) -> String {
        let line = |text: &str| one_line(text).into_owned();
        let some = |text: &str| Some(line(text)).filter(|text| !text.is_empty());
        let pair = |pair: &Option<[String; 2]>| {
            let [first, second] = pair.as_ref()?;
            Some(line(&if second.is_empty() { first.clone() } else { format!("{first}: {second}") }))
        };
        let rows = [
            ("package", some(&self.package)),
            ("channel", some(&self.channel)),
            ("CatalogSource", some(&self.catalog)),
            ("approval", some(&self.approval)),
            ("dependencies", self.dependencies.as_deref().and_then(some)),
            ("version range", self.version_range.as_deref().and_then(some)),
            ("state", some(&self.state)),
            ("installed", some(&self.installed)),
            ("current", some(&self.current)),
            ("ClusterServiceVersion", pair(&self.cluster_service_version)),
            ("InstallPlan", pair(&self.install_plan)),
            ("unhealthy catalogs", some(&self.unhealthy_catalogs.join(", "))),
        ];
        let rows: Vec<[String; 2]> =
            rows.into_iter().filter_map(|(name, text)| Some([format!("  {name}"), text?])).collect();
        let mut text = format!("Subscription {}/{}\n{}", self.namespace, self.name, columns(&rows));
        // Writing to a String cannot fail.
        if !self.conditions.is_empty() {
            text.push_str("Conditions\n");
        }
        for one in &self.conditions {
            let reason = if one.reason.is_empty() { String::new() } else { format!(" ({})", one.reason) };
            let message = if one.message.is_empty() { String::new() } else { format!(": {}", one.message) };
            let _ = writeln!(
                text,
                "  {} is {}",
                line(&one.type_),
                below(&format!("{}{reason}{message}", one.status), 4)
            );
        }
        if !self.offers.is_empty() {
            text.push_str("Versions that the catalog offers\n");
        }
        for offer in &self.offers {
            let notes =
                if offer.notes.is_empty() { String::new() } else { format!(": {}", offer.notes.join(", ")) };
            let _ =
                writeln!(text, "  {} in channel {}{}", line(&offer.name), line(&offer.channel), line(&notes));
        }
        self.write_candidates(&mut text);
        text
    }

    fn write_candidates(&self, text: &mut String) {
        // Writing to a String cannot fail.
        if !self.candidates.is_empty() {
            text.push_str("Candidates\n");
        }
        for one in &self.candidates {
            let sign = if one.chosen { '+' } else { '-' };
            let _ = writeln!(
                text,
                "  {sign} {} in channel {}: {}",
                one_line(&one.name),
                one_line(&one.channel),
                one_line(&one.reason)
            );
        }
        if self.more_candidates > 0 {
            let _ = writeln!(text, "  and {} more", self.more_candidates);
        }
        for note in &self.unread_catalogs {
            let _ = writeln!(text, "  {}", one_line(note));
        }
    }
}
