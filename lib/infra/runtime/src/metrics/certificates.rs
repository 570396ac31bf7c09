//! Counts how often the serving certificate's files were read, as controller-runtime's watcher does.

use prometheus_client::{metrics::counter::Counter, registry::Registry};

/// The counters `certwatcher_read_certificate_total` and `certwatcher_read_certificate_errors_total`. They stay at zero
/// where the program makes its certificate itself.
#[derive(Debug, Clone, Default)]
pub struct CertificateReads {
    reads: Counter,
    errors: Counter,
}

impl CertificateReads {
    pub(super) fn register(&self, registry: &mut Registry) {
        // The library appends `_total` itself.
        registry.register(
            "certwatcher_read_certificate",
            "Number of times the files of the serving certificate were read",
            self.reads.clone(),
        );
        registry.register(
            "certwatcher_read_certificate_errors",
            "Number of times the files of the serving certificate could not be read or used",
            self.errors.clone(),
        );
    }

    /// The files were read, and could be used or not.
    pub(crate) fn read(&self, usable: bool) {
        self.reads.inc();
        if !usable {
            self.errors.inc();
        }
    }

    #[cfg(test)]
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.reads.get(), self.errors.get())
    }
}
