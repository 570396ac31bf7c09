//! Secrets in the system namespace that were put there by somebody who may do nothing but create them.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use k8s_openapi::ByteString;
use olm_api::names::{MIGRATED_FROM_HELM_LABEL, OBJECT_DATA_SECRET_TYPE, REVISION_NAME_LABEL};
use olm_objectset::content_key;
use olm_test::{permissions, prelude::*};

/// What the planter writes where the bundle has its version.
const PLANTED: &str = "planted";

fn system_secrets(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), SYSTEM_NAMESPACE)
}

/// A user who may create Secrets in the system namespace, and nothing else.
async fn planter(scenario: &Scenario<'_>) -> Result<Client> {
    let name = format!("{}-planter", scenario.name);
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}]);
    permissions::allow(&scenario.client, SYSTEM_NAMESPACE, &name, &rules, &permissions::user(&name)).await?;
    scenario.world.cluster.client_for(&name, &["system:authenticated"]).await
}

/// Creates a Secret as the planter, whose right the authorizer learns of by a watch.
async fn plant(planter: &Client, secret: &Secret) -> Result<()> {
    wait::until("the Secret to be planted", DEADLINE, async || {
        match system_secrets(planter).create(&PostParams::default(), secret).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 403 => Err(anyhow::anyhow!("{}", status.message)),
            Err(error) => Err(wait::Final(error.to_string()).into()),
        }
    })
    .await
}

/// The Secret with the content of a revision.
async fn content_of(scenario: &Scenario<'_>, revision: &str) -> Result<Secret> {
    let of = ListParams::default().labels(&format!("{REVISION_NAME_LABEL}={revision}"));
    let mut found = system_secrets(&scenario.client).list(&of).await?.items;
    ensure!(found.len() == 1, "{} Secrets of {revision}", found.len());
    found.pop().context("no Secret")
}

/// The same Secret, of the same keys, with something else in it.
fn altered(genuine: &Secret, version: &str) -> Result<Secret> {
    let mut data = genuine.data.clone().context("no data")?;
    let mut is_changed = false;
    for bytes in data.values_mut() {
        let text = String::from_utf8(bytes.0.clone())?;
        let other = text.replace(&format!("\"data\":\"{version}\""), &format!("\"data\":\"{PLANTED}\""));
        is_changed |= other != text;
        *bytes = ByteString(other.into_bytes());
    }
    ensure!(is_changed, "nothing to alter");
    Ok(Secret {
        metadata: kube::api::ObjectMeta {
            name: Some(genuine.name_any()),
            labels: genuine.metadata.labels.clone(),
            ..Default::default()
        },
        data: Some(data),
        ..genuine.clone()
    })
}

async fn says(scenario: &Scenario<'_>, wanted: &str) -> Result<()> {
    let map = scenario.maps().get("lamp-data").await?;
    let found = map.data.unwrap_or_default().remove("data").unwrap_or_default();
    ensure!(found == wanted, "the ConfigMap says {found:?}");
    Ok(())
}

async fn set_shows(scenario: &Scenario<'_>, set: &str, wanted: &str) -> Result<()> {
    scenario.set_reports(set, Progressing, |found| found.starts_with(wanted)).await
}

/// The name that the Secret of the next revision will have can be computed by everybody.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_waits_for_its_revision_is_not_used() -> Result<()> {
    let scenario = Scenario::shared("before").await?;
    scenario.offer(&[small("lamp", "1.0.0")]).await?;
    let revision = format!("{}-1", scenario.name);
    scenario.install("lamp", json!({}), "1.0.0").await?;
    let genuine = content_of(&scenario, &revision).await?;
    scenario.uninstall().await?;

    let user = planter(&scenario).await?;
    let mut planted = altered(&genuine, "1.0.0")?;
    plant(&user, &planted).await?;
    scenario.create_extension("lamp", json!({})).await?;
    // What nobody owns and no revision refers to is removed, and the revision is made after all.
    scenario.installed("1.0.0").await?;
    says(&scenario, "1.0.0").await?;
    ensure!(content_of(&scenario, &revision).await?.data == genuine.data, "not the content of the bundle");
    scenario.uninstall().await?;

    // One that somebody owns stays, and is told of.
    let owner: ConfigMap = serde_json::from_value(json!({"metadata": {"name": scenario.name}}))?;
    let owners: Api<ConfigMap> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let owner = owners.make(&owner).await?;
    planted.metadata.owner_references = Some(vec![serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": owner.uid(),
    }))?]);
    plant(&user, &planted).await?;
    scenario.create_extension("lamp", json!({})).await?;
    let name = genuine.name_any();
    let told = format!(
        "True/Retrying/error for resolved bundle \"lamp.v1.0.0\" with version \"1.0.0\": creating ref Secret {name:?}: Secret {SYSTEM_NAMESPACE}/{name} exists with content other than the objects of this revision: delete it so that the revision can be created"
    );
    scenario.shows(Progressing, &told).await?;
    ensure!(scenario.maps().get_opt("lamp-data").await?.is_none(), "something was applied");
    system_secrets(&scenario.client).remove(&name).await?;
    scenario.installed("1.0.0").await?;
    says(&scenario, "1.0.0").await?;
    owners.remove(&owner.name_any()).await?;
    scenario.delete_extension().await
}

/// Between a revision and its first roll-out, and after it.
#[tokio::test(flavor = "multi_thread")]
async fn content_that_is_not_what_its_key_says_is_not_applied() -> Result<()> {
    let scenario = Scenario::shared("swapped").await?;
    scenario.account_for(ACCOUNT, &[""], &["configmaps"]).await?;
    let user = planter(&scenario).await?;

    // A revision that nothing is recorded of yet, as it is before its first roll-out.
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"data": "1.0.0"},
                        "metadata": {"name": "lamp-data", "namespace": scenario.name}})
    .to_string();
    let key = content_key(object.as_bytes());
    scenario
        .make_set(&json!([{"ref": {"namespace": SYSTEM_NAMESPACE, "name": scenario.name, "key": key}}]))
        .await?;
    set_shows(&scenario, &scenario.name, "True/Retrying/resolving ref in phase \"deploy\": getting Secret")
        .await?;
    let secret = |text: &str| Secret {
        metadata: kube::api::ObjectMeta {
            name: Some(scenario.name.clone()),
            labels: Some([(REVISION_NAME_LABEL.to_owned(), scenario.name.clone())].into()),
            ..Default::default()
        },
        immutable: Some(true),
        type_: Some(OBJECT_DATA_SECRET_TYPE.to_owned()),
        data: Some([(key.clone(), ByteString(text.as_bytes().to_vec()))].into()),
        ..Secret::default()
    };
    plant(&user, &secret(&object.replace("1.0.0", PLANTED))).await?;
    let told = format!(
        "False/Blocked/key {key:?} in Secret {SYSTEM_NAMESPACE}/{} is not the digest of its content",
        scenario.name
    );
    set_shows(&scenario, &scenario.name, &told).await?;
    ensure!(scenario.maps().get_opt("lamp-data").await?.is_none(), "what was planted was applied");
    ensure!(
        scenario.sets().get(&scenario.name).await?.status.unwrap_or_default().observed_phases.is_empty(),
        "the digest of what was planted was recorded"
    );
    let again = async |text: &str| -> Result<()> {
        system_secrets(&scenario.client).remove(&scenario.name).await?;
        plant(&user, &secret(text)).await?;
        let touch = json!({"metadata": {"annotations": {"touched": text}}});
        scenario.sets().merge(&scenario.name, &touch).await?;
        Ok(())
    };
    again(&object).await?;
    set_shows(&scenario, &scenario.name, "True/Succeeded/").await?;
    says(&scenario, "1.0.0").await?;

    // Created again with other bytes, and with the same ones.
    again(&object.replace("1.0.0", PLANTED)).await?;
    set_shows(&scenario, &scenario.name, &told).await?;
    says(&scenario, "1.0.0").await?;
    again(&object).await?;
    set_shows(&scenario, &scenario.name, "True/Succeeded/").await?;
    scenario.sets().remove(&scenario.name).await?;
    system_secrets(&scenario.client).remove(&scenario.name).await?;
    Ok(())
}

/// A Secret that looks like a Helm release of the extension in all that can be seen from outside.
fn release(scenario: &Scenario<'_>, uid: &str) -> Result<Secret> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"data": PLANTED},
                     "metadata": {"name": "lamp-data", "namespace": scenario.name}});
    let release = json!({
        "name": scenario.name, "namespace": scenario.name, "info": {"status": "deployed"}, "version": 1,
        "manifest": format!("{map}\n"),
        "labels": {"olm.operatorframework.io/bundle-name": "lamp.v1.0.0",
                   "olm.operatorframework.io/bundle-version": "1.0.0",
                   "olm.operatorframework.io/package-name": "lamp"},
    });
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(release.to_string().as_bytes())?;
    let name = format!("sh.helm.release.v1.{}.v1", scenario.name);
    let mut secret: Secret = serde_json::from_value(json!({
        "type": "operatorframework.io/index.v1",
        "metadata": {"name": name, "ownerReferences": [{
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": scenario.name,
            "uid": uid, "controller": true, "blockOwnerDeletion": true,
        }], "labels": {"name": scenario.name, "owner": "operator-controller", "status": "deployed",
                       "version": "1", "key": name, "type": "index"}},
    }))?;
    secret.data = Some(
        [
            ("chunk".to_owned(), ByteString(gzip.finish()?)),
            ("extraChunks".to_owned(), ByteString(b"[]".to_vec())),
        ]
        .into(),
    );
    Ok(secret)
}

/// The Secret alone does not say that upstream installed anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_planted_helm_release_is_not_taken_over() -> Result<()> {
    let scenario = Scenario::shared("release").await?;
    scenario.account_for(ACCOUNT, &[""], &["configmaps"]).await?;
    // Its catalog does not exist yet, so there is no revision.
    scenario.create_extension("lamp", json!({})).await?;
    scenario.shows(Progressing, "True/Retrying/").await?;
    let uid = scenario.extensions().get(&scenario.name).await?.uid().context("no UID")?;
    plant(&planter(&scenario).await?, &release(&scenario, &uid)?).await?;

    let generation: Value = json!({"spec": {"source": {"catalog": {"version": "1.x"}}}});
    scenario.patch_extension(generation).await?;
    wait::until("the extension to be looked at again", DEADLINE, async || {
        let shown = scenario.shown().await?;
        ensure!(shown.generation_seen, "{shown:?}");
        ensure!(shown.version.is_none(), "what was planted counts as installed: {shown:?}");
        Ok(())
    })
    .await?;
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", scenario.name));
    ensure!(scenario.sets().list(&mine).await?.items.is_empty(), "a revision was made of it");

    scenario.offer(&[small("lamp", "1.0.0")]).await?;
    scenario.installed("1.0.0").await?;
    says(&scenario, "1.0.0").await?;
    let revisions = scenario.sets().list(&mine).await?.items;
    let names: Vec<String> = revisions.iter().map(ResourceExt::name_any).collect();
    ensure!(names == [format!("{}-1", scenario.name)], "{names:?}");
    ensure!(!revisions[0].labels().contains_key(MIGRATED_FROM_HELM_LABEL), "it counts as taken over");
    scenario.delete_extension().await
}
