//! Certificates of webhooks: who makes them, and how the built-in provider keeps and rotates them.
//!
//! The built-in provider's controller is a step of the pass over a revision, so that it never works on an object
//! at the same time as the roll-out. It keeps one Secret for each serving Deployment ([`keeper`]), moves it
//! through its rotation (`olm-certs`, as serving certificates) and says which `caBundle` belongs where
//! ([`injection`], pure). Rendered objects stay as they are: the `caBundle` is in the first create and has a field
//! manager of its own from then on.

mod injection;
mod keeper;
mod provider;

pub(crate) use injection::{CaBundles, Injection, needs_ca_bundle};
pub(crate) use keeper::{Keeper, Kept, Memory};
pub(crate) use provider::{Candidates, choose};
pub use provider::{ProviderSetting, Settings};

use olm_objectset::Phase;
use olm_render::webhook_certificates;
use serde_json::json;

/// The Secrets that a revision of these phases will be given, as a phase of their own: the account must be
/// allowed to write them.
pub(crate) fn secrets(phases: &[Phase]) -> Phase {
    let certificates = webhook_certificates(phases.iter().flat_map(|phase| &phase.objects));
    let objects = certificates
        .into_iter()
        .map(|certificate| {
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": certificate.secret, "namespace": certificate.namespace},
            })
        })
        .collect();
    Phase { name: "webhook-certificates".into(), objects }
}
