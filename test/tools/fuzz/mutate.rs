//! Inputs made of other inputs.

use fastrand::Rng;

/// Longest input that is made.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Changes made to one input, at most.
const CHANGES_MAX: usize = 6;
/// Values at the edges of what fields hold.
const EDGES: [u8; 12] = [0, 1, 9, 10, 13, 0x20, 0x7f, 0x80, 0xfe, 0xff, b'0', b'7'];

pub(super) struct Mutator {
    random: Rng,
    words: &'static [&'static str],
}

impl Mutator {
    pub(super) fn new(seed: u64, words: &'static [&'static str]) -> Self {
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
                let word = self.random.choice(self.words).copied().unwrap_or_default();
                let replaced = if self.random.bool() { length.min(word.len()) } else { 0 };
                input.splice(at..at + replaced, word.bytes());
            }
        }
    }

    /// Mostly small pieces, now and then large ones.
    fn largest(&mut self) -> usize {
        if self.random.u8(..8) == 0 { 4096 } else { 24 }
    }
}
