//! A cursor over the lines of a document.

/// The text and where the reader is in it. Texts with characters that dialects treat differently are refused.
pub(super) struct Lines<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str) -> Option<Self> {
        let bytes = text.as_bytes();
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                // Of two and more bytes, all but NEL, LS, PS, the byte order mark and controls of Latin-1.
                0xc2 if bytes.get(at + 1).is_some_and(|next| *next < 0xa0) => return None,
                0xe2 if bytes.get(at + 1) == Some(&0x80)
                    && matches!(bytes.get(at + 2), Some(0xa8 | 0xa9)) =>
                {
                    return None;
                }
                0xef if matches!(bytes.get(at + 1), Some(0xbb | 0xbf)) => return None,
                b' '..=b'~' | b'\n' | b'\t' | 0x80.. => {}
                _ => return None,
            }
        }
        Some(Self { text, at: 0 })
    }

    /// Moves to the first content, behind comments and one separator; `None` if there is none.
    pub(super) fn first(&mut self) -> Option<usize> {
        let separated = self.text.starts_with("---");
        if separated {
            let line = self.text.split('\n').next().unwrap_or_default();
            line.get(3..)?.trim_matches(' ').is_empty().then_some(())?;
            self.at = (line.len() + 1).min(self.text.len());
        }
        let indent = self.next_indent()??;
        self.skip(indent);
        Some(indent)
    }

    /// The text from the cursor on.
    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The rest of the cursor's line.
    pub(super) fn line(&self) -> &'t str {
        let rest = self.rest();
        rest.get(..rest.find('\n').unwrap_or(rest.len())).unwrap_or_default()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    pub(super) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    pub(super) fn skip_blanks(&mut self) -> usize {
        let blanks = self.rest().bytes().take_while(|byte| *byte == b' ').count();
        self.at += blanks;
        blanks
    }

    /// Whether the cursor is at a hyphen that begins an entry of a list.
    pub(super) fn is_entry(&self) -> bool {
        let bytes = self.rest().as_bytes();
        bytes.first() == Some(&b'-') && matches!(bytes.get(1), None | Some(b' ' | b'\n'))
    }

    /// Whether nothing but a comment is left of the line. There is a blank before the cursor.
    pub(super) fn is_line_end(&self) -> bool {
        let first = self.rest().as_bytes().first();
        matches!(first, None | Some(b'\n')) || first == Some(&b'#') && self.is_after_blank()
    }

    fn is_after_blank(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.text.as_bytes().get(at));
        matches!(before, None | Some(b' ' | b'\n'))
    }

    /// Moves to the beginning of the next line. The rest of this one is a comment.
    pub(super) fn end_line(&mut self) {
        self.at = (self.at + self.line().len() + 1).min(self.text.len());
    }

    /// From the beginning of a line, skips empty lines and comments: the indentation of the content that follows.
    /// The outer `None` leaves the document to the full parser.
    #[expect(clippy::option_option, reason = "the outer one gives up, the inner one is the end")]
    pub(super) fn next_indent(&mut self) -> Option<Option<usize>> {
        loop {
            let rest = self.rest();
            let indent = rest.bytes().take_while(|byte| *byte == b' ').count();
            match rest.as_bytes().get(indent) {
                None => {
                    self.at = self.text.len();
                    return Some(None);
                }
                Some(b'\n') => self.at += indent + 1,
                Some(b'#') => self.end_line(),
                Some(b'\t') => return None,
                Some(_) => {
                    let marker = indent == 0 && (rest.starts_with("---") || rest.starts_with("..."));
                    return if marker || indent == 0 && rest.starts_with('%') {
                        None
                    } else {
                        Some(Some(indent))
                    };
                }
            }
        }
    }

    /// Back to the beginning of the line, of which only the indentation was read.
    pub(super) fn leave(&mut self) {
        let before = self.text.get(..self.at).unwrap_or_default();
        self.at = before.rfind('\n').map_or(0, |at| at + 1);
    }
}
