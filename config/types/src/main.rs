//! Writes `lib/core/bundle/src/typed/kubernetes.rs`: the types of Kubernetes that objects of bundles pass through.
//!
//! The source is the Go types of the version that `test/kit/controlplane/go.mod` names. OpenAPI documents do not suffice:
//! they do not distinguish a pointer, whose zero value is written, from a value with `omitempty`, whose zero value is
//! left out. The program is a crate of its own so that it can be built while the table is broken.

mod go;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Deserializer, Value};

const TABLE: &str = "lib/core/bundle/src/typed/kubernetes.rs";
/// The Go module that names the version of Kubernetes.
const CONTROL_PLANE: &str = "test/kit/controlplane";

fn main() -> Result<()> {
    fs::write(workspace().join(TABLE), generated(&[])?).context(TABLE)
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The table, from Go modules that are downloaded where they are missing.
fn generated(environment: &[(&str, &str)]) -> Result<String> {
    let mut packages = BTreeMap::new();
    let folders = module_folders(environment)?;
    for (package, module, files) in table::SOURCES {
        let folder = folders.get(*module).with_context(|| format!("no folder of the module {module}"))?;
        let mut declarations = BTreeMap::new();
        for file in *files {
            let path = folder.join(file);
            let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            declarations.extend(go::declarations(&source));
        }
        packages.insert(*package, declarations);
    }
    let version = version_in(&fs::read_to_string(workspace().join(CONTROL_PLANE).join("go.mod"))?)?;
    table::write(&packages, &version)
}

/// The folders of the modules with types, by module.
fn module_folders(environment: &[(&str, &str)]) -> Result<BTreeMap<String, PathBuf>> {
    let modules = table::SOURCES.iter().map(|(_, module, _)| *module);
    let output = Command::new("go")
        .args(["mod", "download", "-json"])
        .args(modules)
        .current_dir(workspace().join(CONTROL_PLANE))
        .envs(environment.iter().copied())
        .output()
        .context("running go")?;
    ensure!(output.status.success(), "go mod download: {}", String::from_utf8_lossy(&output.stderr));
    let mut folders = BTreeMap::new();
    for module in Deserializer::from_slice(&output.stdout).into_iter::<Value>() {
        let module = module?;
        if let (Some(path), Some(folder)) = (module["Path"].as_str(), module["Dir"].as_str()) {
            folders.insert(path.to_owned(), folder.into());
        }
    }
    Ok(folders)
}

/// The version of Kubernetes that a `go.mod` names.
fn version_in(go_mod: &str) -> Result<String> {
    let version = go_mod.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
    let version = version.and_then(|rest| rest.split_whitespace().next());
    Ok(version.context("go.mod does not name k8s.io/kubernetes")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str) -> String {
        fs::read_to_string(workspace().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    #[test]
    fn the_table_is_of_the_version_that_the_project_names() {
        let version = version_in(&read("test/kit/controlplane/go.mod")).unwrap();
        let header = read(TABLE).lines().next().unwrap_or_default().to_owned();
        assert_eq!(header, table::header(&version), "run `make kubernetes-types`");
        assert_eq!(version_in(&read("test/tools/node/go.mod")).unwrap(), version, "test/tools/node/go.mod");
        let minor: Vec<&str> = version.split('.').take(2).collect();
        let feature = format!("\"v{}\"", minor.join("_"));
        let manifest = read("Cargo.toml");
        let k8s_openapi = manifest.lines().find(|line| line.starts_with("k8s-openapi = ")).unwrap();
        assert!(k8s_openapi.contains(&feature), "Cargo.toml: k8s-openapi needs the feature {feature}");
    }

    #[test]
    fn the_table_is_up_to_date() {
        match generated(&[("GOPROXY", "off")]) {
            Ok(generated) => {
                assert!(generated == read(TABLE), "{TABLE} is stale: run `make kubernetes-types`");
            }
            Err(error) => println!("skipped: the Go modules of Kubernetes are not here: {error:#}"),
        }
    }
}
