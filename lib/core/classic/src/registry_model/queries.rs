//! The queries of the registry API over a catalog. Lists are given to a function one after another, which ends them by
//! answering false; their order is that of names where upstream's is random.

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::{PackageContent, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE};
use olm_go::Quoted;
use olm_object::GroupVersionKind;

use super::{Bundle, Catalog, Channel, ChannelEntry, Content, Package, QueryError, bundle::Document};
use crate::graph;

/// Text of the pattern of names in queries for documents of other schemas.
const NAME_PATTERN: &str = "^[a-zA-Z0-9][a-zA-Z0-9._-]*$";

fn unknown(text: String) -> QueryError {
    QueryError::Unknown(text)
}

impl<C: Content> Catalog<C> {
    /// A package with its channels.
    ///
    /// # Errors
    /// The catalog does not have it.
    pub fn package(&self, name: &str) -> Result<Package, QueryError> {
        let package = self.graph(name)?;
        let channels = package.channels.iter().map(|(name, channel)| Channel {
            name: name.clone(),
            csv_name: channel.head.clone(),
            deprecation: channel.deprecation.clone(),
        });
        Ok(Package {
            name: name.to_owned(),
            channels: channels.collect(),
            default_channel_name: package.default_channel.clone(),
            deprecation: package.deprecation.clone(),
        })
    }

    /// A bundle with its manifests, without edges.
    ///
    /// # Errors
    /// The catalog does not have it, or it cannot be read.
    pub fn bundle(&self, package: &str, channel: &str, name: &str) -> Result<Bundle, QueryError> {
        let (quoted_package, quoted_channel) = (Quoted(package), Quoted(channel));
        let entry = self.channel(package, channel)?.entries.get(name).ok_or_else(|| {
            unknown(format!(
                "package {quoted_package}, channel {quoted_channel}, bundle {} not found",
                Quoted(name)
            ))
        })?;
        let mut bundle = self.whole_bundle(package, channel, entry)?;
        bundle.replaces.clear();
        bundle.skips.clear();
        Ok(bundle)
    }

    /// The manifests of a bundle, whatever its package and channel are.
    ///
    /// # Errors
    /// As [`Self::bundle`].
    pub fn objects(&self, name: &str) -> Result<Vec<String>, QueryError> {
        let found = self.entries().find(|(_, _, entry)| entry.name == name);
        let (package, channel, entry) =
            found.ok_or_else(|| unknown(format!("bundle {} not found", Quoted(name))))?;
        Ok(self.whole_bundle(package, channel, entry)?.object)
    }

    /// The head of a channel.
    ///
    /// # Errors
    /// As [`Self::bundle`].
    pub fn bundle_for_channel(&self, package: &str, channel: &str) -> Result<Bundle, QueryError> {
        self.bundle(package, channel, &self.channel(package, channel)?.head)
    }

    /// The first bundle of a channel that replaces or skips another.
    ///
    /// # Errors
    /// As [`Self::bundle`].
    pub fn bundle_that_replaces(
        &self,
        name: &str,
        package: &str,
        channel: &str,
    ) -> Result<Bundle, QueryError> {
        if !self.packages.contains_key(package) {
            return Err(unknown(format!("package {package} not found")));
        }
        let mut entries = self.channel(package, channel)?.entries.values();
        let found = entries.find(|entry| entry.supersedes(name)).ok_or_else(|| {
            unknown(format!("no entry found for package {}, channel {}", Quoted(package), Quoted(channel)))
        })?;
        self.bundle(package, channel, &found.name)
    }

    /// The entries that replace or skip a bundle, whatever their package.
    ///
    /// # Errors
    /// There are none.
    pub fn entries_that_replace(
        &self,
        name: &str,
        mut each: impl FnMut(ChannelEntry) -> bool,
    ) -> Result<(), QueryError> {
        let mut found = false;
        for (package, channel, entry) in self.entries() {
            let times = usize::from(entry.replaces == name)
                + entry.skips.iter().filter(|skip| *skip == name && **skip != entry.replaces).count();
            for _ in 0..times {
                found = true;
                if !each(channel_entry(package, channel, entry, &entry.replaces)) {
                    return Ok(());
                }
            }
        }
        if found { Ok(()) } else { Err(unknown(format!("no channel entries found that replace {name}"))) }
    }

    /// The entries whose bundles provide a kind, once for each bundle that they replace or skip.
    ///
    /// # Errors
    /// There are none, or the content cannot be read.
    pub fn entries_that_provide(
        &self,
        kind: &GroupVersionKind,
        mut each: impl FnMut(ChannelEntry) -> bool,
    ) -> Result<(), QueryError> {
        let mut found = false;
        for (name, package) in &*self.packages {
            let providers = self.providers(name, kind)?;
            for (channel_name, channel) in &package.channels {
                for entry in channel.entries.values().filter(|entry| providers.contains(&entry.name)) {
                    found = true;
                    if !superseded(entry, |_| true)
                        .all(|replaces| each(channel_entry(name, channel_name, entry, replaces)))
                    {
                        return Ok(());
                    }
                }
            }
        }
        if found { Ok(()) } else { Err(none_provides("no channel entries found that provide", kind)) }
    }

    /// The heads of channels that provide a kind, once for each bundle of the channel that they replace or skip.
    ///
    /// # Errors
    /// There are none, or the content cannot be read.
    pub fn latest_entries_that_provide(
        &self,
        kind: &GroupVersionKind,
        mut each: impl FnMut(ChannelEntry) -> bool,
    ) -> Result<(), QueryError> {
        let mut found = false;
        for (name, package) in &*self.packages {
            let providers = self.providers(name, kind)?;
            for (channel_name, channel) in &package.channels {
                let Some(head) =
                    channel.entries.get(&channel.head).filter(|head| providers.contains(&head.name))
                else {
                    continue;
                };
                found = true;
                if !superseded(head, |skip| channel.entries.contains_key(skip))
                    .all(|replaces| each(channel_entry(name, channel_name, head, replaces)))
                {
                    return Ok(());
                }
            }
        }
        if found { Ok(()) } else { Err(none_provides("no channel entries found that provide", kind)) }
    }

    /// The head of the default channel of the first package, by name, whose head provides a kind.
    ///
    /// # Errors
    /// There is none, or the content cannot be read.
    pub fn default_bundle_that_provides(&self, kind: &GroupVersionKind) -> Result<Bundle, QueryError> {
        let mut found = None;
        self.latest_entries_that_provide(kind, |entry| {
            let package = self.packages.get(&entry.package_name);
            if package.is_some_and(|package| package.default_channel == entry.channel_name) {
                found = Some(entry);
            }
            found.is_none()
        })?;
        let entry = found.ok_or_else(|| none_provides("no entry found that provides", kind))?;
        self.bundle(&entry.package_name, &entry.channel_name, &entry.bundle_name)
    }

    /// Every entry of every channel, by channel, package and name. Manifests are left out of bundles with an image.
    ///
    /// # Errors
    /// The content cannot be read.
    pub fn each_bundle(&self, mut each: impl FnMut(Bundle) -> bool) -> Result<(), QueryError> {
        let channels = self.packages.iter().flat_map(|(package, graph)| {
            graph.channels.keys().map(move |channel| (channel.as_str(), package.as_str()))
        });
        let channels: BTreeSet<(&str, &str)> = channels.collect();
        for (channel, package) in channels {
            let content = self.content.package(package)?;
            if !self.each_of_channel(package, channel, &content, &mut each)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The documents of a schema that is none of OLM's, as JSON: of one package, or with an empty name those that belong
    /// to none.
    ///
    /// # Errors
    /// The schema or the package is no name, or the content cannot be read.
    pub fn each_document(
        &self,
        schema: &str,
        package: &str,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), QueryError> {
        let invalid = |text: String| Err(QueryError::InvalidArgument(text));
        if schema.is_empty() {
            return invalid("schema is required".to_owned());
        }
        for (what, name) in [("schema", schema), ("packageName", package)] {
            if !name.is_empty() && !is_name(name) {
                let name = Quoted(name);
                return invalid(format!(
                    "invalid custom schema query: invalid {what} {name}: must match {NAME_PATTERN}"
                ));
            }
        }
        if [SCHEMA_PACKAGE, SCHEMA_CHANNEL, SCHEMA_BUNDLE, SCHEMA_DEPRECATIONS].contains(&schema) {
            return Ok(());
        }
        Ok(self.content.documents(schema, package, &mut each)?)
    }

    /// Gives the entries of a channel to `each`; answers whether it wants more.
    pub(super) fn each_of_channel(
        &self,
        package: &str,
        channel: &str,
        content: &PackageContent,
        each: &mut dyn FnMut(Bundle) -> bool,
    ) -> Result<bool, QueryError> {
        let bundles: BTreeMap<&str, &olm_fbc::Bundle> =
            content.bundles.iter().map(|bundle| (bundle.name.as_str(), bundle)).collect();
        for entry in self.channel(package, channel)?.entries.values() {
            let Some(found) = bundles.get(entry.name.as_str()) else { continue };
            let bundle = if found.image.is_empty() {
                self.whole_bundle(package, channel, entry)?
            } else {
                let bundle = Document::of(found).bundle().map_err(unknown)?;
                self.named(bundle, package, channel, entry)
            };
            if !each(bundle) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A bundle with its manifests and edges.
    fn whole_bundle(&self, package: &str, channel: &str, entry: &graph::Entry) -> Result<Bundle, QueryError> {
        let missing = || unknown(format!("get bundle {}: it is not in the catalog", Quoted(&entry.name)));
        let document = self.content.document(package, Some(&entry.name))?.ok_or_else(missing)?;
        let document = Document::read(&document).map_err(unknown)?;
        let bundle = document.bundle().map_err(unknown)?;
        let mut bundle = self.named(bundle, package, channel, entry);
        let package = self.content.document(package, None)?.unwrap_or_default();
        document.add_manifests(&mut bundle, &package).map_err(unknown)?;
        Ok(bundle)
    }

    /// Adds names, edges and deprecation to a bundle.
    fn named(&self, bundle: Bundle, package: &str, channel: &str, entry: &graph::Entry) -> Bundle {
        let deprecated = self.packages.get(package).map(|package| &package.deprecated_bundles);
        Bundle {
            csv_name: entry.name.clone(),
            package_name: package.to_owned(),
            channel_name: channel.to_owned(),
            skip_range: entry.skip_range.clone(),
            replaces: entry.replaces.clone(),
            skips: entry.skips.clone(),
            deprecation: deprecated.and_then(|deprecated| deprecated.get(&entry.name)).cloned(),
            ..bundle
        }
    }

    /// Names of the bundles of a package that provide a kind.
    fn providers(&self, package: &str, kind: &GroupVersionKind) -> Result<BTreeSet<String>, QueryError> {
        let mut providers = BTreeSet::new();
        for bundle in self.content.package(package)?.bundles {
            let provided = Document::of(&bundle).bundle().map_err(unknown)?.provided_apis;
            if provided.contains(kind) {
                providers.insert(bundle.name);
            }
        }
        Ok(providers)
    }

    fn graph(&self, package: &str) -> Result<&graph::Package, QueryError> {
        let missing = || unknown(format!("package {} not found", Quoted(package)));
        self.packages.get(package).ok_or_else(missing)
    }

    fn channel(&self, package: &str, channel: &str) -> Result<&graph::Channel, QueryError> {
        let missing =
            || unknown(format!("package {}, channel {} not found", Quoted(package), Quoted(channel)));
        self.graph(package)?.channels.get(channel).ok_or_else(missing)
    }

    fn entries(&self) -> impl Iterator<Item = (&str, &str, &graph::Entry)> {
        self.packages.iter().flat_map(|(package, graph)| {
            graph.channels.iter().flat_map(move |(name, channel)| {
                channel.entries.values().map(move |entry| (package.as_str(), name.as_str(), entry))
            })
        })
    }
}

/// The bundles that an entry replaces or skips; the first is the replaced one, even when there is none.
fn superseded(entry: &graph::Entry, counts: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
    let skips = entry.skips.iter().map(String::as_str);
    let skips = skips.filter(move |skip| *skip != entry.replaces && counts(skip));
    std::iter::once(entry.replaces.as_str()).chain(skips)
}

fn channel_entry(package: &str, channel: &str, entry: &graph::Entry, replaces: &str) -> ChannelEntry {
    ChannelEntry {
        package_name: package.to_owned(),
        channel_name: channel.to_owned(),
        bundle_name: entry.name.clone(),
        replaces: replaces.to_owned(),
    }
}

fn none_provides(what: &str, kind: &GroupVersionKind) -> QueryError {
    let (group, version, kind) = (Quoted(&kind.group), Quoted(&kind.version), Quoted(&kind.kind));
    unknown(format!("{what} group:{group} version:{version} kind:{kind}"))
}

fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric();
    text.bytes().next().is_some_and(is_plain)
        && text.bytes().all(|byte| is_plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
}
