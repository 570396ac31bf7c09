//! The flags of catalogs, which the programs that catalogd runs inside have too.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::{Config, ConfigError};

/// Flags of the part that serves catalogs.
#[derive(Debug, Clone, Args)]
pub struct CatalogFlags {
    /// Folder for catalog content.
    #[arg(long, default_value = "/var/cache/catalogd")]
    cache_dir: PathBuf,
    #[command(flatten)]
    serving: ServingFlags,
}

/// Those of a program that has a folder for content already.
#[derive(Debug, Clone, Args)]
pub struct ServingFlags {
    /// Address on which catalog content is served [default: :8443 for catalogd, :8444 for other programs].
    #[arg(long, default_value = "", hide_default_value = true)]
    catalogs_server_addr: String,
    /// host[:port] under which clients reach the catalog server; goes into status.urls.
    #[arg(long, default_value = "catalogd-service.olmv1-system.svc")]
    external_address: String,
    /// Time between two clean-ups of catalog content, for instance 12h.
    #[arg(long, default_value = "12h")]
    gc_interval: String,
}

impl CatalogFlags {
    /// The settings of catalogd itself, without feature gates.
    pub fn config(&self) -> Result<Config, ConfigError> {
        self.serving.config(self.cache_dir.clone())
    }

    /// Where catalog content is served; the program's own `default` without the flag.
    pub fn address<'a>(&'a self, default: &'a str) -> &'a str {
        self.serving.address(default)
    }
}

impl ServingFlags {
    /// The settings of catalogd itself with this folder, without feature gates.
    pub fn config(&self, cache_dir: PathBuf) -> Result<Config, ConfigError> {
        let interval = self.gc_interval.parse::<jiff::SignedDuration>().ok();
        let gc_interval = interval
            .and_then(|interval| interval.try_into().ok())
            .filter(|interval| *interval > Duration::ZERO)
            .ok_or_else(|| ConfigError::GcInterval(self.gc_interval.clone()))?;
        Ok(Config {
            cache_dir,
            external_address: self.external_address.clone(),
            gc_interval,
            ..Config::default()
        })
    }

    /// Where catalog content is served; the program's own `default` without the flag.
    pub fn address<'a>(&'a self, default: &'a str) -> &'a str {
        if self.catalogs_server_addr.is_empty() { default } else { &self.catalogs_server_addr }
    }
}
