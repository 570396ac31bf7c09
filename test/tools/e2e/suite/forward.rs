//! A Pod's port, through `kubectl port-forward`.

use olm_test::{prelude::*, supervisor::Program};

use crate::world::{DEADLINE, SYSTEM, World};

/// What a Pod answers to a GET of `/metrics` with this token.
pub(crate) async fn get(world: &World, pod: &str, port: u16, token: &str) -> Result<String> {
    let directory = StateDirectory::new("forward")?;
    let kubeconfig = format!("--kubeconfig={}", world.cluster.kubeconfig_admin().display());
    let (pod, port) = (format!("pod/{pod}"), format!(":{port}"));
    let args = [kubeconfig.as_str(), "-n", SYSTEM, "port-forward", &pod, &port].map(str::to_owned);
    let log = directory.path().join("kubectl.log");
    let program = Program { program: world.cluster.kubectl(), args: args.into(), log, ..Program::default() };
    let kubectl = Process::start("kubectl port-forward", program)?;
    let address = wait::until("the port to be forwarded", DEADLINE, async || {
        kubectl.check_running()?;
        let log = kubectl.log();
        let line = log.lines().find_map(|line| line.strip_prefix("Forwarding from ").map(str::to_owned));
        line.and_then(|line| Some(line.split(' ').next()?.to_owned())).context(log)
    })
    .await?;
    // Its certificate is for the Service.
    let client = reqwest::Client::builder().danger_accept_invalid_certs(true).no_proxy().build()?;
    let answer = client.get(format!("https://{address}/metrics")).bearer_auth(token).send().await?;
    let (status, text) = (answer.status(), answer.text().await?);
    ensure!(status.is_success(), "{status}: {text}");
    Ok(text)
}
