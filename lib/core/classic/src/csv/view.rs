//! What is known of the cluster around an operator.

use jiff::Timestamp;

use super::{Phase, deployments::Check, requirements::Requirements};
use crate::group::{membership::Membership, provided::Apis};

/// Facts, each none until it was looked up.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Whether permissions have changed since the installation failed for good.
    pub revived: Option<bool>,
    /// The OperatorGroup.
    pub membership: Option<Membership>,
    /// The APIs that intersecting OperatorGroups provide.
    pub intersecting: Option<Apis>,
    /// The version that this one replaces, if it exists.
    pub replaced: Option<Option<Replaced>>,
    /// The version that replaces this one, if it exists.
    pub successor: Option<Option<Successor>>,
    /// What the operator needs; an error is one of the strategy.
    pub requirements: Option<Result<Requirements, String>>,
    /// Whether another operator of the namespace, which it does not replace, owns one of its CustomResourceDefinitions.
    pub crd_conflict: Option<bool>,
    /// The APIServices that it owns.
    pub api_services: Option<ApiServices>,
    /// Whether a certificate has to be made.
    pub certificates_due: Option<bool>,
    /// Its Deployments.
    pub deployments: Option<Check>,
    /// Its webhooks.
    pub webhooks: Option<Webhooks>,
    /// What became of its installation.
    pub installed: Option<Result<Installed, InstallFault>>,
}

/// The names of the facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// [`View::revived`].
    Revived,
    /// [`View::membership`].
    Membership,
    /// [`View::intersecting`].
    Intersecting,
    /// [`View::replaced`].
    Replaced,
    /// [`View::successor`].
    Successor,
    /// [`View::requirements`].
    Requirements,
    /// [`View::crd_conflict`].
    CrdConflict,
    /// [`View::api_services`].
    ApiServices,
    /// [`View::certificates_due`].
    CertificatesDue,
    /// [`View::deployments`].
    Deployments,
    /// [`View::webhooks`].
    Webhooks,
    /// [`View::installed`]: the operator is to be installed now, and what became of that is the fact.
    Installed,
}

/// The version that another one replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: Phase,
    /// Whether it may be replaced; why not.
    pub upgradeable: Result<(), String>,
}

/// The version that replaces another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Successor {
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: Phase,
    /// The phase of the last version of the chain.
    pub newest: Phase,
}

/// The APIServices that an operator owns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiServices {
    /// Errors of those that belong to others.
    pub unadoptable: Vec<String>,
    /// Errors of those that are missing or wrong, and of what they need.
    pub faults: Vec<String>,
    /// Whether they answer.
    pub availability: Availability,
}

/// Whether APIServices answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Availability {
    /// They do, or there are none.
    #[default]
    Available,
    /// They do not, and a Pod is on its way.
    Disrupted,
    /// They do not.
    Unavailable,
    /// They cannot be asked; the text says why.
    Failed(String),
}

/// The webhooks of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Webhooks {
    /// They are installed, or there are none.
    Installed,
    /// One is missing.
    Missing,
    /// One cannot be installed; the text says why.
    Failed(String),
}

/// An installation that worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Installed {
    /// The certificates that were made, if any are needed.
    pub certificates: Option<Certificates>,
}

/// When certificates were made, and when the next ones are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Certificates {
    /// When they were made.
    pub updated: Timestamp,
    /// When the next ones are.
    pub rotate_at: Timestamp,
}

/// An installation that did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallFault {
    /// Why.
    pub message: String,
    /// Whether it is of no use to try again before permissions change.
    pub is_unrecoverable: bool,
}

impl View {
    pub(super) fn get<T>(fact: Option<&T>, name: Fact) -> Result<&T, Fact> {
        fact.ok_or(name)
    }
}
