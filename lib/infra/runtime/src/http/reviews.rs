//! Asks the API server who sent a request (TokenReview) and whether they may (SubjectAccessReview), and keeps so
//! many answers for a short time.

use std::{collections::HashMap, hash::Hash, time::Duration};

use axum::http::{HeaderMap, header};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::client::bounded;

/// Answers of one sort that are kept at most. One takes some hundred bytes.
const KEPT_MAX: usize = 1024;
/// Longest token that is reviewed; those of ServiceAccounts have about 1 kB.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// How long answers are kept.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// That a token is valid, or a request allowed.
    pub allowed: Duration,
    /// That it is not.
    pub denied: Duration,
}

/// The answer to a SubjectAccessReview.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the user may.
    pub allowed: bool,
    /// Why not, if the API server says so.
    pub reason: String,
}

/// Reviews of tokens and requests.
pub struct Reviews {
    client: Client,
    kept: Kept,
    // By digests, so that no token is kept.
    users: Memory<[u8; 32], Option<UserInfo>>,
    decisions: Memory<[u8; 32], Decision>,
}

impl Reviews {
    /// Asks with `client`.
    pub fn new(client: Client, kept: Kept) -> Self {
        Self { client, kept, users: Memory::default(), decisions: Memory::default() }
    }

    /// The user of a token, if it is valid.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn user(&self, token: &str) -> Result<Option<UserInfo>, kube::Error> {
        let (key, now) = (Sha256::digest(token).into(), Instant::now());
        if let Some(known) = self.users.get(&key, now) {
            return Ok(known);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let status = bounded(api.create(&PostParams::default(), &review)).await?.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        self.users.put(key, now, now + self.lifetime(user.is_some()), user.clone());
        Ok(user)
    }

    /// Whether a user may send the request that `asked` describes.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn decision(
        &self,
        user: &UserInfo,
        asked: SubjectAccessReviewSpec,
    ) -> Result<Decision, kube::Error> {
        let user = user.clone();
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            ..asked
        };
        let text = serde_json::to_vec(&spec).map_err(kube::Error::SerdeError)?;
        let (key, now) = (Sha256::digest(text).into(), Instant::now());
        if let Some(known) = self.decisions.get(&key, now) {
            return Ok(known);
        }
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let status = bounded(api.create(&PostParams::default(), &review)).await?.status.unwrap_or_default();
        let decision = Decision { allowed: status.allowed, reason: status.reason.unwrap_or_default() };
        self.decisions.put(key, now, now + self.lifetime(decision.allowed), decision.clone());
        Ok(decision)
    }

    fn lifetime(&self, allowed: bool) -> Duration {
        if allowed { self.kept.allowed } else { self.kept.denied }
    }
}

/// The bearer token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let usable = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= TOKEN_BYTES_MAX;
    usable.then_some(token)
}

/// Values with an end of their life, [`KEPT_MAX`] at most.
struct Memory<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Memory<K, V> {
    fn get(&self, key: &K, now: Instant) -> Option<V> {
        self.0.lock().get(key).filter(|(until, _)| *until > now).map(|(_, value)| value.clone())
    }

    fn put(&self, key: K, now: Instant, until: Instant, value: V) {
        let mut kept = self.0.lock();
        if kept.len() >= KEPT_MAX {
            kept.retain(|_, (until, _)| *until > now);
        }
        if kept.len() < KEPT_MAX {
            kept.insert(key, (until, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_answers_are_kept_and_those_whose_time_is_up_make_room() {
        let memory = Memory::default();
        let (now, minute) = (Instant::now(), Duration::from_mins(1));
        for key in 0..KEPT_MAX + 10 {
            memory.put(key, now, now + minute, key);
        }
        assert_eq!(memory.0.lock().len(), KEPT_MAX);
        assert_eq!(memory.get(&KEPT_MAX, now), None, "no more room");
        let later = now + minute;
        assert_eq!(memory.get(&0, later), None, "too old");
        memory.put(KEPT_MAX, later, later + minute, 7);
        assert_eq!(memory.get(&KEPT_MAX, later), Some(7));
        assert_eq!(memory.0.lock().len(), 1);
    }
}
