//! Inputs made of other inputs.

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;

/// Longest input that is made.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Changes made to one input, at most.
const CHANGES_MAX: usize = 6;
/// Values at the edges of what fields hold.
const EDGES: [u8; 12] = [0, 1, 9, 10, 13, 0x20, 0x7f, 0x80, 0xfe, 0xff, b'0', b'7'];

pub(super) struct Mutator {
    random: Rng,
    words: Vec<Vec<u8>>,
}

impl Mutator {
    pub(super) fn new(seed: u64, words: Vec<Vec<u8>>) -> Self {
        Self { random: Rng::with_seed(seed), words }
    }

    /// One of the pool, changed.
    pub(super) fn mutated(&mut self, pool: &[Vec<u8>]) -> Vec<u8> {
        let mut input = self.random.choice(pool).cloned().unwrap_or_default();
        for _ in 0..=self.random.usize(..CHANGES_MAX) {
            self.change(&mut input, pool);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, pool: &[Vec<u8>]) {
        let at = self.random.usize(..=input.len());
        let largest = self.largest();
        let length = self.random.usize(..=(input.len() - at).min(largest));
        match self.random.u8(..8) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.random.u8(..8);
                }
            }
            1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = self.random.choice(EDGES).unwrap_or_default();
                }
            }
            2 => drop(input.drain(at..at + length)),
            3 => {
                let piece = input[at..at + length].to_vec();
                for _ in 0..=self.random.usize(..4) {
                    input.splice(at..at, piece.iter().copied());
                }
            }
            4 => {
                let other = self.random.choice(pool).map(Vec::as_slice).unwrap_or_default();
                let from = self.random.usize(..=other.len());
                let count = self.random.usize(..=(other.len() - from).min(largest));
                input.splice(at..at + length, other[from..from + count].iter().copied());
            }
            5 => input.truncate(at),
            _ => {
                let word = self.random.choice(&self.words).map(Vec::as_slice).unwrap_or_default();
                let replaced = if self.random.bool() { length.min(word.len()) } else { 0 };
                input.splice(at..at + replaced, word.iter().copied());
            }
        }
    }

    /// Mostly small pieces, now and then large ones.
    fn largest(&mut self) -> usize {
        if self.random.u8(..8) == 0 { 4096 } else { 24 }
    }
}

/// The words of a dictionary in the form of libFuzzer: one a line, in quotes, with the escapes `\\`, `\"` and `\xAB`.
pub(super) fn words(text: &str) -> Result<Vec<Vec<u8>>> {
    let word = |line: &str| {
        let quoted = line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let mut rest = quoted.with_context(|| format!("{line}: not in quotes"))?.bytes();
        let mut word = Vec::new();
        while let Some(byte) = rest.next() {
            word.push(match (byte, if byte == b'\\' { rest.next() } else { None }) {
                (b'\\', Some(escaped @ (b'\\' | b'"'))) => escaped,
                (b'\\', Some(b'x')) => {
                    let digits: String = rest.by_ref().take(2).map(char::from).collect();
                    ensure!(digits.len() == 2, "{line}: an escape with one digit");
                    u8::from_str_radix(&digits, 16).with_context(|| line.to_owned())?
                }
                (b'\\', _) => bail!("{line}: an escape that there is not"),
                (byte, _) => byte,
            });
        }
        Ok(word)
    };
    text.lines().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_is_read_as_libfuzzer_reads_it() {
        let text = "\"a b\"\n\"\\\\u\\\"\\x0A\\xEF\"\n";
        assert_eq!(words(text).unwrap(), [b"a b".to_vec(), b"\\u\"\n\xEF".to_vec()]);
        for wrong in ["a", "\"a", "\"\\n\"", "\"\\x1\"", "\"\\"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }
}
