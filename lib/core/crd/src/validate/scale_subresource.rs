//! The scale subresource, which reads numbers of replicas and a selector from an object.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::validation::Validation;

/// Selectors that are certainly well-formed; others are undecided.
static SELECTOR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let name = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)";
    let key = format!(r"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{name}");
    Regex::new(&format!(r"^({key}(=|==|!=){name}?(,{key}(=|==|!=){name}?)*)?$")).ok()
});

/// The paths that the subresource reads.
#[derive(Debug, Default)]
pub(crate) struct Scale {
    replicas: Vec<String>,
    selector: Option<String>,
}

impl Scale {
    /// Reads the subresources of a version; without `scale` there are no paths.
    pub(crate) fn read(subresources: Option<&Map<String, Value>>) -> Self {
        let scale = subresources.and_then(|subresources| subresources.get("scale"));
        let path = |member: &str| {
            let path = scale.and_then(|scale| scale.get(member)).and_then(Value::as_str);
            path.filter(|path| !path.is_empty()).map(str::to_owned)
        };
        Self {
            replicas: ["specReplicasPath", "statusReplicasPath"].into_iter().filter_map(path).collect(),
            selector: path("labelSelectorPath"),
        }
    }

    pub(crate) fn check(&self, object: &Value, found: &mut Validation) {
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

/// The value at a path; an error where a value on the path is no object.
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
    use crate::{Tristate, Validation};

    #[test]
    fn replicas_and_selectors_have_their_form() {
        let scale = Scale::read(json!({"scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
        }}).as_object());
        for (object, is_valid) in [
            (json!({}), Tristate::Yes),
            (
                json!({"spec": {"replicas": 3}, "status": {"replicas": 0, "selector": "a=b,c.d/e!=f"}}),
                Tristate::Yes,
            ),
            (json!({"spec": null}), Tristate::Yes),
            (json!({"spec": {"replicas": -1}}), Tristate::No),
            (json!({"spec": {"replicas": 9_000_000_000_i64}}), Tristate::No),
            (json!({"spec": {"replicas": null}}), Tristate::No),
            (json!({"spec": "x"}), Tristate::No),
            (json!({"status": {"replicas": 1.5}}), Tristate::No),
            (json!({"status": {"selector": 1}}), Tristate::No),
            (json!({"status": {"selector": "a in (b)"}}), Tristate::Undecided),
        ] {
            let mut found = Validation::default();
            scale.check(&object, &mut found);
            assert_eq!(found.is_valid(), is_valid, "{object}");
        }
        let mut found = Validation::default();
        Scale::read(None).check(&json!({"spec": {"replicas": -1}}), &mut found);
        assert_eq!(found.is_valid(), Tristate::Yes);
    }
}
