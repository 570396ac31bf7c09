//! Base64 as Go's `encoding/base64` decodes it: line ends are ignored, padding is required, and an error is the position
//! of the first byte that does not fit, because validation reports that position.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

const PAD: u8 = b'=';
/// Go does not look at the bits that padding leaves over.
const ENGINE: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Encodes `bytes`, with padding and without line ends.
pub fn encode(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

/// Decodes `text`.
///
/// # Errors
/// The position of the first byte that does not fit.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let is_one_line = !text.iter().any(|byte| is_line_end(*byte));
    let decoded = if is_one_line {
        ENGINE.decode(text)
    } else {
        ENGINE.decode(text.iter().copied().filter(|byte| !is_line_end(*byte)).collect::<Vec<u8>>())
    };
    decoded.map_err(|_| illegal_byte(text))
}

/// The position at which Go finds an error in `text`.
fn illegal_byte(text: &[u8]) -> usize {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let mut digits = 0;
    for (at, &byte) in text.iter().enumerate() {
        if is_digit(byte) {
            digits = (digits + 1) % 4;
        } else if byte == PAD {
            return after_padding(text, at, digits);
        } else if !is_line_end(byte) {
            return at;
        }
    }
    text.len() - digits
}

/// The position of the error when the first padding is at `at`, behind so many digits of the last group.
fn after_padding(text: &[u8], at: usize, digits: usize) -> usize {
    if digits < 2 {
        return at;
    }
    let mut rest = (at + 1..).zip(&text[at + 1..]).filter(|(_, byte)| !is_line_end(**byte));
    if digits == 2 {
        match rest.next() {
            None => return text.len(),
            Some((_, &PAD)) => {}
            Some((at, _)) => return at - 1,
        }
    }
    rest.next().map_or(text.len(), |(at, _)| at)
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn encoded_bytes_are_decoded_again() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"a", "YQ=="),
            (b"ab", "YWI="),
            (b"abc", "YWJj"),
            (b"\xfb\xff\x00~", "+/8Afg=="),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text.as_bytes()).unwrap(), bytes);
        }
    }

    #[test]
    fn text_is_decoded_and_errors_name_the_byte() {
        let cases: [(&str, Result<&str, usize>); 16] = [
            ("", Ok("")),
            ("YQ==", Ok("a")),
            ("YWI=", Ok("ab")),
            ("YWJj", Ok("abc")),
            ("YR==", Ok("a")),
            ("YW\r\nJjZA=\n=\n", Ok("abcd")),
            ("_", Err(0)),
            ("YWJj!", Err(4)),
            ("=", Err(0)),
            ("Y===", Err(1)),
            ("YQ", Err(0)),
            ("YWJjYQ", Err(4)),
            ("YQ=", Err(3)),
            ("YQ=a", Err(2)),
            ("YQ==YQ==", Err(4)),
            ("YWI==", Err(4)),
        ];
        for (text, expected) in cases {
            let found = decode(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(found, expected.map(str::to_owned), "{text:?}");
        }
    }
}
