//! Catalogs of both generations in one process, with one store.

use olm_test::{
    catalog::{self, cluster_catalog, serves},
    classic::{self, Classic, Source, listed_packages},
    faults::{FaultyRegistry, basic},
    instance::Settings,
    prelude::*,
};

/// A cluster with both kinds of catalogs, a registry that counts its requests, and what is started there.
struct Both {
    cluster: Cluster,
    client: Client,
    counting: FaultyRegistry,
    images: Images,
    _registry: Registry,
    settings: Settings,
    namespace: String,
}

impl Both {
    async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options { nodes: 0, ..Options::default() }).await?;
        classic::install(&cluster)?;
        classic::install_cluster_catalogs(&cluster)?;
        let registry = Registry::start()?;
        let images = Images::new(&registry)?;
        let counting = FaultyRegistry::start(&registry.url(), None)?;
        let settings = images
            .settings(&[&format!("--insecure-registry={}", counting.address())])
            .arg("--cluster-catalogs")
            .arg("--leader-elect");
        let (client, namespace) = (cluster.client().await?, unique_name("both"));
        cluster.create_namespace(&namespace).await?;
        Ok(Self { cluster, client, counting, images, _registry: registry, settings, namespace })
    }

    /// Pushes a catalog with one package, and returns its reference at the registry that counts.
    async fn push(&self, repository: &str) -> Result<String> {
        let entry = catalog::Entry::new(repository, "1.0.0");
        let text = catalog::text(&[(entry, "r/bundle:v1".to_owned())]);
        let pushed = self.images.push_catalog(&text, &format!("{repository}:v1")).await?;
        let (_, digest) = pushed.rsplit_once('@').context("no digest")?;
        Ok(format!("{}/{repository}@{digest}", self.counting.address()))
    }

    /// How often a layer or config of a repository was asked for.
    fn blobs(&self, repository: &str) -> usize {
        self.counting.seen(repository).iter().filter(|seen| seen.request.contains("/blobs/")).count()
    }

    async fn source(&self, name: &str, image: &str) -> Result<Source> {
        let spec = json!({"sourceType": "grpc", "image": image, "secrets": ["login"]});
        Source::create(&self.cluster, &self.namespace, name, json!({}), spec).await
    }

    fn catalogs(&self) -> Api<ClusterCatalog> {
        Api::all(self.client.clone())
    }

    async fn catalog(&self, name: &str, image: &str) -> Result<()> {
        self.catalogs().make(cluster_catalog(name, &json!({"ref": image}))).await.map(drop)
    }

    /// Waits until the registry API has a package of the source of this name.
    async fn lists(&self, name: &str) -> Result<()> {
        let packages = async || listed_packages(&self.cluster, &self.namespace, name).await;
        eventually("the registry API", packages, |packages| *packages == [name]).await
    }
}

/// Waits until the content of a ClusterCatalog is answered with this status, and for 200 with its package.
async fn answers(program: &Classic, catalog: &str, wanted: u16) -> Result<()> {
    wait::until("the content server", DEADLINE, || async {
        let (status, text) = program.content(catalog).await?;
        let has = text.contains(&format!("\"package\":\"{catalog}\""));
        wait::check(status == wanted && (wanted != 200 || has), || format!("{status} {text}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_both_kinds_have_is_pulled_once_and_outlives_either() -> Result<()> {
    let both = Both::start().await?;
    let program = Classic::start(&both.cluster, &both.settings).await?;
    let [lamp, bulb] = ["lamp", "bulb"];
    let (of_lamp, of_bulb) = (both.push(lamp).await?, both.push(bulb).await?);
    // The source comes first, then the catalog; and the other way round.
    let source = both.source(lamp, &of_lamp).await?;
    source.shows("READY", "", "True/Serving").await?;
    both.catalog(bulb, &of_bulb).await?;
    serves(&both.client, bulb, DEADLINE).await?;
    let pulled = (both.blobs(lamp), both.blobs(bulb));
    ensure!(pulled.0 > 0 && pulled.1 > 0, "{pulled:?}");
    both.catalog(lamp, &of_lamp).await?;
    serves(&both.client, lamp, DEADLINE).await?;
    let second = both.source(bulb, &of_bulb).await?;
    second.shows("READY", "", "True/Serving").await?;
    for name in [lamp, bulb] {
        both.lists(name).await?;
        answers(&program, name, 200).await?;
        let of_source = format!("{}_{name}", both.namespace);
        ensure!(program.content(&of_source).await?.0 == 400, "content of sources is not a catalog's");
    }
    let check = format!("HEAD /v2/{lamp}/manifests/");
    ensure!(both.counting.seen(lamp).iter().any(|seen| seen.request.starts_with(&check)), "no check");

    program.process().kill()?;
    program.process().restart()?;
    program.ready().await?;
    for name in [lamp, bulb] {
        both.lists(name).await?;
        answers(&program, name, 200).await?;
    }

    // Each goes alone, also for the next process.
    both.catalogs().remove(lamp).await?;
    both.catalogs().gone(lamp).await?;
    second.api.remove(bulb).await?;
    answers(&program, lamp, 404).await?;
    both.lists(lamp).await?;
    answers(&program, bulb, 200).await?;
    program.process().kill()?;
    program.process().restart()?;
    program.ready().await?;
    both.lists(lamp).await?;
    answers(&program, bulb, 200).await?;
    answers(&program, lamp, 404).await?;
    ensure!((both.blobs(lamp), both.blobs(bulb)) == pulled, "content was pulled again");
    for lease in ["olm-classic", catalogd::LEASE] {
        kubectl(&both.cluster, &["get", "lease", "-n", classic::NAMESPACE, lease])?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn private_content_of_a_source_is_not_a_cluster_catalogs() -> Result<()> {
    let both = Both::start().await?;
    let program = Classic::start(&both.cluster, &both.settings).await?;
    let name = "private";
    let image = both.push(name).await?;
    both.counting.require(name, "user", "password");
    let login = basic("user", "password");
    let auth = login.strip_prefix("Basic ").context("no credentials")?;
    let config = json!({"auths": {both.counting.address(): {"auth": auth}}}).to_string();
    let secrets: Api<Secret> = Api::namespaced(both.client.clone(), &both.namespace);
    let secret = json!({
        "metadata": {"name": "login"}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": config},
    });
    secrets.make(secret).await?;
    both.source(name, &image).await?.shows("READY", "", "True/Serving").await?;
    both.lists(name).await?;
    both.catalog(name, &image).await?;
    let message = async || -> Result<String> {
        let conditions = both.catalogs().get(name).await?.status.unwrap_or_default().conditions;
        Ok(conditions.find(Progressing).map(|one| one.message.clone()).unwrap_or_default())
    };
    eventually("the catalog to be refused", message, |text| text.contains("401")).await?;
    answers(&program, name, 404).await?;
    // The catalog that failed takes nothing from the source.
    both.catalogs().remove(name).await?;
    both.catalogs().gone(name).await?;
    both.lists(name).await
}
