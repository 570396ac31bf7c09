//! The cluster, the registry beside it, and how both are spoken to.

use std::sync::{Mutex, PoisonError};

use olm_test::{
    prelude::*,
    tools::e2e::{IMAGE_PREFIX, OWN_NODE, REGISTRY_PULL, REGISTRY_PUSH},
};

/// For anything that should happen by itself: Pods start, certificates are made, images are pulled.
pub(crate) const DEADLINE: Duration = Duration::from_mins(3);
/// Where the programs run.
pub(crate) const SYSTEM: &str = "olmv1-system";
/// The Deployment, and the label of its Pods.
pub(crate) const OPERATOR: &str = "operator-controller-controller-manager";
pub(crate) const CATALOGD: &str = "catalogd-controller-manager";

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) images: Images,
    /// Host and port of the registry, as pods reach it.
    pub(crate) pull: String,
    /// Processes of the Pods are this machine's own.
    pub(crate) own_node: bool,
    left_out: Mutex<Vec<String>>,
}

impl World {
    /// None, and reported as skipped, without a cluster that was made for this.
    pub(crate) async fn of_the_environment() -> Result<Option<Self>> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (Some(_), Some(push), Some(pull)) =
            (variable("KUBECONFIG"), variable(REGISTRY_PUSH), variable(REGISTRY_PULL))
        else {
            let needed = "it needs KUBECONFIG";
            olm_test::data::skip(&format!(
                "{needed}, {REGISTRY_PUSH} and {REGISTRY_PULL}, as make e2e sets them"
            ));
            return Ok(None);
        };
        let cluster = Cluster::start(Options::default()).await?;
        let client = cluster.client().await?;
        let own_node = variable(OWN_NODE).is_some();
        let left_out = Mutex::default();
        Ok(Some(Self { cluster, client, images: Images::at(push)?, pull, own_node, left_out }))
    }

    /// Says that a part of a chapter is not told here, and why.
    pub(crate) fn leave_out(&self, reason: &str) {
        olm_test::data::report(&format!("   left out: {reason}"));
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).push(reason.to_owned());
    }

    /// The reasons for all that was left out.
    pub(crate) fn parts_left_out(&self) -> Vec<String> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> Result<String> {
        kubectl(&self.cluster, args)
    }

    pub(crate) fn get(&self, what: &[&str]) -> Result<Value> {
        kubectl::get(&self.cluster, what)
    }

    /// Runs kubectl with this as its standard input.
    pub(crate) fn kubectl_with(&self, args: &[&str], input: &str) -> Result<String> {
        let (output, errors) = kubectl::kubectl_with(&self.cluster, args, input.as_bytes())?;
        Ok(output + &errors)
    }

    pub(crate) fn apply(&self, manifests: &str) -> Result<()> {
        self.kubectl_with(&["apply", "-f", "-"], manifests).map(drop)
    }

    /// What the API server answers to a GET of this path.
    pub(crate) async fn ask(&self, path: &str) -> Result<String> {
        let request = http::Request::get(path).body(Vec::new())?;
        Ok(self.client.request_text(request).await?)
    }

    /// The content of a catalog, by way of the Service in front of the programs.
    pub(crate) async fn catalog_content(&self, catalog: &str) -> Result<String> {
        self.ask(&content_path(catalog)).await
    }

    /// Pods of a Deployment of ours that are not about to end.
    pub(crate) fn pods(&self, deployment: &str) -> Result<Vec<Value>> {
        let label = format!("control-plane={deployment}");
        let list = self.get(&["pods", "-n", SYSTEM, "-l", &label])?;
        let pods = list["items"].as_array().context("items")?;
        Ok(pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).cloned().collect())
    }

    pub(crate) async fn deployed(&self, namespace: &str, deployment: &str, replicas: u64) -> Result<()> {
        kubectl::deployed(&self.cluster, namespace, deployment, replicas).await
    }

    /// Waits until a condition of an object is true at its newest generation; its message otherwise.
    pub(crate) async fn condition(&self, object: &[&str], condition: &str) -> Result<()> {
        wait::until(&format!("{condition} of {}", object.join(" ")), DEADLINE, async || {
            let object = self.get(object)?;
            let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
            let mut named = conditions.clone().filter(|one| one["type"] == condition);
            let holds = named.next().is_some_and(|one| {
                one["status"] == "True" && one["observedGeneration"] == object["metadata"]["generation"]
            });
            wait::check(holds, || format!("{:?}", conditions.collect::<Vec<_>>()))
        })
        .await
    }

    /// The Pod that leads, by the lease.
    pub(crate) fn leader(&self) -> Result<String> {
        let lease = self.get(&["lease", "9c4404e7.operatorframework.io", "-n", SYSTEM])?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let (pod, _) = holder.rsplit_once('_').with_context(|| format!("nobody leads: {lease}"))?;
        Ok(pod.to_owned())
    }

    /// The text of `install.yaml`, or what `kubectl kustomize` makes of an overlay, with the images that are here.
    pub(crate) fn manifests(&self, what: &str) -> Result<String> {
        let path = kubectl::config(what);
        let text = if path.is_dir() {
            self.kubectl(&["kustomize", &path.display().to_string()])?
        } else {
            std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?
        };
        Ok(match std::env::var(IMAGE_PREFIX) {
            Ok(prefix) => text.replace("localhost/olmv1/", &format!("{prefix}/")),
            Err(_) => text,
        })
    }
}

/// Where the API server leads to the content of a catalog.
pub(crate) fn content_path(catalog: &str) -> String {
    format!(
        "/api/v1/namespaces/{SYSTEM}/services/https:catalogd-service:443/proxy/catalogs/{catalog}/api/v1/all"
    )
}
