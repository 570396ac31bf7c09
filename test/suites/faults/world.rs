//! The cluster with the proxy before it, and our program behind the proxy.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use olm_api::{
    ConditionType,
    v1::{ClusterCatalog, ClusterExtension},
};
use olm_test::{
    cluster::{Cluster, Options},
    images::{Images, bundle_files, catalog},
    operator::{self, Operator},
    proxy::Proxy,
    registry::Registry,
    rights::{create_account, grant, rules_for},
    wait,
};
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// For anything that should happen by itself. Generous: two cores run a whole control plane.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);
/// For what the cluster's own controllers do about a deletion. The collector learns of new kinds every 30 s only, and
/// goes slower after a miss. The API server, which removes a CRD, waits twice as long after each conflict over one of
/// that name, up to 1000 s: after hundreds of lives there were some.
pub(crate) const COLLECTED: Duration = Duration::from_mins(20);
/// The package of the sample operator.
pub(crate) const PACKAGE: &str = "lighthouse-operator";
/// The account that installs.
pub(crate) const ACCOUNT: &str = "installer";
/// The API group of the sample operator as it is shipped.
const SAMPLE_GROUP: &str = "lighthouse.example.com";

/// A control plane, a registry, a proxy and our program.
pub(crate) struct World {
    pub(crate) operator: Operator,
    pub(crate) images: Images,
    pub(crate) proxy: Proxy,
    pub(crate) cluster: Cluster,
    _registry: Registry,
}

impl World {
    pub(crate) async fn start(flags: &[&str]) -> Result<Self> {
        let (cluster, registry) = (Cluster::start(Options::default()).await?, Registry::start()?);
        let images = Images::new(&registry)?;
        let proxy = Proxy::start(&operator::kubeconfig(&cluster)?).await?;
        let operator = Operator::start_as(&cluster, proxy.kubeconfig(), &images, flags).await?;
        Ok(Self { operator, images, proxy, cluster, _registry: registry })
    }

    /// The world of all tests, for one test at a time; nothing is disturbed, and the program has just started.
    pub(crate) async fn alone() -> Result<MutexGuard<'static, Self>> {
        static SHARED: OnceCell<Mutex<World>> = OnceCell::const_new();
        let world = SHARED
            .get_or_try_init(|| async {
                Self::start(&["--max-concurrent-reconciles=1"]).await.map(Mutex::new)
            })
            .await?;
        let world = world.lock().await;
        world.proxy.reset();
        world.restart().await?;
        world.empty().await?;
        Ok(world)
    }

    /// Removes what a test that failed left: its objects would be in the way of the next one's.
    async fn empty(&self) -> Result<()> {
        let extensions: Api<ClusterExtension> = Api::all(self.cluster.client().await?);
        wait::until("the extensions of failed tests to be gone", DEADLINE, async || {
            let left = extensions.list(&ListParams::default()).await?.items;
            for extension in &left {
                // It may be gone by now.
                drop(extensions.delete(&extension.name_any(), &DeleteParams::default()).await);
            }
            let names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
            wait::check(names.is_empty(), || format!("{names:?}"))
        })
        .await
    }

    /// Kills the program and starts it again.
    pub(crate) async fn restart(&self) -> Result<()> {
        self.operator.process().kill()?;
        // What was stopped shall not reach the cluster after the death of who sent it.
        self.proxy.thaw();
        self.operator.process().restart()?;
        self.operator.ready().await
    }
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
    directory: tempfile::TempDir,
}

impl Sample {
    /// Pushes the versions, and creates everything but the extension.
    pub(crate) async fn new(world: &World, name: &str, versions: &[&'static str]) -> Result<Self> {
        let client = world.cluster.client().await?;
        world.cluster.create_namespace(name).await?;
        let directory = tempfile::tempdir()?;
        let mut sample = Self { name: name.to_owned(), images: Vec::new(), folders: Vec::new(), directory };
        for version in versions {
            let folder = sample.write(version)?;
            let image = world.images.push_bundle(&folder, &format!("{name}/{PACKAGE}:v{version}")).await?;
            sample.images.push((version, image));
            sample.folders.push(folder);
        }
        sample.publish(world, versions).await?;
        let catalog: ClusterCatalog = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
            "metadata": {"name": name},
            "spec": {"source": {"type": "Image", "image": {
                "ref": format!("{}/{name}-catalog:latest", world.images.host()), "pollIntervalMinutes": 60,
            }}},
        }))?;
        Api::all(client.clone()).create(&PostParams::default(), &catalog).await?;
        sample.give_account(&client).await?;
        catalog_serves(&client, name).await?;
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
        let content = format!("{}{more}", catalog(PACKAGE, &bundles));
        world.images.push_catalog(&content, &format!("{}-catalog:latest", self.name)).await
    }

    /// Writes a bundle: the sample with the group replaced, a Secret, and an object that only this version has.
    fn write(&self, version: &str) -> Result<PathBuf> {
        let samples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../config/samples/lighthouse/bundles");
        let folder = self.directory.path().join(version);
        for part in ["manifests", "metadata"] {
            fs::create_dir_all(folder.join(part))?;
            for entry in fs::read_dir(samples.join(version).join(part))? {
                let entry = entry?;
                let text = fs::read_to_string(entry.path())?
                    .replace(SAMPLE_GROUP, &format!("{}.example.com", self.name));
                fs::write(folder.join(part).join(entry.file_name()), text)?;
            }
        }
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

/// Waits until a catalog serves.
pub(crate) async fn catalog_serves(client: &Client, name: &str) -> Result<()> {
    let api: Api<ClusterCatalog> = Api::all(client.clone());
    wait::until("the catalog to serve", DEADLINE, async || {
        let status = api.get(name).await?.status.unwrap_or_default();
        let told = status.conditions.find(ConditionType::Progressing).map(|c| c.message.clone());
        wait::check(status.conditions.is_true(ConditionType::Serving), || told.unwrap_or_default())
    })
    .await
}
