//! catalogd killed fifty times in the middle of its work: what is served is always one whole content, and
//! nothing is left on disk that is not collected.

use olm_test::prelude::*;

use crate::world::{Alone, Catalog, content, files, trusting};

const KILLS: u32 = 50;
const BYTES: usize = 1_500_000;

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_moments_it_serves_whole_contents_only() -> Result<()> {
    let seed =
        std::env::var("OLM_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("OLM_TEST_SEED={seed}");
    killed(&mut fastrand::Rng::with_seed(seed)).await.with_context(|| format!("OLM_TEST_SEED={seed}"))
}

async fn killed(random: &mut fastrand::Rng) -> Result<()> {
    let alone = Alone::take().await?;
    let images = &alone.registries.images;
    let catalogd = Catalogd::start(&alone.cluster, &alone.registries.settings()).await?;
    let catalog = Catalog::named(&alone.cluster, "killed").await?;
    let contents = [content(1, BYTES), content(2, BYTES)];
    let mut digests = Vec::new();
    for (tag, content) in contents.iter().enumerate() {
        digests.push(images.push_catalog(content, &format!("{}:v{tag}", catalog.name)).await?);
    }
    let reference = |tag: usize| format!("{}/{}:v{tag}", images.host(), catalog.name);
    catalog.put(serde_json::json!({ "ref": reference(0) })).await?;
    catalog.serves(&digests[0]).await?;
    // How long a change and a start take when nobody interferes: the moments to choose from.
    let begin = Instant::now();
    catalog.set_reference(&reference(1)).await?;
    catalog.serves(&digests[1]).await?;
    let change = begin.elapsed();
    let begin = Instant::now();
    catalogd.process().restart()?;
    catalogd.ready().await?;
    let start = begin.elapsed();

    let mut tag = 1;
    let mut seen = BTreeSet::new();
    for round in 0..KILLS {
        let round_text = || format!("kill {round} of {KILLS}");
        let moment = if round % 3 == 2 {
            // While it starts, with a change waiting.
            catalogd.process().restart()?;
            random_part(random, start)
        } else {
            tag = 1 - tag;
            catalog.set_reference(&reference(tag)).await?;
            random_part(random, change)
        };
        tokio::time::sleep(moment).await;
        catalogd.process().restart()?;
        seen.insert(first_answer(&catalogd, &catalog.name, &contents).await.with_context(round_text)?);
        if random.u8(..) < 64 {
            catalog.serves(&digests[tag]).await.with_context(round_text)?;
        }
    }
    catalog.serves(&digests[tag]).await?;
    println!("contents met after a kill: {seen:?}");
    wait::until("nothing but the content served to be on disk", DEADLINE, || async {
        let folder = format!("catalogs/{}", catalog.name);
        let digest = digests[tag].rsplit_once('@').map(|(_, digest)| digest).unwrap_or_default();
        let mut wanted: Vec<String> = ["catalog.jsonl", "generation", "index", "packages"]
            .iter()
            .map(|file| format!("{folder}/{digest}/{file}"))
            .collect();
        wanted.insert(0, format!("{folder}/resolution"));
        let mut left = files(&catalogd.cache())?;
        // Other tests may have left catalogs of theirs.
        left.retain(|file| {
            file.starts_with(&folder) || !file.starts_with("catalogs/") || file.contains("/.")
        });
        ensure!(left == wanted, "{left:?}");
        // Made after the rest, at leisure.
        let compressed = catalogd.cache().join(&folder).join(digest).join("segments");
        wait::check(compressed.is_file(), || format!("{} is not there", compressed.display()))
    })
    .await?;
    catalog.delete().await
}

fn random_part(random: &mut fastrand::Rng, whole: Duration) -> Duration {
    whole.mul_f64(random.f64() * 1.2)
}

/// The first answer after a start: it must be one of the contents, whole. Which one it was.
async fn first_answer(catalogd: &Catalogd, catalog: &str, contents: &[String; 2]) -> Result<usize> {
    let client = trusting()?;
    wait::until("an answer", DEADLINE, || async {
        catalogd.process().check_running()?;
        let answer = client.get(catalogd.all(catalog)).send().await?;
        let status = answer.status();
        // It may say for a moment that newer content is on its way, never that there is none.
        if status == reqwest::StatusCode::NOT_FOUND {
            return Err(wait::Final("content that was served is gone after a start".into()).into());
        }
        ensure!(status.is_success(), "{status}");
        let body = answer.text().await?;
        let found = contents.iter().position(|content| *content == body);
        found.ok_or_else(|| wait::Final(format!("{} bytes that are neither content", body.len())).into())
    })
    .await
}
