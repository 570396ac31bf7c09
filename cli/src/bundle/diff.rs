//! `olm bundle diff`: what an upgrade from one bundle to another will change.

mod rights;
mod workloads;

use std::{collections::BTreeSet, fmt::Write as _, io::Write};

use anyhow::Context as _;
use clap::Args;
use olm_crd::{Allowances, Policy};
use olm_render::{BundleFiles, Options, Rendered, render};
use olm_text::one_line;
use serde::Serialize;
use serde_json::Value;

pub(super) use self::workloads::images;
use crate::{
    crd::{self, Definition},
    output::{self, Exit, Format},
    sources::{Registries, Source},
};

/// `olm bundle diff`
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The bundle that is installed: a folder, an OCI image layout (oci:FOLDER[:NAME]) or an image
    old: Source,
    /// The bundle that is to replace it
    new: Source,
    /// Namespace the operator is installed into
    #[arg(long, short = 'n', value_name = "NAMESPACE", default_value = "operators")]
    install_namespace: String,
    /// Changes of CRDs to accept, as in the annotation allow-crd-changes
    #[arg(long, value_name = "ENTRIES", value_parser = Allowances::parse, default_value = "")]
    allow: Allowances,
    /// Form of the answer
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    registries: Registries,
}

/// The answer.
#[derive(Debug, Serialize)]
struct Answer {
    safe: bool,
    old: String,
    new: String,
    definitions: Vec<Definition>,
    rights: rights::Rights,
    images: Changed,
    deployments: Vec<workloads::Deployment>,
    install_modes: Changed,
    /// Other objects, as `Kind name`.
    objects: Changed,
}

/// What comes and what goes.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Changed {
    added: Vec<String>,
    removed: Vec<String>,
}

impl Changed {
    pub(crate) fn of(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Self {
        Self {
            added: new.difference(old).cloned().collect(),
            removed: old.difference(new).cloned().collect(),
        }
    }

    fn write(&self, text: &mut String, title: &str) {
        if self.added.is_empty() && self.removed.is_empty() {
            return;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{title}");
        for added in &self.added {
            let _ = writeln!(text, "  + {}", one_line(added));
        }
        for removed in &self.removed {
            let _ = writeln!(text, "  - {}", one_line(removed));
        }
    }
}

/// A bundle as it would be installed.
struct Bundle {
    files: BundleFiles,
    modes: BTreeSet<String>,
    related_images: BTreeSet<String>,
    rendered: Rendered,
}

impl Diff {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let answer = self.answer().await.map_err(Exit::failed)?;
        output::answer(out, self.output, &answer, text)?;
        if answer.safe { Ok(()) } else { Err(Exit::found().into()) }
    }

    async fn answer(&self) -> anyhow::Result<Answer> {
        let old = self.bundle(&self.old).await?;
        let new = self.bundle(&self.new).await?;
        let (before, after) = (crd::in_bundle(&old.files)?, crd::in_bundle(&new.files)?);
        let definitions = crd::answer(&before, &after, Policy::Ours, &self.allow)?;
        let install_modes = Changed::of(&old.modes, &new.modes);
        Ok(Answer {
            safe: definitions.safe && install_modes.removed.is_empty(),
            old: format!("{} {}", old.rendered.name, old.rendered.version),
            new: format!("{} {}", new.rendered.name, new.rendered.version),
            definitions: definitions.definitions,
            rights: rights::compare(&old.rendered.objects, &new.rendered.objects),
            images: Changed::of(&old.images(), &new.images()),
            deployments: workloads::compare(&old.rendered.objects, &new.rendered.objects),
            install_modes,
            objects: Changed::of(&others(&old.rendered), &others(&new.rendered)),
        })
    }

    async fn bundle(&self, source: &Source) -> anyhow::Result<Bundle> {
        let (files, _) = self.registries.bundle(source).await?;
        let csv = service_version(&files).with_context(|| source.to_string())?;
        let modes = csv["spec"]["installModes"].as_array().into_iter().flatten();
        let supported = modes.filter(|mode| mode["supported"] == true);
        let modes: BTreeSet<String> =
            supported.filter_map(|mode| mode["type"].as_str()).map(str::to_owned).collect();
        let related_images = related_images(&csv).into_iter().collect();
        // The widest mode shows all rights.
        let watched = if modes.contains("AllNamespaces") || modes.is_empty() {
            String::new()
        } else if modes.contains("OwnNamespace") {
            self.install_namespace.clone()
        } else {
            format!("{}-watched", self.install_namespace)
        };
        let options =
            Options { target_namespaces: Some(vec![watched]), ..Options::new(&self.install_namespace) };
        let rendered = render(&files, &options).with_context(|| source.to_string())?;
        Ok(Bundle { files, modes, related_images, rendered })
    }
}

impl Bundle {
    fn images(&self) -> BTreeSet<String> {
        let mut images = images(&self.rendered.objects);
        images.extend(self.related_images.iter().cloned());
        images
    }
}

/// The images that a ClusterServiceVersion names beside those of its Deployments.
pub(super) fn related_images(csv: &Value) -> Vec<String> {
    let images = csv["spec"]["relatedImages"].as_array().into_iter().flatten();
    images.filter_map(|image| image["image"].as_str()).map(str::to_owned).collect()
}

/// The bundle's ClusterServiceVersion.
pub(super) fn service_version(files: &BundleFiles) -> anyhow::Result<Value> {
    for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with("manifests/")) {
        let text = olm_yaml::text(bytes).with_context(|| path.to_owned())?;
        for document in olm_yaml::mixed(text) {
            let document = document.with_context(|| path.to_owned())?;
            if document["kind"] == "ClusterServiceVersion" {
                return Ok(document);
            }
        }
    }
    anyhow::bail!("no ClusterServiceVersion among the manifests")
}

/// Objects that no other part of the answer is about.
fn others(rendered: &Rendered) -> BTreeSet<String> {
    const TOLD: [&str; 6] = [
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "Deployment",
        "Role",
        "RoleBinding",
    ];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let others = rendered.objects.iter().filter(|object| !TOLD.contains(&text(&object["kind"]).as_str()));
    others.map(|object| format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))).collect()
}

fn text(answer: &Answer) -> String {
    let mut text = format!("{} -> {}\n", one_line(&answer.old), one_line(&answer.new));
    let changed: Vec<_> = answer.definitions.iter().filter(|d| d.change != crd::Change::Same).collect();
    if !changed.is_empty() {
        text.push_str("Custom resource definitions\n");
        let mut lines = String::new();
        for definition in changed {
            crd::write_definition(&mut lines, definition);
        }
        for line in lines.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    answer.rights.write(&mut text);
    answer.images.write(&mut text, "Images");
    workloads::write(&mut text, &answer.deployments);
    answer.install_modes.write(&mut text, "Install modes");
    answer.objects.write(&mut text, "Other objects");
    text.push_str(if answer.safe { "Every change is safe." } else { "There are unsafe changes." });
    text
}
