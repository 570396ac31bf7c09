//! What the Helm runtime installed, under a deletion policy that the extension had before this program came.

use olm_api::names::DELETION_POLICY_ANNOTATION;
use olm_test::{
    operator,
    prelude::*,
    proxy::{Blow, Proxy, WriteName},
};

use crate::{
    seen::{Inventory, nothing_stray, objects_of, taken_over_under},
    world::{COLLECTED, DEADLINE, World},
};

const EXTENSIONS: [&str; 2] = ["external-secrets", "grafana"];
const POLICIES: [(&str, &str); 2] = [("external-secrets", "Orphan"), ("grafana", "RetainCRDs")];

/// Whether an object of one of the extensions stays when that one goes.
fn stays(object: &Value) -> bool {
    object["metadata"]["labels"]["olm.operatorframework.io/owner-name"] == "external-secrets"
        || object["kind"] == "CustomResourceDefinition"
}

#[tokio::test(flavor = "multi_thread")]
async fn what_helm_installed_is_upgraded_and_outlives_its_extension_as_its_policy_says() -> Result<()> {
    let Some(mut world) = World::load("helm", false, |dump| {
        let mut dump = dump.only(&EXTENSIONS);
        for (name, policy) in POLICIES {
            let found =
                dump.objects.iter_mut().find(|one| one.kind() == "ClusterExtension" && one.name() == name);
            let object = &mut found.with_context(|| format!("no {name}"))?.object;
            object["metadata"]["annotations"][DELETION_POLICY_ANNOTATION] = policy.into();
        }
        Ok(dump)
    })
    .await?
    else {
        return Ok(());
    };
    world.empty_leftovers()?;
    world.begin(&EXTENSIONS).await?;

    for (name, version) in [("external-secrets", "0.11.0"), ("grafana", "5.24.0")] {
        world.installed(name, version).await?;
    }
    for (name, policy) in POLICIES {
        world.shows(name, ConditionType::DeletionPolicy, &format!("True/{policy}/")).await?;
    }
    let revisions = world.revisions().await?;
    ensure!(revisions == ["external-secrets-1", "grafana-1"], "{revisions:?}");
    for revision in &revisions {
        world.is_migrated(revision).await?;
    }
    let after = world.goes_on(41, &[], &[]).await?;
    nothing_stray(&world.before, &after)?;
    taken_over_under(&after, &EXTENSIONS, stays)?;

    world.upgraded(&["external-secrets-1", "grafana-1*", "grafana-2"]).await?;
    world.shows("grafana", ConditionType::DeletionPolicy, "True/RetainCRDs/").await?;
    let last = world.inventory().await?;
    taken_over_under(&last, &EXTENSIONS, stays)?;
    world.end_watch()?;
    for name in EXTENSIONS {
        world.extensions().remove(name).await?;
    }
    wait::until("what no policy keeps to be gone", COLLECTED, || async {
        kept_alone(&last, &world.inventory().await?)
    })
    .await
}

/// What stays is the same object as before, the users' objects too; all else of the extensions is gone.
fn kept_alone(last: &Inventory, now: &Inventory) -> Result<()> {
    let pods = |o: &&Value| o["kind"] == "Pod" && o["metadata"]["namespace"] == "external-secrets-system";
    let of_users = |o: &&Value| o["kind"] == "Grafana" || o["kind"] == "GrafanaFolder";
    let mut kept = 0;
    for (key, old) in last {
        let ours = objects_of(last, &EXTENSIONS).any(|(other, _)| other == key);
        if (ours && stays(old)) || pods(&old) || of_users(&old) {
            let new = now.get(key).with_context(|| format!("{key} is gone"))?;
            ensure!(old["metadata"]["uid"] == new["metadata"]["uid"], "{key} is another");
            ensure!(new["metadata"]["deletionTimestamp"].is_null(), "{key} is being deleted");
            kept += 1;
        } else if ours
            || ["ClusterObjectSet", "ClusterExtension"].contains(&old["kind"].as_str().unwrap_or_default())
        {
            ensure!(!now.contains_key(key), "{key} is left");
        }
    }
    ensure!(kept > 36, "only {kept} objects were kept");
    Ok(())
}

/// A process that ends between the first revision and the status by which it counts as installed.
#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_that_was_cut_short_is_made_good() -> Result<()> {
    if !olm_test::long::wanted() {
        return Ok(());
    }
    let only = ["external-secrets"];
    let Some(mut world) = World::load("helm", false, |dump| Ok(dump.only(&only))).await? else {
        return Ok(());
    };
    world.empty_leftovers()?;
    let proxy = Proxy::start(&operator::kubeconfig(&world.site.cluster)?).await?;
    let revision = "external-secrets-1";
    let status = WriteName {
        verb: "update".to_owned(),
        resource: "clusterobjectsets.olm.operatorframework.io/status".to_owned(),
        object: revision.to_owned(),
        nth: 1,
    };
    proxy.strike(status, Blow::Before);
    world.begin_behind(&proxy, &only).await?;
    tokio::time::timeout(DEADLINE, proxy.struck()).await.context("no status was written")?;
    let half_made = world.sets().get(revision).await?;
    ensure!(half_made.status.is_none(), "{:?}", half_made.status);
    world.process()?.kill()?;
    proxy.thaw();
    world.process()?.restart()?;

    world.installed("external-secrets", "0.11.0").await?;
    let revisions = world.revisions().await?;
    ensure!(revisions == [revision], "{revisions:?}");
    world.goes_on(1, &[], &[]).await?;
    world.end_watch()
}
