use clap::Parser;

use super::Command;

fn parsed(arguments: &[&str]) -> Command {
    Command::try_parse_from(["catalogd"].iter().chain(arguments)).unwrap()
}

#[test]
fn defaults_are_upstreams() {
    let command = parsed(&[]);
    let config = command.config().unwrap();
    assert_eq!(config.base_url(), "https://catalogd-service.olmv1-system.svc/catalogs");
    assert_eq!(config.cache_dir.to_str(), Some("/var/cache/catalogd"));
    assert_eq!(config.gc_interval.as_secs(), 12 * 3600);
    assert_eq!(
        (
            command.shared.catalogs_address(super::CATALOGS_ADDRESS).as_str(),
            command.shared.metrics_address(super::METRICS_ADDRESS).as_deref(),
            command.shared.health_address().as_deref(),
            command.shared.leader_elect
        ),
        (":8443", Some(":7443"), Some(":8081"), false)
    );
    assert!(command.shared.without_effect().is_empty());
}

#[test]
fn contradictions_are_refused_in_upstreams_words() {
    for (arguments, text) in [
        (&["--tls-cert=x"][..], "tls-cert and tls-key flags must be used together"),
        (&["--gc-interval=x"], "invalid value \"x\" of gc-interval, want a duration like 12h"),
        (&["--feature-gates=X=true"], "unrecognized feature gate: X"),
        (
            &["--feature-gates=APIV1MetasHandler"],
            "invalid value of feature gate \"APIV1MetasHandler\", want <name>=true or <name>=false",
        ),
    ] {
        assert_eq!(parsed(arguments).config().unwrap_err().to_string(), text);
    }
    for secret in ["x", "/x", "x/", "a/b/c"] {
        let error = parsed(&["--global-pull-secret", secret]).shared.pull_secret().unwrap_err();
        assert_eq!(
            error.to_string(),
            "value of global-pull-secret should be of the format <namespace>/<name>"
        );
    }
    assert_eq!(
        parsed(&["--global-pull-secret=a/b"]).shared.pull_secret().unwrap(),
        Some(("a".into(), "b".into()))
    );
}

#[test]
fn gates_and_election_are_read_in_all_their_spellings() {
    let off =
        parsed(&["--feature-gates=GraphQLCatalogQueries=false, APIV1MetasHandler=false", "--leader-elect"]);
    assert!(!off.config().unwrap().metas && off.shared.leader_elect);
    let on = parsed(&[
        "--feature-gates=APIV1MetasHandler=false",
        "--feature-gates=AllAlpha=true",
        "--leader-elect=true",
    ]);
    assert!(on.config().unwrap().metas && on.shared.leader_elect);
    for (gates, graphql) in [
        ("APIV1MetasHandler=true", false),
        ("GraphQLCatalogQueries=true", true),
        ("GraphQLCatalogQueries=false", false),
        ("AllAlpha=true", true),
    ] {
        let config = parsed(&["--feature-gates", gates]).config().unwrap();
        assert_eq!(config.graphql, graphql, "{gates}");
    }
    assert!(!parsed(&["--leader-elect=false"]).shared.leader_elect);
}

#[test]
fn flags_of_the_original_without_a_meaning_here_are_accepted_and_named() {
    let flags = [
        "--logtostderr",
        "--skip_headers=true",
        "--vmodule=x=4",
        "--log_file=/x",
        "--pprof-bind-address=:6060",
        "--webhook-server-port=9444",
        "--metrics-bind-address=0",
    ];
    let command = parsed(&flags);
    assert_eq!(command.shared.metrics_address(super::METRICS_ADDRESS), None);
    assert_eq!(
        command.shared.without_effect(),
        [
            "--log_file has no effect: the log goes to stderr, and -v says how much",
            "--vmodule has no effect: the log goes to stderr, and -v says how much",
            "--pprof-bind-address has no effect: there are no profiles to serve",
        ]
    );
}
