//! What the demo creates on a cluster, and removes from one that is not its own.
//!
//! Everything is created, never applied, and carries a label with a value of this run: what was there before is not
//! touched, whatever happens in between.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Event;
use kube::{api::Preconditions, core::GroupVersionKind};
use olm_test::prelude::*;

use crate::sample::NAME;

/// The label of everything that the demo creates.
const RUN: &str = "olm-demo/run";
const DEADLINE: Duration = Duration::from_mins(2);

/// The objects of the demo.
pub(crate) struct Installation {
    client: Client,
    /// What messages call the cluster.
    cluster: String,
    run: String,
    objects: Vec<DynamicObject>,
}

impl Installation {
    /// Objects that can be created in this order.
    pub(crate) fn new(client: Client, cluster: &str, mut objects: Vec<DynamicObject>) -> Self {
        let run = unique_name("demo");
        for object in &mut objects {
            object.metadata.labels.get_or_insert_default().insert(RUN.to_owned(), run.clone());
        }
        // A namespace comes before what is in it.
        objects.sort_by_key(|object| kind(object) != "Namespace");
        Self { client, cluster: cluster.to_owned(), run, objects }
    }

    /// Refuses when one of the objects exists.
    pub(crate) async fn check_absent(&self) -> Result<()> {
        let found = self.objects.iter().map(async |object| {
            let found = self.found(object).await?;
            ensure!(found.is_none(), "{}", self.exists(object, found.as_ref()));
            Ok(())
        });
        try_join_all(found).await.map(drop)
    }

    /// Why the demo refuses an object that was there before.
    fn exists(&self, object: &DynamicObject, found: Option<&DynamicObject>) -> String {
        let run = found.and_then(|found| found.metadata.labels.as_ref()?.get(RUN));
        let remedy = match run {
            Some(run) => {
                format!("an earlier demo left it behind; delete everything with the label {RUN}={run}")
            }
            None => "the demo replaces nothing; use a cluster without OLM v1".to_owned(),
        };
        format!("{} exists on {}: {remedy}", label(object), self.cluster)
    }

    /// Creates the objects that `wanted` selects.
    pub(crate) async fn create(&self, wanted: impl Fn(&DynamicObject) -> bool) -> Result<()> {
        for object in self.objects.iter().filter(|object| wanted(object)) {
            let api = self.api(object)?;
            let create = async || match api.create(&PostParams::default(), object).await {
                Ok(_) => Ok(()),
                // Its CRD was created a moment ago.
                Err(kube::Error::Api(status)) if status.code == 404 => bail!("its kind is not served yet"),
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    Err(wait::Final(self.exists(object, None)).into())
                }
                Err(error) => Err(wait::Final(error.to_string()).into()),
            };
            wait::until(&format!("{} to be created", label(object)), DEADLINE, create).await?;
        }
        Ok(())
    }

    /// Removes the extension and the catalog, for which the controller must run.
    pub(crate) async fn remove_own_kinds(&self) -> Result<()> {
        for kind in ["ClusterExtension", "ClusterCatalog"] {
            self.delete(|object| crate::installation::kind(object) == kind).await?;
        }
        let revisions: Api<ClusterObjectSet> = Api::all(self.client.clone());
        wait::until("the revisions to be removed", DEADLINE, async || {
            let left: Vec<_> = match revisions.list_metadata(&ListParams::default()).await {
                Ok(left) => left.items.into_iter().filter_map(|set| set.metadata.name).collect(),
                Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            // The garbage collector does so too, but learns of a new kind only after half a minute.
            for name in left.iter().filter(|name| name.starts_with(NAME)) {
                match revisions.delete(name, &DeleteParams::background()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    deleted => drop(deleted?),
                }
            }
            wait::check(left.is_empty(), || format!("{} are left", left.join(", ")))
        })
        .await
    }

    /// Removes everything else.
    pub(crate) async fn remove_rest(&self) -> Result<()> {
        self.delete(|_| true).await?;
        self.delete_events().await
    }

    /// Deletes objects of this run, the last first, and waits until they are gone.
    async fn delete(&self, wanted: impl Fn(&DynamicObject) -> bool) -> Result<()> {
        let wanted: Vec<_> = self.objects.iter().rev().filter(|object| wanted(object)).collect();
        for object in &wanted {
            let Some(found) = self.created(object).await? else { continue };
            let preconditions = Preconditions { uid: found.metadata.uid, resource_version: None };
            let params = DeleteParams::background().preconditions(preconditions);
            match self.api(object)?.delete(name(object), &params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                deleted => drop(deleted.with_context(|| format!("deleting {}", label(object)))?),
            }
        }
        for object in wanted {
            wait::until(&format!("{} to be removed", label(object)), DEADLINE, async || {
                wait::check(self.created(object).await?.is_none(), || "it is being deleted".to_owned())
            })
            .await?;
        }
        Ok(())
    }

    /// Events about what is gone now; those of namespaces went with them.
    async fn delete_events(&self) -> Result<()> {
        let all: Api<Event> = Api::all(self.client.clone());
        for event in all.all().await? {
            let about = event.involved_object.name.unwrap_or_default();
            let (Some(name), Some(namespace)) = (event.metadata.name, event.metadata.namespace) else {
                continue;
            };
            if about.starts_with(NAME) {
                let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
                api.remove(&name).await?;
            }
        }
        Ok(())
    }

    /// How to find what the demo has created and not removed.
    pub(crate) fn by_label(&self) -> String {
        format!("find it by its label {RUN}={}", self.run)
    }

    /// The object on the cluster, if this run created it.
    async fn created(&self, object: &DynamicObject) -> Result<Option<DynamicObject>> {
        let found = self.found(object).await?;
        Ok(found.filter(|found| found.metadata.labels.as_ref().and_then(|l| l.get(RUN)) == Some(&self.run)))
    }

    async fn found(&self, object: &DynamicObject) -> Result<Option<DynamicObject>> {
        match self.api(object)?.get(name(object)).await {
            Ok(found) => Ok(Some(found)),
            // Also when its kind is not served, of which the answer says nothing else.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", label(object))),
        }
    }

    fn api(&self, object: &DynamicObject) -> Result<Api<DynamicObject>> {
        let types = object.types.as_ref().context("an object without a kind")?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
        Ok(match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        })
    }
}

pub(crate) fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| types.kind.as_str())
}

fn name(object: &DynamicObject) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}

fn label(object: &DynamicObject) -> String {
    match &object.metadata.namespace {
        Some(namespace) => format!("{} {namespace}/{}", kind(object), name(object)),
        None => format!("{} {}", kind(object), name(object)),
    }
}
