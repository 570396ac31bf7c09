//! How far a pull is, for those who wait for it.

use std::{fmt, sync::Arc};

/// How far a pull is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Compressed bytes of layers that have arrived.
    pub bytes: u64,
    /// Compressed bytes of all layers.
    pub bytes_total: u64,
    /// Layers that have arrived.
    pub layers: usize,
    /// All layers.
    pub layers_total: usize,
}

impl fmt::Display for Progress {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let (bytes, bytes_total) = (megabytes(self.bytes), megabytes(self.bytes_total));
        write!(f, "{bytes:.1} of {bytes_total:.1} MB, {} of {} layers", self.layers, self.layers_total)
    }
}

/// Takes the progress of a pull: when it starts, about every MiB, and after every layer.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::Progress;

    #[test]
    fn it_is_a_text_for_people() {
        let progress = Progress { bytes: 3_210_000, bytes_total: 12_000_000, layers: 1, layers_total: 4 };
        assert_eq!(progress.to_string(), "3.2 of 12.0 MB, 1 of 4 layers");
    }
}
