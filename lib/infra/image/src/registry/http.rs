//! Pieces of HTTP that the registry client shares: bounded bodies, error answers, targets that are allowed.

use std::{error::Error, net::IpAddr, time::Duration};

use bytes::{Bytes, BytesMut};
use reqwest::{Response, Url};
use serde::Deserialize;
use tokio::time::timeout;

use super::RegistryError;
use crate::{
    keyring::Credential,
    limits::{ERROR_BODY_BYTES_MAX, REMOTE_MESSAGE_CHARS_MAX},
};

/// An error with its causes; reqwest's own display names only the outermost.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// A failed exchange. The URL is left out: redirect targets carry signatures.
pub(super) fn connection(host: &str, action: &str, error: reqwest::Error) -> RegistryError {
    let action =
        if error.is_connect() { format!("pinging container registry {host}") } else { action.to_owned() };
    RegistryError::Connection { action, cause: chain(&error.without_url()) }
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
    let too_large = || RegistryError::TooLarge { action: action.to_owned(), limit };
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

/// A registry's text without control characters, cut, and without what it was given to log in.
fn clean(text: &str, credential: Option<&Credential>) -> String {
    let secret = match credential {
        Some(Credential::Basic { password, .. }) => Some(password),
        Some(Credential::Identity(token) | Credential::Bearer(token)) => Some(token),
        None => None,
    };
    if secret.is_some_and(|secret| !secret.expose().is_empty() && text.contains(secret.expose())) {
        return "the registry's message repeats the credentials and is not shown".to_owned();
    }
    text.chars().filter(|c| !c.is_control()).take(REMOTE_MESSAGE_CHARS_MAX).collect()
}

/// Whether two URLs have scheme, host and port in common: only then may credentials go along.
pub(super) fn same_origin(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin()
}

/// Refuses plain HTTP and link-local addresses, unless the registry is configured insecure.
pub(super) fn check_target(url: &Url, insecure: bool, action: &str) -> Result<(), RegistryError> {
    let reason = match url.scheme() {
        "https" => None,
        "http" if insecure => None,
        "http" => Some("plain http is only allowed for registries that are configured insecure"),
        _ => Some("only https is allowed"),
    };
    let reason = reason.or_else(|| {
        (!insecure && is_link_local(url))
            .then_some("link-local addresses are only allowed for registries that are configured insecure")
    });
    match reason {
        None => Ok(()),
        Some(reason) => Err(RegistryError::Refused {
            action: action.to_owned(),
            target: format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default()),
            reason,
        }),
    }
}

fn is_link_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    match host.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(IpAddr::V4(address)) => address.is_link_local(),
        Ok(IpAddr::V6(address)) => {
            address.is_unicast_link_local()
                || address.to_ipv4_mapped().is_some_and(|address| address.is_link_local())
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::Secret;

    #[test]
    fn targets_are_https_and_not_link_local_unless_insecure() {
        for (url, secure, insecure) in [
            ("https://quay.io/x", true, true),
            ("http://quay.io/x", false, true),
            ("https://169.254.169.254/latest", false, true),
            ("https://[fe80::1]/x", false, true),
            ("https://[::ffff:169.254.169.254]/x", false, true),
            ("ftp://quay.io/x", false, false),
        ] {
            let parsed = Url::parse(url).expect("a URL");
            assert_eq!(check_target(&parsed, false, "a").is_ok(), secure, "{url}");
            assert_eq!(check_target(&parsed, true, "a").is_ok(), insecure, "{url}");
        }
    }

    #[test]
    fn a_registrys_text_is_cleaned_cut_and_never_shows_the_password() {
        let credential = Credential::Basic { user: "u".into(), password: Secret::new("hunter2".into()) };
        assert!(!clean("wrong password hunter2", Some(&credential)).contains("hunter2"));
        assert_eq!(clean("a\u{1b}[31mb\n", Some(&credential)), "a[31mb");
        assert_eq!(clean(&"x".repeat(1000), None).len(), REMOTE_MESSAGE_CHARS_MAX);
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
