//! Our images under upstream's own manifests, and the manifests after that.

use olm_test::{prelude::*, upstream::list_file};

use crate::installed::{catalogs_can_be_created, own_cluster};
use crate::rendering::config_arg;

const DEADLINE: Duration = Duration::from_mins(2);
const NAMESPACE: &str = "olmv1-system";
const ACCOUNT: &str = "operator-controller-controller-manager";

/// What matters of upstream's 1.11: its webhook, its separate catalogd, and cluster-admin for operator-controller.
fn upstream() -> Vec<Value> {
    let pod = json!({
        "metadata": {"labels": {"control-plane": "catalogd-controller-manager"}},
        "spec": {"containers": [{"name": "manager", "image": "localhost/olmv1/catalogd:0.1.0"}]},
    });
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "operator-controller-cluster-admin-rolebinding"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
            },
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "catalogd-controller-manager", "namespace": NAMESPACE},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"control-plane": "catalogd-controller-manager"}},
                "template": pod,
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "catalogd-mutating-webhook-configuration"},
            "webhooks": [{
                "name": "inject-metadata-name.olm.operatorframework.io",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {
                    "name": "catalogd-service", "namespace": NAMESPACE, "port": 9443,
                    "path": "/mutate-olm-operatorframework-io-v1-clustercatalog",
                }},
                "failurePolicy": "Fail",
                "rules": [{
                    "apiGroups": ["olm.operatorframework.io"], "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"], "resources": ["clustercatalogs"],
                }],
                "sideEffects": "None", "timeoutSeconds": 5,
            }],
        }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn images_without_their_manifests_say_what_to_apply() -> Result<()> {
    let Some(cluster) = own_cluster().await? else { return Ok(()) };
    kubectl(&cluster, &["apply", "--server-side", "-k", &config_arg("crd")])?;
    kubectl(&cluster, &["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"])?;
    let list = list_file(&upstream())?;
    kubectl(&cluster, &["apply", "-f", &list.path().display().to_string()])?;
    let refused = kubectl(&cluster, &["create", "-f", &config_arg("default-catalogs.yaml")]);
    ensure!(
        refused.is_err_and(|error| error.to_string().contains("failed calling webhook")),
        "upstream's webhook refuses every catalog"
    );

    let site = Site::around(cluster)?;
    let cluster = &site.cluster;
    let operator = Operator::start_installed(&site, &[]).await?;
    let wanted = [
        ("catalogd-mutating-webhook-configuration", "no ClusterCatalog can be written"),
        ("catalogd-controller-manager", "it works on the same catalogs"),
        ("operator-controller-cluster-admin-rolebinding", "permissions on the whole cluster"),
    ];
    wait::until("the leftovers to be reported", DEADLINE, async || {
        let (log, events) = (operator.process().log(), kubectl::get(cluster, &["events", "-A"])?);
        for (name, text) in wanted {
            let says = |line: &&str| {
                line.contains(name) && line.contains(text) && line.contains("config/install.yaml")
            };
            ensure!(log.lines().any(|line| says(&line)), "the log does not name {name}");
            let about = |event: &Value| {
                let note = event["message"].as_str().unwrap_or_default();
                event["reason"] == "LeftBehind"
                    && event["involvedObject"]["name"] == name
                    && note.contains("apply config/install.yaml")
            };
            ensure!(
                events["items"].as_array().is_some_and(|all| all.iter().any(about)),
                "no Event on {name}"
            );
        }
        Ok(())
    })
    .await?;
    let extension = list_file(&[json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": "waiting"},
        "spec": {
            "namespace": "default", "serviceAccount": {"name": "default"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "any"}},
        },
    })])?;
    kubectl(cluster, &["create", "-f", &extension.path().display().to_string()])?;
    wait::until("the extension to say so", DEADLINE, async || {
        let object = kubectl::get(cluster, &["clusterextension", "waiting"])?;
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready");
        let text = ready.and_then(|ready| ready["message"].as_str()).unwrap_or_default().to_owned();
        wait::check(text.contains("until the manifests are applied again"), || text.clone())
    })
    .await?;

    operator.process().terminate(DEADLINE).await?;
    kubectl(cluster, &["apply", "--server-side", "--force-conflicts", "-f", &config_arg("install.yaml")])?;
    // While no program runs that would pull them.
    catalogs_can_be_created(cluster)?;
    kubectl(cluster, &["delete", "-f", &config_arg("default-catalogs.yaml")])?;
    let again = Operator::start_installed(&site, &[]).await?;
    wait::until("the manifests to be found in force", DEADLINE, async || {
        let object = kubectl::get(cluster, &["clusterextension", "waiting"])?;
        let text = object["status"]["conditions"].to_string();
        wait::check(!text.contains("until the manifests are applied again"), || text.clone())
    })
    .await?;
    ensure!(!again.process().log().contains("left behind by an earlier installation"), "nothing is left");
    Ok(())
}
