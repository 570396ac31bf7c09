//! The chains.

use super::*;

pub(super) fn all() -> Vec<Chain> {
    [self_signed(), keys(), signed(), intermediates(), roots(), usages(), constraints(), forged(), ordinary()]
        .into_iter()
        .flatten()
        .collect()
}

fn path_length(most: u8) -> impl Fn(&mut CertificateParams) {
    move |params| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(most))
}

fn key_usage(usage: KeyUsagePurpose) -> impl FnOnce(&mut CertificateParams) {
    move |params| params.key_usages = vec![usage]
}

fn for_use(usage: ExtendedKeyUsagePurpose) -> impl FnOnce(&mut CertificateParams) {
    move |params| params.extended_key_usages = vec![usage]
}

fn expired(params: &mut CertificateParams) {
    params.not_after = date_time_ymd(2026, 5, 31);
}

fn not_yet_valid(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2026, 6, 2);
}

fn unknown_extension(is_critical: bool) -> impl FnOnce(&mut CertificateParams) {
    move |params| {
        let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999, 1], vec![5, 0]);
        extension.set_criticality(is_critical);
        params.custom_extensions = vec![extension];
    }
}

fn address(text: &str) -> SanType {
    SanType::IpAddress(text.parse().expect("an address"))
}

/// Servers that signed their own certificate, which is in the trust folder.
fn self_signed() -> Vec<Chain> {
    use ExtendedKeyUsagePurpose::{Any, ClientAuth, CodeSigning, ServerAuth};
    let own = |name, edit: &dyn Fn(&mut CertificateParams)| {
        let made = Made::root(server(edit));
        Chain::new(name, &[&made], &[&made])
    };
    let at = |host, chain: Chain| Chain { host, ..chain };
    vec![
        own("self-signed", &|_| {}),
        at("other.local", own("self-signed, other name", &|_| {})),
        own("self-signed, expired", &expired),
        own("self-signed, not yet valid", &not_yet_valid),
        at(
            "server",
            own("self-signed, name only in the subject", &|params| params.subject_alt_names.clear()),
        ),
        at("127.0.0.1", own("self-signed, address", &|p| p.subject_alt_names = vec![address("127.0.0.1")])),
        at(
            "127.0.0.2",
            own("self-signed, other address", &|p| p.subject_alt_names = vec![address("127.0.0.1")]),
        ),
        at("::1", own("self-signed, IPv6", &|p| p.subject_alt_names = vec![address("::1")])),
        own("self-signed, wildcard of a whole domain", &|p| p.subject_alt_names = vec![dns("*.local")]),
        at("a.b.local", own("self-signed, wildcard", &|p| p.subject_alt_names = vec![dns("*.b.local")])),
        at(
            "a.b.local",
            own("self-signed, wildcard too short", &|p| p.subject_alt_names = vec![dns("*.local")]),
        ),
        own("self-signed, second name", &|p| p.subject_alt_names = vec![dns("a.local"), dns(HOST)]),
        own("self-signed, path length 0", &path_length(0)),
        own("self-signed, for signatures", &|p| p.key_usages = vec![KeyUsagePurpose::DigitalSignature]),
        own("self-signed, for signing certificates", &|p| p.key_usages = vec![KeyUsagePurpose::KeyCertSign]),
        own("self-signed, for servers", &|p| p.extended_key_usages = vec![ClientAuth, ServerAuth]),
        own("self-signed, for clients", &|params| params.extended_key_usages = vec![ClientAuth]),
        own("self-signed, for code", &|params| params.extended_key_usages = vec![CodeSigning]),
        own("self-signed, for any usage", &|params| params.extended_key_usages = vec![Any]),
        own("self-signed, unknown critical extension", &|params| unknown_extension(true)(params)),
        own("self-signed, unknown extension", &|params| unknown_extension(false)(params)),
    ]
}

/// Self-signed with each kind of key.
fn keys() -> Vec<Chain> {
    let of = |name, algorithm| {
        let made = Made::root_with(server(|_| {}), algorithm);
        Chain::new(name, &[&made], &[&made])
    };
    vec![
        of("self-signed, RSA", &rcgen::PKCS_RSA_SHA256),
        of("self-signed, RSA and SHA-512", &rcgen::PKCS_RSA_SHA512),
        of("self-signed, P-384", &rcgen::PKCS_ECDSA_P384_SHA384),
        of("self-signed, P-521", &rcgen::PKCS_ECDSA_P521_SHA512),
        of("self-signed, Ed25519", &rcgen::PKCS_ED25519),
    ]
}

/// Servers with `CA:TRUE` whose certificate a trusted authority signed.
fn signed() -> Vec<Chain> {
    let root = Made::root(authority("root"));
    let other = Made::root(authority("other"));
    let short = Made::root(with(authority("root"), path_length(0)));
    let by = |name, root: &Made, edit: &dyn Fn(&mut CertificateParams)| {
        Chain::new(name, &[root], &[&root.sign(server(edit))])
    };
    let plain = root.sign(server(|_| {}));
    let ordinary = root.sign(server(|params| params.is_ca = IsCa::NoCa));
    vec![
        by("signed", &root, &|_| {}),
        Chain { host: "other.local", ..by("signed, other name", &root, &|_| {}) },
        by("signed, expired", &root, &expired),
        by("signed, not yet valid", &root, &not_yet_valid),
        by("signed, for clients", &root, &|p| for_use(ExtendedKeyUsagePurpose::ClientAuth)(p)),
        by("signed, for servers", &root, &|p| for_use(ExtendedKeyUsagePurpose::ServerAuth)(p)),
        by("signed, the authority signs servers only", &short, &|_| {}),
        by("signed, path length 0", &root, &path_length(0)),
        Chain::new("signed by somebody else", &[&other], &[&plain]),
        Chain::new("self-signed, not trusted", &[&other], &[&Made::root(server(|_| {}))]),
        Chain::new("signed, root sent along", &[&root], &[&plain, &root]),
        Chain::new("signed, sent twice", &[&root], &[&plain, &plain]),
        Chain::new("signed by another, itself trusted", &[&plain], &[&plain]),
        Chain::new("signed by another, itself trusted, ordinary", &[&ordinary], &[&ordinary]),
    ]
}

/// Chains with intermediates.
fn intermediates() -> Vec<Chain> {
    let root = Made::root(authority("root"));
    let through = |name, params: CertificateParams| {
        let between = root.sign(params);
        Chain::new(name, &[&root], &[&between.sign(server(|_| {})), &between])
    };
    let between = root.sign(authority("between"));
    let end = between.sign(server(|_| {}));
    let short = root.sign(with(authority("short"), path_length(0)));
    let below = short.sign(authority("below"));
    let long = root.sign(with(authority("long"), path_length(1)));
    let under = long.sign(authority("under"));
    let mut explicit = authority("between");
    explicit.is_ca = IsCa::ExplicitNoCa;
    // A server's certificate that says CA:TRUE is an authority's to everybody.
    let serving = root.sign(server(|_| {}));
    let may_not = root.sign(server(key_usage(KeyUsagePurpose::DigitalSignature)));
    vec![
        through("intermediate", authority("between")),
        through("intermediate, expired", with(authority("between"), expired)),
        through("intermediate, not yet valid", with(authority("between"), not_yet_valid)),
        through("intermediate, CA:FALSE", explicit),
        through("intermediate, no authority", named("between")),
        through("intermediate, signs servers only", with(authority("between"), path_length(0))),
        through(
            "intermediate, for signatures",
            with(authority("between"), key_usage(KeyUsagePurpose::DigitalSignature)),
        ),
        through(
            "intermediate, for signing certificates",
            with(authority("between"), key_usage(KeyUsagePurpose::KeyCertSign)),
        ),
        through(
            "intermediate, unknown critical extension",
            with(authority("between"), unknown_extension(true)),
        ),
        Chain::new("intermediate missing", &[&root], &[&end]),
        Chain::new("intermediate trusted, root not", &[&between], &[&end]),
        Chain::new(
            "intermediate below one that signs servers only",
            &[&root],
            &[&below.sign(server(|_| {})), &below, &short],
        ),
        Chain::new(
            "intermediate below one that allows it",
            &[&root],
            &[&under.sign(server(|_| {})), &under, &long],
        ),
        Chain::new(
            "intermediates in another order",
            &[&root],
            &[&under.sign(server(|_| {})), &long, &between, &under],
        ),
        Chain::new("signed by a server with CA:TRUE", &[&root], &[&serving.sign(server(|_| {})), &serving]),
        Chain::new(
            "signed by a server that may not sign",
            &[&root],
            &[&may_not.sign(server(|_| {})), &may_not],
        ),
    ]
}

/// What trusted certificates may and may not.
fn roots() -> Vec<Chain> {
    let under = |name, params: CertificateParams| {
        let root = Made::root(params);
        Chain::new(name, &[&root], &[&root.sign(server(|_| {}))])
    };
    let short = Made::root(with(authority("root"), path_length(0)));
    let between = short.sign(authority("between"));
    let renewed = Made::root(authority("root"));
    let old_params = with(authority("root"), expired);
    let old_der = old_params.self_signed(&renewed.key).expect("signed").der().to_vec();
    let old = Made { params: old_params, key: KeyPair::generate().expect("a key"), der: old_der };
    let end = renewed.sign(server(|_| {}));
    let serving = Made::root(server(|_| {}));
    let victim = |by: &Made| by.sign(with(named("victim"), |p| p.subject_alt_names = vec![dns(HOST)]));
    let may_not = Made::root(server(key_usage(KeyUsagePurpose::DigitalSignature)));
    let ordinary = Made::root(server(|params| params.is_ca = IsCa::NoCa));
    vec![
        under("root, expired", with(authority("root"), expired)),
        under("root, not yet valid", with(authority("root"), not_yet_valid)),
        under("root, for signatures", with(authority("root"), key_usage(KeyUsagePurpose::DigitalSignature))),
        under("root, for clients", with(authority("root"), for_use(ExtendedKeyUsagePurpose::ClientAuth))),
        under("root, for any usage", with(authority("root"), for_use(ExtendedKeyUsagePurpose::Any))),
        under("root, no authority", named("root")),
        Chain::new("root that signs servers only", &[&short], &[&between.sign(server(|_| {})), &between]),
        Chain::new("root, expired and renewed", &[&old, &renewed], &[&end]),
        Chain::new("root, renewed and expired", &[&renewed, &old], &[&end]),
        Chain::new("root, expired and not renewed", &[&old], &[&end]),
        Chain::new("signed by a trusted server", &[&serving], &[&victim(&serving)]),
        Chain::new("signed by a trusted server that may not sign", &[&may_not], &[&victim(&may_not)]),
        Chain::new("signed by a trusted server, no authority", &[&ordinary], &[&victim(&ordinary)]),
    ]
}

/// Usages of issuers, which hold for what they sign.
fn usages() -> Vec<Chain> {
    use ExtendedKeyUsagePurpose::{ClientAuth, EmailProtection, ServerAuth};
    let root = Made::root(authority("root"));
    let through = |name, usages: &[ExtendedKeyUsagePurpose]| {
        let between = root.sign(with(authority("between"), |p| p.extended_key_usages = usages.to_vec()));
        Chain::new(name, &[&root], &[&between.sign(server(|_| {})), &between])
    };
    vec![
        through("intermediate, for servers", &[ServerAuth]),
        through("intermediate, for clients", &[ClientAuth]),
        through("intermediate, for mail and servers", &[EmailProtection, ServerAuth]),
    ]
}

/// Authorities that may sign for some names only.
fn constraints() -> Vec<Chain> {
    use GeneralSubtree::{DnsName, IpAddress, Rfc822Name};
    let local = || DnsName("local".to_owned());
    let elsewhere = || DnsName("example.com".to_owned());
    let network = || IpAddress(CidrSubnet::from_v4_prefix([127, 0, 0, 0], 8));
    let limited = |permitted: Vec<GeneralSubtree>, excluded: Vec<GeneralSubtree>| {
        let constraints = NameConstraints { permitted_subtrees: permitted, excluded_subtrees: excluded };
        with(authority("limited"), |params| params.name_constraints = Some(constraints))
    };
    let by_root = |name, params: CertificateParams, edit: &dyn Fn(&mut CertificateParams)| {
        let root = Made::root(params);
        Chain::new(name, &[&root], &[&root.sign(server(edit))])
    };
    let between = |name, params: CertificateParams| {
        let root = Made::root(authority("root"));
        let between = root.sign(params);
        Chain::new(name, &[&root], &[&between.sign(server(|_| {})), &between])
    };
    let at_address = |params: &mut CertificateParams| params.subject_alt_names = vec![address("127.0.0.1")];
    let with_another =
        |p: &mut CertificateParams| p.subject_alt_names = vec![dns(HOST), dns("www.example.com")];
    let address_chain = |chain: Chain| Chain { host: "127.0.0.1", ..chain };
    vec![
        by_root("constraints permit the name", limited(vec![local()], vec![]), &|_| {}),
        by_root("constraints permit another name", limited(vec![elsewhere()], vec![]), &|_| {}),
        by_root("constraints exclude the name", limited(vec![], vec![local()]), &|_| {}),
        by_root("constraints exclude another name", limited(vec![], vec![elsewhere()]), &|_| {}),
        by_root("constraints permit and exclude the name", limited(vec![local()], vec![local()]), &|_| {}),
        by_root("constraints permit one name of two", limited(vec![local()], vec![]), &with_another),
        address_chain(by_root(
            "constraints permit the address",
            limited(vec![network()], vec![]),
            &at_address,
        )),
        address_chain(by_root(
            "constraints exclude the address",
            limited(vec![], vec![network()]),
            &at_address,
        )),
        by_root("constraints on addresses only", limited(vec![network()], vec![]), &|_| {}),
        by_root("constraints on mail only", limited(vec![Rfc822Name("a.local".to_owned())], vec![]), &|_| {}),
        between("constraints of an intermediate permit the name", limited(vec![local()], vec![])),
        between("constraints of an intermediate permit another name", limited(vec![elsewhere()], vec![])),
        between("constraints of an intermediate exclude the name", limited(vec![], vec![local()])),
    ]
}

/// Certificates that were not signed by whom they name.
fn forged() -> Vec<Chain> {
    let root = Made::root(authority("root"));
    let double = Made::root(authority("root"));
    let end = double.sign(server(|_| {}));
    let mut spoilt = Chain::new("signature spoilt", &[&root], &[&root.sign(server(|_| {}))]);
    let last = spoilt.sent[0].len() - 1;
    spoilt.sent[0][last] ^= 1;
    let mut own = Chain::new("name changed in a trusted one", &[&root], &[&root.sign(server(|_| {}))]);
    let at = own.sent[0].windows(HOST.len()).position(|bytes| bytes == HOST.as_bytes()).expect("is there");
    own.sent[0][at..at + HOST.len()].copy_from_slice(b"evilstry.local");
    vec![
        Chain::new("signed by a double of the root", &[&root], &[&end]),
        Chain::new("signed by a double of the root, sent along", &[&root], &[&end, &double]),
        spoilt,
        Chain { host: "evilstry.local", ..own },
    ]
}

/// Servers without `CA:TRUE`, for which nothing changes but what their issuers may.
fn ordinary() -> Vec<Chain> {
    let root = Made::root(authority("root"));
    let old = Made::root(with(authority("root"), expired));
    let may_not = Made::root(with(authority("root"), key_usage(KeyUsagePurpose::DigitalSignature)));
    let ordinary = || with(named("server"), |params| params.subject_alt_names = vec![dns(HOST)]);
    let own = Made::root(ordinary());
    let between = root.sign(authority("between"));
    let wrong = root.sign(with(authority("between"), key_usage(KeyUsagePurpose::DigitalSignature)));
    vec![
        Chain::new("ordinary", &[&root], &[&root.sign(ordinary())]),
        Chain::new("ordinary, expired", &[&root], &[&root.sign(with(ordinary(), expired))]),
        Chain::new("ordinary, self-signed", &[&own], &[&own]),
        Chain::new("ordinary, intermediate", &[&root], &[&between.sign(ordinary()), &between]),
        Chain::new("ordinary, intermediate for signatures", &[&root], &[&wrong.sign(ordinary()), &wrong]),
        Chain::new("ordinary, root expired", &[&old], &[&old.sign(ordinary())]),
        Chain::new("ordinary, root for signatures", &[&may_not], &[&may_not.sign(ordinary())]),
        Chain { host: "a.local", ..Chain::new("ordinary, other name", &[&root], &[&root.sign(ordinary())]) },
    ]
}
