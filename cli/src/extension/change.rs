//! Writes to extensions, in the name of the user who runs the command.

use anyhow::{Context as _, bail};
use kube::{Api, Client, ResourceExt, api::Patch};
use olm_api::{names::CLI_FIELD_MANAGER, v1::ClusterExtension};
use olm_runtime::{bounded, patch_as};
use serde_json::Value;

use super::revisions::extension;

/// Attempts to change an extension whose status is written all the time.
const ATTEMPTS: usize = 10;

/// Merges a patch into an extension that is still as it was when `seen` was read: what was shown of it must be what is
/// changed. Its status and annotations may have changed.
pub(crate) async fn change(
    client: &Client,
    seen: &ClusterExtension,
    mut patch: Value,
) -> anyhow::Result<ClusterExtension> {
    let api: Api<ClusterExtension> = Api::all(client.clone());
    let name = seen.name_any();
    for _ in 0..ATTEMPTS {
        let live = extension(client, &name).await?;
        if live.metadata.uid != seen.metadata.uid || live.spec != seen.spec {
            bail!("ClusterExtension {name} was changed meanwhile: run the command again");
        }
        patch["metadata"]["uid"] = live.metadata.uid.into();
        patch["metadata"]["resourceVersion"] = live.metadata.resource_version.into();
        let params = patch_as(CLI_FIELD_MANAGER);
        match bounded(api.patch(&name, &params, &Patch::Merge(&patch))).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            written => return written.with_context(|| format!("changing ClusterExtension {name}")),
        }
    }
    bail!("ClusterExtension {name} changes all the time: run the command again")
}
