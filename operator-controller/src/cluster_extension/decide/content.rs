//! The content of the chosen bundle, rendered; or why there is none yet.

use std::sync::Arc;

use kube::ResourceExt;
use olm_bundle::{Bundle, BundleFiles, MEMORY_BYTES_MAX, ReadError};
use olm_bundles::{BundleError, Loaded, Requested};
use olm_render::{CertificateProvider, Options, RenderError, Rendered, render};
use olm_runtime::MemoryShare;

use crate::{
    cluster_extension::{
        Context,
        observe::{
            Observed,
            revisions::{BundleRecord, Revision, Revisions},
        },
        report::{Cause, CauseKind, Outcome, status::without_connections},
    },
    webhook_certificates,
};

/// What there is to make a revision from.
pub(crate) enum Content {
    Rendered(Box<Rendered>, MemoryShare),
    /// There is none yet, and the reconcile ends so.
    Missing(Outcome),
}

/// The rendered bundle, unless it is being pulled, or installed already and cannot be pulled now.
pub(crate) async fn content(
    cx: &Context,
    observed: &Observed<'_>,
    bundle: &BundleRecord,
) -> Result<Content, Cause> {
    let name = observed.extension.name_any();
    let revisions = &observed.revisions;
    let requested = cx.bundles.request(&name, &bundle.reference).await;
    let loaded = match arrived(bundle, requested, revisions)? {
        Ok(loaded) => loaded,
        Err(outcome) => return Ok(Content::Missing(outcome)),
    };
    let pulled = loaded.pulled.clone();
    if let Some(content) = rendered(cx, observed, bundle, loaded).await? {
        return Ok(content);
    }
    let requested = cx.bundles.request_alone(&name, &bundle.reference, pulled).await;
    match arrived(bundle, requested, revisions)? {
        Ok(loaded) => rendered(cx, observed, bundle, loaded)
            .await?
            .ok_or_else(|| Cause::transient("there is less memory for the bundle than before")),
        Err(outcome) => Ok(Content::Missing(outcome)),
    }
}

/// The files of a bundle, or how the reconcile ends without them.
fn arrived(
    bundle: &BundleRecord,
    requested: Requested,
    revisions: &Revisions,
) -> Result<Result<Loaded, Outcome>, Cause> {
    let (error, next_pull) = match requested {
        Requested::Loaded(loaded) => return Ok(Ok(loaded)),
        Requested::Pulling { elapsed, .. } => {
            let why = format!("Pulling bundle {} from {}", bundle.name, bundle.reference);
            return Ok(Err(Outcome::Pulling { why, elapsed }));
        }
        Requested::Waiting(elapsed) => {
            let why = format!("Waiting for memory to read bundle {}", bundle.name);
            return Ok(Err(Outcome::Pulling { why, elapsed }));
        }
        Requested::Failed { error, next } => (error, next),
    };
    let installed = revisions.installed().map(|r| &r.bundle);
    let is_installed = installed.is_some_and(|i| i.name == bundle.name && i.version == bundle.version);
    if is_installed && !error.is_terminal() {
        return Ok(Err(Outcome::Away { why: away(bundle, &error), next_pull }));
    }
    let cause = if error.is_terminal() { Cause::terminal(&error) } else { Cause::transient(&error) };
    Err(Cause { next_pull, explanation: error.advice().map(str::to_owned), ..cause })
}

/// Says that what the spec asks for is not known to be there, and that it is tried again.
fn away(bundle: &BundleRecord, error: &BundleError) -> String {
    let text = format!(
        "Bundle {:?} with version {:?} is installed with other settings than the spec asks for, and cannot be fetched again to apply them. What is installed keeps running; the fetch is retried: {error}",
        bundle.name,
        bundle.display_version()
    );
    without_connections(&text).into_owned()
}

/// The rendered bundle; `None` if that takes more memory than it was given and less than there is.
async fn rendered(
    cx: &Context,
    observed: &Observed<'_>,
    bundle: &BundleRecord,
    Loaded { files, memory: mut share, reading, .. }: Loaded,
) -> Result<Option<Content>, Cause> {
    let spec = &observed.extension.spec;
    let (files, memory) = (Arc::new(files), share.bytes());
    let options = Options {
        config: spec.config.as_ref().and_then(|c| c.inline.clone()),
        certificate_provider: certificate_provider(cx, bundle, (&files, memory), &observed.revisions).await?,
        features: cx.features.render,
        ..Options::new(spec.namespace.clone())
    };
    let by_digest = bundle.reference.contains('@');
    let rendered = tokio::task::spawn_blocking(move || render(Bundle::read(&files, memory)?, &options))
        .await
        .map_err(|e| Cause::transient(format!("rendering the bundle: {e}")))?;
    drop(reading);
    match rendered {
        Ok(rendered) => {
            share.shrink_to(rendered.memory);
            Ok(Some(Content::Rendered(Box::new(rendered), share)))
        }
        Err(RenderError::Bundle(ReadError::Memory { .. })) if memory < MEMORY_BYTES_MAX => Ok(None),
        Err(error) => Err(match error.reason() {
            olm_render::Reason::InvalidConfiguration => {
                Cause { kind: CauseKind::InvalidConfiguration, ..Cause::terminal(&error) }
            }
            olm_render::Reason::Blocked if by_digest => Cause::terminal(error),
            // Behind a tag another content may appear.
            olm_render::Reason::Blocked => Cause::transient(error),
        }),
    }
}

/// The provider that was chosen for this version, else the one to be chosen now.
async fn certificate_provider(
    cx: &Context,
    bundle: &BundleRecord,
    (files, memory): (&Arc<BundleFiles>, usize),
    revisions: &Revisions,
) -> Result<CertificateProvider, Cause> {
    let same = |revision: &&Revision| {
        let known = &revision.bundle;
        (&known.name, &known.version, &known.release) == (&bundle.name, &bundle.version, &bundle.release)
    };
    let chosen = revisions.latest_active().filter(same).and_then(Revision::certificate_provider);
    match chosen {
        Some(provider) => Ok(provider),
        None => webhook_certificates::choose(cx.features.certificates, files, memory, &cx.discovery)
            .await
            .map_err(Cause::transient),
    }
}
