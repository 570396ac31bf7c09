//! Flags and environment of operator-controller, with upstream's names and defaults, catalogd's included.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use catalogd::{CatalogFlags, Trust};
use clap::Parser;
use olm_runtime::{FeatureGates, ProcessFlags, ProcessSettings, Terms};
use operator_controller::{
    Config, Gates, MAX_CONCURRENT_RECONCILES, ProviderSetting, RemoteCatalogd, WebhookCertificates, account,
};

/// The default address of catalog content; `:8443` has the metrics, as upstream.
const CATALOGS_ADDRESS: &str = ":8444";
/// The default address of metrics.
const METRICS_ADDRESS: &str = ":8443";
/// The range of --webhook-certificate-lifetime: a rotation needs seconds, X.509 ends with the year 9999.
const LIFETIME: RangeInclusive<Duration> = Duration::from_secs(30)..=Duration::from_hours(876_000);

/// Installs and upgrades operators from catalogs, and serves the catalogs.
#[derive(Debug, Parser)]
#[command(name = "operator-controller", version, disable_version_flag = true, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) process: ProcessFlags,
    #[command(flatten)]
    catalogs: CatalogFlags,
    /// Folder for pulled bundles.
    #[arg(long, default_value = "/var/cache/operator-controller")]
    cache_path: PathBuf,
    /// host[:port] of a separate catalogd; without it catalogd runs in this process.
    #[arg(long)]
    catalogd_address: Option<String>,
    /// Folder with CA certificates for --catalogd-address [default: the CA that catalogd publishes in the ConfigMap
    /// catalogd-serving-cert, in the namespace of its Service].
    #[arg(long, default_value = "", hide_default_value = true)]
    catalogd_cas_dir: String,
    /// ServiceAccount of extensions that name none: [<namespace>/]<name>. Overrides the ConfigMap olmv1-settings; for
    /// clusters without the admission policies.
    #[arg(long)]
    default_service_account: Option<String>,
    /// How long to wait for a catalog that was never served before others are used without it.
    #[arg(long, default_value = "2m", value_parser = duration)]
    catalog_deadline: Duration,
    /// Provider of webhook certificates; auto uses cert-manager or OpenShift's service CA if the cluster has them,
    /// otherwise the built-in provider.
    #[arg(long, value_enum, default_value = "auto")]
    webhook_certificate_provider: ProviderSetting,
    /// Lifetime of certificates of the built-in provider; they are renewed when a third is left.
    #[arg(long, default_value = "17520h", value_parser = lifetime)]
    webhook_certificate_lifetime: Duration,
    /// Number of extensions, and of revisions, to reconcile at the same time.
    #[arg(long, default_value_t = MAX_CONCURRENT_RECONCILES, value_parser = clap::value_parser!(u16).range(1..=512))]
    max_concurrent_reconciles: u16,
    /// How long other replicas wait for a leader that no longer renews its Lease.
    #[arg(long, default_value = "137s", value_parser = duration)]
    leader_elect_lease_duration: Duration,
    /// How long the leader tries to renew its Lease before it gives up; shorter than the Lease's duration.
    #[arg(long, default_value = "107s", value_parser = duration)]
    leader_elect_renew_deadline: Duration,
    /// Time between two attempts to acquire the Lease, or to renew it after an attempt that failed; a third more lies between
    /// two renewals. Shorter than the deadline.
    #[arg(long, default_value = "26s", value_parser = duration)]
    leader_elect_retry_period: Duration,
}

/// A duration that leaves time for a rotation, and that calendars can hold.
fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = duration(text)?;
    if LIFETIME.contains(&lifetime) { Ok(lifetime) } else { Err("want between 30s and 876000h".to_owned()) }
}

fn duration(text: &str) -> Result<Duration, String> {
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|d| Duration::try_from(d).ok())
        .ok_or_else(|| format!("{text:?} is not a duration: write for instance 90s, 15m or 12h"))
}

impl Args {
    /// The election's terms. The lease's record counts whole seconds.
    fn terms(&self) -> anyhow::Result<Terms> {
        let terms = Terms {
            duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry: self.leader_elect_retry_period,
        };
        let ordered = terms.retry < terms.renew_deadline && terms.renew_deadline < terms.duration;
        anyhow::ensure!(
            ordered && !terms.retry.is_zero() && terms.duration.subsec_nanos() == 0,
            "leader election: want whole seconds for the lease's duration, and retry period < renew deadline < lease duration"
        );
        Ok(terms)
    }

    /// The configuration that flags, environment and cluster add up to.
    ///
    /// # Errors
    /// Flags contradict each other, or a file they name cannot be used.
    pub(crate) async fn into_config(self) -> anyhow::Result<(Config, ProcessSettings)> {
        let terms = self.terms()?;
        let spool = self.cache_path.join("spool");
        let process = self.process.settings("operator-controller", METRICS_ADDRESS, spool).await?;
        let default_account =
            self.default_service_account.as_deref().map(|text| account(text, &process.namespace));
        let remote_catalogd = self.catalogd_address.map(|address| RemoteCatalogd {
            trust: if self.catalogd_cas_dir.is_empty() {
                let namespace = namespace_of(&address).unwrap_or(&process.namespace);
                Trust::Published(namespace.to_owned())
            } else {
                Trust::Folder(self.catalogd_cas_dir.into())
            },
            address,
        });
        let mut catalogd = self.catalogs.config()?;
        let mut gates = Gates::default();
        gates.apply(&FeatureGates::parse(&self.process.feature_gates)?, &mut catalogd)?;
        let provider = self.webhook_certificate_provider;
        gates.check_provider(provider)?;
        let config = Config {
            cache_path: self.cache_path,
            catalogd,
            catalogs_address: self.catalogs.address(CATALOGS_ADDRESS).to_owned(),
            remote_catalogd,
            terms,
            max_concurrent_reconciles: self.max_concurrent_reconciles,
            default_account: default_account.transpose().map_err(anyhow::Error::msg)?,
            catalog_deadline: self.catalog_deadline,
            gates,
            webhook_certificates: WebhookCertificates {
                provider,
                lifetime: self.webhook_certificate_lifetime,
            },
        };
        Ok((config, process))
    }
}

/// The namespace of a Service, by its address `<name>.<namespace>.svc[.<domain>][:<port>]`.
fn namespace_of(address: &str) -> Option<&str> {
    let host = address.split(':').next().unwrap_or_default();
    let mut labels = host.split('.').skip(1);
    let namespace = labels.next().filter(|namespace| !namespace.is_empty())?;
    (labels.next() == Some("svc")).then_some(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_trusted_by_what_its_own_namespace_publishes() {
        assert_eq!(namespace_of("catalogd-service.olm.svc"), Some("olm"));
        assert_eq!(namespace_of("catalogd-service.olm.svc.cluster.local:443"), Some("olm"));
        for elsewhere in ["localhost:8443", "10.0.0.1:443", "catalogs.example.com", "a..svc", "svc", ""] {
            assert_eq!(namespace_of(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn flags_of_both_programs_are_accepted() {
        let args = Args::try_parse_from([
            "operator-controller",
            "--leader-elect",
            "--feature-gates=BoxcutterRuntime=true",
            "--catalogs-server-addr=:8444",
            "--gc-interval=1h",
            "-v=4",
        ])
        .unwrap();
        assert!(args.process.leader_elect);
        assert_eq!(args.process.verbosity, 4);
        assert_eq!(args.catalogs.address(CATALOGS_ADDRESS), ":8444");
        assert_eq!(args.catalogs.config().unwrap().gc_interval, std::time::Duration::from_hours(1));
        let off = Args::try_parse_from(["operator-controller", "--leader-elect=false"]).unwrap();
        assert!(!off.process.leader_elect);
        let wrong = Args::try_parse_from(["operator-controller", "--gc-interval=soon"]).unwrap();
        assert!(wrong.catalogs.config().is_err());
        assert_eq!(args.webhook_certificate_provider, ProviderSetting::Auto);
        let terms = args.terms().unwrap();
        assert_eq!(format!("{terms:?}"), format!("{:?}", olm_runtime::DEFAULT_TERMS));
        let late = ["operator-controller", "--leader-elect-renew-deadline=3m"];
        assert!(Args::try_parse_from(late).unwrap().terms().is_err(), "it would lead longer than it may");
        assert!(Args::try_parse_from(["operator-controller", "--max-concurrent-reconciles=0"]).is_err());
        let again = ["operator-controller", "--cache-path=/a", "--max-concurrent-reconciles=4"];
        let last =
            ["--cache-path=/b", "--leader-elect", "--leader-elect=false", "--max-concurrent-reconciles=6"];
        let args = Args::try_parse_from(again.into_iter().chain(last)).unwrap();
        assert_eq!((args.cache_path.to_str(), args.max_concurrent_reconciles), (Some("/b"), 6));
        assert!(!args.process.leader_elect, "the last one counts");
        for wrong in ["--webhook-certificate-provider=me", "--webhook-certificate-lifetime=1s"] {
            assert!(Args::try_parse_from(["operator-controller", wrong]).is_err(), "{wrong}");
        }
    }
}
