//! What is rendered, without a cluster: all ways lead to the same objects, and the programs know their flags.

use std::process::Command;

use anyhow::{Context, Result};
use olm_test::process::cargo_program;
use serde_json::{Value, json};

use crate::rendering::{Objects, assert_same, file, kustomized, run, templated};

const OPERATOR_CONTROLLER: &str = "operator-controller-controller-manager";
const CATALOGD: &str = "catalogd-controller-manager";

fn find<'a>(objects: &'a Objects, kind: &str, name: &str) -> Result<&'a Value> {
    let found = objects.iter().find(|((k, _, n), _)| k == kind && n == name);
    Ok(found.with_context(|| format!("{kind} {name} was not rendered"))?.1)
}

fn container<'a>(objects: &'a Objects, deployment: &str) -> Result<&'a Value> {
    Ok(&find(objects, "Deployment", deployment)?["spec"]["template"]["spec"]["containers"][0])
}

fn args(objects: &Objects, deployment: &str) -> Result<Vec<String>> {
    Ok(serde_json::from_value(container(objects, deployment)?["args"].clone())?)
}

#[test]
fn the_install_manifest_is_the_default_overlay() -> Result<()> {
    assert_same("install.yaml and kustomize", &file("install.yaml")?, &kustomized("default")?);
    Ok(())
}

#[test]
fn chart_and_kustomize_render_the_same() -> Result<()> {
    for (overlay, values) in [
        ("default", &[][..]),
        ("overlays/split", &["options.catalogd.separate=true"]),
        ("overlays/cert-manager", &["options.certManager.enabled=true"]),
        ("overlays/openshift", &["options.openshift.enabled=true"]),
    ] {
        assert_same(overlay, &kustomized(overlay)?, &templated(values)?);
    }
    Ok(())
}

#[test]
fn the_charts_values_go_where_upstreams_go() -> Result<()> {
    let objects = templated(&[
        "namespaces.olmv1.name=elsewhere",
        "options.featureSet=experimental",
        "options.operatorController.deployment.image=example.com/oc:1",
        "options.operatorController.deployment.replicas=3",
        "options.operatorController.deployment.extraArguments={--v=4}",
        "options.operatorController.deployment.podLabels.team=olm",
        "options.operatorController.features.enabled={BoxcutterRuntime,DeploymentConfig}",
        "options.operatorController.features.disabled={WebhookProviderOpenshiftServiceCA}",
        "options.operatorController.podDisruptionBudget.minAvailable=1",
        "deployments.templateSpec.priorityClassName=mine",
        "deployments.containerSpec.imagePullPolicy=Always",
    ])?;
    assert!(!serde_json::to_string(&objects.values().collect::<Vec<_>>())?.contains("olmv1-system"));
    let deployment = find(&objects, "Deployment", OPERATOR_CONTROLLER)?;
    assert_eq!(deployment["metadata"]["namespace"], "elsewhere");
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"]["team"], "olm");
    assert_eq!(deployment["spec"]["template"]["spec"]["priorityClassName"], "mine");
    let container = container(&objects, OPERATOR_CONTROLLER)?;
    assert_eq!(container["image"], "example.com/oc:1");
    assert_eq!(container["imagePullPolicy"], "Always");
    let args = args(&objects, OPERATOR_CONTROLLER)?;
    assert_eq!(
        args[args.len() - 4..],
        [
            "--feature-gates=BoxcutterRuntime=true",
            "--feature-gates=DeploymentConfig=true",
            "--feature-gates=WebhookProviderOpenshiftServiceCA=false",
            "--v=4",
        ]
    );
    let budget = &find(&objects, "PodDisruptionBudget", OPERATOR_CONTROLLER)?["spec"];
    assert_eq!((&budget["minAvailable"], &budget["maxUnavailable"]), (&json!(1), &Value::Null));
    let without = templated(&["options.operatorController.podDisruptionBudget.enabled=false"])?;
    assert!(find(&without, "PodDisruptionBudget", OPERATOR_CONTROLLER).is_err());
    Ok(())
}

#[test]
fn values_that_cannot_be_followed_are_refused_with_a_sentence() {
    for (values, told) in [
        (&["options.tilt.enabled=true"][..], "options.tilt.enabled: this chart has no such variant"),
        (&["options.catalogd.enabled=false"], "options.catalogd.enabled: extensions need catalogs"),
        (
            &["options.operatorController.enabled=false"],
            "options.operatorController.enabled: nothing would run",
        ),
        (
            &["options.operatorController.features.disabled={BoxcutterRuntime}"],
            "BoxcutterRuntime is the only runtime here",
        ),
        (&["options.openshift.catalogs.version=4.20"], "catalogs are not part of the release"),
    ] {
        let error = templated(values).map(|objects| objects.len()).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn the_split_installation_shows_what_upstreams_suite_looks_at() -> Result<()> {
    let objects = kustomized("overlays/split")?;
    for (deployment, name) in [(OPERATOR_CONTROLLER, "operator-controller"), (CATALOGD, "catalogd")] {
        let object = find(&objects, "Deployment", deployment)?;
        let labels = &object["metadata"]["labels"];
        assert_eq!(
            (&labels["app.kubernetes.io/part-of"], &labels["app.kubernetes.io/name"]),
            (&json!("olm"), &json!(name))
        );
        assert_eq!(object["metadata"]["namespace"], "olmv1-system");
        assert_eq!(object["spec"]["replicas"], 2);
        assert_eq!(object["spec"]["selector"]["matchLabels"], json!({"control-plane": deployment}));
        assert_eq!(container(&objects, deployment)?["name"], "manager");
        let gates = args(&objects, deployment)?.into_iter().filter(|arg| arg.starts_with("--feature-gates="));
        for gate in gates {
            assert!(
                !gate.contains(',') && gate.ends_with("=true"),
                "{gate}: only one gate of a list is seen"
            );
        }
        find(&objects, "ClusterRole", &format!("{name}-metrics-reader"))?;
        let ports = find(&objects, "Service", &format!("{name}-service"))?["spec"]["ports"].as_array();
        let metrics =
            ports.into_iter().flatten().find(|port| port["name"] == "metrics").context("metrics")?;
        assert_eq!(metrics["port"], metrics["targetPort"]);
    }
    assert!(
        args(&objects, OPERATOR_CONTROLLER)?.contains(&"--feature-gates=BoxcutterRuntime=true".to_owned())
    );
    for crd in ["clusterextensions", "clusterobjectsets"] {
        let crd = find(&objects, "CustomResourceDefinition", &format!("{crd}.olm.operatorframework.io"))?;
        let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert!(spec["properties"]["progressDeadlineMinutes"]["minimum"].is_number());
    }
    Ok(())
}

#[test]
fn the_programs_know_every_flag_of_the_manifests() -> Result<()> {
    for overlay in ["default", "overlays/split", "overlays/cert-manager", "overlays/openshift"] {
        let objects = kustomized(overlay)?;
        let program = cargo_program("operator-controller", "operator-controller")?;
        let told = run(Command::new(program).args(args(&objects, OPERATOR_CONTROLLER)?).arg("version"))?;
        assert!(told.contains("operator-controller version"), "{overlay}: {told}");
        let program = cargo_program("catalogd", "catalogd")?;
        let told = run(Command::new(program).args(args(&objects, CATALOGD)?).arg("--help"))?;
        assert!(told.contains("--catalogs-server-addr"), "{overlay}: {told}");
    }
    Ok(())
}
