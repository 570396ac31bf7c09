//! The effects of steps.

use k8s_openapi::api::{
    apps::v1::Deployment,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::OwnerReference,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, Preconditions},
    runtime::reflector::ObjectRef,
};
use olm_api_classic::{ClusterServiceVersion, names::COPIED_FROM_LABEL};
use olm_classic_core::{
    csv::{Effect, install::permissions},
    group::{
        membership::Group,
        provided::Api as ProvidedApi,
        roles::{ProvidedResource, api_roles},
        targets::is_global,
    },
};
use olm_runtime::{api_text, bounded, if_exists, patch_as};
use serde_json::{Value, json};

use super::{Observed, Reconciler, cleanup::owner_selector};
use crate::{
    objects::{WriteError, contains, delete_labelled, ensure},
    operator_groups::{owner_of, set_provided},
    operators::{FIELD_MANAGER, Interest, within},
};

impl Reconciler {
    pub(super) async fn effect(&self, observed: &mut Observed<'_>, effect: &Effect) -> Result<(), String> {
        match effect {
            Effect::Ask(_) => Ok(()),
            Effect::Annotate(group) => self.annotate(observed, group).await,
            Effect::Provide(apis) => {
                let groups = within(&self.stores.groups, &observed.namespace);
                let [group] = groups.as_slice() else { return Ok(()) };
                set_provided(&self.client, group, apis).await
            }
            Effect::DeleteDeployments => self.delete_deployments(observed).await,
            Effect::EnsureApiRoles => self.ensure_roles(observed).await,
            Effect::CountUpgrade => {
                self.metrics.upgraded();
                Ok(())
            }
            Effect::Delete => {
                let preconditions = Preconditions { uid: observed.csv.uid(), resource_version: None };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                let api: Api<ClusterServiceVersion> =
                    Api::namespaced(self.client.clone(), &observed.namespace);
                let deleted = if_exists(api.delete(&observed.name, &params)).await;
                deleted.map(|_| ()).map_err(|error| format!("deleting: {}", api_text(&error)))
            }
            Effect::Event { is_warning, reason, message } => {
                self.events.publish(&observed.csv.object_ref(&()), *is_warning, reason, message).await;
                Ok(())
            }
        }
    }

    async fn annotate(&self, observed: &Observed<'_>, group: &Group) -> Result<(), String> {
        let annotations: serde_json::Map<String, Value> =
            group.annotations().into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
        let patch = json!({"metadata": {
            "resourceVersion": observed.csv.metadata.resource_version, "annotations": annotations,
        }});
        let api: Api<ClusterServiceVersion> = Api::namespaced(self.client.clone(), &observed.namespace);
        let written =
            if_exists(api.patch(&observed.name, &patch_as(FIELD_MANAGER), &Patch::Merge(patch))).await;
        written.map(|_| ()).map_err(|error| format!("writing annotations: {}", api_text(&error)))
    }

    /// Deletes the Deployments of an operator that must not run.
    async fn delete_deployments(&self, observed: &Observed<'_>) -> Result<(), String> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &observed.namespace);
        let labels = owner_selector(&observed.namespace, &observed.name);
        let uid = observed.csv.uid().unwrap_or_default();
        let is_own = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
            meta.owner_references.iter().flatten().any(|owner| owner.uid == uid)
        };
        let deleted = delete_labelled(&api, &labels, is_own, |_| api.clone()).await;
        deleted.map(|_| ()).map_err(|error| format!("deleting Deployments: {}", api_text(&error)))
    }

    /// Makes the roles of the operator's APIs, and of its permissions in the namespaces that it serves: once for each
    /// generation and the namespaces that exist, until one of the roles changes.
    async fn ensure_roles(&self, observed: &mut Observed<'_>) -> Result<(), String> {
        let Some(group) = observed.group.clone() else { return Ok(()) };
        let uid = observed.csv.uid().unwrap_or_default();
        let targets = group.targets.iter().filter(|name| !name.is_empty() && **name != observed.namespace);
        let mut existing = Vec::new();
        for name in targets {
            observed.interests.insert(Interest::Namespace(name.clone()));
            let found = self.stores.namespaces.get(&ObjectRef::new(name));
            existing.push((name, found.and_then(|namespace| namespace.uid())));
        }
        let state = format!("{:?} {:?} {existing:?}", observed.csv.metadata.generation, group.targets);
        let belongings = Interest::Belongings(format!("{}/{}", observed.namespace, observed.name));
        let parts = definitions(observed.csv).map(Interest::Definition).chain([belongings]).collect();
        if !self.ensured.begin(&uid, state, parts) {
            return Ok(());
        }
        let made = self.make_roles(observed, &group).await;
        if made.is_err() {
            self.ensured.forget(&uid);
        }
        made
    }

    async fn make_roles(&self, observed: &Observed<'_>, group: &Group) -> Result<(), String> {
        for resource in self.provided(observed).await? {
            let api: Api<ClusterRole> = Api::all(self.client.clone());
            for role in api_roles(&resource) {
                // A role of that name that was not made for the API is left alone.
                let ours = |found: &ClusterRole| {
                    found.owner_references().iter().any(|one| one.uid == resource.owner.uid)
                };
                done(ensure(&api, &role, ours, contains).await, &role.name_any())?;
            }
        }
        self.ensure_permissions(observed, group).await
    }

    /// The resources that the operator provides, as the cluster has them: its own words give no permissions.
    async fn provided(&self, observed: &Observed<'_>) -> Result<Vec<ProvidedResource>, String> {
        let mut found = Vec::new();
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for crd in observed.csv.spec.customresourcedefinitions.iter().flat_map(|crds| &crds.owned) {
            let Some(definition) = read(&definitions, &crd.name).await? else { continue };
            let (group, names) = (definition.spec.group.clone(), definition.spec.names.clone());
            found.push(ProvidedResource {
                api: ProvidedApi { kind: names.kind, version: crd.version.clone(), group },
                plural: names.plural,
                prefix: crd.name.clone(),
                owner: owner(&definition),
                is_crd: true,
            });
        }
        let services: Api<APIService> = Api::all(self.client.clone());
        for service in observed.csv.spec.apiservicedefinitions.iter().flat_map(|all| &all.owned) {
            let name = format!("{}.{}", service.version, service.group);
            let Some(object) = read(&services, &name).await? else { continue };
            found.push(ProvidedResource {
                api: ProvidedApi {
                    kind: service.kind.clone(),
                    version: service.version.clone(),
                    group: service.group.clone(),
                },
                plural: service.name.clone(),
                prefix: service.name.clone(),
                owner: owner(&object),
                is_crd: false,
            });
        }
        Ok(found)
    }

    /// Gives the operator its permissions where it serves, and takes them where it does not any more.
    pub(super) async fn ensure_permissions(
        &self,
        observed: &Observed<'_>,
        group: &Group,
    ) -> Result<(), String> {
        let (csv, client) = (observed.csv, &self.client);
        let served =
            if is_global(&group.targets) { std::collections::BTreeSet::new() } else { group.targets.clone() };
        if is_global(&group.targets) {
            let (roles, bindings): (Api<ClusterRole>, Api<ClusterRoleBinding>) =
                (Api::all(client.clone()), Api::all(client.clone()));
            for (role, binding) in permissions::in_all_namespaces(csv) {
                let wanted = owner_of(role.labels());
                let result = ensure(&roles, &role, |one| owner_of(one.labels()) == wanted, contains).await;
                done(result, &role.name_any())?;
                let result =
                    ensure(&bindings, &binding, |one| owner_of(one.labels()) == wanted, contains).await;
                done(result, &binding.name_any())?;
            }
        }
        for namespace in served.iter().filter(|namespace| **namespace != observed.namespace) {
            let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
            let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
            for (role, binding) in permissions::in_namespace(csv, namespace) {
                let wanted = owner_of(role.labels());
                let result = ensure(&roles, &role, |one| owner_of(one.labels()) == wanted, contains).await;
                if matches!(&result, Err(WriteError::Api(kube::Error::Api(status))) if status.code == 404) {
                    // The namespace does not exist (yet).
                    continue;
                }
                done(result, &role.name_any())?;
                let result =
                    ensure(&bindings, &binding, |one| owner_of(one.labels()) == wanted, contains).await;
                done(result, &binding.name_any())?;
            }
        }
        let labels = format!(
            "{},{COPIED_FROM_LABEL}={}",
            owner_selector(&observed.namespace, &observed.name),
            observed.namespace
        );
        let is_over = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
            !served.contains(meta.namespace.as_deref().unwrap_or_default())
        };
        let failed = |error: kube::Error| format!("removing permissions: {}", api_text(&error));
        let within = |namespace: &str| Api::<RoleBinding>::namespaced(client.clone(), namespace);
        delete_labelled(&Api::<RoleBinding>::all(client.clone()), &labels, is_over, within)
            .await
            .map_err(failed)?;
        let within = |namespace: &str| Api::<Role>::namespaced(client.clone(), namespace);
        delete_labelled(&Api::<Role>::all(client.clone()), &labels, is_over, within).await.map_err(failed)?;
        Ok(())
    }
}

/// The names of the CustomResourceDefinitions and APIServices that provide an operator's APIs.
fn definitions(csv: &ClusterServiceVersion) -> impl Iterator<Item = String> {
    let crds = csv.spec.customresourcedefinitions.iter().flat_map(|crds| &crds.owned);
    let services = csv.spec.apiservicedefinitions.iter().flat_map(|all| &all.owned);
    crds.map(|crd| crd.name.clone()).chain(services.map(|one| format!("{}.{}", one.version, one.group)))
}

async fn read<K>(api: &Api<K>, name: &str) -> Result<Option<K>, String>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    bounded(api.get_opt(name)).await.map_err(|error| format!("reading {name}: {}", api_text(&error)))
}

fn owner<K: Resource<DynamicType = ()>>(object: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        controller: Some(false),
        block_owner_deletion: Some(false),
    }
}

/// A role of others is left alone.
fn done(result: Result<(), WriteError>, name: &str) -> Result<(), String> {
    match result {
        Ok(()) => Ok(()),
        Err(WriteError::Foreign(text)) => {
            tracing::warn!("{text}");
            Ok(())
        }
        Err(WriteError::Api(error)) => Err(format!("writing {name}: {}", api_text(&error))),
    }
}
