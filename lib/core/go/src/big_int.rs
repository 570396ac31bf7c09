//! Large numbers as Go's `big.Int` writes them.

const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The bytes as one big-endian number in a base from 2 to 62, without leading zeros: `big.Int.Text`.
#[must_use]
pub fn text(number: &[u8], base: u8) -> String {
    let base = u32::from(base.clamp(2, 62));
    let mut number = number.to_vec();
    let mut digits = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut rest: u32 = 0;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            // value < base * 256, so the quotient fits a byte.
            *byte = u8::try_from(value / base).unwrap_or(u8::MAX);
            rest = value % base;
        }
        let digit = usize::try_from(rest).ok().and_then(|rest| DIGITS.get(rest));
        digits.extend(digit.map(|digit| char::from(*digit)));
    }
    if digits.is_empty() {
        return "0".to_owned();
    }
    digits.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn numbers_are_written_in_any_base() {
        assert_eq!(text(&[], 36), "0");
        assert_eq!(text(&[0, 0, 61], 62), "Z");
        assert_eq!(text(&[0, 35], 36), "z");
        assert_eq!(text(&[1, 0], 10), "256");
        assert_eq!(text(&[1, 0], 2), "100000000");
    }
}
