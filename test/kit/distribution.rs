//! The registry of the distribution project, for tests of what we do with registries: on loopback, plain HTTP.

use crate::supervisor::Program;
use crate::{prelude::*, process::free_ports};
use olm_test_programs::controlplane::{Tool, Tools};

const ATTEMPTS: usize = 3;

/// A registry. Dropped, it is gone with its content.
pub struct Distribution {
    // Dropped in this order: the program before its files.
    process: Process,
    port: u16,
    _directory: StateDirectory,
}

impl Distribution {
    /// Starts an empty registry and waits until it answers.
    pub async fn start() -> Result<Self> {
        crate::cluster::install_crypto_provider();
        let tools = tokio::task::spawn_blocking(|| Tools::locate(&[Tool::Registry])).await??;
        let mut attempt = 1;
        loop {
            match Self::try_start(&tools).await {
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

    async fn try_start(tools: &Tools) -> Result<Self> {
        let directory = StateDirectory::new("registry")?;
        let [port] = free_ports()?;
        let config = serde_json::json!({
            "version": "0.1",
            "log": {"level": "warn", "accesslog": {"disabled": true}},
            "storage": {
                "filesystem": {"rootdirectory": directory.path().join("content")},
                "delete": {"enabled": true},
            },
            "http": {"addr": format!("127.0.0.1:{port}")},
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
        let registry = Self { process, port, _directory: directory };
        registry.ready().await?;
        Ok(registry)
    }

    /// Host and port, as image references begin with: `127.0.0.1:<port>`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The address of its API: `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
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
