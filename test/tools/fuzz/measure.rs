//! What feeding an input costs: memory at the peak, and time.

use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;

/// Most bytes that a reader may allocate for any input, and for each byte of it.
pub const PEAK_OF_ANY_INPUT: usize = 64 << 20;
/// See [`PEAK_OF_ANY_INPUT`].
pub const PEAK_PER_BYTE: usize = 8;
/// Longest time that a reader may take for any input, and for each byte of it, in a release build.
pub const TIME_OF_ANY_INPUT: Duration = Duration::from_secs(1);
/// See [`TIME_OF_ANY_INPUT`].
pub const TIME_PER_BYTE: Duration = Duration::from_micros(1);

/// What feeding one input cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// Length of the input in bytes.
    pub bytes: usize,
    /// Bytes allocated at the peak, beyond what was allocated before. Zero in programs whose allocator is not
    /// [`PeakAlloc`].
    pub peak: usize,
    /// How long it took.
    pub time: Duration,
}

impl Cost {
    /// The bytes that the peak may have.
    pub fn peak_allowed(&self) -> usize {
        PEAK_OF_ANY_INPUT.saturating_add(self.bytes.saturating_mul(PEAK_PER_BYTE))
    }

    /// How long it may take in a release build.
    pub fn time_allowed(&self) -> Duration {
        TIME_OF_ANY_INPUT + TIME_PER_BYTE.saturating_mul(u32::try_from(self.bytes).unwrap_or(u32::MAX))
    }
}

/// Runs something; other threads of the program must not allocate meanwhile.
pub(super) fn measured<T>(bytes: usize, run: impl FnOnce() -> T) -> (T, Cost) {
    PeakAlloc.reset_peak_usage();
    let (before, start) = (PeakAlloc.current_usage(), Instant::now());
    let result = run();
    let time = start.elapsed();
    (result, Cost { bytes, peak: PeakAlloc.peak_usage().saturating_sub(before), time })
}
