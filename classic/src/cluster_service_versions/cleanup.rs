//! The end of operators and of copies.

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Preconditions},
    runtime::reflector::ObjectRef,
};
use olm_api_classic::{
    ClusterServiceVersion,
    names::{COPIED_FROM_LABEL, CSV_FINALIZER, OWNER_KIND_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL},
};
use olm_classic_core::csv::copied::is_stale;
use olm_runtime::{Next, api_text, if_exists};

use super::{Pass, Reconciler};
use crate::{objects::delete_labelled, operators::Interest};

/// Selects what belongs to an operator.
pub(super) fn owner_selector(namespace: &str, name: &str) -> String {
    format!(
        "{OWNER_KIND_LABEL}=ClusterServiceVersion,{OWNER_NAMESPACE_LABEL}={namespace},{OWNER_LABEL}={name}"
    )
}

impl Reconciler {
    /// Removes what is not in the operator's namespace, then the finalizer. What is in the namespace goes with the object.
    pub(super) async fn finish(&self, pass: &Pass<'_>) -> Result<Next, String> {
        let uid = pass.csv.uid().unwrap_or_default();
        self.failed.lock().remove(&uid);
        self.ensured.lock().remove(&uid);
        if !pass.csv.finalizers().iter().any(|finalizer| finalizer == CSV_FINALIZER) {
            return Ok(Next::Await);
        }
        let client = &self.client;
        let labels = owner_selector(&pass.namespace, &pass.name);
        let copied = format!("{labels},{COPIED_FROM_LABEL}={}", pass.namespace);
        let failed =
            |error: &kube::Error| format!("removing what belongs to the operator: {}", api_text(error));
        macro_rules! delete_all {
            ($($kind:ty),*) => {$(
                let api = Api::<$kind>::all(client.clone());
                let deleted = delete_labelled(&api, &labels, |_| true, |_| api.clone()).await;
                deleted.map_err(|error| failed(&error))?;
            )*};
        }
        delete_all!(
            ClusterRoleBinding,
            ClusterRole,
            MutatingWebhookConfiguration,
            ValidatingWebhookConfiguration,
            APIService
        );
        let within = |namespace: &str| Api::<RoleBinding>::namespaced(client.clone(), namespace);
        let all = Api::<RoleBinding>::all(client.clone());
        delete_labelled(&all, &copied, |_| true, within).await.map_err(|error| failed(&error))?;
        let readers = Api::<RoleBinding>::namespaced(client.clone(), "kube-system");
        delete_labelled(&readers, &labels, |_| true, |_| readers.clone())
            .await
            .map_err(|error| failed(&error))?;
        let within = |namespace: &str| Api::<Role>::namespaced(client.clone(), namespace);
        let all = Api::<Role>::all(client.clone());
        delete_labelled(&all, &copied, |_| true, within).await.map_err(|error| failed(&error))?;
        self.objects.remove_finalizers(pass.csv, &[CSV_FINALIZER]).await?;
        Ok(Next::Await)
    }

    /// Deletes a copy whose original does not serve its namespace any more. Copies take no part in anything else.
    pub(super) async fn copy(&self, pass: &mut Pass<'_>) -> Result<Next, String> {
        let from = pass.csv.labels().get(COPIED_FROM_LABEL).cloned().unwrap_or_default();
        pass.interests.insert(Interest::Csvs(from.clone()));
        let original = self.csvs.get(&ObjectRef::new(&pass.name).within(&from));
        let original = original.as_ref().and_then(|original| original.0.as_ref().ok());
        if is_stale(pass.csv, original) && pass.csv.metadata.deletion_timestamp.is_none() {
            let api: Api<ClusterServiceVersion> = Api::namespaced(self.client.clone(), &pass.namespace);
            let preconditions = Preconditions { uid: pass.csv.uid(), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            let deleted = if_exists(api.delete(&pass.name, &params)).await;
            deleted.map_err(|error| format!("deleting a copy: {}", api_text(&error)))?;
        }
        Ok(Next::Await)
    }
}
