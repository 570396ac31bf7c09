//! The flags of klog, which every program of upstream has. Logs here go to stderr, as JSON unless that is a terminal, and
//! `-v` says how much. The other flags are accepted, so that manifests need no change, and reported as without effect.

use clap::Args;

use super::boolean;

/// Flags of klog but `-v`.
#[derive(Debug, Clone, Args)]
pub(super) struct KlogFlags {
    #[arg(long = "add_dir_header", alias = "add-dir-header", hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean)]
    add_dir_header: Option<bool>,
    #[arg(long = "alsologtostderr", hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean)]
    alsologtostderr: Option<bool>,
    #[arg(long = "alsologtostderrthreshold", hide = true)]
    alsologtostderrthreshold: Option<String>,
    #[arg(long = "legacy_stderr_threshold_behavior", alias = "legacy-stderr-threshold-behavior", hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean)]
    legacy_stderr_threshold_behavior: Option<bool>,
    #[arg(long = "log_backtrace_at", alias = "log-backtrace-at", hide = true)]
    log_backtrace_at: Option<String>,
    #[arg(long = "log_dir", alias = "log-dir", hide = true)]
    log_dir: Option<String>,
    #[arg(long = "log_file", alias = "log-file", hide = true)]
    log_file: Option<String>,
    #[arg(long = "log_file_max_size", alias = "log-file-max-size", hide = true)]
    log_file_max_size: Option<u64>,
    #[arg(long = "logtostderr", hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean)]
    logtostderr: Option<bool>,
    #[arg(long = "one_output", alias = "one-output", hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean)]
    one_output: Option<bool>,
    #[arg(long = "skip_headers", alias = "skip-headers", hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean)]
    skip_headers: Option<bool>,
    #[arg(long = "skip_log_headers", alias = "skip-log-headers", hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean)]
    skip_log_headers: Option<bool>,
    #[arg(long = "stderrthreshold", hide = true)]
    stderrthreshold: Option<String>,
    #[arg(long = "vmodule", hide = true)]
    vmodule: Option<String>,
}

impl KlogFlags {
    /// Sentences about those that would have sent the log elsewhere or cut it.
    pub(super) fn without_effect(&self) -> Vec<String> {
        let given = [
            ("alsologtostderrthreshold", self.alsologtostderrthreshold.is_some()),
            ("log_dir", self.log_dir.is_some()),
            ("log_file", self.log_file.is_some()),
            ("log_file_max_size", self.log_file_max_size.is_some()),
            ("log_backtrace_at", self.log_backtrace_at.is_some()),
            ("logtostderr", self.logtostderr == Some(false)),
            ("stderrthreshold", self.stderrthreshold.is_some()),
            ("vmodule", self.vmodule.is_some()),
        ];
        given
            .into_iter()
            .filter(|(_, given)| *given)
            .map(|(name, _)| format!("--{name} has no effect: the log goes to stderr, and -v says how much"))
            .collect()
    }
}
