//! The order of a channel's entries: from the head along `replaces`, without the skipped ones.

use std::collections::BTreeSet;

use olm_go::Quoted;
use thiserror::Error;

use super::{Channel, Entry};

/// Why the entries of a channel have no order. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OrderError {
    /// Every entry is replaced or skipped by another one.
    #[error(
        "no channel heads (entries not replaced by another entry) found in channel {} of package {}",
        Quoted(channel),
        Quoted(package)
    )]
    NoHead {
        /// The channel.
        channel: String,
        /// Its package.
        package: String,
    },
    /// The entries below a head replace each other in a circle.
    #[error(
        "a cycle exists in the chain of replacement beginning with {} in channel {} of package {}",
        Quoted(head),
        Quoted(channel),
        Quoted(package)
    )]
    Cycle {
        /// The head.
        head: String,
        /// The channel.
        channel: String,
        /// Its package.
        package: String,
    },
    /// There is more than one head.
    #[error(
        "a unique replacement chain within a channel is required to determine the relative order between channel \
         entries, but {} replacement chains were found in channel {} of package {}: {}",
        chains.len(), Quoted(channel), Quoted(package), chains.join(", ")
    )]
    SeveralChains {
        /// First and last entry of each chain.
        chains: Vec<String>,
        /// The channel.
        channel: String,
        /// Its package.
        package: String,
    },
}

impl Channel {
    /// The entries that can be chosen, from the head along `replaces`; entries that another one skips are left out.
    /// `package` and `channel` are the names for the error.
    ///
    /// # Errors
    /// See [`OrderError`].
    pub fn order(&self, package: &str, channel: &str) -> Result<Vec<&Entry>, OrderError> {
        let (package, channel) = (package.to_owned(), channel.to_owned());
        let skipped: BTreeSet<&str> =
            self.entries.values().flat_map(|entry| &entry.skips).map(String::as_str).collect();
        let replaced: BTreeSet<&str> = self.entries.values().map(|entry| entry.replaces.as_str()).collect();
        let is_head = |name: &str| !skipped.contains(name) && !replaced.contains(name);
        let mut chains = Vec::new();
        for head in self.entries.values().filter(|entry| is_head(&entry.name)) {
            let Some(mut chain) = self.chain(head) else {
                return Err(OrderError::Cycle { head: head.name.clone(), channel, package });
            };
            chain.retain(|entry| !skipped.contains(entry.name.as_str()));
            chains.push(chain);
        }
        match (chains.pop(), chains.is_empty()) {
            (Some(chain), true) => Ok(chain),
            (Some(last), false) => {
                chains.push(last);
                let chains = chains.iter().map(|chain| ends(chain)).collect();
                Err(OrderError::SeveralChains { chains, channel, package })
            }
            (None, _) if self.entries.is_empty() => Ok(Vec::new()),
            (None, _) => Err(OrderError::NoHead { channel, package }),
        }
    }

    /// The entries from `head` along `replaces`; `None` when they come round again.
    fn chain<'c>(&'c self, head: &'c Entry) -> Option<Vec<&'c Entry>> {
        let mut visited = BTreeSet::new();
        let mut chain = Vec::new();
        let mut next = Some(head);
        while let Some(entry) = next {
            if !visited.insert(entry.name.as_str()) {
                return None;
            }
            chain.push(entry);
            next = self.entries.get(&entry.replaces);
        }
        Some(chain)
    }
}

fn ends(chain: &[&Entry]) -> String {
    match chain {
        [] => "[]".to_owned(),
        [only] => only.name.clone(),
        [first, .., last] => format!("{}...{}", first.name, last.name),
    }
}
