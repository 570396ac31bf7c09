//! Catalogs, their content, and the rights that follow from it.

use cucumber::{gherkin::Step, given, then, when};
use olm_test::{catalog, permissions, prelude::*};

use super::Outcome;
use crate::{
    bundles::Bundle,
    world::{ACCOUNT, DEADLINE, World, at_home},
};

/// Pushes the bundles of a table and a catalog of them as `<id>-<catalog>:<tag>`; the account gets the rights for
/// everything offered so far. Returns the reference by digest, and the one by tag. All references name the host as the
/// cluster does.
async fn push(w: &mut World, name: &str, tag: &str, step: &Step) -> Result<(String, String)> {
    at_home(w).await?;
    let host = w.place.pulled(w.place.images.host());
    push_for(w, &host, name, tag, step).await
}

/// The same, with the references naming another host.
async fn push_for(w: &mut World, host: &str, name: &str, tag: &str, step: &Step) -> Result<(String, String)> {
    let registry = w.place.images.host();
    let named = |reference: &str| reference.replacen(registry, host, 1);
    let rows = &step.table.as_ref().context("the step has no table below it")?.rows;
    let (head, rows) = rows.split_first().context("an empty table")?;
    let mut pushed = Vec::new();
    for row in rows {
        let bundle = Bundle::read(&w.id, head, row)?;
        let made = bundle.made(w.place.facts());
        // Catalogs list their bundles apart, so that the same one in two catalogs has two images.
        let image =
            format!("{}/{name}-{}:v{}", w.id, made.entry.package, made.entry.version.replace('+', "-"));
        let image = w.place.images.push_made(&made, &image).await?;
        w.offered.push(bundle);
        pushed.push((made.entry, named(&image)));
    }
    grant(w, &w.id, ACCOUNT).await?;
    let repository = format!("{}-{name}:{tag}", w.id);
    let by_digest = w.place.images.push_catalog(&catalog::text(&pushed), &repository).await?;
    Ok((named(&by_digest), format!("{host}/{repository}")))
}

/// Gives an account of an install namespace the rights for everything offered, without what is withheld.
async fn grant(w: &World, namespace: &str, account: &str) -> Result<()> {
    let files: Vec<_> =
        w.offered.iter().map(|bundle| bundle.for_all_namespaces().made(w.place.facts()).files()).collect();
    let mut rules = permissions::rules_for(&files, namespace)?;
    if let Some((verb, resource)) = &w.withheld {
        rules.withhold(verb, resource);
    }
    permissions::grant(&w.client, namespace, account, &rules).await
}

async fn create(w: &mut World, name: &str, image: Value, priority: i64) -> Result<()> {
    let name = format!("{}-{name}", w.id);
    let object = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
        "metadata": {"name": name, "labels": {"scenario": w.id}},
        "spec": {"priority": priority, "source": {"type": "Image", "image": image}},
    });
    w.create(&object).await
}

async fn serves(w: &World, name: &str) -> Result<()> {
    let parts = json!({"status": {"conditions": [{"type": "Serving", "status": "True"}]}});
    w.includes("ClusterCatalog", &format!("{}-{name}", w.id), &parts).await
}

#[given(expr = "the catalog {string} offers")]
async fn offers(w: &mut World, name: String, step: &Step) -> Outcome {
    let (reference, _) = push(w, &name, "latest", step).await?;
    create(w, &name, json!({"ref": reference}), 0).await?;
    Ok(serves(w, &name).await?)
}

#[given(expr = "the catalog {string}, polled by its tag every minute, offers")]
async fn offers_by_tag(w: &mut World, name: String, step: &Step) -> Outcome {
    let (_, reference) = push(w, &name, "latest", step).await?;
    create(w, &name, json!({"ref": reference, "pollIntervalMinutes": 1}), 0).await?;
    Ok(serves(w, &name).await?)
}

#[given(expr = "the catalog {string}, pulled from the mirrored registry, offers")]
async fn offers_mirrored(w: &mut World, name: String, step: &Step) -> Outcome {
    at_home(w).await?;
    let mirror = w.place.facts().mirror.clone().context("there is no mirror")?;
    let (_, reference) = push_for(w, &mirror, &name, "latest", step).await?;
    create(w, &name, json!({"ref": reference}), 0).await?;
    Ok(serves(w, &name).await?)
}

#[when(expr = "the image of the catalog {string} is replaced by one that offers")]
async fn replaced(w: &mut World, name: String, step: &Step) -> Outcome {
    let (reference, _) = push(w, &name, "next", step).await?;
    let patch = json!({"spec": {"source": {"image": {"ref": reference}}}});
    Ok(w.patch("ClusterCatalog", &format!("{}-{name}", w.id), &patch).await?)
}

#[when(expr = "the tag of the catalog {string} is moved to an image that offers")]
async fn moved(w: &mut World, name: String, step: &Step) -> Outcome {
    Ok(push(w, &name, "latest", step).await.map(drop)?)
}

#[when(expr = "the catalog {string} is taken away")]
#[given(expr = "the catalog {string} is taken away")]
async fn removed(w: &mut World, name: String) -> Outcome {
    let name = format!("{}-{name}", w.id);
    w.delete("ClusterCatalog", &name).await?;
    Ok(w.gone("ClusterCatalog", &name, DEADLINE).await?)
}

#[then(expr = "the catalog {string} serves")]
async fn is_serving(w: &mut World, name: String) -> Outcome {
    Ok(serves(w, &name).await?)
}

#[given(expr = "the account {string} gets no right to {word} {word}")]
async fn withheld(w: &mut World, account: String, verb: String, resource: String) -> Outcome {
    must!(account == ACCOUNT, "there is no account {account:?}");
    w.withheld = Some((verb, resource));
    Ok(())
}

#[when(expr = "the account {string} gets all rights it needs")]
async fn granted(w: &mut World, account: String) -> Outcome {
    must!(account == ACCOUNT, "there is no account {account:?}");
    w.withheld = None;
    Ok(grant(w, &w.id, ACCOUNT).await?)
}

#[when(expr = "the account {string} with all rights is made in the namespace {string}")]
async fn made_elsewhere(w: &mut World, account: String, namespace: String) -> Outcome {
    must!(account == ACCOUNT, "there is no account {account:?}");
    let namespace = w.text(&namespace);
    permissions::create_account(&w.client, &namespace, ACCOUNT).await?;
    Ok(grant(w, &namespace, ACCOUNT).await?)
}

#[when(expr = "the account {string} is made and gets all rights it needs")]
async fn made(w: &mut World, account: String) -> Outcome {
    permissions::create_account(&w.client, &w.id, &account).await?;
    Ok(grant(w, &w.id, &account).await?)
}

/// Asks the catalogs' server.
async fn ask(w: &World, name: &str, query: &str) -> Result<Vec<Value>> {
    let reach = w.place.catalogs().await?;
    let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build()?;
    let url = format!("https://{}/catalogs/{}-{name}/api/v1/{query}", reach.address, w.id);
    let answer = client.get(&url).send().await?;
    must!(answer.status().is_success(), "{url}: {}", answer.status());
    let text = answer.text().await?;
    Ok(serde_json::Deserializer::from_str(&text).into_iter::<Value>().collect::<Result<_, _>>()?)
}

#[then(expr = "the catalog {string} answers {string} with the names")]
async fn answers(w: &mut World, name: String, query: String, step: &Step) -> Outcome {
    let rows = &step.table.as_ref().context("the step has no table below it")?.rows;
    let wanted: Vec<String> = rows.iter().flatten().map(|cell| w.text(cell)).collect();
    let query = w.text(&query);
    Ok(wait::until(&format!("{query} to be answered"), DEADLINE, async || {
        let mut names: Vec<String> = ask(w, &name, &query)
            .await?
            .iter()
            .map(|blob| blob["name"].as_str().unwrap_or_default().to_owned())
            .collect();
        names.sort();
        wait::check(names == wanted, || format!("it has {names:?}"))
    })
    .await?)
}
