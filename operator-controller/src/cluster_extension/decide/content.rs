//! What there is to make a revision from: the rendered bundle, or why there is none yet.

use olm_render::Rendered;
use olm_runtime::MemoryShare;

use crate::bundles::{BundleError, Loaded, Requested};
use crate::cluster_extension::observe::revisions::{BundleRecord, Revisions};
use crate::cluster_extension::report::status::without_connections;
use crate::cluster_extension::report::{Cause, Progress};

/// What there is to make a revision from.
pub(crate) enum Content {
    Rendered(Box<Rendered>, MemoryShare),
    /// The registry does not give the bundle that is installed, which is kept as it is.
    Away {
        why: String,
    },
    /// The bundle is on its way, or waits for memory.
    Pending {
        why: String,
    },
}

/// The files of a bundle, or what there is without them.
pub(crate) fn arrived(
    bundle: &BundleRecord,
    requested: Requested,
    revisions: &Revisions,
    progress: &mut Progress,
) -> Result<Result<Loaded, Content>, Cause> {
    let (error, next) = match requested {
        Requested::Loaded(loaded) => return Ok(Ok(loaded)),
        Requested::Pulling => {
            let why = format!("Pulling bundle {} from {}", bundle.name, bundle.reference);
            return Ok(Err(Content::Pending { why }));
        }
        Requested::Waiting => {
            let why = format!("Waiting for memory to read bundle {}", bundle.name);
            return Ok(Err(Content::Pending { why }));
        }
        Requested::Failed { error, next } => (error, next),
    };
    progress.next_pull = next;
    let installed = revisions.installed().map(|r| &r.bundle);
    let is_installed = installed.is_some_and(|i| i.name == bundle.name && i.version == bundle.version);
    if is_installed && !error.is_terminal() {
        return Ok(Err(Content::Away { why: waits_for_content(bundle, &error) }));
    }
    let cause = if error.is_terminal() { Cause::terminal(&error) } else { Cause::transient(&error) };
    Err(cause.explained(error.advice().map(str::to_owned)))
}

/// Says that what the spec asks for is not known to be there, and that it is tried again.
fn waits_for_content(bundle: &BundleRecord, error: &BundleError) -> String {
    without_connections(&format!(
        "The spec asks for bundle {:?} with version {:?} in another way than it was installed, and the bundle cannot be fetched; what is installed goes on, and it is tried again: {error}",
        bundle.name,
        bundle.display_version()
    ))
}
