//! Faults at seeded moments.

use fastrand::Rng;
use http::StatusCode;
use serde_json::{Value, json};

use super::requests::Asked;

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is answered with this status and does not reach the API server.
    Status(u16),
    /// The connection breaks before it reaches the API server.
    Drop,
    /// The connection breaks before the answer comes back.
    Lose,
}

impl Fault {
    /// Whether an API server could do this to such a request.
    fn fits(self, asked: &Asked, has_token: bool) -> bool {
        match self {
            Self::Status(409) => asked.is_write() && asked.verb != "create" && asked.verb != "apply",
            Self::Status(410) => ["watch", "list"].contains(&asked.verb.as_str()),
            Self::Status(401) => has_token,
            Self::Status(_) | Self::Drop => true,
            Self::Lose => !asked.is_watch(),
        }
    }

    /// The answer's body, for a status.
    pub(super) fn body(code: u16) -> Value {
        let reason = match code {
            401 => "Unauthorized",
            409 => "Conflict",
            410 => "Expired",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            _ => "InternalError",
        };
        let text = StatusCode::from_u16(code).ok().and_then(|c| c.canonical_reason()).unwrap_or("made up");
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("{text} (by the proxy)"), "reason": reason, "code": code,
        })
    }
}

/// Some requests fail, at moments that a seed decides.
#[derive(Clone, Debug)]
pub struct Weather {
    rng: Rng,
    one_in: usize,
    faults: Vec<Fault>,
    most: usize,
    left: usize,
    only: Option<String>,
    done: Vec<String>,
}

impl Weather {
    /// One request in `one_in` suffers one of `faults`, until `most` have.
    pub fn new(seed: u64, one_in: usize, faults: &[Fault], most: usize) -> Self {
        let rng = Rng::with_seed(seed);
        Self { rng, one_in, faults: faults.to_vec(), most, left: most, only: None, done: Vec::new() }
    }

    /// Only requests whose text (verb, resource, object) contains this.
    #[must_use]
    pub fn only(mut self, part: &str) -> Self {
        self.only = Some(part.to_owned());
        self
    }

    /// As many faults as at first may come again.
    pub(super) fn renew(&mut self) {
        self.left = self.most;
    }

    pub(super) fn strikes(&mut self, asked: &Asked, has_token: bool) -> Option<Fault> {
        let spared = self.only.as_ref().is_some_and(|part| !asked.text().contains(part));
        if self.left == 0 || spared || asked.is_lease() {
            return None;
        }
        let fitting: Vec<_> =
            self.faults.iter().filter(|fault| fault.fits(asked, has_token)).copied().collect();
        if fitting.is_empty() || self.rng.usize(..self.one_in.max(1)) != 0 {
            return None;
        }
        let fault = fitting[self.rng.usize(..fitting.len())];
        self.left -= 1;
        self.done.push(format!("{fault:?} at {}", asked.text()));
        Some(fault)
    }

    pub(super) fn done(&self) -> &[String] {
        &self.done
    }
}
