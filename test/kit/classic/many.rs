//! Very many operators of OLM Classic in very many namespaces, for what they cost when nothing happens.

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{Role, RoleBinding},
};
use olm_api_classic::{ClusterServiceVersion, OperatorGroup};

use super::csv::{csv, deployment, strategy};
use crate::prelude::*;

/// Objects that are created at a time; the API server takes them faster than operators are installed.
const AT_A_TIME: usize = 16;
/// One group of so many is for all namespaces.
const GLOBAL_EACH: usize = 20;

/// Creates namespaces with an `OperatorGroup` each, and operators that are spread over them. Each operator has a Deployment
/// without Pods and a permission that its ServiceAccount holds.
pub async fn create(client: &Client, namespaces: usize, operators: usize) -> Result<()> {
    let places = stream::iter(0..namespaces).map(|number| place(client, number)).buffer_unordered(AT_A_TIME);
    places.try_collect::<()>().await.context("creating namespaces")?;
    let created = stream::iter(0..operators).map(|number| {
        let api: Api<ClusterServiceVersion> = Api::namespaced(client.clone(), &name(number % namespaces));
        async move { api.make(operator(number)).await.map(drop) }
    });
    created.buffer_unordered(AT_A_TIME).try_collect::<()>().await.context("creating operators")
}

/// Waits until as many operators run, and no others exist.
pub async fn run(client: &Client, operators: usize, deadline: Duration) -> Result<()> {
    let api: Api<ClusterServiceVersion> = Api::all(client.clone());
    wait::until("all operators to run", deadline, async || {
        let mut phases: BTreeMap<String, usize> = BTreeMap::new();
        for csv in api.all().await? {
            let phase = csv.status.and_then(|status| status.phase).unwrap_or_default();
            *phases.entry(phase).or_default() += 1;
        }
        wait::check(phases == BTreeMap::from([("Succeeded".to_owned(), operators)]), || format!("{phases:?}"))
    })
    .await
}

fn name(number: usize) -> String {
    format!("many-{number}")
}

fn rule() -> Value {
    json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]})
}

/// A namespace with a group, and with the permission of its operators.
async fn place(client: &Client, number: usize) -> Result<()> {
    let name = name(number);
    Api::<Namespace>::all(client.clone()).make(json!({"metadata": {"name": name}})).await?;
    let role = json!({"metadata": {"name": "many"}, "rules": [rule()]});
    Api::<Role>::namespaced(client.clone(), &name).make(role).await?;
    let binding = json!({
        "metadata": {"name": "many"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "many"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": name}],
    });
    Api::<RoleBinding>::namespaced(client.clone(), &name).make(binding).await?;
    let is_global = number.is_multiple_of(GLOBAL_EACH);
    let spec = if is_global { json!({}) } else { json!({"targetNamespaces": [name]}) };
    let group = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "many"}, "spec": spec,
    });
    Api::<OperatorGroup>::namespaced(client.clone(), &name).make(group).await.map(drop)
}

fn operator(number: usize) -> Value {
    let name = format!("operator-{number}");
    let permissions = json!([{"serviceAccountName": "default", "rules": [rule()]}]);
    let fields = json!({
        // As much text as operators have.
        "description": "An operator that does nothing. ".repeat(60),
        "install": strategy(&[deployment(&name, 0)], &permissions),
    });
    csv(&format!("{name}.v1"), &fields)
}
