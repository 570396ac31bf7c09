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
            command.catalogs.address(super::CATALOGS_ADDRESS),
            command.process.metrics_address(super::METRICS_ADDRESS).as_deref(),
            command.process.health_address().as_deref(),
            command.process.leader_elect
        ),
        (":8443", Some(":7443"), Some(":8081"), false)
    );
    assert!(command.process.without_effect().is_empty());
}

#[test]
fn contradictions_are_refused_in_upstreams_words() {
    for (arguments, text) in [
        (&["--gc-interval=x"][..], "invalid value \"x\" of gc-interval, want a duration like 12h"),
        (&["--feature-gates=X=true"], "unrecognized feature gate: X"),
        (
            &["--feature-gates=APIV1MetasHandler"],
            "invalid value of feature gate \"APIV1MetasHandler\", want <name>=true or <name>=false",
        ),
    ] {
        assert_eq!(parsed(arguments).config().unwrap_err().to_string(), text);
    }
    let error = parsed(&["--tls-cert=x"]).process.certificate_files().unwrap_err();
    assert_eq!(error.to_string(), "tls-cert and tls-key flags must be used together");
    for secret in ["x", "/x", "x/", "a/b/c"] {
        let error = parsed(&["--global-pull-secret", secret]).process.pull_secret().unwrap_err();
        assert_eq!(
            error.to_string(),
            "value of global-pull-secret should be of the format <namespace>/<name>"
        );
    }
    assert_eq!(
        parsed(&["--global-pull-secret=a/b"]).process.pull_secret().unwrap(),
        Some(("a".into(), "b".into()))
    );
}

#[test]
fn gates_and_election_are_read_in_all_their_spellings() {
    let off =
        parsed(&["--feature-gates=GraphQLCatalogQueries=false, APIV1MetasHandler=false", "--leader-elect"]);
    assert!(!off.config().unwrap().metas && off.process.leader_elect);
    let on = parsed(&[
        "--feature-gates=APIV1MetasHandler=false",
        "--feature-gates=AllAlpha=true",
        "--leader-elect=true",
    ]);
    let config = on.config().unwrap();
    assert!(!config.metas && config.graphql && on.process.leader_elect, "what is named is as it was named");
    for (gates, graphql) in [
        ("APIV1MetasHandler=true", false),
        ("GraphQLCatalogQueries=true", true),
        ("GraphQLCatalogQueries=false", false),
        ("AllAlpha=true", true),
        ("AllAlpha=true,GraphQLCatalogQueries=false", false),
        ("GraphQLCatalogQueries=true,AllAlpha=false", true),
        ("AllBeta=true", false),
    ] {
        let config = parsed(&["--feature-gates", gates]).config().unwrap();
        assert_eq!(config.graphql, graphql, "{gates}");
    }
    assert!(!parsed(&["--leader-elect=false"]).process.leader_elect);
}

/// Charts and tests append flags to what is there already.
#[test]
fn a_flag_that_is_given_again_counts_as_it_was_given_last() {
    let flags = [
        "--gc-interval=1h",
        "--leader-elect",
        "--tls-profile=intermediate",
        "--feature-gates=GraphQLCatalogQueries=true,APIV1MetasHandler=false",
        "--tls-custom-ciphers=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "-v=2",
        "--log_dir=/x",
        "--gc-interval=2h",
        "--leader-elect=F",
        "--tls-profile=nonsense",
        "--tls-profile=custom",
        "--feature-gates=APIV1MetasHandler=true",
        "--tls-custom-ciphers=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "--v=5",
        "--log_dir=/y",
        "--insecure-registry=a:5000",
        "--insecure-registry=b:5000",
    ];
    let command = parsed(&flags);
    let config = command.config().unwrap();
    assert_eq!(config.gc_interval.as_secs(), 2 * 3600);
    assert!(!command.process.leader_elect);
    assert_eq!(command.process.verbosity, 5);
    // Maps and lists add up.
    assert_eq!(config.gates(), [("APIV1MetasHandler", true), ("GraphQLCatalogQueries", true)]);
    let profile = format!("{:?}", command.process.tls_profile().unwrap());
    let twice = ["--tls-profile=custom", flags[4], flags[12]];
    assert_eq!(profile, format!("{:?}", parsed(&twice).process.tls_profile().unwrap()));
    for one in [flags[4], flags[12]] {
        let single = parsed(&["--tls-profile=custom", one]).process.tls_profile().unwrap();
        assert_ne!(profile, format!("{single:?}"), "both ciphers are allowed");
    }
    let folder = tempfile::tempdir().unwrap();
    let puller = command.process.puller(folder.path().join("spool")).unwrap();
    assert_eq!(puller.insecure_hosts.into_iter().collect::<Vec<_>>(), ["a:5000", "b:5000"]);
}

/// All flags that klog registers, as klog spells them.
#[test]
fn every_flag_of_klog_is_accepted() {
    let booleans = [
        "add_dir_header",
        "alsologtostderr",
        "legacy_stderr_threshold_behavior",
        "logtostderr",
        "one_output",
        "skip_headers",
        "skip_log_headers",
    ];
    for name in booleans {
        for spelling in [format!("--{name}"), format!("--{name}=true"), format!("--{name}=0")] {
            parsed(&[&spelling]);
        }
        assert!(Command::try_parse_from(["catalogd", &format!("--{name}=perhaps")]).is_err(), "{name}");
    }
    for (name, value) in [
        ("alsologtostderrthreshold", "ERROR"),
        ("log_backtrace_at", "file.go:3"),
        ("log_dir", "/x"),
        ("log_file", "/x"),
        ("log_file_max_size", "1800"),
        ("stderrthreshold", "2"),
        ("vmodule", "x=4"),
    ] {
        let told = parsed(&[&format!("--{name}={value}")]).process.without_effect();
        assert!(told.len() == 1 && told[0].starts_with(&format!("--{name} has no effect")), "{told:?}");
        parsed(&[&format!("--{name}"), value]);
    }
    for spelling in [&["-v", "4"][..], &["-v=4"], &["--v=4"], &["--v", "4"]] {
        assert_eq!(parsed(spelling).process.verbosity, 4);
    }
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
    assert_eq!(command.process.metrics_address(super::METRICS_ADDRESS), None);
    assert_eq!(
        command.process.without_effect(),
        [
            "--log_file has no effect: the log goes to stderr, and -v says how much",
            "--vmodule has no effect: the log goes to stderr, and -v says how much",
            "--pprof-bind-address has no effect: there are no profiles to serve",
        ]
    );
}
