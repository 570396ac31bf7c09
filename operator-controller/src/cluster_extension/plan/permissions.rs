//! The permissions that the ServiceAccount is missing for a new revision, and those that its bundle adds.

use std::collections::BTreeSet;

use olm_objectset::Phase;
use olm_plan::{Plan, Section};
use olm_render::CertificateProvider;
use olm_runtime::AccountRef;
use olm_text::one_line;

use super::{AccountClient, Draft, refused};
use crate::{
    cluster_extension::{
        Context,
        observe::revisions::{BundleRecord, Revisions},
        report::Cause,
    },
    preflight, webhook_certificates,
};

/// Why nothing is asked as a ServiceAccount that is missing permissions.
pub(super) const MISSING: &str =
    "the ServiceAccount is missing permissions, so the API server would reject the dry run";

/// The permissions that are missing to write these phases, and why that keeps the revision from being made.
pub(super) async fn missing(
    cx: &Context,
    client: &AccountClient,
    (account, draft): (&AccountRef, &Draft),
    phases: &[Phase],
    revision: &str,
) -> (Section<Vec<olm_rbac::Permission>>, Option<Cause>) {
    let client = match client {
        _ if !cx.features.preflight_permissions => {
            return (Section::unknown("the feature gate PreflightPermissions is off"), None);
        }
        Err(why) => return (Section::unknown(why), None),
        Ok(client) => client,
    };
    let is_built_in = draft.certificate_provider == Some(CertificateProvider::BuiltIn);
    let certificates = is_built_in.then(|| webhook_certificates::secrets(phases));
    let objects: Vec<_> = phases.iter().chain(&certificates).flat_map(|phase| &phase.objects).collect();
    let verbs = preflight::Verbs::Managed(revision);
    match preflight::missing_permissions(client, &cx.controller(), &cx.discovery, &objects, verbs).await {
        Err(why) => {
            let refusal = refused(&why);
            (Section::unknown(why), Some(refusal))
        }
        Ok(missing) => {
            let refusal = (!missing.is_empty()).then(|| Cause {
                explanation: Some(granting(account, &draft.bundle)),
                ..refused(&olm_rbac::report(&missing))
            });
            (Section::Known(missing), refusal)
        }
    }
}

/// How the permissions are granted that are missing for a bundle.
fn granting(account: &AccountRef, bundle: &BundleRecord) -> String {
    let AccountRef { namespace, name } = account;
    format!(
        "Grant ServiceAccount {namespace}/{name} these permissions: \"olm bundle rbac {} -n {namespace} --service-account {name}\" prints everything that the bundle needs as manifests.",
        one_line(&bundle.reference)
    )
}

/// A sentence about permissions beyond those of the installed revision.
pub(crate) fn increase(plan: &Plan, revisions: &Revisions) -> Option<String> {
    let installed = revisions.installed()?;
    let permissions = plan.operator_permissions.known()?;
    let accounts: Vec<&str> = permissions.increase.iter().map(|one| one.service_account.as_str()).collect();
    let dangers: BTreeSet<&str> =
        permissions.increase.iter().flat_map(|one| &one.dangers).map(String::as_str).collect();
    let added: usize =
        permissions.increase.iter().map(|one| one.permissions.len() + one.foreign_roles.len()).sum();
    let dangers: Vec<String> = dangers.into_iter().map(|danger| format!("; it {danger}")).collect();
    (added > 0).then(|| {
        format!(
            "Bundle {} gives ServiceAccount {} more permissions than {} did ({added} more){}",
            plan.resolution.known().map_or("", |chosen| chosen.bundle.as_str()),
            accounts.join(", "),
            installed.bundle.name,
            dangers.concat()
        )
    })
}
