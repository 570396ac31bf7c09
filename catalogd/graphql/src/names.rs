//! Names of GraphQL fields and types, made of names in catalogs as upstream makes them.

/// The field of the query that lists a schema's documents: letters and digits in lower case, and an `s`.
pub(crate) fn root_field(schema: &str) -> String {
    let mut name: String =
        schema.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    name.push('s');
    name
}

/// The type of a schema's documents, or of the objects in a field: its words, capitalised.
pub(crate) fn type_name(text: &str) -> String {
    let text = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let name: String = words(text, |c| c.is_ascii_alphanumeric()).map(capitalised).collect();
    if name.is_empty() { "Unknown".to_owned() } else { name }
}

/// The field for a key of a document: its words in camel case.
pub(crate) fn field_name(key: &str) -> String {
    if key.is_empty() {
        return "value".to_owned();
    }
    let mut words = words(key, |c| c.is_ascii_alphanumeric());
    let first = words.next().unwrap_or_default();
    let mut name = if first.to_ascii_uppercase() == first {
        first.to_ascii_lowercase()
    } else {
        let mut characters = first.chars();
        let head = characters.next().map(|c| c.to_ascii_lowercase());
        head.into_iter().chain(characters).collect()
    };
    name.extend(words.map(capitalised));
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("field_{name}") }
}

fn words(text: &str, belongs: impl Fn(char) -> bool) -> impl Iterator<Item = &str> {
    text.split(move |c| !belongs(c)).filter(|word| !word.is_empty())
}

fn capitalised(word: &str) -> String {
    let mut characters = word.chars();
    let head = characters.next().map(|c| c.to_ascii_uppercase());
    head.into_iter().chain(characters.map(|c| c.to_ascii_lowercase())).collect()
}

#[cfg(test)]
mod tests {
    use super::{field_name, root_field, type_name};

    #[test]
    fn schemas_become_fields_and_types() {
        for (schema, field, kind) in [
            ("olm.bundle", "olmbundles", "OlmBundle"),
            ("olm.package", "olmpackages", "OlmPackage"),
            ("olm.csv.metadata", "olmcsvmetadatas", "OlmCsvMetadata"),
            ("Example-Schema_v2", "exampleschemav2s", "ExampleSchemaV2"),
            ("2go", "2gos", "Go"),
            ("---", "s", "Unknown"),
        ] {
            assert_eq!((root_field(schema).as_str(), type_name(schema).as_str()), (field, kind));
        }
    }

    #[test]
    fn keys_become_fields_in_camel_case() {
        for (key, field) in [
            ("name", "name"),
            ("defaultChannel", "defaultChannel"),
            ("default_channel", "defaultChannel"),
            ("display-name", "displayName"),
            ("a.b.C", "aBC"),
            ("URL", "url"),
            ("Name", "name"),
            ("__x__y_", "xY"),
            ("3scale", "field_3scale"),
            ("", "value"),
            ("--", "field_"),
            ("größe", "grE"),
        ] {
            assert_eq!(field_name(key), field, "{key:?}");
        }
    }
}
