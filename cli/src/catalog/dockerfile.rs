//! `olm catalog dockerfile`: how an image is made of a catalog.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use catalogd::CONFIGS_LABEL;
use clap::Args;

use super::CONFIGS;

/// Where the cache for the gRPC server of OLM Classic is in the image.
const CACHE: &str = "/tmp/cache";
const SCRATCH: &str = "scratch";
const OPM_IMAGE: &str = "quay.io/operator-framework/opm:latest";

/// `olm catalog dockerfile`
#[derive(Debug, Args)]
pub(crate) struct Dockerfile {
    /// Folder with the catalog; the file is written next to it
    folder: PathBuf,
    /// Also support OLM Classic, with this base image, which contains /bin/opm as the server; or scratch, if OLM
    /// provides the server
    #[arg(short = 'i', long, value_name = "IMAGE")]
    base_image: Option<String>,
    /// Image with /bin/opm that creates the cache for that server
    #[arg(short = 'b', long, value_name = "IMAGE", default_value = OPM_IMAGE, requires = "base_image")]
    builder_image: String,
    /// Additional label of the image; may be repeated
    #[arg(short = 'l', long, value_name = "KEY=VALUE")]
    extra_labels: Vec<String>,
}

impl Dockerfile {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        if !self.folder.is_dir() {
            bail!("provided root path {:?} is not a directory", self.folder.display().to_string());
        }
        // A name such as "." or "a/.." says nothing about the folder.
        let folder = match self.folder.file_name() {
            Some(_) => self.folder.clone(),
            None => self.folder.canonicalize().with_context(|| self.folder.display().to_string())?,
        };
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else {
            bail!("{}: the folder's name cannot be written into a Dockerfile", folder.display());
        };
        let text = self.text(name)?;
        let path = folder.with_file_name(format!("{name}.Dockerfile"));
        write_new(&path, &text)?;
        writeln!(out, "{}", olm_text::one_line(&path.display().to_string()))?;
        Ok(())
    }

    fn text(&self, folder: &str) -> anyhow::Result<String> {
        let labels = labels(&self.extra_labels)?;
        let folder = argument(folder)?;
        for image in self.base_image.iter().chain([&self.builder_image]) {
            if image.is_empty() || image.chars().any(|c| c.is_whitespace() || c.is_control()) {
                bail!("invalid image {image:?}: it is empty or has white space");
            }
        }
        let mut text = match &self.base_image {
            None => format!(
                "# A catalog for OLM v1, which reads the files and nothing else.\nFROM {SCRATCH}\n\n{}",
                add(&folder)
            ),
            Some(base) => classic(base, &self.builder_image, &folder)?,
        };
        let _ = write!(text, "\n# Where in the image the catalog is\nLABEL {CONFIGS_LABEL}={CONFIGS}\n");
        if !labels.is_empty() {
            text.push_str("\n# Further labels\n");
        }
        for (key, value) in labels {
            let _ = writeln!(text, "LABEL {key}={value}");
        }
        Ok(text)
    }
}

fn add(folder: &str) -> String {
    if folder.starts_with('"') {
        format!("ADD [{folder}, \"{CONFIGS}\"]\n")
    } else {
        format!("ADD {folder} {CONFIGS}\n")
    }
}

/// An image that OLM Classic can run, with the cache of its server.
fn classic(base: &str, builder: &str, folder: &str) -> anyhow::Result<String> {
    if builder == SCRATCH {
        bail!("invalid builder image: {builder:?}");
    }
    let start = if base == SCRATCH {
        format!(
            "# Nothing can be started in this image. OLM Classic takes the files out of it when the CatalogSource says so:\n\
             # spec.grpcPodConfig.extractContent: {{catalogDir: {CONFIGS}, cacheDir: {CACHE}}}\n"
        )
    } else {
        format!(
            "# The server for OLM Classic\nENTRYPOINT [\"/bin/opm\"]\n\
             CMD [\"serve\", \"{CONFIGS}\", \"--cache-dir={CACHE}\"]\n"
        )
    };
    Ok(format!(
        "# The builder has /bin/opm, which makes the cache of the server for OLM Classic.\nFROM {builder} AS builder\n\n\
         {}RUN [\"/bin/opm\", \"serve\", \"{CONFIGS}\", \"--cache-dir={CACHE}\", \"--cache-only\"]\n\nFROM {base}\n\n\
         {start}\nCOPY --from=builder {CONFIGS} {CONFIGS}\nCOPY --from=builder {CACHE} {CACHE}\n",
        add(folder),
    ))
}

/// The labels, quoted; sorted, so that the same labels give the same file.
fn labels(arguments: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for argument in arguments {
        match argument.split_once('=') {
            Some((key, value)) if !key.is_empty() && !argument.chars().any(char::is_control) => {
                labels.insert(quoted(key), quoted(value));
            }
            _ => bail!("invalid label {argument:?}: write KEY=VALUE on one line"),
        }
    }
    Ok(labels)
}

/// A name as an argument of an instruction, in quotes if it needs them.
fn argument(name: &str) -> anyhow::Result<String> {
    if name.chars().any(char::is_control) {
        bail!("{name:?}: control characters cannot be written into a Dockerfile");
    }
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
    if name.chars().all(plain) { Ok(name.to_owned()) } else { Ok(serde_json::to_string(name)?) }
}

/// A text in double quotes, in which nothing is replaced.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$"))
}

/// Writes a file that must not be there yet; what could not be written whole is removed.
fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let shown = path.display().to_string();
    let mut file = match File::create_new(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("path {shown:?}: file already exists");
        }
        created => created.with_context(|| shown.clone())?,
    };
    if let Err(error) = file.write_all(text.as_bytes()) {
        // The first error is reported; the other files stay at worst.
        let _ = std::fs::remove_file(path);
        return Err(error).with_context(|| shown);
    }
    Ok(())
}
