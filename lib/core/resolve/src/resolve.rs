//! From request and catalogs to the answer.

use std::cmp::Reverse;

use olm_fbc::{CatalogError, PackageContent};

use crate::{
    CatalogNote, CatalogView, Cause, OtherCatalog, Request, Resolution, ResolveError, SameCatalog,
    candidates::{self, Found},
    explain,
    order::{self, Choice},
    request::Query,
};

/// A catalog that cannot be read.
type Unreadable<'a> = (&'a CatalogView<'a>, &'a CatalogError);

/// The bundle to install.
///
/// # Errors
/// See [`Cause`]. Every error but those about the request itself lists each bundle of the package with the reasons
/// against it. [`Cause::CatalogUnavailable`] is returned only when the catalog that cannot be read could
/// change the answer: it has the answer's priority or a higher one, it is the installed bundle's origin, or
/// there is no answer without it. A catalog of lower priority is not waited for, although it could have a bundle
/// that is not deprecated where the answer is.
pub fn resolve(request: &Request, catalogs: &[CatalogView<'_>]) -> Result<Resolution, ResolveError> {
    let query = Query::new(request)?;
    let found = within_policy(&query, catalogs).map_or_else(|| decide(&query, catalogs), Ok);
    found.map_err(|cause| {
        let rejected = explain::rejected(&query, catalogs, Err(&cause));
        ResolveError { cause, rejected }
    })
}

/// The answer of the catalogs that an update policy allows. Without one, or where it would lead back, what is installed may
/// stay in a catalog that is not allowed.
fn within_policy(query: &Query<'_>, catalogs: &[CatalogView<'_>]) -> Option<Resolution> {
    let is_allowed = |catalog: &&CatalogView<'_>| query.outside_policy(catalog.name).is_none();
    let allowed: Vec<CatalogView<'_>> = catalogs.iter().filter(is_allowed).cloned().collect();
    if allowed.len() == catalogs.len() {
        return None;
    }
    decide(query, &allowed).ok().filter(|answer| !query.is_downgrade(&answer.version))
}

fn decide<'a>(query: &'a Query<'a>, catalogs: &'a [CatalogView<'a>]) -> Result<Resolution, Cause> {
    let Some(origin) = query.request.installed.as_ref().and_then(|installed| installed.catalog.as_deref())
    else {
        return among(query, catalogs, None);
    };
    let origin = catalogs.iter().position(|catalog| catalog.name == origin);
    match (query.request.options.same_catalog, origin.and_then(|index| catalogs.get(index..=index))) {
        (SameCatalog::Required, origin) => among(query, origin.unwrap_or_default(), None),
        (SameCatalog::Preferred, Some(origin @ [view])) => {
            match &view.content {
                Ok(content) if lists_installed(query, content) => {
                    if let Ok(answer) = among(query, origin, None) {
                        return Ok(with_others_than_origin(query, answer, catalogs));
                    }
                }
                Ok(_) => {}
                Err(_) => return among(query, catalogs, Some(view.name)),
            }
            among(query, catalogs, None)
        }
        (SameCatalog::Preferred, _) => among(query, catalogs, None),
    }
}

fn lists_installed(query: &Query<'_>, content: &PackageContent) -> bool {
    let installed = query.request.installed.as_ref();
    installed.is_some_and(|installed| content.bundles.iter().any(|bundle| bundle.name == installed.name))
}

/// Notes the catalogs that had a candidate too.
fn with_others_than_origin<'a>(
    query: &'a Query<'a>,
    mut answer: Resolution,
    catalogs: &'a [CatalogView<'a>],
) -> Resolution {
    let others = catalogs.iter().filter(|catalog| catalog.name != answer.catalog);
    answer.other_catalogs = others
        .filter_map(|catalog| match &catalog.content {
            Ok(content) => {
                let found = candidates::best(query, catalog, content).ok().flatten()?;
                Some(other(&found, CatalogNote::NotOrigin))
            }
            Err(error) => Some(unreadable_note(&(catalog, error))),
        })
        .collect();
    answer.other_catalogs.sort_by(|a, b| a.name.cmp(&b.name));
    answer
}

/// Decides among all the catalogs given; `needed` names one that must be readable.
fn among<'a>(
    query: &'a Query<'a>,
    catalogs: &'a [CatalogView<'a>],
    needed: Option<&str>,
) -> Result<Resolution, Cause> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for catalog in catalogs {
        match &catalog.content {
            Ok(content) if content.is_empty() => {}
            Ok(content) => found.extend(candidates::best(query, catalog, content)?),
            Err(error) => unreadable.push((catalog, error)),
        }
    }
    let choice = order::choose(found);
    let could_change = |catalog: &CatalogView<'_>| {
        needed == Some(catalog.name)
            || match &choice {
                Choice::Nothing => true,
                Choice::One(first, _) => catalog.priority >= first.catalog.priority,
                Choice::Ambiguous(all) => {
                    all.first().is_none_or(|first| catalog.priority > first.catalog.priority)
                }
            }
    };
    let mut awaited: Vec<Unreadable<'_>> =
        unreadable.iter().copied().filter(|(catalog, _)| could_change(catalog)).collect();
    awaited.sort_by_key(|(catalog, _)| (Reverse(catalog.priority), catalog.name));
    let names = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.into_iter().map(str::to_owned).collect()
    };

    let answer = match choice {
        Choice::Nothing => Err(Cause::NotFound { request: Box::new(query.request.clone()) }),
        Choice::One(first, rest) => {
            let others = others(&first, &rest, &unreadable);
            Resolution::new(query, &first, others)
        }
        Choice::Ambiguous(all) => {
            let catalogs = names(all.iter().map(|found| found.catalog.name).collect());
            Err(Cause::Ambiguous { request: Box::new(query.request.clone()), catalogs })
        }
    };
    match awaited.first() {
        None => answer,
        Some((catalog, error)) => Err(Cause::CatalogUnavailable {
            package: query.request.package.clone(),
            catalog: catalog.name.to_owned(),
            source: Box::new((*error).clone()),
            waiting_for: names(awaited.iter().map(|(catalog, _)| catalog.name).collect()),
            answer: answer.ok().map(Box::new),
        }),
    }
}

fn other(found: &Found<'_>, note: CatalogNote) -> OtherCatalog {
    OtherCatalog {
        name: found.catalog.name.to_owned(),
        bundle: Some(found.candidate.bundle.name.clone()),
        note,
    }
}

fn unreadable_note((catalog, error): &Unreadable<'_>) -> OtherCatalog {
    OtherCatalog {
        name: catalog.name.to_owned(),
        bundle: None,
        note: CatalogNote::Unreadable(error.to_string()),
    }
}

fn others(first: &Found<'_>, rest: &[Found<'_>], unreadable: &[Unreadable<'_>]) -> Vec<OtherCatalog> {
    let note = |found: &Found<'_>| {
        if found.candidate.deprecated != first.candidate.deprecated {
            CatalogNote::Deprecated
        } else if found.catalog.priority == first.catalog.priority {
            CatalogNote::SameContent
        } else {
            CatalogNote::LowerPriority
        }
    };
    let mut others: Vec<_> = rest
        .iter()
        .map(|found| other(found, note(found)))
        .chain(unreadable.iter().map(unreadable_note))
        .collect();
    others.sort_by(|a, b| a.name.cmp(&b.name));
    others
}
