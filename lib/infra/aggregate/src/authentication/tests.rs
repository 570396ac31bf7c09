use std::collections::BTreeMap;

use http::Request;
use kube::Client;
use olm_runtime::Kept;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use serde_json::json;

use super::*;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn certificate(authority: &Authority, name: &str, usage: ExtendedKeyUsagePurpose) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![usage];
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, "team");
    params.signed_by(&KeyPair::generate().unwrap(), authority).unwrap().der().clone()
}

fn client(authority: &Authority, name: &str) -> CertificateDer<'static> {
    certificate(authority, name, ExtendedKeyUsagePurpose::ClientAuth)
}

fn settings(front: &Authority, clients: &Authority, names: &str) -> Settings {
    let data = [
        ("client-ca-file", clients.pem()),
        ("requestheader-client-ca-file", front.pem()),
        ("requestheader-allowed-names", names.to_owned()),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#.to_owned()),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#.to_owned()),
        ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#.to_owned()),
        ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#.to_owned()),
    ];
    Settings::read(&data.map(|(key, value)| (key.to_owned(), value)).into()).unwrap()
}

/// An API server that knows the token `good`.
fn reviews() -> Reviews {
    let service = tower::service_fn(|request: Request<kube::client::Body>| async move {
        let bytes = request.into_body().collect_bytes().await.unwrap();
        let mut review: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        review["status"] =
            json!({ "authenticated": review["spec"]["token"] == "good", "user": { "username": "tenant" } });
        let body = kube::client::Body::from(serde_json::to_vec(&review).unwrap());
        Ok::<_, std::convert::Infallible>(http::Response::new(body))
    });
    let second = std::time::Duration::from_secs(1);
    Reviews::new(Client::new(service, "default"), Kept { allowed: second, denied: second })
}

/// A request with headers that name an administrator.
fn forged(shown: &[CertificateDer<'static>], token: Option<&str>) -> Parts {
    let mut request = Request::get("/")
        .header("X-Remote-User", "jane")
        .header("X-Remote-Uid", "7")
        .header("X-Remote-Group", "system:masters")
        .header("X-Remote-Group", "team")
        .header("X-Remote-Extra-Example.com%2Fscopes", "a")
        .header("X-Remote-Extra-Example.com%2Fscopes", "b");
    if let Some(token) = token {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    let mut parts = request.body(()).unwrap().into_parts().0;
    parts.extensions.insert(PeerCertificates(shown.iter().cloned().collect()));
    parts
}

async fn user(
    settings: &Settings,
    shown: &[CertificateDer<'static>],
    token: Option<&str>,
) -> Result<Option<UserInfo>, Failure> {
    settings.user(&forged(shown, token), &reviews()).await
}

#[tokio::test]
async fn the_front_proxy_says_who_asks() {
    let (front, clients) = (authority("front"), authority("clients"));
    let settings = settings(&front, &clients, r#"["aggregator"]"#);
    let jane = user(&settings, &[client(&front, "aggregator")], None).await.unwrap().unwrap();
    let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let wanted = UserInfo {
        username: Some("jane".to_owned()),
        uid: Some("7".to_owned()),
        groups: Some(owned(&["system:masters", "team", AUTHENTICATED])),
        extra: Some(BTreeMap::from([("example.com/scopes".to_owned(), owned(&["a", "b"]))])),
    };
    assert_eq!(jane, wanted);
}

#[tokio::test]
async fn headers_of_other_clients_are_not_read() {
    let (front, clients, strangers) = (authority("front"), authority("clients"), authority("front"));
    let settings = settings(&front, &clients, r#"["aggregator"]"#);
    for shown in [
        client(&strangers, "aggregator"),
        client(&front, "other"),
        certificate(&front, "aggregator", ExtendedKeyUsagePurpose::ServerAuth),
    ] {
        assert_eq!(user(&settings, &[shown], Some("good")).await, Err(Failure::unauthorized()));
    }
    // A client of the cluster is who its certificate says.
    let known = user(&settings, &[client(&clients, "aggregator")], None).await.unwrap().unwrap();
    assert_eq!(known.username.as_deref(), Some("aggregator"));
    assert_eq!(known.groups.unwrap(), ["team", AUTHENTICATED]);
    assert_eq!(user(&settings, &[], None).await, Ok(None));
    assert_eq!(
        user(&Settings::default(), &[client(&front, "aggregator")], None).await,
        Err(Failure::unauthorized())
    );
}

#[tokio::test]
async fn a_token_is_reviewed() {
    let settings = Settings::default();
    let tenant = user(&settings, &[], Some("good")).await.unwrap().unwrap();
    assert_eq!(tenant.username.as_deref(), Some("tenant"));
    assert_eq!(tenant.groups.unwrap(), [AUTHENTICATED]);
    assert_eq!(user(&settings, &[], Some("bad")).await, Err(Failure::unauthorized()));
}

#[tokio::test]
async fn without_names_any_front_proxy_of_the_authority_is_trusted() {
    let (front, clients) = (authority("front"), authority("clients"));
    for names in ["[]", ""] {
        let settings = settings(&front, &clients, names);
        let jane = user(&settings, &[client(&front, "any")], None).await.unwrap().unwrap();
        assert_eq!(jane.username.as_deref(), Some("jane"));
    }
}

#[test]
fn settings_that_cannot_be_read_are_an_error() {
    for (key, value) in [
        ("client-ca-file", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        ("requestheader-client-ca-file", ""),
        ("requestheader-allowed-names", "{}"),
    ] {
        let error = Settings::read(&BTreeMap::from([(key.to_owned(), value.to_owned())])).err().unwrap();
        assert!(error.starts_with(key), "{error}");
    }
}
