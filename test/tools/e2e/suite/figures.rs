//! Memory and CPU of the Pods, idle and under load, and whether one of them had to start again.

use olm_test::{
    prelude::*,
    tools::bench::usage::{cpu_seconds, idle, memory, reset_peak},
};

use crate::confinement::process;
use crate::installing::clustercatalog;
use crate::world::{DEADLINE, OPERATOR, World};

/// CPU of an idle program is taken over this time.
const IDLE: Duration = Duration::from_secs(20);
/// A catalog of real operators.
const LARGE: &str = "community";
/// Readers of it at a time, and how often each reads.
const READERS: usize = 4;
const READS: usize = 5;

/// Takes them.
pub(crate) async fn taken(world: &World) -> Result<()> {
    if !world.own_node {
        world.leave_out("figures are taken on a node of this machine's own only");
        return Ok(());
    }
    let mut processes = Vec::new();
    let leader = world.leader()?;
    for pod in world.pods(OPERATOR)? {
        let name = pod["metadata"]["name"].as_str().context("a Pod has a name")?.to_owned();
        let role = if name == leader { "leader" } else { "follower" };
        processes.push((role, process(world, &name)?));
    }
    for (role, number) in &processes {
        idle(*number).await?;
        println!("BENCH e2e_{role}_memory_idle {:.1} MB", memory(*number)?.resident);
        reset_peak(*number)?;
    }
    let before: Vec<f64> = processes.iter().map(|(_, number)| cpu_seconds(*number)).collect::<Result<_>>()?;
    tokio::time::sleep(IDLE).await;
    for ((role, number), before) in processes.iter().zip(before) {
        let share = (cpu_seconds(*number)? - before) / IDLE.as_secs_f64() * 1000.0;
        println!("BENCH e2e_{role}_cpu_idle {share:.1} millicores");
    }
    loaded(world, &processes).await?;
    for pod in world.pods(OPERATOR)? {
        let status = &pod["status"]["containerStatuses"][0];
        let ended = status["lastState"]["terminated"]["reason"].as_str().unwrap_or("nothing");
        ensure!(ended != "OOMKilled", "a Pod ran out of memory: {status}");
    }
    Ok(())
}

/// A large catalog is unpacked, indexed and read.
async fn loaded(world: &World, processes: &[(&str, u32)]) -> Result<()> {
    let Some(folder) = olm_test::data::find("") else {
        world.leave_out("figures under load: the large catalog is not at hand");
        return Ok(());
    };
    let packed = std::fs::File::open(folder.join("community.jsonl.zst"))?;
    let mut content = String::new();
    std::io::Read::read_to_string(&mut zstd::Decoder::new(packed)?, &mut content)?;
    world.images.push_catalog(&content, "community-catalog:e2e").await?;
    let image = format!("{}/community-catalog:e2e", world.pull);
    let before: Vec<f64> = processes.iter().map(|(_, number)| cpu_seconds(*number)).collect::<Result<_>>()?;
    let started = Instant::now();
    world.apply(&clustercatalog(LARGE, &image).to_string())?;
    world.condition(&["clustercatalog", LARGE], "Serving").await?;
    println!("BENCH e2e_large_catalog_to_serving {:.2} s", started.elapsed().as_secs_f64());
    let size = wait::until("the large catalog to be read", DEADLINE, async || {
        Ok(world.catalog_content(LARGE).await?.len())
    })
    .await?;
    let readers = (0..READERS).map(async |_| {
        for _ in 0..READS {
            world.catalog_content(LARGE).await?;
        }
        anyhow::Ok(())
    });
    futures::future::try_join_all(readers).await?;
    println!("   {size} bytes read {} times", READERS * READS + 1);
    let seconds = started.elapsed().as_secs_f64();
    for ((role, number), before) in processes.iter().zip(before) {
        println!("BENCH e2e_{role}_memory_peak_loaded {:.1} MB", memory(*number)?.peak);
        let share = (cpu_seconds(*number)? - before) / seconds * 1000.0;
        println!("BENCH e2e_{role}_cpu_loaded {share:.0} millicores");
    }
    world.kubectl(&["delete", "clustercatalog", LARGE, "--timeout=120s"])?;
    Ok(())
}
