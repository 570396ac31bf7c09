//! What a plan is recognised by: the digest of its steps, which a person may approve, and the seal of the program.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api_classic::{InstallPlan, InstallPlanCondition, InstallPlanStatus, Step};
use olm_object::hex;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::texts;

/// The digest of what a plan is to install: its steps without their states, and its ClusterServiceVersions.
pub fn digest(csv_names: &[String], steps: &[Step]) -> String {
    let resources: Vec<_> =
        steps.iter().map(|step| json!([step.resolving, step.resource, step.optional])).collect();
    let text = json!([csv_names, resources]).to_string();
    format!("sha256:{}", hex(&Sha256::digest(text.as_bytes())))
}

/// What a seal is made of: the plan, by UID, and the digest of what it is to install. A copy of a plan is another plan.
pub fn sealed_text(plan: &InstallPlan, status: &InstallPlanStatus) -> String {
    let meta = &plan.metadata;
    let digest = digest(&plan.spec.cluster_service_version_names, &status.plan);
    json!(["olm-classic InstallPlan", meta.uid, meta.namespace, meta.name, digest]).to_string()
}

/// Adds the condition with the seal.
pub fn add_seal(plan: &InstallPlan, status: &mut InstallPlanStatus, seal: &str, now: jiff::Timestamp) {
    status.conditions.retain(|one| one.type_.as_deref() != Some(texts::SEALED));
    status.conditions.push(InstallPlanCondition {
        type_: Some(texts::SEALED.to_owned()),
        status: Some("True".to_owned()),
        reason: Some(digest(&plan.spec.cluster_service_version_names, &status.plan)),
        message: Some(seal.to_owned()),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    });
}

/// The seal of a plan, if it has one.
pub fn seal(status: &InstallPlanStatus) -> Option<&str> {
    let sealed = status.conditions.iter().find(|one| one.type_.as_deref() == Some(texts::SEALED))?;
    sealed.message.as_deref()
}
