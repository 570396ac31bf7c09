//! CRD upgrade safety: may the CRDs of the new revision replace those on the cluster?

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};
use olm_crd_diff::{Policy, compare};
use olm_objectset::{ObjectKey, Phase};
use olm_runtime::bounded;

use crate::controllers::api_text;

/// Compares every CRD of `phases` with the one on the cluster, if there is one.
///
/// # Errors
/// Changes that could harm stored objects or clients, one line each; or a CRD could not be read.
pub(crate) async fn check(controller: &Client, phases: &[Phase]) -> Result<(), String> {
    let mut findings = Vec::new();
    for crd in phases.iter().flat_map(|p| &p.objects) {
        let key = ObjectKey::of(crd);
        if key.kind != "CustomResourceDefinition" || key.group != "apiextensions.k8s.io" {
            continue;
        }
        let api: Api<CustomResourceDefinition> = Api::all(controller.clone());
        let failed = |cause: String| format!("getting existing resource for CRD {:?}: {cause}", key.name);
        let Some(existing) = bounded(api.get_opt(&key.name)).await.map_err(|e| failed(api_text(&e)))? else {
            continue;
        };
        let existing = serde_json::to_value(existing).map_err(|e| failed(e.to_string()))?;
        let report = compare(&existing, crd, &Policy::Ours).map_err(|e| failed(e.to_string()))?;
        if let Some(text) = report.message(&key.name) {
            findings.push(text);
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(findings.join("\n")) }
}
