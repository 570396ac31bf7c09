//! The process's own metrics, under the names that Prometheus' client libraries agree on.

use std::{fs, sync::OnceLock, time::SystemTime};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use rustix::process::Resource;

/// Reads what the system knows of this process when metrics are read.
#[derive(Debug, Default)]
pub(super) struct ProcessCollector {
    started: OnceLock<f64>,
}

impl ProcessCollector {
    /// Takes now as the start of the process.
    pub(super) fn started_now() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { started: OnceLock::from(now.as_secs_f64()) }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut gauge = |name: &str, help: &str, value: Option<f64>| {
            let Some(value) = value else { return Ok(()) };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        let memory = memory();
        gauge("process_resident_memory_bytes", "Resident memory size in bytes", memory.map(|m| m.1))?;
        gauge("process_virtual_memory_bytes", "Virtual memory size in bytes", memory.map(|m| m.0))?;
        gauge(
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes",
            Some(limit(Resource::As)),
        )?;
        gauge("process_max_fds", "Maximum number of open file descriptors", Some(limit(Resource::Nofile)))?;
        gauge("process_open_fds", "Number of open file descriptors", open_files())?;
        gauge(
            "process_start_time_seconds",
            "Start time of the process since the Unix epoch in seconds",
            self.started.get().copied(),
        )?;
        let mut counter = |name: &str, help: &str, value: Option<f64>| {
            let Some(value) = value else { return Ok(()) };
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
        };
        // The library appends `_total` itself.
        counter("process_cpu_seconds", "Total user and system CPU time spent in seconds", cpu_seconds())?;
        let network = fs::read_to_string("/proc/self/net/netstat").ok().and_then(|text| octets(&text));
        counter(
            "process_network_receive_bytes",
            "Number of bytes received by the process over the network",
            network.map(|(received, _)| received),
        )?;
        counter(
            "process_network_transmit_bytes",
            "Number of bytes sent by the process over the network",
            network.map(|(_, sent)| sent),
        )
    }
}

/// A limit of the process. Without one it is the largest number, as Prometheus' client for Go says it.
fn limit(resource: Resource) -> f64 {
    let limit = rustix::process::getrlimit(resource).current.unwrap_or(u64::MAX);
    of_count(limit)
}

/// Bytes received and sent in the process's network namespace: a line of names, and below it one of numbers.
fn octets(netstat: &str) -> Option<(f64, f64)> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let of = |wanted: &str| {
        let mut pairs = names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace());
        pairs.find(|(name, _)| *name == wanted).and_then(|(_, number)| number.parse::<f64>().ok())
    };
    Some((of("InOctets")?, of("OutOctets")?))
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floating point numbers")]
fn of_count(count: u64) -> f64 {
    count as f64
}

/// Virtual and resident size in bytes.
fn memory() -> Option<(f64, f64)> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split(' ').map_while(|number| number.parse::<f64>().ok());
    let page = f64::from(u32::try_from(rustix::param::page_size()).ok()?);
    Some((pages.next()? * page, pages.next()? * page))
}

fn open_files() -> Option<f64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(f64::from(u32::try_from(count).ok()?))
}

/// User and system time. The name in the line may hold anything, so counting starts behind it.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_ascii_whitespace().skip(11).map_while(|n| n.parse::<f64>().ok());
    let ticks = fields.next()? + fields.next()?;
    let per_second = f64::from(u32::try_from(rustix::param::clock_ticks_per_second()).ok()?);
    Some(ticks / per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_asked_in_units_that_fit() {
        let (virtual_bytes, resident) = memory().unwrap();
        assert!(resident > 100_000.0 && virtual_bytes > resident);
        assert!(open_files().unwrap() >= 3.0);
        assert!(cpu_seconds().unwrap() >= 0.0);
        assert!(limit(Resource::Nofile) >= open_files().unwrap());
        assert!(limit(Resource::As) >= virtual_bytes);
        assert!(fs::read_to_string("/proc/self/net/netstat").is_ok_and(|text| octets(&text).is_some()));
        let text = "TcpExt: A InOctets\nTcpExt: 1 2\nIpExt: InPkts InOctets OutOctets\nIpExt: 3 40 50\n";
        assert_eq!(octets(text), Some((40.0, 50.0)));
        assert_eq!(octets("IpExt: InOctets\nIpExt: 1\n"), None);
    }
}
