//! The cluster with the proxy before it, and our program behind the proxy.

use olm_test::{
    bundle::{LIGHTHOUSE_GROUP, copy},
    catalog::{self, chain, cluster_catalog},
    images::bundle_files,
    instance::Instance,
    prelude::*,
    proxy::Proxy,
};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// For what the cluster's own controllers do about a deletion. The collector learns of new kinds every 30 s only, and
/// goes slower after a miss. The API server, which removes a CRD, waits twice as long after each conflict over one of
/// that name, up to 1000 s: after hundreds of lives there were some.
pub(crate) const COLLECTED: Duration = Duration::from_mins(20);
/// The package of the sample operator.
pub(crate) const PACKAGE: &str = "lighthouse-operator";
/// The world of all tests, for one test at a time; nothing is disturbed, and the program has just started.
pub(crate) async fn alone() -> Result<MutexGuard<'static, World>> {
    static SHARED: OnceCell<Mutex<World>> = OnceCell::const_new();
    let start =
        || async { World::start_behind_proxy(&["--max-concurrent-reconciles=1"]).await.map(Mutex::new) };
    let world = SHARED.get_or_try_init(start).await?.lock().await;
    world.proxy().reset();
    restart(&world.operator, world.proxy()).await?;
    empty(&world).await?;
    Ok(world)
}

/// Removes what a test that failed left: its objects would be in the way of the next one's.
async fn empty(world: &World) -> Result<()> {
    let extensions: Api<ClusterExtension> = Api::all(world.cluster.client().await?);
    wait::until("the extensions of failed tests to be gone", DEADLINE, async || {
        let left = extensions.all().await?;
        for extension in &left {
            // It may be gone by now.
            drop(extensions.delete(&extension.name_any(), &DeleteParams::default()).await);
        }
        let names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
        wait::check(names.is_empty(), || format!("{names:?}"))
    })
    .await
}

/// Kills a program behind a proxy and starts it again.
pub(crate) async fn restart(program: &Instance, proxy: &Proxy) -> Result<()> {
    program.process().kill()?;
    // What was stopped shall not reach the cluster after the death of who sent it.
    proxy.thaw();
    program.process().restart()?;
    program.ready().await
}

/// Whether everything is to be run, as `make test-faults` does, not a sample.
pub(crate) fn everything() -> bool {
    olm_test::long::is_asked()
}

/// The same choices in every sample: what fails in it is new.
const SEED_OF_A_SAMPLE: u64 = 8;

/// The seed of this run: `OLM_TEST_SEED`, else another one each time that everything is run. It is printed.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("OLM_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| if everything() { fastrand::u64(..) } else { SEED_OF_A_SAMPLE });
    println!("OLM_TEST_SEED={seed}");
    seed
}

/// The sample operator under an API group of its own, with a namespace, a catalog and an account: what an
/// extension named `name` needs.
pub(crate) struct Sample {
    pub(crate) name: String,
    images: Vec<(&'static str, String)>,
    folders: Vec<PathBuf>,
    /// The version whose Deployment finds no node.
    broken: Option<&'static str>,
    directory: tempfile::TempDir,
}

impl Sample {
    /// Pushes the versions, and creates everything but the extension.
    pub(crate) async fn new(world: &World, name: &str, versions: &[&'static str]) -> Result<Self> {
        Self::with_broken(world, name, versions, None).await
    }

    /// The same, with a version that never becomes available.
    pub(crate) async fn with_broken(
        world: &World,
        name: &str,
        versions: &[&'static str],
        broken: Option<&'static str>,
    ) -> Result<Self> {
        let client = world.cluster.client().await?;
        world.cluster.create_namespace(name).await?;
        let directory = tempfile::tempdir()?;
        let mut sample =
            Self { name: name.to_owned(), images: Vec::new(), folders: Vec::new(), broken, directory };
        for version in versions {
            let folder = sample.write(version)?;
            let image = world.images.push_bundle(&folder, &format!("{name}/{PACKAGE}:v{version}")).await?;
            sample.images.push((version, image));
            sample.folders.push(folder);
        }
        sample.publish(world, versions).await?;
        let reference = format!("{}/{name}-catalog:latest", world.images.host());
        let catalog = cluster_catalog(name, &json!({"ref": reference, "pollIntervalMinutes": 60}));
        Api::all(client.clone()).create(&PostParams::default(), &catalog).await?;
        sample.give_account(&client).await?;
        catalog::serves(&client, name, DEADLINE).await?;
        Ok(sample)
    }

    /// The account with exactly the rights for all versions.
    pub(crate) async fn give_account(&self, client: &Client) -> Result<()> {
        create_account(client, &self.name, ACCOUNT).await?;
        let files: Vec<_> = self.folders.iter().map(|folder| bundle_files(folder)).collect::<Result<_>>()?;
        grant(client, &self.name, ACCOUNT, &rules_for(&files, &self.name)?).await
    }

    /// Lets the catalog's tag hold these versions, in upgrade order.
    pub(crate) async fn publish(&self, world: &World, versions: &[&str]) -> Result<String> {
        self.publish_with(world, versions, "").await
    }

    /// The same, with more documents in the catalog.
    pub(crate) async fn publish_with(&self, world: &World, versions: &[&str], more: &str) -> Result<String> {
        let bundles: Vec<(&str, &str)> = self
            .images
            .iter()
            .filter(|(version, _)| versions.contains(version))
            .map(|(version, image)| (*version, image.as_str()))
            .collect();
        ensure!(bundles.len() == versions.len(), "not all of {versions:?} were pushed");
        let content = format!("{}{more}", chain(PACKAGE, &bundles));
        world.images.push_catalog(&content, &format!("{}-catalog:latest", self.name)).await
    }

    /// Writes a bundle: the sample with the group replaced, a Secret, and an object that only this version has.
    fn write(&self, version: &str) -> Result<PathBuf> {
        const CONTAINERS: &str = "                containers:\n";
        let folder = self.directory.path().join(version);
        let no_node = format!("                nodeSelector: {{nowhere: \"true\"}}\n{CONTAINERS}");
        let of_pods = if self.broken == Some(version) { &no_node } else { CONTAINERS };
        let group = format!("{}.example.com", self.name);
        copy(&lighthouse(version), &folder, &[(LIGHTHOUSE_GROUP, &group), (CONTAINERS, of_pods)])?;
        let only = format!("only-{}", version.replace('.', "-"));
        let more = [
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lighthouse-key"}, "stringData": {"key": version}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": only}, "data": {"version": version}}),
        ];
        for (index, object) in more.iter().enumerate() {
            fs::write(folder.join(format!("manifests/more-{index}.yaml")), object.to_string())?;
        }
        Ok(folder)
    }
}
