//! `olm bundle diff`: the changes that an upgrade from one bundle to another makes.

use std::{collections::BTreeSet, fmt::Write as _, io::Write};

use anyhow::Context as _;
use clap::Args;
use olm_bundle::InstallMode;
use olm_crd::{Allowances, Policy};
use olm_plan::{ContentDifference, content_difference};
use olm_render::{Options, render};
use olm_text::one_line;
use serde::Serialize;
use serde_json::Value;

use super::validate::configuration;
use crate::{
    crd::{self, Definition},
    output::{self, Differs, Format},
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
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    registries: Registries,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    safe: bool,
    old: String,
    new: String,
    definitions: Vec<Definition>,
    #[serde(flatten)]
    content: ContentDifference,
    /// Images that the ClusterServiceVersion names.
    related_images: Changed,
    install_modes: Changed,
}

/// Entries that are added and removed.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Changed {
    added: Vec<String>,
    removed: Vec<String>,
}

impl Changed {
    fn of(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Self {
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
        for (sign, entries) in [('+', &self.added), ('-', &self.removed)] {
            for entry in entries {
                let _ = writeln!(text, "  {sign} {}", one_line(entry));
            }
        }
    }
}

/// A bundle as it would be installed.
struct Bundle {
    name: String,
    definitions: crd::Definitions,
    modes: BTreeSet<String>,
    related_images: BTreeSet<String>,
    objects: Vec<Value>,
}

impl Diff {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let answer = self.answer().await?;
        output::answer(out, self.output, &answer, text)?;
        if answer.safe { Ok(()) } else { Err(Differs.into()) }
    }

    async fn answer(&self) -> anyhow::Result<Answer> {
        let old = self.bundle(&self.old).await?;
        let new = self.bundle(&self.new).await?;
        let definitions = crd::answer(&old.definitions, &new.definitions, Policy::Ours, &self.allow)?;
        let install_modes = Changed::of(&old.modes, &new.modes);
        Ok(Answer {
            safe: definitions.safe && install_modes.removed.is_empty(),
            old: old.name,
            new: new.name,
            definitions: definitions.definitions,
            content: content_difference(&old.objects, &new.objects),
            related_images: Changed::of(&old.related_images, &new.related_images),
            install_modes,
        })
    }

    async fn bundle(&self, source: &Source) -> anyhow::Result<Bundle> {
        let bundle = self.registries.bundle(source).await?;
        let modes = &bundle.csv.install_modes;
        // The widest mode shows all permissions.
        let widest = [InstallMode::AllNamespaces, InstallMode::OwnNamespace, InstallMode::SingleNamespace];
        let widest = widest.into_iter().find(|mode| modes.contains(mode));
        let config = widest.map(|mode| configuration(mode, &self.install_namespace));
        let options = Options { config, ..Options::new(&self.install_namespace) };
        Ok(Bundle {
            name: format!("{} {}", bundle.csv.name, bundle.csv.version),
            definitions: crd::named(&bundle.crds)?,
            modes: modes.iter().map(|mode| mode.as_str().to_owned()).collect(),
            related_images: bundle.csv.related_images.iter().cloned().collect(),
            objects: render(bundle, &options).with_context(|| source.to_string())?.objects,
        })
    }
}

fn text(answer: &Answer) -> String {
    let mut text = format!("{} -> {}\n", one_line(&answer.old), one_line(&answer.new));
    let changed: Vec<_> = answer.definitions.iter().filter(|d| d.change != crd::Change::Same).collect();
    if !changed.is_empty() {
        text.push_str("CRDs\n");
        let mut lines = String::new();
        for definition in changed {
            crd::write_definition(&mut lines, definition);
        }
        for line in lines.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text.push_str(&answer.content.to_text());
    answer.related_images.write(&mut text, "Related images");
    answer.install_modes.write(&mut text, "Install modes");
    if answer.install_modes.removed.is_empty() {
        text.push_str(&crd::verdict(&answer.definitions));
    } else {
        text.push_str("There are unsafe changes: an install mode is removed.");
    }
    text
}
