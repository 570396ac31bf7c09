//! `olm catalog template`: catalogs from templates, and templates from catalogs.

use std::{io::Write, path::Path};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use olm_fbc::MetaReader;
use olm_image::image_syntax;
use olm_opm::{
    Blob, DecodeError, Documents, Form, Outline, UpgradeGraph, View, document_text, each_document, mermaid,
    template::{Template, TemplateKind, to_basic, to_substitutes},
    validate,
};

use crate::{
    catalog::{
        form::form,
        rendering::{Allowed, Migrations, Renderer},
    },
    output::causes,
    progress::Bar,
    sources::{Registries, Source, limited, read_limited},
};

/// Largest template in bytes; one with a whole catalog in it may be large.
const TEMPLATE_BYTES_MAX: u64 = 256 << 20;
/// Names standard input.
const STANDARD_INPUT: &str = "-";

/// `olm catalog template …`
#[derive(Debug, Subcommand)]
pub(crate) enum Templates {
    Render(Render),
    Convert(Convert),
}

/// The printed output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum RenderedForm {
    /// The catalog as concatenated JSON objects.
    #[default]
    Json,
    /// The catalog as YAML documents.
    Yaml,
    /// Its upgrade graph as Mermaid text.
    Mermaid,
}

/// `olm catalog template render`
#[derive(Debug, Args)]
#[command(
    about = "Prints the catalog that a template describes",
    long_about = "Prints the catalog that a template describes. Bundles are rendered from their images.\n\n\
                  basic: a catalog whose bundles are only listed by image. semver: channels derived from the versions \
                  of bundles. substitutes: a catalog, and bundles that replace others in it. Without TYPE, the \
                  template's schema decides.\n\n\
                  Exit code 0 if the catalog was printed, 1 if not.",
    after_help = "Examples:\n  olm catalog template render semver template.yaml > catalog/catalog.json\n  olm catalog template render basic - -o yaml < template.yaml"
)]
pub(crate) struct Render {
    /// TYPE (basic, semver or substitutes) and FILE; without FILE, or with -, the template is read from standard
    /// input
    #[arg(value_name = "TYPE] [FILE", num_args = 0..=2)]
    arguments: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: RenderedForm,
    #[command(flatten)]
    migrations: Migrations,
    #[command(flatten)]
    registries: Registries,
}

/// `olm catalog template convert`
#[derive(Debug, Args)]
#[command(
    about = "Prints a catalog as a template",
    long_about = "Prints a catalog as a template: with basic, bundles are reduced to their images; with substitutes, \
                  the catalog is used as it is, without substitutions.\n\n\
                  Exit code 0 if the template was printed, 1 if not.",
    after_help = "Examples:\n  olm catalog template convert basic ./catalog > template.yaml"
)]
pub(crate) struct Convert {
    /// Type of the template
    #[arg(value_name = "TYPE")]
    kind: ConvertKind,
    /// Catalog: a file, a folder, an OCI image layout (oci:FOLDER[:NAME]), an image, or - for standard input
    #[arg(value_name = "REF", default_value = STANDARD_INPUT)]
    reference: String,
    /// Output format
    #[arg(short, long, value_parser = form(), default_value = "json")]
    output: Form,
    #[command(flatten)]
    registries: Registries,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ConvertKind {
    Basic,
    Substitutes,
}

impl Templates {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Render(render) => render.run(out).await,
            Self::Convert(convert) => convert.run(out).await,
        }
    }
}

impl Render {
    async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (kind, file) = type_and_file(&self.arguments)?;
        let text = read_template(file)?;
        let template = Template::read(&text, kind)?;
        drop(text);
        let images = template.images();
        let renderer = Renderer {
            registries: self.registries,
            authority: None,
            allowed: Allowed::BundleImages,
            level: self.migrations.migrate_level,
            image: None,
            bar: Bar::new("rendering", images.len()),
        };
        let bundles = renderer.bundles(&images).await;
        drop(renderer);
        let bundle = |image: &str| match bundles.get(image) {
            Some(Ok(bundle)) => Ok(bundle.clone()),
            Some(Err(error)) => Err(causes(error).into()),
            None => Err("it is not among the images of the template".into()),
        };
        let blobs = template.render(&bundle, &check)?;
        match self.output {
            RenderedForm::Json => print(&blobs, Form::Json, out),
            RenderedForm::Yaml => print(&blobs, Form::Yaml, out),
            RenderedForm::Mermaid => {
                let graph = UpgradeGraph::of(&outline(&blobs)?, &View::default())?;
                for ignored in &graph.ignored {
                    Bar::new("drawing", 1).warn(ignored);
                }
                Ok(out.write_all(mermaid(&graph).as_bytes())?)
            }
        }
    }
}

fn print(blobs: &[Blob], form: Form, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut documents = Documents::default();
    for blob in blobs {
        documents.push_blob(blob)?;
    }
    for text in documents.texts(form) {
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// A first argument that names a type is one.
fn type_and_file(arguments: &[String]) -> anyhow::Result<(Option<TemplateKind>, &str)> {
    let kind = |text: &str| match text {
        "basic" => Some(TemplateKind::Basic),
        "semver" => Some(TemplateKind::Semver),
        "substitutes" => Some(TemplateKind::Substitutes),
        _ => None,
    };
    match arguments {
        [] => Ok((None, STANDARD_INPUT)),
        [only] => Ok(kind(only).map_or((None, only.as_str()), |kind| (Some(kind), STANDARD_INPUT))),
        [first, file, ..] => match kind(first) {
            Some(kind) => Ok((Some(kind), file)),
            None => bail!("unknown template type {first:?}: it is basic, semver or substitutes"),
        },
    }
}

fn read_template(file: &str) -> anyhow::Result<String> {
    let bytes = if file == STANDARD_INPUT {
        limited(std::io::stdin(), TEMPLATE_BYTES_MAX).context("standard input")?
    } else {
        read_limited(Path::new(file), TEMPLATE_BYTES_MAX)?
    };
    Ok(olm_yaml::text(&bytes).with_context(|| file.to_owned())?.to_owned())
}

/// Whether blobs are a valid catalog.
fn check(blobs: &[Blob]) -> Result<(), String> {
    let outline = outline(blobs).map_err(|error| error.to_string())?;
    validate(&outline).message().map_or(Ok(()), Err)
}

fn outline(blobs: &[Blob]) -> Result<Outline, DecodeError> {
    let mut outline = Outline::new(image_syntax);
    for blob in blobs {
        outline.push_blob(blob)?;
    }
    Ok(outline)
}

impl Convert {
    async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut blobs = Vec::new();
        if self.reference == STANDARD_INPUT {
            let text = read_template(STANDARD_INPUT)?;
            let mut reader = MetaReader::new(text.as_bytes()).refusing_empty_documents();
            while let Some(meta) = reader.next_meta().context("standard input")? {
                blobs.push(Blob::of(&meta).context("standard input")?);
            }
        } else {
            let source: Source = self.reference.parse()?;
            let opened = self.registries.catalog(&source, None).await?;
            each_document::<anyhow::Error>(&opened.tree, &mut |path, meta| {
                blobs.push(Blob::of(meta).with_context(|| path.to_owned())?);
                Ok(())
            })?;
        }
        let template = match self.kind {
            ConvertKind::Basic => to_basic(&blobs)?,
            ConvertKind::Substitutes => to_substitutes(&blobs),
        };
        out.write_all(document_text(template.get(), self.output).as_bytes())?;
        Ok(())
    }
}
