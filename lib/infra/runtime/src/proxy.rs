//! Which proxy leads to the API server: that of the kubeconfig, else that of the environment, as client-go decides.
//!
//! kube asks the environment for kubeconfigs only, not in a Pod, and compares `NO_PROXY` with the proxy's own address;
//! so it is not asked. Machines are reached without a proxy when they are this one.

use std::{env, net::IpAddr};

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::Kubeconfig;

use crate::client::ClientError;

/// What the environment says of proxies.
#[derive(Debug, Default)]
struct Variables {
    http: String,
    https: String,
    no: String,
}

impl Variables {
    /// Each under its name in capitals, else in small letters.
    fn read() -> Self {
        let of = |name: &str| {
            let found = [name.to_owned(), name.to_ascii_lowercase()]
                .into_iter()
                .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
            found.unwrap_or_default()
        };
        Self { http: of("HTTP_PROXY"), https: of("HTTPS_PROXY"), no: of("NO_PROXY") }
    }

    /// The proxy to `target`, with the user and password of its address.
    fn proxy(&self, target: &Uri) -> Result<Option<Uri>, ClientError> {
        let (variable, text) = match target.scheme_str() {
            Some("https") => ("HTTPS_PROXY", &self.https),
            _ => ("HTTP_PROXY", &self.http),
        };
        if text.is_empty() || target.host().is_none_or(is_here) {
            return Ok(None);
        }
        let proxy = address(text).ok_or(ClientError::Proxy(variable))?;
        let matcher = Matcher::builder().all(proxy.to_string()).no(self.no.clone()).build();
        Ok(matcher.intercept(target).map(|_| proxy))
    }
}

/// The proxy to the API server at `target`. One that the kubeconfig names is used whatever the environment says.
///
/// # Errors
/// What is named is no address; the text does not repeat it, for it may hold a password.
pub(crate) fn to_cluster(target: &Uri, kubeconfig: Option<&Kubeconfig>) -> Result<Option<Uri>, ClientError> {
    match kubeconfig.and_then(named) {
        Some(text) => address(text).map(Some).ok_or(ClientError::Proxy("proxy-url of the kubeconfig")),
        None => Variables::read().proxy(target),
    }
}

/// The proxy that the kubeconfig names for its current cluster.
fn named(kubeconfig: &Kubeconfig) -> Option<&str> {
    let current = kubeconfig.current_context.as_deref()?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.as_deref().filter(|text| !text.is_empty())
}

/// An address, for HTTP where it does not say.
fn address(text: &str) -> Option<Uri> {
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    text.parse::<Uri>().ok().filter(|address| address.host().is_some_and(|host| !host.is_empty()))
}

fn is_here(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(http: &str, https: &str, no: &str, target: &str) -> Option<String> {
        let variables = Variables { http: http.into(), https: https.into(), no: no.into() };
        let proxy = variables.proxy(&target.parse().unwrap()).unwrap();
        proxy.map(|proxy| proxy.authority().unwrap().to_string())
    }

    #[test]
    fn the_environment_decides_as_it_does_for_the_original() {
        let (plain, tls) = ("http://plain:1", "http://me:secret@tls:2");
        for (no, target, wanted) in [
            ("", "https://10.96.0.1", Some("me:secret@tls:2")),
            ("", "https://10.96.0.1:6443", Some("me:secret@tls:2")),
            ("", "http://10.96.0.1", Some("plain:1")),
            ("10.96.0.0/12", "https://10.96.0.1", None),
            ("10.96.0.1", "https://10.96.0.1:443", None),
            (".example.com,10.0.0.0/8", "https://api.example.com", None),
            ("example.com", "https://api.example.com", None),
            ("example.com", "https://api.example.org", Some("me:secret@tls:2")),
            ("*", "https://api.example.com", None),
            // The proxy's own address is no target.
            ("tls", "https://api.example.com", Some("me:secret@tls:2")),
            ("", "https://localhost:6443", None),
            ("", "https://127.0.0.1:6443", None),
            ("", "https://[::1]:6443", None),
            ("", "https://[fd00::1]:6443", Some("me:secret@tls:2")),
        ] {
            assert_eq!(chosen(plain, tls, no, target).as_deref(), wanted, "NO_PROXY={no} {target}");
        }
        assert_eq!(chosen(plain, "", "", "https://10.96.0.1"), None, "HTTP_PROXY is for http");
        assert_eq!(chosen("", "tls:2", "", "https://10.96.0.1").as_deref(), Some("tls:2"));
        let wrong = Variables { https: "http://me:secret@ no".into(), ..Variables::default() };
        let error = wrong.proxy(&"https://10.96.0.1".parse().unwrap()).unwrap_err().to_string();
        assert_eq!(error, "HTTPS_PROXY is not the address of a proxy, want http://<host>:<port>");
    }

    #[test]
    fn a_kubeconfig_has_the_first_word() {
        let file = |proxy: &str| -> Kubeconfig {
            serde_json::from_value(serde_json::json!({
                "current-context": "b",
                "contexts": [
                    {"name": "a", "context": {"cluster": "a", "user": "u"}},
                    {"name": "b", "context": {"cluster": "b", "user": "u"}},
                ],
                "clusters": [
                    {"name": "a", "cluster": {"server": "https://a", "proxy-url": "http://wrong:1"}},
                    {"name": "b", "cluster": {"server": "https://b", "proxy-url": proxy}},
                ],
            }))
            .unwrap()
        };
        let here: Uri = "https://127.0.0.1:6443".parse().unwrap();
        let proxy = to_cluster(&here, Some(&file("socks5://right:2"))).unwrap().unwrap();
        assert_eq!(proxy.to_string(), "socks5://right:2/");
        assert_eq!(to_cluster(&here, Some(&file(""))).unwrap(), None, "nobody asks for one");
        assert!(to_cluster(&here, Some(&file("http://"))).is_err());
    }
}
