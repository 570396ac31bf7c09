//! The `Range` header of `/all`, read as Go's HTTP library reads it.

use std::ops::Range;

use crate::limits::RANGES_MAX;

/// The meaning of a `Range` header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Everything: no range, or more than makes sense.
    Whole,
    /// These bytes.
    Parts(Vec<Range<u64>>),
    /// Nothing of the content, for this reason.
    Unsatisfiable(&'static str),
}

const INVALID: Asked = Asked::Unsatisfiable("invalid range");

/// Reads the header's value for content of `size` bytes.
pub(super) fn parse(header: &str, size: u64) -> Asked {
    let Some(list) = header.strip_prefix("bytes=") else { return INVALID };
    let mut parts = Vec::new();
    let mut missed = false;
    for range in list.split(',').map(str::trim).filter(|range| !range.is_empty()) {
        let Some((from, to)) = range.split_once('-') else { return INVALID };
        let (from, to) = (from.trim(), to.trim());
        let part = if from.is_empty() {
            let Some(count) = number(to) else { return INVALID };
            size - count.min(size)..size
        } else {
            let Some(first) = number(from) else { return INVALID };
            let end = match to {
                "" => size,
                _ => match number(to) {
                    Some(to) if to >= first => to.saturating_add(1).min(size),
                    _ => return INVALID,
                },
            };
            first..end
        };
        // Also the last 0 bytes, and any of content that is empty.
        if part.is_empty() {
            missed = true;
        } else {
            parts.push(part);
        }
    }
    if parts.is_empty() {
        return if missed && size > 0 {
            Asked::Unsatisfiable("invalid range: failed to overlap")
        } else {
            Asked::Whole
        };
    }
    // More bytes than there are, or very many parts, is an attack or a mistake: the whole is cheaper.
    let total = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.end - part.start));
    if parts.len() > RANGES_MAX || total.is_none_or(|total| total > size) {
        return Asked::Whole;
    }
    Asked::Parts(parts)
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::{Asked, parse};

    #[test]
    fn ranges_are_read_as_go_reads_them() {
        let whole = || Asked::Whole;
        let overlap = || Asked::Unsatisfiable("invalid range: failed to overlap");
        let invalid = || Asked::Unsatisfiable("invalid range");
        let one = |range: std::ops::Range<u64>| Asked::Parts(std::iter::once(range).collect());
        for (header, asked) in [
            ("bytes=0-4", one(0..5)),
            ("bytes=95-", one(95..100)),
            ("bytes=-5", one(95..100)),
            ("bytes=-500", one(0..100)),
            ("bytes=90-500", one(90..100)),
            ("bytes=0-0, 5-6", Asked::Parts(vec![0..1, 5..7])),
            ("bytes=0-0,200-", one(0..1)),
            ("bytes=0-99,0-99", whole()),
            ("bytes=", whole()),
            ("bytes=100-", overlap()),
            ("bytes=-0", overlap()),
            ("bytes=18446744073709551615-", overlap()),
            ("bytes=-18446744073709551615", one(0..100)),
            ("bytes=18446744073709551616-", invalid()),
            ("bytes=5-2", invalid()),
            ("bytes=a-b", invalid()),
            ("bytes=--5", invalid()),
            ("bytes=5", invalid()),
            ("lines=0-1", invalid()),
        ] {
            assert_eq!(parse(header, 100), asked, "{header}");
        }
        for nothing in ["bytes=0-", "bytes=-5", "bytes=-0"] {
            assert_eq!(parse(nothing, 0), whole(), "{nothing}");
        }
        let many = format!("bytes={}", vec!["1-1"; 50].join(","));
        assert_eq!(parse(&many, 100), whole());
    }
}
