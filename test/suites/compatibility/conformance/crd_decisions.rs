//! How many refused upgrades become decisions when stored objects may decide: with no objects, and with some that are made for
//! the old definitions.

use olm_crd::{Report, Schema, Tristate, by_objects};
use olm_test::{objects::Objects, prelude::*};

/// Objects for each refused definition.
const OBJECTS: usize = 5;
/// Attempts to make one that is valid.
const ATTEMPTS: usize = 10;

/// Refused upgrades by what the objects would decide.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    refused: usize,
    structural: usize,
    /// Accepted as long as there are no objects.
    applicable: usize,
    /// Accepted with the objects that were made.
    accepted_with_objects: usize,
    objects: usize,
}

impl Decisions {
    pub(crate) fn add(
        &mut self,
        reports: &BTreeMap<String, Report>,
        old: &BTreeMap<String, Value>,
        new: &BTreeMap<String, Value>,
    ) {
        let refused: Vec<_> = reports.iter().filter(|(_, report)| report.is_refused()).collect();
        if refused.is_empty() {
            return;
        }
        self.refused += 1;
        let (mut is_applicable, mut is_harmless) = (true, true);
        for (name, report) in refused {
            let (old, new) = (&old[name], &new[name]);
            let Ok(upgrades) = by_objects(old, new, report) else {
                is_applicable = false;
                break;
            };
            for upgrade in upgrades {
                for object in objects(old, upgrade.version()) {
                    self.objects += 1;
                    is_harmless &= upgrade.impact_on(&object).is_harmless();
                }
            }
        }
        self.structural += usize::from(!is_applicable);
        self.applicable += usize::from(is_applicable);
        self.accepted_with_objects += usize::from(is_applicable && is_harmless);
    }

    pub(crate) fn print(&self) {
        println!("crd_upgrades: with CheckObjects {self:?}");
    }
}

/// Objects that are valid under a version of a definition and have all of their fields.
fn objects(definition: &Value, version: &str) -> Vec<Value> {
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(found) = versions.iter().find(|one| one["name"] == version) else { return Vec::new() };
    let Ok(schema) = Schema::read(definition, version) else { return Vec::new() };
    let mut made = Objects::new(7);
    let mut objects = Vec::new();
    for _ in 0..OBJECTS * ATTEMPTS {
        if objects.len() == OBJECTS {
            break;
        }
        let mut object = made.value(&found["schema"]["openAPIV3Schema"], 0);
        if !object.is_object() {
            object = json!({});
        }
        object["metadata"] = json!({"name": "one"});
        let validation = schema.validate(&object);
        if validation.is_valid() == Tristate::Yes && validation.dropped.is_empty() {
            objects.push(object);
        }
    }
    objects
}
