//! `olm diff`: the plan of an extension's next revision, or what a Subscription's InstallPlan would do.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::Args;
use kube::{Client, Config, ResourceExt};
use olm_api::v1::ClusterExtension;
use olm_runtime::connect;
use operator_controller::plan::Next;
use serde_json::{Value, json};

use crate::{
    classic::{Difference, SUBSCRIPTION},
    cluster::Cluster,
    extension::{
        planning::{Planning, inline},
        revisions::{extension, found},
        upgrade::Target,
    },
    output::{self, Differs, Format},
    sources::{limited, read_limited},
};

/// Largest manifest in bytes; the API server takes no larger object.
const MANIFEST_BYTES_MAX: u64 = 3 << 20;

/// The help text below the options.
pub(crate) const HELP: &str = "The plan is the same as the controller's: objects that are created, changed and deleted, images, CRDs, permissions, and
the result of a dry run on the API server. Nothing is written. The command creates a token of the extension's
ServiceAccount, whose permissions matter; without one the plan says what is not known. Catalogs are read from the cluster's
server of catalogs, bundles are pulled as images. The revision that carries out the plan has its digest (annotation
extensions.olm.operatorframework.io/plan-digest).

Of a Subscription of OLM Classic: what the InstallPlan that it waits for would create, change and delete, field by field, with the
images of its Deployments. The dry runs are made in the name of the user who runs the command, and bundles are pulled with that
user's credentials.

--version, --channel, --config and -f show the effect of a change before it is made. With -f the extension need not exist
yet.

Exit codes: 0 nothing would change, 2 something would change or is blocked, 1 the plan could not be made.

Examples:
  olm diff lighthouse
  olm diff lighthouse --version 2.x --channel candidate
  olm diff -f extension.yaml
  olm diff subscription lighthouse -n operators
  olm diff lighthouse --context staging -o json";

/// `olm diff`
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Name of the ClusterExtension, or subscription before a name
    #[arg(required_unless_present = "file", value_name = "EXTENSION | subscription")]
    extension: Option<String>,
    /// Name of the Subscription
    #[arg(conflicts_with_all = ["file", "version", "channels", "config"])]
    name: Option<String>,
    /// Namespace of the Subscription. Default: that of the kubeconfig
    #[arg(long, short, requires = "name")]
    namespace: Option<String>,
    /// Manifest of the ClusterExtension (- is standard input), applied to the one on the cluster if it exists there
    #[arg(long = "filename", short = 'f', value_name = "FILE", conflicts_with = "extension")]
    file: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
    /// File with spec.config.inline, instead of the extension's
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    planning: Planning,
}

impl Diff {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let cluster = self.cluster.config().await?;
        if let Some(name) = &self.name {
            return Box::pin(self.of_subscription(&cluster, name, out)).await;
        }
        let plans = self.planning.plans(&cluster, true).await?;
        let extension = self.wanted(&connect(cluster)?).await?;
        let name = extension.name_any();
        match Box::pin(plans.planner.next(&extension)).await? {
            Next::Nothing { why, notes } => {
                if self.output == Format::Text {
                    for note in &notes {
                        output::warning(note);
                    }
                }
                let answer = json!({"extension": name, "difference": false, "why": why, "notes": notes});
                output::answer(out, self.output, &answer, |_| format!("{name}: no difference: {why}"))
            }
            Next::Revision(revision) => {
                let mut answer = revision.plan.to_json();
                answer["difference"] = true.into();
                output::answer(out, self.output, &answer, |_| revision.plan.to_text())?;
                Err(Differs.into())
            }
        }
    }

    /// What the InstallPlan of a Subscription would do.
    async fn of_subscription(&self, cluster: &Config, name: &str, out: &mut dyn Write) -> anyhow::Result<()> {
        let kind = self.extension.as_deref().unwrap_or_default().to_ascii_lowercase();
        if !SUBSCRIPTION.contains(&kind.as_str()) {
            bail!("{kind:?} {name}: give the name of a ClusterExtension, or subscription and a name");
        }
        let namespace = self.namespace.as_deref().unwrap_or(&cluster.default_namespace);
        let client = connect(cluster.clone())?;
        let found = Difference::read(&client, self.planning.registries(), namespace, name).await?;
        output::answer(out, self.output, &found, Difference::to_text)?;
        if found.has_changes { Err(Differs.into()) } else { Ok(()) }
    }

    /// The extension as it is asked about.
    async fn wanted(&self, client: &Client) -> anyhow::Result<ClusterExtension> {
        let mut wanted = match (&self.file, &self.extension) {
            (Some(path), _) => {
                let manifest = manifest(path)?;
                found(client, &manifest.name_any())
                    .await?
                    .map_or(manifest.clone(), |live| applied(live, manifest))
            }
            (None, name) => extension(client, name.as_deref().unwrap_or_default()).await?,
        };
        if self.target.is_given() {
            wanted = self.target.of(&wanted)?;
        }
        if let Some(path) = &self.config {
            wanted.spec.config = Some(inline(path)?);
        }
        Ok(wanted)
    }
}

/// What applying the manifest makes of the extension on the cluster.
fn applied(mut live: ClusterExtension, manifest: ClusterExtension) -> ClusterExtension {
    live.spec = manifest.spec;
    live.metadata
        .annotations
        .get_or_insert_default()
        .extend(manifest.metadata.annotations.unwrap_or_default());
    live
}

/// The one ClusterExtension of a file.
fn manifest(path: &Path) -> anyhow::Result<ClusterExtension> {
    let context = || path.display().to_string();
    let bytes = if path == Path::new("-") {
        limited(std::io::stdin(), MANIFEST_BYTES_MAX)
    } else {
        read_limited(path, MANIFEST_BYTES_MAX)
    };
    let bytes = bytes.with_context(context)?;
    let documents = olm_yaml::documents(olm_yaml::text(&bytes).with_context(context)?);
    let documents: Vec<Value> = documents.collect::<Result<_, _>>().with_context(context)?;
    let mut extensions: Vec<Value> =
        documents.into_iter().filter(|one| olm_object::text(one, "/kind") == "ClusterExtension").collect();
    let (Some(extension), true) = (extensions.pop(), extensions.is_empty()) else {
        bail!("{}: want a file with one ClusterExtension", context());
    };
    serde_json::from_value(extension).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(version: &str, annotations: &Value) -> ClusterExtension {
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "light", "uid": "u", "annotations": annotations},
            "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p", "version": version}}},
        }))
        .expect("an extension")
    }

    #[test]
    fn a_manifest_replaces_the_spec_and_keeps_who_the_extension_is() {
        let live = extension("1.0.0", &json!({"kept": "a", "changed": "a"}));
        let mut manifest = extension("2.0.0", &json!({"changed": "b"}));
        manifest.metadata.uid = None;
        let wanted = applied(live, manifest.clone());
        assert_eq!(wanted.metadata.uid.as_deref(), Some("u"));
        assert_eq!(wanted.spec, manifest.spec);
        let annotations = wanted.metadata.annotations.expect("some");
        assert_eq!(annotations["kept"], "a");
        assert_eq!(annotations["changed"], "b");
    }

    #[test]
    fn a_file_has_one_extension_among_other_manifests() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("extension.yaml");
        let one = "---\nkind: Namespace\n---\napiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata: {name: a}\nspec: {namespace: lamps, source: {sourceType: Catalog}}\n";
        std::fs::write(&path, one).expect("written");
        assert_eq!(manifest(&path).expect("read").name_any(), "a");
        std::fs::write(&path, format!("{one}{one}")).expect("written");
        assert!(manifest(&path).is_err());
        std::fs::write(&path, "kind: Namespace\n").expect("written");
        assert!(manifest(&path).is_err());
    }
}
