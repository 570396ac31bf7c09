//! Figures of CRD changes: comparing real definitions, and validating objects against a large one.

use olm_crd::{Policy, Schema, Tristate, compare};

use super::in_process::subfolders;
use super::{figure, percentile};
use crate::{objects::Objects, prelude::*};

/// Comparisons of each pair, of which the median counts.
const ROUNDS: usize = 5;
/// Objects that are made for the largest definition.
const OBJECTS: usize = 500;

/// The definitions of a bundle: their text's length, and themselves.
type Definitions = BTreeMap<String, (usize, Value)>;

/// Compares every definition with the one of the package's next version.
pub(super) fn comparisons(bundles: &Path) -> Result<()> {
    let mut medians = Vec::new();
    let mut largest: Option<(usize, f64, Value)> = None;
    for package in subfolders(bundles)? {
        let mut before: Option<Definitions> = None;
        for version in subfolders(&package)? {
            let definitions = definitions(&version)?;
            for (name, (size, new)) in &definitions {
                let Some((_, old)) = before.as_ref().and_then(|before| before.get(name)) else { continue };
                let median = median(old, new)?;
                medians.push(median);
                if largest.as_ref().is_none_or(|(most, ..)| size > most) {
                    largest = Some((*size, median, new.clone()));
                }
            }
            before = Some(definitions);
        }
    }
    let (size, time, definition) = largest.context("no package with two versions")?;
    figure("crd-pairs", f64::from(u32::try_from(medians.len())?), "pairs");
    figure("crd-compare-median", percentile(&mut medians, 50), "ms");
    figure("crd-compare-max", percentile(&mut medians, 100), "ms");
    figure("crd-compare-largest-size", f64::from(u32::try_from(size)?) / 1e6, "MB");
    figure("crd-compare-largest", time, "ms");
    validations(&definition)
}

fn median(old: &Value, new: &Value) -> Result<f64> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        std::hint::black_box(compare(old, new, Policy::Ours)?);
        rounds.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(percentile(&mut rounds, 50))
}

/// Validates objects made for a definition.
fn validations(definition: &Value) -> Result<()> {
    let version = &definition["spec"]["versions"][0];
    let start = Instant::now();
    let schema = Schema::read(definition, version["name"].as_str().context("no version")?)?;
    figure("crd-schema-read-largest", start.elapsed().as_secs_f64() * 1e3, "ms");
    let mut made = Objects::new(1);
    let objects: Vec<Value> =
        (0..OBJECTS).map(|_| made.value(&version["schema"]["openAPIV3Schema"], 0)).collect();
    let (mut times, mut valid) = (Vec::with_capacity(OBJECTS), 0_u32);
    for object in &objects {
        let start = Instant::now();
        let is_valid = std::hint::black_box(schema.validate(object)).is_valid();
        times.push(start.elapsed().as_secs_f64() * 1e6);
        valid += u32::from(is_valid == Tristate::Yes);
    }
    figure("crd-objects-valid", f64::from(valid), "objects");
    figure("crd-object-validate-median", percentile(&mut times, 50), "us");
    figure("crd-object-validate-max", percentile(&mut times, 100), "us");
    Ok(())
}

fn definitions(bundle: &Path) -> Result<Definitions> {
    let mut definitions = Definitions::new();
    let manifests = bundle.join("manifests");
    if !manifests.is_dir() {
        return Ok(definitions);
    }
    for entry in fs::read_dir(manifests)? {
        let bytes = fs::read(entry?.path())?;
        for document in olm_yaml::mixed(olm_yaml::text(&bytes)?) {
            let document = document?;
            if document["kind"] == "CustomResourceDefinition"
                && let Some(name) = document["metadata"]["name"].as_str()
            {
                definitions.insert(name.to_owned(), (bytes.len(), document));
            }
        }
    }
    Ok(definitions)
}
