//! Chains that Go judges too: both have to come to the same answer.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
    SanType, SignatureAlgorithm, date_time_ymd,
};

use super::*;

mod chains;

/// The first of June 2026; certificates are of that year unless said otherwise.
const NOW: u64 = 1_780_272_000;
const HOST: &str = "registry.local";

/// Where Go accepts a chain and we do not, with the reason. Nothing that Go rejects is accepted.
const STRICTER: [(&str, &str); 4] = [
    ("self-signed, wildcard of a whole domain", "rustls takes no wildcard of one label, such as *.com"),
    ("self-signed, for any usage", "rustls wants the usage for servers by name, as RFC 5280 lets it"),
    (
        "signed by another, itself trusted",
        "rustls trusts a certificate as an issuer, and this one is not its own",
    ),
    ("signed by another, itself trusted, ordinary", "the same"),
];

/// A certificate that can sign others.
struct Made {
    params: CertificateParams,
    key: KeyPair,
    der: Vec<u8>,
}

impl Made {
    fn root(params: CertificateParams) -> Self {
        Self::root_with(params, &rcgen::PKCS_ECDSA_P256_SHA256)
    }

    fn root_with(params: CertificateParams, algorithm: &'static SignatureAlgorithm) -> Self {
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let der = params.self_signed(&key).expect("signed").der().to_vec();
        Self { params, key, der }
    }

    fn sign(&self, params: CertificateParams) -> Self {
        let key = KeyPair::generate().expect("a key");
        let issuer = Issuer::from_params(&self.params, &self.key);
        let der = params.signed_by(&key, &issuer).expect("signed").der().to_vec();
        Self { params, key, der }
    }
}

/// A certificate of 2026 with a name and nothing else.
fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2026, 1, 1);
    params.not_after = date_time_ymd(2027, 1, 1);
    params
}

/// The certificate of an authority.
fn authority(name: &str) -> CertificateParams {
    let mut params = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// A server's certificate as `openssl req -x509` makes it: with `CA:TRUE` and without usages.
fn server(edit: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let mut params = authority("server");
    params.subject_alt_names = vec![dns(HOST)];
    edit(&mut params);
    params
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().expect("a name"))
}

fn with(mut params: CertificateParams, edit: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    edit(&mut params);
    params
}

struct Chain {
    name: &'static str,
    host: &'static str,
    roots: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

impl Chain {
    fn new(name: &'static str, roots: &[&Made], chain: &[&Made]) -> Self {
        let ders = |list: &[&Made]| list.iter().map(|made| made.der.clone()).collect();
        Self { name, host: HOST, roots: ders(roots), sent: ders(chain) }
    }

    /// What our verifier says.
    fn verdict(&self) -> Result<(), String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let owned = |ders: &[Vec<u8>]| ders.iter().cloned().map(CertificateDer::from).collect::<Vec<_>>();
        let verifier = Verifier::new(owned(&self.roots), Vec::new(), provider)?;
        let (chain, host) = (owned(&self.sent), ServerName::try_from(self.host).expect("a name"));
        let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW));
        let result = verifier.verify_server_cert(&chain[0], &chain[1..], &host, &[], now);
        result.map(drop).map_err(|error| error.to_string())
    }
}

/// What Go says of each chain.
fn go(chains: &[Chain]) -> Vec<Result<(), String>> {
    let encoded = |ders: &[Vec<u8>]| ders.iter().map(|der| STANDARD.encode(der)).collect::<Vec<_>>();
    let questions = chains.iter().map(|chain| {
        let (roots, sent) = (encoded(&chain.roots), encoded(&chain.sent));
        serde_json::json!({"name": chain.name, "host": chain.host, "now": NOW, "roots": roots, "chain": sent})
    });
    let questions = questions.collect::<serde_json::Value>().to_string();
    let mut program = Command::new("go")
        .args(["run", "."])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go-x509"))
        .env("GOTOOLCHAIN", "local")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Go is on this machine");
    program.stdin.take().expect("piped").write_all(questions.as_bytes()).expect("read");
    let output = program.wait_with_output().expect("ends");
    assert!(output.status.success(), "the program failed");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| if line == "ok" { Ok(()) } else { Err(line.to_owned()) }).collect()
}

#[test]
fn chains_are_accepted_as_go_accepts_them() {
    let chains = chains::all();
    let verdicts = go(&chains);
    assert_eq!(verdicts.len(), chains.len());
    let (mut wrong, mut accepted) = (Vec::new(), 0);
    for (chain, go) in chains.iter().zip(verdicts) {
        let ours = chain.verdict();
        println!("{}: {ours:?}, Go: {go:?}", chain.name);
        accepted += usize::from(go.is_ok());
        let is_stricter = STRICTER.iter().any(|(name, _)| *name == chain.name);
        let is_expected = if is_stricter { go.is_ok() && ours.is_err() } else { go.is_ok() == ours.is_ok() };
        if !is_expected {
            wrong.push(format!("{}: {ours:?}, Go: {go:?}", chain.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(STRICTER.iter().all(|(name, _)| chains.iter().any(|chain| chain.name == *name)));
    println!("{} chains, {accepted} accepted", chains.len());
    assert!(chains.len() >= 40 && accepted >= 15 && chains.len() - accepted >= 15);
}

#[test]
fn a_certificate_that_was_made_an_authority_by_its_bearer_is_rejected() {
    // Signed with `CA:FALSE` written out, which is what the verifier makes of it again.
    let mut explicit = CustomExtension::from_oid_content(&[2, 5, 29, 19], vec![0x30, 3, 1, 1, 0]);
    explicit.set_criticality(true);
    let root = Made::root(authority("root"));
    let honest = root.sign(with(named("server"), |params| {
        params.subject_alt_names = vec![dns(HOST)];
        params.custom_extensions = vec![explicit];
    }));
    let mut chain = Chain::new("", &[&root], &[&honest]);
    assert_eq!(chain.verdict(), Ok(()));
    let at = honest.der.windows(5).position(|bytes| bytes == [0x30, 3, 1, 1, 0]).expect("is there");
    chain.sent[0][at + 4] = 0xff;
    assert!(Altered::new(&CertificateDer::from(chain.sent[0].clone())).is_some());
    let text = chain.verdict().expect_err("the signature is over something else");
    assert_eq!(text, "invalid peer certificate: BadSignature");
}

#[test]
fn what_is_wrong_is_in_the_error() {
    let (root, other) = (Made::root(authority("root")), Made::root(authority("other")));
    let expired =
        Made::root(with(authority("expired"), |params| params.not_after = date_time_ymd(2026, 2, 1)));
    let text = |roots: &[&Made], chain: &[&Made], host| {
        Chain { host, ..Chain::new("", roots, chain) }.verdict().expect_err("rejected")
    };
    let signed = root.sign(server(|_| {}));
    assert_eq!(text(&[&other], &[&signed], HOST), "invalid peer certificate: UnknownIssuer");
    assert!(text(&[&root], &[&signed], "elsewhere.local").contains("not valid for name \"elsewhere.local\""));
    let text = text(&[&expired], &[&expired.sign(server(|_| {}))], HOST);
    assert!(text.contains("one that has expired, is not of an authority, or is for other uses"), "{text}");
}
