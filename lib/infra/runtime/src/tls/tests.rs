use std::{fs, sync::Arc};

use rustls::client::danger::ServerCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime, pem::PemObject};

use super::{CertWatcher, CertificateReads, TlsProfile, self_signed, server_config};

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

/// Writes a new pair into the folder; answers the certificate.
fn write_pair(folder: &std::path::Path) -> CertificateDer<'static> {
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = rcgen::CertificateParams::new(strings(&["localhost"])).unwrap().self_signed(&key).unwrap();
    fs::write(folder.join("tls.crt"), cert.pem()).unwrap();
    fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    cert.der().clone()
}

#[test]
fn replaced_files_are_served_and_broken_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    assert!(CertWatcher::new(&cert, &key).is_err_and(|error| error.to_string().starts_with("open ")));
    let first = write_pair(folder.path());
    let reads = CertificateReads::default();
    let mut watcher = CertWatcher::new(&cert, &key).unwrap().counted(reads.clone());
    let serving = watcher.serving();
    let served = || serving.0.load_full().cert[0].clone();
    assert_eq!(served(), first);
    assert!(!watcher.look().unwrap());

    let first_key = fs::read(&key).unwrap();
    let second = write_pair(folder.path());
    let second_key = fs::read(&key).unwrap();
    fs::write(&key, first_key).unwrap();
    assert!(watcher.look().is_err(), "key of another certificate");
    fs::write(&key, "no key").unwrap();
    assert!(watcher.look().is_err());
    assert_eq!(served(), first);
    fs::write(&key, second_key).unwrap();
    assert!(watcher.look().unwrap());
    assert_eq!(served(), second);
    assert_eq!(reads.counted(), (5, 2), "readings, and those that failed");
}

#[test]
fn a_certificate_can_be_made() {
    let made = self_signed(&strings(&["catalogd-service.olmv1-system.svc", "127.0.0.1"])).unwrap();
    let authority = CertificateDer::from_pem_slice(made.ca_pem.as_bytes()).unwrap();
    let mut trusted = rustls::RootCertStore::empty();
    trusted.add(authority).unwrap();
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(
        Arc::new(trusted),
        Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
    )
    .build()
    .unwrap();
    let served = made.serving.0.load_full().cert[0].clone();
    for (name, is_trusted) in [("127.0.0.1", true), ("example.org", false)] {
        let name = name.try_into().unwrap();
        let result = verifier.verify_server_cert(&served, &[], &name, &[], UnixTime::now());
        assert_eq!(result.is_ok(), is_trusted, "{result:?}");
    }
    let config = server_config(made.serving, &TlsProfile::default()).unwrap();
    assert_eq!(config.alpn_protocols, [b"http/1.1".to_vec()]);
}

#[test]
fn profiles_are_checked_by_name() {
    let custom = |version: &str, ciphers: &[&str], curves: &[&str]| {
        TlsProfile::from_flags("custom", version, &strings(ciphers), &strings(curves))
    };
    for profile in ["modern", "Intermediate", "OLD"] {
        assert!(TlsProfile::from_flags(profile, "TLSv1.2", &[], &[]).is_ok(), "{profile}");
    }
    let unknown = TlsProfile::from_flags("x", "TLSv1.2", &[], &[]).unwrap_err();
    assert_eq!(unknown.to_string(), "unknown TLS profile: \"x\"");
    for (result, text) in [
        (custom("x", &[], &[]), "unknown TLS version: \"x\""),
        (custom("TLSv1.2", &["x"], &[]), "unknown cipher \"x\""),
        (custom("TLSv1.2", &[], &["x"]), "unknown curve \"x\""),
        (custom("TLSv1.2", &["TLS_RSA_WITH_RC4_128_SHA"], &[]), "none of the given ciphers is supported"),
        (custom("TLSv1.2", &[], &["secp521r1"]), "none of the given curves is supported"),
    ] {
        assert_eq!(result.unwrap_err().to_string(), text);
    }
    let chosen = custom("TLSv1.2", &["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"], &["prime256v1"]).unwrap();
    let provider = chosen.provider();
    assert_eq!(provider.kx_groups.len(), 1);
    assert_eq!(provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none()).count(), 1);
    assert_eq!(custom("TLSv1.3", &[], &[]).unwrap().versions().len(), 1);
    assert!(custom("TLSv1.2", &["TLS_AES_128_GCM_SHA256"], &[]).is_ok());
}
