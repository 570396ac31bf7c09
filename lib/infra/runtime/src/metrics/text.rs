//! The text that scrapers read: Prometheus' format 0.0.4, in which a counter is named with its `_total`.
//!
//! The library writes OpenMetrics, where the name of a counter's family has no suffix; a scraper of the older
//! format would take its samples for metrics without a type.

use std::fmt::Write;

use prometheus_client::registry::Registry;

/// Content type of [`text`].
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics of the registry.
pub(crate) fn text(registry: &Registry) -> String {
    let mut open = String::new();
    // Writing to a String does not fail; a metric that cannot be written ends the text before it.
    if let Err(error) = prometheus_client::encoding::text::encode(&mut open, registry) {
        tracing::warn!(%error, "metrics are incomplete");
    }
    let mut text = String::with_capacity(open.len());
    let mut help = "";
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            family(&mut text, help, rest);
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// The two lines above a family's samples.
fn family(text: &mut String, help: &str, type_line: &str) {
    let (name, kind) = type_line.split_once(' ').unwrap_or((type_line, "unknown"));
    let help = help.strip_prefix(name).unwrap_or_default().trim_start();
    let (suffix, kind) = match kind {
        "counter" => ("_total", "counter"),
        "unknown" => ("", "untyped"),
        "info" => ("_info", "gauge"),
        other => ("", other),
    };
    // Writing to a String does not fail.
    let _ = write!(text, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n");
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};

    use super::*;

    #[test]
    fn counters_are_named_with_their_suffix() {
        let mut registry = Registry::default();
        let (counter, gauge) = (Counter::<u64>::default(), Gauge::<i64>::default());
        let histogram = Histogram::new([1.0]);
        registry.register("things", "Things", counter.clone());
        registry.register("level", "Level", gauge.clone());
        registry.register("seconds", "Seconds", histogram.clone());
        counter.inc();
        gauge.set(-2);
        histogram.observe(0.5);
        assert_eq!(
            text(&registry),
            "# HELP things_total Things.\n# TYPE things_total counter\nthings_total 1\n\
             # HELP level Level.\n# TYPE level gauge\nlevel -2\n\
             # HELP seconds Seconds.\n# TYPE seconds histogram\n\
             seconds_sum 0.5\nseconds_count 1\nseconds_bucket{le=\"1.0\"} 1\nseconds_bucket{le=\"+Inf\"} 1\n"
        );
    }
}
