//! What people can do about a ClusterServiceVersion that does not run.

use super::texts::reason;

/// What helps when a status has this reason; `None` when nothing has to be done, or it is done without people.
pub fn advice(given: &str) -> Option<&'static str> {
    Some(match given {
        reason::REQUIREMENTS_NOT_MET => {
            "Provide what is marked with - below: install the operator that provides a missing kind, or give the ServiceAccount the permissions that it lacks. The rest follows by itself."
        }
        reason::NO_GROUP => {
            "Create an OperatorGroup in this namespace that selects the namespaces to serve; without spec it selects all."
        }
        reason::TOO_MANY_GROUPS => "Delete all OperatorGroups of this namespace but one.",
        reason::NO_TARGETS => {
            "Label a namespace so that spec.selector of the OperatorGroup matches it, or name namespaces in spec.targetNamespaces."
        }
        reason::UNSUPPORTED_GROUP => {
            "Change spec of the OperatorGroup to namespaces that an install mode of the operator supports, see spec.installModes."
        }
        reason::INVALID_MODES => "Correct spec.installModes in the bundle: a mode is listed twice.",
        reason::STATIC_GROUP => {
            "Add the operator's kinds to the annotation olm.providedAPIs of the OperatorGroup, or set its spec.staticProvidedAPIs to false."
        }
        reason::GROUP_CONFLICT => {
            "Remove the operator of the same kinds from the other namespace, or have the OperatorGroups select different namespaces."
        }
        reason::NOT_UPGRADEABLE => {
            "Wait until the operator's OperatorCondition has Upgradeable True again, or override it in spec.overrides there."
        }
        reason::INVALID_STRATEGY | reason::INVALID_WEBHOOK => {
            "Install a corrected version of the operator: its bundle is wrong in the way that the message says."
        }
        reason::OWNER_CONFLICT => {
            "Delete the ClusterServiceVersion that owns the same kind, or install this operator elsewhere."
        }
        reason::INSTALL_FAILED => {
            "Remove the cause that the message names. The installation is tried again by itself."
        }
        reason::INSTALL_FAILED_NO_RETRY => {
            "Give the ServiceAccount of the OperatorGroup the permissions that the message names; the installation is then tried again."
        }
        reason::INSTALL_CHECK_FAILED | reason::INSTALL_WAITING | reason::UNHEALTHY => {
            "Look at the Deployment and its Pods: kubectl describe and kubectl logs say why they are not available."
        }
        reason::API_SERVICE_FAILED => {
            "Look at the APIService: kubectl describe apiservice says why it is not available."
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_have_to_do_is_said_and_nothing_else() {
        for given in [reason::NO_GROUP, reason::REQUIREMENTS_NOT_MET, reason::INSTALL_FAILED_NO_RETRY] {
            assert!(advice(given).is_some_and(|text| text.ends_with('.')), "{given}");
        }
        for given in [reason::INSTALL_SUCCEEDED, reason::BEING_REPLACED, reason::CERTIFICATES, "", "Other"] {
            assert_eq!(advice(given), None, "{given}");
        }
    }
}
