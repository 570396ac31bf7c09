//! The phases of an operator.

use std::fmt;

/// Where the installation of an operator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing has been looked at.
    None,
    /// What it needs is not there yet.
    Pending,
    /// It can be installed.
    InstallReady,
    /// It is installed, and not healthy yet.
    Installing,
    /// It runs.
    Succeeded,
    /// It does not.
    Failed,
    /// A word that there is not.
    Unknown,
    /// A newer version takes its place.
    Replacing,
    /// It is about to be deleted.
    Deleting,
}

impl Phase {
    const ALL: [Self; 9] = [
        Self::None,
        Self::Pending,
        Self::InstallReady,
        Self::Installing,
        Self::Succeeded,
        Self::Failed,
        Self::Unknown,
        Self::Replacing,
        Self::Deleting,
    ];

    /// The word in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Pending => "Pending",
            Self::InstallReady => "InstallReady",
            Self::Installing => "Installing",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
            Self::Replacing => "Replacing",
            Self::Deleting => "Deleting",
        }
    }

    /// The phase of a word.
    pub fn of(word: Option<&str>) -> Self {
        let word = word.unwrap_or_default();
        Self::ALL.into_iter().find(|phase| phase.as_str() == word).unwrap_or(Self::Unknown)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
