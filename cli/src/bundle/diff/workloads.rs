//! Deployments and their images, before and after.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use olm_text::one_line;
use serde::Serialize;
use serde_json::Value;

/// Changed places of a Deployment that are listed.
const PLACES_MAX: usize = 50;

/// A Deployment that is not as it was.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Deployment {
    name: String,
    change: &'static str,
    /// Paths within `spec` that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<String>,
}

/// The Deployments that are not as they were.
pub(crate) fn compare(old: &[Value], new: &[Value]) -> Vec<Deployment> {
    let (old, new) = (by_name(old), by_name(new));
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let changed = names.into_iter().filter_map(|name| {
        let (change, places) = match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) => {
                let mut places = Vec::new();
                differing(&old["spec"], &new["spec"], "spec", &mut places);
                if places.is_empty() {
                    return None;
                }
                ("changed", places)
            }
            (None, _) => ("added", Vec::new()),
            (_, None) => ("removed", Vec::new()),
        };
        Some(Deployment { name: name.to_owned(), change, places })
    });
    changed.collect()
}

fn by_name(objects: &[Value]) -> BTreeMap<&str, &Value> {
    let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
    deployments.filter_map(|object| Some((object["metadata"]["name"].as_str()?, object))).collect()
}

/// Collects the paths at which two values differ. Elements with names are told apart by these.
fn differing(old: &Value, new: &Value, path: &str, places: &mut Vec<String>) {
    if old == new || places.len() >= PLACES_MAX {
        return;
    }
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                differing(&old[name.as_str()], &new[name.as_str()], &format!("{path}.{name}"), places);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let keyed = |list: &[Value]| -> Option<BTreeMap<String, Value>> {
                let pairs = list.iter().map(|one| Some((one["name"].as_str()?.to_owned(), one.clone())));
                pairs.collect::<Option<BTreeMap<_, _>>>().filter(|pairs| pairs.len() == list.len())
            };
            let (Some(a), Some(b)) = (keyed(a), keyed(b)) else {
                places.push(path.to_owned());
                return;
            };
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let one = |list: &BTreeMap<String, Value>| list.get(name).cloned().unwrap_or_default();
                differing(&one(&a), &one(&b), &format!("{path}[{name}]"), places);
            }
        }
        _ => places.push(path.to_owned()),
    }
}

/// The images that Deployments run.
pub(crate) fn images(objects: &[Value]) -> BTreeSet<String> {
    let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
    let pods = deployments.map(|deployment| &deployment["spec"]["template"]["spec"]);
    let containers = pods.flat_map(|pod| ["containers", "initContainers"].map(|member| &pod[member]));
    let containers = containers.filter_map(Value::as_array).flatten();
    containers.filter_map(|container| container["image"].as_str()).map(str::to_owned).collect()
}

pub(crate) fn write(text: &mut String, deployments: &[Deployment]) {
    if !deployments.is_empty() {
        text.push_str("Deployments\n");
    }
    for Deployment { name, change, places } in deployments {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}  {change}", one_line(name));
        for place in places {
            let _ = writeln!(text, "    {}", one_line(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Deployment, compare, images};

    #[test]
    fn deployments_are_compared_place_by_place() {
        let deployment = |name: &str, image: &str, args: &[&str]| {
            json!({"kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": 1, "template": {"spec": {
                "containers": [{"name": "c", "image": image, "args": args}, {"name": "d", "image": "d"}]}}}})
        };
        let old = [deployment("a", "x:1", &["-v"]), deployment("b", "y", &[]), deployment("same", "z", &[])];
        let new = [deployment("a", "x:2", &[]), deployment("same", "z", &[]), deployment("new", "n", &[])];
        let row = |name: &str, change, places: &[&str]| Deployment {
            name: name.to_owned(),
            change,
            places: places.iter().map(|place| (*place).to_owned()).collect(),
        };
        assert_eq!(
            compare(&old, &new),
            [
                row(
                    "a",
                    "changed",
                    &["spec.template.spec.containers[c].args", "spec.template.spec.containers[c].image"]
                ),
                row("b", "removed", &[]),
                row("new", "added", &[]),
            ]
        );
        assert_eq!(images(&new).into_iter().collect::<Vec<_>>(), ["d", "n", "x:2", "z"]);
    }
}
