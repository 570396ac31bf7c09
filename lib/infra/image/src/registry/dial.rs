//! Which hosts and addresses are dialled on behalf of a registry.
//!
//! A registry names other hosts, in redirects and as its token endpoint, and the author of an image reference chooses the
//! registry. Neither may lead to what only this machine reaches: addresses are checked where they are dialled, after
//! the names have been resolved. A proxy, where one is configured, resolves names itself and decides for itself.

use std::{
    env,
    error::Error,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

/// What environment variables name proxies.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// What C libraries call a name that does not exist: glibc, glibc for a name without addresses, musl, and that of macOS.
/// The standard library keeps only this text of the error. A lookup that fails otherwise, for instance because no DNS
/// server answers, may succeed later.
const UNKNOWN: [&str; 4] = [
    "Name or service not known",
    "No address associated with hostname",
    "Name does not resolve",
    "nodename nor servname provided, or not known",
];

/// What may be dialled for one registry.
#[derive(Debug, Clone)]
pub(super) struct Dialling {
    /// The registry's host, without its port.
    pub(super) own: String,
    /// Whether the registry is configured insecure.
    pub(super) is_insecure: bool,
    /// Hosts of proxies, which are dialled wherever they are.
    proxies: Arc<[String]>,
}

/// A name or address that must not be dialled. It ends no wait for better times: it is the registry's fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Forbidden {
    pub(super) host: String,
    address: IpAddr,
    is_own: bool,
}

impl fmt::Display for Forbidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address;
        if self.is_own {
            return write!(
                formatter,
                "a registry at the link-local address {address} has to be configured insecure"
            );
        }
        write!(
            formatter,
            "only the registry itself may be at {address}, a loopback, link-local or unspecified address"
        )
    }
}

impl Error for Forbidden {}

/// A name that no host has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnknownHost(pub(super) String);

impl fmt::Display for UnknownHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "lookup {}: no such host", self.0)
    }
}

impl Error for UnknownHost {}

/// The hosts of the proxies that the environment names.
pub(super) fn proxies() -> Arc<[String]> {
    let named = PROXY_VARIABLES.iter().filter_map(|variable| env::var(variable).ok());
    named.filter_map(|proxy| host(&proxy)).collect()
}

fn host(proxy: &str) -> Option<String> {
    let with_scheme = Url::parse(proxy).ok().filter(Url::has_host);
    let url = with_scheme.or_else(|| Url::parse(&format!("http://{proxy}")).ok())?;
    url.host_str().map(str::to_owned)
}

impl Dialling {
    pub(super) fn new(own: String, is_insecure: bool, proxies: Arc<[String]>) -> Self {
        Self { own, is_insecure, proxies }
    }

    /// Whether a URL leads to the registry's own host, at whatever port.
    pub(super) fn is_own(&self, url: &Url) -> bool {
        url.host_str() == Some(&self.own)
    }

    /// The same for a request to a URL: elsewhere the certificate counts, whatever is configured for the registry.
    pub(super) fn to(mut self, url: &Url) -> Self {
        self.is_insecure &= self.is_own(url);
        self
    }

    /// Checks a URL whose address is not looked up when it is dialled.
    pub(super) async fn check(&self, url: &Url) -> Result<(), Forbidden> {
        let host = url.host_str().unwrap_or_default();
        let addresses = match literal(host) {
            Some(address) => vec![address],
            None if self.proxies.iter().any(|proxy| proxy == host) && host != self.own => {
                addresses(host).await.unwrap_or_default()
            }
            None => return Ok(()),
        };
        self.permit(host, &addresses).await
    }

    /// Checks the addresses of a host, all of them: which one is dialled is not known before.
    async fn permit(&self, host: &str, found: &[IpAddr]) -> Result<(), Forbidden> {
        if found.iter().all(|address| !is_special(*address)) {
            return Ok(());
        }
        let home = if host == self.own {
            found.to_vec()
        } else {
            match literal(&self.own) {
                Some(address) => vec![address],
                None => addresses(&self.own).await.unwrap_or_default(),
            }
        };
        self.permit_at_home(host, found, &home)
    }

    /// The same with the addresses of the registry itself.
    fn permit_at_home(&self, host: &str, found: &[IpAddr], home: &[IpAddr]) -> Result<(), Forbidden> {
        let is_permitted = |address: &IpAddr| {
            !is_special(*address)
                || (home.contains(address) && (self.is_insecure || !is_link_local(address.to_canonical())))
        };
        match found.iter().find(|address| !is_permitted(address)) {
            None => Ok(()),
            Some(address) => {
                Err(Forbidden { host: host.to_owned(), address: *address, is_own: host == self.own })
            }
        }
    }

    async fn resolved(self, host: String) -> Result<Addrs, Box<dyn Error + Send + Sync>> {
        let found = tokio::net::lookup_host((host.as_str(), 0)).await;
        let found: Vec<SocketAddr> = match found {
            Err(error) if is_unknown(&error) => return Err(UnknownHost(host.clone()).into()),
            found => found?.collect(),
        };
        if !self.proxies.contains(&host) {
            let addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
            self.permit(&host, &addresses).await?;
        }
        Ok(Box::new(found.into_iter()))
    }
}

impl Resolve for Dialling {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(self.clone().resolved(name.as_str().to_ascii_lowercase()))
    }
}

/// Whether a lookup failed because no host has the name.
fn is_unknown(error: &io::Error) -> bool {
    let text = error.to_string();
    UNKNOWN.iter().any(|unknown| text.contains(unknown))
}

async fn addresses(host: &str) -> Result<Vec<IpAddr>, io::Error> {
    Ok(tokio::net::lookup_host((host, 0)).await?.map(|found| found.ip()).collect())
}

/// The address that a URL's host is written as; URLs have them in one form only.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether an address leads to this machine or stays on its links.
fn is_special(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_unspecified = match address {
        // All of 0.0.0.0/8 means "this host".
        IpAddr::V4(address) => address.octets()[0] == 0,
        IpAddr::V6(address) => address.is_unspecified(),
    };
    address.is_loopback() || is_unspecified || is_link_local(address)
}

/// Whether a canonical address stays on the links of this machine, where clouds keep credentials of nodes.
pub fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialling(own: &str, is_insecure: bool) -> Dialling {
        Dialling::new(own.to_owned(), is_insecure, Arc::from(["proxy.local".to_owned()]))
    }

    #[tokio::test]
    async fn literal_addresses_of_this_machine_and_its_links_are_only_the_registrys_own() {
        for (own, url, secure, insecure) in [
            ("quay.io", "https://203.0.113.7/x", true, true),
            ("quay.io", "https://10.0.0.1/x", true, true),
            ("quay.io", "https://127.0.0.1/x", false, false),
            ("quay.io", "https://2130706433/x", false, false),
            ("quay.io", "https://0x7f.1/x", false, false),
            ("quay.io", "https://0.0.0.0/x", false, false),
            ("quay.io", "https://0.0.0.1/x", false, false),
            ("quay.io", "https://[::]/x", false, false),
            ("quay.io", "https://[::1]/x", false, false),
            ("quay.io", "https://[::ffff:127.0.0.1]/x", false, false),
            ("quay.io", "https://169.254.169.254/x", false, false),
            ("quay.io", "https://[::ffff:169.254.169.254]/x", false, false),
            ("quay.io", "https://[fe80::1]/x", false, false),
            ("127.0.0.1", "https://127.0.0.1:5000/x", true, true),
            ("127.0.0.1", "https://127.0.0.2/x", false, false),
            ("[::1]", "https://[::1]:5000/x", true, true),
            ("169.254.1.1", "https://169.254.1.1/x", false, true),
            ("[::ffff:169.254.1.1]", "https://[::ffff:169.254.1.1]/x", false, true),
        ] {
            let parsed = Url::parse(url).expect("a URL");
            assert_eq!(dialling(own, false).check(&parsed).await.is_ok(), secure, "{own} {url}");
            assert_eq!(dialling(own, true).check(&parsed).await.is_ok(), insecure, "{own} {url}");
        }
    }

    #[test]
    fn every_address_of_a_name_counts() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let all = |texts: &[&str]| texts.iter().map(|text| ip(text)).collect::<Vec<_>>();
        let registry = dialling("registry.local", false);
        for (found, home, forbidden) in [
            (all(&["203.0.113.7", "2001:db8::7"]), all(&[]), None),
            (all(&["203.0.113.7", "127.0.0.1"]), all(&["203.0.113.7"]), Some("127.0.0.1")),
            (all(&["::ffff:169.254.169.254", "203.0.113.7"]), all(&[]), Some("::ffff:169.254.169.254")),
            (all(&["127.0.0.1"]), all(&["127.0.0.1"]), None),
            (all(&["127.0.0.1", "127.0.0.2"]), all(&["127.0.0.1"]), Some("127.0.0.2")),
            (all(&["169.254.1.1"]), all(&["169.254.1.1"]), Some("169.254.1.1")),
        ] {
            let result = registry.permit_at_home("other.local", &found, &home);
            assert_eq!(result.err().map(|error| error.address), forbidden.map(ip), "{found:?} {home:?}");
        }
    }

    #[tokio::test]
    async fn a_name_is_checked_when_it_is_resolved() {
        let resolved = async |own: &str| dialling(own, false).resolved("localhost".to_owned()).await;
        assert!(resolved("localhost").await.is_ok(), "the registry is there itself");
        let Err(error) = resolved("127.0.0.2").await else { panic!("localhost is elsewhere") };
        assert!(error.downcast_ref::<Forbidden>().is_some(), "{error}");
        let mut behind_a_proxy = dialling("127.0.0.2", false);
        behind_a_proxy.proxies = Arc::from(["localhost".to_owned()]);
        assert!(
            behind_a_proxy.clone().resolved("localhost".to_owned()).await.is_ok(),
            "the proxy is dialled"
        );
        let target = Url::parse("https://localhost/x").expect("a URL");
        assert!(behind_a_proxy.check(&target).await.is_err(), "but no registry may lead to it");
    }

    #[test]
    fn only_a_name_that_does_not_exist_is_an_unknown_host() {
        for (text, wanted) in [
            ("failed to lookup address information: Name or service not known", true),
            ("failed to lookup address information: Name does not resolve", true),
            ("failed to lookup address information: Temporary failure in name resolution", false),
            ("failed to lookup address information: Try again", false),
            ("connection refused", false),
        ] {
            assert_eq!(is_unknown(&io::Error::other(text)), wanted, "{text}");
        }
    }

    #[tokio::test]
    async fn a_name_that_does_not_exist_is_recognized() {
        // No label is that long: the DNS is not even asked.
        let host = format!("{}.example", "a".repeat(64));
        let Err(error) = dialling(&host, false).resolved(host.clone()).await else { panic!("it resolves") };
        assert_eq!(error.downcast_ref(), Some(&UnknownHost(host)), "{error}");
    }

    #[test]
    fn proxies_are_read_as_people_write_them() {
        for (text, wanted) in [
            ("http://proxy.local:3128", Some("proxy.local")),
            ("proxy.local:3128", Some("proxy.local")),
            ("http://me:secret@Proxy.local/", Some("proxy.local")),
            ("localhost", Some("localhost")),
            ("", None),
        ] {
            assert_eq!(host(text).as_deref(), wanted, "{text}");
        }
    }
}
