//! What a scraper sees of catalogs, and what the alerts make of it.

use olm_test::{
    prelude::*,
    promtool,
    scrape::{self, Scraper},
};

use crate::world::{Alone, Catalog, content};

const ALERT: &str = "OLMCatalogNotServing";
/// Nothing listens there.
const NOBODY: &str = "127.0.0.1:1/nothing:v1";

/// The manifests' alerts.
fn rules() -> Result<Value> {
    let path = kubectl::config("observability/prometheusrule.yaml");
    let text = std::fs::read_to_string(path)?;
    let document = olm_yaml::documents(&text).next().context("an empty file")??;
    Ok(document["spec"].clone())
}

/// A catalog that never had content is what the alert is about; one that is served or gone is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_was_never_served_makes_its_alert_fire() -> Result<()> {
    let alone = Alone::take().await?;
    let catalogd = Catalogd::start(&alone.cluster, &alone.registries.settings()).await?;
    let scraper = Scraper::new(&alone.cluster.client().await?, "default").await?;
    let family = "olm_objects";
    let not_served = |text: &str| -> Vec<String> {
        let about = |line: &&str| {
            line.starts_with("olm_objects{kind=\"ClusterCatalog\",condition=\"Serving\"")
                && !line.contains("status=\"True\"")
        };
        text.lines().filter(about).map(str::to_owned).collect()
    };

    let images = &alone.registries.images;
    let good = Catalog::named(&alone.cluster, "good").await?;
    let pushed = images.push_catalog(&content(3, 10_000), &format!("{}:v1", good.name)).await?;
    good.put(json!({ "ref": pushed })).await?;
    good.serves(&pushed).await?;
    let bad = Catalog::create(&alone.cluster, "unreachable", NOBODY).await?;
    bad.shows(Progressing, "True/Retrying/").await?;
    let series = wait::until("both catalogs to be counted", DEADLINE, async || {
        let text = scraper.read(&catalogd.metrics_url()).await?;
        let served = scrape::count(&text, family, &["ClusterCatalog", "status=\"True\""]);
        let found = not_served(&text);
        ensure!(served >= 1 && !found.is_empty(), "{served} served, {found:?}");
        Ok(found)
    })
    .await?;
    let unset = r#"olm_objects{kind="ClusterCatalog",condition="Serving",status="Unknown",reason="Unset"} 1"#;
    ensure!(series == [unset], "{series:?}");
    let series: Vec<&str> = series.iter().map(String::as_str).collect();
    let labels = json!({"severity": "warning"});
    promtool::fires(&rules()?, ALERT, &labels, &series)?;
    let silent = promtool::fires(&rules()?, ALERT, &labels, &[&series[0].replace("Unknown", "True")]);
    ensure!(silent.is_err(), "the alert fires whatever the series says");

    for catalog in [&bad, &good] {
        catalog.delete().await?;
    }
    wait::until("what is gone to count no more", DEADLINE, async || {
        let text = scraper.read(&catalogd.metrics_url()).await?;
        let counted = scrape::count(&text, family, &["ClusterCatalog"]);
        wait::check(counted == 0, || format!("{counted} are counted"))
    })
    .await
}
