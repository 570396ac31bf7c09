//! What an operator needs, and whether it is there.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;
use olm_api_classic::{
    ApiServiceDescription, ClusterServiceVersion, CrdDescription, DependentStatus, DeploymentPermissions,
    RequirementStatus,
};
use olm_go::json::{Html, write_value};
use olm_object::Rule;
use olm_rbac::{Held, Permission, missing};
use olm_semver::Version;
use serde_json::json;

use super::rows::strategy_error;

/// What was looked up for the requirements of an operator.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The version of Kubernetes, as the server says it; none if it did not answer.
    pub server_version: Option<String>,
    /// The CustomResourceDefinitions that exist, by name.
    pub crds: BTreeMap<String, Crd>,
    /// The kinds that are served: group, version and kind.
    pub served: BTreeSet<(String, String, String)>,
    /// The APIServices that exist, by name.
    pub api_services: BTreeMap<String, ApiService>,
    /// The ServiceAccounts that exist, by name.
    pub accounts: BTreeMap<String, Account>,
    /// The versions that the operator replaces, directly and by others.
    pub predecessors: BTreeSet<String>,
}

/// A CustomResourceDefinition.
#[derive(Debug, Clone, Default)]
pub struct Crd {
    /// Its UID.
    pub uid: String,
    /// The versions that are served.
    pub served: BTreeSet<String>,
    /// Whether it is established, and its names are accepted.
    pub is_established: bool,
    /// The ClusterServiceVersions of this namespace that it came with.
    pub alongside: BTreeSet<String>,
}

/// An APIService.
#[derive(Debug, Clone, Default)]
pub struct ApiService {
    /// Its UID.
    pub uid: String,
    /// Whether its server answers.
    pub is_available: bool,
}

/// A ServiceAccount.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Its UID.
    pub uid: String,
    /// Whether other ClusterServiceVersions own it, and this one does not.
    pub is_foreign: bool,
    /// The permissions that it holds.
    pub held: Held,
}

/// What an operator needs, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Whether all of it is there.
    pub met: bool,
    /// The list in the status.
    pub statuses: Vec<RequirementStatus>,
}

/// Group, version and kind of APIServices.
const API_SERVICE: (&str, &str, &str) = ("apiregistration.k8s.io", "v1", "APIService");
const PRESENT: &str = "Present";
const NOT_PRESENT: &str = "NotPresent";
const NOT_SATISFIED: &str = "PresentNotSatisfied";
const NOT_AVAILABLE: &str = "PresentNotAvailable";
const DEPLOYMENT_FOUND: &str = "DeploymentFound";
const SATISFIED: &str = "Satisfied";

/// Whether the status of a requirement, or of a part of it, says that it is met.
pub fn is_met(status: &str) -> bool {
    [PRESENT, DEPLOYMENT_FOUND, SATISFIED].contains(&status)
}

/// The requirements of an operator.
///
/// # Errors
/// The install strategy cannot be used.
pub fn requirements(csv: &ClusterServiceVersion, facts: &Facts) -> Result<Requirements, String> {
    if let Some(cause) = strategy_error(csv) {
        return Err(cause);
    }
    let mut list = List { all: Requirements { met: true, statuses: Vec::new() } };
    list.server_version(csv, facts);
    list.crds(csv, facts);
    list.api_services(csv, facts);
    list.native(csv, facts);
    list.accounts(csv, facts);
    Ok(list.all)
}

/// The ServiceAccounts that an operator's permissions name.
pub fn account_names(csv: &ClusterServiceVersion) -> BTreeSet<&str> {
    let strategy = csv.spec.install.spec.iter();
    let all = strategy
        .flat_map(|spec| spec.permissions.iter().flatten().chain(spec.cluster_permissions.iter().flatten()));
    all.map(|permission| permission.service_account_name.as_str()).collect()
}

struct List {
    all: Requirements,
}

/// Group, version and kind, and the name of a requirement.
type Subject<'s> = ((&'s str, &'s str, &'s str), &'s str);

impl List {
    fn push(
        &mut self,
        subject: Subject<'_>,
        met: bool,
        status: &str,
        message: impl Into<String>,
    ) -> &mut RequirementStatus {
        let ((group, version, kind), name) = subject;
        self.all.met &= met;
        self.all.statuses.push(RequirementStatus {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            status: status.to_owned(),
            message: message.into(),
            uuid: None,
            dependents: Vec::new(),
        });
        let last = self.all.statuses.len() - 1;
        &mut self.all.statuses[last]
    }

    fn server_version(&mut self, csv: &ClusterServiceVersion, facts: &Facts) {
        let Some(wanted) = csv.spec.min_kube_version.as_deref().filter(|version| !version.is_empty()) else {
            return;
        };
        let name = csv.metadata.name.as_deref().unwrap_or_default();
        let subject = (("operators.coreos.com", "v1alpha1", "ClusterServiceVersion"), name);
        let parse = |text: &str| text.strip_prefix('v').unwrap_or(text).parse::<Version>().ok();
        let Some(server) = facts.server_version.as_deref() else {
            self.push(subject, false, NOT_SATISFIED, "Server version discovery error");
            return;
        };
        let release = server.split_once('-').map_or(server, |(release, _)| release);
        let (found, least) = (parse(release), parse(wanted));
        let message = match (&found, &least) {
            (None, _) => "Server version parsing error".to_owned(),
            (_, None) => "CSV version parsing error".to_owned(),
            (Some(found), Some(least)) if least.cmp_precedence(found).is_gt() => {
                format!(
                    "CSV version requirement not met: minKubeVersion ({wanted}) > server version ({found})"
                )
            }
            _ => {
                let text = format!("CSV minKubeVersion ({wanted}) less than server version ({server})");
                self.push(subject, true, PRESENT, text);
                return;
            }
        };
        self.push(subject, false, NOT_SATISFIED, message);
    }

    fn crds(&mut self, csv: &ClusterServiceVersion, facts: &Facts) {
        let crds = csv.spec.customresourcedefinitions.as_ref();
        let mut by_name: BTreeMap<&str, (bool, &CrdDescription)> = BTreeMap::new();
        for crd in crds.into_iter().flat_map(|crds| &crds.required) {
            by_name.insert(&crd.name, (false, crd));
        }
        for crd in crds.into_iter().flat_map(|crds| &crds.owned) {
            by_name.insert(&crd.name, (true, crd));
        }
        let name = csv.metadata.name.as_deref().unwrap_or_default();
        for (crd, (is_owned, description)) in by_name {
            let subject = (("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), crd);
            let Some(found) = facts.crds.get(crd) else {
                self.push(subject, false, NOT_PRESENT, "CRD is not present");
                continue;
            };
            let others: Vec<_> = found.alongside.intersection(&facts.predecessors).cloned().collect();
            if is_owned && !found.alongside.contains(name) && !others.is_empty() {
                let text = format!("CRD installed alongside other CSV(s): {}", others.join(", "));
                self.push(subject, false, NOT_SATISFIED, text);
            } else if !found.served.contains(&description.version) {
                self.push(subject, false, NOT_PRESENT, "CRD version not served");
            } else if found.is_established {
                let text = "CRD is present and Established condition is true";
                self.push(subject, true, PRESENT, text).uuid = Some(found.uid.clone());
            } else {
                let text = "CRD is present but the Established condition is False (not available)";
                self.push(subject, false, NOT_AVAILABLE, text);
            }
        }
    }

    fn api_services(&mut self, csv: &ClusterServiceVersion, facts: &Facts) {
        let services = csv.spec.apiservicedefinitions.as_ref();
        let named =
            |list: Option<&'_ Vec<ApiServiceDescription>>| -> BTreeMap<String, ApiServiceDescription> {
                let list = list.into_iter().flatten();
                list.map(|service| (format!("{}.{}", service.version, service.group), service.clone()))
                    .collect()
            };
        let (owned, required) =
            (named(services.map(|all| &all.owned)), named(services.map(|all| &all.required)));
        for (name, service) in required.iter().filter(|(name, _)| !owned.contains_key(*name)) {
            let kind = (service.group.clone(), service.version.clone(), service.kind.clone());
            let found = facts.api_services.get(name).filter(|found| found.is_available);
            let found = found.filter(|_| facts.served.contains(&kind));
            let status = if found.is_some() { PRESENT } else { NOT_PRESENT };
            let requirement = self.push((API_SERVICE, name), found.is_some(), status, "");
            requirement.uuid = found.map(|found| found.uid.clone());
        }
        let deployments = csv.spec.install.spec.as_ref().map(|spec| &spec.deployments);
        for (name, service) in &owned {
            let wanted = service.deployment_name.as_deref();
            let exists = deployments.into_iter().flatten().any(|one| Some(one.name.as_str()) == wanted);
            let status = if exists { DEPLOYMENT_FOUND } else { "DeploymentNotFound" };
            self.push((API_SERVICE, name), exists, status, "");
        }
    }

    fn native(&mut self, csv: &ClusterServiceVersion, facts: &Facts) {
        for api in csv.spec.native_apis.iter().flatten() {
            let name = format!("{}.{}", api.version, api.group);
            let subject = ((api.group.as_str(), api.version.as_str(), api.kind.as_str()), name.as_str());
            if facts.served.contains(&(api.group.clone(), api.version.clone(), api.kind.clone())) {
                self.push(subject, true, PRESENT, "Native API exists");
            } else {
                self.push(subject, false, NOT_PRESENT, "Native API does not exist");
            }
        }
    }

    fn accounts(&mut self, csv: &ClusterServiceVersion, facts: &Facts) {
        let strategy = csv.spec.install.spec.as_ref();
        let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
        for account in account_names(csv) {
            let subject = (("", "v1", "ServiceAccount"), account);
            let Some(found) = facts.accounts.get(account) else {
                self.push(subject, false, NOT_PRESENT, "Service account does not exist");
                continue;
            };
            if found.is_foreign {
                let text = "Service account is owned by another ClusterServiceVersion";
                self.push(subject, false, NOT_SATISFIED, text);
                continue;
            }
            let mut dependents = Vec::new();
            let scopes = [
                (strategy.and_then(|spec| spec.permissions.as_ref()), namespace, "namespaced"),
                (strategy.and_then(|spec| spec.cluster_permissions.as_ref()), "", "cluster"),
            ];
            for (permissions, place, scope) in scopes {
                let of_account =
                    |permission: &&DeploymentPermissions| permission.service_account_name == account;
                let rules = permissions.into_iter().flatten().filter(of_account).flat_map(|one| &one.rules);
                dependents.extend(rules.map(|rule| dependent(rule, place, scope, &found.held)));
            }
            let met = dependents.iter().all(|dependent| dependent.status == SATISFIED);
            let (status, message) = if met {
                (PRESENT, "")
            } else {
                (NOT_SATISFIED, "Policy rule not satisfied for service account")
            };
            self.push(subject, met, status, message).dependents = dependents;
        }
    }
}

fn dependent(rule: &PolicyRule, place: &str, scope: &str, held: &Held) -> DependentStatus {
    let wanted = Permission { namespace: place.to_owned(), rule: Rule::of(&json!(rule)) };
    let satisfied = missing(std::slice::from_ref(&wanted), held).is_empty();
    DependentStatus {
        group: "rbac.authorization.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "PolicyRule".to_owned(),
        status: if satisfied { SATISFIED } else { "NotSatisfied" }.to_owned(),
        uuid: None,
        message: Some(format!("{scope} rule:{}", rule_text(rule))),
    }
}

/// A rule as Go's encoder writes it: fields in the order of its type, empty lists left out.
pub fn rule_text(rule: &PolicyRule) -> String {
    let lists = [
        ("verbs", Some(&rule.verbs)),
        ("apiGroups", rule.api_groups.as_ref()),
        ("resources", rule.resources.as_ref()),
        ("resourceNames", rule.resource_names.as_ref()),
        ("nonResourceURLs", rule.non_resource_urls.as_ref()),
    ];
    let field = |(name, list): &(&str, Option<&Vec<String>>)| {
        let list = list.filter(|list| !list.is_empty() || *name == "verbs")?;
        let mut text = Vec::new();
        write_value(&mut text, &json!(list), Html::Escaped);
        Some(format!("{:?}:{}", name, String::from_utf8_lossy(&text)))
    };
    format!("{{{}}}", lists.iter().filter_map(field).collect::<Vec<_>>().join(","))
}
