//! Which scenarios do not run, and why.

use crate::place::Facts;

/// Scenarios of upstream that are about what this program does not do on purpose.
pub(crate) const NOT_OURS: [(&str, &str); 2] = [
    (
        "Installing: an account that is named only brings a warning",
        "upstream ignores spec.serviceAccount and warns; here it is honoured (docs/decisions/0001-differences.md)",
    ),
    (
        "Updating: an account that was named can be taken back",
        "upstream ignores spec.serviceAccount; here an extension without one is refused or takes the default (docs/decisions/0001-differences.md)",
    ),
];

/// Why a scenario with these tags cannot run at this place; nothing if it can.
pub(crate) fn reason(place: &Facts, tags: &[&str]) -> Option<String> {
    let has = |tag: &str| tags.contains(&tag);
    for gate in &place.gates_off {
        if has(gate) {
            return Some(format!("the feature gate {gate} is off"));
        }
    }
    let text = if has("split") && !place.split {
        "catalogs are read in process here; needs a catalogd on its own (overlay split)"
    } else if has("mirror") && place.mirror.is_none() {
        "needs a registries.conf with a mirror (OLM_E2E_MIRROR)"
    } else if has("proxy") && !place.proxy {
        "the programs cannot reach a proxy of this process"
    } else if has("CatalogdHA") && !place.replicas {
        "needs two replicas that serve catalogs"
    } else {
        return None;
    };
    Some(text.to_owned())
}
