//! What goes wrong between the program and the API server: a function of a seed, of what is asked for, and of how often
//! it was.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use http::Method;

use super::request::ApiRequest;

/// Answers take so long at most. What takes time one after another has an order; what takes none has the order in which
/// tasks happen to be run.
const LATENCY_MILLISECONDS_MAX: u64 = 20;
/// A slow answer and a late event take so long at most.
const SLOW_MILLISECONDS_MAX: u64 = 20_000;

/// Rates: one in so many has the fault, with 0 none has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rates {
    /// Requests that are answered with an error, and change nothing.
    pub(crate) errors: u64,
    /// Requests that are carried out, and whose answer is lost.
    pub(crate) lost_answers: u64,
    /// Answers that take seconds.
    pub(crate) slow_answers: u64,
    /// Batches of events that are lost with their watch: the history they stand in is gone.
    pub(crate) lost_events: u64,
    /// Batches of events that arrive seconds late.
    pub(crate) late_events: u64,
}

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestFault {
    None,
    Error(u16),
    LostAnswer,
}

/// What becomes of a batch of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Now,
    After(Duration),
    Never,
}

pub(super) struct Faults {
    seed: u64,
    pub(super) rates: Rates,
    counts: BTreeMap<String, u64>,
    /// How late events of a resource come, apart from chance.
    pub(super) lags: BTreeMap<String, Duration>,
    pub(super) injected: u64,
}

/// Independent decisions out of one number.
fn one_in(draw: u64, which: u32, rate: u64) -> bool {
    rate > 0 && (draw.rotate_right(11 * which) >> 16).is_multiple_of(rate)
}

impl Faults {
    pub(super) fn new(seed: u64, rates: Rates) -> Self {
        Self { seed, rates, counts: BTreeMap::new(), lags: BTreeMap::new(), injected: 0 }
    }

    /// A number that decides about the next request or batch of this name: the same one in every run with the seed.
    pub(super) fn draw(&mut self, name: String) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, &name).hash(&mut hasher);
        let nth = self.counts.entry(name).or_default();
        *nth += 1;
        nth.hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn of_request(&mut self, request: &ApiRequest, draw: u64) -> RequestFault {
        let fault = if one_in(draw, 0, self.rates.errors) {
            // A conflict is an answer to a change only.
            let codes: &[u16] = if matches!(request.method, Method::GET | Method::POST) {
                &[500, 503, 429, 504]
            } else {
                &[500, 409, 503, 429, 504]
            };
            let which = usize::try_from(draw >> 40).unwrap_or_default() % codes.len();
            RequestFault::Error(codes[which])
        } else if one_in(draw, 1, self.rates.lost_answers) {
            RequestFault::LostAnswer
        } else {
            RequestFault::None
        };
        self.injected += u64::from(fault != RequestFault::None);
        fault
    }

    /// How long the answer to a request takes.
    pub(super) fn latency(&mut self, draw: u64) -> Duration {
        let is_slow = one_in(draw, 2, self.rates.slow_answers);
        self.injected += u64::from(is_slow);
        let most = if is_slow { SLOW_MILLISECONDS_MAX } else { LATENCY_MILLISECONDS_MAX };
        Duration::from_millis(1 + draw % most)
    }

    pub(super) fn of_events(&mut self, resource: &str, draw: u64) -> Delivery {
        if let Some(lag) = self.lags.get(resource) {
            return Delivery::After(*lag);
        }
        let delivery = if one_in(draw, 3, self.rates.lost_events) {
            Delivery::Never
        } else if one_in(draw, 4, self.rates.late_events) {
            Delivery::After(Duration::from_millis(1 + draw % SLOW_MILLISECONDS_MAX))
        } else {
            Delivery::Now
        };
        self.injected += u64::from(delivery != Delivery::Now);
        delivery
    }
}
