//! The language of the cases.
//!
//! A package is written as its bundles, in the order of the catalog's lines. A bundle is a version followed by
//! words: `replaces V`, `skips V,V`, `range >=1.0.0,<2.0.0` (commas stand for blanks), `in CHANNEL,CHANNEL`
//! (`stable` when left out, `-` for none), `release R`, `image I`, `requires TYPE`, `deprecated`. The bundle of
//! version V is called `PACKAGE.vV`.

use olm_fbc::{
    Bundle, CatalogError, Channel, ChannelEntry, Deprecation, DeprecationEntry, Package, PackageContent,
    PackageReference, Property,
};
use olm_semver::ReleaseSupport;
use serde_json::json;

use crate::{
    CatalogView, DependencyHandling, Installed, MajorUpdates, Request, Resolution, ResolveError, SameCatalog,
    UpgradePolicy, resolve,
};

#[derive(Debug, Clone)]
pub(super) struct Catalog {
    pub(super) name: String,
    pub(super) priority: i32,
    pub(super) content: Result<PackageContent, CatalogError>,
}

/// A case. Every method that is about a catalog is about the last one named; there is one from the start,
/// called `catalog`, of priority 0.
pub(super) struct Case {
    title: String,
    pub(super) request: Request,
    pub(super) catalogs: Vec<Catalog>,
}

impl Case {
    pub(super) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), request: Request::default(), catalogs: Vec::new() }
    }

    pub(super) fn catalog(mut self, name: &str, priority: i32) -> Self {
        self.catalogs.push(Catalog {
            name: name.to_owned(),
            priority,
            content: Ok(PackageContent::default()),
        });
        self
    }

    fn last(&mut self) -> &mut Catalog {
        if self.catalogs.is_empty() {
            self.catalogs.push(Catalog {
                name: "catalog".to_owned(),
                priority: 0,
                content: Ok(PackageContent::default()),
            });
        }
        self.catalogs.last_mut().unwrap()
    }

    /// The last catalog cannot be read.
    pub(super) fn unreadable(mut self) -> Self {
        let last = self.last();
        last.content = Err(CatalogError::NotServed { catalog: last.name.clone() });
        self
    }

    pub(super) fn package<'b>(mut self, name: &str, bundles: impl IntoIterator<Item = &'b str>) -> Self {
        if self.request.package.is_empty() {
            name.clone_into(&mut self.request.package);
        }
        self.last().content = Ok(package(name, bundles));
        self
    }

    pub(super) fn content(&mut self) -> &mut PackageContent {
        self.last().content.as_mut().unwrap()
    }

    /// Adds an entry about something else than a bundle to the catalog's deprecations.
    pub(super) fn deprecates(mut self, schema: &str, name: &str, message: &str) -> Self {
        deprecate(self.content(), schema, name, message);
        self
    }

    /// Installed is the bundle of this version; `2` after a blank is a recorded release.
    pub(super) fn installed(mut self, version: &str) -> Self {
        let (version, release) = version.split_once(' ').map_or((version, None), |(v, r)| (v, Some(r)));
        self.request.installed = Some(Installed {
            name: format!("{}.v{version}", self.request.package),
            version: version.to_owned(),
            release: release.map(str::to_owned),
            catalog: None,
        });
        self
    }

    pub(super) fn installed_as(mut self, name: &str) -> Self {
        self.request.installed.as_mut().unwrap().name = name.to_owned();
        self
    }

    pub(super) fn installed_from(mut self, name: &str) -> Self {
        self.request.installed.as_mut().unwrap().catalog = Some(name.to_owned());
        self
    }

    pub(super) fn wants(mut self, range: &str) -> Self {
        self.request.version = Some(range.to_owned());
        self
    }

    pub(super) fn channels<'b>(mut self, channels: impl IntoIterator<Item = &'b str>) -> Self {
        self.request.channels = channels.into_iter().map(str::to_owned).collect();
        self
    }

    pub(super) fn self_certified(mut self) -> Self {
        self.request.upgrade_policy = UpgradePolicy::SelfCertified;
        self
    }

    pub(super) fn refusing_dependencies(mut self) -> Self {
        self.request.options.dependencies = DependencyHandling::Refuse;
        self
    }

    pub(super) fn keeping_major(mut self) -> Self {
        self.request.options.major_updates = MajorUpdates::Block;
        self
    }

    pub(super) fn without_release_support(mut self) -> Self {
        self.request.options.releases = ReleaseSupport::Off;
        self
    }

    pub(super) fn staying_in_catalog(mut self) -> Self {
        self.request.options.same_catalog = SameCatalog::Required;
        self
    }

    pub(super) fn views(&self) -> Vec<CatalogView<'_>> {
        self.catalogs
            .iter()
            .map(|catalog| CatalogView {
                name: catalog.name.as_str(),
                priority: catalog.priority,
                content: catalog.content.as_ref().map_err(Clone::clone),
            })
            .collect()
    }

    pub(super) fn resolve(&self) -> Result<Resolution, ResolveError> {
        resolve(&self.request, &self.views())
    }

    /// The answer is the bundle of this version.
    pub(super) fn resolves_to(self, version: &str) -> Resolution {
        let answer = self.resolve().unwrap_or_else(|error| panic!("{}: {error}", self.title));
        assert_eq!(answer.bundle, format!("{}.v{version}", self.request.package), "{}", self.title);
        answer
    }

    /// The answer is the bundle of this version, from this catalog.
    pub(super) fn resolves_in(self, catalog: &str, version: &str) -> Resolution {
        let title = self.title.clone();
        let answer = self.resolves_to(version);
        assert_eq!(answer.catalog, catalog, "{title}");
        answer
    }

    /// There is no answer, and the error has these words.
    pub(super) fn fails(self, text: &str) -> ResolveError {
        let error = match self.resolve() {
            Ok(answer) => panic!("{}: answers with {}", self.title, answer.bundle),
            Err(error) => error,
        };
        assert_eq!(error.to_string(), text, "{}", self.title);
        error
    }
}

pub(super) fn package<'b>(name: &str, bundles: impl IntoIterator<Item = &'b str>) -> PackageContent {
    let mut content = PackageContent {
        packages: vec![Package { name: name.to_owned(), ..Package::default() }],
        ..PackageContent::default()
    };
    for text in bundles {
        add_bundle(&mut content, name, text);
    }
    content
}

fn add_bundle(content: &mut PackageContent, package: &str, text: &str) {
    let mut words = text.split_whitespace();
    let version = words.next().unwrap();
    let named = |version: &str| format!("{package}.v{version}");
    let mut entry = ChannelEntry { name: named(version), ..ChannelEntry::default() };
    let mut value = json!({"packageName": package, "version": version});
    let mut bundle = Bundle { name: named(version), package: package.to_owned(), ..Bundle::default() };
    bundle.image = format!("registry.example/{package}@sha256:{:064x}", version.len());
    let (mut channels, mut required) = (vec!["stable"], Vec::new());
    while let Some(word) = words.next() {
        let mut argument = || words.next().unwrap_or_else(|| panic!("{text:?}: {word} what?"));
        match word {
            "replaces" => entry.replaces = named(argument()),
            "skips" => entry.skips = argument().split(',').map(named).collect(),
            "range" => entry.skip_range = argument().replace(',', " "),
            "in" => channels = argument().split(',').filter(|name| *name != "-").collect(),
            "release" => value["release"] = json!(argument().trim_matches('"')),
            "image" => argument().clone_into(&mut bundle.image),
            "named" => {
                argument().clone_into(&mut bundle.name);
                bundle.name.clone_into(&mut entry.name);
            }
            "requires" => required.push(argument()),
            "deprecated" => deprecate(content, "olm.bundle", &bundle.name, "use another"),
            other => panic!("{text:?}: unknown word {other:?}"),
        }
    }
    bundle.properties.push(Property { kind: "olm.package".to_owned(), value });
    bundle
        .properties
        .extend(required.into_iter().map(|kind| Property { kind: kind.to_owned(), value: json!({}) }));
    for name in channels {
        let index = content.channels.iter().position(|channel| channel.name == name).unwrap_or_else(|| {
            content.channels.push(Channel {
                name: name.to_owned(),
                package: package.to_owned(),
                entries: Vec::new(),
            });
            content.channels.len() - 1
        });
        content.channels[index].entries.push(entry.clone());
    }
    content.bundles.push(bundle);
}

fn deprecate(content: &mut PackageContent, schema: &str, name: &str, message: &str) {
    if content.deprecations.is_empty() {
        content.deprecations.push(Deprecation::default());
    }
    content.deprecations[0].entries.push(DeprecationEntry {
        reference: PackageReference { schema: schema.to_owned(), name: name.to_owned() },
        message: message.to_owned(),
    });
}
