//! `watchNamespace` by install modes, and the messages of the schema.

use olm_bundle::MEMORY_BYTES_MAX;
use olm_render::{Features, Options, Reason, RenderError, render_for};
use serde_json::{Value, json};

use crate::builder::{bundle, find};

const PREFIX: &str = "invalid ClusterExtension configuration: invalid configuration: ";
const A: &str = "AllNamespaces";
const O: &str = "OwnNamespace";
const S: &str = "SingleNamespace";

fn own(value: &str) -> String {
    format!(
        "invalid format for field \"watchNamespace\": '{value}' is not valid ownNamespaceInstallMode: invalid value \
         \"{value}\": must be \"ns\" (the namespace where the operator is installed) because this operator only \
         supports OwnNamespace install mode"
    )
}

fn single() -> String {
    "invalid format for field \"watchNamespace\": 'ns' is not valid singleNamespaceInstallMode: invalid value \"ns\": \
     must be different from \"ns\" (the install namespace) because this operator uses SingleNamespace install mode to \
     watch a different namespace"
        .to_owned()
}

fn several(texts: &[&str]) -> String {
    format!("multiple errors found:\n  - {}", texts.join("\n  - "))
}

fn null(member: &str) -> String {
    format!("required field \"deploymentConfig.{member}\" is missing")
}

fn targets(modes: &[&str], config: Value) -> Result<String, RenderError> {
    let rendered = bundle().modes(modes).configured(config)?;
    let deployment = find(&rendered, "Deployment", "manager");
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    Ok(annotations["olm.targetNamespaces"].as_str().unwrap().to_owned())
}

#[test]
fn install_modes_and_namespace_give_the_targets() {
    for (modes, config, wanted) in [
        (&[A][..], json!({}), ""),
        (&[O], json!({"watchNamespace": "ns"}), "ns"),
        (&[S], json!({"watchNamespace": "other"}), "other"),
        (&[O, S], json!({"watchNamespace": "ns"}), "ns"),
        (&[O, S], json!({"watchNamespace": "other"}), "other"),
        (&[A, O], json!({}), ""),
        (&[A, O], json!({"watchNamespace": null}), ""),
        (&[A, O], json!({"watchNamespace": "ns"}), "ns"),
        (&[A, S], json!({"watchNamespace": "other"}), "other"),
        (&[A, O, S], json!({"watchNamespace": "other"}), "other"),
        (&[A, O, S, "MultiNamespace"], json!({"watchNamespace": "ns"}), "ns"),
    ] {
        assert_eq!(targets(modes, config.clone()).as_deref(), Ok(wanted), "{modes:?} {config}");
    }
}

#[test]
fn violations_have_upstreams_words() {
    let missing = "required field \"watchNamespace\" is missing".to_owned();
    let unknown = "unknown field \"watchNamespace\"".to_owned();
    for (modes, config, text) in [
        (&[O][..], json!({}), missing.clone()),
        (&[O], json!({"watchNamespace": null}), missing.clone()),
        (&[O, S], json!({}), missing.clone()),
        (&[A], json!({"watchNamespace": "ns"}), unknown.clone()),
        (&[A, "MultiNamespace"], json!({"watchNamespace": null}), unknown),
        (&[O], json!({"watchNamespace": "other"}), own("other")),
        (&[S], json!({"watchNamespace": "ns"}), single()),
        (
            &[S],
            json!({"watchNamespace": ""}),
            several(&[
                "field \"watchNamespace\" must have minimum length of 1 (len=0)",
                "field \"watchNamespace\" must match pattern \"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\"",
            ]),
        ),
        (
            &[S],
            json!({"watchNamespace": "a".repeat(64)}),
            "field \"watchNamespace\" must have maximum length of 63 (len=64)".to_owned(),
        ),
        (
            &[A, O],
            json!({"watchNamespace": "other"}),
            several(&[
                "invalid value for field \"watchNamespace\"",
                "invalid type for field \"watchNamespace\": got string, want null",
                &own("other"),
            ]),
        ),
        (
            &[A, S],
            json!({"watchNamespace": ""}),
            several(&[
                "invalid value for field \"watchNamespace\"",
                "invalid type for field \"watchNamespace\": got string, want null",
                "validation failed",
                "field \"watchNamespace\" must have minimum length of 1 (len=0)",
                "field \"watchNamespace\" must match pattern \"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\"",
            ]),
        ),
    ] {
        violates(modes, &config, &text);
    }
}

#[test]
fn violations_of_other_members_have_upstreams_words() {
    let missing = "required field \"watchNamespace\" is missing";
    for (modes, config, text) in [
        (&[O][..], json!({"moon": 1}), several(&[missing, "unknown field \"moon\""])),
        (
            &[A],
            json!({"deploymentConfig": {"moon": 1, "env": "x"}, "sun": 2}),
            several(&[
                "validation failed",
                "invalid type for field \"deploymentConfig.env\": got string, want array",
                "unknown field \"moon\"",
                "unknown field \"sun\"",
            ]),
        ),
        (&[A], json!({"deploymentConfig": {"env": null}}), null("env")),
        (&[A], json!({"deploymentConfig": {"nodeSelector": {"a": null}}}), null("nodeSelector.a")),
        (&[A], json!({"deploymentConfig": {"affinity": {"nodeAffinity": null}}}), null("affinity.nodeAffinity")),
        (
            &[S],
            json!({"watchNamespace": 5}),
            "invalid type for field \"watchNamespace\": got number, want string".to_owned(),
        ),
        (&[A], json!({"b": 1, "a": 2}), several(&["unknown field \"a\"", "unknown field \"b\""])),
        (&[A], json!(true), "invalid type: got boolean, want object".to_owned()),
        (&[A], json!(null), "invalid type: got null, want object".to_owned()),
        (&[A], json!({"deploymentConfig": {"selector": {}}}), "unknown field \"selector\"".to_owned()),
        (
            &[A],
            json!({"deploymentConfig": {"env": "x"}}),
            "invalid type for field \"deploymentConfig.env\": got string, want array".to_owned(),
        ),
        (
            &[A],
            json!({"deploymentConfig": {"env": [{"value": "x"}]}}),
            "required field \"name\" is missing".to_owned(),
        ),
        (
            &[A],
            json!({"deploymentConfig": {"tolerations": [{"tolerationSeconds": "1"}]}}),
            "invalid type for field \"deploymentConfig.tolerations.0.tolerationSeconds\": got string, want integer"
                .to_owned(),
        ),
    ] {
        violates(modes, &config, &text);
    }
}

fn violates(modes: &[&str], config: &Value, text: &str) {
    let error = targets(modes, config.clone()).unwrap_err();
    assert_eq!(error.to_string(), format!("{PREFIX}{text}"), "{modes:?} {config}");
    assert_eq!(error.reason(), Reason::InvalidConfiguration);
    assert_eq!(error.reason().as_str(), "InvalidConfiguration");
}

#[test]
fn without_configuration_a_required_namespace_is_still_asked_for() {
    let error = bundle().modes(&[O]).render().unwrap_err();
    assert_eq!(error.to_string(), format!("{PREFIX}required field \"watchNamespace\" is missing"));
}

#[test]
fn gates_take_fields_away() {
    let refusal = |features: Features, config: Value| {
        let options = Options { features, config: Some(config), ..Options::new("ns") };
        bundle().modes(&[A, O]).render_with(&options).unwrap_err().to_string()
    };
    let all = Features::default();
    assert_eq!(
        refusal(Features { deployment_config: false, ..all }, json!({"deploymentConfig": {}})),
        format!("{PREFIX}unknown field \"deploymentConfig\"")
    );
    // That of install modes takes bundles away, and leaves the namespace.
    let features = Features { single_own_namespace_install_support: false, ..all };
    let options = Options { features, config: Some(json!({"watchNamespace": "ns"})), ..Options::new("ns") };
    assert!(bundle().modes(&[A, O]).render_with(&options).is_ok());
    assert_eq!(
        bundle().modes(&[O]).render_with(&options).unwrap_err().to_string(),
        "unsupported bundle: bundle does not support AllNamespaces install mode"
    );
}

#[test]
fn target_namespaces_must_fit_the_modes() {
    let refusal = |modes: &[&str], targets: &[&str]| {
        let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
        let bundle = bundle().modes(modes).read(MEMORY_BYTES_MAX).unwrap();
        render_for(bundle, &Options::new("ns"), &targets).err().map(|error| error.to_string())
    };
    let prefix = "invalid option(s): invalid target namespaces";
    for (modes, targets, text) in [
        (&[A][..], &[][..], "[]: exactly one target namespace must be specified"),
        (&["MultiNamespace"], &[], "[]: at least one target namespace must be specified"),
        (&[O], &[""], "[]: supported install modes [OwnNamespace] do not support targeting all namespaces"),
        (
            &[S, A],
            &["ns"],
            "[ns]: supported install modes [AllNamespaces SingleNamespace] do not support targeting own namespace",
        ),
        (&[O], &["x"], "[x]: supported install modes [OwnNamespace] do not support target namespaces [x]"),
        (
            &["MultiNamespace"],
            &["x", "ns"],
            "[x ns]: supported install modes [MultiNamespace] do not support targeting own namespace",
        ),
        (
            &[A, S],
            &["x", "y"],
            "[x y]: supported install modes [AllNamespaces SingleNamespace] do not support target namespaces [x y]",
        ),
    ] {
        assert_eq!(refusal(modes, targets), Some(format!("{prefix} {text}")));
    }
    assert_eq!(refusal(&["MultiNamespace"], &["x", "y"]), None);
    let unknown =
        "[x]: supported install modes [AllNamespaces MoonNamespaces] do not support target namespaces [x]";
    assert_eq!(refusal(&["MoonNamespaces", A], &["x"]), Some(format!("{prefix} {unknown}")));
    // The text does not grow with the bundle.
    let many: Vec<_> = (0..1_000).map(|number| format!("Mode{number:03}")).chain(["x".repeat(64)]).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let text = refusal(&many, &["x"]).unwrap();
    assert!(
        text.contains("[Mode000 Mode001 Mode002 Mode003 Mode004 Mode005 Mode006 Mode007] do not"),
        "{text}"
    );
}
