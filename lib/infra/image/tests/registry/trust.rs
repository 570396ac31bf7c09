//! TLS: which registries are believed, and that credentials are never sent in the clear.

use std::{net::SocketAddr, path::Path};

use axum::{
    Router,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use axum_server::tls_rustls::RustlsConfig;
use olm_image::{Credential, Keyring, Puller, PullerConfig, Reference, Secret, Select, SharedKeyring};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::{
    ordinary::image,
    server::{FakeRegistry, status},
};

/// An HTTPS server with a certificate of its own making, answering everything alike.
struct Secure {
    address: SocketAddr,
    authority: String,
    handle: axum_server::Handle<SocketAddr>,
}

impl Secure {
    async fn start(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let (certificate, secret) = (key.cert.pem(), key.signing_key.serialize_pem());
        let config = RustlsConfig::from_pem(certificate.clone().into_bytes(), secret.into_bytes())
            .await
            .expect("valid");
        let handle = axum_server::Handle::new();
        let router = Router::new().fallback(move || {
            let answer = answer.clone();
            async move { answer() }
        });
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = axum_server::bind_rustls(address, config).handle(handle.clone());
        tokio::spawn(server.serve(router.into_make_service()));
        let address = handle.listening().await.expect("listens");
        Self { address, authority: certificate, handle }
    }

    fn reference(&self) -> Reference {
        Reference::parse(&format!("{}/a:v1", self.address)).expect("parses")
    }

    fn keyring(&self) -> SharedKeyring {
        let mut keyring = Keyring::default();
        let password = Secret::new("right".to_owned());
        keyring.insert(&self.address.to_string(), Credential::Basic { user: "me".to_owned(), password });
        let shared = SharedKeyring::default();
        shared.set(keyring);
        shared
    }

    /// Settings that trust this server, and no registry as insecure.
    fn trusting(&self, folder: &Path) -> PullerConfig {
        std::fs::write(folder.join("own.crt"), &self.authority).expect("written");
        let mut config = PullerConfig::new(folder);
        config.cas_dir = Some(folder.to_owned());
        config.timeouts.retries = 0;
        config.keyring = self.keyring();
        config
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.handle.shutdown();
    }
}

fn manifest() -> Response {
    "the manifest".into_response()
}

async fn error(puller: &Puller, reference: &Reference) -> String {
    puller.resolve(reference).await.expect_err("refused").to_string()
}

#[tokio::test]
async fn a_registry_without_tls_is_reported_with_the_remedy() {
    let (registry, folder) = (FakeRegistry::start().await, tempfile::tempdir().expect("a folder"));
    let puller = Puller::new(PullerConfig::new(folder.path()));
    let error = puller.resolve(&registry.reference("a:v1")).await.expect_err("no TLS");
    let host = registry.address;
    let wanted = format!(
        "error creating image source: pinging container registry {host}: the registry {host} of the image reference \
         answers without TLS: name another registry in the reference, or add the flag --insecure-registry={host}, or \
         set insecure = true for {host} in registries.conf"
    );
    assert_eq!(error.to_string(), wanted);
}

#[tokio::test]
async fn authorities_of_the_folder_are_trusted_as_soon_as_they_are_there() {
    let (server, folder) = (Secure::start(manifest).await, tempfile::tempdir().expect("a folder"));
    let mut config = PullerConfig::new(folder.path());
    config.cas_dir = Some(folder.path().to_owned());
    config.timeouts.retries = 0;
    let puller = Puller::new(config);
    let text = error(&puller, &server.reference()).await;
    assert!(text.contains("no certificates found in \""), "{text}");
    let other = Secure::start(manifest).await;
    std::fs::write(folder.path().join("other.crt"), &other.authority).expect("written");
    let text = error(&puller, &server.reference()).await;
    assert!(text.contains("certificate") && !text.contains("loading certificates"), "{text}");
    std::fs::write(folder.path().join("own.crt"), &server.authority).expect("written");
    assert!(puller.resolve(&server.reference()).await.is_ok());
    std::fs::remove_file(folder.path().join("own.crt")).expect("removed");
    assert!(puller.resolve(&server.reference()).await.is_err(), "trust ends with the file");
}

#[tokio::test]
async fn unusable_certificates_are_errors_that_name_the_file() {
    let (server, folder) = (Secure::start(manifest).await, tempfile::tempdir().expect("a folder"));
    let puller = Puller::new(server.trusting(folder.path()));
    for (name, wanted) in [
        ("bad.crt", "no certificate in PEM form"),
        ("stray.key", "a key needs the client certificate it belongs to"),
        ("stray.cert", "certificates of authorities end in .crt"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, "nothing").expect("written");
        let text = error(&puller, &server.reference()).await;
        assert!(text.contains(wanted) && text.contains(name), "{text}");
        std::fs::remove_file(path).expect("removed");
    }
    assert!(puller.resolve(&server.reference()).await.is_ok());
}

#[tokio::test]
async fn an_insecure_registry_may_have_any_certificate() {
    let (server, folder) = (Secure::start(manifest).await, tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("registries.conf");
    let text = format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", server.address);
    std::fs::write(&path, text).expect("written");
    let config = PullerConfig { registries_conf: Some(path), ..PullerConfig::new(folder.path()) };
    assert!(Puller::new(config).resolve(&server.reference()).await.is_ok());
}

#[tokio::test]
async fn redirects_from_https_to_plain_http_are_refused() {
    let (plain, folder) = (FakeRegistry::start().await, tempfile::tempdir().expect("a folder"));
    let target = format!("http://{}/v2/a/manifests/v1?signature=secret", plain.address);
    let server = Secure::start(move || {
        (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, target.clone())]).into_response()
    })
    .await;
    let text = error(&Puller::new(server.trusting(folder.path())), &server.reference()).await;
    let wanted = "refusing to go to http://127.0.0.1: plain http is only allowed for registries that are configured \
                  insecure";
    assert!(text.ends_with(wanted), "{text}");
    assert!(plain.seen().is_empty());
}

#[tokio::test]
async fn passwords_are_not_sent_to_token_endpoints_over_plain_http_or_at_another_loopback_address() {
    let plain = FakeRegistry::start().await;
    for (realm, reason) in [
        (format!("http://{}/token", plain.address), "plain http"),
        (format!("https://127.0.0.3:{}/token", plain.address.port()), "only the registry itself may be at"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Secure::start(move || {
            let challenge = format!(r#"Bearer realm="{realm}",service="x""#);
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
        })
        .await;
        let text = error(&Puller::new(server.trusting(folder.path())), &server.reference()).await;
        assert!(text.contains("refusing to go to") && text.contains(reason), "{text}");
    }
    assert!(plain.seen().is_empty());
}

/// A certificate as `openssl req -x509` makes it: one that says CA:TRUE, for whatever it is used.
fn saying_ca_true(host: &str) -> CertificateParams {
    let mut params = CertificateParams::new([host.to_owned()]).expect("a name");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

#[tokio::test]
async fn images_are_pulled_from_registries_whose_certificate_says_ca_true() {
    let key = || KeyPair::generate().expect("a key");
    let (own, signed) = (key(), key());
    let self_signed = saying_ca_true("127.0.0.1").self_signed(&own).expect("signed").pem();
    let root = CertifiedIssuer::self_signed(saying_ca_true("root"), key()).expect("signed");
    let by_root = saying_ca_true("127.0.0.1").signed_by(&signed, &root).expect("signed").pem();
    for (trusted, certificate, key) in
        [(self_signed.clone(), self_signed, own), (root.pem(), by_root, signed)]
    {
        let registry = FakeRegistry::start_at("127.0.0.1:0", Some((certificate, key.serialize_pem()))).await;
        let packed = image(&[("a", "x")]);
        registry.put("v1", &packed);
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = PullerConfig { registries_conf: None, ..registry.config() };
        config.cas_dir = Some(folder.path().to_owned());
        // Some other certificate first: this one is not believed because of what it says.
        let other = saying_ca_true("127.0.0.1").self_signed(&KeyPair::generate().expect("a key"));
        std::fs::write(folder.path().join("ca.crt"), other.expect("signed").pem()).expect("written");
        let puller = Puller::new(config);
        let text = error(&puller, &registry.reference("a:v1")).await;
        assert!(text.contains("invalid peer certificate"), "{text}");
        std::fs::write(folder.path().join("ca.crt"), trusted).expect("written");
        let by_tag = puller.resolve(&registry.reference("a:v1")).await.expect("resolved");
        assert_eq!(by_tag, registry.reference("a:v1").at(packed.digest().clone()));
        let content = puller.pull(&by_tag, |_| Ok(Select::everything())).await.expect("pulled by digest");
        assert_eq!(content.files.size("a"), Some(1));
    }
}

#[tokio::test]
async fn a_name_that_a_registry_leads_to_is_checked_where_it_is_dialled() {
    // The registry is at 127.0.0.2; "localhost" is at 127.0.0.1, where somebody listens.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("non-blocking");
    let target = format!("https://localhost:{}/x", listener.local_addr().expect("an address").port());
    let key = KeyPair::generate().expect("a key");
    let certificate = saying_ca_true("127.0.0.2").self_signed(&key).expect("signed").pem();
    let registry =
        FakeRegistry::start_at("127.0.0.2:0", Some((certificate.clone(), key.serialize_pem()))).await;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("ca.crt"), certificate).expect("written");
    let mut config = PullerConfig { registries_conf: None, ..registry.config() };
    config.cas_dir = Some(folder.path().to_owned());
    let puller = Puller::new(config);
    for is_redirect in [true, false] {
        let target = target.clone();
        registry.interfere(move |_| {
            Some(if is_redirect {
                (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, target.clone())]).into_response()
            } else {
                let challenge = format!(r#"Bearer realm="{target}",service="x""#);
                (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
            })
        });
        let before = registry.seen().len();
        let text = error(&puller, &registry.reference("a:v1")).await;
        assert!(text.contains("refusing to go to localhost: only the registry itself may be at "), "{text}");
        assert_eq!(registry.seen().len(), before + 1, "asking again would not help");
        let reached = listener.accept().map(drop).map_err(|error| error.kind());
        assert_eq!(reached, Err(std::io::ErrorKind::WouldBlock), "nobody came");
    }
}

#[tokio::test]
async fn insecure_registries_redirect_to_their_own_host_only() {
    let (registry, packed) = (FakeRegistry::start().await, image(&[("a", "x")]));
    let same_host = FakeRegistry::start().await;
    let elsewhere = FakeRegistry::start_at("127.0.0.2:0", None).await;
    for (other, is_allowed) in [(&same_host, true), (&elsewhere, false)] {
        other.put("v1", &packed);
        let target = other.address;
        registry.interfere(move |seen| {
            let location = format!("http://{target}{}", seen.path);
            (seen.path != "/v2/")
                .then(|| (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response())
        });
        let result = registry.puller().resolve(&registry.reference("a:v1")).await;
        assert_eq!(result.is_ok(), is_allowed, "{result:?}");
        if let Err(error) = result {
            let wanted = "refusing to go to http://127.0.0.2: registries that are configured insecure may only \
                          redirect to their own host";
            assert!(error.to_string().ends_with(wanted), "{error}");
        }
    }
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_token_of_unending_life_is_used_like_any_other() {
    let (registry, packed) = (FakeRegistry::start().await, image(&[("a", "x")]));
    registry.put("v1", &packed);
    let address = registry.address;
    registry.interfere(move |seen| match seen.path.as_str() {
        "/token" => {
            let answer = format!(r#"{{"token":"t","expires_in":{}}}"#, u64::MAX);
            Some(status(StatusCode::OK, answer))
        }
        "/v2/" => None,
        _ if seen.authorization.as_deref() == Some("Bearer t") => None,
        _ => {
            let challenge = format!(r#"Bearer realm="http://{address}/token""#);
            Some((StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response())
        }
    });
    let puller = registry.puller();
    let reference = puller.resolve(&registry.reference("a:v1")).await.expect("resolved");
    puller.pull(&reference, |_| Ok(Select::everything())).await.expect("pulled");
    assert_eq!(registry.seen().iter().filter(|seen| seen.path == "/token").count(), 1);
}
