//! The forms that a client accepts.

/// The form of an answer about objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The objects.
    Object,
    /// Rows for people, in this version of the group meta.k8s.io.
    Table(&'static str),
    /// Metadata only.
    Metadata,
}

/// The first of the forms that a client accepts, which is sent if there is no header at all; `None` if it is served none.
pub(crate) fn form(accept: Option<&str>) -> Option<Form> {
    first(accept, |parameters| match parameters.get("as") {
        "" => Some(Form::Object),
        _ if parameters.get("g") != "meta.k8s.io" => None,
        "Table" if parameters.get("v") == "v1" => Some(Form::Table("v1")),
        "Table" if parameters.get("v") == "v1beta1" => Some(Form::Table("v1beta1")),
        "PartialObjectMetadata" | "PartialObjectMetadataList" if parameters.get("v") == "v1" => {
            Some(Form::Metadata)
        }
        _ => None,
    })
}

/// The form of a discovery document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discovery {
    /// One document for each group and version.
    Plain,
    /// All in one, in this version of the group apidiscovery.k8s.io.
    Aggregated(&'static str),
}

/// The first of the forms of discovery that a client accepts; `None` if it is served none.
pub(crate) fn discovery(accept: Option<&str>) -> Option<Discovery> {
    first(accept, |parameters| match (parameters.get("as"), parameters.get("g"), parameters.get("v")) {
        ("", _, _) => Some(Discovery::Plain),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(Discovery::Aggregated("v2")),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => Some(Discovery::Aggregated("v2beta1")),
        _ => None,
    })
}

struct Parameters<'a>(&'a str);

impl Parameters<'_> {
    fn get(&self, name: &str) -> &str {
        let pairs = self.0.split(';').filter_map(|pair| pair.split_once('='));
        pairs
            .map(|(key, value)| (key.trim(), value.trim()))
            .find(|(key, _)| *key == name)
            .map_or("", |(_, v)| v)
    }
}

fn first<T>(accept: Option<&str>, served: impl Fn(&Parameters<'_>) -> Option<T>) -> Option<T> {
    let ranges = accept.filter(|accept| !accept.trim().is_empty()).unwrap_or("application/json");
    ranges.split(',').find_map(|range| {
        let (media, parameters) = range.split_once(';').unwrap_or((range, ""));
        let parameters = Parameters(parameters);
        let json = ["application/json", "application/*", "*/*"];
        let refused = parameters.get("q").parse::<f32>().is_ok_and(|weight| weight <= 0.0);
        let is_json = json.iter().any(|json| media.trim().eq_ignore_ascii_case(json));
        if is_json && !refused { served(&parameters) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_is_served_is_taken() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        for (accept, wanted) in [
            (None, Some(Form::Object)),
            (Some(""), Some(Form::Object)),
            (Some("*/*"), Some(Form::Object)),
            (Some(table), Some(Form::Table("v1"))),
            (
                Some("application/json; as=Table; g=meta.k8s.io; v=v1beta1, application/json"),
                Some(Form::Table("v1beta1")),
            ),
            (Some("application/json;as=Table;v=v2;g=meta.k8s.io,application/json"), Some(Form::Object)),
            (Some("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"), Some(Form::Metadata)),
            (Some("application/vnd.kubernetes.protobuf, application/json"), Some(Form::Object)),
            (Some("application/vnd.kubernetes.protobuf"), None),
            (Some("application/json;q=0, application/yaml"), None),
        ] {
            assert_eq!(form(accept), wanted, "{accept:?}");
        }
        let both = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(discovery(Some(both)), Some(Discovery::Aggregated("v2")));
        assert_eq!(discovery(Some("application/json")), Some(Discovery::Plain));
        assert_eq!(discovery(Some("application/vnd.kubernetes.protobuf")), None);
    }
}
