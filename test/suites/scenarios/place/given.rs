//! A cluster on which the manifests are applied already.
//!
//! The contract, in variables of the environment:
//! - `KUBECONFIG`: an administrator's; `kubectl` is in `PATH`.
//! - `OLM_E2E_REGISTRY_PUSH`, `OLM_E2E_REGISTRY_PULL`: host and port of a registry without TLS, as this process reaches
//!   it, and as image references in the cluster name it (the programs and the kubelets know how to speak to it).
//! - `OLM_E2E_OPERATOR_IMAGE`: an image that runs without arguments until it is told to end, such as that of pause.
//! - `OLM_E2E_IMAGE_PREFIX`, if nodes do not have the sample operator's image as `make image` names it.
//! - `OLM_E2E_MIRROR`, if there is one: a host that the programs' registries configuration redirects to the registry.
//!
//! Programs are reached through `kubectl port-forward`. Arguments and variables of the Deployments are changed by
//! `@serial` scenarios and put back.

use std::sync::Mutex;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use olm_test::{
    prelude::*,
    sample_operator::PROGRAM,
    supervisor::Program,
    tools::e2e::{IMAGE_PREFIX, REGISTRY_PULL, REGISTRY_PUSH},
};

use super::{Component, Facts, Programs, Reach};
use crate::world::DEADLINE;

const OPERATOR: &str = "operator-controller-controller-manager";
const CATALOGD: &str = "catalogd-controller-manager";
/// A roll-out starts Pods, which pull nothing but have to become ready and lead.
const ROLLED_OUT: Duration = Duration::from_mins(5);

pub(crate) struct Given {
    cluster: Arc<Cluster>,
    client: Client,
    host: String,
    pull_host: String,
    namespace: String,
    split: bool,
    /// Deployments as they were before a scenario changed them: the container's arguments and variables.
    changed: Mutex<BTreeMap<&'static str, (Value, Value)>>,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn wanted(name: &str, what: &str) -> Result<String> {
    variable(name).with_context(|| format!("{name} is not set: for a given cluster it has to name {what}"))
}

impl Given {
    pub(crate) async fn find(cluster: Arc<Cluster>, client: Client) -> Result<(Self, Facts, Images)> {
        let push = wanted(REGISTRY_PUSH, "the registry's host and port")?;
        let pull_host = variable(REGISTRY_PULL).unwrap_or_else(|| push.clone());
        let prefix = variable(IMAGE_PREFIX).unwrap_or_else(|| "localhost/olmv1".to_owned());
        let all: Api<Deployment> = Api::all(client.clone());
        let ours = all.list(&ListParams::default().labels("app.kubernetes.io/part-of=olm")).await?.items;
        let find = |name: &str| ours.iter().find(|deployment| deployment.name_any() == name);
        let operator = find(OPERATOR).context("the manifests are not applied: no operator-controller")?;
        let replicas = |deployment: &Deployment| {
            deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default()
        };
        let catalogd = find(CATALOGD).filter(|deployment| replicas(deployment) > 0);
        let namespace = operator.namespace().unwrap_or_default();
        let facts = Facts {
            name: "the given cluster",
            pods: true,
            split: catalogd.is_some(),
            replicas: replicas(catalogd.unwrap_or(operator)) > 1,
            mirror: variable("OLM_E2E_MIRROR"),
            proxy: false,
            operator_image: wanted("OLM_E2E_OPERATOR_IMAGE", "an image for the operators' Pods")?,
            webhook_image: format!("{prefix}/{PROGRAM}:{}", env!("CARGO_PKG_VERSION")),
            gates_off: gates_off(operator),
            system_namespace: namespace.clone(),
        };
        let split = catalogd.is_some();
        let host = push.clone();
        let given = Self { cluster, client, host, pull_host, namespace, split, changed: Mutex::default() };
        Ok((given, facts, Images::at(push)?))
    }

    fn deployment(&self, component: Component) -> &'static str {
        if component == Component::Catalogd && self.split { CATALOGD } else { OPERATOR }
    }

    async fn forward(&self, to: &str, port: u16) -> Result<Reach> {
        let log = StateDirectory::kept("forward")?.join("kubectl.log");
        let args = [
            format!("--kubeconfig={}", self.cluster.kubeconfig_admin().display()),
            format!("--namespace={}", self.namespace),
            "port-forward".to_owned(),
            to.to_owned(),
            format!(":{port}"),
        ];
        let program =
            Program { program: self.cluster.kubectl(), args: args.into(), log, ..Program::default() };
        let process = Process::start("kubectl port-forward", program)?;
        let address = wait::until("the port to be forwarded", DEADLINE, async || {
            process.check_running()?;
            let log = process.log();
            let line = log.lines().find_map(|line| line.strip_prefix("Forwarding from "));
            let address = line.and_then(|line| line.split(' ').next()).context(log.clone())?;
            Ok(address.to_owned())
        })
        .await?;
        Ok(Reach { address, _forward: Some(process) })
    }
}

#[async_trait(?Send)]
impl Programs for Given {
    fn pulled(&self, reference: &str) -> String {
        reference.replacen(&self.host, &self.pull_host, 1)
    }

    async fn metrics(&self, component: Component) -> Result<Reach> {
        let deployment = self.deployment(component);
        let port = if deployment == CATALOGD { 7443 } else { 8443 };
        self.forward(&format!("deployment/{deployment}"), port).await
    }

    async fn catalogs(&self) -> Result<Reach> {
        self.forward("service/catalogd-service", 443).await
    }

    async fn reconfigure(
        &self,
        component: Component,
        args: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<()> {
        let name = self.deployment(component);
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let present = serde_json::to_value(api.get(name).await?)?;
        let container = &present["spec"]["template"]["spec"]["containers"][0];
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let (mut all_args, mut all_env) = (list(&container["args"]), list(&container["env"]));
        self.changed.lock().unwrap().entry(name).or_insert((all_args.clone().into(), all_env.clone().into()));
        all_args.extend(args.iter().map(|arg| Value::from(arg.as_str())));
        all_env.extend(env.iter().map(|(name, value)| json!({"name": name, "value": value})));
        put(&api, name, all_args.into(), all_env.into()).await
    }

    async fn restore(&self) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let changed = std::mem::take(&mut *self.changed.lock().unwrap());
        for (name, (args, env)) in changed {
            put(&api, name, args, env).await?;
        }
        Ok(())
    }

    async fn kill_leader(&self, identity: &str) -> Result<()> {
        let Some((pod, _)) = identity.rsplit_once('_') else { bail!("{identity:?} names no Pod") };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        pods.delete(pod, &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    async fn two_replicas(&self) -> Result<()> {
        // They are there, or the scenario is left out.
        Ok(())
    }

    fn check_running(&self) -> Result<()> {
        Ok(())
    }
}

/// Gives the container of a Deployment these arguments and variables, and waits until its Pods have them.
async fn put(api: &Api<Deployment>, name: &str, args: Value, env: Value) -> Result<()> {
    let operations = json!([
        {"op": "add", "path": "/spec/template/spec/containers/0/args", "value": args},
        {"op": "add", "path": "/spec/template/spec/containers/0/env", "value": env},
    ]);
    let patch = Patch::Json::<()>(serde_json::from_value(operations)?);
    api.patch(name, &PatchParams::default(), &patch).await?;
    wait::until(&format!("{name} to be rolled out"), ROLLED_OUT, async || {
        let deployment = api.get(name).await?;
        let status = deployment.status.clone().unwrap_or_default();
        let seen = status.observed_generation == deployment.metadata.generation;
        let (all, updated, ready) = (status.replicas, status.updated_replicas, status.available_replicas);
        wait::check(seen && all == updated && all == ready && all.is_some(), || format!("{status:?}"))
    })
    .await
}

/// Gates that the Deployment's arguments turn off.
fn gates_off(deployment: &Deployment) -> Vec<String> {
    let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let args = spec.and_then(|spec| spec.containers.first()).and_then(|container| container.args.as_ref());
    let lists = args.into_iter().flatten().filter_map(|arg| arg.strip_prefix("--feature-gates="));
    let off = lists.flat_map(|list| list.split(',')).filter_map(|gate| gate.strip_suffix("=false"));
    off.map(str::to_owned).collect()
}
