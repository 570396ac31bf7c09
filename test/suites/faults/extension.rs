//! What is looked at in an extension, beside its installation.

use olm_api::names::PAUSED_ANNOTATION;
use olm_test::prelude::*;

/// Fails while it is reported as paused.
pub(crate) async fn is_unpaused(extension: &Extension) -> Result<()> {
    let ready = extension.shown().await?.condition(ConditionType::Ready);
    ensure!(!ready.is_empty() && !ready.contains(PAUSED_ANNOTATION), "{ready}");
    Ok(())
}

/// Fails unless this deletion policy is in force.
pub(crate) async fn retains(extension: &Extension, policy: &str) -> Result<()> {
    extension.shows(ConditionType::DeletionPolicy, &format!("True/{policy}/")).await
}
