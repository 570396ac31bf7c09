//! A control plane of our own, a registry, catalogd and operator-controller as processes. Pods are played.

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use olm_test::{instance::Settings, operator::install, prelude::*};
use tokio::sync::Mutex;

use super::{CATALOGD_LEASE, Component, Facts, Programs, Reach};
use crate::world::DEADLINE;

/// The name that catalogd's certificate is for, beside localhost. Only a proxy of the tests finds it.
const CATALOGD_HOST: &str = "catalogd-service.olmv1-system.svc";
/// The host that is redirected to the registry.
const MIRRORED: &str = "mirrored-registry.example.com";
/// Short terms, so that a killed leader is followed soon.
const TERMS: [&str; 4] = [
    "--leader-elect",
    "--leader-elect-lease-duration=12s",
    "--leader-elect-renew-deadline=8s",
    "--leader-elect-retry-period=2s",
];

/// The programs that run at a time.
#[derive(Default)]
struct Running {
    operators: Vec<Operator>,
    catalogd: Option<Catalogd>,
}

pub(crate) struct Local {
    cluster: Arc<Cluster>,
    running: Mutex<Running>,
    conf: String,
    _registry: Registry,
    _directory: StateDirectory,
}

impl Local {
    pub(crate) async fn start(cluster: Arc<Cluster>) -> Result<(Self, Facts, Images)> {
        let registry = Registry::start()?;
        let images = Images::new(&registry)?;
        let directory = StateDirectory::new("scenarios")?;
        let conf = directory.path().join("registries.conf");
        let host = registry.address();
        let text = format!(
            "[[registry]]\nlocation = {host:?}\ninsecure = true\n\
             [[registry]]\nprefix = {MIRRORED:?}\nlocation = {MIRRORED:?}\n\
             [[registry.mirror]]\nlocation = {host:?}\ninsecure = true\n"
        );
        std::fs::write(&conf, text)?;
        install(&cluster)?;
        let conf = conf.display().to_string();
        let local =
            Self { cluster, running: Mutex::default(), conf, _registry: registry, _directory: directory };
        local.restore().await?;
        let facts = Facts {
            name: "a local control plane",
            pods: false,
            split: true,
            replicas: true,
            mirror: Some(MIRRORED.to_owned()),
            proxy: true,
            operator_image: "example.com/operator:v1".to_owned(),
            webhook_image: "example.com/sample-operator:v1".to_owned(),
            gates_off: Vec::new(),
            system_namespace: SYSTEM_NAMESPACE.to_owned(),
        };
        Ok((local, facts, images))
    }

    fn settings(&self, args: &[String], env: &BTreeMap<String, String>) -> Settings {
        let mut settings = Settings::default().env("CONTAINERS_REGISTRIES_CONF", &self.conf);
        settings.args.extend(args.iter().cloned());
        settings.env.extend(env.clone());
        settings
    }

    /// One catalogd and one operator-controller, which reads catalogs over HTTPS.
    async fn run(
        &self,
        catalogd: (&[String], &BTreeMap<String, String>),
        operator: (&[String], &BTreeMap<String, String>),
    ) -> Result<()> {
        let mut running = self.running.lock().await;
        *running = Running::default();
        let settings =
            self.settings(catalogd.0, catalogd.1).arg(format!("--external-address={CATALOGD_HOST}"));
        let started = Catalogd::start_installed(&self.cluster, &settings).await?;
        let url = started.catalogs_url();
        let mut address = url.trim_start_matches("https://").to_owned();
        if operator.1.contains_key("HTTPS_PROXY") {
            address = address.replace("localhost", CATALOGD_HOST);
        }
        running.catalogd = Some(started);
        let settings = self.settings(operator.0, operator.1).arg(format!("--catalogd-address={address}"));
        running.operators.push(Operator::start_installed_with(&self.cluster, &settings).await?);
        Ok(())
    }
}

#[async_trait(?Send)]
impl Programs for Local {
    fn pulled(&self, reference: &str) -> String {
        reference.to_owned()
    }

    async fn restore(&self) -> Result<()> {
        let usual: (&[String], &BTreeMap<_, _>) = (&[], &BTreeMap::new());
        self.run(usual, usual).await
    }

    async fn reconfigure(
        &self,
        component: Component,
        args: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<()> {
        let usual: (&[String], &BTreeMap<_, _>) = (&[], &BTreeMap::new());
        match component {
            Component::Catalogd => self.run((args, env), usual).await,
            Component::OperatorController => self.run(usual, (args, env)).await,
        }
    }

    /// Two operator-controllers with catalogd inside; the first leads.
    async fn two_replicas(&self) -> Result<()> {
        let mut running = self.running.lock().await;
        *running = Running::default();
        let settings = self.settings(&TERMS.map(str::to_owned), &BTreeMap::new());
        running.operators.push(Operator::start_installed_with(&self.cluster, &settings).await?);
        let leases: Api<Lease> = Api::namespaced(self.cluster.client().await?, SYSTEM_NAMESPACE);
        wait::until("the first replica to lead", DEADLINE, async || {
            let spec = leases.get(CATALOGD_LEASE).await?.spec.unwrap_or_default();
            let holder = spec.holder_identity.unwrap_or_default();
            wait::check(!holder.is_empty(), || "nobody holds the lease".to_owned())
        })
        .await?;
        running.operators.push(Operator::start_installed_with(&self.cluster, &settings).await?);
        Ok(())
    }

    async fn kill_leader(&self, _identity: &str) -> Result<()> {
        let mut running = self.running.lock().await;
        // The first one leads; dropped, it is killed.
        drop(running.operators.remove(0));
        Ok(())
    }

    async fn metrics(&self, component: Component) -> Result<Reach> {
        let running = self.running.lock().await;
        let url = match (component, &running.catalogd) {
            (Component::Catalogd, Some(catalogd)) => catalogd.metrics_url(),
            _ => running.operators.first().context("no program runs")?.metrics_url(),
        };
        Ok(reach(url.trim_end_matches("/metrics")))
    }

    async fn catalogs(&self) -> Result<Reach> {
        let running = self.running.lock().await;
        let url = match &running.catalogd {
            Some(catalogd) => catalogd.catalogs_url(),
            None => running.operators.first().context("no program runs")?.catalogs_url(),
        };
        Ok(reach(&url))
    }

    fn check_running(&self) -> Result<()> {
        // While programs are exchanged there is nothing to check.
        let Ok(running) = self.running.try_lock() else { return Ok(()) };
        running.operators.iter().try_for_each(|operator| operator.process().check_running())?;
        running.catalogd.iter().try_for_each(|catalogd| catalogd.process().check_running())
    }
}

fn reach(url: &str) -> Reach {
    Reach { address: url.trim_start_matches("https://").to_owned(), _forward: None }
}
