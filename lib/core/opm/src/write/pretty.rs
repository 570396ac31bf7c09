//! JSON with line breaks, otherwise unchanged: numbers and strings keep the spelling that they have.

use olm_go::json::tokens;

const INDENT: &str = "    ";

/// JSON text indented by four; with a final line feed.
pub(super) fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0;
    let mut tokens = tokens(text).peekable();
    while let Some(token) = tokens.next() {
        let closed = tokens.next_if(|next| matches!((token, *next), ("{", "}") | ("[", "]")));
        match (token, closed) {
            (_, Some(end)) => out.extend([token, end]),
            ("{" | "[", None) => {
                depth += 1;
                out.push_str(token);
                line(&mut out, depth);
            }
            ("}" | "]", None) => {
                depth -= 1;
                line(&mut out, depth);
                out.push_str(token);
            }
            (",", None) => {
                out.push_str(token);
                line(&mut out, depth);
            }
            (":", None) => out.push_str(": "),
            (_, None) => out.push_str(token),
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
