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
    /// Entries of the channel read last that have no bundle so far. As in opm, those of other channels
    /// are only found in the second step.
    last_entries: BTreeSet<&'o str>,
    /// Entries of all channels.
    entries: BTreeSet<&'o str>,
    has_deprecations: bool,
    /// Whether a finding of this step is about the package.
    pub(super) defective: bool,
}

/// A channel; the one that a package names as default and that is not defined has no entries.
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

/// Puts the documents together; the findings are in the order in which opm checks, as `ConvertToModel` in
/// operator-registry's `alpha/declcfg/declcfg_to_model.go`.
pub(super) fn convert(outline: &Outline) -> (Model<'_>, Vec<Finding>) {
    let mut conversion = Conversion::default();
    for package in &outline.packages {
        conversion.package(&package.name, &package.default_channel);
    }
    for channel in &outline.channels {
        conversion.channel(channel);
    }
    for bundle in &outline.bundles {
        conversion.bundle(bundle);
    }
    conversion.entries_without_bundle();
    for package in conversion.model.packages.values_mut() {
        if !package.default_channel.is_empty() {
            package.channels.entry(package.default_channel).or_default();
        }
    }
    for (index, deprecation) in outline.deprecations.iter().enumerate() {
        conversion.deprecation(index, deprecation);
    }
    let Conversion { mut model, findings } = conversion;
    for finding in &findings {
        if let Some(package) = model.packages.get_mut(finding.package.as_str()) {
            package.defective = true;
        }
    }
    (model, findings)
}

impl<'o> Conversion<'o> {
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
        self.findings.extend(problem.map(|problem| finding(SCHEMA_PACKAGE, name, name, problem)));
    }

    fn channel(&mut self, channel: &'o Channel) {
        let mut found =
            |problem| self.findings.push(finding(SCHEMA_CHANNEL, &channel.package, &channel.name, problem));
        let (quoted_package, quoted) = (Quoted(&channel.package), Quoted(&channel.name));
        let Some(package) = self.model.packages.get_mut(channel.package.as_str()) else {
            return found(format!("unknown package {quoted_package} for channel {quoted}"));
        };
        if channel.name.is_empty() {
            found(format!("package {quoted_package} contains channel with no name"));
        } else if package.channels.contains_key(channel.name.as_str()) {
            found(format!("package {quoted_package} has duplicate channel {quoted}"));
        }
        let mut names = BTreeSet::new();
        for entry in &channel.entries {
            if !names.insert(entry.name.as_str()) {
                let name = Quoted(&entry.name);
                found(format!("invalid package {quoted_package}, channel {quoted}: duplicate entry {name}"));
            }
        }
        package.entries.extend(&names);
        package.last_entries = names;
        let model = ChannelModel { entries: &channel.entries, deprecated: None };
        package.channels.entry(&channel.name).or_insert(model);
    }

    fn bundle(&mut self, bundle: &'o BundleOutline) {
        let mut found =
            |problem| self.findings.push(finding(SCHEMA_BUNDLE, &bundle.package, &bundle.name, problem));
        let (quoted_package, quoted) = (Quoted(&bundle.package), Quoted(&bundle.name));
        let Some(package) = self.model.packages.get_mut(bundle.package.as_str()) else {
            return found(if bundle.package.is_empty() {
                format!("package name must be set for bundle {quoted}")
            } else {
                format!("unknown package {quoted_package} for bundle {quoted}")
            });
        };
        if package.bundles.contains_key(bundle.name.as_str()) {
            found(format!("package {quoted_package} has duplicate bundle {quoted}"));
        } else {
            package.bundles.insert(&bundle.name, bundle);
        }
        bundle.defects.iter().cloned().for_each(&mut found);
        package.last_entries.remove(bundle.name.as_str());
        if !package.entries.contains(bundle.name.as_str()) {
            found(format!("package {quoted_package}, bundle {quoted} not found in any channel entries"));
        }
    }

    fn entries_without_bundle(&mut self) {
        for (name, package) in self.model.packages.iter().filter(|(_, model)| !model.last_entries.is_empty())
        {
            let entries: Vec<&str> = package.last_entries.iter().copied().collect();
            let (quoted, entries) = (Quoted(name), entries.join(" "));
            let problem =
                format!("no olm.bundle blobs found in package {quoted} for olm.channel entries [{entries}]");
            self.findings.push(finding(SCHEMA_CHANNEL, name, "", problem));
        }
    }

    fn deprecation(&mut self, index: usize, deprecation: &'o Deprecation) {
        let mut found =
            |problem| self.findings.push(finding(SCHEMA_DEPRECATIONS, &deprecation.package, "", problem));
        let quoted = Quoted(&deprecation.package);
        let Some(package) = self.model.packages.get_mut(deprecation.package.as_str()) else {
            return found(if deprecation.package.is_empty() {
                format!("package name must be set for deprecation item {index}")
            } else {
                format!("cannot apply deprecations to an unknown package {quoted}")
            });
        };
        if package.has_deprecations {
            found(format!("expected a maximum of one deprecation per package: {quoted}"));
        }
        package.has_deprecations = true;
        let mut seen = BTreeSet::new();
        for (index, entry) in deprecation.entries.iter().enumerate() {
            let reference = &entry.reference;
            let first = seen.insert((reference.schema.as_str(), reference.name.as_str()));
            package.deprecate(&deprecation.package, index, entry, first).unwrap_or_else(&mut found);
        }
    }
}

fn finding(schema: &str, package: &str, name: &str, message: String) -> Finding {
    Finding { schema: schema.to_owned(), package: package.to_owned(), name: name.to_owned(), message }
}

impl<'o> PackageModel<'o> {
    fn deprecate(
        &mut self,
        package: &str,
        index: usize,
        DeprecationEntry { reference, message }: &'o DeprecationEntry,
        first: bool,
    ) -> Result<(), String> {
        let (package, name) = (Quoted(package), Quoted(&reference.name));
        let missing =
            |what| format!("cannot deprecate {what} {name} for package {package}: {what} not found");
        if !reference.schema.is_empty() && !first {
            let reference = go_value(reference);
            return Err(format!("duplicate deprecation entry {reference} for package {package}"));
        }
        match reference.schema.as_str() {
            "" => {
                return Err(format!(
                    "schema must be set for deprecation entry [{index}] for package {package}"
                ));
            }
            SCHEMA_BUNDLE => {
                let (bundle, _) =
                    self.bundles.get_key_value(reference.name.as_str()).ok_or_else(|| missing("bundle"))?;
                self.deprecated_bundles.insert(bundle, message);
            }
            SCHEMA_CHANNEL => {
                let channel =
                    self.channels.get_mut(reference.name.as_str()).ok_or_else(|| missing("channel"))?;
                channel.deprecated = Some(message);
            }
            SCHEMA_PACKAGE if reference.name.is_empty() => self.deprecated = Some(message),
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
