//! Resolution of scalars as in go-yaml v2, and the spelling of resolved keys.
//!
//! Sources: go.yaml.in/yaml/v2 `resolve.go`, sigs.k8s.io/yaml `convertToJSONableObject`.

use std::borrow::Cow;

use serde_json::{Number, Value};

/// A scalar after resolution, before it becomes JSON: keys are spelled differently from values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(Cow<'a, str>),
}

/// The core types that a tag can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestedTag {
    Bool,
    Int,
    Float,
    Null,
    Timestamp,
}

/// Resolves a scalar without tag and quotes.
pub(crate) fn plain(text: Cow<'_, str>) -> Scalar<'_> {
    match text.as_bytes().first() {
        None => Scalar::Null,
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => word(text),
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => number(text),
        Some(_) => Scalar::Text(text),
    }
}

/// Resolves a scalar that carries a core tag; `None` when it is not of that type.
pub(crate) fn tagged(text: Cow<'_, str>, requested: RequestedTag) -> Option<Scalar<'_>> {
    let resolved = plain(text);
    match (requested, resolved) {
        (RequestedTag::Bool, scalar @ Scalar::Bool(_))
        | (RequestedTag::Int, scalar @ (Scalar::Int(_) | Scalar::Uint(_)))
        | (RequestedTag::Float, scalar @ Scalar::Float(_))
        | (RequestedTag::Null, scalar @ Scalar::Null) => Some(scalar),
        #[expect(clippy::cast_precision_loss, reason = "go-yaml converts the same way")]
        (RequestedTag::Float, Scalar::Int(value)) => Some(Scalar::Float(value as f64)),
        (RequestedTag::Timestamp, Scalar::Text(text)) if looks_like_date(&text) => Some(Scalar::Text(text)),
        _ => None,
    }
}

fn word(text: Cow<'_, str>) -> Scalar<'_> {
    match text.as_ref() {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        _ => Scalar::Text(text),
    }
}

fn number(text: Cow<'_, str>) -> Scalar<'_> {
    match text.as_ref() {
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    // The usual non-numbers that begin like one: times, addresses, sentences.
    if text.bytes().any(|byte| byte == b':' || byte == b' ' || byte == b'/') {
        return Scalar::Text(text);
    }
    let digits: Cow<'_, str> = if text.contains('_') && !text.starts_with('.') {
        Cow::Owned(text.replace('_', ""))
    } else {
        text.clone()
    };
    if let Some(value) = integer(&digits) {
        return value;
    }
    match float(&digits) {
        Some(value) => Scalar::Float(value),
        None => Scalar::Text(text),
    }
}

/// Go's `strconv.ParseInt(text, 0, 64)`, then `ParseUint`: the base is read from the prefix.
fn integer(text: &str) -> Option<Scalar<'static>> {
    let (negative, magnitude, signed) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..], true),
        b'+' => (false, &text[1..], true),
        _ => (false, text, false),
    };
    let bytes = magnitude.as_bytes();
    let (base, digits) = match (bytes.first()?, bytes.get(1)) {
        (b'0', Some(b'x' | b'X')) => (16, &magnitude[2..]),
        (b'0', Some(b'o' | b'O')) => (8, &magnitude[2..]),
        (b'0', Some(b'b' | b'B')) => (2, &magnitude[2..]),
        (b'0', Some(_)) => (8, &magnitude[1..]),
        _ => (10, magnitude),
    };
    // `from_str_radix` would accept a second sign.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let value = u64::from_str_radix(digits, base).ok()?;
    match (negative, i64::try_from(value)) {
        (false, Ok(value)) => Some(Scalar::Int(value)),
        (true, Ok(value)) => Some(Scalar::Int(-value)),
        (true, Err(_)) if value == 1 << 63 => Some(Scalar::Int(i64::MIN)),
        (false, Err(_)) if !signed => Some(Scalar::Uint(value)),
        _ => None,
    }
}

/// Go's `strconv.ParseFloat` on go-yaml's float pattern; out of range is not a float.
fn float(text: &str) -> Option<f64> {
    // Rust and go-yaml read the same, but for the names of infinities and NaN.
    let is_numeric = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    text.parse().ok().filter(|value: &f64| is_numeric && value.is_finite())
}

/// Dates stay text in JSON, so only their beginning matters: four digits and a dash.
fn looks_like_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() > 5
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[5..].iter().all(|byte| byte.is_ascii_digit() || b"-:. tTzZ+".contains(byte))
}

impl Scalar<'_> {
    /// The JSON value; `None` for infinities and NaN, which JSON does not have.
    pub(crate) fn into_value(self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Number(value.into()),
            Self::Uint(value) => Value::Number(value.into()),
            Self::Float(value) => Value::Number(json_number(value)?),
            Self::Text(text) => Value::String(text.into_owned()),
        })
    }

    /// The text of this scalar as a mapping key; `None` for those that Kubernetes rejects as keys.
    pub(crate) fn into_key(self) -> Option<String> {
        match self {
            Self::Null | Self::Uint(_) => None,
            Self::Bool(value) => Some(value.to_string()),
            Self::Int(value) => Some(value.to_string()),
            Self::Float(value) => Some(float_key(value)),
            Self::Text(text) => Some(text.into_owned()),
        }
    }
}

/// A float as JSON: whole ones within 64 bits become integers, as Go prints and reads them back; `None` for
/// infinities and NaN.
pub fn json_number(value: f64) -> Option<Number> {
    if value == 0.0 {
        return Some(0.into());
    }
    if value.fract() == 0.0 && value.abs() < 1e20 {
        // The shortest digits that name this float, as Go writes them, not its exact value.
        let digits = format!("{value}");
        if let Ok(integer) = digits.parse::<i64>() {
            return Some(integer.into());
        }
        if let Ok(integer) = digits.parse::<u64>() {
            return Some(integer.into());
        }
    }
    Number::from_f64(value)
}

/// Go's `strconv.FormatFloat(value, 'g', -1, 32)`, with go-yaml's names of infinities and NaN.
fn float_key(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "keys are spelled with 32-bit precision upstream")]
    let short = value as f32;
    if short.is_nan() {
        return ".nan".to_owned();
    }
    if short.is_infinite() {
        return if short > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    olm_go::float::general(short)
}
