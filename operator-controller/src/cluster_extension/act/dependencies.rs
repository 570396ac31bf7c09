//! Creates the extensions that a bundle requires, and removes those that nothing needs any more.

use jiff::{SignedDuration, Timestamp};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Preconditions},
};
use olm_api::{
    names::{IDENTITY_ANNOTATION, PROGRAM_FIELD_MANAGER},
    v1::ClusterExtension,
};
use olm_runtime::{api_text, bounded, post_as};

use crate::facts::readable;
use crate::{
    cluster_extension::{
        Context, annotations,
        decide::dependencies::{install::is_unneeded, needs},
        observe::identity::Record,
        report::Cause,
    },
    interest::{Interest, Wanted},
};

/// How soon a removal that was refused is tried again, should no event come.
const REFUSED_RETRY: SignedDuration = SignedDuration::from_mins(1);

/// Creates the extensions that `needy` needs.
///
/// # Errors
/// One could not be created. Those before it stay: the next reconcile finds them.
pub(crate) async fn create(
    cx: &Context,
    needy: &ClusterExtension,
    extensions: &[ClusterExtension],
) -> Result<(), Cause> {
    let unknown = || Cause::transient("the ServiceAccount of the extension is not recorded yet");
    // They use the very ServiceAccount and namespace that this one does, whatever becomes of the names or of the default.
    let record = Record { generation: 1, ..Record::of(needy).ok_or_else(unknown)? }.text();
    // Else the first of them might find that nothing needs it.
    cx.installed.set_settled(needy.metadata.uid.as_deref().unwrap_or_default(), false);
    let api: Api<ClusterExtension> = Api::all(cx.controller());
    for extension in extensions {
        let mut extension = extension.clone();
        extension.annotations_mut().insert(IDENTITY_ANNOTATION.to_owned(), record.clone());
        let created = bounded(api.create(&post_as(PROGRAM_FIELD_MANAGER), &extension)).await;
        created.map_err(|error| {
            let text = format!("creating ClusterExtension {:?}: {}", extension.name_any(), api_text(&error));
            Cause::transient(text)
        })?;
        tracing::info!(
            extension = needy.name_any(),
            created = extension.name_any(),
            "required by its bundle"
        );
    }
    Ok(())
}

/// What becomes of an extension that was created for another one.
pub(crate) enum Removal {
    /// It stays.
    Needed,
    /// It is being deleted, or another write came first: the event of that causes the next reconcile.
    Begun,
    /// Its deletion was refused: why, and when it is tried again.
    Refused(String, Timestamp),
}

/// Deletes an extension if it was created for another one and nothing needs it any more.
pub(crate) async fn remove_unneeded(cx: &Context, extension: &ClusterExtension, wanted: &Wanted) -> Removal {
    let now = cx.clock.now();
    if annotations::removed_with(extension).is_none() || annotations::is_paused(extension, now) {
        return Removal::Needed;
    }
    wanted.add([Interest::Extensions, Interest::Installed, Interest::Removed]);
    let state = cx.extensions.state();
    let all: Vec<&ClusterExtension> = readable(&state).collect();
    let is_settled = |uid: &str| cx.installed.is_settled(uid);
    // Who cannot be read may need it.
    let is_known = all.len() == state.len();
    let needs = needs(cx).filter(|_| is_known);
    if !needs.is_some_and(|needs| is_unneeded(extension, &all, &needs, is_settled)) {
        return Removal::Needed;
    }
    // Not if a user has edited it meanwhile.
    let preconditions =
        Preconditions { uid: extension.uid(), resource_version: extension.resource_version() };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    let api: Api<ClusterExtension> = Api::all(cx.controller());
    match bounded(api.delete(&extension.name_any(), &params)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Removal::Begun,
        Err(error) => Removal::Refused(
            format!(
                "Nothing needs this extension any more, and it cannot be removed yet: {}",
                api_text(&error)
            ),
            now.saturating_add(REFUSED_RETRY).unwrap_or(now),
        ),
        Ok(_) => {
            tracing::info!(extension = extension.name_any(), "nothing needs it any more");
            Removal::Begun
        }
    }
}
