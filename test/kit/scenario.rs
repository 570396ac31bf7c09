//! What one test has for itself on a cluster that it shares: a namespace, a catalog, a ServiceAccount, an extension.

mod made;
mod seen;

use k8s_openapi::api::authorization::v1::SelfSubjectRulesReview;
use kube::core::ObjectMeta;

use crate::{
    bundle::{LIGHTHOUSE_GROUP, copy},
    catalog,
    cluster::inventory,
    extension::Shown,
    images::bundle_files,
    permissions::{allow, user},
    prelude::*,
};

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// One test's part of the world.
pub struct Scenario<'a> {
    /// Where it runs.
    pub world: &'a World,
    /// A client of this test's runtime.
    pub client: Client,
    /// Name of the namespace, the catalog and the extension.
    pub name: String,
    extension: Extension,
    /// Sample bundles whose CRD is this test's own.
    bundles: tempfile::TempDir,
}

impl<'a> Scenario<'a> {
    /// A namespace of its own.
    pub async fn new(world: &'a World, base: &str) -> Result<Self> {
        let name = unique_name(base);
        world.cluster.create_namespace(&name).await?;
        let client = world.cluster.client().await?;
        let extension = Extension::new(&client, &name);
        Ok(Self { world, client, name, extension, bundles: tempfile::tempdir()? })
    }

    /// The same in the world that tests share.
    pub async fn shared(base: &str) -> Result<Scenario<'static>> {
        Scenario::new(World::shared().await?, base).await
    }

    /// A user with these rules in the whole cluster: name and client. The authorizer, which learns of them by a watch, knows
    /// them.
    pub async fn user(&self, suffix: &str, rules: Value) -> Result<(String, Client)> {
        let name = format!("{}-{suffix}", self.name);
        allow(&self.client, "", &name, &rules, &user(&name)).await?;
        let client = self.world.cluster.client_for(&name, &["system:authenticated"]).await?;
        let reviews: Api<SelfSubjectRulesReview> = Api::all(client.clone());
        let question = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
            "metadata": {}, "spec": {"namespace": self.name}});
        let known = async || Ok(reviews.make(&question).await?.status);
        eventually("the user's rules to be known", known, |status| {
            let status = json!(status);
            let known = items(&status["resourceRules"]).chain(items(&status["nonResourceRules"]));
            let known: Vec<&Value> = known.collect();
            // Rules about the same resources are joined.
            let has = |known: &Value, rule: &Value| {
                let mut fields = ["verbs", "resources", "nonResourceURLs"].iter();
                fields
                    .all(|field| items(&rule[field]).all(|item| items(&known[field]).any(|one| one == item)))
            };
            items(&rules).all(|rule| known.iter().any(|known| has(known, rule)))
        })
        .await?;
        Ok((name, client))
    }

    /// The API group of the sample operator in this test: a CRD has one owner, so each test has its own.
    pub fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    /// The sample bundle in `folder` with the test's own CRD; other bundles as they are.
    pub fn own(&self, folder: &Path) -> Result<PathBuf> {
        let samples = lighthouse("");
        let Some(version) = folder.file_name().filter(|_| folder.starts_with(samples)) else {
            return Ok(folder.to_owned());
        };
        let own = self.bundles.path().join(version);
        copy(folder, &own, &[(LIGHTHOUSE_GROUP, &self.group())])?;
        Ok(own)
    }

    /// Pushes bundles (folders by version) and a catalog of them as `<name>-catalog:<tag>`.
    pub async fn push(&self, package: &str, bundles: &[(&str, PathBuf)], tag: &str) -> Result<String> {
        self.push_catalog(&self.push_bundles(package, bundles).await?, tag).await
    }

    /// Pushes bundles (folders by version) and returns a catalog of them.
    pub async fn push_bundles(&self, package: &str, bundles: &[(&str, PathBuf)]) -> Result<String> {
        let mut pushed = Vec::new();
        for (version, folder) in bundles {
            // A version may hold characters that a tag may not.
            let image_tag = version.replace('+', "-");
            let image = self
                .world
                .images
                .push_bundle(&self.own(folder)?, &format!("{}/{package}:v{image_tag}", self.name))
                .await?;
            pushed.push((*version, image));
        }
        let listed: Vec<(&str, &str)> = pushed.iter().map(|(v, i)| (*v, i.as_str())).collect();
        Ok(catalog::chain(package, &listed))
    }

    /// Pushes a catalog as `<name>-catalog:<tag>`.
    pub async fn push_catalog(&self, content: &str, tag: &str) -> Result<String> {
        self.world.images.push_catalog(content, &format!("{}-catalog:{tag}", self.name)).await
    }

    /// The tagged reference of the test's catalog image.
    pub fn catalog_image(&self, tag: &str) -> String {
        format!("{}/{}-catalog:{tag}", self.world.images.host(), self.name)
    }

    /// Annotations of a revision made by hand, of version 7.0.0, that acts as the account.
    pub fn by_hand(&self) -> Value {
        json!({
            SERVICE_ACCOUNT_NAME_ANNOTATION: ACCOUNT,
            SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: self.name,
            BUNDLE_VERSION: "7.0.0",
        })
    }

    /// Creates the test's catalog.
    pub async fn create_catalog(&self, reference: &str, poll_minutes: Option<u32>) -> Result<()> {
        let image = json!({"ref": reference, "pollIntervalMinutes": poll_minutes});
        let catalog = catalog::cluster_catalog(&self.name, &image);
        Api::all(self.client.clone()).create(&PostParams::default(), &catalog).await?;
        Ok(())
    }

    /// Waits until the test's catalog is served.
    pub async fn catalog_serves(&self) -> Result<()> {
        self.world.operator.process().check_running()?;
        catalog::serves(&self.client, &self.name, DEADLINE).await
    }

    /// The test's catalog of these bundles, serving.
    pub async fn publish(&self, package: &str, bundles: &[(&str, PathBuf)]) -> Result<()> {
        let reference = self.push(package, bundles, "latest").await?;
        self.create_catalog(&reference, None).await?;
        self.catalog_serves().await
    }

    /// A catalog of these bundles that serves, and an account with exactly the rights for them.
    pub async fn prepare(&self, package: &str, bundles: &[(&str, PathBuf)]) -> Result<()> {
        let reference = self.push(package, bundles, "latest").await?;
        self.create_catalog(&reference, None).await?;
        create_account(&self.client, &self.name, ACCOUNT).await?;
        self.grant(bundles).await?;
        self.catalog_serves().await
    }

    /// Gives the account `installer` exactly the permissions for these bundles.
    pub async fn grant(&self, bundles: &[(&str, PathBuf)]) -> Result<()> {
        let files: Vec<_> =
            bundles.iter().map(|(_, folder)| bundle_files(&self.own(folder)?)).collect::<Result<_>>()?;
        grant(&self.client, &self.name, ACCOUNT, &rules_for(&files, &self.name)?).await
    }

    /// Creates the test's extension: `package` from its own catalog, with further fields of `source.catalog`.
    pub async fn create_extension(&self, package: &str, filter: Value) -> Result<()> {
        self.extension.create(self.extension.object(package, &filter)).await
    }

    /// Merges a patch into the test's extension.
    pub async fn patch_extension(&self, patch: Value) -> Result<()> {
        self.extension.patch(&patch).await
    }

    /// Requests a version of the test's extension.
    pub async fn set_version(&self, version: &str) -> Result<()> {
        self.extension.set_version(version).await
    }

    /// All extensions.
    pub fn extensions(&self) -> Api<ClusterExtension> {
        self.extension.api.clone()
    }

    /// What the test's extension reports now.
    pub async fn shown(&self) -> Result<Shown> {
        self.extension.shown().await
    }

    /// Waits until the version is installed and everything is ready.
    pub async fn installed(&self, version: &str) -> Result<()> {
        wait::until(&format!("{} to be installed at {version}", self.name), DEADLINE, || async {
            self.world.operator.process().check_running()?;
            self.extension.is_installed(version).await
        })
        .await
    }

    /// Creates the test's extension, and waits until this version is installed.
    pub async fn install(&self, package: &str, filter: Value, version: &str) -> Result<()> {
        self.create_extension(package, filter).await?;
        self.installed(version).await
    }

    /// Requests a version, and waits until it is installed.
    pub async fn upgrade(&self, version: &str) -> Result<()> {
        self.set_version(version).await?;
        self.installed(version).await
    }

    /// Deletes the test's extension, and waits until nothing of it is left.
    pub async fn uninstall(&self) -> Result<()> {
        self.delete_extension().await?;
        self.nothing_left().await
    }

    /// Waits until a condition is as wanted: `Status/Reason/beginning of the message`.
    pub async fn shows(&self, type_: ConditionType, wanted: &str) -> Result<()> {
        wait::until(&format!("{type_} to be {wanted}"), DEADLINE, || async {
            self.world.operator.process().check_running()?;
            self.extension.shows(type_, wanted).await
        })
        .await
    }

    /// Waits until `Status/Reason/Message` of a condition is as wanted.
    pub async fn reports(&self, type_: ConditionType, is_wanted: impl Fn(&str) -> bool) -> Result<()> {
        let found = async || {
            self.world.operator.process().check_running()?;
            Ok(self.shown().await?.condition(type_))
        };
        wait::eventually(&format!("another {type_}"), found, |text| is_wanted(text)).await
    }

    /// Deletes the test's extension, and waits until it is gone.
    pub async fn delete_extension(&self) -> Result<()> {
        self.remove_extension(&self.name).await
    }

    /// Every object in the cluster that carries the extension's owner label, as `<Kind> <namespace>/<name>`.
    pub async fn owned(&self) -> Result<Vec<String>> {
        let label = format!("olm.operatorframework.io/owner-name={}", self.name);
        let found = inventory(&self.client, &ListParams::default().labels(&label)).await?;
        let told = |(kind, item): (String, ObjectMeta)| {
            let (namespace, name) = (item.namespace.unwrap_or_default(), item.name.unwrap_or_default());
            let going = item.deletion_timestamp.map(|at| format!(" (deleted at {})", at.0));
            format!("{kind} {namespace}/{name}{}", going.unwrap_or_default())
        };
        let mut owned: Vec<String> = found.into_iter().map(told).collect();
        owned.sort_unstable();
        owned.dedup();
        Ok(owned)
    }

    /// Waits until nothing of the extension is left.
    pub async fn nothing_left(&self) -> Result<()> {
        wait::until("everything of the extension to be gone", COLLECTED, || async {
            let owned = self.owned().await?;
            wait::check(owned.is_empty(), || format!("left: {owned:?}"))
        })
        .await
    }
}
