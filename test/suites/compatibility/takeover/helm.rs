//! What the Helm runtime installed.

use std::io::Write as _;

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use olm_test::{
    prelude::*,
    takeover::{Dump, Recorded},
};

use crate::{
    seen::taken_over,
    world::{DEADLINE, World},
};

const EXTENSIONS: [&str; 4] = ["argocd", "external-secrets", "grafana", "keda"];
const INSTALLED: [&str; 3] = ["external-secrets", "grafana", "keda"];
const NO_ACCOUNT: &str = "False/Blocked/operation cannot proceed due to the following validation error(s): spec.serviceAccount is not set and the cluster has no default account";

/// The release Secret of an extension.
fn release<'a>(dump: &'a mut Dump, name: &str) -> Result<&'a mut Value> {
    let found = dump.objects.iter_mut().find(|one| one.name() == name);
    found.map(|one| &mut one.object).with_context(|| format!("no {name}"))
}

/// Splits a release over two Secrets, as upstream does with large ones.
fn split(dump: &mut Dump, name: &str) -> Result<()> {
    let index = release(dump, name)?;
    let bytes = STANDARD.decode(index["data"]["chunk"].as_str().context("no chunk")?)?;
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    let chunk = format!("{name}-rest");
    index["data"]["chunk"] = STANDARD.encode(first).into();
    index["data"]["extraChunks"] = STANDARD.encode(json!([chunk]).to_string()).into();
    let owner = json!([{
        "apiVersion": "v1", "kind": "Secret", "name": name, "uid": index["metadata"]["uid"], "controller": true,
    }]);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "operatorframework.io/chunk.v1", "immutable": true,
        "metadata": {
            "name": chunk, "namespace": SYSTEM_NAMESPACE, "uid": "5d1f1f60-0000-4000-8000-000000000001",
            "ownerReferences": owner, "labels": {"owner": "operator-controller", "key": name, "type": "chunk"},
            "managedFields": [],
        },
        "data": {"chunk": STANDARD.encode(rest)},
    });
    dump.objects.push(Recorded { resource: "secrets".to_owned(), object: secret });
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_helm_installed_goes_on_is_upgraded_and_leaves() -> Result<()> {
    if !olm_test::long::wanted() {
        return Ok(());
    }
    let Some(mut world) = World::load("helm", false, Ok).await? else { return Ok(()) };
    world.begin(&INSTALLED).await?;
    leftovers_are_named(&world).await?;
    world.empty_leftovers()?;

    for (name, version) in [("external-secrets", "0.11.0"), ("grafana", "5.24.0"), ("argocd", "0.16.0")] {
        world.installed(name, version).await?;
    }
    world.shows("keda", Progressing, NO_ACCOUNT).await?;
    let revisions = world.revisions().await?;
    ensure!(revisions == ["argocd-1", "external-secrets-1", "grafana-1", "keda-1"], "{revisions:?}");
    world.goes_on(41, &["external-secrets", "grafana"], &["keda"]).await?;

    // An extension without an account goes on with the default one.
    let settings: Api<ConfigMap> = Api::namespaced(world.client.clone(), SYSTEM_NAMESPACE);
    let patch = json!({"data": {"default-service-account": "grafana-system/installer"}});
    settings.merge("olmv1-settings", &patch).await?;
    world.installed("keda", "2.7.1").await?;
    let revisions = world.revisions().await?;
    ensure!(revisions.len() == 4, "{revisions:?}");
    world.goes_on(41, &["keda"], &[]).await?;

    let wanted = ["argocd-1", "external-secrets-1", "grafana-1*", "grafana-2", "keda-1"];
    world.upgraded(&wanted).await?;
    taken_over(&world.inventory().await?, &["grafana"])?;
    world.end_watch()?;

    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), SYSTEM_NAMESPACE);
    let releases = ListParams::default().labels("owner=operator-controller,type=index");
    ensure!(secrets.list(&releases).await?.items.len() == 4, "releases are only read");
    world.remove(&EXTENSIONS).await
}

/// The log and Events name what upstream left behind.
async fn leftovers_are_named(world: &World) -> Result<()> {
    let names = [
        "catalogd-mutating-webhook-configuration",
        "operator-controller-cluster-admin-rolebinding",
        "clusterextension-serviceaccount-deprecated",
        "catalogd-controller-manager",
    ];
    wait::until("the leftovers to be named", DEADLINE, || async {
        let log = world.process()?.log();
        for name in names {
            let line =
                |line: &str| line.contains("left behind by an earlier installation") && line.contains(name);
            ensure!(log.lines().any(line), "{name} is not named");
        }
        let events = kubectl(&world.site.cluster, &["get", "events", "-A", "-o", "json"])?;
        let events: Value = serde_json::from_str(&events)?;
        for name in names {
            let about = |e: &Value| e["reason"] == "LeftBehind" && e["involvedObject"]["name"] == name;
            ensure!(
                events["items"].as_array().is_some_and(|all| all.iter().any(about)),
                "no Event on {name}"
            );
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_cannot_be_read_blocks_and_touches_nothing() -> Result<()> {
    if !olm_test::long::wanted() {
        return Ok(());
    }
    let grafana = "sh.helm.release.v1.grafana.v2";
    let (keda, mut whole) = ("sh.helm.release.v1.keda.v1", String::new());
    let Some(mut world) = World::load("helm", false, |mut dump| {
        // One in two Secrets that is whole, beside those that are not.
        split(&mut dump, "sh.helm.release.v1.external-secrets.v1")?;
        let chunk = &mut release(&mut dump, grafana)?["data"]["chunk"];
        chunk.as_str().context("no chunk")?.clone_into(&mut whole);
        let bytes = STANDARD.decode(&whole)?;
        *chunk = STANDARD.encode(&bytes[..bytes.len() / 2]).into();
        let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
        bomb.write_all(&vec![b' '; 65 << 20])?;
        release(&mut dump, keda)?["data"]["chunk"] = STANDARD.encode(bomb.finish()?).into();
        Ok(dump)
    })
    .await?
    else {
        return Ok(());
    };
    world.empty_leftovers()?;
    // It has an account in this test.
    world.patch_extension("keda", json!({"spec": {"serviceAccount": {"name": "keda-olm-operator"}}})).await?;
    world.begin(&INSTALLED).await?;

    world.installed("external-secrets", "0.11.0").await?;
    let refused = |name: &str, what: &str| {
        format!("False/Blocked/cannot take over the Helm release in Secret olmv1-system/{name}: {what}")
    };
    let remedy = ": restore it from a backup, or delete this Secret to roll out the bundle that the spec asks for over what is installed";
    for (extension, secret, what) in [
        // What follows is the decompressor's word for it.
        ("grafana", grafana, "it is not gzip: "),
        ("keda", keda, "it has more than 67108864 bytes after decompression: "),
    ] {
        world.shows(extension, Progressing, &refused(secret, what)).await?;
        let told = world.condition(extension, Progressing).await?;
        ensure!(told.ends_with(remedy), "{told}");
    }
    let revisions = world.revisions().await?;
    ensure!(!revisions.iter().any(|r| r.starts_with("grafana") || r.starts_with("keda")), "{revisions:?}");
    let after = world.inventory().await?;
    let label = "olm.operatorframework.io/owner-name";
    for (key, old) in &world.before {
        let is_of = |name: &str| old["metadata"]["labels"][label] == name && old["kind"] != "Pod";
        if is_of("grafana") || is_of("keda") {
            let new = after.get(key).with_context(|| format!("{key} is gone"))?;
            ensure!(old["metadata"] == new["metadata"], "{key} was written");
        }
    }

    // With the release back, the extension goes on by itself.
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), SYSTEM_NAMESPACE);
    let patch = json!({"data": {"chunk": whole}});
    secrets.merge(grafana, &patch).await?;
    world.installed("grafana", "5.24.0").await?;
    world.goes_on(41, &["external-secrets", "grafana"], &["keda"]).await?;
    world.end_watch()
}

/// A part of that cluster, with a second Secret that claims to be the release: only one can be upstream's.
#[tokio::test(flavor = "multi_thread")]
async fn one_release_is_taken_over_and_a_planted_one_is_not() -> Result<()> {
    let only = ["grafana"];
    let (genuine, planted) = ("sh.helm.release.v1.grafana.v2", "sh.helm.release.v1.grafana.v9");
    let Some(mut world) = World::load("helm", false, |dump| {
        let mut dump = dump.only(&only);
        let mut second = dump.objects.iter().find(|one| one.name() == genuine).context("no release")?.clone();
        second.object["metadata"]["name"] = planted.into();
        second.object["metadata"]["labels"]["version"] = "9".into();
        second.object["metadata"]["uid"] = "5d1f1f60-0000-4000-8000-000000000009".into();
        dump.objects.push(second);
        Ok(dump)
    })
    .await?
    else {
        return Ok(());
    };
    world.empty_leftovers()?;
    world.begin(&only).await?;

    let told = format!(
        "False/Blocked/cannot take over a Helm release: Secrets {genuine}, {planted} in namespace {SYSTEM_NAMESPACE} all claim to be the deployed one, but there can only be one: delete those that upstream did not write"
    );
    world.shows("grafana", Progressing, &told).await?;
    ensure!(world.revisions().await?.is_empty(), "a revision was made of one of two");
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), SYSTEM_NAMESPACE);
    secrets.remove(planted).await?;
    world.installed("grafana", "5.24.0").await?;
    let revisions = world.revisions().await?;
    ensure!(revisions == ["grafana-1"], "{revisions:?}");
    world.goes_on(20, &only, &[]).await?;
    world.end_watch()
}
