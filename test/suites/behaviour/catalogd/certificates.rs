//! Serving certificates: made, kept and renewed by the program.

use olm_test::prelude::*;

use crate::world::Alone;

const NAME: &str = "catalogd-serving-cert";

/// The bundle that clients have to trust.
async fn bundle(cluster: &Cluster) -> Result<String> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await?, SYSTEM_NAMESPACE);
    let data = maps.get(NAME).await?.data.unwrap_or_default();
    data.get("ca.crt").cloned().context("no ca.crt in the ConfigMap")
}

/// Asks a server, trusting nothing but a bundle.
async fn asked(url: &str, bundle: &str) -> Result<reqwest::StatusCode> {
    let authorities = reqwest::Certificate::from_pem_bundle(bundle.as_bytes())?;
    let client = reqwest::Client::builder().no_proxy().tls_certs_only(authorities).build()?;
    Ok(client.get(url).send().await?.status())
}

async fn is_trusted(cluster: &Cluster, url: &str) -> Result<()> {
    wait::until("the server to be trusted", DEADLINE, async || {
        asked(url, &bundle(cluster).await?).await.map(drop)
    })
    .await
}

// Certificates need nobody else, and two replicas and a restart use the same one.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_made_kept_published_and_renewed() -> Result<()> {
    let alone = Alone::take().await?;
    let cluster = &alone.cluster;
    let secrets: Api<Secret> = Api::namespaced(cluster.client().await?, SYSTEM_NAMESPACE);
    let catalogd = Catalogd::start(cluster, &alone.registries.settings()).await?;
    is_trusted(cluster, &catalogd.catalogs_url()).await?;
    let first = secrets.get(NAME).await?;
    ensure!(first.type_.as_deref() == Some("kubernetes.io/tls"), "{:?}", first.type_);
    let first_bundle = bundle(cluster).await?;

    let second = Catalogd::start(cluster, &alone.registries.settings()).await?;
    asked(&second.catalogs_url(), &first_bundle).await.context("the other replica")?;
    drop(second);
    catalogd.process().restart()?;
    catalogd.ready().await?;
    asked(&catalogd.catalogs_url(), &first_bundle).await.context("after a restart")?;
    ensure!(secrets.get(NAME).await?.data == first.data, "a start writes nothing");

    // Somebody removes the Secret: another certificate, without a restart.
    secrets.remove(NAME).await?;
    wait::until("another certificate", DEADLINE, async || {
        let now = secrets.get(NAME).await?;
        ensure!(now.data != first.data, "the same");
        ensure!(bundle(cluster).await? != first_bundle, "the same bundle");
        Ok(())
    })
    .await?;
    is_trusted(cluster, &catalogd.catalogs_url()).await?;
    ensure!(
        asked(&catalogd.catalogs_url(), &first_bundle).await.is_err(),
        "the old certificate is still served"
    );

    // Somebody spoils it: replaced again, and the authority before stays in the bundle.
    let before = bundle(cluster).await?;
    let spoilt = json!({ "data": { "tls.crt": "bm9uZQ==" } });
    secrets.merge(NAME, &spoilt).await?;
    let now = async || bundle(cluster).await;
    eventually("the certificate to be replaced", now, |now| *now != before && now.contains(&before)).await?;
    is_trusted(cluster, &catalogd.catalogs_url()).await?;
    drop(catalogd);

    // catalogd inside operator-controller keeps the same one.
    let operator = Operator::start_installed_with(cluster, &alone.registries.images.settings(&[])).await?;
    is_trusted(cluster, &operator.catalogs_url()).await
}
