//! The grammar of a reference with a domain: `domain/path[:tag][@digest]`, by hand instead of by regular
//! expression. It decides form only; lengths of digests are checked by [`crate::Digest`].

/// Longest tag in bytes.
const TAG_BYTES_MAX: usize = 128;

pub(super) struct Parts<'a> {
    pub(super) domain: &'a str,
    pub(super) path: &'a str,
    pub(super) tag: Option<&'a str>,
    pub(super) digest: Option<&'a str>,
}

/// The parts of `text`, when it is a reference.
pub(super) fn split(text: &str) -> Option<Parts<'_>> {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (text, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return None;
    }
    let (domain, rest) = rest.split_once('/')?;
    let (path, tag) = match rest.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    let valid = is_domain(domain) && path.split('/').all(is_path_component) && tag.is_none_or(is_tag);
    valid.then_some(Parts { domain, path, tag, digest })
}

pub(crate) fn is_domain(domain: &str) -> bool {
    if let Some(rest) = domain.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        let address_valid =
            !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
        return address_valid && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    }
    let (host, port) = match domain.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (domain, None),
    };
    host.split('.').all(is_domain_component) && port.is_none_or(is_port)
}

fn is_port(port: &str) -> bool {
    !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
}

fn is_domain_component(component: &str) -> bool {
    let bytes = component.as_bytes();
    let ends_alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends_alphanumeric(bytes.first())
        && ends_alphanumeric(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
}

/// Runs of lower-case letters and digits, joined by one `.`, one or two `_`, or any number of `-`.
pub(crate) fn is_path_component(component: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    if !is_word(*first) || !is_word(*last) {
        return false;
    }
    bytes
        .split(|b| is_word(*b))
        .filter(|separator| !separator.is_empty())
        .all(|separator| matches!(separator, b"." | b"_" | b"__") || separator.iter().all(|b| *b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = tag.as_bytes();
    bytes.len() <= TAG_BYTES_MAX
        && bytes.first().is_some_and(|b| is_word(*b))
        && bytes.iter().all(|b| is_word(*b) || matches!(b, b'.' | b'-'))
}

/// `algorithm:hex` with at least 32 hex characters, of either case.
fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let is_component = |component: &str| {
        component.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
            && component.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(is_component)
        && hex.len() >= 32
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
}
