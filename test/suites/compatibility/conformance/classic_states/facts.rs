//! What a step may have known.

use k8s_openapi::api::apps::v1::Deployment;
use olm_api_classic::{ClusterServiceVersion, OperatorCondition, OperatorGroup};
use olm_classic_core::{
    csv::{
        ApiServices, Availability, InstallFault, Installed, Phase, Replaced, Successor, View, Webhooks,
        deployments::{Check, Wanted, check},
        operator_condition::upgradeable,
        requirements::Requirements,
    },
    group::{
        membership::{Group, Membership, membership},
        provided::{Apis, apis_of, intersecting},
    },
};
use olm_test::prelude::*;

use super::record::{Event, Record};

/// Versions of an object that a cache may have held.
const VERSIONS: usize = 8;

/// The facts around one change, each in all versions that may have been known.
pub(super) struct Facts<'r> {
    record: &'r Record,
    before: &'r Event,
    after: &'r Event,
}

impl<'r> Facts<'r> {
    pub(super) fn of(record: &'r Record, before: &'r Event, after: &'r Event) -> Self {
        Self { record, before, after }
    }

    /// Every operator and view that the versions add up to.
    pub(super) fn views(&self) -> Vec<(ClusterServiceVersion, View)> {
        let mut all = Vec::new();
        let (deployments, groups) = (self.deployments(), self.groups());
        for provided in self.provided() {
            let csv = self.csv(&provided);
            for (membership, intersecting) in &groups {
                for deployments in &deployments {
                    for replaced in self.replaced() {
                        for successor in self.successors() {
                            for (conflict, availability) in self.others() {
                                let view = View {
                                    membership: Some(membership.clone()),
                                    intersecting: Some(intersecting.clone()),
                                    replaced: Some(replaced.clone()),
                                    successor: Some(successor.clone()),
                                    crd_conflict: Some(conflict),
                                    deployments: Some(deployments.clone()),
                                    api_services: Some(ApiServices {
                                        availability,
                                        ..ApiServices::default()
                                    }),
                                    ..self.view()
                                };
                                all.push((csv.clone(), view));
                            }
                        }
                    }
                }
            }
        }
        all
    }

    /// The facts that have one version.
    fn view(&self) -> View {
        let status = &self.after.status;
        let message = status["message"].as_str().unwrap_or_default();
        let fault = message.strip_prefix("install strategy failed: ").map(|cause| InstallFault {
            message: cause.to_owned(),
            is_unrecoverable: cause.contains(" is forbidden: "),
        });
        let statuses = status["requirementStatus"].as_array().cloned().unwrap_or_default();
        let is_met = |one: &Value| {
            ["Present", "DeploymentFound"].contains(&one["status"].as_str().unwrap_or_default())
        };
        let met = statuses.iter().all(is_met);
        View {
            revived: Some(self.permissions_changed()),
            requirements: Some(Ok(Requirements { met, statuses: Vec::new() })),
            certificates_due: Some(self.is_certificate_missing()),
            webhooks: Some(Webhooks::Installed),
            installed: Some(fault.map_or_else(|| Ok(Installed::default()), Err)),
            ..View::default()
        }
    }

    /// The operator before, with what its spec must have had: the record has but a part of it.
    fn csv(&self, provided: &Apis) -> ClusterServiceVersion {
        let mut spec = self.before.spec.clone();
        spec["displayName"] = "recorded".into();
        spec["install"] = json!({"strategy": "deployment"});
        spec["webhookdefinitions"] = self.webhooks();
        let crd = |api: &olm_classic_core::group::provided::Api| json!({"name": format!("recorded.{}", api.group), "version": api.version, "kind": api.kind});
        spec["customresourcedefinitions"] = json!({"owned": provided.iter().map(crd).collect::<Vec<_>>()});
        serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {
                "name": self.before.name, "namespace": self.before.ns, "annotations": self.before.annotations,
            },
            "spec": spec, "status": self.before.status,
        }))
        .unwrap()
    }

    fn key(&self) -> (String, String) {
        (self.before.namespace().to_owned(), self.before.name.clone())
    }

    /// All versions of the operator, the later ones too.
    fn history(&self) -> impl Iterator<Item = &'r Event> {
        let key = self.key();
        let all = self.record.of_kind("clusterserviceversions").filter(move |(known, _)| **known == key);
        all.flat_map(|(_, history)| history).filter(|event| event.uid == self.before.uid)
    }

    /// Webhooks that are wrong as the operator's are said to be at some time.
    fn webhooks(&self) -> Value {
        let webhook = |group: &str| {
            json!({"type": "ValidatingAdmissionWebhook", "generateName": "w", "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "rules": [{"apiGroups": [group], "resources": ["x"]}]})
        };
        let said = |text: &str| self.history().any(|event| event.status["message"] == text);
        if said("CSV contains repeated WebhookDescription name") {
            json!([webhook("a"), webhook("b")])
        } else if said("webhook rules cannot include all groups") {
            json!([webhook("*")])
        } else if said("webhook rules cannot include the OLM group") {
            json!([webhook("operators.coreos.com")])
        } else {
            json!([])
        }
    }

    /// The APIs that the operator may provide: none, or those that its group lists at some time.
    fn provided(&self) -> Vec<Apis> {
        let groups = self.record.within("operatorgroups", self.before.namespace());
        let all: Apis = groups
            .flat_map(|(_, history)| history)
            .flat_map(|event| apis_of(event.annotation("olm.providedAPIs").unwrap_or_default()))
            .collect();
        vec![Apis::new(), all]
    }

    /// The groups of the namespace and the APIs of others.
    fn groups(&self) -> Vec<(Membership, Apis)> {
        let rv = self.after.rv;
        let object = |event: &Event| -> OperatorGroup {
            serde_json::from_value(json!({
                "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {
                    "name": event.name, "namespace": event.ns, "uid": event.uid, "annotations": event.annotations,
                },
                "spec": event.spec,
                "status": if event.status["lastUpdated"].is_null() { json!({"lastUpdated": "2026-01-01T00:00:00Z"}) } else { event.status.clone() },
            }))
            .unwrap()
        };
        let newest = |(key, _): (&(String, String), _)| self.record.last("operatorgroups", key, rv, 1)[0];
        let others: Vec<Group> = self
            .record
            .of_kind("operatorgroups")
            .filter(|(key, _)| key.0 != self.before.namespace())
            .filter_map(newest)
            .map(|event| Group::of(&object(event)))
            .collect();
        let mut versions: Vec<Vec<OperatorGroup>> = vec![Vec::new()];
        for (key, _) in self.record.within("operatorgroups", self.before.namespace()) {
            let known = self.record.last("operatorgroups", key, rv, 3);
            versions = versions
                .iter()
                .flat_map(|groups| {
                    known.iter().map(|event| groups.iter().cloned().chain(event.map(object)).collect())
                })
                .collect();
        }
        let found = versions.iter().map(|groups| {
            let membership = membership(groups);
            let apis = match &membership {
                Membership::Of(group) => intersecting(group, &others),
                _ => Apis::new(),
            };
            (membership, apis)
        });
        found.collect()
    }

    /// What the check of the Deployments may have come to.
    fn deployments(&self) -> Vec<Check> {
        let key = self.key();
        let condition = self.record.last("operatorconditions", &key, self.after.rv, 1)[0];
        let names: Vec<String> = condition
            .map(|condition| {
                serde_json::from_value(condition.spec["deployments"].clone()).unwrap_or_default()
            })
            .unwrap_or_default();
        let mut found = vec![Check::Fine];
        if names.is_empty() {
            return found;
        }
        found.clear();
        for name in names {
            let key = (key.0.clone(), name.clone());
            let versions = self.record.last("deployments", &key, self.after.rv, VERSIONS);
            for version in versions {
                let deployments: Vec<_> = match version {
                    Some(version) => self
                        .templates(&name)
                        .iter()
                        .map(|pod| Some(deployment(version, pod.as_ref())))
                        .collect(),
                    None => vec![None],
                };
                for (hash, deployment) in
                    self.hashes(&key).iter().flat_map(|h| deployments.iter().map(move |d| (h, d)))
                {
                    let wanted = [Wanted { name: name.clone(), hash: hash.clone() }];
                    let annotations = self.before.annotations.clone().unwrap_or_default();
                    let result = check(&wanted, &annotations, |_| deployment.as_ref());
                    if !found.contains(&result) {
                        found.push(result);
                    }
                }
            }
        }
        found
    }

    /// The hashes that the Deployment's spec may be wanted to have.
    fn hashes(&self, key: &(String, String)) -> BTreeSet<String> {
        let all = self.record.of_kind("deployments").filter(|(known, _)| *known == key);
        let mine = all
            .flat_map(|(_, history)| history)
            .filter(|event| event.label("olm.owner") == Some(&self.before.name));
        let mut hashes: BTreeSet<String> =
            mine.filter_map(|event| event.label("olm.deployment-spec-hash")).map(str::to_owned).collect();
        if hashes.is_empty() {
            hashes.insert("none yet".to_owned());
        }
        hashes
    }

    /// The annotations that the template of a Deployment may have: the operator's, or those of a Pod.
    fn templates(&self, name: &str) -> Vec<Option<BTreeMap<String, String>>> {
        let mut all = vec![self.before.annotations.clone()];
        let of_deployment = |event: &Event| {
            event.owners.iter().flatten().any(|owner| owner.starts_with(&format!("ReplicaSet/{name}-")))
        };
        for (_, history) in self.record.within("pods", self.before.namespace()) {
            for event in history.iter().filter(|event| event.rv <= self.after.rv && of_deployment(event)) {
                if !all.contains(&event.annotations) {
                    all.push(event.annotations.clone());
                }
            }
        }
        all
    }

    fn siblings(&self) -> impl Iterator<Item = Vec<Option<&'r Event>>> {
        let keys = self.record.within("clusterserviceversions", self.before.namespace()).map(|(key, _)| key);
        let others = keys.filter(|key| key.1 != self.before.name);
        others.map(|key| {
            let mut versions = self.record.last("clusterserviceversions", key, self.after.rv, 3);
            versions.retain(|version| version.is_none_or(|event| !event.is_copy()));
            versions
        })
    }

    fn replaced(&self) -> Vec<Option<Replaced>> {
        let Some(name) = self.before.spec["replaces"].as_str() else { return vec![None] };
        let key = (self.before.namespace().to_owned(), name.to_owned());
        let mut found = Vec::new();
        for condition in self.record.last("operatorconditions", &key, self.after.rv, 3) {
            let object = condition.map(|condition| -> OperatorCondition {
                serde_json::from_value(json!({
                    "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
                    "metadata": {"name": name, "generation": condition.generation},
                    "spec": condition.spec, "status": condition.status,
                }))
                .unwrap()
            });
            for version in self.record.last("clusterserviceversions", &key, self.after.rv, 3) {
                found.push(version.map(|version| Replaced {
                    name: name.to_owned(),
                    phase: phase(version),
                    upgradeable: upgradeable(object.as_ref()),
                }));
            }
        }
        found
    }

    fn successors(&self) -> Vec<Option<Successor>> {
        let replaces = |version: &&Event| version.spec["replaces"].as_str() == Some(&self.before.name);
        let mut found = Vec::new();
        for version in self.siblings().flatten() {
            found.extend(version.filter(replaces).map(|version| {
                let phase = phase(version);
                Some(Successor { name: version.name.clone(), phase, newest: phase })
            }));
        }
        if found.is_empty() { vec![None] } else { found }
    }

    /// Whether another operator owns a CRD, in each version of the others that may have been known. The specs were recorded
    /// without CRDs: an operator owns those that its list of requirements names.
    fn conflicts(&self) -> BTreeSet<bool> {
        // Without a single report of a conflict, what two operators name is owned by one and required by the other: the
        // list of requirements does not say which.
        let mut all = self
            .record
            .within("clusterserviceversions", self.before.namespace())
            .flat_map(|(_, history)| history);
        if !all.any(|event| event.status["reason"] == "OwnerConflict") {
            return BTreeSet::from([false]);
        }
        let own = definitions(self.history());
        let all_of = |other: &Event| {
            let all = self.record.within("clusterserviceversions", self.before.namespace());
            let uid = other.uid.clone();
            definitions(all.flat_map(|(_, history)| history).filter(move |event| event.uid == uid))
        };
        let is_chain = |one: &Event, other: &Event| one.spec["replaces"].as_str() == Some(&other.name);
        let is_conflict = |other: &Event| {
            !is_chain(other, self.before)
                && !is_chain(self.before, other)
                && all_of(other).intersection(&own).next().is_some()
        };
        let mut conflicts = BTreeSet::from([false]);
        for versions in self.siblings() {
            let other: BTreeSet<bool> =
                versions.into_iter().map(|version| version.is_some_and(is_conflict)).collect();
            // Of one that was not recorded yet nothing is known.
            if !other.is_empty() {
                conflicts =
                    conflicts.iter().flat_map(|one| other.iter().map(move |other| *one || *other)).collect();
            }
        }
        conflicts
    }

    /// Whether another operator owns a CRD, and whether APIServices answer.
    fn others(&self) -> Vec<(bool, Availability)> {
        let mut availability = vec![Availability::Available];
        for (key, _) in self.record.of_kind("apiservices") {
            for version in self.record.last("apiservices", key, self.after.rv, 2).into_iter().flatten() {
                let is_mine = version.label("olm.owner") == Some(&self.before.name)
                    && version.label("olm.owner.namespace") == Some(self.before.namespace());
                let conditions = version.status["conditions"].as_array().cloned().unwrap_or_default();
                let is_down =
                    conditions.iter().any(|one| one["type"] == "Available" && one["status"] != "True");
                if is_mine && is_down {
                    availability.push(Availability::Unavailable);
                }
            }
        }
        let conflicts = self.conflicts();
        conflicts
            .iter()
            .flat_map(|conflict| availability.iter().map(|one| (*conflict, one.clone())))
            .collect()
    }

    /// Whether something of RBAC has changed since the operator failed.
    fn permissions_changed(&self) -> bool {
        ["roles", "rolebindings", "serviceaccounts"].iter().any(|kind| {
            let all = self.record.within(kind, self.before.namespace()).flat_map(|(_, history)| history);
            all.into_iter().any(|event| (self.before.rv..self.after.rv).contains(&event.rv))
        })
    }

    /// Whether the Secret of a server of the operator is missing: one that it has had, or that invalid webhooks need.
    fn is_certificate_missing(&self) -> bool {
        if self.webhooks().as_array().is_some_and(|webhooks| !webhooks.is_empty()) {
            return true;
        }
        let owner = format!("ClusterServiceVersion/{}", self.before.name);
        self.record.within("secrets", self.before.namespace()).any(|(key, history)| {
            let is_mine = history.iter().any(|event| event.owners.iter().flatten().any(|one| *one == owner));
            let newest = self.record.last("secrets", key, self.after.rv, 1)[0];
            is_mine && newest.is_none() && history.iter().any(|event| event.rv < self.after.rv)
        })
    }
}

/// The CRDs that the requirements of an operator name at some time.
fn definitions<'r>(history: impl Iterator<Item = &'r Event>) -> BTreeSet<&'r str> {
    let lists = history.filter_map(|event| event.status["requirementStatus"].as_array());
    let crds = lists.flatten().filter(|one| one["kind"] == "CustomResourceDefinition");
    crds.filter_map(|one| one["name"].as_str()).collect()
}

fn phase(event: &Event) -> Phase {
    Phase::of(event.status["phase"].as_str())
}

fn deployment(event: &Event, pod: Option<&BTreeMap<String, String>>) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": event.name, "generation": event.generation, "labels": event.labels},
        "spec": {"selector": {}, "template": {"metadata": {"annotations": pod}}},
        "status": event.status,
    }))
    .unwrap()
}
