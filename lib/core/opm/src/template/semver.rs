//! The semver template: channels for minor or major versions, with the edges between them.
//!
//! Within a major version, the last patch of each minor version replaces the last patch of the minor version
//! before it and skips everything lower; nothing crosses a major version. The edges may name bundles of other
//! channels.

use std::collections::{BTreeMap, BTreeSet};

use olm_bundle::typed::Kind;
use olm_fbc::{Channel, SCHEMA_CHANNEL, SCHEMA_PACKAGE};
use olm_go::field::Fields;
use olm_semver::Version;
use serde_json::{Value, json};

use super::{Bundles, TemplateError, bundle, versions::package_and_version};
use crate::{Blob, BundleBlob, FieldError, decode, structures::CSV_ICON};

mod channels;

/// How stable the bundles of a list are, ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Archetype {
    Candidate,
    Fast,
    Stable,
}

impl Archetype {
    const ALL: [Self; 3] = [Self::Candidate, Self::Fast, Self::Stable];

    fn name(self) -> &'static str {
        match self {
            Self::Candidate => "candidate",
            Self::Fast => "fast",
            Self::Stable => "stable",
        }
    }
}

/// What a channel holds together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Major,
    Minor,
}

#[derive(Debug)]
pub(super) struct Semver {
    streams: Vec<Stream>,
    preference: Stream,
    /// The images of each archetype.
    lists: BTreeMap<Archetype, Vec<String>>,
}

/// A bundle in the list of an archetype.
#[derive(Debug, Clone)]
struct Versioned {
    name: String,
    version: Version,
}

impl Semver {
    pub(super) fn read(template: Fields<'_>) -> Result<Self, TemplateError> {
        let flag = |name| template.scalar(name).and_then(Value::as_bool).unwrap_or_default();
        let major = flag("generateMajorChannels");
        let minor = flag("generateMinorChannels") || !major;
        let streams = [(major, Stream::Major), (minor, Stream::Minor)];
        let streams: Vec<Stream> =
            streams.into_iter().filter_map(|(wanted, stream)| wanted.then_some(stream)).collect();
        let preference = preference(template.text("defaultChannelTypePreference"), major, minor)?;
        let images = |archetype: Archetype| {
            let bundles = template.object(archetype.name()).objects("bundles");
            (archetype, bundles.map(|bundle| bundle.text("image").to_owned()).collect())
        };
        Ok(Self { streams, preference, lists: Archetype::ALL.map(images).into() })
    }

    pub(super) fn images(&self) -> Vec<&str> {
        self.lists.values().flatten().map(String::as_str).collect()
    }

    pub(super) fn render(&self, bundles: Bundles<'_>) -> Result<Vec<Blob>, TemplateError> {
        let mut rendered: BTreeMap<&str, BundleBlob> = BTreeMap::new();
        let mut order = Vec::new();
        for image in self.images() {
            if !rendered.contains_key(image) {
                rendered.insert(image, bundle(bundles, image)?);
                order.push(image);
            }
        }
        if rendered.is_empty() {
            return Err(TemplateError::rule("render: no bundles specified or no bundles could be rendered"));
        }
        let (package, lists) = self.versions(&rendered).map_err(|problem| {
            TemplateError::rule(format_args!("render: unable to post-process bundle info: {problem}"))
        })?;
        let (channels, default) = channels::make(&package, &lists, &self.streams, self.preference);
        let mut blobs = vec![package_blob(&package, &channels, &default, &rendered)?];
        for channel in &channels {
            blobs.push(channel_blob(channel)?);
        }
        blobs.extend(order.iter().filter_map(|image| rendered.get(image)).map(BundleBlob::to_blob));
        Ok(blobs)
    }

    /// The package of all bundles, and the bundles of each archetype by ascending version.
    #[expect(clippy::type_complexity, reason = "a package and its lists, used in one place")]
    fn versions(
        &self,
        rendered: &BTreeMap<&str, BundleBlob>,
    ) -> Result<(String, Vec<(Archetype, Vec<Versioned>)>), String> {
        let mut package: Option<String> = None;
        let mut lists = Vec::new();
        for (archetype, images) in &self.lists {
            let mut list: BTreeMap<String, Version> = BTreeMap::new();
            for image in images {
                let bundle = rendered.get(image.as_str()).ok_or_else(|| {
                    format!("supplied bundle image name {image:?} not found in rendered bundle images")
                })?;
                let (found, version) = package_and_version(bundle)?;
                let package = package.get_or_insert_with(|| found.clone());
                if *package != found {
                    return Err(format!("bundle {found:?} does not belong to this package: {package:?}"));
                }
                if list.insert(bundle.name.clone(), version).is_some() {
                    return Err(format!("duplicate bundle name {:?}", bundle.name));
                }
            }
            check_orderable(&list)?;
            let mut list: Vec<Versioned> =
                list.into_iter().map(|(name, version)| Versioned { name, version }).collect();
            list.sort_by(|a, b| a.version.cmp_precedence(&b.version));
            lists.push((*archetype, list));
        }
        Ok((package.unwrap_or_default(), lists))
    }
}

fn preference(text: &str, major: bool, minor: bool) -> Result<Stream, TemplateError> {
    let mismatch = |kind: &str| {
        TemplateError::rule(format_args!(
            "render: unable to read file: schema attribute mismatch: DefaultChannelTypePreference set to '{kind}' \
             doesn't make sense if not generating {kind}-version channels"
        ))
    };
    match text {
        "" | "minor" if minor => Ok(Stream::Minor),
        "" | "major" if major => Ok(Stream::Major),
        "minor" | "major" => Err(mismatch(text)),
        other => Err(TemplateError::rule(format_args!(
            "render: unable to read file: unknown DefaultChannelTypePreference: {other:?}\nValid values are 'major' \
             or 'minor'"
        ))),
    }
}

/// Versions that differ in build metadata only have no order.
fn check_orderable(list: &BTreeMap<String, Version>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let compared = |version: &Version| {
        let stripped = version.clone().without_build().to_string();
        let problem = format!("bundle version \"{version}\" cannot be compared to {stripped:?}");
        (!seen.insert(stripped)).then_some(problem)
    };
    let problems: Vec<String> = list.values().filter_map(compared).collect();
    let problems = match problems.as_slice() {
        [] => return Ok(()),
        [problem] => problem.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    Err(format!(
        "encountered bundle versions which differ only by build metadata, which cannot be ordered: {problems}"
    ))
}

/// The package; description and icon are those of the default channel's last bundle.
fn package_blob(
    package: &str,
    channels: &[Channel],
    default: &str,
    rendered: &BTreeMap<&str, BundleBlob>,
) -> Result<Blob, TemplateError> {
    let head =
        channels.iter().find(|channel| channel.name == default).and_then(|channel| channel.entries.last());
    let bundle = head.and_then(|head| rendered.values().find(|bundle| bundle.name == head.name));
    let mut document = json!({"schema": SCHEMA_PACKAGE, "name": package, "defaultChannel": default});
    if let Some((bundle, csv)) = bundle.and_then(|bundle| Some((bundle, bundle.csv.as_ref()?))) {
        let shown = shown(csv).map_err(|problem| {
            TemplateError::rule(format_args!(
                "render: ClusterServiceVersion of bundle {:?}: {problem}",
                bundle.name
            ))
        })?;
        for (key, value) in shown {
            document[key] = value;
        }
    }
    blob(&document)
}

/// Description and icon of a ClusterServiceVersion, where it has them.
fn shown(csv: &Value) -> Result<Vec<(&'static str, Value)>, FieldError> {
    let description = decode::csv_field(csv, "spec", "description", &Kind::Text)?;
    let description = description.and_then(Value::as_str).filter(|text| !text.is_empty());
    let icons = decode::csv_field(csv, "spec", "icon", &Kind::List(&CSV_ICON))?;
    let icon = icons.and_then(|icons| icons.get(0)).map(Fields::of).map(|icon| {
        let data: String = icon.text("base64data").split(['\r', '\n']).collect();
        ("icon", json!({"base64data": data, "mediatype": icon.text("mediatype")}))
    });
    Ok(description.map(|text| ("description", text.into())).into_iter().chain(icon).collect())
}

fn channel_blob(channel: &Channel) -> Result<Blob, TemplateError> {
    blob(&json!({
        "schema": SCHEMA_CHANNEL,
        "name": channel.name,
        "package": channel.package,
        "entries": channel.entries,
    }))
}

fn blob(document: &Value) -> Result<Blob, TemplateError> {
    Blob::of_value(document).map_err(|error| TemplateError::rule(format_args!("render: {error}")))
}
