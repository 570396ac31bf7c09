//! A real image registry, on loopback or a link to a node, plain HTTP, its content in a directory that goes with it.
//!
//! Stopped and started again it has the same address and content, as a registry after an outage.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::controlplane::{Tool, Tools};
use crate::process::{Process, StateDirectory, free_ports};
use crate::supervisor::Program;
use crate::wait;

const ATTEMPTS: usize = 3;
const DEADLINE: Duration = Duration::from_secs(20);

/// A registry. Dropped, it is gone.
pub struct Registry {
    // Dropped in this order: the program before its files.
    process: Process,
    host: String,
    port: u16,
    _directory: StateDirectory,
}

impl Registry {
    /// Starts an empty registry and waits until it answers.
    pub async fn start() -> Result<Self> {
        Self::start_on("127.0.0.1").await
    }

    /// The same, on another address of this machine.
    pub async fn start_on(host: &str) -> Result<Self> {
        crate::cluster::install_crypto_provider();
        let tools = tokio::task::spawn_blocking(Tools::locate).await??;
        let mut attempt = 1;
        loop {
            match Self::try_start(&tools, host).await {
                Ok(registry) => return Ok(registry),
                Err(error)
                    if attempt < ATTEMPTS && format!("{error:#}").contains("address already in use") =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_start(tools: &Tools, host: &str) -> Result<Self> {
        let directory = StateDirectory::new("registry")?;
        let [port] = free_ports()?;
        let config = serde_json::json!({
            "version": "0.1",
            "log": {"level": "warn", "accesslog": {"disabled": true}},
            "storage": {
                "filesystem": {"rootdirectory": directory.path().join("content")},
                "delete": {"enabled": true},
            },
            "http": {"addr": format!("{host}:{port}")},
        });
        let file = directory.path().join("config.yml");
        fs::write(&file, config.to_string())?;
        let process = Process::start(
            "registry",
            Program {
                program: tools.path(Tool::Registry),
                args: vec!["serve".to_owned(), file.display().to_string()],
                // It would look for a collector of traces on this machine otherwise.
                env: [("OTEL_TRACES_EXPORTER".to_owned(), "none".to_owned())].into(),
                env_remove: Vec::new(),
                log: directory.path().join("registry.log"),
            },
        )?;
        let registry = Self { process, host: host.to_owned(), port, _directory: directory };
        registry.ready().await?;
        Ok(registry)
    }

    /// Host and port, as image references begin with: `<address>:<port>`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The address of its API: `http://<address>:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Stops it: connections are refused from now on.
    pub fn stop(&self) -> Result<()> {
        self.process.kill().map(drop)
    }

    /// Starts it again, at the same address with the same content.
    pub async fn start_again(&self) -> Result<()> {
        self.process.restart()?;
        self.ready().await
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    async fn ready(&self) -> Result<()> {
        let url = format!("{}/v2/", self.url());
        wait::until("the registry to answer", DEADLINE, || async {
            self.process.check_running()?;
            let status = reqwest::get(&url).await.context("asking the registry")?.status();
            wait::check(status.is_success(), || format!("status {status}"))
        })
        .await
    }
}
