//! The seal of this program on the plans that it made.
//!
//! The key is in a Secret of the program's namespace, which no user of another namespace can read. The seal covers UID, place
//! and steps of a plan: neither an edited plan nor a copy has a valid one.

use std::sync::Arc;

use aws_lc_rs::{
    hmac::{self, HMAC_SHA256, Key},
    rand,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client};
use olm_api_classic::{InstallPlan, InstallPlanStatus};
use olm_classic_core::plan::{add_seal, seal, sealed_text};
use olm_runtime::{api_text, bounded, post_as};
use tokio::sync::OnceCell;

use super::FIELD_MANAGER;

/// The Secret with the key, and the field in it.
const SECRET: &str = "olm-classic-install-plans";
const FIELD: &str = "key";
/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// Seals plans, and checks seals. Clones are the same.
#[derive(Clone)]
pub(crate) struct Seals(Arc<Inner>);

struct Inner {
    secrets: Api<Secret>,
    key: OnceCell<Key>,
}

impl Seals {
    /// The key is read, or made, when it is needed first.
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        Self(Arc::new(Inner { secrets: Api::namespaced(client, namespace), key: OnceCell::new() }))
    }

    /// Seals the status that a plan is given.
    ///
    /// # Errors
    /// There is no key: the text names the Secret.
    pub(crate) async fn seal(
        &self,
        plan: &InstallPlan,
        status: &mut InstallPlanStatus,
        now: Timestamp,
    ) -> Result<(), String> {
        let tag = hmac::sign(self.key().await?, sealed_text(plan, status).as_bytes());
        add_seal(plan, status, &STANDARD.encode(tag.as_ref()), now);
        Ok(())
    }

    /// Whether this program gave a plan its steps.
    ///
    /// # Errors
    /// As [`Self::seal`].
    pub(crate) async fn is_sealed(&self, plan: &InstallPlan) -> Result<bool, String> {
        let Some(status) = &plan.status else { return Ok(false) };
        let Some(tag) = seal(status).and_then(|seal| STANDARD.decode(seal).ok()) else { return Ok(false) };
        let key = self.key().await?;
        Ok(hmac::verify(key, sealed_text(plan, status).as_bytes(), &tag).is_ok())
    }

    async fn key(&self) -> Result<&Key, String> {
        self.0.key.get_or_try_init(|| self.read()).await
    }

    /// The key in the Secret; a new one if there is none.
    async fn read(&self) -> Result<Key, String> {
        let failed = |error: &str| format!("Secret {SECRET} with the key for InstallPlans: {error}");
        for _ in 0..2 {
            let found =
                bounded(self.0.secrets.get_opt(SECRET)).await.map_err(|error| failed(&api_text(&error)))?;
            if let Some(found) = found {
                let key = found.data.unwrap_or_default().remove(FIELD).unwrap_or_default().0;
                if key.len() != KEY_BYTES {
                    return Err(failed("the key is not one of this program: delete the Secret"));
                }
                return Ok(Key::new(HMAC_SHA256, &key));
            }
            let mut key = vec![0; KEY_BYTES];
            rand::fill(&mut key).map_err(|_| failed("no random numbers"))?;
            let mut secret = Secret::default();
            secret.metadata.name = Some(SECRET.to_owned());
            secret.data = Some([(FIELD.to_owned(), ByteString(key))].into());
            secret.immutable = Some(true);
            match bounded(self.0.secrets.create(&post_as(FIELD_MANAGER), &secret)).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                Err(error) => return Err(failed(&api_text(&error))),
            }
        }
        Err(failed("it is deleted again and again"))
    }
}
