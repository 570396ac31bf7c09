//! The facts that steps ask for.

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    rbac::v1::{Role, RoleBinding, Subject},
};
use kube::{Api, ResourceExt, api::ListParams};
use olm_api_classic::{ClusterServiceVersion, OperatorCondition};
use olm_classic_core::{
    csv::{
        Fact, Replaced, View,
        chain::{Siblings, phase},
        deployments::{Check, check},
        install::deployments::wanted,
        operator_condition::upgradeable,
        requirements::requirements,
    },
    group::membership::{Group, Membership, membership},
    group::provided::intersecting,
};
use olm_runtime::{api_text, bounded};

use super::{Observed, Reconciler};
use crate::operators::{Interest, all, within};

impl Reconciler {
    /// Looks a fact up. What it depends on wakes the operator from then on.
    ///
    /// # Errors
    /// The text says what could not be read.
    pub(super) async fn look_up(
        &self,
        observed: &mut Observed<'_>,
        view: &mut View,
        fact: Fact,
        now: Timestamp,
    ) -> Result<(), String> {
        match fact {
            Fact::Revived => view.revived = Some(self.is_revived(observed).await?),
            Fact::Membership => {
                let found = membership(&within(&self.stores.groups, &observed.namespace));
                if let Membership::Of(group) = &found {
                    observed.group = Some(group.clone());
                }
                view.membership = Some(found);
            }
            Fact::Intersecting => {
                observed.interests.insert(Interest::Intersections);
                let others: Vec<Group> = all(&self.stores.groups).iter().map(Group::of).collect();
                view.intersecting = observed.group.as_ref().map(|group| intersecting(group, &others));
            }
            Fact::Replaced => view.replaced = Some(self.replaced(observed).await?),
            Fact::Successor => {
                let csvs = self.siblings(observed);
                view.successor = Some(Siblings::of(&csvs).succession(observed.csv));
            }
            Fact::CrdConflict => {
                let csvs = self.siblings(observed);
                view.crd_conflict = Some(Siblings::of(&csvs).has_crd_conflict(observed.csv));
            }
            Fact::Requirements => {
                let facts = self.requirement_facts(observed).await?;
                view.requirements = Some(requirements(observed.csv, &facts));
            }
            Fact::ApiServices => view.api_services = Some(self.api_services(observed, now).await?),
            Fact::CertificatesDue => {
                view.certificates_due = Some(self.are_certificates_due(observed, now).await?);
            }
            Fact::Deployments => view.deployments = Some(self.deployments(observed, now).await?),
            Fact::Webhooks => view.webhooks = Some(self.webhooks(observed, now).await?),
            Fact::Installed => view.installed = Some(self.install(observed, now).await?),
        }
        Ok(())
    }

    /// The operators of the namespace.
    pub(super) fn siblings(&self, observed: &Observed<'_>) -> Vec<ClusterServiceVersion> {
        within(&self.stores.csvs, &observed.namespace)
    }

    async fn replaced(&self, observed: &mut Observed<'_>) -> Result<Option<Replaced>, String> {
        let csvs = self.siblings(observed);
        let Some(replaced) = Siblings::of(&csvs).replaced(observed.csv) else { return Ok(None) };
        let (name, namespace) = (replaced.name_any(), &observed.namespace);
        observed.interests.insert(Interest::Object(format!("{namespace}/{name}")));
        let api: Api<OperatorCondition> = Api::namespaced(self.client.clone(), namespace);
        let condition = bounded(api.get_opt(&name)).await;
        let condition =
            condition.map_err(|e| format!("reading OperatorCondition {name}: {}", api_text(&e)))?;
        Ok(Some(Replaced { phase: phase(replaced), upgradeable: upgradeable(condition.as_ref()), name }))
    }

    /// The versions of the permissions of the namespace: another text means that something changed.
    pub(super) async fn permissions(&self, observed: &mut Observed<'_>) -> Result<String, String> {
        observed.interests.insert(Interest::Permissions(observed.namespace.clone()));
        observed.interests.extend(cluster_permissions(&observed.namespace));
        let failed = |error: kube::Error| format!("reading permissions: {}", api_text(&error));
        let (client, params) = (&self.client, ListParams::default());
        let roles: Api<Role> = Api::namespaced(client.clone(), &observed.namespace);
        let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), &observed.namespace);
        let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
            Api::namespaced(client.clone(), &observed.namespace);
        let mut versions: Vec<String> = Vec::new();
        let version = |kind: &str, meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{kind}/{}/{}", text(&meta.name), text(&meta.resource_version))
        };
        for role in bounded(roles.list_metadata(&params)).await.map_err(failed)? {
            versions.push(version("role", &role.metadata));
        }
        for binding in bounded(bindings.list_metadata(&params)).await.map_err(failed)? {
            versions.push(version("binding", &binding.metadata));
        }
        for account in bounded(accounts.list_metadata(&params)).await.map_err(failed)? {
            versions.push(version("account", &account.metadata));
        }
        // A permission may be bound in all namespaces.
        let names_account = |subject: &Subject| {
            subject.kind == "ServiceAccount" && subject.namespace.as_ref() == Some(&observed.namespace)
        };
        for binding in all(&self.stores.bindings) {
            if binding.subjects.iter().flatten().any(names_account) {
                versions.push(version("cluster binding", &binding.metadata));
            }
        }
        versions.sort_unstable();
        Ok(versions.join(" "))
    }

    /// Whether permissions are others than those with which the installation failed. After a start that is not known, and
    /// the installation is tried once more.
    async fn is_revived(&self, observed: &mut Observed<'_>) -> Result<bool, String> {
        let found = self.permissions(observed).await?;
        let uid = observed.csv.uid().unwrap_or_default();
        Ok(self.failed.lock().get(&uid) != Some(&found))
    }

    /// Checks the operator's Deployments.
    async fn deployments(&self, observed: &mut Observed<'_>, now: Timestamp) -> Result<Check, String> {
        let Some(objects) = self.calculated(observed, now).await? else { return Ok(Check::Incalculable) };
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &observed.namespace);
        let mut found = Vec::new();
        for object in &objects {
            let name = object.name_any();
            observed.interests.insert(Interest::Object(format!("{}/{name}", observed.namespace)));
            let deployment = bounded(api.get_opt(&name)).await;
            let deployment =
                deployment.map_err(|error| format!("reading Deployment {name}: {}", api_text(&error)))?;
            // One that belongs to another operator is not this one's.
            found.extend(deployment.filter(|one| super::install::is_own(one, observed)));
        }
        let annotations = observed.csv.annotations();
        let find = |name: &str| found.iter().find(|one| one.metadata.name.as_deref() == Some(name));
        Ok(check(&wanted(&objects), annotations, find))
    }
}

/// What changes when ClusterRoleBindings of the ServiceAccounts of a namespace do.
pub(super) fn cluster_permissions(namespace: &str) -> [Interest; 2] {
    [namespace, ""].map(|namespace| Interest::ClusterPermissions(namespace.to_owned()))
}
