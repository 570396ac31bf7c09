//! Keeps the plan of a change that waits as an ExtensionPlan, and removes those that nothing waits for any more.

use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Preconditions},
};
use olm_api::{
    names::{EXTENSION_FIELD_MANAGER, OWNER_KIND_LABEL, OWNER_NAME_LABEL},
    v1::ClusterExtension,
    v1alpha1::{ExtensionPlan, ExtensionPlanSpec},
};
use olm_runtime::{api_text, bounded, if_exists, post_as};

use super::revision::controller_reference;
use crate::cluster_extension::{Context, decide::hold::Held};

/// Digits of the digest in the name of a plan.
const DIGITS: usize = 10;
/// Characters of the extension's name in it: a name may have 253.
const NAME_MAX: usize = 240;

/// The plans that are kept for an extension.
///
/// # Errors
/// They cannot be read.
pub(crate) async fn list(cx: &Context, extension: &ClusterExtension) -> Result<Vec<ExtensionPlan>, String> {
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", extension.name_any()));
    let listed = bounded(api(cx).list(&mine)).await;
    let listed = listed.map_err(|e| format!("listing the plans of the extension: {}", api_text(&e)))?;
    let uid = extension.uid().unwrap_or_default();
    Ok(listed.items.into_iter().filter(|plan| plan.spec.extension.uid == uid).collect())
}

/// Keeps the plan of a change that waits, and no other of those that are known.
///
/// # Errors
/// It could not be written.
pub(crate) async fn keep(cx: &Context, extension: &ClusterExtension, held: &Held) -> Result<(), String> {
    let is_kept =
        |plan: &ExtensionPlan| held.plan.as_ref().is_some_and(|spec| plan.spec.digest == spec.digest);
    if let Some(spec) = &held.plan
        && !held.present.iter().any(is_kept)
    {
        let plan = plan(extension, spec);
        let created = bounded(api(cx).create(&post_as(EXTENSION_FIELD_MANAGER), &plan)).await;
        match created {
            Ok(_) => {}
            // One of an earlier extension of the name, which goes with it, or what a request whose answer was lost wrote.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                return Err(format!("ExtensionPlan {:?} is there already", plan.name_any()));
            }
            Err(error) => return Err(format!("writing the plan of the extension: {}", api_text(&error))),
        }
    }
    for superseded in held.present.iter().filter(|plan| !is_kept(plan)) {
        remove(cx, &superseded.name_any(), superseded.uid()).await?;
    }
    Ok(())
}

/// Removes the plans of an extension for which nothing waits.
///
/// # Errors
/// One could not be removed.
pub(crate) async fn remove_all(cx: &Context, extension: &ClusterExtension) -> Result<(), String> {
    for name in cx.update_policies.plans_of(&extension.name_any()) {
        remove(cx, &name, None).await?;
    }
    Ok(())
}

async fn remove(cx: &Context, name: &str, uid: Option<String>) -> Result<(), String> {
    let preconditions = uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::background() };
    let deleted = if_exists(api(cx).delete(name, &params)).await;
    deleted.map(drop).map_err(|e| format!("deleting ExtensionPlan {name:?}: {}", api_text(&e)))
}

fn api(cx: &Context) -> Api<ExtensionPlan> {
    Api::all(cx.controller())
}

fn plan(extension: &ClusterExtension, spec: &ExtensionPlanSpec) -> ExtensionPlan {
    let mut plan = ExtensionPlan::new(&name(&extension.name_any(), &spec.digest), spec.clone());
    let owner = controller_reference::<ClusterExtension>(&extension.metadata);
    plan.metadata.owner_references = Some(vec![owner]);
    let kind = ClusterExtension::kind(&()).into_owned();
    let labels = [(OWNER_KIND_LABEL, kind), (OWNER_NAME_LABEL, extension.name_any())];
    plan.metadata.labels = Some(labels.map(|(label, value)| (label.to_owned(), value)).into());
    plan
}

/// The name of a plan: that of the extension, and the beginning of the digest.
pub(crate) fn name(extension: &str, digest: &str) -> String {
    let digits: String = digest.trim_start_matches("sha256:").chars().take(DIGITS).collect();
    let extension: String = extension.chars().take(NAME_MAX).collect();
    format!("{}-{digits}", extension.trim_end_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use olm_object::names::is_subdomain;

    use super::*;

    #[test]
    fn names_begin_with_the_extension_and_are_valid() {
        let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
        assert_eq!(name("ext", &digest), "ext-0123456789");
        for extension in ["a".repeat(253), format!("{}.{}", "a".repeat(239), "b".repeat(13))] {
            assert!(is_subdomain(&name(&extension, &digest)), "{extension}");
        }
    }
}
