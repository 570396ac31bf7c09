//! The end of operators.

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, ResourceExt};
use olm_api_classic::names::{
    COPIED_FROM_LABEL, CSV_FINALIZER, OWNER_KIND_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL,
};
use olm_runtime::{Next, api_text};

use super::{Observed, Reconciler};
use crate::objects::delete_labelled;

/// Selects what belongs to an operator.
pub(super) fn owner_selector(namespace: &str, name: &str) -> String {
    format!(
        "{OWNER_KIND_LABEL}=ClusterServiceVersion,{OWNER_NAMESPACE_LABEL}={namespace},{OWNER_LABEL}={name}"
    )
}

impl Reconciler {
    /// Removes what is not in the operator's namespace, then the finalizer. What is in the namespace goes with the object.
    pub(super) async fn finish(&self, observed: &Observed<'_>) -> Result<Next, String> {
        let uid = observed.csv.uid().unwrap_or_default();
        self.failed.lock().remove(&uid);
        self.ensured.forget(&uid);
        self.announced.lock().remove(&uid);
        if !observed.csv.finalizers().iter().any(|finalizer| finalizer == CSV_FINALIZER) {
            return Ok(Next::Await);
        }
        self.remove_conversions(observed).await?;
        let client = &self.client;
        let labels = owner_selector(&observed.namespace, &observed.name);
        let copied = format!("{labels},{COPIED_FROM_LABEL}={}", observed.namespace);
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
        self.objects.remove_finalizers(observed.csv, &[CSV_FINALIZER]).await?;
        Ok(Next::Await)
    }
}
