//! The OperatorCondition of an operator: made, kept, and taken in.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::{Api, Resource, ResourceExt, api::Patch};
use olm_api_classic::{ClusterServiceVersion, OperatorCondition, OperatorConditionStatus};
use olm_classic_core::csv::operator_condition::{permissions, reported, wanted};
use olm_runtime::{api_text, bounded, patch_as, post_as};
use serde_json::json;

use super::{Observed, Reconciler};
use crate::{
    objects::{WriteError, contains, ensure},
    operators::{FIELD_MANAGER, Interest},
};

impl Reconciler {
    /// Makes the operator's OperatorCondition be there, and the permissions to write it; takes in what the operator wrote.
    pub(super) async fn ensure_condition(&self, observed: &mut Observed<'_>) -> Result<(), String> {
        let Observed { csv, namespace, name, interests, .. } = observed;
        interests.insert(Interest::Object(format!("{namespace}/{name}")));
        let api: Api<OperatorCondition> = Api::namespaced(self.client.clone(), namespace);
        let failed = |error: kube::Error| format!("OperatorCondition {name}: {}", api_text(&error));
        let known = bounded(api.get_opt(name)).await.map_err(failed)?;
        let spec = wanted(csv, known.as_ref());
        let owners = csv.controller_owner_ref(&()).map(|mut owner| {
            owner.block_owner_deletion = Some(false);
            vec![owner]
        });
        let condition = match known {
            None => {
                let mut object = OperatorCondition::new(name, spec);
                object.metadata.namespace = Some(namespace.clone());
                object.metadata.owner_references = owners;
                bounded(api.create(&post_as(FIELD_MANAGER), &object)).await.map_err(failed)?
            }
            // Something else keeps it.
            Some(known) if !is_owned(&known, csv.uid()) && is_controlled(&known) => return Ok(()),
            Some(known) if known.spec != spec || !is_owned(&known, csv.uid()) => {
                let spec = json!({"serviceAccounts": spec.service_accounts, "deployments": spec.deployments});
                let mut patch =
                    json!({"metadata": {"resourceVersion": known.metadata.resource_version}, "spec": spec});
                if !is_owned(&known, csv.uid()) {
                    patch["metadata"]["ownerReferences"] = json!(owners);
                }
                bounded(api.patch(name, &patch_as(FIELD_MANAGER), &Patch::Merge(patch)))
                    .await
                    .map_err(failed)?
            }
            Some(known) => known,
        };
        if let Some(conditions) = reported(&condition) {
            self.conditions.set_status(&condition, OperatorConditionStatus { conditions }).await?;
        }
        let (role, binding) = permissions(&condition);
        let roles: Api<Role> = Api::namespaced(self.client.clone(), namespace);
        let uid = condition.uid();
        // A role of the operator's name that is not its own is left alone: nobody is given what others wrote there.
        done(ensure(&roles, &role, |found| is_owned(found, uid.clone()), contains).await)?;
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
        done(ensure(&bindings, &binding, |found| is_owned(found, uid.clone()), contains).await)
    }
}

fn done(result: Result<(), WriteError>) -> Result<(), String> {
    match result {
        Ok(()) | Err(WriteError::Foreign(_)) => Ok(()),
        Err(WriteError::Api(error)) => {
            Err(format!("permissions of an OperatorCondition: {}", api_text(&error)))
        }
    }
}

/// Whether another controller than an operator keeps an object. One of an earlier operator of the name is taken over, as one
/// without an owner.
fn is_controlled(object: &OperatorCondition) -> bool {
    let kind = ClusterServiceVersion::kind(&());
    object.owner_references().iter().any(|owner| owner.controller == Some(true) && owner.kind != kind)
}

fn is_owned(object: &impl Resource, uid: Option<String>) -> bool {
    let uid = uid.unwrap_or_default();
    !uid.is_empty() && object.owner_references().iter().any(|owner| owner.uid == uid)
}
