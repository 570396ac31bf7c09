//! CRC-32 of one content after another, from the checksums of both.
//!
//! A CRC is a remainder of polynomials over two elements; appending n bytes multiplies the remainder by
//! x^(8n). Polynomials are bit-reflected, as in gzip: the highest bit is the coefficient of x^0.

/// The divisor without its leading term.
const DIVISOR: u32 = 0xedb8_8320;
/// The polynomial 1.
const ONE: u32 = 1 << 31;
/// x^(8 * 2^n), for each bit of a length.
const POWERS: [u32; 64] = powers();

const fn powers() -> [u32; 64] {
    let mut powers = [0; 64];
    // x^8
    powers[0] = 1 << 23;
    let mut at = 1;
    while at < 64 {
        powers[at] = product(powers[at - 1], powers[at - 1]);
        at += 1;
    }
    powers
}

/// The product of two remainders.
const fn product(left: u32, mut right: u32) -> u32 {
    let mut sum = 0;
    let mut bit = ONE;
    while bit != 0 {
        if left & bit != 0 {
            sum ^= right;
        }
        right = if right & 1 == 0 { right >> 1 } else { (right >> 1) ^ DIVISOR };
        bit >>= 1;
    }
    sum
}

/// The operator that appends `bytes` bytes.
pub(super) fn shift(bytes: u64) -> u32 {
    let set = (0_usize..64).filter(|bit| bytes >> bit & 1 == 1);
    set.fold(ONE, |operator, bit| product(POWERS[bit], operator))
}

/// The checksum of content with checksum `before`, followed by content with checksum `after`, whose length
/// has the operator `shift`.
pub(super) fn appended(before: u32, after: u32, shift: u32) -> u32 {
    product(shift, before) ^ after
}

#[cfg(test)]
mod tests {
    use flate2::Crc;
    use proptest::prelude::*;

    use super::{appended, shift};

    fn sum(bytes: &[u8]) -> u32 {
        let mut crc = Crc::new();
        crc.update(bytes);
        crc.sum()
    }

    proptest! {
        #[test]
        fn a_checksum_of_two_contents_is_that_of_both_together(
            before in prop::collection::vec(any::<u8>(), 0..2_000),
            after in prop::collection::vec(any::<u8>(), 0..2_000),
        ) {
            let whole = [before.clone(), after.clone()].concat();
            prop_assert_eq!(appended(sum(&before), sum(&after), shift(after.len() as u64)), sum(&whole));
        }
    }

    #[test]
    fn lengths_beyond_four_gigabytes_count_in_full() {
        let step = shift(1 << 32);
        assert_eq!(appended(appended(7, 0, step), 0, shift(5)), appended(7, 0, shift((1 << 32) + 5)));
    }
}
