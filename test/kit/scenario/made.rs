//! Bundles that a test makes itself, the catalogs with them, and further extensions.

use anyhow::Result;
use olm_api::v1::{ClusterCatalog, ClusterObjectSet};
use serde_json::{Value, json};

use super::Scenario;
use crate::{
    bundle::Bundle,
    catalog,
    extension::{ACCOUNT, extension, object_set},
    permissions::{allow, create_account, grant, rules_for},
    requests::Requests as _,
    wait,
    world::DEADLINE,
};

impl Scenario<'_> {
    /// Gives the account `installer` the permissions for a bundle alone.
    pub async fn permit(&self, bundle: &Bundle) -> Result<()> {
        let rules = rules_for(&[bundle.permitted_files()], &self.name)?;
        grant(&self.client, &self.name, ACCOUNT, &rules).await
    }

    /// An account of the test's namespace that may do everything with these resources in it.
    pub async fn account_for(&self, account: &str, groups: &[&str], resources: &[&str]) -> Result<()> {
        create_account(&self.client, &self.name, account).await?;
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
        let mut rules = rules_for(&[], &self.name)?;
        rules.allow_in_namespace(groups, resources, &verbs);
        grant(&self.client, &self.name, account, &rules).await
    }

    /// Lets the account `installer` do everything; the role in the cluster is called `<name>-everything`.
    pub async fn allow_everything(&self) -> Result<()> {
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                           {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
        let subject = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": self.name});
        allow(&self.client, "", &format!("{}-everything", self.name), &rules, &subject).await
    }

    /// Creates a set by hand, of the scenario's name, that acts as the account `installer`: one phase with these objects.
    pub async fn make_set(&self, objects: &Value) -> Result<ClusterObjectSet> {
        let metadata = json!({"name": self.name, "annotations": self.by_hand()});
        self.sets().make(object_set(&metadata, 1, objects)).await
    }

    /// Pushes bundles and a catalog of them with further blobs; the account `installer` gets the permissions for them.
    pub async fn push_made(&self, bundles: &[Bundle], more: &[Value], tag: &str) -> Result<String> {
        let mut listed = Vec::new();
        for bundle in bundles {
            let (package, version) = (&bundle.entry.package, bundle.entry.version.replace('+', "-"));
            let name = format!("{}/{package}:{tag}-{version}", self.name);
            listed.push((bundle.entry.clone(), self.world.images.push_made(bundle, &name).await?));
        }
        create_account(&self.client, &self.name, ACCOUNT).await?;
        let files: Vec<_> = bundles.iter().map(Bundle::permitted_files).collect();
        grant(&self.client, &self.name, ACCOUNT, &rules_for(&files, &self.name)?).await?;
        self.push_catalog(&(catalog::text(&listed) + &catalog::lines(more)), tag).await
    }

    /// The test's catalog with these bundles, serving, and an account with the permissions for them.
    pub async fn offer(&self, bundles: &[Bundle]) -> Result<()> {
        self.offer_with(bundles, &[]).await
    }

    /// The same, with further blobs in the catalog.
    pub async fn offer_with(&self, bundles: &[Bundle], more: &[Value]) -> Result<()> {
        let reference = self.push_made(bundles, more, "latest").await?;
        self.create_catalog(&reference, None).await?;
        self.catalog_serves().await
    }

    /// A further catalog, `<name>-<suffix>`, with the label `scenario`. It need not come to serve.
    pub async fn further_catalog(&self, suffix: &str, priority: i32, reference: &str) -> Result<String> {
        let name = format!("{}-{suffix}", self.name);
        let mut catalog: ClusterCatalog = catalog::cluster_catalog(&name, &json!({"ref": reference}));
        catalog.spec.priority = priority;
        catalog.metadata.labels = Some([("scenario".to_owned(), self.name.clone())].into());
        self.catalogs().make(&catalog).await?;
        Ok(name)
    }

    /// The filter for all catalogs that [`Self::further_catalog`] made.
    pub fn own_catalogs(&self) -> Value {
        json!({"selector": {"matchLabels": {"scenario": self.name}}})
    }

    /// Waits until a catalog is served.
    pub async fn serves(&self, name: &str) -> Result<()> {
        catalog::serves(&self.client, name, DEADLINE).await
    }

    /// Merges a patch into a catalog.
    pub async fn patch_catalog(&self, name: &str, patch: Value) -> Result<()> {
        self.catalogs().merge(name, patch).await.map(drop)
    }

    /// The test's extension, to be created with something more.
    pub fn extension_object(&self, package: &str) -> Value {
        self.extension.object(package, &Value::Null)
    }

    /// A second extension, in the test's namespace and with its account.
    pub async fn another(&self, name: &str, package: &str, filter: Value) -> Result<()> {
        let extension = extension(name, &self.name, package, &self.name, &filter);
        self.extensions().make(extension).await.map(drop)
    }

    /// Removes an extension, and waits until it is gone.
    pub async fn remove_extension(&self, name: &str) -> Result<()> {
        let extensions = self.extensions();
        extensions.remove(name).await?;
        wait::eventually(
            "the extension to be gone",
            async || Ok(extensions.get_opt(name).await?),
            Option::is_none,
        )
        .await
    }

    /// Sets an annotation of the test's extension, or removes it with null.
    pub async fn annotate(&self, annotation: &str, value: Value) -> Result<()> {
        let key = format!("extensions.olm.operatorframework.io/{annotation}");
        self.patch_extension(json!({"metadata": {"annotations": {key: value}}})).await
    }
}
