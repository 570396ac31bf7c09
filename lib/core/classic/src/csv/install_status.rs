//! Whether what was installed is healthy, as rows that three phases share.

use jiff::SignedDuration;

use super::{
    Phase, View,
    deployments::Check,
    rows::availability,
    step::{Again, Outcome},
    texts::{self, message, reason},
    view::{Availability, Fact, Webhooks},
};

/// The time after which APIServices whose Pods are on their way are looked at again.
const DISRUPTION: SignedDuration = SignedDuration::from_secs(10);

/// The phase and reason of an operator that is not healthy, but is not lost.
#[derive(Debug, Clone, Copy)]
pub(super) struct InstallPhase(pub(super) Phase, pub(super) &'static str);

/// Evaluates the rows.
pub(super) fn install_status(view: &View, otherwise: InstallPhase) -> Result<Outcome, Fact> {
    let InstallPhase(phase, because) = otherwise;
    let check = View::get(view.deployments.as_ref(), Fact::Deployments)?;
    if matches!(check, Check::Incalculable) {
        return Ok(Outcome::to(Phase::Pending, reason::REINSTALL, message::INCALCULABLE));
    }
    let (services, webhooks) = (availability(view)?, View::get(view.webhooks.as_ref(), Fact::Webhooks)?);
    let fault = match check {
        Check::Fault(fault) => Some(fault),
        Check::Fine | Check::Incalculable => None,
    };
    if let Some(fault) = fault.filter(|fault| fault.is_unrecoverable()) {
        let text = texts::check_failed(&fault.message);
        return Ok(Outcome::to(Phase::Failed, reason::INSTALL_CHECK_FAILED, text));
    }
    match services {
        Availability::Available => {}
        Availability::Disrupted => return Ok(Outcome::stay().again(Again::After(DISRUPTION))),
        Availability::Failed(cause) => {
            let text = texts::api_service_failed(cause);
            return Ok(Outcome::to(Phase::Failed, reason::API_SERVICE_FAILED, text));
        }
        Availability::Unavailable => return Ok(Outcome::to(phase, because, message::API_SERVICES)),
    }
    match webhooks {
        Webhooks::Installed => {}
        Webhooks::Failed(cause) => {
            return Ok(Outcome::to(Phase::InstallReady, because, texts::webhook_failed(cause)));
        }
        Webhooks::Missing => return Ok(Outcome::to(phase, because, message::WEBHOOKS)),
    }
    Ok(match fault {
        Some(fault) => {
            let phase = if fault.is_drift() { Phase::InstallReady } else { phase };
            Outcome::to(phase, because, texts::installing(&fault.message))
        }
        None => Outcome::to(Phase::Succeeded, reason::INSTALL_SUCCEEDED, message::SUCCEEDED),
    })
}
