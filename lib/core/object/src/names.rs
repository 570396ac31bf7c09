//! Names as Kubernetes defines them, and its explanations of those that are none.
//!
//! Source: k8s.io/apimachinery `pkg/util/validation`.

const LABEL_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// Kubernetes' explanation of a text that has not the form of a DNS subdomain (RFC 1123).
pub const SUBDOMAIN_FORM: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// A DNS label (RFC 1123), as names of namespaces are.
pub fn is_label(text: &str) -> bool {
    text.len() <= LABEL_BYTES_MAX && has_label_form(text)
}

/// A DNS label that begins with a letter (RFC 1035).
pub fn is_label_1035(text: &str) -> bool {
    is_label(text) && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
}

/// A DNS subdomain (RFC 1123), as names of most objects are.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_BYTES_MAX && text.split('.').all(has_label_form)
}

/// A kind: a label of RFC 1035 in any case.
pub fn is_kind(text: &str) -> bool {
    is_label_1035(&text.to_ascii_lowercase())
}

/// Kubernetes' explanations of a text that is no DNS label (RFC 1123); none when it is one.
pub fn label_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > LABEL_BYTES_MAX {
        problems.push(format!("must be no more than {LABEL_BYTES_MAX} characters"));
    }
    if !has_label_form(text) {
        problems.push(if text.split('.').all(has_label_form) {
            "must not contain dots".to_owned()
        } else {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
             and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned()
        });
    }
    problems
}

/// Kubernetes' explanations of a text that is no DNS subdomain (RFC 1123), sorted; none when it is one.
pub fn subdomain_problems(text: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if !text.split('.').all(has_label_form) {
        problems.push(SUBDOMAIN_FORM);
    }
    if text.len() > SUBDOMAIN_BYTES_MAX {
        problems.push("must be no more than 253 characters");
    }
    problems
}

/// Lower-case letters, digits and hyphens, the latter not at either end; of any length.
fn has_label_form(text: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(is_end)
        && bytes.last().is_some_and(is_end)
        && bytes.iter().all(|byte| is_end(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_subdomains_and_kinds_have_their_forms_and_lengths() {
        let of_length = |length: usize| "a".repeat(length);
        for (text, [label, label_1035, subdomain, kind]) in [
            ("a", [true; 4]),
            ("a-b0", [true; 4]),
            ("0a", [true, false, true, false]),
            ("A-B", [false, false, false, true]),
            ("a.b-c.d0", [false, false, true, false]),
            ("", [false; 4]),
            ("-a", [false; 4]),
            ("a-", [false; 4]),
            ("a_b", [false; 4]),
            ("a..b", [false; 4]),
            ("a.-b", [false; 4]),
            ("ä", [false; 4]),
            (&of_length(63), [true; 4]),
            (&of_length(64), [false, false, true, false]),
            (&of_length(253), [false, false, true, false]),
            (&of_length(254), [false; 4]),
        ] {
            let found = [is_label(text), is_label_1035(text), is_subdomain(text), is_kind(text)];
            assert_eq!(found, [label, label_1035, subdomain, kind], "{text}");
        }
    }

    #[test]
    fn explanations_are_those_of_kubernetes() {
        assert!(subdomain_problems("a.b-c.d0").is_empty() && label_problems("a-b").is_empty());
        for bad in ["", "-a", "a-", "a..b", "A", "a_b", "a.-b"] {
            assert_eq!(subdomain_problems(bad), [SUBDOMAIN_FORM], "{bad}");
        }
        assert_eq!(
            subdomain_problems(&"-".repeat(254)),
            [SUBDOMAIN_FORM, "must be no more than 253 characters"]
        );
        assert_eq!(label_problems("a.b"), ["must not contain dots"]);
        let long = label_problems(&"_".repeat(64));
        assert_eq!(long.len(), 2);
        assert_eq!(long[0], "must be no more than 63 characters");
    }
}
