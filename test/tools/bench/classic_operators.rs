//! Operators of OLM Classic in many namespaces: installed at once, then idle, then after a restart.

use super::{figure, usage, volume::number};
use crate::{
    classic::{self, Classic, USER, many},
    instance::Settings,
    operator::GROUPS,
    prelude::*,
    proxy::Proxy,
};

/// Namespaces and operators: few by default, those of the budget with `BENCH_FULL=1`.
const FEW: (usize, usize) = (40, 100);
const FULL: (usize, usize) = (400, 1_000);
/// How long all may take to run.
const DEADLINE: Duration = Duration::from_mins(40);
/// Without a request for so long the program is done.
const STILL: Duration = Duration::from_secs(5);
/// How long nothing is done, to see what it costs.
const IDLE_TIME: Duration = Duration::from_mins(1);

/// Takes the figures of a process that does nothing else.
pub(super) async fn measure() -> Result<()> {
    let full = std::env::var_os("BENCH_FULL").is_some_and(|value| !value.is_empty());
    let (namespaces, operators) = if full { FULL } else { FEW };
    println!("note: {operators} operators of OLM Classic in {namespaces} namespaces");
    if !full {
        println!("note: BENCH_FULL=1 for {} in {}", FULL.1, FULL.0);
    }
    let cluster = Cluster::start(Options { nodes: 1, ..Options::default() }).await?;
    classic::install(&cluster)?;
    let proxy = Proxy::start(&cluster.kubeconfig_for(USER, &GROUPS)?).await?;
    let settings = Settings::default().arg(format!("--kubeconfig={}", proxy.kubeconfig().display()));
    let program = Classic::start(&cluster, &settings).await?;
    let client = cluster.client().await?;
    let pid = program.process().pid();

    let begun = Instant::now();
    many::create(&client, namespaces, operators).await?;
    many::run(&client, operators, DEADLINE).await?;
    let name = format!("classic-operators-{operators}");
    figure(&format!("{name}-installed"), begun.elapsed().as_secs_f64(), "s");
    proxy.quiet(STILL, DEADLINE).await?;
    let (requests, writes) = (proxy.requests().len(), proxy.writes().len());
    figure(&format!("{name}-requests-each"), number(requests) / number(operators), "requests");
    figure(&format!("{name}-writes-each"), number(writes) / number(operators), "requests");
    figure(&format!("{name}-memory"), usage::memory(pid)?.resident, "MB");
    figure(&format!("{name}-memory-peak"), usage::memory(pid)?.peak, "MB");
    idle(&proxy, pid, &name).await?;

    program.process().kill()?;
    proxy.reset();
    program.process().restart()?;
    program.ready().await?;
    proxy.quiet(STILL, DEADLINE).await?;
    let pid = program.process().pid();
    figure(&format!("{name}-restart-requests"), number(proxy.requests().len()), "requests");
    figure(&format!("{name}-restart-writes"), number(proxy.writes().len()), "requests");
    figure(&format!("{name}-restart-memory"), usage::memory(pid)?.resident, "MB");
    figure(&format!("{name}-restart-memory-peak"), usage::memory(pid)?.peak, "MB");
    Ok(())
}

async fn idle(proxy: &Proxy, pid: u32, name: &str) -> Result<()> {
    proxy.reset();
    let cpu = usage::cpu_seconds(pid)?;
    tokio::time::sleep(IDLE_TIME).await;
    let minutes = IDLE_TIME.as_secs_f64() / 60.0;
    let busy = (usage::cpu_seconds(pid)? - cpu) / IDLE_TIME.as_secs_f64() * 100.0;
    figure(&format!("{name}-idle-cpu"), busy, "% of a core");
    figure(&format!("{name}-idle-requests"), number(proxy.requests().len()) / minutes, "requests/min");
    figure(&format!("{name}-idle-writes"), number(proxy.writes().len()) / minutes, "requests/min");
    Ok(())
}
