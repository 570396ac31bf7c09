//! A recorded cluster, loaded, with the images it speaks of in a registry.

use k8s_openapi::api::core::v1::Node;
use olm_test::{
    bundle::copy,
    catalog::chain,
    prelude::*,
    proxy::Proxy,
    takeover::{self, Dump},
};
use tokio::sync::{Mutex, MutexGuard};

use crate::seen::{Inventory, Watched, inventory, nothing_left, nothing_stale, taken_over, unchanged};

/// For anything that should happen by itself. Generous: two cores run a whole control plane.
pub(crate) const DEADLINE: Duration = Duration::from_mins(4);
/// For what the cluster's garbage collector does.
pub(crate) const COLLECTED: Duration = Duration::from_mins(8);
/// Where the images were when the dumps were recorded.
const RECORDED_REGISTRY: &str = "127.0.0.1:25000";
/// The packages that are installed, with their versions in the order of their upgrades.
const PACKAGES: [(&str, &[&str]); 6] = [
    ("argocd-operator", &["0.16.0"]),
    ("external-secrets-operator", &["0.10.7", "0.11.0"]),
    ("flux", &["2.2.2", "2.3.0"]),
    ("grafana-operator", &["5.22.2", "5.24.0", NEXT_GRAFANA]),
    ("keda", &["2.6.1", "2.7.1"]),
    ("ndmspc-operator", &["0.20250209.0"]),
];
/// A version made for the test, so that there is something to upgrade to.
const NEXT_GRAFANA: &str = "5.25.0";
const LAST_GRAFANA: &str = "5.24.0";
/// The leases of processes that are gone: a new one would wait for their end.
const LEFT_OUT: [&str; 1] = ["Lease"];
/// Programs that act on objects; they are stopped while a dump is loaded.
const ACTING: [&str; 3] = ["kwok", "kube-scheduler", "kube-controller-manager"];

/// One control plane at a time: two of them would keep each other waiting.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A cluster that upstream has worked on, and what our program makes of it. The fields are dropped in this order.
pub(crate) struct World {
    operator: Option<Operator>,
    watched: Option<Watched>,
    /// Everything, as our program finds it.
    pub(crate) before: Inventory,
    pub(crate) client: Client,
    pub(crate) site: Site,
    _alone: MutexGuard<'static, ()>,
}

impl World {
    /// Loads a dump after `change`, or nothing where it is absent. With `cordoned`, no Pod finds a node.
    pub(crate) async fn load(
        dump: &str,
        cordoned: bool,
        change: impl FnOnce(Dump) -> Result<Dump>,
    ) -> Result<Option<Self>> {
        let Some(folder) = takeover::folder(dump) else { return Ok(None) };
        let alone = ALONE.lock().await;
        let site = Site::start().await?;
        ensure!(!site.cluster.processes().is_empty(), "a dump needs a control plane of its own");
        let mut dump = Dump::read(&folder)?.without(&LEFT_OUT);
        dump.replace(&push(&site.images, &dump).await?)?;
        let dump = change(dump)?;
        let client = site.cluster.client().await?;
        for process in site.cluster.processes().iter().filter(|p| ACTING.contains(&p.name())) {
            process.kill()?;
        }
        takeover::load(&client, &dump).await?;
        let (operator, watched, before) = (None, None, Inventory::new());
        let world = Self { operator, watched, before, client, site, _alone: alone };
        if cordoned {
            world.cordon(true).await?;
        }
        for process in world.site.cluster.processes().iter().filter(|p| ACTING.contains(&p.name())) {
            process.restart()?;
        }
        Ok(Some(world))
    }

    pub(crate) async fn cordon(&self, cordoned: bool) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        for node in nodes.all().await? {
            let patch = json!({"spec": {"unschedulable": cordoned}});
            nodes.merge(&node.name_any(), &patch).await?;
        }
        Ok(())
    }

    /// Notes how everything is, and watches from now on that these extensions stay installed.
    pub(crate) async fn watch(&mut self, installed: &[&'static str]) -> Result<()> {
        self.before = self.inventory().await?;
        self.watched = Some(Watched::start(&self.client, installed));
        Ok(())
    }

    /// Watches, and starts our program as an administrator does.
    pub(crate) async fn begin(&mut self, installed: &[&'static str]) -> Result<()> {
        self.watch(installed).await?;
        self.operator = Some(Operator::start(&self.site, &[]).await?);
        Ok(())
    }

    /// Our program reaches the cluster through a proxy.
    pub(crate) async fn begin_behind(&mut self, proxy: &Proxy, installed: &[&'static str]) -> Result<()> {
        self.watch(installed).await?;
        self.operator = Some(Operator::start_as(&self.site, proxy.kubeconfig(), &[]).await?);
        Ok(())
    }

    /// The process of our program.
    pub(crate) fn process(&self) -> Result<&Process> {
        self.operator.as_ref().map(|operator| operator.process()).context("the program was not started")
    }

    /// Ends the watch; fails if an extension ever said that it is not installed.
    pub(crate) fn end_watch(&mut self) -> Result<()> {
        self.watched.take().context("nothing is watched")?.end(self.process()?)
    }

    /// What our manifests do with the names that upstream leaves behind.
    pub(crate) fn empty_leftovers(&self) -> Result<()> {
        let merge = |kind: &str, name: &str, patch: &str| {
            let args = ["patch", kind, name, "--type=merge", "-p", patch, "-n", SYSTEM_NAMESPACE];
            kubectl(&self.site.cluster, &args).map(drop)
        };
        let webhooks = "catalogd-mutating-webhook-configuration";
        merge("mutatingwebhookconfiguration", webhooks, r#"{"webhooks":[]}"#)?;
        merge("clusterrolebinding", "operator-controller-cluster-admin-rolebinding", r#"{"subjects":[]}"#)?;
        merge("deployment", "catalogd-controller-manager", r#"{"spec":{"replicas":0}}"#)?;
        let warning = "clusterextension-serviceaccount-deprecated";
        kubectl(&self.site.cluster, &["delete", "validatingadmissionpolicybinding", warning]).map(drop)
    }

    pub(crate) fn extensions(&self) -> Api<ClusterExtension> {
        Api::all(self.client.clone())
    }

    pub(crate) fn sets(&self) -> Api<ClusterObjectSet> {
        Api::all(self.client.clone())
    }

    /// Everything as it is now.
    pub(crate) async fn inventory(&self) -> Result<Inventory> {
        inventory(&self.client).await
    }

    /// Nothing was disturbed: at least so many objects are as before, those of the extensions belong to revisions, and
    /// nothing is out of date but what is `blocked`.
    pub(crate) async fn goes_on(&self, least: usize, taken: &[&str], blocked: &[&str]) -> Result<Inventory> {
        let after = self.inventory().await?;
        unchanged(&self.before, &after, least)?;
        if !taken.is_empty() {
            taken_over(&after, taken)?;
        }
        nothing_stale(&after, blocked)?;
        Ok(after)
    }

    /// Sees that a revision says that it was made of a release.
    pub(crate) async fn is_migrated(&self, revision: &str) -> Result<()> {
        let status = self.sets().get(revision).await?.status.unwrap_or_default();
        let told = condition_text(&status.conditions, Succeeded);
        ensure!(
            told == "True/Succeeded/Revision succeeded - migrated from Helm release",
            "{revision}: {told}"
        );
        Ok(())
    }

    /// The names of all revisions, archived ones with a star.
    pub(crate) async fn revisions(&self) -> Result<Vec<String>> {
        let star = |set: &ClusterObjectSet| match set.spec.lifecycle_state {
            LifecycleState::Archived => "*",
            LifecycleState::Active => "",
        };
        let listed = self.sets().all().await?;
        let mut names: Vec<_> = listed.iter().map(|s| format!("{}{}", s.name_any(), star(s))).collect();
        names.sort();
        Ok(names)
    }

    /// `Status/Reason/Message` of a condition of an extension, or nothing.
    pub(crate) async fn condition(&self, extension: &str, type_: ConditionType) -> Result<String> {
        Ok(Extension::new(&self.client, extension).shown().await?.condition(type_))
    }

    /// Waits until a condition of an extension begins as wanted.
    pub(crate) async fn shows(&self, extension: &str, type_: ConditionType, wanted: &str) -> Result<()> {
        let (what, extension) =
            (format!("{type_} of {extension} to be {wanted}"), Extension::new(&self.client, extension));
        self.comes(&what, async || extension.shows(type_, wanted).await).await
    }

    /// Waits until the version is installed and ready.
    pub(crate) async fn installed(&self, extension: &str, version: &str) -> Result<()> {
        let (what, extension) =
            (format!("{extension} to be installed at {version}"), Extension::new(&self.client, extension));
        self.comes(&what, async || extension.is_installed(version).await).await
    }

    async fn comes(&self, what: &str, check: impl AsyncFn() -> Result<()>) -> Result<()> {
        let process = self.process()?;
        let waited = wait::until(what, DEADLINE, || async {
            process.check_running()?;
            check().await
        })
        .await;
        waited.with_context(|| process.log_tail())
    }

    /// Has grafana upgraded, and waits until these are the revisions of the cluster.
    pub(crate) async fn upgraded(&self, revisions: &[&str]) -> Result<()> {
        let upgrade = json!({"spec": {"source": {"catalog": {"version": NEXT_GRAFANA}}}});
        self.patch_extension("grafana", upgrade).await?;
        self.installed("grafana", NEXT_GRAFANA).await?;
        let found = async || self.revisions().await;
        eventually("superseded revisions to be archived", found, |found| *found == revisions).await
    }

    pub(crate) async fn patch_extension(&self, name: &str, patch: Value) -> Result<()> {
        Extension::new(&self.client, name).patch(&patch).await
    }

    /// Removes extensions, and waits until nothing of them is left.
    pub(crate) async fn remove(&self, extensions: &[&str]) -> Result<()> {
        for name in extensions {
            self.extensions().remove(name).await?;
        }
        nothing_left(&self.client, extensions).await
    }
}

/// Pushes the bundles and a catalog of them; the texts to replace in the dump.
async fn push(images: &Images, dump: &Dump) -> Result<Vec<(String, String)>> {
    let folder = olm_test::data::large("bundles").map_err(anyhow::Error::msg)?;
    let made = tempfile::tempdir()?;
    let mut pushed = BTreeMap::new();
    let mut content = String::new();
    for (package, versions) in PACKAGES {
        let mut listed = Vec::new();
        for version in versions {
            let place = if *version == NEXT_GRAFANA {
                let last = folder.join(package).join(LAST_GRAFANA);
                copy(&last, made.path(), &[(LAST_GRAFANA, NEXT_GRAFANA)])?;
                made.path().to_owned()
            } else {
                folder.join(package).join(version)
            };
            let image = images.push_bundle(&place, &format!("bundles/{package}:v{version}")).await?;
            pushed.insert((package, *version), image);
        }
        listed.extend(versions.iter().map(|version| (*version, pushed[&(package, *version)].as_str())));
        content.push_str(&chain(package, &listed));
    }
    images.push_catalog(&content, "catalogs/newest:latest").await?;
    let mut pairs = Vec::new();
    for (reference, (package, version)) in dump.bundles()? {
        let key = (package.as_str(), version.as_str());
        let image = pushed.get(&key).with_context(|| format!("no bundle {key:?} for {reference}"))?;
        pairs.push((reference, image.clone()));
    }
    pairs.push((RECORDED_REGISTRY.to_owned(), images.host().to_owned()));
    pairs.push(("\"nodeName\":\"kwok-".to_owned(), "\"nodeName\":\"node-".to_owned()));
    Ok(pairs)
}
