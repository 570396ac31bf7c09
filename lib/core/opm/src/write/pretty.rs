//! JSON with line breaks, otherwise unchanged: numbers and strings keep the spelling that they have.

const INDENT: &str = "    ";

/// `text`, which is JSON without white space, indented by four; with a final line feed.
pub(super) fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = match character {
            '"' => string_length(rest),
            _ => character.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        match character {
            '{' | '[' if after.starts_with(['}', ']']) => {
                out.push_str(token);
                out.push_str(&after[..1]);
                rest = &after[1..];
            }
            '{' | '[' => {
                depth += 1;
                out.push_str(token);
                line(&mut out, depth);
            }
            '}' | ']' => {
                depth -= 1;
                line(&mut out, depth);
                out.push_str(token);
            }
            ',' => {
                out.push_str(token);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => out.push_str(token),
        }
    }
    out.push('\n');
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth {
        out.push_str(INDENT);
    }
}

/// Bytes of the string at the head of `text`, quotes included.
fn string_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}
