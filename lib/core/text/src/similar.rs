//! Names that a misspelt one may mean.

use crate::{cut, one_line};

/// Names that are suggested.
const SUGGESTED_MAX: usize = 3;
/// Names that are compared; the others are left out.
const COMPARED_MAX: usize = 10_000;
/// Characters of a name that is compared letter by letter.
const CHARACTERS_MAX: usize = 64;
/// Characters of a name that are shown.
const SHOWN_CHARACTERS: usize = 100;
/// The end of many names, which makes none of them similar to another.
const COMMON_END: &str = "-operator";

/// A question for someone whose name is not among `names`: `Did you mean a, b or c?`; `None` where none is similar.
pub fn did_you_mean<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
    let shown = |name: &&str| cut(&one_line(name), SHOWN_CHARACTERS).into_owned();
    let mut found: Vec<String> = similar(wanted, names).iter().map(shown).collect();
    let last = found.pop()?;
    let others = if found.is_empty() { String::new() } else { format!("{} or ", found.join(", ")) };
    Some(format!("Did you mean {others}{last}?"))
}

/// The names that are most similar to `wanted`, which is not among them: one letter in three may be another, missing, too
/// many or swapped with its neighbour, or one name has further words.
pub fn similar<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let names = names.into_iter().take(COMPARED_MAX);
    let mut found: Vec<(usize, &str)> =
        names.filter_map(|name| Some((distance(wanted, name)?, name))).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(SUGGESTED_MAX).map(|(_, name)| name).collect()
}

/// How far apart two names are, unless they are not similar.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let [wanted, name] = [wanted, name].map(str::to_lowercase);
    let [wanted, name] = [&wanted, &name].map(|name| name.strip_suffix(COMMON_END).unwrap_or(name));
    let begins = |long: &str, short: &str| {
        !short.is_empty() && long.strip_prefix(short).is_some_and(|rest| rest.starts_with(['-', '.', '_']))
    };
    if begins(name, wanted) || begins(wanted, name) {
        return Some(CHARACTERS_MAX);
    }
    let [length, other] = [wanted, name].map(|name| name.chars().count());
    let allowed = (length / 3).max(1);
    if length.max(other) > CHARACTERS_MAX || length.abs_diff(other) > allowed {
        return None;
    }
    Some(strsim::osa_distance(wanted, name)).filter(|distance| *distance <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_be_meant_are_found() {
        let names = [
            "argocd-operator",
            "cert-manager",
            "lighthouse-operator",
            "prometheus",
            "prometheus-exporter-operator",
        ];
        for (wanted, meant) in [
            ("lighthose-operator", "Did you mean lighthouse-operator?"),
            ("lighthouse", "Did you mean lighthouse-operator?"),
            ("Lighthouse-Operator", "Did you mean lighthouse-operator?"),
            ("argocd", "Did you mean argocd-operator?"),
            ("agrocd-operator", "Did you mean argocd-operator?"),
            ("cert-manager-operator", "Did you mean cert-manager?"),
            ("certmanager", "Did you mean cert-manager?"),
            ("promethues", "Did you mean prometheus?"),
            ("prometheus-operator", "Did you mean prometheus or prometheus-exporter-operator?"),
        ] {
            assert_eq!(did_you_mean(wanted, names).as_deref(), Some(meant), "{wanted}");
        }
        for wanted in ["", "x", "keda", "acme-operator", "-operator", "operator", "light"] {
            assert_eq!(did_you_mean(wanted, names), None, "{wanted}");
        }
    }

    #[test]
    fn a_few_are_named_the_nearest_first_and_each_once() {
        let names = ["beta", "stable-v3", "stable-v2", "stable-v1", "stable", "stable"];
        assert_eq!(similar("stabel", names), ["stable"]);
        assert_eq!(similar("stable-v", names), ["stable-v1", "stable-v2", "stable-v3"]);
        assert_eq!(similar("stable-v4", names), ["stable-v1", "stable-v2", "stable-v3"]);
    }

    #[test]
    fn untrusted_names_are_cleaned_and_their_number_and_length_is_limited() {
        let hostile = format!("stable-\u{202e}\n{}", "x".repeat(1_000));
        let asked = did_you_mean("stable", [hostile.as_str()]).unwrap();
        assert!(!asked.contains('\n') && !asked.contains('\u{202e}') && asked.len() < 200, "{asked}");
        let long = "a".repeat(CHARACTERS_MAX + 1);
        assert_eq!(similar(&format!("{long}b"), [long.as_str()]), [""; 0]);
        let mut names = vec!["other"; COMPARED_MAX - 1];
        names.push("stable");
        assert_eq!(similar("stabel", names.iter().copied()), ["stable"]);
        names.insert(0, "other");
        assert_eq!(similar("stabel", names), [""; 0]);
    }
}
