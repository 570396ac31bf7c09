//! A recorded cluster, loaded, with the images it speaks of in a registry.

use k8s_openapi::api::core::v1::Node;
use olm_test::{
    bundle::copy,
    catalog::chain,
    prelude::*,
    takeover::{self, Dump},
};

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

/// A cluster that upstream has worked on.
pub(crate) struct World {
    pub(crate) images: Images,
    pub(crate) client: Client,
    pub(crate) cluster: Cluster,
    _registry: Registry,
}

impl World {
    /// Loads the dump in `folder` after `change`. With `cordoned`, no Pod finds a node.
    pub(crate) async fn load(
        folder: &Path,
        cordoned: bool,
        change: impl FnOnce(Dump) -> Result<Dump>,
    ) -> Result<Self> {
        let (cluster, registry) = (Cluster::start(Options::default()).await?, Registry::start()?);
        ensure!(!cluster.processes().is_empty(), "a dump needs a control plane of its own");
        let images = Images::new(&registry)?;
        let mut dump = Dump::read(folder)?.without(&LEFT_OUT);
        dump.replace(&push(&images, &dump).await?)?;
        let dump = change(dump)?;
        let client = cluster.client().await?;
        for process in cluster.processes().iter().filter(|p| ACTING.contains(&p.name())) {
            process.kill()?;
        }
        takeover::load(&client, &dump).await?;
        let world = Self { images, client, cluster, _registry: registry };
        if cordoned {
            world.cordon(true).await?;
        }
        for process in world.cluster.processes().iter().filter(|p| ACTING.contains(&p.name())) {
            process.restart()?;
        }
        Ok(world)
    }

    pub(crate) async fn cordon(&self, cordoned: bool) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        for node in nodes.all().await? {
            let patch = json!({"spec": {"unschedulable": cordoned}});
            nodes.merge(&node.name_any(), &patch).await?;
        }
        Ok(())
    }

    /// Our program, started as an administrator does.
    pub(crate) async fn operator(&self) -> Result<Operator> {
        Operator::start(&self.cluster, &self.images, &[]).await
    }

    /// What our manifests do with the names that upstream leaves behind.
    pub(crate) fn empty_leftovers(&self) -> Result<()> {
        let merge = |kind: &str, name: &str, patch: &str| {
            let args = ["patch", kind, name, "--type=merge", "-p", patch, "-n", "olmv1-system"];
            kubectl(&self.cluster, &args).map(drop)
        };
        merge(
            "mutatingwebhookconfiguration",
            "catalogd-mutating-webhook-configuration",
            r#"{"webhooks":[]}"#,
        )?;
        merge("clusterrolebinding", "operator-controller-cluster-admin-rolebinding", r#"{"subjects":[]}"#)?;
        merge("deployment", "catalogd-controller-manager", r#"{"spec":{"replicas":0}}"#)?;
        let warning = "clusterextension-serviceaccount-deprecated";
        kubectl(&self.cluster, &["delete", "validatingadmissionpolicybinding", warning]).map(drop)
    }

    pub(crate) fn extensions(&self) -> Api<ClusterExtension> {
        Api::all(self.client.clone())
    }

    pub(crate) fn sets(&self) -> Api<ClusterObjectSet> {
        Api::all(self.client.clone())
    }

    /// Sees that a revision says that it was made of a release.
    pub(crate) async fn is_migrated(&self, revision: &str) -> Result<()> {
        let status = self.sets().get(revision).await?.status.unwrap_or_default();
        let succeeded = status.conditions.iter().find(|c| c.type_ == "Succeeded");
        let told = succeeded.map(|c| format!("{}/{}/{}", c.status, c.reason, c.message)).unwrap_or_default();
        ensure!(
            told == "True/Succeeded/Revision succeeded - migrated from Helm release",
            "{revision}: {told}"
        );
        Ok(())
    }

    /// The names of all revisions, archived ones with a star.
    pub(crate) async fn revisions(&self) -> Result<Vec<String>> {
        let listed = self.sets().all().await?;
        let star = |set: &ClusterObjectSet| {
            if serde_json::to_value(set.spec.lifecycle_state).is_ok_and(|s| s == "Archived") {
                "*"
            } else {
                ""
            }
        };
        let mut names: Vec<_> = listed.iter().map(|s| format!("{}{}", s.name_any(), star(s))).collect();
        names.sort();
        Ok(names)
    }

    /// `Status/Reason/Message` of a condition of an extension, or nothing.
    pub(crate) async fn condition(&self, extension: &str, type_: &str) -> Result<String> {
        let extension = self.extensions().get(extension).await?;
        let status = extension.status.unwrap_or_default();
        let found = status.conditions.iter().find(|c| c.type_ == type_);
        Ok(found.map(|c| format!("{}/{}/{}", c.status, c.reason, c.message)).unwrap_or_default())
    }

    /// Waits until a condition of an extension begins as wanted.
    pub(crate) async fn shows(
        &self,
        operator: &Operator,
        extension: &str,
        type_: &str,
        wanted: &str,
    ) -> Result<()> {
        let result = wait::until(&format!("{type_} of {extension} to be {wanted}"), DEADLINE, || async {
            operator.process().check_running()?;
            let found = self.condition(extension, type_).await?;
            ensure!(found.starts_with(wanted), "{found}");
            Ok(())
        })
        .await;
        result.with_context(|| operator.process().log_tail())
    }

    /// Waits until the version is installed and ready.
    pub(crate) async fn installed(&self, operator: &Operator, extension: &str, version: &str) -> Result<()> {
        let installed = Extension::new(&self.client, extension);
        let waited = wait::until(&format!("{extension} to be installed at {version}"), DEADLINE, || async {
            operator.process().check_running()?;
            installed.is_installed(version).await
        })
        .await;
        waited.with_context(|| operator.process().log_tail())
    }

    /// Has grafana upgraded, and waits until these are the revisions of the cluster.
    pub(crate) async fn upgraded(&self, operator: &Operator, revisions: &[&str]) -> Result<()> {
        let upgrade = json!({"spec": {"source": {"catalog": {"version": NEXT_GRAFANA}}}});
        self.patch_extension("grafana", upgrade).await?;
        self.installed(operator, "grafana", NEXT_GRAFANA).await?;
        wait::until("superseded revisions to be archived", DEADLINE, || async {
            let found = self.revisions().await?;
            wait::check(found == revisions, || format!("{found:?}"))
        })
        .await
    }

    pub(crate) async fn patch_extension(&self, name: &str, patch: Value) -> Result<()> {
        Extension::new(&self.client, name).patch(&patch).await
    }
}

/// Pushes the bundles and a catalog of them; the texts to replace in the dump.
async fn push(images: &Images, dump: &Dump) -> Result<Vec<(String, String)>> {
    let folder = std::env::var_os("OLM_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"), PathBuf::from)
        .join("bundles");
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
