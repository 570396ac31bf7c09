//! `registries.conf` (version 2): where an image is really fetched from.
//!
//! Mirrors, relocation, blocked and insecure registries, with the rules of containers-registries.conf(5): the
//! entry with the longest matching prefix counts, and mirrors come before the registry itself. [`Config::load`]
//! reads the files and is called at every pull; [`candidates`] is pure. Search registries and short names do
//! not occur: references are fully qualified.

use std::{
    fmt::Display,
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use thiserror::Error;

use crate::{
    limits::REGISTRIES_CONF_BYTES_MAX,
    reference::{Repository, is_domain, is_path_component},
};

#[cfg(test)]
mod tests;

/// Why there is no place to fetch an image from: a sentence that names the configuration.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct RegistriesError(String);

impl RegistriesError {
    /// A configuration that cannot be read, or says something impossible; its content is not repeated.
    fn loading(path: &Path, cause: impl Display) -> Self {
        Self(format!("loading registries configuration {}: {cause}", path.display()))
    }
}

/// A place to fetch from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Host with port, as it is dialled.
    pub host: String,
    /// Repository on that host.
    pub repository: String,
    /// Certificates are not checked and plain HTTP is allowed.
    pub insecure: bool,
}

/// When a mirror may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
enum PullFromMirror {
    #[default]
    #[serde(rename = "all")]
    All,
    #[serde(rename = "digest-only")]
    DigestOnly,
    #[serde(rename = "tag-only")]
    TagOnly,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Mirror {
    location: String,
    insecure: bool,
    #[serde(rename = "pull-from-mirror")]
    pull_from: Option<PullFromMirror>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Registry {
    prefix: String,
    location: String,
    insecure: bool,
    blocked: bool,
    mirror_by_digest_only: bool,
    mirror: Vec<Mirror>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    registry: Vec<Registry>,
    /// Version 1 of the format.
    registries: Option<toml::Table>,
}

/// The registries configuration of the machine, or none.
#[derive(Debug, Clone, Default)]
pub struct Config {
    path: PathBuf,
    registries: Vec<Registry>,
}

impl Config {
    /// Reads the file and the `*.conf` files, by name, of the folder beside it that is named `<file>.d`; later
    /// entries replace earlier ones with the same prefix. Absent files are no configuration.
    ///
    /// # Errors
    /// A file cannot be read, or has another form.
    pub fn load(path: &Path) -> Result<Self, RegistriesError> {
        let mut config = Self { path: path.to_owned(), registries: Vec::new() };
        let mut files = vec![path.to_owned()];
        let mut folder = path.as_os_str().to_owned();
        folder.push(".d");
        files.extend(configuration_files(Path::new(&folder))?);
        for file in files {
            if let Some(text) = read(&file)? {
                config.add(&file, &text)?;
            }
        }
        Ok(config)
    }

    /// The configuration a single text makes; `path` is for messages.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(path: &Path, text: &str) -> Result<Self, RegistriesError> {
        let mut config = Self { path: path.to_owned(), registries: Vec::new() };
        config.add(path, text)?;
        Ok(config)
    }

    fn add(&mut self, path: &Path, text: &str) -> Result<(), RegistriesError> {
        let invalid = |cause: String| RegistriesError::loading(path, cause);
        // The parser's own display shows the offending line; only its message is passed on.
        let file: File = toml::from_str(text).map_err(|error| invalid(error.message().to_owned()))?;
        if file.registries.is_some() {
            let cause = "version 1 of the format (a registries table) is not supported; use registry entries";
            return Err(invalid(cause.to_owned()));
        }
        for mut registry in file.registry {
            check(&mut registry).map_err(invalid)?;
            self.registries.retain(|other| other.prefix != registry.prefix);
            self.registries.push(registry);
        }
        Ok(())
    }

    /// The entry with the longest prefix that covers `name`, and how many bytes of `name` it covers.
    fn find(&self, name: &str) -> Option<(&Registry, usize)> {
        self.registries
            .iter()
            .filter_map(|registry| Some((registry, covered(name, &registry.prefix)?)))
            .max_by_key(|(registry, _)| registry.prefix.len())
    }
}

/// Where to fetch `repository` from, in the order to try: mirrors first, the registry itself last. Whether the
/// reference has a digest decides about mirrors that are for digests or tags only.
///
/// # Errors
/// The configuration blocks the registry.
pub fn candidates(
    repository: &Repository,
    by_digest: bool,
    config: &Config,
) -> Result<Vec<Endpoint>, RegistriesError> {
    let name = repository.to_string();
    let Some((registry, covered)) = config.find(&name) else {
        return Ok(vec![endpoint(&name, false)]);
    };
    if registry.blocked {
        let (prefix, path) = (&registry.prefix, config.path.display());
        return Err(RegistriesError(format!("registry {prefix} is blocked in {path}")));
    }
    let usable = |mirror: &&Mirror| match mirror.pull_from.unwrap_or_default() {
        PullFromMirror::All => by_digest || !registry.mirror_by_digest_only,
        PullFromMirror::DigestOnly => by_digest,
        PullFromMirror::TagOnly => !by_digest,
    };
    let at = |location: &str, insecure| endpoint(&format!("{location}{}", &name[covered..]), insecure);
    let mut endpoints: Vec<_> =
        registry.mirror.iter().filter(usable).map(|mirror| at(&mirror.location, mirror.insecure)).collect();
    endpoints.push(if registry.location.is_empty() {
        endpoint(&name, registry.insecure)
    } else {
        at(&registry.location, registry.insecure)
    });
    Ok(endpoints)
}

fn endpoint(name: &str, insecure: bool) -> Endpoint {
    let (host, repository) = name.split_once('/').unwrap_or((name, ""));
    Endpoint { host: host.to_owned(), repository: repository.to_owned(), insecure }
}

/// Normalises the locations of an entry and refuses what contradicts itself.
fn check(registry: &mut Registry) -> Result<(), String> {
    let wildcard = registry.prefix.starts_with("*.");
    registry.location = location(&registry.location)?;
    if registry.prefix.is_empty() {
        if registry.location.is_empty() {
            return Err("a registry entry has neither prefix nor location".to_owned());
        }
        registry.prefix.clone_from(&registry.location);
    } else if wildcard {
        if !is_domain(&registry.prefix[2..]) {
            return Err(format!("prefix {:?} may have one wildcard, for a domain", registry.prefix));
        }
    } else {
        registry.prefix = prefix(&registry.prefix)?;
    }
    if registry.location.is_empty() && !wildcard {
        return Err(format!(
            "registry {:?}: location is unset and prefix is not in the format: *.example.com",
            registry.prefix
        ));
    }
    for mirror in &mut registry.mirror {
        mirror.location = location(&mirror.location)?;
        if mirror.location.is_empty() {
            return Err(format!("a mirror of registry {:?} has no location", registry.prefix));
        }
        if registry.mirror_by_digest_only && mirror.pull_from.is_some() {
            return Err(format!(
                "registry {:?}: mirror-by-digest-only and pull-from-mirror cannot both be set",
                registry.prefix
            ));
        }
    }
    Ok(())
}

/// A location: host and path, no scheme, no slash at the end.
fn location(text: &str) -> Result<String, String> {
    let text = prefix(text)?;
    let (_, path) = text.split_once('/').unwrap_or((&text, ""));
    if path.is_empty() || path.split('/').all(is_path_component) {
        return Ok(text);
    }
    Err(format!("location {text:?} is not of the form host[:port][/namespace][/repository]"))
}

/// A prefix, which may end in a tag or digest: no scheme, no slash at the end.
fn prefix(text: &str) -> Result<String, String> {
    if text.contains("://") {
        return Err(format!("location or prefix {text:?} has a scheme: name the host only"));
    }
    let text = text.trim_end_matches('/');
    let (host, path) = text.split_once('/').unwrap_or((text, ""));
    let is_clean =
        !path.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#' | '\\'));
    if text.is_empty() || (is_domain(host) && is_clean) {
        return Ok(text.to_owned());
    }
    Err(format!("location or prefix {text:?} does not begin with a host"))
}

/// How many bytes of `name` the prefix covers, when it does so up to the end of a component.
fn covered(name: &str, prefix: &str) -> Option<usize> {
    let ends = |index: usize| name[index..].is_empty() || name[index..].starts_with([':', '/', '@']);
    if let Some(suffix) = prefix.strip_prefix('*') {
        let host = name.split('/').next().unwrap_or_default();
        let index = host.rfind(suffix)? + suffix.len();
        return ends(index).then_some(index);
    }
    (name.starts_with(prefix) && ends(prefix.len())).then_some(prefix.len())
}

fn configuration_files(folder: &Path) -> Result<Vec<PathBuf>, RegistriesError> {
    let failed = |cause: io::Error| RegistriesError::loading(folder, cause);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "conf") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<Option<String>, RegistriesError> {
    let failed = |cause: io::Error| RegistriesError::loading(path, cause);
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    file.take(REGISTRIES_CONF_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > REGISTRIES_CONF_BYTES_MAX {
        return Err(RegistriesError::loading(path, format!("larger than {REGISTRIES_CONF_BYTES_MAX} bytes")));
    }
    Ok(Some(text))
}
