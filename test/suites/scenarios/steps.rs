//! The vocabulary. Steps wait for what they state, with a deadline, and say what they saw instead.

#![allow(
    clippy::needless_pass_by_value,
    clippy::unused_async,
    reason = "cucumber hands arguments over by value; steps that need not wait look like those that do"
)]

use std::fmt;

/// As `ensure` of `anyhow`, also where an [`Outcome`] is returned.
macro_rules! must {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            fail!($($text)+);
        }
    };
}

/// As `bail` of `anyhow`, also where an [`Outcome`] is returned.
macro_rules! fail {
    ($($text:tt)+) => {
        return Err(anyhow::anyhow!($($text)+).into())
    };
}

mod catalogs;
mod extensions;
mod objects;
mod policies;
mod process;
mod revisions;
mod webhooks;

/// What a step returns: cucumber shows an error's first text alone, and the causes are what one needs.
type Outcome = Result<(), Told>;

/// An error that shows its causes.
#[derive(Debug)]
struct Told(anyhow::Error);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl<E: Into<anyhow::Error>> From<E> for Told {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}
