//! What an operator reports of itself, and its administrator overrides: whether it may be replaced.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference},
};
use kube::Resource;
use olm_api_classic::{
    ClusterServiceVersion, OperatorCondition, OperatorConditionSpec,
    names::{GROUP, MANAGED_LABEL},
};

/// The condition that decides whether an operator may be replaced.
const UPGRADEABLE: &str = "Upgradeable";
/// The ServiceAccount of Deployments that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// Whether an operator may be replaced.
///
/// # Errors
/// Why not.
pub fn upgradeable(condition: Option<&OperatorCondition>) -> Result<(), String> {
    let Some(condition) = condition else { return Ok(()) };
    let refused = |message: &str| Err(format!("the operator is not upgradeable: {message}"));
    if let Some(set) = condition.spec.overrides.iter().find(|one| one.type_ == UPGRADEABLE) {
        return if set.status == "True" { Ok(()) } else { refused(&set.message) };
    }
    let reported = condition.status.iter().flat_map(|status| &status.conditions);
    match reported.into_iter().find(|one| one.type_ == UPGRADEABLE) {
        Some(one) if one.observed_generation != condition.metadata.generation => {
            Err(format!("the operatorcondition status \"{UPGRADEABLE}\"=\"{}\" is outdated", one.status))
        }
        Some(one) if one.status == "False" => refused(&one.message),
        _ => Ok(()),
    }
}

/// The conditions in the status: those that the operator set, taken in at the generation of the object. None if they
/// are there.
pub fn reported(condition: &OperatorCondition) -> Option<Vec<Condition>> {
    let generation = condition.metadata.generation;
    let mut after: Vec<Condition> =
        condition.status.iter().flat_map(|status| status.conditions.clone()).collect();
    let before = after.clone();
    for set in &condition.spec.conditions {
        let taken = Condition { observed_generation: generation, ..set.clone() };
        match after.iter_mut().find(|one| one.type_ == set.type_) {
            Some(known) if known.status == set.status && known.observed_generation == generation => {}
            Some(known) => *known = taken,
            None => after.push(taken),
        }
    }
    (after != before).then_some(after)
}

/// The spec of the object of an operator: its ServiceAccounts and Deployments. What the operator and its administrator
/// wrote into `known` stays.
pub fn wanted(csv: &ClusterServiceVersion, known: Option<&OperatorCondition>) -> OperatorConditionSpec {
    let strategy = csv.spec.install.spec.as_ref();
    let accounts = strategy.into_iter().flat_map(|spec| {
        let all = spec.cluster_permissions.iter().flatten().chain(spec.permissions.iter().flatten());
        all.map(|permission| permission.service_account_name.clone())
    });
    let mut service_accounts: Vec<_> = accounts.collect();
    if service_accounts.is_empty() {
        service_accounts.push(DEFAULT_ACCOUNT.to_owned());
    }
    let deployments = strategy.into_iter().flat_map(|spec| &spec.deployments);
    OperatorConditionSpec {
        service_accounts,
        deployments: deployments.map(|deployment| deployment.name.clone()).collect(),
        ..known.map(|known| known.spec.clone()).unwrap_or_default()
    }
}

/// The Role and RoleBinding that let an operator write its object, and nothing else.
pub fn permissions(condition: &OperatorCondition) -> (Role, RoleBinding) {
    let name = condition.metadata.name.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: condition.metadata.namespace.clone(),
        labels: Some(BTreeMap::from([(MANAGED_LABEL.to_owned(), "true".to_owned())])),
        owner_references: Some(vec![OwnerReference {
            api_version: OperatorCondition::api_version(&()).into_owned(),
            kind: OperatorCondition::kind(&()).into_owned(),
            name: name.clone(),
            uid: condition.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(false),
        }]),
        ..ObjectMeta::default()
    };
    let rule = PolicyRule {
        api_groups: Some(vec![GROUP.to_owned()]),
        resources: Some(vec!["operatorconditions".to_owned()]),
        resource_names: Some(vec![name.clone()]),
        verbs: ["get", "update", "patch"].map(str::to_owned).to_vec(),
        non_resource_urls: None,
    };
    let subject = |account: &String| Subject {
        kind: "ServiceAccount".to_owned(),
        name: account.clone(),
        ..Subject::default()
    };
    let binding = RoleBinding {
        metadata: metadata.clone(),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Role".to_owned(),
            name,
        },
        subjects: Some(condition.spec.service_accounts.iter().map(subject).collect()),
    };
    (Role { metadata, rules: Some(vec![rule]) }, binding)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn condition(overrides: &Value, status: &Value) -> OperatorCondition {
        serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
            "metadata": {"name": "a", "generation": 3},
            "spec": {"overrides": overrides}, "status": {"conditions": status},
        }))
        .unwrap()
    }

    fn one(status: &str, generation: i64, message: &str) -> Value {
        json!([{"type": "Upgradeable", "status": status, "reason": "R", "message": message,
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    }

    #[test]
    fn every_row_of_the_upgrade_gate() {
        let set = |status: &str| one(status, 0, "set");
        let says = |status: &str, generation| one(status, generation, "busy");
        let none = || json!([]);
        let (overridden, busy) =
            ("the operator is not upgradeable: set", "the operator is not upgradeable: busy");
        let outdated = "the operatorcondition status \"Upgradeable\"=\"True\" is outdated";
        let rows = [
            (set("True"), says("False", 3), None),
            (set("True"), says("False", 2), None),
            (set("False"), says("True", 3), Some(overridden)),
            (set("Unknown"), says("False", 3), Some(overridden)),
            (none(), says("True", 2), Some(outdated)),
            (none(), says("False", 3), Some(busy)),
            (none(), says("True", 3), None),
            (none(), says("Unknown", 3), None),
            (none(), none(), None),
        ];
        for (overrides, status, refused) in rows {
            let found = upgradeable(Some(&condition(&overrides, &status)));
            assert_eq!(found.err().as_deref(), refused, "{overrides} {status}");
        }
        assert_eq!(upgradeable(None), Ok(()));
    }

    #[test]
    fn conditions_are_taken_in_at_the_generation_of_the_object() {
        let mut object = condition(&json!([]), &json!([]));
        object.spec.conditions = serde_json::from_value(one("True", 0, "busy")).unwrap();
        let taken = reported(&object).unwrap();
        assert_eq!(taken[0].observed_generation, Some(3));
        object.status.get_or_insert_default().conditions = taken;
        assert_eq!(reported(&object), None);
        object.metadata.generation = Some(4);
        assert_eq!(reported(&object).unwrap()[0].observed_generation, Some(4));
    }
}
