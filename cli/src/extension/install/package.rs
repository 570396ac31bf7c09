//! One package to be installed: its extension, what that needs, and the plan of its first revision.

use anyhow::{Context as _, bail};
use kube::{Api, Client, ResourceExt};
use olm_api::{
    names::{CATALOG_NAME_LABEL, DELETION_GUARD_ANNOTATION},
    v1::ClusterExtension,
};
use olm_plan::{Plan, Section};
use olm_rbac::{Grant, Style, targets};
use olm_runtime::if_exists;
use operator_controller::plan::{NewRevision, Next, PlanError, Planner};
use serde_json::{Value, json};

use super::{
    super::{
        manifests::{Presence, extension_manifest, label, presence, with_marks},
        planning::bundle_of,
        upgrade::Target,
    },
    check_label,
};
use crate::cluster::list;

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) package: String,
    pub(super) target: Target,
    /// Whether the range stays in the extension.
    pub(super) follows: bool,
    /// Whether the extension gets a deletion guard.
    pub(super) is_guarded: bool,
    pub(super) catalog: Option<String>,
    pub(super) name: String,
    /// Whether the name was given.
    pub(super) is_named: bool,
    pub(super) namespace: String,
    /// The ServiceAccount, if it was given.
    pub(super) account: Option<String>,
    pub(super) config: Option<Value>,
}

/// A package that can be installed.
pub(super) struct Package {
    pub(super) name: String,
    pub(super) wanted: Wanted,
    pub(super) revision: NewRevision,
    /// The manifest of the ClusterExtension.
    pub(super) extension: Value,
    /// Namespace, ServiceAccount, roles and bindings, and whether they exist.
    pub(super) prepared: Vec<(Value, Presence)>,
    /// The permissions that are given; nothing if the ServiceAccount keeps those it has.
    pub(super) grant: Option<Grant>,
    /// Whether the configuration was filled in.
    pub(super) is_filled_in: bool,
}

impl Package {
    /// Plans the package. Nothing is written.
    pub(super) async fn plan_of(client: &Client, planner: &Planner, wanted: Wanted) -> anyhow::Result<Self> {
        check(client, &wanted).await?;
        let (revision, config) = plan(planner, &wanted).await?;
        let is_filled_in = wanted.config != config;
        let wanted = Wanted { config, ..wanted };
        let account = wanted.service_account();
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": wanted.namespace},
        });
        let namespace = with_marks(namespace, &wanted.name);
        let mut prepared = vec![(namespace.clone(), presence(client, &namespace, &wanted.name).await?)];
        if prepared[0].1 == Presence::Ours {
            // A namespace is not changed.
            prepared[0].1 = Presence::Foreign;
        }
        let needed = targets(&revision.objects).context(
            "the permissions of the bundle are not known: create a ServiceAccount with them and pass --service-account",
        )?;
        let grant = Grant::new(&wanted.namespace, &account, &[needed], Style::Exact);
        let mut grants = Some(grant.clone());
        for manifest in grant.manifests() {
            let manifest = with_marks(manifest, &wanted.name);
            let found = presence(client, &manifest, &wanted.name).await?;
            if found == Presence::Foreign {
                if wanted.account.is_some() && manifest["kind"] == "ServiceAccount" {
                    grants = None;
                    break;
                }
                bail!(
                    "{} exists already and was not created for extension {}: it is left alone. Pass another --service-account, or one that exists and has the permissions",
                    label(&manifest),
                    wanted.name
                );
            }
            prepared.push((manifest, found));
        }
        let mut revision = revision;
        if grants.is_some() {
            // They are granted before the controller looks.
            revision.plan.missing_permissions = Section::Known(Vec::new());
        }
        let extension = wanted.extension(&revision.version);
        Ok(Self {
            name: wanted.name.clone(),
            wanted,
            revision,
            extension,
            prepared,
            grant: grants,
            is_filled_in,
        })
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.revision.plan
    }

    pub(super) fn bundle(&self) -> String {
        bundle_of(&self.revision)
    }

    /// Everything that is applied, in its order.
    pub(super) fn manifests(&self) -> Vec<Value> {
        let prepared = self.prepared.iter().map(|(manifest, _)| manifest.clone());
        prepared.chain([self.extension.clone()]).collect()
    }
}

impl Wanted {
    pub(super) fn service_account(&self) -> String {
        self.account.clone().unwrap_or_else(|| format!("{}-installer", self.name))
    }

    /// The extension, pinned to a version unless it follows its range.
    fn extension(&self, version: &str) -> Value {
        let range = self.target.version.clone().filter(|_| self.follows);
        let mut spec = self.spec();
        spec["source"]["catalog"]["version"] = range.unwrap_or_else(|| version.to_owned()).into();
        let mut manifest = extension_manifest(&self.name, &spec);
        if self.is_guarded {
            manifest["metadata"]["annotations"][DELETION_GUARD_ANNOTATION] = "Block".into();
        }
        manifest
    }

    fn spec(&self) -> Value {
        let mut catalog = json!({"packageName": self.package});
        if let Some(version) = &self.target.version {
            catalog["version"] = version.as_str().into();
        }
        if !self.target.channels.is_empty() {
            catalog["channels"] = json!(self.target.channels);
        }
        if let Some(name) = &self.catalog {
            catalog["selector"] = json!({"matchLabels": {CATALOG_NAME_LABEL: name}});
        }
        let mut spec = json!({
            "namespace": self.namespace,
            "serviceAccount": {"name": self.service_account()},
            "source": {"sourceType": "Catalog", "catalog": catalog},
        });
        if let Some(config) = &self.config {
            spec["config"] = json!({"configType": "Inline", "inline": config});
        }
        spec
    }
}

/// Fails if the extension cannot be created.
async fn check(client: &Client, wanted: &Wanted) -> anyhow::Result<()> {
    let Wanted { name, namespace, package, .. } = wanted;
    check_label("--name", name)?;
    check_label("--namespace", namespace)?;
    let api: Api<ClusterExtension> = Api::all(client.clone());
    let found = if_exists(api.get_metadata(name)).await;
    if found.with_context(|| format!("reading ClusterExtension {name}"))?.is_some() {
        bail!(
            "ClusterExtension {name} exists already: \"olm upgrade {name}\" changes its version, or pass another --name"
        );
    }
    let all: Vec<ClusterExtension> = list(client).await?;
    let installs = |one: &&ClusterExtension| {
        one.spec.source.catalog.as_ref().is_some_and(|catalog| catalog.package_name == *package)
    };
    if let Some(other) = all.iter().find(installs).filter(|_| !wanted.is_named) {
        bail!(
            "package {package} is installed by ClusterExtension {0} already: \"olm upgrade {0}\" changes its version. To install it a second time, pass --name",
            other.name_any()
        );
    }
    Ok(())
}

/// The plan of the first revision, with the configuration that it needs.
async fn plan(planner: &Planner, wanted: &Wanted) -> anyhow::Result<(NewRevision, Option<Value>)> {
    let next = match planned(planner, wanted).await {
        Err(PlanError::Configuration(_)) if wanted.config.is_none() => {
            let config = Some(json!({"watchNamespace": wanted.namespace}));
            let filled_in = Wanted { config, ..wanted.clone() };
            let next = planned(planner, &filled_in).await.map_err(|error| {
                anyhow::anyhow!("{error}\nPass --watch-namespace or --config with what the bundle needs")
            })?;
            return Ok((first(next, wanted)?, filled_in.config));
        }
        next => next?,
    };
    Ok((first(next, wanted)?, wanted.config.clone()))
}

async fn planned(planner: &Planner, wanted: &Wanted) -> Result<Next, PlanError> {
    let manifest = extension_manifest(&wanted.name, &wanted.spec());
    let extension =
        serde_json::from_value(manifest).map_err(|error| PlanError::Stopped(error.to_string()))?;
    Box::pin(planner.next(&extension)).await
}

fn first(next: Next, wanted: &Wanted) -> anyhow::Result<NewRevision> {
    match next {
        Next::Revision(revision) => Ok(*revision),
        Next::Nothing { why, .. } => bail!("package {} cannot be installed now: {why}", wanted.package),
    }
}
