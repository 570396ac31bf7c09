//! The page of a package.

use std::fmt::Write;

use olm_dependencies::requirements;
use olm_opm::{Api, Profile};
use olm_resolve::{PackageVersions, Resolution};
use olm_text::one_line;
use serde::Serialize;

use crate::{bundle::Examination, output::below};

/// Versions that are named in text.
const VERSIONS_NAMED_MAX: usize = 8;
/// The column in which values begin.
const INDENT: usize = 15;

/// Everything about a package and one of its versions.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    catalog: String,
    /// Other catalogs with the package.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also_in: Vec<String>,
    package: String,
    bundle: String,
    version: String,
    image: String,
    #[serde(flatten)]
    profile: Profile,
    #[serde(flatten)]
    listed: PackageVersions,
    /// What the bundle requires of others, in words.
    requirements: Vec<String>,
    /// What installing it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    needs: Option<Examination>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    needs_unknown: Option<String>,
}

impl Page {
    pub(super) fn new(
        chosen: Resolution,
        listed: PackageVersions,
        profile: Profile,
        (needs, needs_unknown): (Option<Examination>, Option<String>),
        also_in: Vec<String>,
    ) -> Self {
        let requirements = match requirements(&chosen.properties) {
            Ok(all) => all.iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        };
        Self {
            catalog: chosen.catalog,
            also_in,
            package: chosen.package,
            bundle: chosen.bundle,
            version: chosen.version.to_string(),
            image: chosen.image,
            profile,
            listed,
            requirements,
            needs,
            needs_unknown,
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{} {}", one_line(&self.package), self.version);
        // Writing to a String cannot fail.
        if !self.profile.display_name.is_empty() {
            let _ = write!(text, " - {}", one_line(&self.profile.display_name));
        }
        line(&mut text, "", &self.profile.summary);
        let others = if self.also_in.is_empty() {
            String::new()
        } else {
            format!(" (also in {})", self.also_in.join(", "))
        };
        line(&mut text, "catalog", &format!("{}{others}", self.catalog));
        line(&mut text, "provider", &self.profile.provider);
        line(&mut text, "keywords", &self.profile.keywords.join(", "));
        self.write_versions(&mut text);
        line(&mut text, "bundle", &self.bundle);
        line(&mut text, "image", &self.image);
        line(&mut text, "install modes", &self.profile.install_modes.join(", "));
        if !self.profile.min_kube_version.is_empty() {
            line(&mut text, "kubernetes", &format!("{} or later", self.profile.min_kube_version));
        }
        for api in &self.profile.provided_apis {
            line(&mut text, "provides", &named(api));
        }
        for requirement in &self.requirements {
            line(&mut text, "requires", requirement);
        }
        self.write_needs(&mut text);
        if !self.profile.description.is_empty() {
            let _ = write!(text, "\n\n{}", self.profile.description.trim());
        }
        text
    }

    fn write_versions(&self, text: &mut String) {
        if let Some(message) = &self.listed.deprecation {
            line(text, "deprecated", &format!("the package: {message}"));
        }
        for channel in &self.listed.channels {
            let mut notes = Vec::new();
            if channel.name == self.listed.default_channel {
                notes.push("default".to_owned());
            }
            notes.extend(channel.highest.as_ref().map(|highest| format!("up to {highest}")));
            notes.extend(channel.deprecation.as_ref().map(|message| format!("deprecated: {message}")));
            line(text, "channel", &format!("{} ({})", channel.name, notes.join(", ")));
        }
        let versions: Vec<String> = self.listed.versions.iter().map(|one| one.version.to_string()).collect();
        let more = versions.len().saturating_sub(VERSIONS_NAMED_MAX);
        let named = versions[..versions.len() - more].join(", ");
        let more =
            if more == 0 { String::new() } else { format!(" and {more} older (--versions lists all)") };
        line(text, "versions", &format!("{named}{more}"));
        let shown = self.listed.versions.iter().find(|one| one.bundle == self.bundle);
        if let Some(message) = shown.and_then(|one| one.deprecation.as_ref()) {
            line(text, "deprecated", &format!("this version: {message}"));
        }
    }

    fn write_needs(&self, text: &mut String) {
        if let Some(needs) = &self.needs {
            for (name, values) in [("CRD", &needs.crds), ("runs", &needs.images)] {
                for value in values {
                    line(text, name, value);
                }
            }
            for group in &needs.dangers {
                line(text, "DANGEROUS", &format!("it {}", group.danger));
                for permission in &group.permissions {
                    line(text, "", &format!("{:INDENT$}  {}", "", one_line(permission)));
                }
            }
            for (name, values) in [("error", &needs.errors), ("note", &needs.hints)] {
                for value in values {
                    line(text, name, value);
                }
            }
        }
        if let Some(why) = &self.needs_unknown {
            line(text, "note", &format!("permissions, CRDs and images are not known: {why}"));
        }
    }
}

fn named(api: &Api) -> String {
    let Api { name, kind, version } = api;
    format!("{kind} ({name} {version})")
}

/// A line with a name and a value, unless the value is empty.
fn line(text: &mut String, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    // Writing to a String cannot fail.
    let _ = if name.is_empty() {
        write!(text, "\n{}", below(value, 0))
    } else {
        write!(text, "\n{name:<INDENT$}{}", below(&one_line(value), INDENT))
    };
}
