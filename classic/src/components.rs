//! Operator objects: one for each Subscription, and what belongs to it, found by a label.
//!
//! [`Adoption`] makes the object and puts the label on what a Subscription has installed. [`Components`] reports what has the
//! label. Secrets have none: the program may not list those of all namespaces.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Service, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch},
    core::{ClusterResourceScope, NamespaceResourceScope},
    runtime::reflector::ObjectRef,
};
use olm_api_classic::{
    ClusterServiceVersion, InstallPlan, Operator, OperatorCondition, RichReference, Subscription,
    names::{OWNER_LABEL, OWNER_NAMESPACE_LABEL},
};
use olm_classic_core::components::{is_of, label, operator_name, reference, status};
use olm_runtime::{Next, ObjectWriter, api_text, bounded, if_exists, patch_as, post_as};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::watch;

use crate::operators::{FIELD_MANAGER, Interest, Stores};

/// Makes Operators and labels what belongs to them.
#[derive(Clone)]
pub(crate) struct Adoption {
    pub(crate) client: Client,
    pub(crate) stores: Stores,
    pub(crate) leader: watch::Receiver<bool>,
}

impl olm_runtime::Reconciler for Adoption {
    type Object = Subscription;
    type Interest = Interest;

    const CONDITION: &'static str = "";

    fn state(_: &Subscription) -> Option<(&str, &str)> {
        None
    }

    async fn reconcile(&self, subscription: &Subscription) -> (Next, BTreeSet<Interest>) {
        let namespace = subscription.namespace().unwrap_or_default();
        if !*self.leader.borrow() || subscription.metadata.deletion_timestamp.is_some() {
            return (Next::Await, BTreeSet::from([Interest::Part]));
        }
        let operator = operator_name(&subscription.spec.name, &namespace);
        let interests = [Interest::Part, Interest::Csvs(namespace), Interest::Operator(operator.clone())];
        let next = match Box::pin(self.adopt(subscription, &operator)).await {
            Ok(()) => Next::Await,
            Err(error) => Next::Retry(error),
        };
        (next, interests.into())
    }

    async fn report_panic(&self, _: &Subscription) {}
}

/// Labels the objects of a namespace, or those without one, that have not got the label.
struct Labels<'a> {
    client: &'a Client,
    namespace: &'a str,
    label: String,
}

impl Adoption {
    async fn adopt(&self, subscription: &Subscription, operator: &str) -> Result<(), String> {
        let namespace = subscription.namespace().unwrap_or_default();
        if self.stores.operators.get(&ObjectRef::new(operator)).is_none() {
            let object = Operator::new(operator, olm_api_classic::OperatorSpec {});
            let api: Api<Operator> = Api::all(self.client.clone());
            match bounded(api.create(&post_as(FIELD_MANAGER), &object)).await {
                Err(kube::Error::Api(answer)) if answer.code == 409 => {}
                made => drop(made.map_err(|error| format!("Operator {operator}: {}", api_text(&error)))?),
            }
        }
        let labels = Labels { client: &self.client, namespace: &namespace, label: label(operator) };
        if !subscription.labels().contains_key(&labels.label) {
            labels.set(&labels.within::<Subscription>(), &subscription.name_any()).await?;
        }
        let found = subscription.status.as_ref();
        let plan = found.and_then(|status| status.install_plan_ref.as_ref()?.name.clone());
        labels.plans(plan.as_deref()).await?;
        let Some(installed) = found.and_then(|status| status.installed_csv.as_deref()) else { return Ok(()) };
        let csv = self.stores.csvs.get(&ObjectRef::new(installed).within(&namespace));
        let Some(csv) = csv.as_ref().and_then(|csv| csv.0.as_ref().ok()) else { return Ok(()) };
        if !csv.labels().contains_key(&labels.label) {
            labels.set(&labels.within::<ClusterServiceVersion>(), installed).await?;
        }
        labels.of_csv(csv).await
    }
}

impl Labels<'_> {
    fn within<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    /// What a ClusterServiceVersion has.
    async fn of_csv(&self, csv: &ClusterServiceVersion) -> Result<(), String> {
        self.owned(&self.within::<Deployment>(), csv, "").await?;
        self.owned(&self.within::<Service>(), csv, "").await?;
        self.owned(&self.within::<ServiceAccount>(), csv, "").await?;
        self.owned(&self.within::<ConfigMap>(), csv, "").await?;
        self.owned(&self.within::<Role>(), csv, "").await?;
        self.owned(&self.within::<RoleBinding>(), csv, "").await?;
        self.owned(&self.within::<OperatorCondition>(), csv, "").await?;
        let (namespace, name) = (self.namespace, csv.name_any());
        let owner = format!(",{OWNER_LABEL}={name},{OWNER_NAMESPACE_LABEL}={namespace}");
        self.owned(&self.all::<ClusterRole>(), csv, &owner).await?;
        self.owned(&self.all::<ClusterRoleBinding>(), csv, &owner).await?;
        self.owned(&self.all::<APIService>(), csv, &owner).await?;
        let crds: Api<CustomResourceDefinition> = self.all();
        for crd in csv.spec.customresourcedefinitions.iter().flat_map(|crds| &crds.owned) {
            let found = bounded(crds.get_metadata_opt(&crd.name)).await;
            let found = found.map_err(|error| format!("reading {}: {}", crd.name, api_text(&error)))?;
            if found.is_some_and(|found| !found.labels().contains_key(&self.label)) {
                self.set(&crds, &crd.name).await?;
            }
        }
        Ok(())
    }

    fn all<K: Resource<DynamicType = (), Scope = ClusterResourceScope>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// Labels what belongs to a ClusterServiceVersion, of the objects that a further selector leaves.
    async fn owned<K>(&self, api: &Api<K>, csv: &ClusterServiceVersion, selector: &str) -> Result<(), String>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let unlabelled = ListParams::default().labels(&format!("!{}{selector}", self.label));
        let found = bounded(api.list_metadata(&unlabelled)).await;
        let found = found.map_err(|error| format!("listing {}: {}", K::plural(&()), api_text(&error)))?;
        let (name, uid) = (csv.name_any(), csv.uid().unwrap_or_default());
        for object in found.items {
            if is_of(&object.metadata, self.namespace, &name, &uid) {
                self.set(api, &object.name_any()).await?;
            }
        }
        Ok(())
    }

    /// The label is on the newest InstallPlan alone.
    async fn plans(&self, newest: Option<&str>) -> Result<(), String> {
        let api: Api<InstallPlan> = self.within();
        let labelled = bounded(api.list_metadata(&ListParams::default().labels(&self.label))).await;
        let labelled = labelled.map_err(|error| format!("listing InstallPlans: {}", api_text(&error)))?;
        let names: Vec<String> = labelled.items.iter().map(ResourceExt::name_any).collect();
        for old in names.iter().filter(|name| newest != Some(name.as_str())) {
            self.write(&api, old, None).await?;
        }
        match newest.filter(|newest| !names.iter().any(|name| name == newest)) {
            Some(newest) => self.set(&api, newest).await,
            None => Ok(()),
        }
    }

    async fn set<K>(&self, api: &Api<K>, name: &str) -> Result<(), String>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        self.write(api, name, Some("")).await
    }

    async fn write<K>(&self, api: &Api<K>, name: &str, value: Option<&str>) -> Result<(), String>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let patch = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"labels": {&self.label: value}},
        });
        let written = if_exists(api.patch(name, &patch_as(FIELD_MANAGER), &Patch::Merge(patch))).await;
        written.map(drop).map_err(|error| format!("labelling {} {name}: {}", K::kind(&()), api_text(&error)))
    }
}

/// Reports the components of Operators.
#[derive(Clone)]
pub(crate) struct Components {
    pub(crate) client: Client,
    pub(crate) objects: Arc<ObjectWriter<Operator>>,
    pub(crate) leader: watch::Receiver<bool>,
}

impl olm_runtime::Reconciler for Components {
    type Object = Operator;
    type Interest = Interest;

    const CONDITION: &'static str = "";

    fn state(_: &Operator) -> Option<(&str, &str)> {
        None
    }

    async fn reconcile(&self, operator: &Operator) -> (Next, BTreeSet<Interest>) {
        if let Some(left) = self.objects.behind(operator) {
            return (Next::After(left), BTreeSet::from([Interest::Part]));
        }
        if !*self.leader.borrow() || operator.metadata.deletion_timestamp.is_some() {
            return (Next::Await, BTreeSet::from([Interest::Part]));
        }
        let label = label(&operator.name_any());
        let next = match Box::pin(self.report(operator, &label)).await {
            Ok(()) => Next::Await,
            Err(error) => Next::Retry(error),
        };
        (next, [Interest::Part, Interest::Component(label)].into())
    }

    async fn report_panic(&self, _: &Operator) {}
}

impl Components {
    async fn report(&self, operator: &Operator, label: &str) -> Result<(), String> {
        let mut refs = Vec::new();
        self.list::<Namespace>(label, &mut refs).await?;
        self.list::<Deployment>(label, &mut refs).await?;
        self.list::<Service>(label, &mut refs).await?;
        self.list::<APIService>(label, &mut refs).await?;
        self.list::<CustomResourceDefinition>(label, &mut refs).await?;
        self.list::<Subscription>(label, &mut refs).await?;
        self.list::<InstallPlan>(label, &mut refs).await?;
        self.list::<ClusterServiceVersion>(label, &mut refs).await?;
        self.list::<OperatorCondition>(label, &mut refs).await?;
        self.list_metadata::<ConfigMap>(label, &mut refs).await?;
        self.list_metadata::<ServiceAccount>(label, &mut refs).await?;
        self.list_metadata::<Role>(label, &mut refs).await?;
        self.list_metadata::<RoleBinding>(label, &mut refs).await?;
        self.list_metadata::<ClusterRole>(label, &mut refs).await?;
        self.list_metadata::<ClusterRoleBinding>(label, &mut refs).await?;
        self.objects.set_status(operator, status(&operator.name_any(), refs)).await.map(drop)
    }

    async fn list<K>(&self, label: &str, refs: &mut Vec<RichReference>) -> Result<(), String>
    where
        K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let found = bounded(api.list(&ListParams::default().labels(label))).await;
        let found = found.map_err(|error| format!("listing {}: {}", K::plural(&()), api_text(&error)))?;
        refs.extend(found.items.iter().map(|object| {
            reference(&K::api_version(&()), &K::kind(&()), &serde_json::to_value(object).unwrap_or_default())
        }));
        Ok(())
    }

    async fn list_metadata<K>(&self, label: &str, refs: &mut Vec<RichReference>) -> Result<(), String>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let found = bounded(api.list_metadata(&ListParams::default().labels(label))).await;
        let found = found.map_err(|error| format!("listing {}: {}", K::plural(&()), api_text(&error)))?;
        refs.extend(found.items.iter().map(|object| {
            reference(&K::api_version(&()), &K::kind(&()), &json!({"metadata": object.metadata}))
        }));
        Ok(())
    }
}
