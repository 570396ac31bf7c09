//! Logs: one line an outcome, on stderr; JSON when nobody reads along. And traces, where the build has them.

mod traces;

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

pub use traces::Traces;

/// Verbosity of the process's own crates when neither a flag nor `RUST_LOG` says otherwise.
const DEFAULT_FILTER: &str = "info,kube=warn,hyper=warn,rustls=warn";

/// Starts logging, and traces if the environment names a collector. `verbosity` counts like klog's `-v`: 0 is info,
/// from 4 debug, from 8 everything; `program` is what traces call the process. The traces are to be ended when the
/// process ends, or the last ones get lost.
///
/// Calling it twice keeps the first setting.
#[must_use]
pub fn init(verbosity: u8, program: &'static str) -> Traces {
    let default = match verbosity {
        0..=3 => DEFAULT_FILTER,
        4..=7 => "debug,kube=info,hyper=info,rustls=info,tower=info",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let (layer, traces) = traces::of_environment(program);
    let subscriber = tracing_subscriber::registry().with(filter).with(layer);
    let lines = fmt::layer().with_writer(std::io::stderr);
    // A second call, as in tests that run several components in one process, changes nothing.
    let _ = if std::io::stderr().is_terminal() {
        subscriber.with(lines.with_target(false)).try_init()
    } else {
        let lines = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
        subscriber.with(lines).try_init()
    };
    traces.told()
}
