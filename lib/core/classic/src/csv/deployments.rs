//! Whether the Deployments of an operator are those that it wants, and run.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use olm_api_classic::names::DEPLOYMENT_HASH_LABEL;

/// What a check of Deployments comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// What they are to be cannot be computed: a certificate that they mount is missing.
    Incalculable,
    /// They run.
    Fine,
    /// The first that does not.
    Fault(Fault),
}

/// A Deployment that is not as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What it is about.
    pub kind: FaultKind,
    /// The message.
    pub message: String,
}

/// What a fault is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// There is no Deployment.
    Missing,
    /// It has not made progress in time.
    Timeout,
    /// It is on its way.
    Waiting,
    /// Its Pods lack an annotation.
    Annotations,
    /// It was made from another spec.
    Updated,
}

impl Fault {
    /// Whether waiting is of no use.
    pub fn is_unrecoverable(&self) -> bool {
        self.kind == FaultKind::Timeout
    }

    /// Whether installing again helps.
    pub fn is_drift(&self) -> bool {
        matches!(self.kind, FaultKind::Annotations | FaultKind::Updated)
    }

    fn new(kind: FaultKind, message: String) -> Self {
        Self { kind, message }
    }
}

/// A Deployment that an operator wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// The hash of its spec.
    pub hash: String,
}

/// Checks the Deployments in the order of the strategy: the first fault counts. `annotations` are those of the
/// ClusterServiceVersion, which all Pods are to have.
pub fn check<'d>(
    wanted: &[Wanted],
    annotations: &BTreeMap<String, String>,
    found: impl Fn(&str) -> Option<&'d Deployment>,
) -> Check {
    let check = |wanted: &Wanted| match found(&wanted.name) {
        None => Err(Fault::new(FaultKind::Missing, format!("missing deployment with name={}", wanted.name))),
        Some(deployment) => {
            rolled_out(deployment, &wanted.name)?;
            annotated(deployment, annotations)?;
            hashed(deployment, wanted)
        }
    };
    wanted.iter().try_for_each(check).map_or_else(Check::Fault, |()| Check::Fine)
}

/// Whether a Deployment has been rolled out and is available.
pub fn rolled_out(deployment: &Deployment, name: &str) -> Result<(), Fault> {
    let status = deployment.status.clone().unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().flatten().find(|one| one.type_ == type_);
    let waiting = |text: String| {
        Err(Fault::new(FaultKind::Waiting, format!("waiting for deployment {name} to become ready: {text}")))
    };
    if deployment.metadata.generation.unwrap_or_default() > status.observed_generation.unwrap_or_default() {
        return waiting(format!("waiting for spec update of deployment {name:?} to be observed..."));
    }
    let progressing = condition("Progressing");
    if progressing.is_some_and(|one| one.reason.as_deref() == Some("ProgressDeadlineExceeded")) {
        let text = format!("deployment {name:?} exceeded its progress deadline");
        return Err(Fault::new(
            FaultKind::Timeout,
            format!("deployment {name} not ready before timeout: {text}"),
        ));
    }
    let outdated = status.replicas.unwrap_or_default() - status.updated_replicas.unwrap_or_default();
    if outdated > 0 {
        return waiting(format!(
            "deployment {name:?} waiting for {outdated} outdated replica(s) to be terminated"
        ));
    }
    match condition("Available") {
        Some(available) if available.status == "True" => Ok(()),
        Some(available) => {
            let message = available.message.as_deref().unwrap_or_default();
            waiting(format!("deployment {name:?} not available: {message}"))
        }
        None => waiting(format!("deployment {name:?} not available: missing condition \"Available\"")),
    }
}

fn annotated(deployment: &Deployment, wanted: &BTreeMap<String, String>) -> Result<(), Fault> {
    let fault = |message| Err(Fault::new(FaultKind::Annotations, message));
    let template = deployment.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
    let Some(found) = template.and_then(|metadata| metadata.annotations.as_ref()) else {
        return if wanted.is_empty() {
            Ok(())
        } else {
            fault("no annotations found on deployment".to_owned())
        };
    };
    for (key, value) in wanted {
        match found.get(key) {
            None => return fault(format!("annotations on deployment does not contain expected key: {key}")),
            Some(other) if other != value => {
                return fault(format!(
                    "unexpected annotation on deployment. Expected {key}:{value}, found {key}:{other}"
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn hashed(deployment: &Deployment, wanted: &Wanted) -> Result<(), Fault> {
    let labels = deployment.metadata.labels.as_ref();
    match labels.and_then(|labels| labels.get(DEPLOYMENT_HASH_LABEL)) {
        None => {
            let text = format!("deployment {} doesn't have a spec hash, update it", wanted.name);
            Err(Fault::new(FaultKind::Updated, text))
        }
        Some(hash) if *hash != wanted.hash => {
            let text = format!("deployment changed old hash={hash}, new hash={}", wanted.hash);
            Err(Fault::new(FaultKind::Updated, text))
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(status: &Value, annotations: &Value, hash: Option<&str>) -> Deployment {
        let mut object = json!({
            "metadata": {"name": "a", "generation": 2},
            "spec": {"selector": {}, "template": {"metadata": {"annotations": annotations}}},
            "status": status,
        });
        if let Some(hash) = hash {
            object["metadata"]["labels"] = json!({"olm.deployment-spec-hash": hash});
        }
        serde_json::from_value(object).unwrap()
    }

    fn found(deployment: Option<&Deployment>) -> Result<(), (FaultKind, String)> {
        let wanted = [Wanted { name: "a".to_owned(), hash: "new".to_owned() }];
        match check(&wanted, &[("k".to_owned(), "v".to_owned())].into(), |_| deployment) {
            Check::Fault(fault) => Err((fault.kind, fault.message)),
            other => {
                assert_eq!(other, Check::Fine);
                Ok(())
            }
        }
    }

    /// The rows of the check, in their order.
    #[test]
    #[expect(clippy::large_stack_arrays, reason = "a table of objects")]
    fn every_row_of_the_deployment_check() {
        let fine = json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1,
            "conditions": [{"type": "Available", "status": "True"}]});
        let with = |pointer: &str, value: Value| {
            let mut status = fine.clone();
            *status.pointer_mut(pointer).unwrap() = value;
            deployment(&status, &json!({"k": "v"}), Some("new"))
        };
        let late = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
        let unavailable = json!([{"type": "Available", "status": "False", "message": "no minimum"}]);
        let waiting = "waiting for deployment a to become ready: ";
        let rows = [
            (None, FaultKind::Missing, "missing deployment with name=a".to_owned()),
            (
                Some(with("/observedGeneration", json!(1))),
                FaultKind::Waiting,
                format!("{waiting}waiting for spec update of deployment \"a\" to be observed..."),
            ),
            (
                Some(with("/conditions", late)),
                FaultKind::Timeout,
                "deployment a not ready before timeout: deployment \"a\" exceeded its progress deadline"
                    .to_owned(),
            ),
            (
                Some(with("/replicas", json!(2))),
                FaultKind::Waiting,
                format!("{waiting}deployment \"a\" waiting for 1 outdated replica(s) to be terminated"),
            ),
            (
                Some(with("/conditions", unavailable)),
                FaultKind::Waiting,
                format!("{waiting}deployment \"a\" not available: no minimum"),
            ),
            (
                Some(with("/conditions", json!([]))),
                FaultKind::Waiting,
                format!("{waiting}deployment \"a\" not available: missing condition \"Available\""),
            ),
            (
                Some(deployment(&fine, &Value::Null, Some("new"))),
                FaultKind::Annotations,
                "no annotations found on deployment".to_owned(),
            ),
            (
                Some(deployment(&fine, &json!({"x": "v"}), Some("new"))),
                FaultKind::Annotations,
                "annotations on deployment does not contain expected key: k".to_owned(),
            ),
            (
                Some(deployment(&fine, &json!({"k": "w"}), Some("new"))),
                FaultKind::Annotations,
                "unexpected annotation on deployment. Expected k:v, found k:w".to_owned(),
            ),
            (
                Some(deployment(&fine, &json!({"k": "v"}), None)),
                FaultKind::Updated,
                "deployment a doesn't have a spec hash, update it".to_owned(),
            ),
            (
                Some(deployment(&fine, &json!({"k": "v"}), Some("old"))),
                FaultKind::Updated,
                "deployment changed old hash=old, new hash=new".to_owned(),
            ),
        ];
        for (deployment, kind, message) in rows {
            assert_eq!(found(deployment.as_ref()), Err((kind, message)));
        }
        assert_eq!(found(Some(&deployment(&fine, &json!({"k": "v"}), Some("new")))), Ok(()));
    }
}
