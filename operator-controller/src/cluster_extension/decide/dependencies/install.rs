//! Which extensions are created for what a bundle requires, and which of them nothing needs any more: functions of what
//! there is.

use std::collections::{BTreeMap, BTreeSet};

use kube::{ResourceExt, api::ObjectMeta};
use olm_api::{
    ConditionType::Stalled,
    names::{
        DELETION_GUARD_ANNOTATION, DELETION_POLICY_ANNOTATION, DEPENDENCIES_ANNOTATION,
        REQUIRED_BY_ANNOTATION,
    },
    v1::{CatalogFilter, ClusterExtension, ClusterExtensionSpec, SourceConfig},
};
use olm_dependencies::{Provider, Requirement, cluster_extension};
use olm_object::{names::is_subdomain, text};

use crate::cluster_extension::{
    annotations::{removed_with, required_by},
    report::StepError,
};

/// Extensions that are created for one, with those that are created for these in turn, at most.
pub(crate) const CREATED_MAX: usize = 10;
/// Extensions that are created for one another, at most.
pub(crate) const DEPTH_MAX: usize = 4;

/// What is created before a bundle can be installed.
pub(crate) struct Dependencies {
    pub(crate) create: Vec<ClusterExtension>,
    /// What the bundle waits for once they are created.
    pub(crate) waits: StepError,
}

/// What is done about requirements that nothing installed meets.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Installs {
    /// The extensions to be created.
    pub(crate) create: Vec<ClusterExtension>,
    /// A sentence for each extension that there is and that has not rolled out yet.
    pub(crate) awaited: BTreeSet<String>,
    /// Whether one of those needs a person.
    pub(crate) is_stalled: bool,
}

/// What is done for `needy` about its `missing` requirements, each with the packages that would meet it, the best first.
/// `all` are the extensions that there are.
///
/// # Errors
/// Why nothing is created, in a sentence.
pub(crate) fn installs(
    needy: &ClusterExtension,
    missing: &[(&Requirement, Vec<Provider>)],
    all: &[&ClusterExtension],
) -> Result<Installs, String> {
    let mut found = Installs::default();
    let mut chosen: BTreeMap<&str, &str> = BTreeMap::new();
    for (requirement, providers) in missing {
        let known = providers.iter().find(|one| {
            let package = one.package.as_str();
            chosen.contains_key(package) || all.iter().any(|other| package_of(other) == package)
        });
        let Some(provider) = known.or(providers.first()) else {
            return Err(format!(
                "Nothing is installed for it, because no catalog that the extension may use has what meets all of it: {requirement}."
            ));
        };
        let package = provider.package.as_str();
        let present = all.iter().find(|other| package_of(other) == package);
        if let Some(present) = present {
            found.waits_for(present, needy)?;
        } else if let Some(version) = chosen.get(package) {
            if !requirement.packages().is_empty() && *version != provider.version {
                return Err(format!(
                    "Nothing is installed for it, because package {package:?} is required in several ranges: create an extension for it in the version that you want."
                ));
            }
        } else {
            chosen.insert(package, &provider.version);
            found.create.push(extension(needy, requirement, provider, all)?);
        }
    }
    if !found.create.is_empty() {
        check_limits(needy, found.create.len(), all)?;
    }
    Ok(found)
}

impl Installs {
    /// Notes an extension that is to bring what is missing.
    fn waits_for(&mut self, present: &ClusterExtension, needy: &ClusterExtension) -> Result<(), String> {
        let (name, package) = (present.name_any(), package_of(present));
        let status = present.status.as_ref();
        let is_leaving = present.metadata.deletion_timestamp.is_some();
        let is_installed = status.is_some_and(|status| status.install.is_some());
        if name == needy.name_any() || (is_installed && !is_leaving) {
            return Err(format!(
                "Nothing is installed for it, because ClusterExtension {name:?} has package {package:?} already."
            ));
        }
        let is_stalled = status.is_some_and(|status| status.conditions.is_true(Stalled));
        self.is_stalled |= is_stalled;
        self.awaited.insert(if is_leaving {
            format!("ClusterExtension {name:?} of package {package:?} is being deleted, and is created anew afterwards.")
        } else if is_stalled {
            format!("ClusterExtension {name:?} is to install package {package:?}, and is stalled: see its conditions.")
        } else {
            format!("ClusterExtension {name:?} is to install package {package:?}, and has not rolled out yet.")
        });
        Ok(())
    }
}

/// The package that an extension installs.
fn package_of(extension: &ClusterExtension) -> &str {
    extension.spec.source.catalog.as_ref().map_or("", |catalog| catalog.package_name.as_str())
}

/// The extension of a package that `needy` needs. It has the namespace, the ServiceAccount and the catalogs of that one, so
/// who may write that one gains nothing by it.
fn extension(
    needy: &ClusterExtension,
    requirement: &Requirement,
    provider: &Provider,
    all: &[&ClusterExtension],
) -> Result<ClusterExtension, String> {
    let name = provider.package.as_str();
    if !is_subdomain(name) {
        return Err(format!(
            "Nothing is installed for it, because {name:?} cannot be the name of a ClusterExtension: create one for that package."
        ));
    }
    if let Some(taken) = all.iter().find(|other| other.name_any() == name) {
        return Err(format!(
            "Nothing is installed for it, because ClusterExtension {name:?} is of another package, {:?}: create one of another name for package {name:?}.",
            package_of(taken)
        ));
    }
    let asked = cluster_extension(requirement, provider);
    let version = match text(&asked, "/spec/source/catalog/version") {
        // One package of several that would do: in the version that is known to.
        "" if !requirement.packages().is_empty() => &provider.version,
        version => version,
    };
    let catalog = CatalogFilter {
        package_name: name.to_owned(),
        version: (!version.is_empty()).then(|| version.to_owned()),
        selector: needy.spec.source.catalog.as_ref().and_then(|catalog| catalog.selector.clone()),
        ..CatalogFilter::default()
    };
    // What is handed on: whether more is installed for it in turn, and how data is protected when it goes.
    let handed_on = [DEPENDENCIES_ANNOTATION, DELETION_GUARD_ANNOTATION, DELETION_POLICY_ANNOTATION];
    let annotations = needy.annotations().iter().filter(|(key, _)| handed_on.contains(&key.as_str()));
    let origin = format!("{}/{}", needy.name_any(), needy.uid().unwrap_or_default());
    let annotations = annotations
        .map(|(key, value)| (key.clone(), value.clone()))
        .chain([(REQUIRED_BY_ANNOTATION.to_owned(), origin)]);
    Ok(ClusterExtension {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            annotations: Some(annotations.collect()),
            ..ObjectMeta::default()
        },
        spec: ClusterExtensionSpec {
            namespace: needy.spec.namespace.clone(),
            service_account: needy.spec.service_account.clone(),
            source: SourceConfig { catalog: Some(catalog), ..SourceConfig::default() },
            ..ClusterExtensionSpec::default()
        },
        status: None,
    })
}

/// Bundles are not trusted: what they require is not created without end.
fn check_limits(needy: &ClusterExtension, count: usize, all: &[&ClusterExtension]) -> Result<(), String> {
    let line = origins(needy, all);
    if line.len() > DEPTH_MAX {
        return Err(format!(
            "Nothing is installed for it, because {DEPTH_MAX} extensions were created for one another already: create an extension for what is missing."
        ));
    }
    let first = |one: &ClusterExtension| origins(one, all).last().map(ResourceExt::name_any);
    let root = first(needy);
    let created = all.iter().filter(|one| required_by(one).is_some() && first(one) == root).count();
    if created + count > CREATED_MAX {
        return Err(format!(
            "Nothing is installed for it, because more than {CREATED_MAX} extensions would be created for ClusterExtension {:?}: create some of them yourself.",
            root.unwrap_or_default()
        ));
    }
    Ok(())
}

/// The extension, the one that it was created for, and so on.
fn origins(extension: &ClusterExtension, all: &[&ClusterExtension]) -> Vec<ClusterExtension> {
    let mut line = vec![extension.clone()];
    while line.len() <= CREATED_MAX
        && let Some(next) = line.last().and_then(required_by).and_then(|(_, uid)| with_uid(uid, all))
    {
        line.push(next.clone());
    }
    line
}

fn with_uid<'a>(uid: &str, all: &[&'a ClusterExtension]) -> Option<&'a ClusterExtension> {
    all.iter().copied().find(|other| other.metadata.uid.as_deref() == Some(uid))
}

/// An extension that is there, or would be, for what a bundle requires, in a line of a plan.
fn line(extension: &ClusterExtension) -> String {
    let version = extension.spec.source.catalog.as_ref().and_then(|catalog| catalog.version.as_deref());
    let version = version.map_or_else(String::new, |version| format!(", version {version}"));
    format!("ClusterExtension {}: package {}{version}", extension.name_any(), package_of(extension))
}

/// The lines of a plan about the extensions to be created, and about all that there are then because `needy` requires them:
/// an approval is for these, before and after they are created.
pub(crate) fn lines(
    needy: &ClusterExtension,
    create: &[ClusterExtension],
    all: &[&ClusterExtension],
) -> (Vec<String>, Vec<String>) {
    let create: Vec<String> = create.iter().map(line).collect();
    let is_its = |other: &&&ClusterExtension| {
        required_by(other).is_some_and(|(_, uid)| needy.metadata.uid.as_deref() == Some(uid))
    };
    let present: BTreeSet<String> = all.iter().filter(is_its).map(|other| line(other)).collect();
    let then = present.into_iter().chain(create.iter().cloned()).collect::<BTreeSet<_>>();
    (create, then.into_iter().collect())
}

/// Whether nothing needs an extension any more that was created for another one and is to be removed then. `needs` are
/// pairs of names: an extension, and one that meets a requirement of it. Those that need each other are needed only by
/// others.
pub(crate) fn is_unneeded(
    extension: &ClusterExtension,
    all: &[&ClusterExtension],
    needs: &BTreeSet<(String, String)>,
    is_settled: impl Fn(&str) -> bool,
) -> bool {
    // What the one that it was created for will need is known once that one has all it wants.
    let may_go = |one: &ClusterExtension| {
        removed_with(one).is_some_and(|uid| {
            with_uid(uid, all).is_none_or(|it| it.metadata.deletion_timestamp.is_some() || is_settled(uid))
        })
    };
    let name = extension.name_any();
    let needers = reachable(&name, |one| needs.iter().filter(move |(_, to)| to == one).map(|(from, _)| from));
    let needed = reachable(&name, |one| needs.iter().filter(move |(from, _)| from == one).map(|(_, to)| to));
    let named = |name: &&String| all.iter().find(|other| other.name_any() == **name);
    may_go(extension)
        && needers.iter().all(|one| needed.contains(*one) && named(one).is_some_and(|one| may_go(one)))
}

fn reachable<'a, I>(from: &'a str, next: impl Fn(&'a str) -> I) -> BTreeSet<&'a String>
where
    I: Iterator<Item = &'a String>,
{
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(one) = open.pop() {
        open.extend(next(one).filter(|other| seen.insert(*other)).map(String::as_str));
    }
    seen
}

#[cfg(test)]
mod tests;
