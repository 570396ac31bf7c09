//! TLS profiles (Mozilla's guideline, as upstream's flags name them) in terms of what this library can do.
//!
//! TLS 1.0 and 1.1, CBC, 3DES, RSA key exchange and P-521 do not exist here: the profile `old` is served as
//! `intermediate`, and custom lists keep what remains of them. Names are checked against all that upstream
//! knows, so that a typing error is refused and a known name only left out.

use rustls::{
    SupportedProtocolVersion,
    crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs},
    version::{TLS12, TLS13},
};
use thiserror::Error;

/// Why a profile was refused: a sentence, upstream's where it has one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct TlsProfileError(String);

fn refused<T>(why: String) -> Result<T, TlsProfileError> {
    Err(TlsProfileError(why))
}

/// Versions, cipher suites and key exchange groups of a server.
#[derive(Debug, Clone)]
pub struct TlsProfile {
    tls12: bool,
    /// Names of TLS 1.2 suites; `None` for all that are supported.
    ciphers: Option<Vec<String>>,
    groups: Vec<&'static dyn SupportedKxGroup>,
}

static VERSIONS_12: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
static VERSIONS_13: &[&SupportedProtocolVersion] = &[&TLS13];

/// Suites that upstream's runtime knows and this library does not have.
const FOREIGN_CIPHERS: &[&str] = &[
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];

impl Default for TlsProfile {
    /// The profile `intermediate`.
    fn default() -> Self {
        Self { tls12: true, ciphers: None, groups: default_groups() }
    }
}

impl TlsProfile {
    /// Reads the flags `--tls-profile`, `--tls-custom-version`, `--tls-custom-ciphers` and
    /// `--tls-custom-curves`; the last three count for the profile `custom` only, empty lists mean all.
    ///
    /// # Errors
    /// A name is not known, or nothing that is supported is left.
    pub fn from_flags(
        profile: &str,
        version: &str,
        ciphers: &[String],
        curves: &[String],
    ) -> Result<Self, TlsProfileError> {
        match profile.to_lowercase().as_str() {
            "intermediate" => Ok(Self::default()),
            "old" => {
                tracing::warn!(
                    "TLS profile old: its versions and ciphers are not supported, serving intermediate"
                );
                Ok(Self::default())
            }
            "modern" => Ok(Self { tls12: false, ..Self::default() }),
            "custom" => Self::custom(version, ciphers, curves),
            _ => refused(format!("unknown TLS profile: {profile:?}")),
        }
    }

    fn custom(version: &str, ciphers: &[String], curves: &[String]) -> Result<Self, TlsProfileError> {
        let tls12 = match version {
            "TLSv1.0" | "TLSv1.1" | "TLSv1.2" => true,
            "TLSv1.3" => false,
            _ => return refused(format!("unknown TLS version: {version:?}")),
        };
        let suites: Vec<String> = aws_lc_rs::ALL_CIPHER_SUITES.iter().map(|suite| go_name(*suite)).collect();
        let mut kept = Vec::new();
        for cipher in ciphers {
            // Upstream's runtime knows these under two names each.
            let name = match cipher.as_str() {
                "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305" | "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305" => {
                    format!("{cipher}_SHA256")
                }
                _ => cipher.clone(),
            };
            if suites.contains(&name) {
                kept.push(name);
            } else if !FOREIGN_CIPHERS.contains(&name.as_str()) {
                return refused(format!("unknown cipher {cipher:?}"));
            }
        }
        let only_tls13 = kept.iter().all(|name| !name.contains("_WITH_"));
        if !ciphers.is_empty() && (kept.is_empty() || (tls12 && only_tls13 && ciphers.len() != kept.len())) {
            return refused("none of the given ciphers is supported".to_owned());
        }
        let ciphers = (!kept.is_empty()).then_some(kept);
        Ok(Self { tls12, ciphers, groups: groups(curves)? })
    }

    /// Versions that are spoken.
    pub(super) fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        if self.tls12 { VERSIONS_12 } else { VERSIONS_13 }
    }

    /// The algorithms. TLS 1.3 suites cannot be chosen, as upstream.
    pub(super) fn provider(&self) -> CryptoProvider {
        let mut provider = aws_lc_rs::default_provider();
        provider.kx_groups.clone_from(&self.groups);
        if let Some(names) = &self.ciphers {
            provider
                .cipher_suites
                .retain(|suite| suite.tls13().is_some() || names.contains(&go_name(*suite)));
        }
        provider
    }
}

/// The suite's name as flags give it: the library marks those of TLS 1.3 differently.
fn go_name(suite: rustls::SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

fn default_groups() -> Vec<&'static dyn SupportedKxGroup> {
    use aws_lc_rs::kx_group::{SECP256R1, SECP384R1, X25519, X25519MLKEM768};
    vec![X25519MLKEM768, X25519, SECP256R1, SECP384R1]
}

fn groups(curves: &[String]) -> Result<Vec<&'static dyn SupportedKxGroup>, TlsProfileError> {
    use aws_lc_rs::kx_group::{SECP256R1, SECP256R1MLKEM768, SECP384R1, X25519, X25519MLKEM768};
    if curves.is_empty() {
        return Ok(default_groups());
    }
    let mut groups: Vec<&'static dyn SupportedKxGroup> = Vec::new();
    for curve in curves {
        match curve.as_str() {
            "X25519MLKEM768" => groups.push(X25519MLKEM768),
            "X25519" => groups.push(X25519),
            "prime256v1" | "secp256r1" => groups.push(SECP256R1),
            "secp384r1" => groups.push(SECP384R1),
            "SecP256r1MLKEM768" => groups.push(SECP256R1MLKEM768),
            "secp521r1" | "SecP384r1MLKEM1024" => {
                tracing::warn!(curve, "curve is not supported and left out");
            }
            _ => return refused(format!("unknown curve {curve:?}")),
        }
    }
    if groups.is_empty() {
        return refused("none of the given curves is supported".to_owned());
    }
    Ok(groups)
}
