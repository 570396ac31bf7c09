//! Carries out the steps of a plan, in order.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Api, Client, ResourceExt};
use olm_api_classic::{ClusterServiceVersion, InstallPlan, InstallPlanStatus, Step};
use olm_classic_core::plan::{
    Failure, Outcome,
    object::{self, Place, prepared, updated},
    texts,
};
use olm_preflight::{Verbs, missing_permissions};
use olm_runtime::{AccountRef, DiscoveryError, EventPublisher, Kind, api_text, bounded};
use serde_json::Value;

use super::{
    content::{Missing, Objects, STEPS_MAX},
    crds,
    reconcile::Reconciler,
    request,
};

/// A plan that is carried out.
pub(super) struct Execution<'a> {
    pub(super) cx: &'a Reconciler,
    pub(super) plan: &'a InstallPlan,
    pub(super) namespace: String,
    pub(super) name: String,
    /// In whose name objects are written, but for CRDs.
    client: Client,
    account: Option<AccountRef>,
    objects: Objects,
    /// UIDs of ClusterServiceVersions.
    uids: BTreeMap<String, Option<String>>,
}

/// Whether a step has not been carried out.
fn is_pending(step: &Step) -> bool {
    [texts::UNKNOWN, texts::NOT_PRESENT, texts::UNSUPPORTED, ""].contains(&step.status.as_str())
}

/// Carries out the steps of a plan as far as that is possible.
pub(super) async fn execute(cx: &Reconciler, plan: &InstallPlan, status: &InstallPlanStatus) -> Outcome {
    let mut outcome = Outcome { steps: status.plan.clone(), ..Outcome::default() };
    if let Some(failure) = invalid(&mut outcome.steps) {
        outcome.failure = Some(failure);
        return outcome;
    }
    let pending: Vec<Step> = outcome.steps.iter().filter(|step| is_pending(step)).cloned().collect();
    let begun = Execution::begin(cx, plan, status.attenuated_service_account_ref.as_ref(), &outcome.steps);
    let mut execution = match begun.await {
        Ok(execution) => execution,
        Err(Missing::Waits(text)) => return Outcome { waits_for: Some(text), ..outcome },
        Err(Missing::Failed(text, remedy)) => {
            let failure = Failure { text, remedy, is_forbidden: false };
            return Outcome { failure: Some(failure), ..outcome };
        }
    };
    if let Err(failure) = execution.check_permissions(&pending).await {
        return Outcome { failure: Some(failure), ..outcome };
    }
    for index in 0..outcome.steps.len() {
        let step = outcome.steps[index].clone();
        if !is_pending(&step) && step.status != texts::WAITING_FOR_API {
            continue;
        }
        match execution.step(index, &step).await {
            Ok(state) => state.clone_into(&mut outcome.steps[index].status),
            Err(failure) => {
                outcome.failure = Some(failure);
                break;
            }
        }
    }
    outcome
}

/// Marks steps that no plan may have; the error if there are any.
fn invalid(steps: &mut [Step]) -> Option<Failure> {
    let failure =
        |remedy: String| Some(Failure { text: texts::INVALID_DATA.to_owned(), remedy, is_forbidden: false });
    if steps.len() > STEPS_MAX {
        return failure(format!("It has {} steps, of which there may be {STEPS_MAX}.", steps.len()));
    }
    let mut kinds = Vec::new();
    for step in steps.iter_mut().filter(|step| is_pending(step)) {
        if !object::is_supported(step) {
            texts::UNSUPPORTED.clone_into(&mut step.status);
            kinds.push(format!("{} {}", step.resource.kind, step.resource.name));
        }
    }
    let few = kinds.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
    if kinds.is_empty() {
        None
    } else {
        failure(format!("InstallPlans may not hold {few}: the publisher of the bundle has to remove it."))
    }
}

impl<'a> Execution<'a> {
    async fn begin(
        cx: &'a Reconciler,
        plan: &'a InstallPlan,
        account: Option<&ObjectReference>,
        steps: &[Step],
    ) -> Result<Self, Missing> {
        let (namespace, name) = (plan.namespace().unwrap_or_default(), plan.name_any());
        let account = account.map(|account| AccountRef {
            namespace: namespace.clone(),
            name: account.name.clone().unwrap_or_default(),
        });
        let client = match &account {
            None => cx.client.clone(),
            Some(account) => cx.accounts.client(account).await.map_err(|error| {
                let remedy = format!("Check ServiceAccount {}/{}.", account.namespace, account.name);
                Missing::Failed(error.to_string(), remedy)
            })?,
        };
        let objects = cx.content.objects((&namespace, &name), steps).await?;
        Ok(Self { cx, plan, namespace, name, client, account, objects, uids: BTreeMap::new() })
    }

    /// The object of a step.
    pub(super) fn object(&self, step: &Step) -> Result<Value, Failure> {
        let failure = |text: String| Failure {
            text,
            remedy: "Delete the InstallPlan: another is made.".to_owned(),
            is_forbidden: false,
        };
        if step.resource.kind == "Subscription" {
            let manifest = step.resource.manifest.as_deref().unwrap_or_default();
            return serde_json::from_str(manifest)
                .map_err(|error| failure(texts::unreadable(&step.resource.name, &error.to_string())));
        }
        self.objects.of(step).cloned().ok_or_else(|| {
            failure(texts::unreadable(&step.resource.name, "the bundle does not have this object"))
        })
    }

    /// All permissions that the ServiceAccount is missing, before anything is written.
    async fn check_permissions(&self, pending: &[Step]) -> Result<(), Failure> {
        let Some(account) = &self.account else { return Ok(()) };
        let mut objects = Vec::new();
        for step in pending {
            let (api_version, kind) = object::kind(step);
            let is_crd = kind == "CustomResourceDefinition";
            let is_namespaced = match self.cx.discovery.kind(&api_version, kind).await {
                Ok(kind) => kind.namespaced,
                Err(_) => true,
            };
            let place = Place { plan: &self.name, namespace: &self.namespace, is_namespaced, csv_uid: None };
            // CRDs are written by the program itself.
            if !is_crd {
                objects.push(prepared(step, &self.object(step)?, place));
            }
        }
        let objects: Vec<&Value> = objects.iter().collect();
        let missing =
            missing_permissions(&self.client, &self.cx.client, &self.cx.discovery, &objects, Verbs::Written)
                .await
                .map_err(|text| Failure { text, ..Failure::default() })?;
        if missing.is_empty() {
            return Ok(());
        }
        let AccountRef { namespace, name } = account;
        Err(Failure {
            text: format!(
                "ServiceAccount {namespace}/{name} is missing permissions:\n{}",
                olm_rbac::lines(&missing)
            ),
            remedy: format!(
                "Grant them to ServiceAccount {namespace}/{name}: the plan then continues by itself."
            ),
            is_forbidden: true,
        })
    }

    /// Carries out one step; returns its state.
    async fn step(&mut self, index: usize, step: &Step) -> Result<&'static str, Failure> {
        let (api_version, kind_name) = object::kind(step);
        if kind_name == "CustomResourceDefinition" {
            return crds::step(self, index, step).await;
        }
        let kind = match self.cx.discovery.kind(&api_version, kind_name).await {
            Ok(kind) => kind,
            Err(DiscoveryError::Unknown { .. }) => {
                let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
                let resource = &step.resource;
                let text = texts::not_served(&resource.kind, &resource.name, (group, version, kind_name));
                let remedy = format!("Install what brings {kind_name} of {api_version}.");
                return Err(Failure { text, remedy, is_forbidden: false });
            }
            Err(error) => return Err(Failure { text: error.to_string(), ..Failure::default() }),
        };
        let wanted = self.object(step)?;
        let uid = self.csv_uid(step).await?;
        let place = Place {
            plan: &self.name,
            namespace: &self.namespace,
            is_namespaced: kind.namespaced,
            csv_uid: uid.as_deref(),
        };
        let wanted = prepared(step, &wanted, place);
        self.write(index, step, &kind, &wanted).await
    }

    /// Creates an object, or brings the one that exists up to date.
    async fn write(
        &self,
        index: usize,
        step: &Step,
        kind: &Kind,
        wanted: &Value,
    ) -> Result<&'static str, Failure> {
        let name = &step.resource.name;
        let failed = |verb: &str, error: &kube::Error| self.failure(verb, step, error);
        let live = if object::is_created_only(step) {
            None
        } else {
            let found = request::get(&self.client, kind, &self.namespace, name).await;
            found.map_err(|error| failed("reading", &error))?
        };
        let Some(live) = live else {
            return match request::write(&self.client, kind, &self.namespace, wanted, true).await {
                Ok((_, warnings)) => {
                    self.warn(index, step, &warnings).await;
                    Ok(texts::CREATED)
                }
                Err(kube::Error::Api(status))
                    if status.is_already_exists() && object::is_created_only(step) =>
                {
                    Ok(texts::PRESENT)
                }
                Err(error) => Err(failed("creating", &error)),
            };
        };
        if let Some(after) = updated(&live, wanted) {
            let written = request::write(&self.client, kind, &self.namespace, &after, false).await;
            let (_, warnings) = written.map_err(|error| failed("updating", &error))?;
            self.warn(index, step, &warnings).await;
        }
        Ok(texts::PRESENT)
    }

    /// The error of a request for the object of a step.
    pub(super) fn failure(&self, verb: &str, step: &Step, error: &kube::Error) -> Failure {
        let kind = step.resource.kind.to_lowercase();
        let is_forbidden = matches!(error, kube::Error::Api(status) if status.code == 403);
        let remedy = match &self.account {
            Some(AccountRef { namespace, name }) if is_forbidden => {
                format!("Grant the permission to ServiceAccount {namespace}/{name}.")
            }
            _ => String::new(),
        };
        let text = texts::failed_to(verb, &kind, &step.resource.name, &api_text(error));
        Failure { text, remedy, is_forbidden }
    }

    /// The UID of the ClusterServiceVersion that needs a step, if that exists.
    async fn csv_uid(&mut self, step: &Step) -> Result<Option<String>, Failure> {
        if object::is_created_only(step) {
            return Ok(None);
        }
        if let Some(Some(known)) = self.uids.get(&step.resolving) {
            return Ok(Some(known.clone()));
        }
        let api = Api::<ClusterServiceVersion>::namespaced(self.cx.client.clone(), &self.namespace);
        let found = bounded(api.get_metadata_opt(&step.resolving)).await;
        let found = found.map_err(|error| self.failure("reading the owner of", step, &error))?;
        let uid = found.and_then(|csv| csv.uid());
        self.uids.insert(step.resolving.clone(), uid.clone());
        Ok(uid)
    }

    /// Publishes the warnings about a step, and counts them.
    pub(super) async fn warn(&self, index: usize, step: &Step, warnings: &[String]) {
        if warnings.is_empty() {
            return;
        }
        self.cx.metrics.warned();
        let resource = &step.resource;
        let note = texts::warnings(
            warnings.len(),
            &step.resolving,
            &resource.kind,
            &resource.name,
            &warnings.join(", "),
        );
        self.publish(Some(index), "AppliedWithWarnings", &note).await;
    }

    /// Publishes a Warning Event about the plan, or one of its steps.
    pub(super) async fn publish(&self, index: Option<usize>, reason: &str, note: &str) {
        publish(&self.cx.events, self.plan, index, (reason, note)).await;
    }
}

/// Publishes a Warning Event about a plan, or one of its steps: reason and note.
pub(super) async fn publish(
    events: &EventPublisher,
    plan: &InstallPlan,
    index: Option<usize>,
    (reason, note): (&str, &str),
) {
    let about = ObjectReference {
        api_version: Some("operators.coreos.com/v1alpha1".to_owned()),
        kind: Some("InstallPlan".to_owned()),
        name: Some(plan.name_any()),
        namespace: plan.namespace(),
        uid: plan.uid(),
        field_path: index.map(|index| format!("status.plan[{index}]")),
        ..ObjectReference::default()
    };
    events.publish(&about, true, reason, note).await;
}

/// Makes the permissions again that a complete plan has made and that were lost, for ClusterServiceVersions that exist.
/// Returns the error of the attempt.
pub(super) async fn restore(cx: &Reconciler, plan: &InstallPlan, lost: &[usize]) -> Result<(), Failure> {
    let status = plan.status.clone().unwrap_or_default();
    let steps: Vec<Step> = lost.iter().map(|index| status.plan[*index].clone()).collect();
    // The step of the ClusterServiceVersion has what the catalog adds to the bundle.
    let account = status.attenuated_service_account_ref.as_ref();
    let begun = Execution::begin(cx, plan, account, &status.plan).await;
    let mut execution = match begun {
        Ok(execution) => execution,
        Err(Missing::Waits(_)) => return Ok(()),
        Err(Missing::Failed(text, remedy)) => return Err(Failure { text, remedy, is_forbidden: false }),
    };
    for (index, step) in lost.iter().zip(&steps) {
        if execution.csv_uid(step).await?.is_some() {
            execution.step(*index, step).await?;
        }
    }
    Ok(())
}
