use super::*;

/// Controls, bidirectional controls and other characters without a picture, as ranges.
const HIDDEN: [(char, char); 14] = [
    ('\0', '\u{1f}'),
    ('\u{7f}', '\u{9f}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{2064}'),
    ('\u{2066}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0020}', '\u{e007f}'),
];

#[test]
fn no_control_and_no_format_character_stays() {
    for (first, last) in HIDDEN {
        for character in first..=last {
            assert!(!is_visible(character), "{character:?}");
            let text = format!("a{character}b");
            let whole = visible(&text);
            assert!(whole.chars().all(|c| c == '\n' || is_visible(c)), "{whole:?}");
            assert!(one_line(&text).chars().all(is_visible), "{text:?}");
            assert!(visible_json(&text).chars().all(|c| matches!(c, '\n' | '\r' | '\t') || is_visible(c)));
        }
    }
}

#[test]
fn text_of_people_stays_as_it_is() {
    for text in [
        "plain: \"quoted\" 'single' back\\slash",
        "Größe – naïve café e\u{301}",
        "日本語\u{3000}テキスト",
        "עברית العربية हिन्दी",
        "15\u{a0}000\u{202f}€",
        "❤\u{fe0f} 🎉",
    ] {
        assert_eq!(visible(text), text);
        assert_eq!(one_line(text), text);
        assert_eq!(visible_json(text), text);
        assert!(matches!(visible(text), Cow::Borrowed(_)));
    }
}

#[test]
fn a_whole_text_keeps_its_lines_and_a_part_has_one() {
    for (text, whole, part) in [
        ("a\nb", "a\nb", "a b"),
        ("a\r\n  b\r\n", "a\n  b\n", "a b"),
        ("\n a \n\n b \n", "\n a \n\n b \n", "a b"),
        ("  indented\nmore", "  indented\nmore", "  indented more"),
        ("a\tb", "a\\tb", "a b"),
        ("a\rb", "a\\rb", "a b"),
        ("Ready\u{2028}: True\u{85}x", "Ready\\u{2028}: True\\u{85}x", "Ready : True x"),
        ("\u{1b}]0;t\u{7}\u{1b}[2J", "\\u{1b}]0;t\\u{7}\\u{1b}[2J", "\\u{1b}]0;t\\u{7}\\u{1b}[2J"),
        ("\u{202e}eurt", "\\u{202e}eurt", "\\u{202e}eurt"),
        ("\n", "\n", ""),
    ] {
        assert_eq!(visible(text), whole, "{text:?}");
        assert_eq!(one_line(text), part, "{text:?}");
        assert_eq!(visible(whole), whole);
        assert_eq!(one_line(part), part);
    }
}

#[test]
fn json_keeps_its_values() {
    let json = "{\n\t\"a\": \"\u{202e}x\u{7f}\u{e0041}\"\n}";
    let safe = visible_json(json);
    assert_eq!(safe, "{\n\t\"a\": \"\\u202ex\\u007f\\udb40\\udc41\"\n}");
}

#[test]
fn a_text_is_cut_between_characters() {
    assert_eq!(cut("äöü", 3), "äöü");
    assert_eq!(cut("äöü", 2), "äö...");
    assert_eq!(cut("", 0), "");
}
