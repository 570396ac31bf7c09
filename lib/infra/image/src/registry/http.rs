//! Pieces of HTTP that the registry client shares: bounded bodies, error answers, targets that are allowed.

use std::{error::Error, time::Duration};

use bytes::{Bytes, BytesMut};
use olm_text::{causes, cut, one_line};
use reqwest::{Response, Url};
use serde::Deserialize;
use tokio::time::timeout;

use super::{
    RegistryError,
    dial::{Dialling, Forbidden, UnknownHost},
    too_large,
};
use crate::{
    keyring::Credential,
    limits::{ERROR_BODY_BYTES_MAX, REMOTE_MESSAGE_CHARS_MAX},
};

/// A failed exchange. The URL is left out: redirect targets carry signatures.
pub(super) fn connection(host: &str, action: &str, error: reqwest::Error) -> RegistryError {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(forbidden) = cause.downcast_ref::<Forbidden>() {
            return refused(action, &forbidden.host, &forbidden.to_string());
        }
        if let Some(UnknownHost(name)) = cause.downcast_ref() {
            let action = format!("pinging container registry {host}");
            return RegistryError::UnknownHost { action, host: name.clone() };
        }
        source = cause.source();
    }
    let action =
        if error.is_connect() { format!("pinging container registry {host}") } else { action.to_owned() };
    if is_answered_without_tls(&error) && error.url().is_some_and(|url| is_at(url, host)) {
        let cause = format!(
            "the registry {host} of the image reference answers without TLS: name another registry in the reference, \
             or add the flag --insecure-registry={host}, or set insecure = true for {host} in registries.conf"
        );
        return RegistryError::Unusable { action, cause };
    }
    RegistryError::Connection { action, cause: causes(&error.without_url()) }
}

/// Whether a server answered the beginning of TLS with something else, as servers of plain HTTP do.
fn is_answered_without_tls(error: &(dyn Error + 'static)) -> bool {
    use rustls::{Error::InvalidMessage, InvalidMessage::InvalidContentType};

    if matches!(error.downcast_ref(), Some(InvalidMessage(InvalidContentType))) {
        return true;
    }
    // The source of an I/O error is that of the error it wraps, which is left out.
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    wrapped.is_some_and(|wrapped| is_answered_without_tls(wrapped))
        || error.source().is_some_and(is_answered_without_tls)
}

/// Whether a URL leads to this host, whose port may be left out.
fn is_at(url: &Url, host: &str) -> bool {
    let (name, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default());
    host == name || host == format!("{name}:{port}")
}

/// A whole body of at most `limit` bytes, which has to arrive `within` this time.
pub(super) async fn body(
    response: Response,
    host: &str,
    action: &str,
    limit: u64,
    within: Duration,
) -> Result<Bytes, RegistryError> {
    let read = timeout(within, read_body(response, host, action, limit)).await;
    read.unwrap_or_else(|_| {
        let cause = format!("the answer did not arrive within {} seconds", within.as_secs());
        Err(RegistryError::Connection { action: action.to_owned(), cause })
    })
}

async fn read_body(
    mut response: Response,
    host: &str,
    action: &str,
    limit: u64,
) -> Result<Bytes, RegistryError> {
    let too_large = || too_large(action.to_owned(), limit);
    if response.content_length().is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let mut bytes = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| connection(host, action, error))? {
        if (bytes.len() + chunk.len()) as u64 > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

/// The start of an error answer, as far as it arrives `within` this time; what cannot be read counts as nothing.
async fn error_body(mut response: Response, within: Duration) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 >= ERROR_BODY_BYTES_MAX {
                break;
            }
        }
    };
    // What has arrived by then is looked at all the same.
    let _ = timeout(within, read).await;
    bytes
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ErrorBody {
    errors: Vec<ErrorEntry>,
    /// Token endpoints: OAuth2's fields, and `details` or `message` of some.
    error_description: String,
    details: String,
    message: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ErrorEntry {
    code: String,
    message: String,
}

/// What an error answer says, for people: the registry's codes and messages, or the status.
pub(super) async fn message(response: Response, credential: Option<&Credential>, within: Duration) -> String {
    let status = response.status();
    let body = error_body(response, within).await;
    let parsed: ErrorBody = serde_json::from_slice(&body).unwrap_or_default();
    let texts: Vec<String> = parsed.errors.iter().map(entry_text).filter(|text| !text.is_empty()).collect();
    let said = [texts.join(", "), parsed.error_description, parsed.details, parsed.message]
        .into_iter()
        .find(|text| !text.is_empty());
    let text = match said {
        Some(text) => clean(&text, credential),
        None => status.canonical_reason().unwrap_or("unknown status").to_lowercase(),
    };
    format!("{text} (status {})", status.as_u16())
}

/// `manifest unknown`, or `denied: requested access to the resource is denied`.
fn entry_text(entry: &ErrorEntry) -> String {
    let code = entry.code.to_lowercase().replace('_', " ");
    match entry.message.as_str() {
        "" => code,
        message if message.to_lowercase() == code || code.is_empty() => message.to_owned(),
        message => format!("{code}: {message}"),
    }
}

/// A registry's text, safe to show and cut, without what the registry was given to log in.
fn clean(text: &str, credential: Option<&Credential>) -> String {
    let secret = match credential {
        Some(Credential::Basic { password, .. }) => Some(password),
        Some(Credential::Identity(token) | Credential::Bearer(token)) => Some(token),
        None => None,
    };
    if secret.is_some_and(|secret| !secret.expose().is_empty() && text.contains(secret.expose())) {
        return "the registry's message repeats the credentials and is not shown".to_owned();
    }
    cut(&one_line(text), REMOTE_MESSAGE_CHARS_MAX).into_owned()
}

/// Whether two URLs have scheme, host and port in common: only then may credentials go along.
pub(super) fn same_origin(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin()
}

/// How a URL came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A request to the registry, or what it redirected one to.
    Request,
    /// The registry named it as its token endpoint.
    TokenEndpoint,
}

/// Checks a URL before something is sent there. Other hosts than the registry's own are spoken to over HTTPS only;
/// requests to a registry that is configured insecure, whose answers anybody on the way may write, do not leave
/// its host at all.
pub(super) async fn check_target(
    url: &Url,
    dialling: &Dialling,
    target: Target,
    action: &str,
) -> Result<(), RegistryError> {
    let reason = match (url.scheme(), dialling.is_insecure, dialling.is_own(url)) {
        ("http" | "https", true, true) | ("https", false, _) => None,
        ("https", true, false) if target == Target::TokenEndpoint => None,
        ("http" | "https", true, false) if target == Target::Request => {
            Some("registries that are configured insecure may only redirect to their own host")
        }
        ("http", true, false) => Some("plain http is only allowed on the registry's own host"),
        ("http", false, _) => Some("plain http is only allowed for registries that are configured insecure"),
        _ => Some("only https is allowed"),
    };
    let reason = match reason {
        Some(reason) => Some(reason.to_owned()),
        None => dialling.check(url).await.err().map(|forbidden| forbidden.to_string()),
    };
    match reason {
        None => Ok(()),
        Some(reason) => {
            let target = format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default());
            Err(refused(action, &target, &reason))
        }
    }
}

fn refused(action: &str, target: &str, reason: &str) -> RegistryError {
    let cause = format!("refusing to go to {target}: {reason}");
    RegistryError::Unusable { action: action.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::Secret;

    #[tokio::test]
    async fn other_hosts_are_spoken_to_over_https_and_insecure_registries_do_not_redirect_there() {
        use Target::{Request, TokenEndpoint};
        for (url, target, secure, insecure) in [
            ("https://quay.io/x", Request, true, true),
            ("https://quay.io:8443/x", Request, true, true),
            ("http://quay.io/x", Request, false, true),
            ("http://quay.io:8080/x", TokenEndpoint, false, true),
            ("https://elsewhere.io/x", Request, true, false),
            ("http://elsewhere.io/x", Request, false, false),
            ("https://elsewhere.io/x", TokenEndpoint, true, true),
            ("http://elsewhere.io/x", TokenEndpoint, false, false),
            ("https://127.0.0.1/x", Request, false, false),
            ("https://127.0.0.1/x", TokenEndpoint, false, false),
            ("ftp://quay.io/x", Request, false, false),
        ] {
            let parsed = Url::parse(url).expect("a URL");
            for (is_insecure, wanted) in [(false, secure), (true, insecure)] {
                let dialling = Dialling::new("quay.io".to_owned(), is_insecure, [].into());
                let result = check_target(&parsed, &dialling, target, "a").await;
                assert_eq!(result.is_ok(), wanted, "{url} {target:?} {is_insecure}");
            }
        }
    }

    #[test]
    fn a_registrys_text_is_cleaned_cut_and_never_shows_the_password() {
        let credential = Credential::Basic { user: "u".into(), password: Secret::new("hunter2".into()) };
        assert!(!clean("wrong password hunter2", Some(&credential)).contains("hunter2"));
        assert_eq!(clean("a\u{1b}[31m\u{202e}b\nc\n", Some(&credential)), "a\\u{1b}[31m\\u{202e}b c");
        let long = clean(&"x".repeat(1000), None);
        assert_eq!(long, "x".repeat(REMOTE_MESSAGE_CHARS_MAX) + "...");
    }

    #[test]
    fn error_codes_are_said_once() {
        let text = |code: &str, message: &str| {
            entry_text(&ErrorEntry { code: code.into(), message: message.into() })
        };
        assert_eq!(text("MANIFEST_UNKNOWN", "manifest unknown"), "manifest unknown");
        assert_eq!(text("DENIED", "no access"), "denied: no access");
        assert_eq!(text("TOOMANYREQUESTS", ""), "toomanyrequests");
    }
}
