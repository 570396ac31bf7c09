//! Label and field selectors.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{Failure, request::Parameters};

/// Most requirements of one selector.
const REQUIREMENTS_MAX: usize = 256;

/// Which objects a request wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    name: Option<String>,
    labels: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl Filter {
    pub(crate) fn of(query: &Parameters) -> Result<Self, Failure> {
        let labels = query.get("labelSelector");
        let labels = parts(labels).into_iter().map(requirement).collect::<Result<Vec<_>, _>>();
        let labels = labels.map_err(|text| {
            Failure::bad_request(format!("unable to parse requirement: {text:?} in the label selector"))
        })?;
        if labels.len() > REQUIREMENTS_MAX {
            let text = format!("a label selector has at most {REQUIREMENTS_MAX} requirements");
            return Err(Failure::bad_request(text));
        }
        let fields = query.get("fieldSelector");
        let name = Self::named(query);
        if let (None, false) = (&name, fields.is_empty()) {
            let field = fields.split(['=', '!', ',']).next().unwrap_or_default();
            return Err(Failure::bad_request(format!("field label not supported: {field}")));
        }
        Ok(Self { name, labels })
    }

    /// The name that the field selector wants, if it is one that can be answered.
    pub(crate) fn named(query: &Parameters) -> Option<String> {
        let fields = query.get("fieldSelector");
        let (field, value) = fields.split_once("==").or_else(|| fields.split_once('='))?;
        (field == "metadata.name" && !value.contains([',', '='])).then(|| value.to_owned())
    }

    pub(crate) fn matches(&self, metadata: &ObjectMeta) -> bool {
        let none = BTreeMap::new();
        let labels = metadata.labels.as_ref().unwrap_or(&none);
        let named = self.name.as_ref().is_none_or(|name| metadata.name.as_ref() == Some(name));
        named && self.labels.iter().all(|one| one.test.holds(labels.get(&one.key).map(String::as_str)))
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        let among = |list: &[String]| value.is_some_and(|value| list.iter().any(|one| one == value));
        match self {
            Self::Exists => value.is_some(),
            Self::Missing => value.is_none(),
            Self::In(list) => among(list),
            Self::NotIn(list) => !among(list),
            Self::Above(bound) => number().is_some_and(|number| number > *bound),
            Self::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// The text between commas that are in no parentheses.
fn parts(selector: &str) -> Vec<&str> {
    let mut open = false;
    let parts = selector.split(|character| {
        open = if open { character != ')' } else { character == '(' };
        !open && character == ','
    });
    if selector.trim().is_empty() { Vec::new() } else { parts.map(str::trim).collect() }
}

fn requirement(text: &str) -> Result<Requirement, &str> {
    let is_key = |key: &str| {
        !key.is_empty() && key.chars().all(|one| one.is_ascii_alphanumeric() || "-_./".contains(one))
    };
    let made = |key: &str, test| {
        let key = key.trim().to_owned();
        if is_key(&key) { Ok(Requirement { key, test }) } else { Err(text) }
    };
    if let Some(key) = text.strip_prefix('!') {
        return made(key, Test::Missing);
    }
    if let Some((before, list)) = text.split_once('(') {
        let list = list.strip_suffix(')').ok_or(text)?;
        let list = list.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, operator) = before.trim().rsplit_once(char::is_whitespace).ok_or(text)?;
        return match operator {
            "in" => made(key, Test::In(list)),
            "notin" => made(key, Test::NotIn(list)),
            _ => Err(text),
        };
    }
    let one = |value: &str| vec![value.trim().to_owned()];
    let number = |value: &str| value.trim().parse().map_err(|_| text);
    if let Some((key, value)) = text.split_once("!=") {
        made(key, Test::NotIn(one(value)))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        made(key, Test::In(one(value)))
    } else if let Some((key, value)) = text.split_once('>') {
        made(key, Test::Above(number(value)?))
    } else if let Some((key, value)) = text.split_once('<') {
        made(key, Test::Below(number(value)?))
    } else {
        made(text, Test::Exists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(query: &str) -> Result<Filter, Failure> {
        let query = query.replace('<', "%3C").replace('>', "%3E");
        Filter::of(&Parameters::of(&format!("/?{query}").parse().unwrap())?)
    }

    #[test]
    fn labels_are_selected_as_kubernetes_does() {
        let labels = [("catalog", "community"), ("tier", "2"), ("example.com/a.b", "")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let metadata = ObjectMeta { labels: Some(labels.into()), ..ObjectMeta::default() };
        for (selector, wanted) in [
            ("", true),
            ("catalog=community", true),
            ("catalog%3D%3Dcommunity,tier", true),
            ("catalog=other", false),
            ("catalog!=other,missing!=x", true),
            ("catalog+in+(a,+community),tier+notin+(1,3)", true),
            ("catalog notin (community)".replace(' ', "+").as_str(), false),
            ("!missing,example.com/a.b=", true),
            ("!tier", false),
            ("tier>1,tier<3", true),
            ("tier>2", false),
        ] {
            let filter = filter(&format!("labelSelector={selector}")).unwrap();
            assert_eq!(filter.matches(&metadata), wanted, "{selector}");
        }
        for selector in ["a=b=c(", "a in b", "a in (b", "%20,a", "a>x", "$=1", "a near (b)"] {
            assert!(filter(&format!("labelSelector={}", selector.replace(' ', "+"))).is_err(), "{selector}");
        }
        assert!(filter(&format!("labelSelector={}a", "a,".repeat(REQUIREMENTS_MAX))).is_err());
    }

    #[test]
    fn the_only_field_is_the_name() {
        let metadata = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        for query in ["fieldSelector=metadata.name%3Da", "fieldSelector=metadata.name==a"] {
            let filter = filter(query).unwrap();
            assert!(filter.matches(&metadata("a")) && !filter.matches(&metadata("b")), "{query}");
        }
        for (query, field) in [
            ("fieldSelector=metadata.namespace=x", "metadata.namespace"),
            ("fieldSelector=metadata.name!=a", "metadata.name"),
            ("fieldSelector=spec.x=1,metadata.name=a", "spec.x"),
        ] {
            let wanted = Failure::bad_request(format!("field label not supported: {field}"));
            assert_eq!(filter(query).unwrap_err(), wanted);
        }
    }
}
