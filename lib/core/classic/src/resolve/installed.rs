//! The ClusterServiceVersions of a namespace as candidates.

use std::collections::BTreeSet;

use olm_api_classic::{ClusterServiceVersion, Subscription};
use olm_fbc::{PROPERTY_GVK, PROPERTY_GVK_REQUIRED, PROPERTY_PACKAGE, Property};
use olm_object::GroupVersionKind;
use olm_semver::Version;
use serde::Deserialize;
use serde_json::json;

use super::ResolveError;

/// The annotation with the properties that the bundle had in its catalog.
const PROPERTIES_ANNOTATION: &str = "operatorframework.io/properties";
/// The label of copies in other namespaces, and the reason in their status.
const COPIED_LABEL: &str = "olm.copiedFrom";
const COPIED: &str = "Copied";

/// An installed ClusterServiceVersion.
#[derive(Debug)]
pub(super) struct Installed {
    pub(super) name: String,
    pub(super) version: Version,
    /// Package; empty when it is not known.
    pub(super) package: String,
    pub(super) kinds: BTreeSet<GroupVersionKind>,
    pub(super) properties: Vec<Property>,
    /// Whether a Subscription installed it.
    pub(super) is_subscribed: bool,
    pub(super) fault: Option<ResolveError>,
}

#[derive(Deserialize)]
struct Annotation {
    #[serde(default)]
    properties: Vec<Property>,
}

impl Installed {
    /// Those of a namespace, by name and without copies; where failures may be replaced, without those that one that
    /// failed was to replace.
    pub(super) fn all(
        csvs: &[ClusterServiceVersion],
        subscriptions: &[&Subscription],
        fails_forward: bool,
    ) -> Vec<Self> {
        let own: Vec<_> = csvs.iter().filter(|csv| !is_copied(csv)).collect();
        let own = own.iter().filter(|csv| !(fails_forward && ends_in_failure(csv, &own)));
        let mut all: Vec<_> = own.map(|csv| Self::of(csv, subscriptions)).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.dedup_by(|a, b| a.name == b.name);
        all
    }

    fn of(csv: &ClusterServiceVersion, subscriptions: &[&Subscription]) -> Self {
        let name = csv.metadata.name.clone().unwrap_or_default();
        let version = csv.spec.version.as_deref().unwrap_or("0.0.0");
        let of_it: Vec<_> = subscriptions.iter().filter(|one| installed(one) == Some(&name)).collect();
        let recorded = csv.metadata.annotations.as_ref().and_then(|all| all.get(PROPERTIES_ANNOTATION));
        let (properties, fault) = match recorded.map(|text| serde_json::from_str::<Annotation>(text)) {
            Some(Ok(annotation)) => (annotation.properties, None),
            Some(Err(error)) => {
                let fault = ResolveError::Properties { csv: name.clone(), cause: error.to_string() };
                (declared(csv), Some(fault))
            }
            None => {
                let packages: BTreeSet<&str> = of_it.iter().map(|one| one.spec.name.as_str()).collect();
                let mut properties = declared(csv);
                if let [package] = packages.into_iter().collect::<Vec<_>>()[..] {
                    let value = json!({"packageName": package, "version": version});
                    properties.push(Property { kind: PROPERTY_PACKAGE.to_owned(), value });
                }
                (properties, None)
            }
        };
        let packages = properties.iter().filter(|one| one.kind == PROPERTY_PACKAGE);
        let package = packages.filter_map(|one| one.value.get("packageName")?.as_str()).next_back();
        let kinds = properties.iter().filter(|one| one.kind == PROPERTY_GVK);
        Self {
            version: version.parse().unwrap_or_else(|_| zero()),
            package: package.unwrap_or_default().to_owned(),
            kinds: kinds.filter_map(|one| GroupVersionKind::deserialize(&one.value).ok()).collect(),
            is_subscribed: !of_it.is_empty(),
            name,
            properties,
            fault,
        }
    }
}

/// Whether a ClusterServiceVersion is being replaced by one that failed, or by one that is being replaced by that.
fn ends_in_failure(csv: &ClusterServiceVersion, all: &[&ClusterServiceVersion]) -> bool {
    let phase = |csv: &ClusterServiceVersion| csv.status.as_ref().and_then(|status| status.phase.clone());
    let mut next = csv;
    // Each step leads to another one; names that come round again lead nowhere.
    for _ in all {
        if phase(next).as_deref() != Some("Replacing") {
            break;
        }
        let replacement = all
            .iter()
            .find(|other| other.spec.replaces.is_some() && other.spec.replaces == next.metadata.name);
        let Some(replacement) = replacement else { return false };
        next = replacement;
    }
    !std::ptr::eq(next, csv) && phase(next).as_deref() == Some("Failed")
}

/// A ClusterServiceVersion that no Subscription refers to, and that none replaces.
#[derive(Debug)]
pub struct Unowned(Installed);

impl Unowned {
    /// Those of a namespace, by name. Copies, and those that are being deleted, are left out.
    pub fn all(csvs: &[ClusterServiceVersion], subscriptions: &[Subscription]) -> Vec<Self> {
        let is_replaced = |csv: &ClusterServiceVersion| {
            csvs.iter().any(|other| other.spec.replaces.is_some() && other.spec.replaces == csv.metadata.name)
        };
        let is_referred = |csv: &ClusterServiceVersion| {
            let refers = |one: &Subscription| {
                let status = one.status.as_ref();
                status.is_some_and(|status| {
                    csv.metadata.name.is_some()
                        && [&status.installed_csv, &status.current_csv].contains(&&csv.metadata.name)
                })
            };
            subscriptions.iter().any(refers)
        };
        let unowned = csvs.iter().filter(|csv| {
            !is_copied(csv)
                && csv.metadata.deletion_timestamp.is_none()
                && !is_replaced(csv)
                && !is_referred(csv)
        });
        let mut all: Vec<_> = unowned.map(|csv| Self(Installed::of(csv, &[]))).collect();
        all.sort_by(|a, b| a.name().cmp(b.name()));
        all
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Package; empty when its properties do not name it.
    pub fn package(&self) -> &str {
        &self.0.package
    }

    /// Version; 0.0.0 without one.
    pub fn version(&self) -> &Version {
        &self.0.version
    }

    /// The kinds that its properties say it provides.
    pub fn kinds(&self) -> &BTreeSet<GroupVersionKind> {
        &self.0.kinds
    }
}

/// The ClusterServiceVersion that a Subscription has installed.
pub(super) fn installed(subscription: &Subscription) -> Option<&String> {
    let status = subscription.status.as_ref()?;
    status.installed_csv.as_ref().filter(|name| !name.is_empty())
}

fn is_copied(csv: &ClusterServiceVersion) -> bool {
    let is_labelled = csv.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(COPIED_LABEL));
    is_labelled || csv.status.as_ref().is_some_and(|status| status.reason.as_deref() == Some(COPIED))
}

/// The version of a ClusterServiceVersion without one.
fn zero() -> Version {
    Version::parse_tolerant("0").unwrap_or_else(|_| unreachable!("0 is a version"))
}

/// Properties that say what the definitions in the ClusterServiceVersion say.
fn declared(csv: &ClusterServiceVersion) -> Vec<Property> {
    let mut kinds: BTreeSet<(&str, GroupVersionKind)> = BTreeSet::new();
    if let Some(crds) = &csv.spec.customresourcedefinitions {
        for (property, list) in [(PROPERTY_GVK, &crds.owned), (PROPERTY_GVK_REQUIRED, &crds.required)] {
            for one in list {
                let group = one.name.split_once('.').map_or("", |(_, group)| group).to_owned();
                let kind = GroupVersionKind { group, version: one.version.clone(), kind: one.kind.clone() };
                kinds.insert((property, kind));
            }
        }
    }
    if let Some(services) = &csv.spec.apiservicedefinitions {
        for (property, list) in [(PROPERTY_GVK, &services.owned), (PROPERTY_GVK_REQUIRED, &services.required)]
        {
            for one in list {
                let kind = GroupVersionKind {
                    group: one.group.clone(),
                    version: one.version.clone(),
                    kind: one.kind.clone(),
                };
                kinds.insert((property, kind));
            }
        }
    }
    let property = |(property, kind): (&str, GroupVersionKind)| Property {
        kind: property.to_owned(),
        value: json!({"group": kind.group, "kind": kind.kind, "version": kind.version}),
    };
    kinds.into_iter().map(property).collect()
}
