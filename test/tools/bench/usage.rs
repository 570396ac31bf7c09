//! Memory and CPU of a process, from the kernel's account of it.

use crate::prelude::*;

/// The unit of CPU times in `/proc`; the kernel's user interface has had 100 on every architecture for long.
const TICKS_PER_SECOND: f64 = 100.0;
/// A process that used less than a tick in this time is idle.
const IDLE_WINDOW: Duration = Duration::from_millis(500);
/// Threads and connections that a process has nothing for any more end in this time, and give their memory back.
const ENDS_WITHIN: Duration = Duration::from_secs(12);
/// How long a process may take to become idle.
const IDLE_DEADLINE: Duration = Duration::from_secs(20);

/// Memory of a process, in megabytes (10^6 bytes).
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// `VmHWM`: the most it ever had resident.
    pub peak: f64,
    /// `VmRSS`: what it has resident.
    pub resident: f64,
}

/// Reads the memory of a process.
pub fn memory(pid: u32) -> Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let megabytes = |name| anyhow::Ok(number(&status, name)? * 1024.0 / 1e6);
    Ok(Memory { peak: megabytes("VmHWM:")?, resident: megabytes("VmRSS:")? })
}

/// What a process has written to disks so far, or will have when their cache is written, in megabytes.
pub fn written(pid: u32) -> Result<f64> {
    Ok(number(&fs::read_to_string(format!("/proc/{pid}/io"))?, "write_bytes:")? / 1e6)
}

/// The number after `name` in the kernel's account of a process.
fn number(account: &str, name: &str) -> Result<f64> {
    let line = account.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.split_whitespace().next());
    Ok(value.with_context(|| format!("no {name} in /proc"))?.parse()?)
}

/// What a process has resident when it has been idle for a while, in megabytes.
pub async fn at_rest(pid: u32) -> Result<f64> {
    idle(pid).await?;
    tokio::time::sleep(ENDS_WITHIN).await;
    Ok(memory(pid)?.resident)
}

/// Forgets the peak of a process's memory so far.
pub fn reset_peak(pid: u32) -> Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").context("resetting the peak of memory")
}

/// CPU seconds a process used so far, in user and system.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(')').context("no name in /proc stat")?;
    let ticks = |index: usize| -> Result<f64> {
        Ok(fields.split_whitespace().nth(index).context("a short /proc stat")?.parse()?)
    };
    Ok((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

/// Waits until a process does nothing any more.
pub async fn idle(pid: u32) -> Result<()> {
    let start = Instant::now();
    let mut before = cpu_seconds(pid)?;
    while start.elapsed() < IDLE_DEADLINE {
        tokio::time::sleep(IDLE_WINDOW).await;
        let now = cpu_seconds(pid)?;
        if now - before < 1.5 / TICKS_PER_SECOND {
            return Ok(());
        }
        before = now;
    }
    println!("note: the program did not become idle within {} s", IDLE_DEADLINE.as_secs());
    Ok(())
}
