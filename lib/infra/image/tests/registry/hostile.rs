//! Registries that answer with what no honest one says: numbers, names and ways that lead nowhere.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use olm_image::{Digest, Select};
use serde_json::{Value, json};

use crate::{
    ordinary::image,
    server::{FakeRegistry, Seen, status},
};

const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// Where an answer leads.
fn redirect(location: &str) -> Response {
    (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response()
}

/// The error of a pull by digest, and by a tag that leads to the same.
async fn refusals(registry: &FakeRegistry, digest: Digest) -> [String; 2] {
    let puller = registry.puller();
    let by_digest = registry.reference("ns/a:v1").at(digest);
    let outcome = puller.pull(&by_digest, |_| Ok(Select::everything())).await;
    let resolved = match puller.resolve(&registry.reference("ns/a:v1")).await {
        Ok(resolved) => puller.pull(&resolved, |_| Ok(Select::everything())).await.map(drop),
        Err(error) => Err(error),
    };
    [outcome.map(drop).expect_err("refused").to_string(), resolved.expect_err("refused").to_string()]
}

#[tokio::test]
async fn sizes_and_digests_that_no_blob_has_are_refused_before_it_is_requested() {
    let digest = Digest::of(b"").to_string();
    let good = |kind: &str| json!({"mediaType": kind, "digest": digest, "size": 0});
    let layer = |size: Value, digest: &str| {
        let layer =
            json!({"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": size});
        json!({"schemaVersion": 2, "config": good(OCI_CONFIG), "layers": [layer]})
    };
    let config = |size: Value| {
        json!({"schemaVersion": 2, "layers": [],
               "config": {"mediaType": OCI_CONFIG, "digest": digest, "size": size}})
    };
    let unreadable = "manifest is not valid: error at line 1, column ";
    for (manifest, wanted) in [
        (layer(json!(-1), &digest), unreadable),
        (layer(json!(1.5), &digest), unreadable),
        (layer(json!("1"), &digest), unreadable),
        (layer(json!(1_u64 << 63), &digest), "layer[0] has 9223372036854775808 bytes, more than the "),
        (layer(json!(u64::MAX), &digest), "layer[0] has 18446744073709551615 bytes, more than the "),
        (config(json!(-1)), unreadable),
        (config(json!(1_u64 << 63)), "the image config has 9223372036854775808 bytes, more than the "),
        (layer(json!(1), "../../../etc/passwd"), unreadable),
        (
            layer(json!(1), "sha256:../../../../../../../../../../../../../../../../../../../../etc/passwd"),
            unreadable,
        ),
        (layer(json!(1), &format!("{digest}/../x")), unreadable),
        (layer(json!(1), &digest.to_uppercase()), unreadable),
        (layer(json!(1), &digest.replace("sha256", "md5")), unreadable),
    ] {
        let registry = FakeRegistry::start().await;
        let manifest = manifest.to_string();
        let at = registry.put_manifest("v1", OCI_MANIFEST, manifest.clone());
        for error in refusals(&registry, at).await {
            assert!(error.contains(wanted), "{manifest}: {error}");
        }
        let blobs = registry.seen().into_iter().filter(|seen| seen.path.contains("/blobs/"));
        assert_eq!(blobs.count(), 0, "{manifest}");
        assert!(registry.seen().iter().all(|seen| !seen.path.contains("passwd")), "{manifest}");
    }
}

#[tokio::test]
async fn an_index_leads_to_an_image_and_to_no_other_index() {
    let registry = FakeRegistry::start().await;
    let entry = |digest: &Digest, size: usize| {
        let platforms = ["amd64", "arm64", "ppc64le", "s390x", "386"];
        let entries: Vec<Value> = platforms
            .iter()
            .map(|architecture| {
                json!({"mediaType": OCI_MANIFEST, "digest": digest.to_string(), "size": size,
                       "platform": {"os": "linux", "architecture": architecture}})
            })
            .collect();
        json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries}).to_string()
    };
    let inner = entry(&Digest::of(b"nothing"), 7);
    let inner_digest = registry.put_manifest("inner", OCI_INDEX, inner.clone());
    let outer = registry.put_manifest("v1", OCI_INDEX, entry(&inner_digest, inner.len()));
    for error in refusals(&registry, outer).await {
        assert!(error.contains("the entry of the image index is an image index again"), "{error}");
    }
    // What an entry leads to has the digest that the entry says.
    let packed = image(&[("a", "x")]);
    registry.put("honest", &packed);
    let index = registry.put_manifest("v1", OCI_INDEX, entry(packed.digest(), packed.manifest().len()));
    let wanted = packed.digest().to_string();
    registry.interfere(move |seen: &Seen| {
        seen.path.ends_with(&wanted).then(|| status(StatusCode::OK, r#"{"schemaVersion":2,"layers":[]}"#))
    });
    for error in refusals(&registry, index).await {
        assert!(error.contains("digest mismatch"), "{error}");
    }
}

#[tokio::test]
async fn redirects_end() {
    // To itself, between two places, and always further on.
    let ways: [fn(&Seen) -> String; 3] = [
        |seen| seen.path.clone(),
        |seen| if seen.query.is_empty() { format!("{}?b", seen.path) } else { seen.path.clone() },
        |seen| format!("{}?{}x", seen.path, seen.query),
    ];
    for way in ways {
        let registry = FakeRegistry::start().await;
        let packed = image(&[("a", "x")]);
        registry.put("v1", &packed);
        registry.interfere(move |seen| (seen.path != "/v2/").then(|| redirect(&way(seen))));
        for error in refusals(&registry, packed.digest().clone()).await {
            assert!(error.contains("more than 5 redirects"), "{error}");
        }
        let requests = registry.seen().iter().filter(|seen| seen.path != "/v2/").count();
        assert!(requests <= 2 * 6, "{requests} requests");
    }
    for location in ["", "http://[", "file:///etc/passwd", "ftp://127.0.0.1/x", "//", "javascript:alert(1)"] {
        let registry = FakeRegistry::start().await;
        let packed = image(&[("a", "x")]);
        registry.put("v1", &packed);
        let target = location.to_owned();
        registry.interfere(move |seen| (seen.path != "/v2/").then(|| redirect(&target)));
        for error in refusals(&registry, packed.digest().clone()).await {
            let is_refused = ["refusing to go to", "without a usable Location", "more than 5 redirects"]
                .iter()
                .any(|text| error.contains(text));
            assert!(is_refused && !error.contains("root:"), "{location:?}: {error}");
        }
    }
}

/// What a registry with this challenge is asked, and what comes of it.
async fn challenged(text: &str, token: fn(&Seen) -> Response) -> (FakeRegistry, String) {
    let registry = FakeRegistry::start().await;
    let packed = image(&[("a", "x")]);
    registry.put("v1", &packed);
    let challenge = text.replace("{registry}", &format!("http://{}", registry.address));
    registry.interfere(move |seen| {
        if seen.path == "/token" || seen.path == "/elsewhere" {
            return Some(token(seen));
        }
        let answer = (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge.clone())]);
        (seen.path != "/v2/").then(|| answer.into_response())
    });
    let puller = registry.puller_with_password("me", "hunter2");
    let resolved = puller.resolve(&registry.reference("ns/a:v1")).await;
    let error = resolved.expect_err("refused").to_string();
    assert!(!error.contains("hunter2"), "{error}");
    (registry, error)
}

#[tokio::test]
async fn challenges_lead_to_token_endpoints_over_http_only() {
    let no_token = |_: &Seen| status(StatusCode::OK, "{}");
    let refused = "refusing to go to";
    let unusable = "the token endpoint is not a URL";
    let unauthorized = "(status 401)";
    let long = format!(r#"Bearer realm="{}""#, "a".repeat(8_000));
    for (challenge, wanted) in [
        (r#"Bearer realm="file:///etc/passwd""#, refused),
        (r#"Bearer realm="gopher://127.0.0.1/x""#, refused),
        (r#"Bearer realm="data:,x""#, refused),
        // Not what the registry itself is at; a literal of another network would be dialled if this failed.
        (r#"Bearer realm="http://127.0.0.2:9/latest/meta-data""#, refused),
        (r#"Bearer realm="http://user@127.0.0.2:9/token""#, refused),
        (r#"Bearer realm="/token""#, unusable),
        (r#"Bearer realm="""#, unusable),
        (r#"Bearer realm="http://""#, unusable),
        (&long, unusable),
        (r#"Bearer realm="unterminated \"#, unusable),
        ("Bearer realm", unauthorized),
        ("Bearer =,=,=,\"", unauthorized),
        ("Digest realm=x", unauthorized),
        (r#"Bearer realm="{registry}/token""#, "the token endpoint's answer has no token"),
    ] {
        let (registry, error) = challenged(challenge, no_token).await;
        assert!(error.contains(wanted), "{challenge:.80}: {error}");
        let leaked = registry.seen().into_iter().filter(|seen| seen.path != "/token");
        assert_eq!(leaked.filter(|seen| seen.authorization.is_some()).count(), 0, "{challenge:.80}");
    }
}

#[tokio::test]
async fn a_token_endpoint_neither_redirects_nor_answers_without_end() {
    let challenge = r#"Bearer realm="{registry}/token""#;
    let (registry, error) = challenged(challenge, |seen| match seen.path.as_str() {
        "/token" => redirect("/elsewhere"),
        _ => status(StatusCode::OK, r#"{"token":"t"}"#),
    })
    .await;
    assert!(error.contains("requesting a token for") && error.contains("(status 307)"), "{error}");
    assert!(
        registry.seen().iter().all(|seen| seen.path != "/elsewhere"),
        "the password would have gone along"
    );

    let (_, error) = challenged(challenge, |_| {
        let piece = || Ok::<_, std::io::Error>(axum::body::Bytes::from(vec![b' '; 8192]));
        status(StatusCode::OK, axum::body::Body::from_stream(futures::stream::repeat_with(piece)))
    })
    .await;
    assert!(error.contains("the answer has more than 1048576 bytes"), "{error}");
}

#[tokio::test]
async fn waits_that_a_registry_asks_for_are_ours() {
    // Seconds, negative ones, a date, and more than any clock counts.
    for after in ["9223372036854775808", "18446744073709551616", "-1", "1e9", "Fri, 31 Dec 9999 23:59:59 GMT"]
    {
        let registry = FakeRegistry::start().await;
        let packed = image(&[("a", "x")]);
        registry.put("v1", &packed);
        registry.interfere(move |seen| {
            let answer = (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, after)], "");
            (seen.path != "/v2/").then(|| answer.into_response())
        });
        let pulled = refusals(&registry, packed.digest().clone());
        // The longest wait of these settings is 20 ms; without a limit this would not end at all.
        let [first, second] =
            tokio::time::timeout(std::time::Duration::from_mins(1), pulled).await.expect(after);
        assert!(first.contains("(status 503)") && second.contains("(status 503)"), "{first} {second}");
        let seen = registry.seen();
        let most = seen.iter().filter(|seen| seen.path != "/v2/").map(|seen| seen.earlier + 1).max();
        assert_eq!(most, Some(3), "{after}: two more attempts for each request");
    }
}
