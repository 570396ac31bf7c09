//! Resolutions: every package of a large catalog, installed and not, with ranges and channels.
//!
//! Upstream refused bundles with dependencies and had no release fields, so these options are set.

use olm_fbc::PackageContent;
use olm_resolve::{
    CatalogView, DependencyHandling, Installed, Options, Request, Resolution, ResolveError, UpgradePolicy,
    resolve,
};
use olm_semver::ReleaseSupport;
use olm_test::prelude::*;
use serde::Deserialize;

use crate::{
    catalogs,
    data::{self, Counts},
};

#[derive(Deserialize)]
struct CatalogEntry {
    path: PathBuf,
    priority: i32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    package: String,
    installed: Option<String>,
    installed_version: Option<String>,
    version: Option<String>,
    #[serde(default)]
    channels: Vec<String>,
    upgrade_constraint_policy: String,
    catalogs: Vec<String>,
    bundle: Option<String>,
    resolved_version: Option<String>,
    error: Option<String>,
}

impl Case {
    fn request(&self) -> Request {
        Request {
            package: self.package.clone(),
            version: self.version.clone(),
            channels: self.channels.clone(),
            upgrade_policy: match self.upgrade_constraint_policy.as_str() {
                "SelfCertified" => UpgradePolicy::SelfCertified,
                "CatalogProvided" => UpgradePolicy::CatalogProvided,
                other => panic!("unknown policy {other:?}"),
            },
            installed: self.installed.as_ref().map(|name| Installed {
                name: name.clone(),
                version: self.installed_version.clone().unwrap_or_default(),
                ..Installed::default()
            }),
            options: Options {
                dependencies: DependencyHandling::Refuse,
                releases: ReleaseSupport::Off,
                ..Options::default()
            },
            ceiling: None,
        }
    }

    fn name(&self) -> String {
        let Self { package, channels, catalogs, .. } = self;
        let installed = self.installed.as_deref().unwrap_or("none");
        let version = self.version.as_deref().unwrap_or("any");
        let policy = &self.upgrade_constraint_policy;
        format!("{package} from {installed} to {version} in {channels:?} of {catalogs:?}, {policy}")
    }

    /// Whether the answer is upstream's.
    fn agrees(&self, answer: &Result<Resolution, ResolveError>) -> bool {
        match (answer, &self.bundle, &self.error) {
            (Ok(answer), Some(bundle), None) => {
                answer.bundle == *bundle
                    && self.resolved_version.as_ref().is_none_or(|version| {
                        answer.version.to_string() == *version
                            || answer.version.version.to_string() == *version
                    })
            }
            (Err(ours), None, Some(theirs)) => ours.to_string() == *theirs,
            _ => false,
        }
    }
}

/// The catalogs that cases name, each read when first named.
struct Catalogs {
    folder: PathBuf,
    entries: BTreeMap<String, CatalogEntry>,
    read: BTreeMap<String, BTreeMap<String, PackageContent>>,
}

impl Catalogs {
    fn open(folder: &Path) -> Self {
        let file = folder.join("catalogs.json");
        let text = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let entries = serde_json::from_slice(&text).unwrap();
        Self { folder: folder.to_owned(), entries, read: BTreeMap::new() }
    }

    fn read(&mut self, names: &[String]) {
        for name in names {
            if !self.read.contains_key(name) {
                let entry = self.entries.get(name).unwrap_or_else(|| panic!("catalogs.json has no {name:?}"));
                self.read.insert(name.clone(), catalogs::read(&self.folder.join(&entry.path)));
            }
        }
    }

    fn views<'a>(
        &'a self,
        names: &'a [String],
        package: &str,
        nothing: &'a PackageContent,
    ) -> Vec<CatalogView<'a>> {
        names
            .iter()
            .map(|name| CatalogView {
                name,
                priority: self.entries[name].priority,
                content: Ok(self.read[name].get(package).unwrap_or(nothing)),
            })
            .collect()
    }
}

/// Decision: the same bundle by the same digest in catalogs of equal priority is no ambiguity. The predicate is
/// that two catalogs of one priority list such a bundle; the answer must be what each of those that have an
/// answer of that priority gives alone.
fn same_digest(
    views: &[CatalogView<'_>],
    request: &Request,
    answer: &Result<Resolution, ResolveError>,
) -> bool {
    let Ok(answer) = answer else { return false };
    let lists = |view: &CatalogView<'_>| {
        let content = view.content.as_ref().unwrap();
        answer.image.contains('@')
            && content.bundles.iter().any(|b| b.name == answer.bundle && b.image == answer.image)
    };
    let Some(chosen) = views.iter().find(|view| view.name == answer.catalog) else { return false };
    let rivals: Vec<_> = views.iter().filter(|view| view.priority == chosen.priority).collect();
    let alone = |view: &CatalogView<'_>| resolve(request, std::slice::from_ref(view)).ok();
    rivals.iter().filter(|view| lists(view)).count() > 1
        && rivals
            .iter()
            .filter_map(|view| alone(view))
            .all(|other| other.bundle == answer.bundle && other.image == answer.image)
}

pub(crate) fn check() {
    data::each("resolutions", "resolutions.jsonl.zst", check_all);
}

fn check_all(folder: &Path, counts: &mut Counts) {
    let mut catalogs = Catalogs::open(folder);
    let nothing = PackageContent::default();
    data::cases(&folder.join("resolutions.jsonl.zst"), |case: Case| {
        catalogs.read(&case.catalogs);
        let request = case.request();
        let views = catalogs.views(&case.catalogs, &case.package, &nothing);
        let answer = resolve(&request, &views);
        if case.agrees(&answer) {
            counts.equal();
        } else if same_digest(&views, &request, &answer) {
            counts.named("same digest", case.name());
        } else {
            let ours = answer.map_or_else(|error| error.to_string(), |answer| answer.bundle);
            let theirs = case.bundle.or(case.error).unwrap_or_default();
            counts.different(format!("{request:?} in {:?}: {ours}, reference {theirs}", case.catalogs));
        }
    });
}
