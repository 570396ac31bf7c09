use super::{Credential, Keyring, Secret};

fn basic(user: &str, password: &str) -> Credential {
    Credential::Basic { user: user.to_owned(), password: Secret::new(password.to_owned()) }
}

#[test]
fn the_most_specific_key_wins() {
    let keyring = Keyring::from_docker_config(
        br#"{"auths": {
            "quay.io": {"auth": "aG9zdDpw"},
            "quay.io/ns": {"auth": "bnM6cA=="},
            "quay.io/ns/repo": {"username": "repo", "password": "p"},
            "localhost:5000": {"auth": "cG9ydDphOmI"}
        }, "credsStore": "desktop"}"#,
    )
    .expect("valid");
    for (host, repository, wanted) in [
        ("quay.io", "other/x", Some(basic("host", "p"))),
        ("quay.io", "ns/x", Some(basic("ns", "p"))),
        ("quay.io", "ns/repo", Some(basic("repo", "p"))),
        ("quay.io", "ns/repository", Some(basic("ns", "p"))),
        ("localhost:5000", "x", Some(basic("port", "a:b"))),
        ("localhost", "x", None),
        ("localhost:5001", "x", None),
        ("evil-quay.io", "ns/repo", None),
    ] {
        assert_eq!(keyring.lookup(host, repository), wanted.as_ref(), "{host}/{repository}");
    }
}

#[test]
fn docker_hubs_old_names_mean_docker_io() {
    for key in
        ["https://index.docker.io/v1/", "docker.io", "index.docker.io", "https://registry-1.docker.io/v2/"]
    {
        let json = format!(r#"{{"{key}": {{"auth": "dTpw"}}}}"#);
        let keyring = Keyring::from_dockercfg(json.as_bytes()).expect("valid");
        assert_eq!(keyring.lookup("docker.io", "library/x"), Some(&basic("u", "p")), "{key}");
    }
}

#[test]
fn tokens_are_told_apart_from_passwords_and_empty_entries_are_none() {
    let keyring = Keyring::from_docker_config(
        br#"{"auths": {"a.io": {"identitytoken": "t", "auth": "dTpw"}, "b.io": {"registrytoken": "t"}, "c.io": {}}}"#,
    )
    .expect("valid");
    assert_eq!(keyring.lookup("a.io", "x"), Some(&Credential::Identity(Secret::new("t".into()))));
    assert_eq!(keyring.lookup("b.io", "x"), Some(&Credential::Bearer(Secret::new("t".into()))));
    assert_eq!(keyring.lookup("c.io", "x"), None);
}

#[test]
fn later_keyrings_replace_the_entries_of_earlier_ones_by_key() {
    let mut keyring =
        Keyring::from_docker_config(br#"{"auths": {"a.io": {"auth": "dTpw"}, "b.io": {"auth": "dTpw"}}}"#)
            .expect("valid");
    keyring.merge(
        Keyring::from_docker_config(br#"{"auths": {"https://a.io": {"auth": "djpx"}}}"#).expect("valid"),
    );
    assert_eq!(keyring.lookup("a.io", "x"), Some(&basic("v", "q")));
    assert_eq!(keyring.lookup("b.io", "x"), Some(&basic("u", "p")));
}

#[test]
fn neither_errors_nor_debug_output_show_secrets() {
    let error =
        Keyring::from_docker_config(br#"{"auths": {"a.io": {"auth": ["hunter2"]}}}"#).expect_err("invalid");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    let error =
        Keyring::from_docker_config(br#"{"auths": {"a.io": {"auth": "hunter2!"}}}"#).expect_err("invalid");
    assert_eq!(error.to_string(), "auth of registry \"a.io\" is not base64 of user:password");
    let keyring = Keyring::from_docker_config(br#"{"auths": {"a.io": {"auth": "dTpw"}}}"#).expect("valid");
    assert!(format!("{keyring:?}").contains("[hidden]"));
}

proptest::proptest! {
    #[test]
    fn the_longest_key_that_ends_at_a_slash_wins(
        keys in proptest::collection::btree_set("h(/[ab]){0,3}", 1..6),
        repository in "[ab](/[ab]){0,3}",
    ) {
        let mut keyring = Keyring::default();
        for key in &keys {
            keyring.insert(key, basic(key, "p"));
        }
        let name = format!("h/{repository}/");
        let wanted = keys.iter().filter(|key| name.starts_with(&format!("{key}/"))).max_by_key(|key| key.len());
        let found = keyring.lookup("h", &repository).cloned();
        proptest::prop_assert_eq!(found, wanted.map(|key| basic(key, "p")));
    }
}

#[test]
fn what_was_tried_is_said_by_its_source_and_never_shown() {
    let keyring = |json: &str| Keyring::from_docker_config(json.as_bytes()).expect("valid");
    assert_eq!(
        Keyring::default().tried("quay.io", "ns/a"),
        "tried without credentials, as none are configured"
    );
    let mut merged = keyring(r#"{"auths": {"quay.io": {"auth": "dTpw"}, "b.io": {"auth": "dTpw"}}}"#)
        .named("pull secret sys/global");
    merged.merge(keyring(r#"{"auths": {"quay.io/ns": {"auth": "dTpw"}}}"#).named("pull secret own/first"));
    merged.insert("c.io", basic("u", "p"));
    for (host, repository, wanted) in [
        ("quay.io", "ns/a", "tried the credentials for quay.io/ns of pull secret own/first"),
        ("quay.io", "x/a", "tried the credentials for quay.io of pull secret sys/global"),
        ("c.io", "x", "tried the configured credentials for c.io"),
        (
            "d.io",
            "x",
            "tried without credentials, as there are none for d.io/x in pull secret sys/global, pull secret own/first",
        ),
    ] {
        assert_eq!(merged.tried(host, repository), wanted);
    }
}
