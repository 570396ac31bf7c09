//! TLS: which registries are believed, and that credentials are never sent in the clear.

use std::{net::SocketAddr, path::Path};

use axum::{
    Router,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use axum_server::tls_rustls::RustlsConfig;
use olm_image::{Credential, Keyring, Puller, PullerConfig, Reference, Secret, SharedKeyring};

use crate::server::FakeRegistry;

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
async fn passwords_are_not_sent_to_token_endpoints_over_plain_http_or_at_link_local_addresses() {
    let plain = FakeRegistry::start().await;
    for (realm, reason) in [
        (format!("http://{}/token", plain.address), "plain http"),
        ("https://169.254.169.254/token".to_owned(), "link-local addresses"),
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
