//! Real bundles, changed at random but the same way every time: rendering answers, and always the same.

use olm_bundle::{Bundle, BundleFiles, MEMORY_BYTES_MAX};
use olm_render::{CertificateProvider, Options, RenderError, Rendered, render};
use olm_test::prelude::*;

use super::bundle_files;
use crate::data::Counts;

/// Changes of each bundle.
const ROUNDS: u64 = 6;

/// Renders changed bundles; panics if rendering does. The same question has the same answer twice.
pub(super) fn check(bundles: &Path, compared: &mut Counts) {
    let (mut count, mut accepted) = (0_usize, 0_usize);
    for operator in folders(bundles) {
        for version in folders(&operator) {
            let files = bundle_files(&version);
            for round in 0..ROUNDS {
                let seed = u64::try_from(count).unwrap();
                let changed = changed(&files, &mut fastrand::Rng::with_seed(seed));
                let provider = if round % 2 == 0 {
                    CertificateProvider::CertManager
                } else {
                    CertificateProvider::BuiltIn
                };
                let config = (round % 3 == 0).then(|| json!({"watchNamespace": "ns"}));
                let options = Options { certificate_provider: provider, config, ..Options::new("ns") };
                let rendered = || -> Result<Rendered, RenderError> {
                    render(Bundle::read(&changed, MEMORY_BYTES_MAX)?, &options)
                };
                let once = rendered();
                if once == rendered() {
                    compared.equal();
                } else {
                    compared.different(format_args!("{} round {round}", version.display()));
                }
                accepted += usize::from(once.is_ok());
                count += 1;
            }
        }
    }
    assert!(accepted > 0 && accepted < count, "{accepted} of {count} were rendered");
}

fn folders(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

/// The bundle with one file changed: a node of its document, or its bytes.
fn changed(files: &BundleFiles, random: &mut fastrand::Rng) -> BundleFiles {
    let mut changed = files.clone();
    let names: Vec<_> = files.iter().map(|(path, _)| path.to_owned()).collect();
    let name = random.choice(&names).unwrap();
    let content = files.get(name).unwrap();
    let text = String::from_utf8_lossy(content).into_owned();
    let new = match (random.u8(0..10), olm_yaml::one(&text)) {
        (0, _) => content[..random.usize(0..=content.len())].to_vec(),
        (1, _) => {
            let mut bytes = content.to_vec();
            let at = random.usize(0..bytes.len().max(1));
            bytes.get_mut(at).into_iter().for_each(|byte| *byte = random.u8(..));
            bytes
        }
        (_, Ok(mut document)) => {
            change(&mut document, random);
            document.to_string().into_bytes()
        }
        (_, Err(_)) => Vec::new(),
    };
    changed.insert(name, new);
    changed
}

/// Goes down at random and replaces, removes or repeats what it comes to.
fn change(value: &mut Value, random: &mut fastrand::Rng) {
    let stops = random.u8(0..8) == 0;
    match value {
        Value::Object(map) if !map.is_empty() && !stops => {
            let keys: Vec<_> = map.keys().cloned().collect();
            let key = random.choice(&keys).unwrap().clone();
            match random.u8(0..12) {
                0 => drop(map.remove(&key)),
                1 => drop(map.insert(format!("{key}X"), map[&key].clone())),
                _ => change(&mut map[&key], random),
            }
        }
        Value::Array(items) if !items.is_empty() && !stops => {
            let at = random.usize(0..items.len());
            match random.u8(0..12) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => change(&mut items[at], random),
            }
        }
        other => {
            let news = [
                Value::Null,
                json!(true),
                json!(-1),
                json!(u64::MAX),
                json!(1.5),
                json!(""),
                json!("x"),
                json!([]),
                json!({}),
                json!([null]),
                json!({"name": null}),
                json!("9".repeat(200)),
            ];
            *other = random.choice(&news).unwrap().clone();
        }
    }
}
