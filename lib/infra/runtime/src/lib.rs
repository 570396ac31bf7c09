//! The parts of a controller process: flags, clients and accounts, discovery, watches, controllers with backoff, leader
//! election, servers, metrics and logs. Nothing here knows what is being installed.

mod backoff;
mod chance;
mod client;
mod clock;
mod connection;
mod controller;
mod discovery;
mod fence;
mod flags;
mod gates;
mod interests;
mod jobs;
mod lease;
mod memory;
mod metrics;
mod objects;
mod own_writes;
mod process;
mod proxy;
mod pull_secrets;
mod queue;
mod source;
mod telemetry;
mod watch;

mod http;
mod shutdown;
mod tls;

pub use backoff::{Backoff, Limits as BackoffLimits};
pub use chance::Chance;
pub use client::{
    AccountRef, Accounts, ClientError, REQUEST_TIMEOUT, api_text, bounded, cluster_config, connect,
    connect_counted, is_namespace_missing, is_namespace_terminating, patch_as, post_as, unless_gone,
};
pub use clock::{Clock, SystemClock};
pub use controller::{Next, PANIC_REPORT, Settings as ControllerSettings, run as run_controller};
pub use discovery::{Discovery, DiscoveryError, Kind};
pub use fence::{Fence, Lapsed};
pub use flags::{FlagError, ProcessFlags, ProcessSettings};
pub use gates::{FeatureGates, GateSyntax, log_gates};
pub use interests::{Interest, Interests, Wanted};
pub use jobs::{Job, JobContext, JobEnded, Jobs, Panicked};
pub use lease::{DEFAULT_TERMS, Elector, LeaseLost, Terms};
pub use memory::{MemoryBudget, MemoryShare, without_huge_pages};
pub use metrics::{CertificateReads, ControllerMetrics, Metrics, RequestCount};
pub use objects::ObjectStates;
pub use own_writes::OwnWrites;
pub use process::{Process, ProcessError, run_main};
pub use pull_secrets::{PullSecretError, PullSecrets};
pub use source::{Newest, Source};
pub use telemetry::{Traces, init as init_logs};
pub use watch::{Changed, OwnerChanged, Seen, WatchManager, Watched};

pub use http::{HttpError, ServerLimits, health_router, listen, metrics_router, serve};
pub use shutdown::{ends_in_time, on_signal, run_program};
pub use tls::{
    CertWatcher, Certificate, SelfSigned, ServingCert, ServingSecret, ServingSecretError, TlsError,
    TlsProfile, TlsProfileError, self_signed, server_config,
};
