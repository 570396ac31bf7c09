//! What others do to the objects and to the account of an installed extension.

use olm_api::names::IDENTITY_ANNOTATION;
use olm_test::{
    prelude::*,
    proxy::{Fault, Weather},
};

use crate::{
    lives::STILL,
    snapshot::{Snapshot, difference, settled},
    world::{PACKAGE, Sample, alone},
};

const SETTINGS: &str = "lighthouse-operator-settings";
/// Writes that mending one object may take: the object, and what the status says meanwhile and afterwards.
const WRITES_TO_MEND: usize = 12;

/// An extension that is installed, and how the cluster looks then.
struct Installed<'a> {
    world: &'a World,
    client: Client,
    extension: Extension,
    sample: Sample,
    state: Snapshot,
}

impl<'a> Installed<'a> {
    async fn new(world: &'a World, name: &str) -> Result<Self> {
        let client = world.cluster.client().await?;
        let sample = Sample::new(world, name, &["1.0.0", "1.1.0"]).await?;
        let extension = Extension::new(&client, name);
        extension.create(extension.object(PACKAGE, &json!({"version": "1.0.0"}))).await?;
        wait::until("the installation", DEADLINE, async || extension.is_installed("1.0.0").await).await?;
        world.proxy().quiet(STILL, DEADLINE).await?;
        let state = settled(&client).await?;
        world.proxy().reset();
        Ok(Self { world, client, extension, sample, state })
    }

    /// Waits until everything is as it was, and nothing is written any more.
    async fn as_before(&self) -> Result<()> {
        let wanted = self.state.normal();
        let lines = async || Ok(difference(&wanted, &Snapshot::take(&self.client).await?.normal()));
        eventually("the state before", lines, Vec::is_empty).await?;
        self.world.proxy().quiet(STILL, DEADLINE).await?;
        let writes: Vec<_> = self.world.proxy().writes().iter().map(|write| write.name.to_string()).collect();
        ensure!(writes.len() <= WRITES_TO_MEND, "{} writes: {writes:#?}", writes.len());
        self.world.proxy().reset();
        Ok(())
    }

    async fn remove(self) -> Result<()> {
        self.extension.delete().await?;
        wait::until("the extension's end", DEADLINE, async || self.extension.is_gone().await).await
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.sample.name)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_others_delete_or_edit_come_back_as_they_were() -> Result<()> {
    let world = alone().await?;
    let installed = Installed::new(&world, "edited").await?;
    let deployments: Api<Deployment> = installed.api();
    deployments.remove("lighthouse-operator").await?;
    installed.as_before().await?;
    let secrets: Api<Secret> = installed.api();
    secrets.remove("lighthouse-key").await?;
    installed.as_before().await?;

    let settings: Api<ConfigMap> = installed.api();
    let edit = Patch::Merge(json!({"data": {"version": "9.9.9"}}));
    settings.patch(SETTINGS, &PatchParams::default(), &edit).await?;
    wait::until("the edit to be undone", DEADLINE, async || {
        let found = settings.get(SETTINGS).await?.data;
        ensure!(
            found.as_ref().and_then(|data| data.get("version")).is_some_and(|v| v == "1.0.0"),
            "{found:?}"
        );
        Ok(())
    })
    .await?;
    world.proxy().quiet(STILL, DEADLINE).await?;
    ensure!(world.proxy().writes().len() <= WRITES_TO_MEND, "{:#?}", world.proxy().writes());
    installed.remove().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_another_controller_takes_is_left_to_it_and_made_anew_when_it_is_gone() -> Result<()> {
    let world = alone().await?;
    let installed = Installed::new(&world, "stolen").await?;
    let settings: Api<ConfigMap> = installed.api();
    let thief: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "thief"}}))?;
    let thief = settings.make(&thief).await?;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "thief",
                        "uid": thief.metadata.uid, "controller": true}]);
    let theft = Patch::Merge(json!({"metadata": {"ownerReferences": owner}, "data": {"version": "stolen"}}));
    let stolen = settings.patch(SETTINGS, &PatchParams::default(), &theft).await?;
    wait::until("the theft to be told", DEADLINE, async || {
        let status = installed.extension.api.get(&installed.extension.name).await?.status.unwrap_or_default();
        let told = serde_json::to_string(&status)?;
        ensure!(told.contains("collision"), "{told}");
        Ok(())
    })
    .await?;
    let found = settings.get(SETTINGS).await?;
    ensure!(found.metadata.resource_version == stolen.metadata.resource_version, "it was written: {found:?}");
    // Its objects go with it.
    settings.remove("thief").await?;
    installed.as_before().await?;
    installed.remove().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_refused_or_whose_account_was_replaced_is_replaced() -> Result<()> {
    let world = alone().await?;
    let installed = Installed::new(&world, "account").await?;
    world.proxy().weather(Some(Weather::new(1, 1, &[Fault::Status(401)], 1)));
    let settings: Api<ConfigMap> = installed.api();
    settings.remove(SETTINGS).await?;
    eventually("a refused token", async || Ok(world.proxy().damage().len() == 1), |holds| *holds).await?;
    let told: Vec<_> = world.proxy().damage();
    installed.as_before().await?;
    println!("{told:?}");

    let accounts: Api<ServiceAccount> = installed.api();
    accounts.remove(ACCOUNT).await?;
    wait::until("the missing account to be told", DEADLINE, async || {
        // The API server still accepts a deleted account's token for a few seconds; with that the object comes back.
        drop(settings.delete(SETTINGS, &DeleteParams::default()).await);
        let status = installed.extension.api.get(&installed.extension.name).await?.status.unwrap_or_default();
        let told = serde_json::to_string(&status)?;
        ensure!(told.contains(ACCOUNT) && told.contains("not found"), "{told}");
        Ok(())
    })
    .await?;
    installed.sample.give_account(&installed.client).await?;
    // The new ServiceAccount is another one: somebody who may use it confirms it.
    let confirm = Patch::Merge(json!({"metadata": {"annotations": {IDENTITY_ANNOTATION: null}}}));
    installed.extension.api.patch(&installed.extension.name, &PatchParams::default(), &confirm).await?;
    wait::until("the object to be back", DEADLINE, async || {
        settings.get(SETTINGS).await?;
        Ok(())
    })
    .await?;
    wait::until("health", DEADLINE, async || installed.extension.is_installed("1.0.0").await).await?;
    installed.extension.set_version("1.1.0").await?;
    wait::until("the upgrade", DEADLINE, async || installed.extension.is_installed("1.1.0").await).await?;
    installed.remove().await
}
