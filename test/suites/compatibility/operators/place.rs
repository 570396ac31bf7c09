//! The control plane, the registry with every bundle, one catalog of all of them, and the program.

use futures::{StreamExt, TryStreamExt, stream};
use olm_test::{
    catalog::{self, Entry},
    operator::USER,
    prelude::*,
};
use tokio_util::sync::CancellationToken;

use crate::expected::{Expected, Wave};

/// For anything that should happen by itself. Generous: two cores run a whole control plane.
pub(crate) const DEADLINE: Duration = Duration::from_mins(4);
pub(crate) const CATALOG: &str = "real-operators";
/// Pods that keep away from each other are replaced one by one: one more node than there are of them.
const NODES: usize = 4;
/// Bundles that are pushed at a time.
const PUSHES: usize = 4;

/// The names of bundles by package and version.
type Names = BTreeMap<(String, String), String>;

/// Everything that the operators share.
pub(crate) struct Place {
    pub(crate) operator: Operator,
    pub(crate) site: Site,
    pub(crate) client: Client,
    /// The operators that another one requires, by package.
    pub(crate) required: BTreeMap<&'static str, Required>,
    folder: PathBuf,
    names: Names,
    olm: PathBuf,
}

/// An operator that another one requires.
#[derive(Default)]
pub(crate) struct Required {
    /// The other one has said so: it may be installed.
    pub(crate) asked_for: CancellationToken,
    /// The other one is gone: it may be removed.
    pub(crate) released: CancellationToken,
}

/// The folder with real bundles, or `None`, said on standard output.
pub(crate) fn bundles() -> Option<PathBuf> {
    olm_test::data::find("bundles")
}

impl Place {
    /// Starts everything, with one catalog of both versions of `operators`.
    pub(crate) async fn start(folder: PathBuf, operators: &[&Expected]) -> Result<Self> {
        let options = Options { nodes: NODES, ..Options::default() };
        let World { operator: program, site, .. } = World::start_on(options).await?;
        let mut place = Self {
            client: site.cluster.client().await?,
            olm: cargo_program("olm-cli", "olm")?,
            required: required(operators),
            names: BTreeMap::new(),
            operator: program,
            site,
            folder,
        };
        let packages: Vec<Vec<(Entry, String)>> = stream::iter(operators)
            .map(|operator| place.package(operator))
            .buffered(PUSHES)
            .try_collect()
            .await?;
        let entries = packages.concat();
        let content = catalog::text(&entries);
        place.names =
            entries.into_iter().map(|(entry, _)| ((entry.package, entry.version), entry.name)).collect();
        place.serve(&content).await?;
        Ok(place)
    }

    /// The folder of a bundle.
    pub(crate) fn bundle(&self, package: &str, version: &str) -> PathBuf {
        self.folder.join(package).join(version)
    }

    /// The name of a bundle, that of its ClusterServiceVersion.
    pub(crate) fn bundle_name(&self, package: &str, version: &str) -> &str {
        self.names.get(&(package.to_owned(), version.to_owned())).map_or("", String::as_str)
    }

    /// Pushes both bundles, and gives their entries in the catalog.
    async fn package(&self, operator: &Expected) -> Result<Vec<(Entry, String)>> {
        let package = operator.package;
        let mut entries: Vec<(Entry, String)> = Vec::new();
        for version in [operator.first.0, operator.newest.0] {
            let folder = self.bundle(package, version);
            let image = self.site.images.push_bundle(&folder, &format!("{package}:v{version}")).await?;
            let mut entry = Entry::new(package, version);
            entry.name = name_in(&folder)?;
            if let Some((before, _)) = entries.last() {
                entry.edges = json!({"replaces": before.name});
            }
            entries.push((entry, image));
        }
        Ok(entries)
    }

    async fn serve(&self, content: &str) -> Result<()> {
        let image = self.site.images.push_catalog(content, &format!("{CATALOG}:latest")).await?;
        let catalog = catalog::cluster_catalog(CATALOG, &json!({"ref": image}));
        Api::all(self.client.clone()).create(&PostParams::default(), &catalog).await?;
        self.operator.process().check_running()?;
        catalog::serves(&self.client, CATALOG, DEADLINE).await
    }

    /// Gives the operator's namespace the account that `olm bundle rbac` prints for both versions.
    pub(crate) fn grant(&self, operator: &Expected) -> Result<()> {
        let mut olm = Command::new(&self.olm);
        olm.args(["bundle", "rbac"]);
        for version in [operator.first.0, operator.newest.0] {
            olm.arg(self.bundle(operator.package, version));
        }
        olm.args(["--install-namespace", operator.package, "--service-account", ACCOUNT]);
        olm.args(["--certificate-provider", "built-in"]);
        if operator.watches_own {
            olm.args(["--watch-namespace", operator.package]);
        }
        let printed = olm.output().context("running olm")?;
        ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        kubectl::kubectl_with(&self.site.cluster, &["apply", "--server-side", "-f", "-"], &printed.stdout)
            .map(drop)
    }

    /// The audit log: bundle content was written by the accounts alone, each in its own namespace or cluster-wide,
    /// and nothing that an account asked for was forbidden.
    pub(crate) fn no_more_than_the_rights(&self, mark: u64) -> Result<()> {
        let ours =
            ["olm.operatorframework.io", "coordination.k8s.io", "events.k8s.io", "authentication.k8s.io"];
        let mut by_user: BTreeMap<String, usize> = BTreeMap::new();
        let mut wrong = Vec::new();
        for event in self.site.cluster.audit_events_since(mark)? {
            let account = event.user.strip_prefix("system:serviceaccount:");
            let installer = account.and_then(|account| account.strip_suffix(&format!(":{ACCOUNT}")));
            if installer.is_some() && event.code == 403 {
                wrong.push(format!("forbidden: {event:?}"));
            }
            if event.is_dry_run() || event.code >= 400 {
                continue;
            }
            *by_user.entry(event.user.clone()).or_default() += 1;
            let other_namespace =
                installer.is_some_and(|own| !event.namespace.is_empty() && event.namespace != own);
            if other_namespace && !event.group.starts_with("authorization") {
                wrong.push(format!("in another namespace: {event:?}"));
            }
            let is_our_own = ours.contains(&event.group.as_str())
                || event.namespace == olm_test::operator::SYSTEM_NAMESPACE
                || event.resource == "serviceaccounts" && event.subresource == "token";
            if event.user == USER && !is_our_own {
                wrong.push(format!("written by the program itself: {event:?}"));
            }
        }
        println!("\nwrites by user:");
        for (user, count) in &by_user {
            println!("  {count:6} {user}");
        }
        if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
    }
}

fn required(operators: &[&Expected]) -> BTreeMap<&'static str, Required> {
    let required = operators.iter().filter_map(|operator| match operator.wave {
        Wave::With(other) => Some((other, Required::default())),
        Wave::Together | Wave::Alone => None,
    });
    required.collect()
}

/// The name of a bundle's ClusterServiceVersion.
pub(crate) fn name_in(folder: &Path) -> Result<String> {
    for entry in std::fs::read_dir(folder.join("manifests"))? {
        let path = entry?.path();
        if !path.to_string_lossy().contains("clusterserviceversion") {
            continue;
        }
        let csv: Value = olm_yaml::one(&std::fs::read_to_string(&path)?)?;
        let name = csv["metadata"]["name"].as_str().map(str::to_owned);
        return name.with_context(|| format!("{} has no name", path.display()));
    }
    bail!("{} has no ClusterServiceVersion", folder.display())
}
