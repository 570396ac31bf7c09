//! Makes custom resources for a schema: mostly valid ones, and ones that break it in a place or two.

use fastrand::Rng;
use regex::Regex;
use serde_json::{Map, Value, json};

/// Deeper than this only required fields are set.
const DEPTH_OF_OPTIONAL_FIELDS: usize = 6;
/// Deeper than this nothing is set, so that schemas without an end have one.
const DEPTH_MAX: usize = 20;
/// Optional fields that an object gets, on average.
const OPTIONAL_FIELDS: usize = 3;

/// Texts tried where a pattern has to match, and otherwise taken as they come.
const TEXTS: [&str; 27] = [
    "a",
    "b",
    "abc",
    "a-b",
    "example.com",
    "1",
    "10",
    "10Mi",
    "1Gi",
    "500m",
    "5m",
    "1h30m",
    "30s",
    "",
    "A",
    "Ab",
    "a/b",
    "/a",
    "http://example.com",
    "https://example.com/a",
    "10.0.0.1",
    "10.0.0.0/8",
    "50%",
    "v1",
    "v1.2.3",
    "0.1",
    "2024-01-01T00:00:00Z",
];

/// Makes objects, the same ones for the same seed.
pub struct Objects {
    rng: Rng,
}

impl Objects {
    /// A maker of objects.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed) }
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.rng.usize(..count.max(1)) == 0
    }

    fn pick<'v, T>(&mut self, from: &'v [T]) -> Option<&'v T> {
        if from.is_empty() { None } else { from.get(self.rng.usize(..from.len())) }
    }

    /// A value for a schema. It is meant to be valid, but combinations of schemas and rules are not solved.
    pub fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(values) = schema["enum"].as_array()
            && let Some(value) = self.pick(values)
        {
            return value.clone();
        }
        if !schema["default"].is_null() && self.one_in(4) {
            return schema["default"].clone();
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return if self.one_in(2) { self.rng.u8(..200).into() } else { self.text(schema) };
        }
        match schema["type"].as_str() {
            Some("object") => self.object(schema, depth),
            Some("array") => self.array(schema, depth),
            Some("string") => self.text(schema),
            Some("boolean") => self.rng.bool().into(),
            Some("number") if self.one_in(2) => (f64::from(self.rng.i32(-100..1_000)) / 8.0).into(),
            Some("integer" | "number") => self.integer(schema).into(),
            _ => match self.rng.u8(..4) {
                0 => json!({"a": {"b": [1, null]}}),
                1 => json!("x"),
                2 => json!(3),
                _ => json!([]),
            },
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut fields = Map::new();
        if depth > DEPTH_MAX {
            return Value::Object(fields);
        }
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(properties) = schema["properties"].as_object() {
            let rarity = (properties.len() / OPTIONAL_FIELDS).max(2);
            for (name, property) in properties {
                let is_wanted = if required.contains(&name.as_str()) {
                    !self.one_in(60)
                } else {
                    depth < DEPTH_OF_OPTIONAL_FIELDS && self.one_in(rarity)
                };
                if is_wanted {
                    fields.insert(name.clone(), self.value(property, depth + 1));
                }
            }
        }
        if schema["additionalProperties"].is_object() {
            for name in ["a", "b.c/d", "e"] {
                if self.one_in(2) {
                    fields.insert(name.to_owned(), self.value(&schema["additionalProperties"], depth + 1));
                }
            }
        }
        if schema["x-kubernetes-embedded-resource"] == true {
            fields.insert("apiVersion".to_owned(), "v1".into());
            fields.insert("kind".to_owned(), "Pod".into());
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == true && self.one_in(2) {
            fields.insert("anything".to_owned(), json!({"goes": [1, "x", null]}));
        }
        Value::Object(fields)
    }

    fn array(&mut self, schema: &Value, depth: usize) -> Value {
        let least =
            usize::try_from(schema["minItems"].as_u64().unwrap_or_default()).unwrap_or_default().min(10);
        let most =
            usize::try_from(schema["maxItems"].as_u64().unwrap_or(3)).unwrap_or(3).clamp(least, least + 3);
        let count = if depth > DEPTH_MAX { 0 } else { self.rng.usize(least..=most) };
        (0..count).map(|_| self.value(&schema["items"], depth + 1)).collect()
    }

    fn integer(&mut self, schema: &Value) -> i64 {
        let bound = |name: &str| schema[name].as_f64().map(|bound| bound.clamp(-1e9, 1e9).round());
        let text = |bound: f64| format!("{bound:.0}").parse::<i64>().unwrap_or_default();
        match (bound("minimum").map(text), bound("maximum").map(text)) {
            (Some(least), Some(most)) if least <= most => self.rng.i64(least..=most),
            (Some(least), _) => least + self.rng.i64(0..20),
            (None, Some(most)) => most - self.rng.i64(0..20),
            (None, None) => self.rng.i64(-3..70_000),
        }
    }

    fn text(&mut self, schema: &Value) -> Value {
        let of_format = match schema["format"].as_str() {
            Some("date-time") => Some("2024-02-29T12:00:00.5+01:00"),
            Some("date") => Some("2024-02-29"),
            Some("byte") => Some("aGVsbG8="),
            Some("duration") => Some("1h5m"),
            Some("uri") => Some("https://example.com/a?b=c"),
            Some("ipv4") => Some("10.1.2.3"),
            Some("ipv6") => Some("fe80::1"),
            Some("uuid") => Some("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            _ => None,
        };
        if let Some(text) = of_format {
            return if self.one_in(8) { "neither".into() } else { text.into() };
        }
        let pattern = schema["pattern"].as_str().and_then(|pattern| Regex::new(pattern).ok());
        let least = usize::try_from(schema["minLength"].as_u64().unwrap_or_default()).unwrap_or_default();
        let suits = |text: &&&str| {
            text.len() >= least && pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
        };
        let texts: Vec<&str> = TEXTS.iter().filter(suits).copied().collect();
        match self.pick(&texts) {
            Some(text) => (*text).into(),
            None => "a".repeat(least.clamp(1, 300)).into(),
        }
    }

    /// Changes the value in some place so that it may no longer fit.
    pub fn spoil(&mut self, value: &mut Value) {
        let places = places(value);
        let at = self.rng.usize(..places);
        let mut left = at;
        if let Some(place) = place(value, &mut left) {
            *place = self.spoiled(place);
        }
    }

    fn spoiled(&mut self, value: &Value) -> Value {
        match (self.rng.u8(..10), value) {
            (0, _) => Value::Null,
            (1, _) => json!("x"),
            (2, _) => json!(-7),
            (3, _) => json!(1.5),
            (4, _) => json!([]),
            (5, _) => json!({}),
            (6, Value::String(text)) => text.repeat(70).into(),
            (6, Value::Number(_)) => json!(9_000_000_000_i64),
            (9, Value::Number(_)) => json!(-1),
            (7, Value::String(_)) => json!(""),
            (8, Value::Array(list)) => list.iter().chain(list).cloned().collect(),
            (_, Value::Object(fields)) => {
                let mut fields = fields.clone();
                if self.one_in(3) {
                    fields.insert("unheardOf".to_owned(), json!({"a": 1}));
                } else if let Some(name) = self.pick(&fields.keys().cloned().collect::<Vec<_>>()) {
                    fields.remove(name);
                }
                Value::Object(fields)
            }
            (_, Value::Array(list)) => list.iter().skip(1).cloned().collect(),
            (_, Value::Bool(flag)) => (!flag).into(),
            (_, Value::String(text)) => format!("{text} é").into(),
            _ => json!(true),
        }
    }
}

/// How many values there are inside, itself included.
fn places(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(places).sum::<usize>(),
        Value::Object(fields) => fields.values().map(places).sum(),
        _ => 0,
    }
}

/// The value that is `left` places further.
fn place<'v>(value: &'v mut Value, left: &mut usize) -> Option<&'v mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(list) => list.iter_mut().find_map(|below| place(below, left)),
        Value::Object(fields) => fields.values_mut().find_map(|below| place(below, left)),
        _ => None,
    }
}
