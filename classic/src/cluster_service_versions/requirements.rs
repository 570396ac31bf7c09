//! The facts about what an operator needs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, ResourceExt, api::ListParams};
use olm_api_classic::names::ALONGSIDE_ANNOTATION_PREFIX;
use olm_classic_core::csv::{
    chain::{Siblings, is_copy},
    install::permissions::in_all_namespaces,
    requirements::{Account, ApiService, Crd, Facts, account_names},
};
use olm_object::Rule;
use olm_rbac::Held;
use olm_runtime::{api_text, bounded};
use serde_json::json;

use super::{Observed, Reconciler, facts::cluster_permissions};
use crate::{operator_groups::owner_of, operators::Interest};

impl Reconciler {
    pub(super) async fn requirement_facts(&self, observed: &mut Observed<'_>) -> Result<Facts, String> {
        let spec = &observed.csv.spec;
        let mut facts = Facts::default();
        if spec.min_kube_version.is_some() {
            facts.server_version =
                bounded(self.client.apiserver_version()).await.ok().map(|info| info.git_version);
        }
        let crds =
            spec.customresourcedefinitions.iter().flat_map(|crds| crds.owned.iter().chain(&crds.required));
        let names: BTreeSet<String> = crds.map(|crd| crd.name.clone()).collect();
        for name in names {
            observed.interests.insert(Interest::Definition(name.clone()));
            let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
            let found = bounded(api.get_opt(&name)).await;
            let found = found.map_err(|error| format!("reading {name}: {}", api_text(&error)))?;
            facts.crds.extend(found.map(|found| (name, crd(&found, &observed.namespace))));
        }
        self.read_apis(observed, &mut facts).await?;
        let csvs = self.siblings(observed);
        facts.predecessors =
            Siblings::of(&csvs).predecessors(observed.csv).into_iter().map(str::to_owned).collect();
        let accounts: BTreeSet<String> = account_names(observed.csv).into_iter().map(str::to_owned).collect();
        if !accounts.is_empty() {
            observed.interests.insert(Interest::Permissions(observed.namespace.clone()));
            observed.interests.extend(cluster_permissions(&observed.namespace));
            facts.accounts = self.read_accounts(observed, &accounts).await?;
        }
        Ok(facts)
    }

    /// The APIServices and kinds that the operator needs.
    async fn read_apis(&self, observed: &mut Observed<'_>, facts: &mut Facts) -> Result<(), String> {
        let spec = &observed.csv.spec;
        let required: Vec<_> = spec.apiservicedefinitions.iter().flat_map(|all| &all.required).collect();
        for service in &required {
            let name = format!("{}.{}", service.version, service.group);
            observed.interests.insert(Interest::Definition(name.clone()));
            let api: Api<APIService> = Api::all(self.client.clone());
            let found = bounded(api.get_opt(&name)).await;
            let found = found.map_err(|error| format!("reading APIService {name}: {}", api_text(&error)))?;
            facts.api_services.extend(found.map(|found| {
                let uid = found.uid().unwrap_or_default();
                (name, ApiService { uid, is_available: is_available(&found) })
            }));
        }
        let native = spec.native_apis.iter().flatten().map(|api| (api.group.as_str(), api.version.as_str()));
        let versions: BTreeSet<(&str, &str)> = required
            .iter()
            .map(|service| (service.group.as_str(), service.version.as_str()))
            .chain(native)
            .collect();
        for (group, version) in versions {
            for kind in self.kinds(group, version).await {
                facts.served.insert((group.to_owned(), version.to_owned(), kind));
            }
        }
        Ok(())
    }

    /// The kinds that are served of a version; none if it is not served, or its server does not answer.
    pub(super) async fn kinds(&self, group: &str, version: &str) -> Vec<String> {
        let list = if group.is_empty() {
            bounded(self.client.list_core_api_resources(version)).await
        } else {
            bounded(self.client.list_api_group_resources(&format!("{group}/{version}"))).await
        };
        list.map(|list| list.resources.into_iter().map(|one| one.kind).collect()).unwrap_or_default()
    }

    /// The ServiceAccounts with the permissions that they hold.
    async fn read_accounts(
        &self,
        observed: &mut Observed<'_>,
        names: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Account>, String> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &observed.namespace);
        let failed = |error: kube::Error| format!("reading permissions: {}", api_text(&error));
        let mut found = BTreeMap::new();
        for name in names {
            let Some(account) = bounded(api.get_metadata_opt(name)).await.map_err(failed)? else { continue };
            let uid = observed.csv.uid().unwrap_or_default();
            let owners: Vec<_> =
                account.owner_references().iter().filter(|one| one.kind == "ClusterServiceVersion").collect();
            let is_foreign = !owners.is_empty() && !owners.iter().any(|owner| owner.uid == uid);
            let uid = account.uid().unwrap_or_default();
            found.insert(name.clone(), Account { uid, is_foreign, held: Held::default() });
        }
        if found.is_empty() {
            return Ok(found);
        }
        let (client, params, namespace) = (&self.client, ListParams::default(), &observed.namespace.clone());
        let mut roles = Roles { reconciler: self, namespace, known: BTreeMap::new() };
        // What was made because a ServiceAccount holds permissions here does not show that it holds them.
        let csvs = self.siblings(observed);
        let own = csvs.iter().filter(|csv| !is_copy(csv));
        let made: Vec<_> = own.flat_map(in_all_namespaces).collect();
        let is_made = |found: &ClusterRoleBinding| {
            made.iter().any(|(_, binding)| {
                binding.metadata.name == found.metadata.name
                    && owner_of(binding.labels()) == owner_of(found.labels())
            })
        };
        let bindings = self.stores.bindings.state();
        let parsed = bindings.iter().filter_map(|binding| binding.0.as_ref().ok());
        for binding in parsed.filter(|binding| !is_made(binding)) {
            for (name, account) in &mut found {
                if names_account(binding.subjects.as_deref(), name, namespace) {
                    account.held.cluster.extend(roles.rules(&binding.role_ref).await.map_err(failed)?);
                }
            }
        }
        let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
        for binding in bounded(bindings.list(&params)).await.map_err(failed)? {
            for (name, account) in &mut found {
                if names_account(binding.subjects.as_deref(), name, namespace) {
                    let held = account.held.namespaces.entry(namespace.clone()).or_default();
                    held.extend(roles.rules(&binding.role_ref).await.map_err(failed)?);
                }
            }
        }
        let read = roles.known.into_keys().filter(|(kind, _)| kind == "ClusterRole");
        observed.interests.extend(read.map(|(_, name)| Interest::ClusterRole(name)));
        Ok(found)
    }
}

/// The roles that bindings of a namespace refer to, each read once.
struct Roles<'r> {
    reconciler: &'r Reconciler,
    namespace: &'r str,
    known: BTreeMap<(String, String), Vec<Rule>>,
}

impl Roles<'_> {
    async fn rules(&mut self, reference: &RoleRef) -> Result<Vec<Rule>, kube::Error> {
        let key = (reference.kind.clone(), reference.name.clone());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let client = &self.reconciler.client;
        let rules = if reference.kind == "Role" {
            let api: Api<Role> = Api::namespaced(client.clone(), self.namespace);
            bounded(api.get_opt(&reference.name)).await?.and_then(|role| role.rules)
        } else {
            let api: Api<ClusterRole> = Api::all(client.clone());
            bounded(api.get_opt(&reference.name)).await?.and_then(|role| role.rules)
        };
        let rules: Vec<Rule> = rules.iter().flatten().map(|rule| Rule::of(&json!(rule))).collect();
        self.known.insert(key, rules.clone());
        Ok(rules)
    }
}

/// Whether a binding is for a ServiceAccount, by its name or by one of its groups.
fn names_account(subjects: Option<&[Subject]>, account: &str, namespace: &str) -> bool {
    let groups = [
        "system:authenticated".to_owned(),
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ];
    subjects.unwrap_or_default().iter().any(|subject| match subject.kind.as_str() {
        "ServiceAccount" => {
            subject.name == account && subject.namespace.as_deref().unwrap_or(namespace) == namespace
        }
        "Group" => groups.contains(&subject.name),
        _ => subject.name == format!("system:serviceaccount:{namespace}:{account}"),
    })
}

fn crd(found: &CustomResourceDefinition, namespace: &str) -> Crd {
    let status = found.status.clone().unwrap_or_default();
    let is = |type_: &str| {
        status.conditions.iter().flatten().any(|one| one.type_ == type_ && one.status == "True")
    };
    let alongside = found
        .annotations()
        .iter()
        .filter(|(key, _)| key.starts_with(ALONGSIDE_ANNOTATION_PREFIX))
        .filter_map(|(_, place)| place.split_once('/'))
        .filter(|(place, _)| *place == namespace)
        .map(|(_, name)| name.to_owned());
    Crd {
        uid: found.uid().unwrap_or_default(),
        served: found.spec.versions.iter().filter(|one| one.served).map(|one| one.name.clone()).collect(),
        is_established: is("Established") && is("NamesAccepted"),
        alongside: alongside.collect(),
    }
}

/// Whether the server of an APIService answers.
pub(super) fn is_available(service: &APIService) -> bool {
    let conditions = service.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Available" && one.status == "True")
}
