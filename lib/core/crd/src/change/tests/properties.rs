//! Properties of all comparisons: a definition equals itself, adding an optional property is safe, and changes that are
//! called safe keep stored objects valid.
//!
//! Schemas, edits and objects are derived from a seed, so that a failing case is one number.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{Policy, compare};

/// A small generator of numbers; good enough to choose with.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const LETTERS: [&str; 4] = ["", "x", "yy", "zzz"];

/// A structural schema: each place has one type, and junctors constrain what the structure declares.
fn schema(dice: &mut Dice, depth: usize) -> Value {
    let mut schema = match dice.roll(if depth == 0 { 2 } else { 5 }) {
        0 => json!({"type": "integer"}),
        1 => json!({"type": "string"}),
        2 => json!({"type": "array", "items": schema(dice, depth - 1)}),
        3 => json!({"type": "object", "additionalProperties": schema(dice, depth - 1)}),
        _ => {
            let mut properties = Map::new();
            for name in NAMES.iter().take(1 + dice.roll(3)) {
                properties.insert((*name).to_owned(), self::schema(dice, depth - 1));
            }
            json!({"type": "object", "properties": properties})
        }
    };
    constrain(dice, &mut schema);
    for junctor in ["allOf", "anyOf", "oneOf", "not"] {
        if !dice.one_in(6) {
            continue;
        }
        let mut branch = || {
            let mut branch = json!({});
            constrain_as(dice, &mut branch, &schema, 2);
            branch
        };
        schema[junctor] = match junctor {
            "not" => branch(),
            _ => json!([branch(), branch()]),
        };
    }
    schema
}

/// Adds constraints that fit the schema's type.
fn constrain(dice: &mut Dice, schema: &mut Value) {
    let structure = schema.clone();
    constrain_as(dice, schema, &structure, 8);
}

/// Adds constraints that fit `structure` to `target`, each with a chance of one in `rarity`.
fn constrain_as(dice: &mut Dice, target: &mut Value, structure: &Value, rarity: usize) {
    let members: &[&str] = match structure["type"].as_str().unwrap() {
        "integer" => &["minimum", "maximum", "multipleOf"],
        "string" => &["minLength", "maxLength", "enum"],
        "array" => &["minItems", "maxItems"],
        _ => &["minProperties", "maxProperties", "required"],
    };
    for member in members {
        if dice.one_in(rarity) {
            target[*member] = constraint(dice, member);
        }
    }
    let Value::Object(properties) = &structure["properties"] else { return };
    for (name, property) in properties {
        // Only a junctor's branch, which declares no type, says more about declared properties.
        if target["type"].is_null() && dice.one_in(rarity) {
            let mut branch = json!({});
            constrain_as(dice, &mut branch, property, rarity);
            target["properties"][name] = branch;
        }
    }
}

fn constraint(dice: &mut Dice, member: &str) -> Value {
    match member {
        "enum" => LETTERS.iter().filter(|_| dice.one_in(2)).copied().chain(["x"]).collect(),
        "required" => NAMES.iter().filter(|_| dice.one_in(3)).copied().collect(),
        "multipleOf" => (1 + dice.roll(2)).into(),
        _ => dice.roll(4).into(),
    }
}

/// A schema that few values satisfy.
fn strict() -> Value {
    json!({"maximum": 0, "maxLength": 0, "maxItems": 0, "maxProperties": 0})
}

/// Edits a constraint somewhere, in a junctor or not.
fn edit(dice: &mut Dice, schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    let names: Vec<String> = members.keys().cloned().collect();
    let name = &names[dice.roll(names.len().max(1)).min(names.len().saturating_sub(1))..];
    let Some(name) = name.first() else { return };
    match (name.as_str(), &mut members[name]) {
        ("type", _) => {
            let mut edited = Value::Object(members.clone());
            if edited["type"].is_string() {
                constrain(dice, &mut edited);
            }
            *schema = edited;
        }
        ("properties", Value::Object(properties)) => {
            let names: Vec<String> = properties.keys().cloned().collect();
            if names.is_empty() || dice.one_in(2) {
                let name = NAMES[dice.roll(NAMES.len())];
                properties.entry(name).or_insert_with(strict);
            } else {
                let name = &names[dice.roll(names.len())];
                edit(dice, &mut properties[name]);
            }
        }
        ("items" | "additionalProperties" | "not", below) => edit(dice, below),
        (junctor @ ("allOf" | "anyOf" | "oneOf"), Value::Array(branches)) => {
            // crdify compares oneOf as a set and ignores a repeated branch.
            if dice.one_in(6) && junctor != "oneOf" {
                branches.push(strict());
            } else {
                let index = dice.roll(branches.len());
                edit(dice, &mut branches[index]);
            }
        }
        (member, value) => {
            if dice.one_in(3) {
                members.remove(member);
            } else {
                *value = constraint(dice, member);
            }
        }
    }
}

/// An object that has only what the schema declares, as the API server prunes it.
fn object(dice: &mut Dice, schema: &Value) -> Value {
    match schema["type"].as_str().unwrap() {
        "integer" => dice.roll(5).into(),
        "string" => LETTERS[dice.roll(LETTERS.len())].into(),
        "array" => (0..dice.roll(4)).map(|_| object(dice, &schema["items"])).collect(),
        _ => {
            let mut members = Map::new();
            for name in NAMES.iter().take(dice.roll(5)) {
                let below = match &schema["properties"] {
                    Value::Object(properties) => properties.get(*name),
                    _ => Some(&schema["additionalProperties"]),
                };
                if let Some(below) = below {
                    members.insert((*name).to_owned(), object(dice, below));
                }
            }
            Value::Object(members)
        }
    }
}

/// A validator for the schemas that [`schema`] makes, independent of the crate.
fn is_valid(value: &Value, schema: &Value) -> bool {
    let Value::Object(members) = schema else { return false };
    let bound = |expected: &Value| usize::try_from(expected.as_u64().unwrap()).unwrap();
    let number = value.as_u64().map(|number| usize::try_from(number).unwrap());
    let length = value.as_str().map(str::len);
    let items = value.as_array().map(Vec::len);
    let properties = value.as_object().map(Map::len);
    members.iter().all(|(member, expected)| match member.as_str() {
        "type" => match expected.as_str().unwrap() {
            "integer" => number.is_some(),
            "string" => length.is_some(),
            "array" => items.is_some(),
            _ => properties.is_some(),
        },
        "minimum" => number.is_none_or(|number| number >= bound(expected)),
        "maximum" => number.is_none_or(|number| number <= bound(expected)),
        "multipleOf" => number.is_none_or(|number| number % bound(expected) == 0),
        "minLength" => length.is_none_or(|length| length >= bound(expected)),
        "maxLength" => length.is_none_or(|length| length <= bound(expected)),
        "minItems" => items.is_none_or(|items| items >= bound(expected)),
        "maxItems" => items.is_none_or(|items| items <= bound(expected)),
        "minProperties" => properties.is_none_or(|properties| properties >= bound(expected)),
        "maxProperties" => properties.is_none_or(|properties| properties <= bound(expected)),
        "enum" => {
            let values = expected.as_array().unwrap();
            values.is_empty() || values.contains(value)
        }
        "required" => {
            properties.is_none()
                || expected.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some())
        }
        "properties" => expected
            .as_object()
            .unwrap()
            .iter()
            .all(|(name, schema)| value.get(name).is_none_or(|value| is_valid(value, schema))),
        "additionalProperties" => {
            value.as_object().is_none_or(|object| object.values().all(|value| is_valid(value, expected)))
        }
        "items" => value.as_array().is_none_or(|list| list.iter().all(|value| is_valid(value, expected))),
        "allOf" => expected.as_array().unwrap().iter().all(|schema| is_valid(value, schema)),
        "anyOf" => expected.as_array().unwrap().iter().any(|schema| is_valid(value, schema)),
        "oneOf" => expected.as_array().unwrap().iter().filter(|schema| is_valid(value, schema)).count() == 1,
        "not" => !is_valid(value, expected),
        other => panic!("no validation for {other}"),
    })
}

fn definition(schema: &Value) -> Value {
    json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": true, "schema": {"openAPIV3Schema": schema}},
                {"name": "v1alpha1", "served": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    })
}

/// Puts an optional property wherever the structure lists properties; says whether it found a place.
fn add_properties(schema: &mut Value) -> bool {
    let mut is_added = false;
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            add_properties(property);
        }
        properties.insert("new".to_owned(), json!({"type": "string", "minLength": 3, "format": "date"}));
        is_added = true;
    }
    for below in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get_mut(below) {
            is_added |= add_properties(schema);
        }
    }
    is_added
}

#[test]
fn safe_changes_keep_objects_valid() {
    let (mut safe, mut unsafe_, mut tried) = (0, 0, 0);
    for seed in 0..40_000 {
        let mut dice = Dice(seed);
        let old = schema(&mut dice, 2);
        let mut new = old.clone();
        for _ in 0..=dice.roll(2) {
            edit(&mut dice, &mut new);
        }
        if old == new {
            continue;
        }
        if compare(&definition(&old), &definition(&new), Policy::Ours).unwrap().is_refused() {
            unsafe_ += 1;
            continue;
        }
        safe += 1;
        for _ in 0..20 {
            let object = object(&mut dice, &old);
            if is_valid(&object, &old) {
                tried += 1;
                assert!(is_valid(&object, &new), "seed {seed}: {object} with\n{old}\nand then\n{new}");
            }
        }
    }
    // The test means something only if there are plenty of both, and of objects.
    assert!(
        safe > 1_000 && unsafe_ > 1_000 && tried > 10_000,
        "{safe} safe, {unsafe_} unsafe, {tried} objects"
    );
}

proptest! {
    #[test]
    fn a_definition_compared_with_itself_has_no_findings(seed: u64) {
        let definition = definition(&schema(&mut Dice(seed), 3));
        for policy in [Policy::Upstream, Policy::Ours] {
            prop_assert!(compare(&definition, &definition, policy).unwrap().findings.is_empty());
        }
    }

    #[test]
    fn adding_an_optional_property_is_safe(seed: u64) {
        let old = json!({"type": "object", "properties": {"spec": schema(&mut Dice(seed), 3)}});
        let mut new = old.clone();
        prop_assert!(add_properties(&mut new));
        let report = compare(&definition(&old), &definition(&new), Policy::Ours).unwrap();
        prop_assert!(!report.is_refused(), "{:?}", report.message("foos.example.com"));
    }

    #[test]
    fn we_refuse_nothing_that_crdify_allows(seed: u64) {
        let mut dice = Dice(seed);
        let old = definition(&schema(&mut dice, 2));
        let mut edited = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        edit(&mut dice, &mut edited);
        let new = definition(&edited);
        let [upstream, ours] = [Policy::Upstream, Policy::Ours].map(|policy| compare(&old, &new, policy).unwrap());
        prop_assert!(upstream.is_refused() || !ours.is_refused());
    }
}
