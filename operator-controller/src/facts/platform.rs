//! May the platform be updated with what is installed? Where the cluster has a ClusterVersion, bundles can say up
//! to which minor version of the platform they work (`olm.maxOpenShiftVersion`).
//!
//! Nothing is blocked here. The platform itself reads `olm.properties` of the highest active revision and holds its
//! update back; this module says beforehand, on the extension and as a metric, that it would.
//!
//! Source of the rules: openshift/cluster-olm-operator `pkg/controller/incompatible_operator_controller.go`.

use std::{fmt, future::ready};

use futures::StreamExt as _;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use olm_fbc::PROPERTY_MAX_OPENSHIFT_VERSION;
use olm_runtime::Chance;
use olm_text::cut;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::{Known, kinds::Kinds, watched::object};
use crate::interest::{Interest, Interests};

/// A minor version of the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Minor {
    major: u64,
    minor: u64,
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Minor {
    /// Of a version such as `4.18.0-rc.1`; patch, pre-release and build play no part.
    fn of(version: &str) -> Option<Self> {
        let mut parts = version.trim().split(['.', '-', '+']);
        Some(Self { major: number(parts.next()?)?, minor: number(parts.next()?)? })
    }

    /// The next one. 4.23 and 5.0 are the same release under two names.
    fn next(self) -> Self {
        let this = self.canonical();
        Self { minor: this.minor + 1, ..this }
    }

    fn canonical(self) -> Self {
        if self == (Self { major: 4, minor: 23 }) { Self { major: 5, minor: 0 } } else { self }
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (digits && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok())?
}

/// What a bundle's limit means on this platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The bundle has no limit, or the cluster is no platform with versions of its own.
    NoLimit,
    Compatible {
        limit: Minor,
        next: Minor,
    },
    /// The platform will not be updated to its next minor version.
    Incompatible {
        limit: Minor,
        next: Minor,
    },
    /// The limit cannot be understood; the platform will not be updated either.
    Invalid(String),
}

#[derive(Deserialize)]
struct Property<'a> {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default, borrow)]
    value: Option<&'a RawValue>,
}

/// The limit in `properties`, the text of an `olm.properties` annotation.
///
/// # Errors
/// It cannot be understood, in words.
fn limit(properties: &str) -> Result<Option<Minor>, String> {
    let all: Option<Vec<Option<Property<'_>>>> =
        serde_json::from_str(properties).map_err(|_| "olm.properties is no list of properties".to_owned())?;
    let all: Vec<Property<'_>> = all.into_iter().flatten().flatten().collect();
    let mut limits = all.iter().filter(|p| p.kind.as_deref() == Some(PROPERTY_MAX_OPENSHIFT_VERSION));
    let Some(first) = limits.next() else { return Ok(None) };
    if limits.next().is_some() {
        return Err(format!("{PROPERTY_MAX_OPENSHIFT_VERSION} is declared more than once"));
    }
    let written = first.value.map_or("null", RawValue::get).trim();
    let text: String = serde_json::from_str(written).unwrap_or_else(|_| written.to_owned());
    let parsed = text
        .split_once('.')
        .and_then(|(major, minor)| Some(Minor { major: number(major)?, minor: number(minor)? }))
        .filter(|limit| limit.major > 0);
    parsed.map(Some).ok_or_else(|| {
        let shown = cut(&text, 32);
        format!("{PROPERTY_MAX_OPENSHIFT_VERSION} is {shown:?}: it must be a minor version such as \"4.18\"")
    })
}

/// What `properties` mean on a platform of version `current`.
fn judge(properties: &str, current: Minor) -> Verdict {
    match limit(properties) {
        Ok(None) => Verdict::NoLimit,
        Ok(Some(limit)) => {
            let next = current.next();
            if limit > current.canonical() {
                Verdict::Compatible { limit, next }
            } else {
                Verdict::Incompatible { limit, next }
            }
        }
        Err(text) => Verdict::Invalid(text),
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLimit => Ok(()),
            Self::Compatible { limit, next } => {
                write!(f, "the bundle supports platform versions up to {limit}, {next} included")
            }
            Self::Incompatible { limit, next } => write!(
                f,
                "the bundle supports platform versions up to {limit} only: the platform will not be updated to {next} until the extension is upgraded to a version that supports it, or uninstalled"
            ),
            Self::Invalid(text) => write!(
                f,
                "{text}; the platform will not be updated to its next minor version until the extension is upgraded or uninstalled"
            ),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    name: String,
}

/// The platform's version as last seen, and the metric.
#[derive(Debug, Default)]
pub(crate) struct Platform {
    /// Of a cluster without a ClusterVersion there is none.
    version: Known<Option<Minor>>,
    blocked: Family<Label, Gauge>,
}

impl Platform {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let platform = Self::default();
        registry.register(
            "olm_cluster_extension_blocks_platform_update",
            "1 for an extension whose bundle does not support the platform's next minor version",
            platform.blocked.clone(),
        );
        platform
    }

    /// Takes note of the ClusterVersion's version (`None`: there is no ClusterVersion); whether that is news.
    fn set(&self, version: Option<&str>) -> bool {
        self.version.set(version.and_then(Minor::of))
    }

    /// Waits until the version is known, or that there is none.
    pub(crate) async fn ready(&self) {
        self.version.ready().await;
    }

    /// Follows the ClusterVersion until `stop`, once there are such objects.
    pub(crate) async fn follow(
        &self,
        client: Client,
        chance: &Chance,
        kinds: &Kinds,
        interests: Interests,
        stop: CancellationToken,
    ) {
        let set = |version: Option<&str>| {
            if self.set(version) {
                interests.fire(&Interest::Platform);
            }
        };
        let following = async {
            tokio::select! {
                biased;
                () = kinds.cluster_versions() => {}
                // Without that kind there is no such platform.
                () = kinds.ready() => set(None),
            }
            kinds.cluster_versions().await;
            let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
            let resource = ApiResource::from_gvk_with_plural(&kind, "clusterversions");
            let versions = object(Api::<DynamicObject>::all_with(client, &resource), "version", chance);
            let version = |object: &DynamicObject| {
                let version = object.data.pointer("/status/desired/version").and_then(|v| v.as_str());
                version.map(str::to_owned)
            };
            let following = versions.for_each(|found| {
                set(found.as_ref().and_then(version).as_deref());
                ready(())
            });
            following.await;
        };
        // Nothing but its time ends it.
        let _ = stop.run_until_cancelled(following).await;
    }

    /// What the properties of an extension's highest active revision mean here, once that is known; the metric follows.
    pub(crate) fn judge(&self, extension: &str, properties: Option<&str>) -> Option<Verdict> {
        let both = self.version.get()?.zip(properties);
        let verdict = both.map_or(Verdict::NoLimit, |(version, properties)| judge(properties, version));
        let label = Label { name: extension.to_owned() };
        match &verdict {
            Verdict::NoLimit => drop(self.blocked.remove(&label)),
            Verdict::Compatible { .. } => drop(self.blocked.get_or_create(&label).set(0)),
            Verdict::Incompatible { .. } | Verdict::Invalid(_) => {
                self.blocked.get_or_create(&label).set(1);
            }
        }
        Some(verdict)
    }

    pub(crate) fn forget(&self, extension: &str) {
        self.blocked.remove(&Label { name: extension.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(value: &str, platform: &str) -> Option<bool> {
        let properties = format!(r#"[{{"type":"a"}},{{"type":"olm.maxOpenShiftVersion","value":{value}}}]"#);
        match judge(&properties, Minor::of(platform).unwrap()) {
            Verdict::Compatible { .. } => Some(true),
            Verdict::Incompatible { .. } => Some(false),
            Verdict::Invalid(_) | Verdict::NoLimit => None,
        }
    }

    #[test]
    fn the_limit_is_compared_with_the_next_minor_version() {
        for (value, platform, want) in [
            (r#""4.18""#, "4.17.9", Some(true)),
            (r#""4.18""#, "4.18.0", Some(false)),
            (r#""4.18""#, "4.18.0-rc1", Some(false)),
            (r#""4.18""#, "4.19.3+build", Some(false)),
            ("4.18", "4.17.0", Some(true)),
            ("4.20", "4.19.0", Some(true)),
            ("4.20", "4.20.0", Some(false)),
            (r#""4.23""#, "4.22.0", Some(true)),
            (r#""5.0""#, "4.22.0", Some(true)),
            (r#""5.0""#, "4.23.0", Some(false)),
            (r#""5.1""#, "4.23.0", Some(true)),
            ("5", "4.18.0", None),
            ("5.00", "4.18.0", None),
            (r#""v4.18""#, "4.18.0", None),
            (r#""4.18.0""#, "4.18.0", None),
            ("null", "4.18.0", None),
            ("{}", "4.18.0", None),
            (r#""""#, "4.18.0", None),
        ] {
            assert_eq!(verdict(value, platform), want, "{value} at {platform}");
        }
        assert_eq!(Minor::of("4.18.0").unwrap().next().to_string(), "4.19");
        assert_eq!(Minor::of("4.18.0-rc1").unwrap().next().to_string(), "4.19");
        assert_eq!(Minor::of("4.23.1").unwrap().next().to_string(), "5.1");
    }

    #[test]
    fn without_the_property_nothing_is_said() {
        let current = Minor::of("4.18.0").unwrap();
        assert_eq!(judge("[]", current), Verdict::NoLimit);
        assert_eq!(judge("null", current), Verdict::NoLimit);
        assert_eq!(judge(r#"[null,{"type":"olm.gvk","value":{}}]"#, current), Verdict::NoLimit);
        let twice = r#"[{"type":"olm.maxOpenShiftVersion","value":"4.18"},{"type":"olm.maxOpenShiftVersion","value":"4.19"}]"#;
        assert!(matches!(judge(twice, current), Verdict::Invalid(text) if text.contains("more than once")));
        assert!(matches!(judge("{", current), Verdict::Invalid(_)));
    }

    #[test]
    fn the_metric_follows() {
        let platform = Platform::default();
        let properties = Some(r#"[{"type":"olm.maxOpenShiftVersion","value":"4.18"}]"#);
        assert_eq!(platform.judge("e", properties), None, "not known yet");
        assert!(platform.set(None), "that there is none is news once");
        assert!(!platform.set(None));
        assert_eq!(platform.judge("e", properties), Some(Verdict::NoLimit), "no ClusterVersion");
        assert!(platform.set(Some("4.18.5")));
        assert!(!platform.set(Some("4.18.6")), "the same minor version");
        assert!(matches!(platform.judge("e", properties), Some(Verdict::Incompatible { .. })));
        let value =
            |name: &str| platform.blocked.get(&Label { name: name.to_owned() }).map(|gauge| gauge.get());
        assert_eq!(value("e"), Some(1));
        assert_eq!(platform.judge("e", Some("[]")), Some(Verdict::NoLimit));
        assert_eq!(value("e"), None);
        platform.judge("e", properties);
        platform.forget("e");
        assert_eq!(value("e"), None);
    }
}
