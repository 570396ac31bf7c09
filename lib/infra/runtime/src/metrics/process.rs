//! The process's own metrics, under the names that Prometheus' client libraries agree on.

use std::{fs, sync::OnceLock, time::SystemTime};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

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
        gauge("process_open_fds", "Number of open file descriptors", open_files())?;
        gauge(
            "process_start_time_seconds",
            "Start time of the process since the Unix epoch in seconds",
            self.started.get().copied(),
        )?;
        if let Some(seconds) = cpu_seconds() {
            let counter = ConstCounter::new(seconds);
            let name = "process_cpu_seconds";
            let help = "Total user and system CPU time spent in seconds";
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        Ok(())
    }
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
    }
}
