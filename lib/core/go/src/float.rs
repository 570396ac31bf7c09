//! Floats in the shortest form that reads back as the same value.
//!
//! Source: Go's `strconv/ftoa.go`, and `floatEncoder` of `encoding/json`.

use std::fmt::{Display, LowerExp};

/// A float as `%v` writes it: with an exponent of at least two digits below -4 and from 6 on.
pub fn general<F: Copy + Display + LowerExp + PartialEq + Default>(value: F) -> String {
    let (mantissa, exponent) = parts(&value);
    if value == F::default() || (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// A float as `encoding/json` writes it: with an exponent below -6 and from 21 on.
pub fn json(value: f64) -> String {
    let (mantissa, exponent) = parts(&value);
    if value == 0.0 || (-6..21).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{}", exponent.unsigned_abs())
}

/// The shortest digits with a point behind the first, and the exponent.
fn parts(value: &impl LowerExp) -> (String, i32) {
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.to_owned(), exponent.parse().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_gos_shortest_form() {
        for (value, of_verb, of_json) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (1.0, "1", "1"),
            (-2.5, "-2.5", "-2.5"),
            (999_999.0, "999999", "999999"),
            (5_000_000.0, "5e+06", "5000000"),
            (1_234_567.0, "1.234567e+06", "1234567"),
            (0.0001, "0.0001", "0.0001"),
            (0.000_01, "1e-05", "0.00001"),
            (0.000_001, "1e-06", "0.000001"),
            (0.000_000_15, "1.5e-07", "1.5e-7"),
            (1.5e20, "1.5e+20", "150000000000000000000"),
            (1e21, "1e+21", "1e+21"),
            (9_007_199_254_740_991.0, "9.007199254740991e+15", "9007199254740991"),
        ] {
            assert_eq!((general(value).as_str(), json(value).as_str()), (of_verb, of_json));
        }
        assert_eq!(general(0.1_f32), "0.1");
        assert_eq!(general(16_777_216.0_f32), "1.6777216e+07");
    }
}
