//! From the CSV's install modes to the namespaces an operator watches.
//!
//! As in operator-controller's internal/operator-controller/rukpak/render/render.go and applier/provider.go.

use std::collections::BTreeSet;

use olm_bundle::{Csv, InstallMode};

use crate::RenderError;

type Modes = BTreeSet<InstallMode>;

/// Refuses bundles that could not be installed in any mode that is enabled.
pub(crate) fn refuse_unsupported(modes: &Modes, single_and_own_enabled: bool) -> Result<(), RenderError> {
    if !single_and_own_enabled && !modes.contains(&InstallMode::AllNamespaces) {
        return Err(RenderError::Unsupported("bundle does not support AllNamespaces install mode"));
    }
    if !modes.iter().any(|mode| *mode != InstallMode::MultiNamespace) {
        return Err(RenderError::Unsupported(
            "bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes",
        ));
    }
    Ok(())
}

/// The namespaces watched when nothing is configured.
pub(crate) fn default_targets(modes: &Modes) -> Vec<String> {
    if modes.contains(&InstallMode::AllNamespaces) { vec![String::new()] } else { Vec::new() }
}

/// Whether the bundle can watch these namespaces.
pub(crate) fn check(csv: &Csv, install_namespace: &str, targets: &[String]) -> Result<(), RenderError> {
    let supports = |mode| csv.install_modes.contains(&mode);
    let unsupported = |what: String| {
        Err(format!("supported install modes [{}] do not support {what}", csv.mode_names().join(" ")))
    };
    let set: BTreeSet<&str> = targets.iter().map(String::as_str).collect();
    let several = || unsupported(format!("target namespaces [{}]", targets.join(" ")));
    let own = || unsupported("targeting own namespace".to_owned());
    let result = match (set.len(), set.first().copied()) {
        (0, _) | (_, None) if supports(InstallMode::MultiNamespace) => {
            Err("at least one target namespace must be specified".to_owned())
        }
        (0, _) | (_, None) => Err("exactly one target namespace must be specified".to_owned()),
        (1, Some("")) if supports(InstallMode::AllNamespaces) => Ok(()),
        (1, Some("")) => unsupported("targeting all namespaces".to_owned()),
        (1, Some(target)) if target == install_namespace => {
            if supports(InstallMode::OwnNamespace) {
                Ok(())
            } else {
                own()
            }
        }
        (1, Some(_)) if supports(InstallMode::SingleNamespace) => Ok(()),
        (1, Some(_)) => several(),
        _ if set.contains(install_namespace) && !supports(InstallMode::OwnNamespace) => own(),
        _ if supports(InstallMode::MultiNamespace) && !set.contains("") => Ok(()),
        _ => several(),
    };
    result.map_err(|message| RenderError::TargetNamespaces { targets: targets.to_vec(), message })
}
