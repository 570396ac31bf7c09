//! Colours of states on a terminal. They are added when everything else was made safe for one.

use std::{env, io::IsTerminal as _};

const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const RED: &str = "\u{1b}[31m";
const PLAIN: &str = "\u{1b}[0m";

/// Whether standard output is a terminal that shows colours to someone who wants them.
fn are_wanted() -> bool {
    std::io::stdout().is_terminal()
        && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_some_and(|term| term != "dumb")
}

/// The text of a table, with the states in the column of this title in colours, if they are wanted.
pub(crate) fn states(text: String, title: &str) -> String {
    if are_wanted() { in_colour(&text, title) } else { text }
}

fn in_colour(text: &str, title: &str) -> String {
    let mut column = None;
    let mut coloured = String::new();
    for line in text.split_inclusive('\n') {
        match column {
            None => column = line.find(title).map(|bytes| line[..bytes].chars().count()),
            Some(column) => {
                let start = line.char_indices().nth(column).map_or(line.len(), |(bytes, _)| bytes);
                let (before, rest) = line.split_at(start);
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                if end > 0 && (before.is_empty() || before.ends_with("  ")) {
                    let state = &rest[..end];
                    coloured.extend([before, colour(state), state, PLAIN, &rest[end..]]);
                    continue;
                }
            }
        }
        coloured.push_str(line);
    }
    coloured
}

fn colour(state: &str) -> &'static str {
    match state {
        "Ready" | "ok" => GREEN,
        "Paused" | "Deleting" | "RollingOut" => YELLOW,
        _ => RED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_a_table_are_coloured_and_nothing_else() {
        let text =
            "NAME  STATE    WHY\nö     Ready    Ready\nb     Stalled  no\n\ncatalog c is not served: x\n";
        let expected = "NAME  STATE    WHY\nö     \u{1b}[32mReady\u{1b}[0m    Ready\nb     \u{1b}[31mStalled\u{1b}[0m  no\n\ncatalog c is not served: x\n";
        assert_eq!(in_colour(text, "STATE"), expected);
        assert_eq!(in_colour("nothing here\n", "STATE"), "nothing here\n");
    }
}
