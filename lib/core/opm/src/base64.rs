//! Base64 as the Go standard library decodes it: line ends are passed over, padding is required, and an error
//! is the position of the first byte that does not fit, because validation reports that position.

const PAD: u8 = b'=';
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes `bytes`, with padding and without line ends.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(char::from(if at <= chunk.len() { digit } else { PAD }));
        }
    }
    out
}

/// Decodes `text`.
///
/// # Errors
/// The position of the first byte that cannot stand where it stands.
pub(crate) fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut digits) = (0_u32, 0_usize);
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        at += 1;
        match value(byte) {
            Some(value) => {
                bits = bits << 6 | u32::from(value);
                digits += 1;
                if digits == 4 {
                    out.extend_from_slice(&bits.to_be_bytes()[1..]);
                    (bits, digits) = (0, 0);
                }
            }
            None if is_line_end(byte) => {}
            None if byte == PAD => {
                padding(text, at, digits)?;
                let whole = (bits << (6 * (4 - digits))).to_be_bytes();
                out.extend_from_slice(&whole[1..digits]);
                return Ok(out);
            }
            None => return Err(at - 1),
        }
    }
    if digits == 0 { Ok(out) } else { Err(text.len() - digits) }
}

/// Checks what follows the first padding byte, which stands before `at`.
fn padding(text: &[u8], mut at: usize, digits: usize) -> Result<(), usize> {
    if digits < 2 {
        return Err(at - 1);
    }
    if digits == 2 {
        at = skip_line_ends(text, at);
        match text.get(at) {
            None => return Err(text.len()),
            Some(&PAD) => at += 1,
            Some(_) => return Err(at - 1),
        }
    }
    at = skip_line_ends(text, at);
    if at < text.len() { Err(at) } else { Ok(()) }
}

fn skip_line_ends(text: &[u8], at: usize) -> usize {
    at + text[at..].iter().take_while(|byte| is_line_end(**byte)).count()
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

fn value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn what_was_encoded_is_decoded_again() {
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
        let cases: [(&str, Result<&str, usize>); 15] = [
            ("", Ok("")),
            ("YQ==", Ok("a")),
            ("YWI=", Ok("ab")),
            ("YWJj", Ok("abc")),
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
