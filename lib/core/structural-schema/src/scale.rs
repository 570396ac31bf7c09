//! The scale subresource: what it reads of an object has to be numbers of replicas and a selector.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::outcome::Judgement;

/// Selectors that are certainly well-formed; others are not decided.
static SELECTOR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let name = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)";
    let key = format!(r"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{name}");
    Regex::new(&format!(r"^({key}(=|==|!=){name}?(,{key}(=|==|!=){name}?)*)?$")).ok()
});

/// Where the subresource finds what it reads.
#[derive(Debug, Default)]
pub(crate) struct Scale {
    replicas: Vec<String>,
    selector: Option<String>,
}

impl Scale {
    /// The subresource of a version; without one nothing is read.
    pub(crate) fn of(version: &Value) -> Self {
        let scale = &version["subresources"]["scale"];
        let path = |member: &str| scale[member].as_str().filter(|path| !path.is_empty()).map(str::to_owned);
        Self {
            replicas: ["specReplicasPath", "statusReplicasPath"].into_iter().filter_map(path).collect(),
            selector: path("labelSelectorPath"),
        }
    }

    pub(crate) fn check(&self, object: &Value, found: &mut Judgement) {
        for path in &self.replicas {
            let number = match nested(object, path) {
                Ok(None) => continue,
                Ok(Some(value)) => value.as_i64(),
                Err(()) => None,
            };
            if number.is_none_or(|number| !(0..=i64::from(i32::MAX)).contains(&number)) {
                found.violate(
                    path.trim_start_matches('.'),
                    "must be a number of replicas for the scale subresource",
                );
            }
        }
        let Some(path) = &self.selector else { return };
        let place = path.trim_start_matches('.');
        match nested(object, path).map(|value| value.map(Value::as_str)) {
            Ok(None) => {}
            Ok(Some(Some(selector))) => {
                if !SELECTOR.as_ref().is_some_and(|regex| regex.is_match(selector)) {
                    found.doubt(place, "a selector of this form is not understood");
                }
            }
            Ok(Some(None)) | Err(()) => {
                found.violate(place, "must be a selector for the scale subresource");
            }
        }
    }
}

/// The value at a path; an error where something on the way is no object.
fn nested<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, ()> {
    let mut value = object;
    for name in path.trim_start_matches('.').split('.') {
        value = match value {
            Value::Object(fields) => match fields.get(name) {
                Some(below) => below,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            _ => return Err(()),
        };
    }
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Scale;
    use crate::{Judgement, Verdict};

    #[test]
    fn replicas_and_selectors_have_their_form() {
        let scale = Scale::of(&json!({"subresources": {"scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
        }}}));
        for (object, verdict) in [
            (json!({}), Verdict::Valid),
            (
                json!({"spec": {"replicas": 3}, "status": {"replicas": 0, "selector": "a=b,c.d/e!=f"}}),
                Verdict::Valid,
            ),
            (json!({"spec": null}), Verdict::Valid),
            (json!({"spec": {"replicas": -1}}), Verdict::Invalid),
            (json!({"spec": {"replicas": 9_000_000_000_i64}}), Verdict::Invalid),
            (json!({"spec": {"replicas": null}}), Verdict::Invalid),
            (json!({"spec": "x"}), Verdict::Invalid),
            (json!({"status": {"replicas": 1.5}}), Verdict::Invalid),
            (json!({"status": {"selector": 1}}), Verdict::Invalid),
            (json!({"status": {"selector": "a in (b)"}}), Verdict::Undecided),
        ] {
            let mut found = Judgement::default();
            scale.check(&object, &mut found);
            assert_eq!(found.verdict(), verdict, "{object}");
        }
        let mut found = Judgement::default();
        Scale::of(&json!({})).check(&json!({"spec": {"replicas": -1}}), &mut found);
        assert_eq!(found.verdict(), Verdict::Valid);
    }
}
