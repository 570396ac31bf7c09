//! What a revision records of its bundle.

use olm_fbc::Property;

/// The properties of an installed bundle, as two annotations of its revision record them in JSON: those of its catalog,
/// and its own that the catalog does not have. What cannot be read counts as none.
pub fn recorded_properties(of_catalog: &str, own: &str) -> Vec<Property> {
    let read = |text: &str| serde_json::from_str::<Vec<Property>>(text).unwrap_or_default();
    let mut all = read(of_catalog);
    for property in read(own) {
        if !all.contains(&property) {
            all.push(property);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::recorded_properties;

    #[test]
    fn properties_of_the_catalog_and_the_bundle_count_once() {
        let (a, b) = (r#"{"type":"a","value":1}"#, r#"{"type":"b","value":2}"#);
        let kinds = |of_catalog: &str, own: &str| -> Vec<String> {
            recorded_properties(of_catalog, own).into_iter().map(|property| property.kind).collect()
        };
        assert_eq!(kinds(&format!("[{a}]"), &format!("[{b},{a}]")), ["a", "b"]);
        assert_eq!(kinds("", &format!("[{a}]")), ["a"]);
        assert_eq!(kinds("no list", ""), Vec::<String>::new());
    }
}
