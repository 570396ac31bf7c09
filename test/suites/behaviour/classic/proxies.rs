//! The proxy of a cluster.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{DynamicObject, GroupVersionKind};
use olm_test::{bundle, prelude::*};

use crate::operators::Operators;

const CRD: &str = "proxies.config.openshift.io";

#[tokio::test(flavor = "multi_thread")]
async fn operators_use_the_proxy_of_the_cluster() -> Result<()> {
    let world = Operators::alone().await?;
    let place = world.place("proxy").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    let env = async |name: &str| -> Result<Vec<Value>> {
        let found = json!(place.deployments.get(name).await?);
        let env = &found["spec"]["template"]["spec"]["containers"][0]["env"];
        Ok(env.as_array().cloned().unwrap_or_default())
    };
    // Other clusters than OpenShift have none.
    place.operator("a.v1", json!({})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    ensure!(env("a-v1").await?.len() == 1, "{:?}", env("a-v1").await?);
    let mut crd = bundle::open_crd("config.openshift.io", "Proxy");
    crd["metadata"] =
        json!({"name": CRD, "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}});
    crd["spec"]["scope"] = "Cluster".into();
    crd["spec"]["names"]["plural"] = "proxies".into();
    let proxy = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"},
        "status": {"httpsProxy": "https://proxy.example.com", "noProxy": "svc"},
    });
    let crds: Api<CustomResourceDefinition> = Api::all(place.client.clone());
    crds.create(&PostParams::default(), &serde_json::from_value(crd)?).await?;
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "Proxy");
    let kind = kube::api::ApiResource::from_gvk_with_plural(&kind, "proxies");
    let proxies: Api<DynamicObject> = Api::all_with(place.client.clone(), &kind);
    let object: DynamicObject = serde_json::from_value(proxy)?;
    let created = async || Ok(proxies.create(&PostParams::default(), &object).await);
    eventually("the Proxy to be created", created, std::result::Result::is_ok).await?;
    place.operator("b.v1", json!({})).await?;
    place.shows("b.v1", "Succeeded/InstallSucceeded").await?;
    let found = env("b-v1").await?;
    let wanted = [
        json!({"name": "HTTPS_PROXY", "value": "https://proxy.example.com"}),
        json!({"name": "NO_PROXY", "value": "svc"}),
    ];
    ensure!(found[..2] == wanted, "{found:?}");
    crds.delete(CRD, &DeleteParams::default()).await?;
    Ok(())
}
