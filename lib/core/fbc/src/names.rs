//! Which texts are names as Kubernetes defines them, and what it says of those that are not.

const LABEL_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// What Kubernetes says of a text that is no DNS label (RFC 1123); nothing when it is one.
pub fn label_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > LABEL_BYTES_MAX {
        problems.push(format!("must be no more than {LABEL_BYTES_MAX} characters"));
    }
    if is_label_form(text) {
        return problems;
    }
    problems.push(if text.split('.').all(is_label_form) {
        "must not contain dots".to_owned()
    } else {
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
         end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    });
    problems
}

/// A DNS subdomain (RFC 1123), as names of objects and of installed bundles are.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_BYTES_MAX && text.split('.').all(is_label_form)
}

/// A DNS label that begins with a letter (RFC 1035).
pub fn is_label_1035(text: &str) -> bool {
    text.len() <= LABEL_BYTES_MAX && is_label_form(text) && text.as_bytes()[0].is_ascii_lowercase()
}

/// A kind: such a label in any case.
pub fn is_kind(text: &str) -> bool {
    is_label_1035(&text.to_ascii_lowercase())
}

/// Lower-case letters, digits and hyphens, the latter not at either end; of any length.
fn is_label_form(text: &str) -> bool {
    let word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(word)
        && bytes.last().is_some_and(word)
        && bytes.iter().all(|byte| word(byte) || *byte == b'-')
}
