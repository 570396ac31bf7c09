//! A user's object of the sample operator's kind: it and its CRD must outlive an extension that leaves CRDs.

use olm_test::prelude::*;

use crate::world::COLLECTED;

const BEACON: &str = "mine";

/// An object of a user, and the CRD it needs.
pub(crate) struct UserObjects {
    crds: Api<CustomResourceDefinition>,
    crd: String,
    beacons: Api<DynamicObject>,
    group: String,
}

/// What they were when the user made use of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    crd: Option<String>,
    beacon: Option<String>,
}

impl UserObjects {
    /// Those of the sample under the name of an extension.
    pub(crate) fn of(client: &Client, name: &str) -> Self {
        let group = format!("{name}.example.com");
        let beacon = resource(&format!("{group}/v1"), "Beacon", "beacons");
        Self {
            crds: Api::all(client.clone()),
            crd: format!("beacons.{group}"),
            beacons: Api::namespaced_with(client.clone(), name, &beacon),
            group,
        }
    }

    /// A user makes use of the kind.
    pub(crate) async fn create(&self) -> Result<Identity> {
        let beacon = serde_json::from_value(json!({
            "apiVersion": format!("{}/v1", self.group), "kind": "Beacon",
            "metadata": {"name": BEACON}, "spec": {"colour": "red"},
        }))?;
        self.beacons.create(&PostParams::default(), &beacon).await.context("the user's object")?;
        self.identity().await
    }

    async fn identity(&self) -> Result<Identity> {
        let beacon = self.beacons.get(BEACON).await.context("the user's object")?;
        ensure!(beacon.data["spec"]["colour"] == "red", "the user's object is another: {}", beacon.data);
        let crd = self.crds.get(&self.crd).await.context("the CRD of the user's object")?;
        for (what, meta) in [("object", &beacon.metadata), ("CRD", &crd.metadata)] {
            ensure!(meta.deletion_timestamp.is_none(), "the user's {what} is being deleted");
        }
        Ok(Identity { crd: crd.uid(), beacon: beacon.uid() })
    }

    /// They are what they were: neither was deleted, not even to come back.
    pub(crate) async fn check(&self, was: &Identity) -> Result<()> {
        let is = self.identity().await?;
        ensure!(is == *was, "not what the user had: {was:?} became {is:?}");
        Ok(())
    }

    /// Deletes what is left of them.
    pub(crate) async fn clear(&self) -> Result<()> {
        wait::until("the CRD that was kept to be gone", COLLECTED, async || {
            // It may be gone already.
            drop(self.crds.delete(&self.crd, &DeleteParams::default()).await);
            wait::check(self.crds.get_opt(&self.crd).await?.is_none(), || format!("{} is there", self.crd))
        })
        .await
    }
}
