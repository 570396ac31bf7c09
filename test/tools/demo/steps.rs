//! The demo, step by step.

use std::sync::OnceLock;

use anyhow::anyhow;
use olm_test::{prelude::*, process::target_folder, supervisor::State};
use olm_test_programs::{
    controlplane::{CONTROLLERS, Tools},
    variable,
};

use crate::{
    installation::{Installation, kind},
    place::Place,
    sample::{self, NAME, VERSIONS},
    screen::{self, Screen},
    stand_in,
};

const DEADLINE: Duration = Duration::from_mins(2);
/// Between two looks at the programs while the demo stays up.
const PAUSE: Duration = Duration::from_millis(500);

/// The demo. What it starts is ended when it is dropped.
pub(crate) struct Demo {
    place: Place,
    screen: Screen,
    registry: Registry,
    // Dropped in this order: the controller before its cluster.
    operator: OnceLock<Operator>,
    installation: OnceLock<Installation>,
    cluster: OnceLock<Cluster>,
    up: OnceLock<()>,
}

impl Demo {
    pub(crate) fn new(place: Place) -> Result<Self> {
        Ok(Self {
            place,
            screen: Screen::new(),
            registry: Registry::start()?,
            operator: OnceLock::new(),
            installation: OnceLock::new(),
            cluster: OnceLock::new(),
            up: OnceLock::new(),
        })
    }

    /// Whether everything was installed.
    pub(crate) fn is_up(&self) -> bool {
        self.up.get().is_some()
    }

    /// Everything but the removal. Ends with an error, or by itself with `DEMO_EXIT`.
    pub(crate) async fn run(&self) -> Result<()> {
        let cluster = self.start_cluster().await?;
        let client = cluster.client().await?;
        let images = Images::new(&self.registry)?;
        sample::push(&images).await?;
        let bundles = VERSIONS.len();
        self.screen.done(&format!("sample catalog and {bundles} bundles pushed to {}", images.host()));

        let objects = [sample::program()?, vec![sample::catalog(&images)?], sample::extension()?].concat();
        let called = match &self.place {
            Place::Own => "the control plane",
            Place::Given(called) => called,
        };
        let installation = Installation::new(client.clone(), called, objects);
        installation.check_absent().await?;
        let installation = self.installation.get_or_init(|| installation);
        let of_program = |object: &_| !["ClusterCatalog", "ClusterExtension"].contains(&kind(object));
        installation.create(of_program).await?;
        cluster.show_kinds_to_collector()?;
        let operator = Operator::start_installed_with(cluster, &images.settings(&[])).await?;
        let operator = self.operator.get_or_init(|| operator);
        self.screen.done("operator-controller is ready, catalogd inside");

        installation.create(|object| kind(object) == "ClusterCatalog").await?;
        self.serving(&client, operator).await?;
        self.screen.done(&format!("ClusterCatalog {NAME} is serving"));
        installation.create(|object| kind(object) == "ClusterExtension").await?;
        self.installed(&client, operator, "1.0.0").await?;
        self.screen.done(&format!(
            "ClusterExtension {NAME} is installed at 1.0.0, as ServiceAccount {NAME}-installer"
        ));
        let extensions: Api<ClusterExtension> = Api::all(client.clone());
        let patch = json!({"spec": {"source": {"catalog": {"version": "1.x"}}}});
        extensions.merge(NAME, patch).await?;
        self.installed(&client, operator, "1.1.0").await?;
        self.screen.done("upgraded within its channel to 1.1.0");
        show(cluster).await?;
        self.up.get_or_init(|| ());
        if variable("DEMO_EXIT").is_some_and(|value| value != "0") {
            return Ok(());
        }
        self.print_lines(cluster, operator)?;
        watch(cluster, operator).await
    }

    async fn start_cluster(&self) -> Result<&Cluster> {
        let options = match &self.place {
            Place::Given(_) => Options::default(),
            Place::Own => {
                screen::begin("starting a control plane");
                let tools = Tools::find_for_demo()?;
                Options { tools: tools.assets().is_some().then_some(tools), ..Options::default() }
            }
        };
        let bare = options.tools.as_ref().is_some_and(|tools| !tools.missing(&CONTROLLERS).is_empty());
        let cluster = Cluster::start(options).await?;
        if bare {
            tokio::spawn(stand_in::run(cluster.client().await?));
            screen::note(
                "It has no controllers and no nodes: the demo itself marks Deployments as available.",
            );
        }
        match &self.place {
            Place::Own => self.screen.done("control plane and registry are up"),
            Place::Given(called) => {
                let version = cluster.client().await?.apiserver_version().await;
                let version = version.with_context(|| format!("{called} cannot be reached"))?;
                self.screen
                    .done(&format!("Kubernetes {} is reached, the registry is up", version.git_version));
            }
        }
        Ok(self.cluster.get_or_init(|| cluster))
    }

    async fn serving(&self, client: &Client, operator: &Operator) -> Result<()> {
        let api: Api<ClusterCatalog> = Api::all(client.clone());
        wait::until("the catalog to serve", DEADLINE, || async {
            running(operator.process())?;
            let status = api.get(NAME).await?.status.unwrap_or_default();
            let message = status.conditions.find(ConditionType::Progressing).map(|c| c.message.clone());
            wait::check(status.conditions.is_true(ConditionType::Serving), || message.unwrap_or_default())
        })
        .await
    }

    /// Waits until the version is installed and everything is ready; shows the extension's messages on the way.
    async fn installed(&self, client: &Client, operator: &Operator, version: &str) -> Result<()> {
        let api: Api<ClusterExtension> = Api::all(client.clone());
        let mut shown = String::new();
        wait::until(&format!("version {version} to be installed"), DEADLINE, async || {
            running(operator.process())?;
            let extension = api.get(NAME).await?;
            let generation = extension.metadata.generation;
            let status = extension.status.unwrap_or_default();
            let ready = status.conditions.find(ConditionType::Ready).cloned();
            let message = ready.as_ref().map(|c| format!("{}: {}", c.reason, c.message)).unwrap_or_default();
            if message != shown && !message.is_empty() {
                screen::note(&message);
                shown = message;
            }
            let now = status.install.map(|i| i.bundle.version);
            ensure!(now.as_deref() == Some(version), "installed is {now:?}");
            let current = ready.is_some_and(|c| c.status == "True" && c.observed_generation == generation);
            wait::check(current, || shown.clone())
        })
        .await
    }

    fn print_lines(&self, cluster: &Cluster, operator: &Operator) -> Result<()> {
        screen::line("Everything stays up until Ctrl-C. In another terminal:\n");
        let programs = target_folder()?;
        let mut folders = vec![programs];
        if matches!(self.place, Place::Own) {
            screen::example(
                "use this control plane",
                &format!("export KUBECONFIG={}", cluster.kubeconfig_admin().display()),
            );
            let kubectl = cluster.kubectl();
            folders.push(kubectl.parent().context("kubectl has no folder")?.to_owned());
        }
        let folders = std::env::join_paths(folders)?;
        screen::example("with its programs", &format!("export PATH={}:$PATH", folders.display()));
        let patch = |catalog: &str| {
            format!(
                "kubectl patch clusterextension {NAME} --type=merge -p '{{\"spec\":{{\"source\":{{\"catalog\":{{{catalog}}}}}}}}}'"
            )
        };
        let candidate = r#""channels":["candidate"],"version":"2.x""#;
        for (about, line) in [
            ("what is installed, what is pending and why", "olm status".to_owned()),
            ("one extension, with its conditions and revisions", format!("olm status {NAME}")),
            ("upgrade to the candidate channel", patch(candidate)),
            (
                "a range that cannot be met: see how that is explained",
                format!("{} && sleep 2 && olm status {NAME}", patch(r#""version":">=9""#)),
            ),
            (
                "and back to a healthy extension",
                format!("{} && sleep 2 && olm status {NAME}", patch(candidate)),
            ),
            (
                "drift is repaired",
                format!(
                    "kubectl -n {NAME} delete deployment {NAME}-operator && sleep 2 && kubectl -n {NAME} get deployments"
                ),
            ),
            (
                "catalog content",
                format!(
                    "curl -ks '{}/catalogs/{NAME}/api/v1/metas?schema=olm.channel'",
                    operator.catalogs_url()
                ),
            ),
            (
                "uninstall",
                format!(
                    "kubectl delete clusterextension {NAME} && sleep 2 && kubectl -n {NAME} get all,configmaps"
                ),
            ),
        ] {
            screen::example(about, &line);
        }
        Ok(())
    }

    /// Removes from a given cluster what the demo made there.
    pub(crate) async fn remove(&self) -> Result<()> {
        let (Place::Given(called), Some(installation)) = (&self.place, self.installation.get()) else {
            return Ok(());
        };
        screen::begin(&format!("removing everything again from {called}"));
        if let Some(operator) = self.operator.get() {
            // It has to take its finalizers off, whatever happened to it.
            if operator.process().state()? != State::Running {
                operator.process().restart()?;
                operator.ready().await?;
            }
            installation.remove_own_kinds().await.context("removing the extension and the catalog")?;
            operator.process().terminate(DEADLINE).await?;
        }
        installation.remove_rest().await?;
        self.screen.done("everything is removed again");
        Ok(())
    }

    /// The removal was interrupted.
    pub(crate) fn left_behind(&self) -> Result<()> {
        match (&self.place, self.installation.get()) {
            (Place::Given(called), Some(installation)) => {
                bail!("interrupted while it removed what it made on {called}: {}", installation.by_label())
            }
            _ => Ok(()),
        }
    }
}

/// Prints what kubectl shows.
async fn show(cluster: &Cluster) -> Result<()> {
    let mut kubectl = tokio::process::Command::new(cluster.kubectl());
    kubectl.arg("--kubeconfig").arg(cluster.kubeconfig_admin());
    kubectl.args(["get", "clusterextensions,clusterobjectsets,clustercatalogs"]);
    let output = kubectl.process_group(0).kill_on_drop(true).output().await.context("running kubectl")?;
    ensure!(output.status.success(), "kubectl get: {}", String::from_utf8_lossy(&output.stderr).trim());
    screen::line(&format!("\n{}", String::from_utf8_lossy(&output.stdout)));
    Ok(())
}

/// Returns when a program has ended that the demo needs.
async fn watch(cluster: &Cluster, operator: &Operator) -> Result<()> {
    loop {
        cluster.processes().iter().chain([operator.process()]).try_for_each(running)?;
        tokio::time::sleep(PAUSE).await;
    }
}

/// An error, as one sentence and what the program wrote last if it ended by itself.
fn running(process: &Process) -> Result<()> {
    let error = match process.state()? {
        State::Running => return Ok(()),
        State::Killed(signal) => format!("{} was ended by signal {signal}", process.name()),
        State::Exited(code) => {
            format!("{} ended with exit code {code}\n{}", process.name(), process.log_tail())
        }
    };
    Err(anyhow!(wait::Final(error)))
}
