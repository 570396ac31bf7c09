//! A registry server outside of olm-classic: `olm catalog serve --grpc`.

use crate::{prelude::*, process::free_ports, supervisor::Program};

/// A server of one catalog. Dropped, it is gone.
pub struct CatalogServer {
    process: Process,
    port: u16,
    directory: StateDirectory,
}

impl CatalogServer {
    /// Serves a catalog.
    pub async fn start(content: &str) -> Result<Self> {
        let directory = StateDirectory::new("catalog-server")?;
        let [port] = free_ports()?;
        let catalog = directory.path().join("catalog");
        fs::create_dir(&catalog)?;
        fs::write(catalog.join("catalog.json"), content)?;
        let args =
            ["catalog", "serve", "--grpc", &format!("127.0.0.1:{port}"), &catalog.display().to_string()];
        let program = Program {
            program: cargo_program("olm-cli", "olm")?,
            args: args.map(str::to_owned).to_vec(),
            env: BTreeMap::new(),
            env_remove: Vec::new(),
            log: directory.path().join("olm.log"),
        };
        let this = Self { process: Process::start("olm catalog serve", program)?, port, directory };
        this.answers().await?;
        Ok(this)
    }

    /// Serves another catalog from now on.
    pub async fn serve(&self, content: &str) -> Result<()> {
        fs::write(self.directory.path().join("catalog/catalog.json"), content)?;
        self.process.kill()?;
        self.process.restart()?;
        self.answers().await
    }

    async fn answers(&self) -> Result<()> {
        wait::until("the registry server", DEADLINE, async || {
            self.process.check_running()?;
            tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await?;
            Ok(())
        })
        .await
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}
