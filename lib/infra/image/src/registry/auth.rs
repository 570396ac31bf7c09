//! Logging in: what a registry's challenge asks for, and the tokens that were got.
//!
//! Pure parsing and a small cache; the requests are the client's. Tokens are kept by host, scope and
//! credential, so that a rotated pull secret takes effect at once.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use serde::Deserialize;

use crate::keyring::{Credential, Secret};

/// How long a token without a stated life is used, in seconds, as the token protocol says.
const TOKEN_LIFE_SECONDS_DEFAULT: u64 = 60;
/// Longest life of a token that is believed, in seconds. A registry that forgets it earlier asks again.
const TOKEN_LIFE_SECONDS_MAX: u64 = 3600;
/// A token is not used in its last seconds.
const TOKEN_LIFE_MARGIN_SECONDS: u64 = 10;
/// How long to go on with the user and password without being asked again, in seconds.
const BASIC_LIFE_SECONDS: u64 = 300;
/// Tokens kept; one a repository and credential in use.
const TOKENS_MAX: usize = 1024;

/// What a `WWW-Authenticate` header asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

/// The challenge to answer: a bearer token when offered, else Basic.
pub(super) fn challenge<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
    let mut basic = false;
    for header in headers {
        let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            basic = true;
        } else if scheme.eq_ignore_ascii_case("bearer") {
            let mut parameters = parameters(rest);
            if let Some(realm) = parameters.remove("realm") {
                let (service, scope) = (parameters.remove("service"), parameters.remove("scope"));
                return Some(Challenge::Bearer { realm, service, scope });
            }
        }
    }
    basic.then_some(Challenge::Basic)
}

/// `key="value", key=value` with backslash escapes in quotes.
fn parameters(text: &str) -> HashMap<String, String> {
    let mut found = HashMap::new();
    let mut rest = text.trim_start();
    while let Some((key, after)) = rest.split_once('=') {
        let mut value = String::new();
        let after = after.trim_start();
        let end = if let Some(quoted) = after.strip_prefix('"') {
            let mut escaped = false;
            let mut end = quoted.len();
            for (index, character) in quoted.char_indices() {
                match character {
                    _ if escaped => {
                        value.push(character);
                        escaped = false;
                    }
                    '\\' => escaped = true,
                    '"' => {
                        end = index + 1;
                        break;
                    }
                    _ => value.push(character),
                }
            }
            &quoted[end..]
        } else {
            let end = after.find(',').unwrap_or(after.len());
            after[..end].trim().clone_into(&mut value);
            &after[end..]
        };
        found.insert(key.trim().to_ascii_lowercase(), value);
        rest = end.trim_start().trim_start_matches(',').trim_start();
    }
    found
}

/// The answer of a token endpoint.
#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl TokenAnswer {
    pub(super) fn into_authorization(self) -> Option<(Authorization, Duration)> {
        let token = self.token.or(self.access_token).filter(|token| !token.is_empty())?;
        let life = self.expires_in.unwrap_or(TOKEN_LIFE_SECONDS_DEFAULT);
        let life = life.clamp(TOKEN_LIFE_SECONDS_DEFAULT, TOKEN_LIFE_SECONDS_MAX);
        let life = Duration::from_secs(life - TOKEN_LIFE_MARGIN_SECONDS);
        Some((Authorization::Bearer(Secret::new(token)), life))
    }
}

/// Reads a challenge and the answer of a token endpoint as the client does, and keeps the token; whether each says
/// anything. For tests that feed what no registry sends.
#[doc(hidden)]
pub fn read_login(header: &str, answer: &[u8]) -> (bool, bool) {
    let challenge = challenge(std::iter::once(header));
    let token = serde_json::from_slice::<TokenAnswer>(answer).ok().and_then(TokenAnswer::into_authorization);
    let says = (challenge.is_some(), token.is_some());
    if let Some((authorization, life)) = token {
        let key = TokenKey { host: String::new(), scope: String::new(), credential: None };
        Tokens::default().put(key, authorization, Instant::now(), life);
    }
    says
}

/// What goes into the `Authorization` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Authorization {
    Basic { user: String, password: Secret },
    Bearer(Secret),
}

impl Authorization {
    /// Basic authorization, with the time it is used before being asked again.
    pub(super) fn basic(user: String, password: Secret) -> (Self, Duration) {
        (Self::Basic { user, password }, Duration::from_secs(BASIC_LIFE_SECONDS))
    }
}

/// Whose access a token stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TokenKey {
    pub(super) host: String,
    pub(super) scope: String,
    pub(super) credential: Option<Credential>,
}

/// Authorizations that are still good.
#[derive(Default)]
pub(super) struct Tokens {
    held: HashMap<TokenKey, (Authorization, Instant)>,
}

impl Tokens {
    pub(super) fn get(&self, key: &TokenKey, now: Instant) -> Option<Authorization> {
        self.held.get(key).filter(|(_, until)| *until > now).map(|(authorization, _)| authorization.clone())
    }

    pub(super) fn put(&mut self, key: TokenKey, authorization: Authorization, now: Instant, life: Duration) {
        if self.held.len() >= TOKENS_MAX {
            self.held.retain(|_, (_, until)| *until > now);
        }
        if self.held.len() >= TOKENS_MAX {
            self.held.clear();
        }
        self.held.insert(key, (authorization, now + life));
    }

    pub(super) fn forget(&mut self, key: &TokenKey) {
        self.held.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_in_all_their_spellings() {
        let bearer = |realm: &str, service: Option<&str>, scope: Option<&str>| {
            Some(Challenge::Bearer {
                realm: realm.into(),
                service: service.map(str::to_owned),
                scope: scope.map(str::to_owned),
            })
        };
        for (headers, wanted) in [
            (vec![r#"Basic realm="ecr""#], Some(Challenge::Basic)),
            (vec!["basic"], Some(Challenge::Basic)),
            (
                vec![r#"Bearer realm="https://a.io/token",service="a.io",scope="repository:x:pull,push""#],
                bearer("https://a.io/token", Some("a.io"), Some("repository:x:pull,push")),
            ),
            (
                vec![r#"BEARER Realm = "https://a.io/t" , service=a.io"#],
                bearer("https://a.io/t", Some("a.io"), None),
            ),
            (
                vec![r#"Basic realm="x""#, r#"Bearer realm="https://a.io/\"t""#],
                bearer("https://a.io/\"t", None, None),
            ),
            (vec!["Negotiate"], None),
            (vec!["Bearer service=a"], None),
            (vec![], None),
        ] {
            assert_eq!(challenge(headers.iter().copied()), wanted, "{headers:?}");
        }
    }

    #[test]
    fn a_token_lives_for_an_hour_at_most() {
        let life = |expires_in: &str| {
            let answer = format!(r#"{{"token":"t","expires_in":{expires_in}}}"#);
            let answer: TokenAnswer = serde_json::from_str(&answer).expect("valid");
            let (authorization, life) = answer.into_authorization().expect("a token");
            let key = TokenKey { host: "a.io".into(), scope: "s".into(), credential: None };
            Tokens::default().put(key, authorization, Instant::now(), life);
            life.as_secs()
        };
        for (expires_in, wanted) in [("0", 50), ("61", 51), ("3600", 3590), ("3601", 3590)] {
            assert_eq!(life(expires_in), wanted, "{expires_in}");
        }
        assert_eq!(life(&u64::MAX.to_string()), 3590);
    }

    #[test]
    fn a_token_is_used_until_shortly_before_its_end_and_only_for_its_credential() {
        let now = Instant::now();
        let key = |credential| TokenKey { host: "a.io".into(), scope: "s".into(), credential };
        let mut tokens = Tokens::default();
        let answer: TokenAnswer =
            serde_json::from_str(r#"{"access_token":"t","expires_in":100}"#).expect("valid");
        let (authorization, life) = answer.into_authorization().expect("a token");
        tokens.put(key(None), authorization.clone(), now, life);
        assert_eq!(tokens.get(&key(None), now + Duration::from_secs(89)), Some(authorization));
        assert_eq!(tokens.get(&key(None), now + Duration::from_secs(91)), None);
        let other = Credential::Bearer(Secret::new("x".into()));
        assert_eq!(tokens.get(&key(Some(other)), now), None);
    }
}
