//! Changes of members that have no check: refused, because nothing says that they are safe.
//!
//! The original's text is condensed from a textual difference of its types, line by line: the name
//! of the innermost field on a changed line, and what stands behind it on the old and the new side.

use serde_json::{Map, Value};

use crate::{
    Policy, Reason,
    error::Misfit,
    false_alarms, literal,
    schema::{self, Difference, Kind, RULE_MEMBERS},
};

/// The differences by the reason of their verdict, those that are refused first.
pub(crate) fn sort_out<'a>(
    differences: &[Difference<'a>],
    policy: Policy,
) -> Result<Vec<(Reason, Vec<Difference<'a>>)>, Misfit> {
    let mut groups: Vec<(Reason, Vec<Difference<'a>>)> = Vec::new();
    for difference in differences {
        let reason = match policy {
            Policy::Upstream => Reason::NotUnderstood,
            Policy::Ours => false_alarms::judge(difference)?.unwrap_or(Reason::NotUnderstood),
        };
        match groups.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, group)) => group.push(*difference),
            None => groups.push((reason, vec![*difference])),
        }
    }
    Ok(groups)
}

/// The members that differ, as an object for each side.
pub(crate) fn values(differences: &[Difference<'_>]) -> (Value, Value) {
    let side = |pick: fn(&Difference<'_>) -> Option<Value>| {
        let members = differences
            .iter()
            .filter_map(|difference| Some((difference.0.name.to_owned(), pick(difference)?)));
        Value::Object(members.collect::<Map<_, _>>())
    };
    (
        side(|(member, old, _)| old.map(|old| canonical(old, member.kind))),
        side(|(member, _, new)| new.map(|new| canonical(new, member.kind))),
    )
}

fn canonical(value: &Value, kind: Kind) -> Value {
    schema::canonical_value(value, kind)
}

/// What the original says about the differences.
pub(crate) fn text(differences: &[Difference<'_>]) -> String {
    const SUMMARY: &str = "unhandled changes found";
    let mut changes = Changes::default();
    for difference in differences {
        changes.member(difference);
    }
    let details = changes.details();
    if details.is_empty() { SUMMARY.to_owned() } else { format!("{SUMMARY} ({})", details.join("; ")) }
}

/// What stands for a schema.
const COMPLEX: &str = "<complex value>";
/// Strings that are both at least this long (bytes) are shown as a difference of texts, of which
/// nothing is left in the condensed text.
const LONG_STRING_BYTES: usize = 32;
/// Strings longer than this (bytes) are cut: that of a member, one in a validation rule that is new
/// or gone, and one in a list of rules that is.
const STRING_BYTES_MAX: usize = 256;
const RULE_STRING_BYTES_MAX: usize = 128;
const RULES_STRING_BYTES_MAX: usize = 64;
/// A literal longer than this (bytes) is spread over lines, of which each is a change of its own.
const LINE_BYTES_MAX: usize = 80;

/// The changed lines: for each field the last value before and after, in order of first appearance.
#[derive(Default)]
struct Changes {
    lines: Vec<(String, Option<String>, Option<String>)>,
}

/// The side of a change that a line stands on.
#[derive(Clone, Copy)]
enum Side {
    Old,
    New,
}

impl Changes {
    fn details(&self) -> Vec<String> {
        let mut details = Vec::new();
        for (field, old, new) in &self.lines {
            let [before, after] = [old, new].map(|value| value.as_deref().unwrap_or("<empty>"));
            let is_told_apart = if old == new { " (changed)" } else { "" };
            details.push(format!("{field} {before} -> {after}{is_told_apart}"));
        }
        details
    }

    fn line(&mut self, side: Side, field: &str, value: &str) {
        let index = self.lines.iter().position(|(other, ..)| other == field);
        let index = index.unwrap_or_else(|| {
            self.lines.push((field.to_owned(), None, None));
            self.lines.len() - 1
        });
        if let Some((_, old, new)) = self.lines.get_mut(index) {
            match side {
                Side::Old => *old = Some(value.to_owned()),
                Side::New => *new = Some(value.to_owned()),
            }
        }
    }

    fn both(&mut self, field: &str, old: &str, new: &str) {
        self.line(Side::Old, field, old);
        self.line(Side::New, field, new);
    }

    fn member(&mut self, (member, old, new): &Difference<'_>) {
        self.value(member.field, member.kind, *old, *new);
    }

    fn value(&mut self, field: &str, kind: Kind, old: Option<&Value>, new: Option<&Value>) {
        match (kind, old, new) {
            (Kind::Text, Some(Value::String(old)), Some(Value::String(new)))
                if old.len() >= LONG_STRING_BYTES && new.len() >= LONG_STRING_BYTES => {}
            (
                Kind::Schema
                | Kind::SchemaOrFlag
                | Kind::SchemaOrList
                | Kind::SchemaMap
                | Kind::SchemaList
                | Kind::Dependencies
                | Kind::ExternalDocs,
                Some(old),
                Some(new),
            ) => self.nested(field, kind, old, new),
            (Kind::ValidationRules, Some(Value::Array(old)), Some(Value::Array(new))) => self.rules(old, new),
            (Kind::ValidationRules, Some(Value::Array(rules)), None) => {
                self.all_rules(Side::Old, rules);
                self.line(Side::New, field, "nil");
            }
            (Kind::ValidationRules, None, Some(Value::Array(rules))) => {
                self.line(Side::Old, field, "nil");
                self.all_rules(Side::New, rules);
            }
            (Kind::TextList, Some(Value::Array(old)), Some(Value::Array(new)))
                if old.len() > 1 || new.len() > 1 => {}
            (Kind::Json | Kind::JsonList, Some(_), Some(_)) => {}
            _ => self.both(field, &literal(kind, old), &literal(kind, new)),
        }
    }

    /// Two schemas, or collections of them, both there.
    fn nested(&mut self, field: &str, kind: Kind, old: &Value, new: &Value) {
        match (old, new) {
            (Value::Object(old), Value::Object(new))
                if matches!(kind, Kind::SchemaMap | Kind::Dependencies) =>
            {
                for (name, old) in old {
                    match new.get(name) {
                        Some(new) => self.nested(&literal::quote(name), Kind::Schema, old, new),
                        None => self.line(Side::Old, &literal::quote(name), COMPLEX),
                    }
                }
                for name in new.keys().filter(|name| !old.contains_key(*name)) {
                    self.line(Side::New, &literal::quote(name), COMPLEX);
                }
            }
            (Value::Object(old), Value::Object(new)) if kind == Kind::ExternalDocs => {
                for (name, field) in [("description", "Description"), ("url", "URL")] {
                    let [old, new] = [old, new].map(|docs| schema::value(docs, name, Kind::Text));
                    if old != new {
                        self.value(field, Kind::Text, old, new);
                    }
                }
            }
            (Value::Object(old), Value::Object(new)) => {
                for difference in schema::differing(old, new) {
                    self.member(&difference);
                }
            }
            (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
                for (old, new) in old.iter().zip(new) {
                    self.nested(field, Kind::Schema, old, new);
                }
            }
            (Value::Bool(old), Value::Bool(new)) => {
                self.both("Allows", &old.to_string(), &new.to_string());
            }
            _ => self.both(field, COMPLEX, COMPLEX),
        }
    }

    /// Two lists of validation rules: what is the same at both ends is left out.
    fn rules(&mut self, mut old: &[Value], mut new: &[Value]) {
        while let ([first, old_rest @ ..], [other, new_rest @ ..]) = (old, new) {
            if first != other {
                break;
            }
            (old, new) = (old_rest, new_rest);
        }
        while let ([old_rest @ .., last], [new_rest @ .., other]) = (old, new) {
            if last != other {
                break;
            }
            (old, new) = (old_rest, new_rest);
        }
        for index in 0..old.len().max(new.len()) {
            match (old.get(index), new.get(index)) {
                (Some(Value::Object(old)), Some(Value::Object(new))) => {
                    for (name, field, kind) in RULE_MEMBERS {
                        let [old, new] = [old, new].map(|rule| schema::value(rule, name, *kind));
                        if !schema::same(old, new, *kind) {
                            self.value(field, *kind, old, new);
                        }
                    }
                }
                (Some(rule), _) => self.rule(Side::Old, rule, RULE_STRING_BYTES_MAX),
                (_, Some(rule)) => self.rule(Side::New, rule, RULE_STRING_BYTES_MAX),
                (None, None) => {}
            }
        }
    }

    /// The list of rules as a whole, where there is none on the other side.
    fn all_rules(&mut self, side: Side, rules: &[Value]) {
        let bodies: Vec<String> = rules.iter().map(|rule| rule_body(rule, RULES_STRING_BYTES_MAX)).collect();
        let is_long = |text: &String| text.len() > LINE_BYTES_MAX;
        let line = bodies.iter().map(|body| format!("{{{body}}}")).collect::<Vec<_>>().join(", ");
        if is_long(&line) || bodies.iter().any(is_long) {
            self.line(side, "XValidations", "ValidationRules{");
            for rule in rules {
                self.rule(side, rule, RULES_STRING_BYTES_MAX);
            }
        } else {
            self.line(side, "XValidations", &format!("ValidationRules{{{line}}}"));
        }
    }

    /// A rule on lines of its own.
    fn rule(&mut self, side: Side, rule: &Value, string_bytes_max: usize) {
        let body = rule_body(rule, string_bytes_max);
        if body.len() > LINE_BYTES_MAX {
            for (field, value) in rule_fields(rule, string_bytes_max) {
                self.line(side, field, &value);
            }
        } else if let Some((field, rest)) = body.split_once(": ") {
            // The original takes what stands before the first colon for the field.
            self.line(side, &format!("{{{field}"), &format!("{rest}}}"));
        }
    }
}

fn rule_body(rule: &Value, string_bytes_max: usize) -> String {
    let fields = rule_fields(rule, string_bytes_max);
    let fields: Vec<_> = fields.iter().map(|(field, value)| format!("{field}: {value}")).collect();
    fields.join(", ")
}

fn rule_fields(rule: &Value, string_bytes_max: usize) -> Vec<(&'static str, String)> {
    let Value::Object(rule) = rule else {
        return Vec::new();
    };
    let fields = RULE_MEMBERS.iter().filter_map(|(name, field, kind)| {
        let value = schema::value(rule, name, *kind)?;
        Some((*field, leaf(value, *kind, string_bytes_max)))
    });
    fields.collect()
}

/// A value of a member as a literal of the original's types.
fn literal(kind: Kind, value: Option<&Value>) -> String {
    let absent = match kind {
        Kind::Text => "\"\"",
        Kind::Flag => "false",
        _ => "nil",
    };
    let Some(value) = value else {
        return absent.to_owned();
    };
    match (kind, value) {
        (Kind::TextList, Value::Array(list)) => {
            let names: Vec<_> = list.iter().map(|name| leaf(name, Kind::Text, STRING_BYTES_MAX)).collect();
            format!("[]string{{{}}}", names.join(", "))
        }
        (
            Kind::Text | Kind::TextPointer | Kind::Flag | Kind::FlagPointer | Kind::Float | Kind::Integer,
            _,
        ) => leaf(value, kind, STRING_BYTES_MAX),
        _ => COMPLEX.to_owned(),
    }
}

/// A string, flag or number; `&` stands before a pointer's.
fn leaf(value: &Value, kind: Kind, string_bytes_max: usize) -> String {
    let pointer = match kind {
        Kind::TextPointer | Kind::FlagPointer | Kind::Float | Kind::Integer => "&",
        _ => "",
    };
    let text = match value {
        Value::String(text) => cut(text, string_bytes_max),
        Value::Number(number) if kind == Kind::Float => literal::float(number.as_f64().unwrap_or_default()),
        _ => literal::json(value),
    };
    format!("{pointer}{text}")
}

fn cut(text: &str, bytes_max: usize) -> String {
    const ELLIPSIS: &str = "...";
    if text.len() <= bytes_max + ELLIPSIS.len() {
        return literal::quote(text);
    }
    let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}{ELLIPSIS}", literal::quote(text.get(..end).unwrap_or_default()))
}
