//! Flags and environment of operator-controller, the original's names and defaults, catalogd's included.

use std::path::PathBuf;

use anyhow::{Context, bail};
use catalogd::SharedFlags;
use clap::{Parser, Subcommand};
use olm_runtime::{AccountRef, DEFAULT_TERMS, cluster_config};
use operator_controller::{Config, Gates};

/// Installs and upgrades operators from catalogs, and serves the catalogs.
#[derive(Debug, Parser)]
#[command(name = "operator-controller", version, disable_version_flag = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    shared: SharedFlags,
    /// Folder for pulled bundles.
    #[arg(long, default_value = "/var/cache/operator-controller")]
    cache_path: PathBuf,
    /// Account of extensions that name none: [<namespace>/]<name>.
    #[arg(long)]
    default_service_account: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints the version.
    Version,
}

impl Args {
    pub(crate) fn wants_version(&self) -> bool {
        matches!(self.command, Some(Command::Version))
    }

    pub(crate) fn verbosity(&self) -> u8 {
        self.shared.verbosity
    }

    /// The configuration that flags, environment and cluster add up to.
    ///
    /// # Errors
    /// Flags contradict each other, or a file they name cannot be used.
    pub(crate) async fn into_config(self) -> anyhow::Result<Config> {
        let shared = &self.shared;
        let tls = shared.certificate_files().context("unable to configure TLS certificates")?;
        let system_namespace = shared.namespace();
        let default_account =
            self.default_service_account.as_deref().map(|text| account(text, &system_namespace));
        let mut catalogd = shared.config()?;
        let mut gates = Gates::default();
        for text in &shared.feature_gates {
            gates.apply(text, &mut catalogd)?;
        }
        Ok(Config {
            cluster: cluster_config(shared.kubeconfig.as_deref()).await?,
            system_namespace,
            puller: shared.puller(self.cache_path.join("spool"))?,
            cache_path: self.cache_path,
            catalogd,
            catalogs_address: shared.catalogs_server_addr.clone(),
            tls,
            tls_profile: shared.tls_profile()?,
            health_address: shared.health_address(),
            leader_election: shared.leader_elect.then_some(DEFAULT_TERMS),
            identity: shared.identity("operator-controller"),
            default_account: default_account.transpose()?,
            global_pull_secret: shared.pull_secret()?,
            own_account: shared.account(),
            gates,
        })
    }
}

fn account(text: &str, system_namespace: &str) -> anyhow::Result<AccountRef> {
    let (namespace, name) = text.split_once('/').unwrap_or((system_namespace, text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        bail!("default-service-account must be of the form [<namespace>/]<name>: {text:?}");
    }
    Ok(AccountRef { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// Prints the version, quoted as the original does.
#[expect(clippy::print_stdout, reason = "the sub-command's output")]
pub(crate) fn tell_version() {
    println!("{:?}", format!("operator-controller version {}", env!("CARGO_PKG_VERSION")));
}

/// Prints why the program ends.
#[expect(clippy::print_stderr, reason = "the last words of the program, after logging")]
pub(crate) fn tell(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_may_leave_out_the_namespace() {
        let in_system = account("a", "sys").unwrap();
        assert_eq!((in_system.namespace.as_str(), in_system.name.as_str()), ("sys", "a"));
        assert_eq!(account("ns/a", "sys").unwrap().namespace, "ns");
        for wrong in ["", "/a", "ns/", "a/b/c"] {
            assert!(account(wrong, "sys").is_err(), "{wrong}");
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
        assert!(args.shared.leader_elect);
        assert_eq!(args.verbosity(), 4);
        assert_eq!(args.shared.config().unwrap().gc_interval, std::time::Duration::from_hours(1));
        let off = Args::try_parse_from(["operator-controller", "--leader-elect=false"]).unwrap();
        assert!(!off.shared.leader_elect);
        assert!(Args::try_parse_from(["operator-controller", "version"]).unwrap().wants_version());
        let wrong = Args::try_parse_from(["operator-controller", "--gc-interval=soon"]).unwrap();
        assert!(wrong.shared.config().is_err());
    }
}
