//! What a control plane lacks that has only an API server, as `setup-envtest` installs it: somebody who makes
//! Deployments available and removes revisions whose extension is gone.

use olm_test::prelude::*;

const PAUSE: Duration = Duration::from_millis(200);

/// Does both until it is dropped. What fails is tried again.
pub(crate) async fn run(client: Client) {
    loop {
        let _ = available(&client).await;
        let _ = collected(&client).await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Says of every Deployment that its Pods run.
async fn available(client: &Client) -> Result<()> {
    for deployment in Api::<Deployment>::all(client.clone()).all().await? {
        let generation = deployment.metadata.generation;
        if deployment.status.as_ref().and_then(|status| status.observed_generation) == generation {
            continue;
        }
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let condition = |type_: &str, reason: &str| json!({"type": type_, "status": "True", "reason": reason, "message": "The demo plays the nodes."});
        let status = json!({"status": {
            "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
            "conditions": [
                condition("Available", "MinimumReplicasAvailable"),
                condition("Progressing", "NewReplicaSetAvailable"),
            ],
        }});
        let namespace = deployment.namespace().unwrap_or_default();
        Api::<Deployment>::namespaced(client.clone(), &namespace)
            .patch_status(&deployment.name_any(), &PatchParams::default(), &Patch::Merge(status))
            .await?;
    }
    Ok(())
}

/// Deletes the revisions of extensions that are gone, as the garbage collector does.
async fn collected(client: &Client) -> Result<()> {
    let extensions: Api<ClusterExtension> = Api::all(client.clone());
    let revisions: Api<ClusterObjectSet> = Api::all(client.clone());
    // Revisions first: an extension that comes later owns none of these.
    let found = revisions.all().await?;
    let owners: BTreeSet<_> = extensions.all().await?.iter().filter_map(kube::ResourceExt::uid).collect();
    for revision in found {
        if revision.owner_references().iter().all(|owner| !owners.contains(&owner.uid)) {
            revisions.remove(&revision.name_any()).await?;
        }
    }
    Ok(())
}
