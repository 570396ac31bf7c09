//! Logs: one line an outcome, on stderr; JSON when nobody reads along.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Verbosity of the process's own crates when neither a flag nor `RUST_LOG` says otherwise.
const DEFAULT_FILTER: &str = "info,kube=warn,hyper=warn,rustls=warn";

/// Starts logging. `verbosity` counts like klog's `-v`: 0 is info, from 4 debug, from 8 everything.
///
/// Calling it twice keeps the first setting.
pub fn init(verbosity: u8) {
    let default = match verbosity {
        0..=3 => DEFAULT_FILTER,
        4..=7 => "debug,kube=info,hyper=info,rustls=info,tower=info",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call, as in tests that run several components in one process, changes nothing.
    let _ = if std::io::stderr().is_terminal() {
        builder.with_target(false).try_init()
    } else {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    };
}
