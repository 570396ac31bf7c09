//! The controller of OperatorGroups: finds their namespaces, labels those, makes the ClusterRoles of the APIs that the
//! operators of a group provide, and reports.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Namespace, ServiceAccount},
    rbac::v1::ClusterRole,
};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::PartialObjectMeta,
};
use olm_api_classic::{
    ClusterServiceVersion, OperatorGroup,
    names::{OWNER_KIND_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL, PROVIDED_APIS_ANNOTATION},
};
use olm_classic_core::{
    csv::{Phase, chain},
    group::{
        membership::Group,
        provided::{self, Apis, Member, pruned},
        roles::{LEVELS, group_role_name, group_roles},
        status::{Findings, status},
        targets::{NAMESPACE_LABEL_PREFIX, Namespaces, namespace_labels, selector, targets},
    },
};
use olm_objectset::label_selector_matches;
use olm_runtime::{Clock, Next, ObjectWriter, api_text, bounded, if_exists, patch_as};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    objects::{WriteError, contains, delete, ensure},
    operators::{FIELD_MANAGER, Interest, Stores, all, within},
};

/// The APIService of PackageManifests.
const PACKAGES: &str = "v1.packages.operators.coreos.com";
/// Between two attempts to remove what belonged to groups that are gone.
const SWEEP_RETRY: Duration = Duration::from_secs(10);

/// Everything a reconcile needs.
#[derive(Clone)]
pub(crate) struct Reconciler {
    pub(crate) client: Client,
    pub(crate) stores: Stores,
    pub(crate) objects: Arc<ObjectWriter<OperatorGroup>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) leader: watch::Receiver<bool>,
}

impl olm_runtime::Reconciler for Reconciler {
    type Object = OperatorGroup;
    type Interest = Interest;

    const CONDITION: &'static str = "MultipleOperatorGroup";

    fn state(group: &OperatorGroup) -> Option<(&str, &str)> {
        let conditions = &group.status.as_ref()?.conditions;
        let condition = conditions.iter().find(|condition| condition.type_ == Self::CONDITION)?;
        Some((&condition.status, &condition.reason))
    }

    async fn reconcile(&self, group: &OperatorGroup) -> (Next, BTreeSet<Interest>) {
        let namespace = group.namespace().unwrap_or_default();
        if let Some(left) = self.objects.behind(group) {
            return (Next::After(left), BTreeSet::from([Interest::Part]));
        }
        if !*self.leader.borrow() || group.metadata.deletion_timestamp.is_some() {
            return (Next::Await, BTreeSet::from([Interest::Part]));
        }
        let roles = LEVELS
            .map(|(level, _)| Interest::ClusterRole(group_role_name(&namespace, &group.name_any(), level)));
        let interests = [
            Interest::Part,
            Interest::Namespaces,
            Interest::Csvs(namespace.clone()),
            Interest::Groups(namespace.clone()),
            Interest::Permissions(namespace),
        ];
        let next = match Box::pin(self.settle(group)).await {
            Ok(next) => next,
            Err(error) => Next::Retry(error),
        };
        (next, interests.into_iter().chain(roles).collect())
    }

    async fn report_panic(&self, _: &OperatorGroup) {}
}

impl Reconciler {
    async fn settle(&self, group: &OperatorGroup) -> Result<Next, String> {
        let namespace = group.namespace().unwrap_or_default();
        let found = targets(&group.spec, || self.matching(group));
        let findings = Findings {
            has_others: within(&self.stores.groups, &namespace).len() > 1,
            service_account: self.account(group, &namespace).await?,
            targets: found.clone().ok(),
        };
        let after = status(group, &findings, now(&self.clock));
        let written = self.objects.set_status(group, after).await?;
        let group = written.as_ref().unwrap_or(group);
        let known = Group::of(group);
        self.label_namespaces().await?;
        self.ensure_roles(&known).await?;
        self.prune(group, &known).await?;
        Ok(found.map_or_else(Next::Blocked, |_| Next::Await))
    }

    /// The namespaces that the selector of a group matches.
    fn matching(&self, group: &OperatorGroup) -> Namespaces {
        let Some(selector) = selector(&group.spec) else { return Namespaces::new() };
        let matches = |namespace: &Namespace| {
            label_selector_matches(selector, |key| namespace.labels().get(key).map(String::as_str))
        };
        all(&self.stores.namespaces)
            .into_iter()
            .filter(matches)
            .map(|namespace| namespace.name_any())
            .collect()
    }

    /// The UID of the group's ServiceAccount.
    async fn account(&self, group: &OperatorGroup, namespace: &str) -> Result<Option<String>, String> {
        let Some(name) = group.spec.service_account_name.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let found = bounded(api.get_metadata_opt(name)).await;
        let found = found.map_err(|error| format!("reading ServiceAccount {name}: {}", api_text(&error)))?;
        Ok(found.and_then(|account| account.uid()))
    }

    /// Gives every namespace the labels of the groups that select it, and takes those of others away.
    async fn label_namespaces(&self) -> Result<(), String> {
        let groups: Vec<(String, Namespaces)> = all(&self.stores.groups)
            .iter()
            .map(|group| (group.uid().unwrap_or_default(), Group::of(group).targets))
            .collect();
        let api: Api<Namespace> = Api::all(self.client.clone());
        for namespace in all(&self.stores.namespaces) {
            let name = namespace.name_any();
            let wanted = namespace_labels(&name, groups.iter().map(|(uid, targets)| (uid.as_str(), targets)));
            let known: BTreeSet<String> = namespace
                .labels()
                .keys()
                .filter(|label| label.starts_with(NAMESPACE_LABEL_PREFIX))
                .cloned()
                .collect();
            if known == wanted || namespace.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let removed = known.difference(&wanted).map(|label| (label.clone(), Value::Null));
            let added = wanted.difference(&known).map(|label| (label.clone(), Value::from("")));
            let labels: serde_json::Map<String, Value> = removed.chain(added).collect();
            let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
            let written = if_exists(api.patch(&name, &patch_as(FIELD_MANAGER), &patch)).await;
            written.map_err(|error| format!("labelling Namespace {name}: {}", api_text(&error)))?;
        }
        Ok(())
    }

    /// Makes the ClusterRoles that gather those of the group's APIs.
    async fn ensure_roles(&self, group: &Group) -> Result<(), String> {
        let api: Api<ClusterRole> = Api::all(self.client.clone());
        for role in group_roles(group) {
            let ours = |found: &ClusterRole| owner_of(found.labels()) == owner_of(role.labels());
            let same = |found: &Value, wanted: &Value| {
                found["aggregationRule"] == wanted["aggregationRule"]
                    && contains(&found["rules"], &wanted["rules"])
                    && contains(&found["metadata"], &wanted["metadata"])
            };
            ensure(&api, &role, ours, same).await.map_err(|error| text(&role.name_any(), &error))?;
        }
        Ok(())
    }

    /// Takes APIs that no operator of the group provides any more out of its list.
    async fn prune(&self, group: &OperatorGroup, known: &Group) -> Result<(), String> {
        let members: Vec<Member> =
            within(&self.stores.csvs, &known.namespace).iter().filter_map(member).collect();
        let Some(apis) = pruned(known, &members) else { return Ok(()) };
        set_provided(&self.client, group, &apis).await
    }

    /// Removes what was made for groups and operators that are gone, until `shutdown`: when this process leads and they are
    /// `listed`, for those that went while nobody looked, and whenever one is `gone`.
    pub(crate) async fn sweep(
        self,
        listed: impl Future<Output = ()>,
        gone: Arc<Notify>,
        shutdown: CancellationToken,
    ) {
        let mut leader = self.leader.clone();
        let work = async {
            listed.await;
            while leader.wait_for(|leads| *leads).await.is_ok() {
                while let Err(error) = self.sweep_all().await {
                    tracing::warn!(
                        error,
                        "what belonged to deleted OperatorGroups or operators stays for now"
                    );
                    tokio::time::sleep(SWEEP_RETRY).await;
                }
                gone.notified().await;
            }
        };
        shutdown.run_until_cancelled(work).await;
    }

    /// Removes the APIServices of operators that do not exist. That of PackageManifests is this program's own, whatever
    /// labels upstream left on it.
    async fn sweep_services(&self) -> Result<(), kube::Error> {
        let services: Api<APIService> = Api::all(self.client.clone());
        let labels = format!("{OWNER_KIND_LABEL}=ClusterServiceVersion");
        let found = bounded(services.list_metadata(&ListParams::default().labels(&labels))).await?.items;
        if found.is_empty() {
            return Ok(());
        }
        // An APIService is younger than its operator.
        let csvs: Api<ClusterServiceVersion> = Api::all(self.client.clone());
        let existing = bounded(csvs.list_metadata(&ListParams::default())).await?.items;
        let existing: BTreeSet<(String, String)> =
            existing.iter().map(|csv| (csv.namespace().unwrap_or_default(), csv.name_any())).collect();
        let is_lost = |service: &&PartialObjectMeta<APIService>| {
            let [_, Some(namespace), Some(name)] = owner_of(service.labels()) else { return false };
            service.name_any() != PACKAGES && !existing.contains(&(namespace.clone(), name.clone()))
        };
        for service in found.iter().filter(is_lost) {
            delete(&services, service).await?;
        }
        Ok(())
    }

    /// Removes the ClusterRoles and labels of groups, and the APIServices of operators, that do not exist.
    async fn sweep_all(&self) -> Result<(), String> {
        self.sweep_services().await.map_err(|error| api_text(&error))?;
        let failed = |error: kube::Error| api_text(&error);
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let of_groups = ListParams::default().labels(&format!("{OWNER_KIND_LABEL}=OperatorGroup"));
        let found = bounded(roles.list_metadata(&of_groups)).await.map_err(failed)?.items;
        if !found.is_empty() {
            // A role is younger than its group, so that groups are listed after the roles.
            let groups: Api<OperatorGroup> = Api::all(self.client.clone());
            let existing = bounded(groups.list_metadata(&ListParams::default())).await.map_err(failed)?;
            let existing: BTreeSet<(String, String)> = existing
                .items
                .iter()
                .map(|group| (group.namespace().unwrap_or_default(), group.name_any()))
                .collect();
            let is_lost = |role: &&PartialObjectMeta<ClusterRole>| {
                let [_, Some(namespace), Some(name)] = owner_of(role.labels()) else { return false };
                let names = LEVELS.map(|(level, _)| group_role_name(namespace, name, level));
                names.contains(&role.name_any()) && !existing.contains(&(namespace.clone(), name.clone()))
            };
            for role in found.iter().filter(is_lost) {
                delete(&roles, role).await.map_err(failed)?;
            }
        }
        self.label_namespaces().await
    }
}

/// Sets the APIs that a group lists, as they were looked at.
pub(crate) async fn set_provided(client: &Client, group: &OperatorGroup, apis: &Apis) -> Result<(), String> {
    let api: Api<OperatorGroup> = Api::namespaced(client.clone(), &group.namespace().unwrap_or_default());
    let patch = json!({"metadata": {
        "resourceVersion": group.metadata.resource_version,
        "annotations": {PROVIDED_APIS_ANNOTATION: provided::annotation(apis)},
    }});
    let params: PatchParams = patch_as(FIELD_MANAGER);
    let written = if_exists(api.patch(&group.name_any(), &params, &Patch::Merge(patch))).await;
    written
        .map(|_| ())
        .map_err(|error| format!("writing the APIs of {}: {}", group.name_any(), api_text(&error)))
}

/// An operator, as far as it matters to the APIs of its group.
fn member(csv: &ClusterServiceVersion) -> Option<Member> {
    let is_deleted = csv.metadata.deletion_timestamp.is_some();
    let is_new = matches!(chain::phase(csv), Phase::None | Phase::Pending) && !is_deleted;
    let apis = provided::apis(csv).ok().filter(|_| !chain::is_copy(csv))?;
    Some(Member { provided: apis.provided, is_new })
}

/// The owner that labels name.
pub(crate) fn owner_of(labels: &std::collections::BTreeMap<String, String>) -> [Option<&String>; 3] {
    [OWNER_KIND_LABEL, OWNER_NAMESPACE_LABEL, OWNER_LABEL].map(|label| labels.get(label))
}

fn text(name: &str, error: &WriteError) -> String {
    match error {
        WriteError::Foreign(text) => text.clone(),
        WriteError::Api(error) => format!("writing {name}: {}", api_text(error)),
    }
}

/// A time of the API, in whole seconds.
pub(crate) fn now(clock: &Arc<dyn Clock>) -> Timestamp {
    let now = clock.now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
