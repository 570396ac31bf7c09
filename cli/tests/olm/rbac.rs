//! `olm bundle rbac`, as a person runs it.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{folder, olm, path};

const CSV: &str = r#"
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: sample.v1.0.0
spec:
  version: 1.0.0
  installModes:
  - {type: AllNamespaces, supported: true}
  install:
    strategy: deployment
    spec:
      deployments:
      - name: sample
        spec:
          selector: {matchLabels: {app: sample}}
          template:
            metadata: {labels: {app: sample}}
            spec: {serviceAccountName: sample, containers: [{name: c, image: i}]}
      clusterPermissions:
      - serviceAccountName: sample
        rules:
        - {apiGroups: [""], resources: [secrets], verbs: [get, list]}
"#;
const ANNOTATIONS: &str = "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
     operators.operatorframework.io.bundle.package.v1: sample\n";

fn bundle() -> TempDir {
    folder(&[("manifests/csv.yaml", CSV), ("metadata/annotations.yaml", ANNOTATIONS)])
}

#[test]
fn the_account_its_roles_and_what_is_dangerous_are_printed() {
    let folder = bundle();
    let output = olm(&["bundle", "rbac", path(folder.path()), "-n", "ops", "--service-account", "sam"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    assert!(
        text.starts_with(
            "# This ServiceAccount, and everyone who can use it:\n# - may read Secrets of every namespace\n"
        ),
        "{text}"
    );
    for wanted in ["kind: ServiceAccount", "name: ops-sam", "- secrets", "namespace: ops"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains("escalate") && !text.contains("WARNING"), "{text}");
}

#[test]
fn dangers_are_grouped_the_worst_first() {
    let folder = bundle();
    let rules = [
        r#"        - {apiGroups: [""], resources: [pods/exec], verbs: [create]}"#,
        r#"        - {apiGroups: [""], resources: [users, groups], verbs: [impersonate]}"#,
        r"        - {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [bind]}",
        r"        - {apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], verbs: [update]}",
    ];
    let csv = format!("{}\n{}\n", CSV.trim_end(), rules.join("\n"));
    fs::write(folder.path().join("manifests/csv.yaml"), csv).expect("written");
    let output = olm(&["bundle", "rbac", path(folder.path()), "-n", "ops"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    let printed: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
    assert_eq!(
        printed,
        [
            "# This ServiceAccount, and everyone who can use it:",
            "# - may give itself more permissions than it has (escalate, bind)",
            "# - may act as other users, groups or ServiceAccounts (impersonate)",
            "# - may read Secrets of every namespace",
            "# - may run commands in Pods or reach into nodes (exec, attach, proxy)",
            "# - may register webhooks that see or change what others write, Pods included",
        ]
    );
}

#[test]
fn webhooks_of_the_bundle_that_see_pods_are_named() {
    let folder = bundle();
    let webhook = |kind: &str, name: &str, resource: &str| {
        format!(
            "  - {{type: {kind}, generateName: {name}.example.com, deploymentName: sample, sideEffects: None, \
             admissionReviewVersions: [v1], webhookPath: /, containerPort: 443, rules: [{{apiGroups: [''], \
             apiVersions: [v1], operations: [CREATE], resources: [{resource}]}}]}}\n"
        )
    };
    let webhooks = webhook("MutatingAdmissionWebhook", "sees", "pods")
        + &webhook("ValidatingAdmissionWebhook", "blind", "services");
    let csv = format!("{}\n  webhookdefinitions:\n{webhooks}", CSV.trim_end());
    fs::write(folder.path().join("manifests/csv.yaml"), csv).expect("written");
    let output = olm(&["bundle", "rbac", path(folder.path()), "-n", "ops"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let printed: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).take(5).collect();
    assert_eq!(
        printed,
        [
            "# This ServiceAccount, and everyone who can use it:",
            "# - may read Secrets of every namespace",
            "# - may register webhooks that see or change what others write, Pods included",
            "# Webhooks of the bundle that see Pods:",
            "# - MutatingWebhookConfiguration sees.example.com",
        ]
    );
    assert!(!text.contains("# - ValidatingWebhookConfiguration"), "{text}");
}

#[test]
fn the_shorter_form_carries_a_warning_and_json_is_a_list() {
    let folder = bundle();
    let arguments = ["bundle", "rbac", path(folder.path()), "-n", "ops", "--escalate"];
    let text = String::from_utf8(olm(&arguments).stdout).expect("text");
    assert!(text.starts_with("# WARNING: generated with --escalate."), "{text}");
    assert!(text.contains("- escalate") && text.contains("- bind") && !text.contains("- secrets"), "{text}");

    let token = ["-o", "json", "--token-for", "olmv1-system/controller"];
    let output = olm(&[&arguments[..], &token[..]].concat());
    let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names: Vec<&str> = list["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|i| i["metadata"]["name"].as_str())
        .collect();
    assert_eq!(list["kind"], "List");
    assert!(names.contains(&"installer-token"), "{names:?}");
}

#[test]
fn bad_input_is_reported_in_a_sentence() {
    let folder = bundle();
    for (arguments, wanted) in [
        (
            vec!["bundle", "rbac", path(folder.path()), "-n", "ops", "--token-for", "x"],
            "write the controller's ServiceAccount as NAMESPACE/NAME",
        ),
        (
            vec!["bundle", "rbac", path(folder.path()), "-n", "ops", "--config", "/none.yaml"],
            "/none.yaml: No such file",
        ),
        (
            vec!["bundle", "rbac", "busybox", "-n", "ops"],
            "\"busybox\" is neither a file or folder here nor an image reference",
        ),
        (vec!["bundle", "rbac", "oci:/none", "-n", "ops"], "not an OCI image layout"),
        (
            vec!["bundle", "rbac", "a.example/b:v1", "-n", "ops", "--offline"],
            "--offline: images are not fetched from registries",
        ),
    ] {
        let output = olm(&arguments);
        let text = String::from_utf8(output.stderr).expect("text");
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
        assert!(text.contains(wanted), "{text}");
    }
}
