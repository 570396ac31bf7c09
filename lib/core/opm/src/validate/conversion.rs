//! The first step: documents become packages with channels, entries and bundles.

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::{
    Channel, ChannelEntry, Deprecation, DeprecationEntry, PackageReference, SCHEMA_BUNDLE, SCHEMA_CHANNEL,
    SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE,
};
use olm_go::Quoted;
use olm_object::names;

use crate::{BundleOutline, Finding, Outline};

/// The packages of a catalog, by name.
#[derive(Debug, Default)]
pub(super) struct Model<'o> {
    pub(super) packages: BTreeMap<&'o str, PackageModel<'o>>,
}

/// A package with all that belongs to it.
#[derive(Debug, Default)]
pub(super) struct PackageModel<'o> {
    pub(super) default_channel: &'o str,
    pub(super) channels: BTreeMap<&'o str, ChannelModel<'o>>,
    pub(super) bundles: BTreeMap<&'o str, &'o BundleOutline>,
    /// Message of the package's deprecation.
    pub(super) deprecated: Option<&'o str>,
    /// Messages of bundles' deprecations.
    pub(super) deprecated_bundles: BTreeMap<&'o str, &'o str>,
    /// Entries of the channel read last that have no bundle so far. As in the original, those of other channels
    /// are only found in the second step.
    last_entries: BTreeSet<&'o str>,
    /// Entries of all channels.
    entries: BTreeSet<&'o str>,
    has_deprecations: bool,
    /// Whether a finding of this step is about the package.
    pub(super) defective: bool,
}

/// A channel; the one that a package names as default and nobody defines has no entries.
#[derive(Debug, Default)]
pub(super) struct ChannelModel<'o> {
    pub(super) entries: &'o [ChannelEntry],
    pub(super) deprecated: Option<&'o str>,
}

#[derive(Default)]
struct Conversion<'o> {
    model: Model<'o>,
    findings: Vec<Finding>,
}

/// Puts the documents together; the findings are in the order in which the original looks.
pub(super) fn convert(outline: &Outline) -> (Model<'_>, Vec<Finding>) {
    let mut conversion = Conversion::default();
    for package in outline.packages() {
        conversion.package(&package.name, &package.default_channel);
    }
    for channel in outline.channels() {
        conversion.channel(channel);
    }
    for bundle in outline.bundles() {
        conversion.bundle(bundle);
    }
    conversion.entries_without_bundle();
    for package in conversion.model.packages.values_mut() {
        if !package.default_channel.is_empty() {
            package.channels.entry(package.default_channel).or_default();
        }
    }
    for (index, deprecation) in outline.deprecations().iter().enumerate() {
        conversion.deprecation(index, deprecation);
    }
    (conversion.model, conversion.findings)
}

impl<'o> Conversion<'o> {
    fn found(&mut self, schema: &str, package: &str, name: &str, message: String) {
        if let Some(package) = self.model.packages.get_mut(package) {
            package.defective = true;
        }
        self.findings.push(Finding {
            schema: schema.to_owned(),
            package: package.to_owned(),
            name: name.to_owned(),
            message,
        });
    }

    fn package(&mut self, name: &'o str, default_channel: &'o str) {
        let problem = if name.is_empty() {
            Some("config contains package with no name".to_owned())
        } else if self.model.packages.contains_key(name) {
            Some(format!("duplicate package {}", Quoted(name)))
        } else {
            let package = PackageModel { default_channel, ..PackageModel::default() };
            self.model.packages.insert(name, package);
            let problems = names::label_problems(name);
            (!problems.is_empty())
                .then(|| format!("invalid package name {}: [{}]", Quoted(name), problems.join(" ")))
        };
        if let Some(problem) = problem {
            self.found(SCHEMA_PACKAGE, name, name, problem);
        }
    }

    fn channel(&mut self, channel: &'o Channel) {
        let (quoted_package, quoted) = (Quoted(&channel.package), Quoted(&channel.name));
        let Some(package) = self.model.packages.get_mut(channel.package.as_str()) else {
            let problem = format!("unknown package {quoted_package} for channel {quoted}");
            return self.found(SCHEMA_CHANNEL, &channel.package, &channel.name, problem);
        };
        let mut problems = Vec::new();
        if channel.name.is_empty() {
            problems.push(format!("package {quoted_package} contains channel with no name"));
        } else if package.channels.contains_key(channel.name.as_str()) {
            problems.push(format!("package {quoted_package} has duplicate channel {quoted}"));
        }
        let mut names = BTreeSet::new();
        for entry in &channel.entries {
            if !names.insert(entry.name.as_str()) {
                let name = Quoted(&entry.name);
                problems.push(format!(
                    "invalid package {quoted_package}, channel {quoted}: duplicate entry {name}"
                ));
            }
        }
        package.entries.extend(&names);
        package.last_entries = names;
        let model = ChannelModel { entries: &channel.entries, deprecated: None };
        package.channels.entry(&channel.name).or_insert(model);
        for problem in problems {
            self.found(SCHEMA_CHANNEL, &channel.package, &channel.name, problem);
        }
    }

    fn bundle(&mut self, bundle: &'o BundleOutline) {
        let (quoted_package, quoted) = (Quoted(&bundle.package), Quoted(&bundle.name));
        let Some(package) = self.model.packages.get_mut(bundle.package.as_str()) else {
            let problem = if bundle.package.is_empty() {
                format!("package name must be set for bundle {quoted}")
            } else {
                format!("unknown package {quoted_package} for bundle {quoted}")
            };
            return self.found(SCHEMA_BUNDLE, &bundle.package, &bundle.name, problem);
        };
        let mut problems = Vec::new();
        if package.bundles.contains_key(bundle.name.as_str()) {
            problems.push(format!("package {quoted_package} has duplicate bundle {quoted}"));
        } else {
            package.bundles.insert(&bundle.name, bundle);
        }
        problems.extend(bundle.defects.iter().cloned());
        package.last_entries.remove(bundle.name.as_str());
        if !package.entries.contains(bundle.name.as_str()) {
            problems
                .push(format!("package {quoted_package}, bundle {quoted} not found in any channel entries"));
        }
        for problem in problems {
            self.found(SCHEMA_BUNDLE, &bundle.package, &bundle.name, problem);
        }
    }

    fn entries_without_bundle(&mut self) {
        let mut problems = Vec::new();
        for (name, package) in &self.model.packages {
            if !package.last_entries.is_empty() {
                let entries: Vec<&str> = package.last_entries.iter().copied().collect();
                problems.push((
                    *name,
                    format!(
                        "no olm.bundle blobs found in package {} for olm.channel entries [{}]",
                        Quoted(name),
                        entries.join(" ")
                    ),
                ));
            }
        }
        for (name, problem) in problems {
            self.found(SCHEMA_CHANNEL, name, "", problem);
        }
    }

    fn deprecation(&mut self, index: usize, deprecation: &'o Deprecation) {
        let quoted = Quoted(&deprecation.package);
        let mut problems = Vec::new();
        match self.model.packages.get_mut(deprecation.package.as_str()) {
            None if deprecation.package.is_empty() => {
                problems.push(format!("package name must be set for deprecation item {index}"));
            }
            None => problems.push(format!("cannot apply deprecations to an unknown package {quoted}")),
            Some(package) => {
                if package.has_deprecations {
                    problems.push(format!("expected a maximum of one deprecation per package: {quoted}"));
                }
                package.has_deprecations = true;
                let mut seen = BTreeSet::new();
                for (index, entry) in deprecation.entries.iter().enumerate() {
                    let reference = &entry.reference;
                    let first = seen.insert((reference.schema.as_str(), reference.name.as_str()));
                    if let Err(problem) = package.deprecate(&deprecation.package, index, entry, first) {
                        problems.push(problem);
                    }
                }
            }
        }
        for problem in problems {
            self.found(SCHEMA_DEPRECATIONS, &deprecation.package, "", problem);
        }
    }
}

impl<'o> PackageModel<'o> {
    fn deprecate(
        &mut self,
        package: &str,
        index: usize,
        entry: &'o DeprecationEntry,
        first: bool,
    ) -> Result<(), String> {
        let (package, reference) = (Quoted(package), &entry.reference);
        let name = Quoted(&reference.name);
        if reference.schema.is_empty() {
            return Err(format!("schema must be set for deprecation entry [{index}] for package {package}"));
        }
        if !first {
            let reference = go_value(reference);
            return Err(format!("duplicate deprecation entry {reference} for package {package}"));
        }
        match reference.schema.as_str() {
            SCHEMA_BUNDLE => {
                let Some((bundle, _)) = self.bundles.get_key_value(reference.name.as_str()) else {
                    return Err(format!(
                        "cannot deprecate bundle {name} for package {package}: bundle not found"
                    ));
                };
                self.deprecated_bundles.insert(bundle, &entry.message);
            }
            SCHEMA_CHANNEL => match self.channels.get_mut(reference.name.as_str()) {
                Some(channel) => channel.deprecated = Some(&entry.message),
                None => {
                    return Err(format!(
                        "cannot deprecate channel {name} for package {package}: channel not found"
                    ));
                }
            },
            SCHEMA_PACKAGE if reference.name.is_empty() => self.deprecated = Some(&entry.message),
            SCHEMA_PACKAGE => {
                return Err(format!(
                    "package name must be empty for deprecated package {package} (specified {name})"
                ));
            }
            _ => {
                let reference = go_value(reference);
                return Err(format!(
                    "cannot deprecate object {reference} referenced by entry {index} for package {package}: \
                     object schema unknown"
                ));
            }
        }
        Ok(())
    }
}

/// A reference as Go's `%#v` prints it.
fn go_value(reference: &PackageReference) -> String {
    let (schema, name) = (Quoted(&reference.schema), Quoted(&reference.name));
    format!("declcfg.PackageScopedReference{{Schema:{schema}, Name:{name}}}")
}
