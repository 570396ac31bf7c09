//! The shared cluster with a catalogd in it, and what a test does with it.

use std::{fmt::Write as _, ops::Deref};

use k8s_openapi::api::events::v1::Event;
use olm_api::v1::ClusterCatalogStatus;
use olm_test::{
    catalog,
    distribution::Distribution,
    faults::{ConnectProxy, FaultyRegistry},
    instance::Settings,
    operator::install,
    pki::Authority,
    prelude::*,
};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// The Secret with credentials for registries.
pub(crate) const PULL_SECRET: &str = "registries";
/// A host that only the proxy knows.
pub(crate) const PROXIED_HOST: &str = "registry.example";

/// Two registries that misbehave, over the real one, and files that say how to speak to them.
pub(crate) struct Registries {
    pub(crate) registry: Distribution,
    pub(crate) images: Images,
    pub(crate) faulty: FaultyRegistry,
    pub(crate) other: FaultyRegistry,
    pub(crate) directory: StateDirectory,
}

impl Registries {
    pub(crate) async fn start() -> Result<Self> {
        let registry = Distribution::start().await?;
        let images = Images::at(registry.address())?;
        let faulty = FaultyRegistry::start(&registry.url(), None)?;
        let other = FaultyRegistry::start(&registry.url(), None)?;
        let directory = StateDirectory::new("registries")?;
        let this = Self { registry, images, faulty, other, directory };
        std::fs::write(this.conf(), this.insecure())?;
        Ok(this)
    }

    /// The registries configuration.
    pub(crate) fn conf(&self) -> PathBuf {
        self.directory.path().join("registries.conf")
    }

    /// Text that makes all of them insecure.
    pub(crate) fn insecure(&self) -> String {
        [self.registry.address(), self.faulty.address(), self.other.address()]
            .map(|host| format!("[[registry]]\nlocation = {host:?}\ninsecure = true\n"))
            .concat()
    }

    /// How a catalogd is told of them.
    pub(crate) fn settings(&self) -> Settings {
        Settings::default().env("CONTAINERS_REGISTRIES_CONF", self.conf().display().to_string())
    }
}

/// A control plane, registries, and a catalogd behind a proxy.
pub(crate) struct World {
    pub(crate) catalogd: Catalogd,
    pub(crate) proxy: ConnectProxy,
    /// Folder of authorities for registries.
    pub(crate) authorities: PathBuf,
    site: Alone,
}

impl Deref for World {
    type Target = Alone;

    fn deref(&self) -> &Alone {
        &self.site
    }
}

impl World {
    async fn start() -> Result<Self> {
        let site = Alone::start().await?;
        let registries = &site.registries;
        let proxy = ConnectProxy::start()?;
        let authorities = registries.directory.path().join("authorities");
        std::fs::create_dir(&authorities)?;
        // Without any certificate the program would not start.
        let nobody = Authority::new("nobody")?.identity().certificate;
        std::fs::write(authorities.join("nobody.crt"), nobody)?;
        let settings = registries
            .settings()
            .env("HTTPS_PROXY", proxy.url())
            .env("NO_PROXY", "127.0.0.1,localhost")
            .arg(format!("--pull-cas-dir={}", authorities.display()))
            .arg(format!("--global-pull-secret={SYSTEM_NAMESPACE}/{PULL_SECRET}"));
        let catalogd = Catalogd::start(&site.cluster, &settings).await?;
        Ok(Self { catalogd, proxy, authorities, site })
    }

    /// The world that tests share which do not disturb each other.
    pub(crate) async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<World> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// Logs in to registries with these users and passwords, by host.
    pub(crate) async fn set_credentials(&self, logins: &[(&str, &str, &str)]) -> Result<()> {
        // One Secret for all tests: what another test wrote stays.
        static WRITTEN: Mutex<BTreeMap<String, Value>> = Mutex::const_new(BTreeMap::new());
        let mut auths = WRITTEN.lock().await;
        for (key, user, password) in logins {
            auths.insert((*key).to_owned(), json!({ "username": user, "password": password }));
        }
        let api: Api<Secret> = Api::namespaced(self.cluster.client().await?, SYSTEM_NAMESPACE);
        let config = json!({ "auths": *auths }).to_string();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": { "name": PULL_SECRET }, "stringData": { ".dockerconfigjson": config },
        });
        api.patch(PULL_SECRET, &PatchParams::apply("olm-test").force(), &Patch::Apply(&secret)).await?;
        Ok(())
    }
}

/// A cluster and registries: under a [`World`], or for tests that start catalogds of their own, one test after another.
pub(crate) struct Alone {
    pub(crate) registries: Registries,
    pub(crate) cluster: Cluster,
}

impl Alone {
    async fn start() -> Result<Self> {
        let options = Options { nodes: 0, ..Options::default() };
        let (cluster, registries) = tokio::try_join!(Cluster::start(options), Registries::start())?;
        install(&cluster)?;
        Ok(Self { registries, cluster })
    }

    /// Waits for its turn.
    pub(crate) async fn take() -> Result<MutexGuard<'static, Self>> {
        static SHARED: OnceCell<Mutex<Alone>> = OnceCell::const_new();
        let start = || async { Self::start().await.map(Mutex::new) };
        Ok(SHARED.get_or_try_init(start).await?.lock().await)
    }
}

/// One catalog.
pub(crate) struct Catalog {
    pub(crate) name: String,
    pub(crate) api: Api<ClusterCatalog>,
    pub(crate) client: Client,
}

impl Catalog {
    /// A catalog of an image; the name begins with `base`.
    pub(crate) async fn create(cluster: &Cluster, base: &str, reference: &str) -> Result<Self> {
        let this = Self::named(cluster, base).await?;
        this.put(json!({ "ref": reference })).await?;
        Ok(this)
    }

    /// A name that no catalog has.
    pub(crate) async fn named(cluster: &Cluster, base: &str) -> Result<Self> {
        let client = cluster.client().await?;
        Ok(Self { name: unique_name(base), api: Api::all(client.clone()), client })
    }

    /// Creates the object, with this `image`.
    pub(crate) async fn put(&self, image: Value) -> Result<()> {
        let catalog = catalog::cluster_catalog(&self.name, &image);
        self.api.make(&catalog).await?;
        Ok(())
    }

    pub(crate) async fn patch(&self, patch: Value) -> Result<()> {
        self.api.merge(&self.name, &patch).await?;
        Ok(())
    }

    pub(crate) async fn set_reference(&self, reference: &str) -> Result<()> {
        self.patch(json!({ "spec": { "source": { "image": { "ref": reference } } } })).await
    }

    pub(crate) async fn status(&self) -> Result<ClusterCatalogStatus> {
        Ok(self.api.get(&self.name).await?.status.unwrap_or_default())
    }

    /// `Status/Reason/Message` of a condition, or nothing.
    pub(crate) async fn condition(&self, type_: ConditionType) -> Result<String> {
        let status = self.status().await?;
        Ok(condition_text(&status.conditions, type_))
    }

    /// Waits until a condition begins like this; answers the whole.
    pub(crate) async fn shows(&self, type_: ConditionType, wanted: &str) -> Result<String> {
        wait::until(&format!("{type_} of {} to be {wanted}", self.name), DEADLINE, || async {
            let found = self.condition(type_).await?;
            wait::check(found.starts_with(wanted), || format!("it is {found:?}"))?;
            Ok(found)
        })
        .await
    }

    /// Waits until the content of this digest reference's digest is said to be served.
    pub(crate) async fn serves(&self, reference: &str) -> Result<()> {
        let digest = reference.rsplit_once('@').map_or(reference, |(_, digest)| digest);
        wait::until(&format!("{} to serve {digest}", self.name), DEADLINE, || async {
            let status = self.status().await?;
            let resolved = status.resolved_source.map(|source| source.image.ref_).unwrap_or_default();
            let progressing = status.conditions.find(ConditionType::Progressing);
            let is_done = progressing.is_some_and(|condition| condition.reason == "Succeeded");
            let serving = status.conditions.is_true(ConditionType::Serving);
            wait::check(serving && is_done && resolved.ends_with(digest), || {
                format!("serving {resolved:?}, {:?}", progressing.map(|condition| &condition.message))
            })
        })
        .await
    }

    /// Reasons and notes of its Events.
    pub(crate) async fn events(&self) -> Result<Vec<String>> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let field = format!("regarding.name={}", self.name);
        let events = api.list(&ListParams::default().fields(&field)).await?;
        let text = |event: Event| {
            format!("{}: {}", event.reason.unwrap_or_default(), event.note.unwrap_or_default())
        };
        Ok(events.items.into_iter().map(text).collect())
    }

    pub(crate) async fn delete(&self) -> Result<()> {
        self.api.remove(&self.name).await?;
        self.api.gone(&self.name).await
    }
}

/// A client that believes every certificate and asks no proxy.
pub(crate) fn trusting() -> Result<reqwest::Client> {
    Ok(reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build()?)
}

/// The whole of a catalog as it is served.
pub(crate) async fn all(catalogd: &Catalogd, catalog: &str) -> Result<String> {
    let answer = trusting()?.get(catalogd.all(catalog)).send().await?;
    ensure!(answer.status().is_success(), "{}: {}", answer.status(), answer.text().await?);
    Ok(answer.text().await?)
}

/// Content of a catalog of about this many bytes that does not compress well; `seed` makes it another.
pub(crate) fn content(seed: u64, bytes: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = String::new();
    let mut number = 0;
    while text.len() < bytes {
        let noise: String = std::iter::repeat_with(|| random.alphanumeric()).take(2_000).collect();
        let document = json!({"name": format!("p{seed}-{number}"), "noise": noise, "schema": "olm.package"});
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{document}");
        number += 1;
    }
    text
}

/// Every file below a folder, by its path there, without the compressed forms of contents: they come later.
pub(crate) fn files(folder: &std::path::Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        // What is removed while it is looked at is not there.
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if !entry.file_name().to_string_lossy().ends_with("segments") {
                found.push(entry.path().strip_prefix(folder)?.display().to_string());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// An authority and a server certificate of it for the host that only the proxy knows.
pub(crate) fn proxied_identity() -> Result<(Authority, olm_test::pki::Identity)> {
    let authority = Authority::new("registries")?;
    let identity = authority.server(PROXIED_HOST, &[PROXIED_HOST])?;
    Ok((authority, identity))
}
