//! Retains an installed bundle that no catalog knows any more.

use olm_semver::ReleaseSupport;

use crate::{CatalogView, Installed, Request, request::Query};

/// The installed bundle, when it is to be kept (and its objects kept repaired) although the request has no
/// answer: every catalog could be read, none says anything about the package, and the installed version still is
/// what the request asks for. Upstream asks for the same text; here a range that it satisfies is enough.
///
/// Channels play no part: nothing says any more which channel the installed bundle was in.
pub fn keep_installed<'a>(request: &'a Request, catalogs: &[CatalogView<'_>]) -> Option<&'a Installed> {
    let installed = request.installed.as_ref()?;
    let gone =
        catalogs.iter().all(|catalog| catalog.content.as_ref().is_ok_and(|content| content.is_empty()));
    (gone && satisfies(request, installed)).then_some(installed)
}

fn satisfies(request: &Request, installed: &Installed) -> bool {
    if request.version.as_deref() == Some(installed.version.as_str()) {
        return true;
    }
    let releases: ReleaseSupport = request.options.releases;
    match Query::new(request) {
        Ok(query) => query.range.is_none_or(|range| {
            installed.bundle_version(releases).is_ok_and(|version| range.matches(&version.version))
        }),
        // A range that cannot be parsed is the user's to mend: nothing is known to be what was asked for.
        Err(_) => false,
    }
}
