//! Where the demo runs: on a control plane of its own, or on the cluster of `KUBECONFIG` if its owner agrees.

use std::io::{IsTerminal as _, Write as _};

use kube::config::Kubeconfig;
use olm_test::{cluster::given, prelude::*};
use olm_test_programs::variable;

/// Where the demo runs.
pub(crate) enum Place {
    /// A control plane that is started for it.
    Own,
    /// The cluster of `KUBECONFIG`, with what messages call it.
    Given(String),
}

impl Place {
    /// Chooses, and asks the owner of a given cluster.
    pub(crate) fn choose() -> Result<Self> {
        let Some(list) = variable("KUBECONFIG") else { return Ok(Self::Own) };
        let cluster = describe(&given::read(&list)?)?;
        println!("KUBECONFIG names {cluster}.");
        match variable("DEMO_CLUSTER") {
            Some(answer) if answer == "yes" => {}
            _ if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() => ask()?,
            _ => bail!(
                "nothing is installed on {cluster} without consent: set DEMO_CLUSTER=yes, or unset KUBECONFIG for a \
                 control plane of the demo's own"
            ),
        }
        Ok(Self::Given(cluster))
    }
}

/// The cluster and the context that are used.
fn describe(config: &Kubeconfig) -> Result<String> {
    let current = config.current_context.as_deref().filter(|name| !name.is_empty());
    let current =
        current.context("KUBECONFIG has no current context: choose one with `kubectl config use-context`")?;
    let context = config.contexts.iter().find(|context| context.name == current);
    let context = context.and_then(|context| context.context.as_ref());
    let name = &context.with_context(|| format!("KUBECONFIG has no context {current}"))?.cluster;
    let cluster = config.clusters.iter().find(|cluster| cluster.name == *name);
    let server = cluster.and_then(|cluster| cluster.cluster.as_ref()?.server.as_deref());
    let server = server.with_context(|| format!("KUBECONFIG has no cluster {name} with a server"))?;
    Ok(format!("cluster {name} (context {current}, {server})"))
}

fn ask() -> Result<()> {
    print!("Install OLM v1 and a sample operator there, and remove both at the end? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was installed: unset KUBECONFIG for a control plane of the demo's own"),
    }
}
