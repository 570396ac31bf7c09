//! The tolerant reading of `spec.version` that the CSV's type does.
//!
//! Source: github.com/blang/semver/v4 `ParseTolerant`.

/// Whether `text` is a version after blanks, a leading `v` and leading zeros are taken off and missing parts
/// are filled up.
pub(crate) fn check_tolerant(text: &str) -> Result<(), &'static str> {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let core_end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, tail) = text.split_at(core_end);
    let parts: Vec<_> = core.split('.').collect();
    let number =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) && part.len() < 20;
    if parts.len() > 3 || !parts.iter().all(|part| number(part)) {
        return Err("not a semantic version");
    }
    if parts.len() < 3 && !tail.is_empty() {
        return Err("short version cannot contain PreRelease/Build meta data");
    }
    let (pre_release, build) = match tail.strip_prefix('-') {
        Some(rest) => {
            rest.split_once('+').map_or((Some(rest), None), |(pre, build)| (Some(pre), Some(build)))
        }
        None => (None, tail.strip_prefix('+')),
    };
    let identifier =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let padded =
        |part: &str| part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit());
    let fits = pre_release.is_none_or(|text| text.split('.').all(|part| identifier(part) && !padded(part)))
        && build.is_none_or(|text| text.split('.').all(identifier));
    if fits { Ok(()) } else { Err("not a semantic version") }
}

#[cfg(test)]
mod tests {
    use super::check_tolerant;

    #[test]
    fn versions_are_read_tolerantly() {
        for text in ["1.2.3", "v1.2", "1", " 1.02.3 ", "1.2.3-rc.1+build.01", "1.2.3+a"] {
            assert!(check_tolerant(text).is_ok(), "{text}");
        }
        for text in ["", "abc", "1.2.3.4", "1.2-rc", "1.2.3-01", "1.2.3-", "1..2", "vv1"] {
            assert!(check_tolerant(text).is_err(), "{text}");
        }
    }
}
