//! Credentials: asked for, exchanged, rotated, and never carried elsewhere.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use olm_image::{Credential, Keyring, Puller, PullerConfig, Secret, Select, SharedKeyring};

use crate::{
    ordinary::image,
    server::{FakeRegistry, Seen, status},
};

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn challenge(text: &str) -> Response {
    let body = r#"{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}"#;
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, text)], body.to_owned()).into_response()
}

/// A registry whose tokens are given for a user and password, as most are.
fn token_rules(address: String, user_password: String) -> impl Fn(&Seen) -> Option<Response> + Send + Sync {
    move |seen| {
        if seen.path == "/token" {
            return Some(if seen.authorization.as_deref() == Some(&user_password) {
                status(StatusCode::OK, r#"{"token":"good","expires_in":300}"#)
            } else {
                status(
                    StatusCode::UNAUTHORIZED,
                    r#"{"errors":[{"code":"UNAUTHORIZED","message":"incorrect username or password"}]}"#,
                )
            });
        }
        if seen.path == "/v2/" || seen.authorization.as_deref() == Some("Bearer good") {
            return None;
        }
        Some(challenge(&format!(r#"Bearer realm="http://{address}/token",service="fake""#)))
    }
}

async fn pull(puller: &Puller, registry: &FakeRegistry) -> Result<usize, String> {
    let resolved = puller.resolve(&registry.reference("ns/a:v1")).await.map_err(|error| error.to_string())?;
    let unpacked =
        puller.pull(&resolved, |_| Ok(Select::everything())).await.map_err(|error| error.to_string())?;
    Ok(unpacked.files.paths().count())
}

#[tokio::test]
async fn a_token_is_fetched_once_with_the_password_and_used_for_everything() {
    let registry = FakeRegistry::start().await;
    registry.put("v1", &image(&[("a", "x")]));
    registry.interfere(token_rules(registry.address.to_string(), basic("me", "right")));
    assert_eq!(pull(&registry.puller_with_password("me", "right"), &registry).await, Ok(1));
    let seen = registry.seen();
    let tokens: Vec<_> = seen.iter().filter(|seen| seen.path == "/token").collect();
    assert_eq!(tokens.len(), 1);
    assert_eq!(tokens[0].query, "service=fake&scope=repository%3Ans%2Fa%3Apull");
    let leaked =
        seen.iter().filter(|s| s.path != "/token" && s.authorization == Some(basic("me", "right"))).count();
    assert_eq!(leaked, 0, "the password goes to the token endpoint only");
}

#[tokio::test]
async fn a_wrong_password_is_said_in_the_registrys_own_words() {
    let registry = FakeRegistry::start().await;
    registry.put("v1", &image(&[]));
    registry.interfere(token_rules(registry.address.to_string(), basic("me", "right")));
    let error = pull(&registry.puller_with_password("me", "wr0ng"), &registry).await.expect_err("refused");
    let host = registry.address;
    assert_eq!(
        error,
        format!(
            "error creating image source: requesting a token for {host}/ns/a: unauthorized: \
             incorrect username or password (status 401); tried the configured credentials for {host}"
        )
    );
}

#[tokio::test]
async fn a_rotated_password_counts_at_once() {
    let registry = FakeRegistry::start().await;
    registry.put("v1", &image(&[("a", "x")]));
    registry.interfere(token_rules(registry.address.to_string(), basic("me", "right")));
    let puller = registry.puller_with_password("me", "wrong");
    assert!(pull(&puller, &registry).await.is_err());
    let mut keyring = Keyring::default();
    let password = Secret::new("right".to_owned());
    keyring.insert(&registry.address.to_string(), Credential::Basic { user: "me".to_owned(), password });
    puller.keyring().set(keyring);
    assert_eq!(pull(&puller, &registry).await, Ok(1));
}

#[tokio::test]
async fn basic_challenges_are_answered() {
    let registry = FakeRegistry::start().await;
    registry.put("v1", &image(&[("a", "x")]));
    let right = basic("AWS", "p:w");
    registry.interfere(move |seen| {
        let passes = seen.path == "/v2/" || seen.authorization.as_deref() == Some(&right);
        (!passes).then(|| challenge(r#"Basic realm="ecr""#))
    });
    assert_eq!(pull(&registry.puller_with_password("AWS", "p:w"), &registry).await, Ok(1));
    let error = pull(&registry.puller(), &registry).await.expect_err("refused");
    let tried = "unauthorized: authentication required (status 401); tried without credentials, as none are configured";
    assert!(error.contains(tried), "{error}");
}

#[tokio::test]
async fn an_identity_token_is_exchanged_by_post() {
    let registry = FakeRegistry::start().await;
    registry.put("v1", &image(&[("a", "x")]));
    let address = registry.address.to_string();
    registry.interfere(move |seen| match seen.path.as_str() {
        "/token" if seen.method == "POST" => Some(status(StatusCode::OK, r#"{"access_token":"good"}"#)),
        "/token" => Some(status(StatusCode::UNAUTHORIZED, "")),
        _ if seen.authorization.as_deref() == Some("Bearer good") => None,
        _ => Some(challenge(&format!(r#"Bearer realm="http://{address}/token",service="fake""#))),
    });
    let keyring = SharedKeyring::default();
    let json = format!(r#"{{"auths":{{"{}":{{"identitytoken":"refresh"}}}}}}"#, registry.address);
    keyring.set(Keyring::from_docker_config(json.as_bytes()).expect("valid"));
    let puller = Puller::new(PullerConfig { keyring, ..registry.config() });
    assert_eq!(pull(&puller, &registry).await, Ok(1));
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect_to_another_host() {
    let (registry, elsewhere) = (FakeRegistry::start().await, FakeRegistry::start().await);
    let packed = image(&[("a", "x")]);
    registry.put("v1", &packed);
    elsewhere.put("v1", &packed);
    let (right, target) = (basic("me", "right"), elsewhere.address);
    registry.interfere(move |seen| {
        if seen.authorization.as_deref() != Some(&right) {
            return (seen.path != "/v2/").then(|| challenge("Basic realm=x"));
        }
        let blob = seen.path.rsplit_once("/blobs/")?.1.to_owned();
        let location = format!("http://{target}/v2/other/blobs/{blob}");
        Some((StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response())
    });
    // A host that asks for credentials after a redirect gets none either.
    elsewhere.interfere(|seen| (seen.earlier == 0).then(|| challenge("Basic realm=x")));
    let puller = registry.puller_with_password("me", "right");
    assert!(pull(&puller, &registry).await.is_err());
    assert!(!elsewhere.seen().is_empty());
    elsewhere.interfere(|_| None);
    assert_eq!(pull(&puller, &registry).await, Ok(1));
    assert!(elsewhere.seen().iter().all(|seen| seen.authorization.is_none()));
}

#[tokio::test]
async fn credentials_of_one_registry_are_not_shown_to_another() {
    let (registry, other) = (FakeRegistry::start().await, FakeRegistry::start().await);
    registry.put("v1", &image(&[]));
    registry.interfere(|seen| (seen.path != "/v2/").then(|| challenge("Basic realm=x")));
    let keyring = other.password("me", "right");
    let puller = Puller::new(PullerConfig { keyring, ..registry.config() });
    assert!(pull(&puller, &registry).await.is_err());
    assert!(registry.seen().iter().all(|seen| seen.authorization.is_none()));
}

#[tokio::test]
async fn credentials_do_not_follow_an_upload_to_another_host() {
    let (registry, elsewhere) = (FakeRegistry::start().await, FakeRegistry::start().await);
    let (right, target) = (basic("me", "right"), elsewhere.address);
    registry.interfere(move |seen| {
        if seen.authorization.as_deref() != Some(&right) {
            return (seen.path != "/v2/").then(|| challenge("Basic realm=x"));
        }
        let location = format!("http://{target}/upload?state=x");
        let is_start = seen.path.ends_with("/blobs/uploads/");
        is_start.then(|| (StatusCode::ACCEPTED, [(header::LOCATION, location)]).into_response())
    });
    let puller = registry.puller_with_password("me", "right");
    image(&[("a", "x")]).push(&puller, &registry.reference("ns/a:v1")).await.expect("pushes");
    let uploads = elsewhere.seen();
    assert_eq!(uploads.len(), 2, "config and layer");
    assert!(uploads.iter().all(|seen| seen.authorization.is_none()));
}
