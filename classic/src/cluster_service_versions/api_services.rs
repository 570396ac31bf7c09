//! The APIServices of operators: whether what serves them is there, and whether they answer.

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Pod, Secret, Service, ServiceAccount},
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec},
};
use kube::{Api, Resource, ResourceExt, api::ListParams};
use olm_classic_core::csv::{
    ApiServices, Availability, Phase,
    chain::{self, Siblings},
    disruption::is_disrupted,
    install::{
        deployments::CA_HASH_ANNOTATION,
        serving::{self, Server},
    },
};
use olm_runtime::{api_text, bounded};
use serde::de::DeserializeOwned;

use super::{Observed, Reconciler, requirements::is_available, serving::hash};
use crate::{operator_groups::owner_of, operators::Interest};

/// Most Pods of a Deployment that are looked at.
const PODS_MAX: u32 = 100;

impl Reconciler {
    /// Whether an APIService is the operator's, or that of a version which it takes the place of.
    pub(super) fn is_adoptable(&self, observed: &Observed<'_>, service: &APIService) -> bool {
        let [Some(kind), Some(namespace), Some(name)] = owner_of(service.labels()) else { return false };
        let csvs = self.siblings(observed);
        let is_chain =
            *name == observed.name || Siblings::of(&csvs).predecessors(observed.csv).contains(name.as_str());
        kind == "ClusterServiceVersion" && *namespace == observed.namespace && is_chain
    }

    /// The APIServices that the operator owns.
    pub(super) async fn api_services(
        &self,
        observed: &mut Observed<'_>,
        now: Timestamp,
    ) -> Result<ApiServices, String> {
        let mut all = ApiServices::default();
        let api: Api<APIService> = Api::all(self.client.clone());
        let servers = serving::servers(observed.csv);
        // Until it is installed nothing serves them.
        let is_checked = matches!(chain::phase(observed.csv), Phase::Succeeded | Phase::Failed);
        for one in observed.csv.spec.apiservicedefinitions.iter().flat_map(|all| &all.owned) {
            let name = format!("{}.{}", one.version, one.group);
            observed.interests.insert(Interest::Definition(name.clone()));
            let found = bounded(api.get_opt(&name)).await;
            let found = found.map_err(|error| format!("reading APIService {name}: {}", api_text(&error)))?;
            let Some(found) = found else {
                all.availability = Availability::Unavailable;
                all.faults.push(not_found::<APIService>(&name));
                continue;
            };
            if !self.is_adoptable(observed, &found) {
                all.unadoptable.push(format!("pre-existing APIService {name} is not adoptable"));
                continue;
            }
            let server =
                servers.iter().find(|server| Some(&server.deployment) == one.deployment_name.as_ref());
            if let Some(server) = server.filter(|_| is_checked) {
                all.faults
                    .extend(self.behind(observed, &found.spec.clone().unwrap_or_default(), server).await?);
            }
            if !is_available(&found) {
                all.availability = Availability::Unavailable;
            } else if !self.kinds(&one.group, &one.version).await.contains(&one.kind) {
                // The API server learns the kinds of a new server a moment later, and no event says so.
                let is_new = chain::phase(observed.csv) == Phase::Installing
                    && all.availability == Availability::Available;
                all.availability = if is_new { Availability::Disrupted } else { Availability::Unavailable };
            }
        }
        if all.availability == Availability::Unavailable && self.is_disrupted(observed, now).await? {
            all.availability = Availability::Disrupted;
        }
        Ok(all)
    }

    /// What is wrong with what serves an APIService: of what leads to its server the first fault, and everything that
    /// the server misses.
    async fn behind(
        &self,
        observed: &Observed<'_>,
        spec: &APIServiceSpec,
        server: &Server,
    ) -> Result<Vec<String>, String> {
        let namespace = &observed.namespace;
        if self.read::<Service>(namespace, &server.service).await?.is_none() {
            return Ok(vec![not_found::<Service>(&server.service)]);
        }
        let named = spec.service.as_ref().map(|one| (one.name.as_deref(), one.namespace.as_deref()));
        if named != Some((Some(&server.service), Some(namespace))) {
            return Ok(vec!["found APIService and service reference mismatch".to_owned()]);
        }
        let bundle = spec.ca_bundle.as_ref().map(|bundle| String::from_utf8_lossy(&bundle.0).into_owned());
        let expected = hash(&bundle.unwrap_or_default());
        let Some(secret) = self.read::<Secret>(namespace, &server.secret).await? else {
            return Ok(vec![not_found::<Secret>(&server.secret)]);
        };
        if secret.annotations().get(CA_HASH_ANNOTATION) != Some(&expected) {
            return Ok(vec![format!("secret {} CA cert hash does not match expected", server.secret)]);
        }
        let name = &server.deployment;
        let Some(deployment) = self.read::<Deployment>(namespace, name).await? else {
            return Ok(vec![not_found::<Deployment>(name)]);
        };
        let template = deployment.spec.and_then(|spec| spec.template.metadata);
        let annotations = template.and_then(|template| template.annotations).unwrap_or_default();
        if annotations.get(CA_HASH_ANNOTATION) != Some(&expected) {
            return Ok(vec![format!("deployment {name} CA cert hash does not match expected")]);
        }
        self.missed(observed, server).await
    }

    /// What a server of APIs misses to work.
    async fn missed(&self, observed: &Observed<'_>, server: &Server) -> Result<Vec<String>, String> {
        let (namespace, mut faults) = (&observed.namespace, Vec::new());
        if self.read::<ServiceAccount>(namespace, &server.account).await?.is_none() {
            faults.push(not_found::<ServiceAccount>(&server.account));
        }
        if self.read::<Role>(namespace, &server.secret).await?.is_none() {
            faults.push(not_found::<Role>(&server.secret));
        }
        let readers = [
            (namespace.as_str(), server.secret.clone()),
            (serving::SYSTEM_NAMESPACE, serving::reader_name(server)),
        ];
        let delegator = serving::delegator_name(server);
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        let found = bounded(bindings.get_metadata_opt(&delegator)).await;
        if found.map_err(|error| format!("reading {delegator}: {}", api_text(&error)))?.is_none() {
            faults.push(not_found::<ClusterRoleBinding>(&delegator));
        }
        for (namespace, name) in readers {
            if self.read::<RoleBinding>(namespace, &name).await?.is_none() {
                faults.push(not_found::<RoleBinding>(&name));
            }
        }
        Ok(faults)
    }

    pub(super) async fn read<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, String>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let found = bounded(api.get_opt(name)).await;
        found.map_err(|error| format!("reading {} {name}: {}", K::kind(&()), api_text(&error)))
    }

    /// Whether a Pod of the operator is on its way, so that its APIs will answer.
    async fn is_disrupted(&self, observed: &Observed<'_>, now: Timestamp) -> Result<bool, String> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &observed.namespace);
        for one in observed.csv.spec.install.spec.iter().flat_map(|spec| &spec.deployments) {
            let labels = one.spec.selector.match_labels.iter().flatten();
            let selector: Vec<_> = labels.map(|(key, value)| format!("{key}={value}")).collect();
            if selector.is_empty() {
                continue;
            }
            let params = ListParams::default().labels(&selector.join(",")).limit(PODS_MAX);
            let pods = bounded(api.list(&params)).await;
            let pods = pods.map_err(|error| format!("listing Pods: {}", api_text(&error)))?;
            if is_disrupted(&pods.items, now) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// That an object is missing, in the words in which upstream's caches say it.
pub(super) fn not_found<K: Resource<DynamicType = ()>>(name: &str) -> String {
    let (kind, group) = (K::kind(&()).to_lowercase(), K::group(&()));
    let dot = if group.is_empty() { "" } else { "." };
    format!("{kind}{dot}{group} \"{name}\" not found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_as_upstream_does() {
        assert_eq!(not_found::<Service>("a"), "service \"a\" not found");
        assert_eq!(not_found::<APIService>("v1.a"), "apiservice.apiregistration.k8s.io \"v1.a\" not found");
        assert_eq!(not_found::<Role>("a"), "role.rbac.authorization.k8s.io \"a\" not found");
    }
}
