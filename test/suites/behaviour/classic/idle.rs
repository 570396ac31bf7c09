//! Operators at rest: nothing is asked and nothing is written for them.

use olm_test::{
    classic::{Classic, USER, install, many},
    instance::Settings,
    operator::GROUPS,
    prelude::*,
    proxy::Proxy,
};

const NAMESPACES: usize = 24;
const OPERATORS: usize = 60;
/// Without a request for so long the program is done.
const STILL: Duration = Duration::from_secs(3);
/// Longer than the waits of the program that follow an event.
const IDLE: Duration = Duration::from_secs(16);

#[tokio::test(flavor = "multi_thread")]
async fn operators_at_rest_cost_no_request_and_a_start_writes_nothing() -> Result<()> {
    let cluster = Cluster::start(Options { nodes: 1, ..Options::default() }).await?;
    install(&cluster)?;
    let proxy = Proxy::start(&cluster.kubeconfig_for(USER, &GROUPS)?).await?;
    let kubeconfig = format!("--kubeconfig={}", proxy.kubeconfig().display());
    let settings = Settings::default().arg("--role=olm").arg(kubeconfig);
    let classic = Classic::start(&cluster, &settings).await?;
    let client = cluster.client().await?;
    many::create(&client, NAMESPACES, OPERATORS).await?;
    many::run(&client, OPERATORS, DEADLINE).await?;
    proxy.quiet(STILL, DEADLINE).await?;

    proxy.reset();
    // That nothing comes can only be waited for.
    tokio::time::sleep(IDLE).await;
    let requests = proxy.requests();
    ensure!(requests.is_empty(), "{} requests at rest: {:?}", requests.len(), requests.first());

    classic.process().kill()?;
    proxy.reset();
    classic.process().restart()?;
    classic.ready().await?;
    wait::until("a look at each operator", DEADLINE, async || {
        let looked = "get operatorconditions.operators.coreos.com ";
        let requests = proxy.requests();
        let names: BTreeSet<_> = requests.iter().filter_map(|asked| asked.strip_prefix(looked)).collect();
        wait::check(names.len() == OPERATORS, || format!("{} of {OPERATORS}", names.len()))
    })
    .await?;
    proxy.quiet(STILL, DEADLINE).await?;
    let writes: Vec<_> = proxy.writes().iter().map(|write| write.name.to_string()).collect();
    ensure!(writes.is_empty(), "a start with nothing to do wrote {writes:?}");
    Ok(())
}
