//! The parts of a controller process: flags, clients and accounts, discovery, watches, controllers with backoff, leader
//! election, servers, metrics and logs. Nothing here knows OLM: its kinds, labels and annotations are handed in.

mod backoff;
mod chance;
mod client;
mod clock;
mod connection;
mod controller;
mod discovery;
mod edits;
mod events;
mod fence;
mod flags;
mod gates;
mod guarded;
mod interests;
mod jobs;
mod json;
mod kubeconfig;
mod lease;
mod memory;
mod metrics;
mod object;
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
    AccountRef, Accounts, ClientError, REQUEST_TIMEOUT, as_conflict, bounded, cluster_config, connect,
    connect_counted, if_exists, patch_as, post_as,
};
pub use clock::{Clock, SystemClock};
pub use controller::{
    Next, PANIC_REPORT, Reconciler, Settings as ControllerSettings, object_key, run as run_controller,
};
pub use discovery::{Discovery, DiscoveryError, Kind};
pub use edits::Edits;
pub use events::EventPublisher;
pub use fence::{Fence, Lapsed};
pub use flags::{FlagError, ProcessFlags, ProcessSettings};
pub use gates::{FeatureGates, GateSyntax, log_gates};
pub use guarded::Guarded;
pub use interests::{Interest, Interests, Wanted, on_change};
pub use jobs::{Job, JobContext, JobEnded, Jobs, Panicked};
pub use json::{create_json, dry_run_creation, get_json, patch_json};
pub use lease::{DEFAULT_TERMS, Elector, LeaseLost, Terms};
pub use memory::{MemoryBudget, MemoryShare};
pub use metrics::{CertificateReads, ControllerMetrics, Metrics, ObjectStates, RequestCount};
pub use object::{ObjectWriter, OwnWrites, api_text, is_namespace_missing, is_namespace_terminating};
pub use process::{Process, ProcessError, run_main};
pub use pull_secrets::{PullSecretError, PullSecrets, keyring_of};
pub use source::{Newest, Source};
pub use telemetry::{Traces, init as init_logs};
pub use watch::{Changed, Metadata, OwnerChanged, Seen, WatchManager, Watched, metadata_of};

pub use http::{
    Decision, HttpError, Kept, PeerCertificates, Reviews, ServerLimits, bearer, health_router, listen,
    metrics_router, serve,
};
pub use shutdown::{ends_in_time, on_signal, run_program};
pub use tls::{
    CertWatcher, Certificate, SelfSigned, ServingCert, ServingSecret, TlsError, TlsProfile, TlsProfileError,
    self_signed, server_config, server_config_for,
};
