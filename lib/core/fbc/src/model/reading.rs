//! Documents read as Go's JSON package reads them. Published catalogs have nulls, because opm writes them.

use super::{
    Bundle, Channel, ChannelEntry, Deprecation, DeprecationEntry, Package, PackageReference, Property,
};

olm_go::left_by_null!(PackageReference);

olm_go::read_as_go_does! {
    Package { "name" => name, "defaultChannel" => default_channel }
    Channel { "name" => name, "package" => package, "entries" => entries }
    ChannelEntry { "name" => name, "replaces" => replaces, "skips" => skips, "skipRange" => skip_range }
    Bundle { "name" => name, "package" => package, "image" => image, "properties" => properties }
    Property { "type" => kind, "value" => value }
    Deprecation { "package" => package, "entries" => entries }
    DeprecationEntry { "reference" => reference, "message" => message }
    PackageReference { "schema" => schema, "name" => name }
}

#[cfg(test)]
mod tests {
    use crate::PackageContent;

    fn read(documents: &[&str]) -> PackageContent {
        let mut content = PackageContent::default();
        for document in documents {
            content.push_json(document.as_bytes()).expect(document);
        }
        content
    }

    #[test]
    fn nulls_are_as_if_absent_and_keys_may_have_any_case() {
        let plain = read(&[
            r#"{"schema":"olm.package","name":"p"}"#,
            r#"{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"b"},{}]}"#,
            r#"{"schema":"olm.channel","package":"p","name":"d"}"#,
            r#"{"schema":"olm.bundle","package":"p","name":"b","properties":[{"type":"t","value":{"Name":1}}]}"#,
            r#"{"schema":"olm.deprecations","package":"p","entries":[{"reference":{"schema":"olm.package"},"message":"m"}]}"#,
        ]);
        let odd = read(&[
            r#"{"schema":"olm.package","Name":"p","defaultChannel":null,"icon":{"x":[]}}"#,
            r#"{"schema":"olm.channel","PACKAGE":"p","name":"c","Entries":[{"NAME":"b","replaces":null,"skips":null,"skipRange":null},null]}"#,
            r#"{"schema":"olm.channel","package":"p","name":"d","entries":null}"#,
            r#"{"schema":"olm.bundle","package":"p","name":"b","image":null,"Properties":[{"Type":"t","VALUE":{"Name":1}}]}"#,
            r#"{"schema":"olm.deprecations","package":"p","entries":[{"Reference":{"Schema":"olm.package","name":null},"Message":"m"}]}"#,
        ]);
        assert_eq!(plain, odd);
        let bundle = read(&[r#"{"schema":"olm.bundle","properties":null}"#]);
        assert_eq!(bundle.bundles.len(), 1);
    }

    #[test]
    fn other_types_are_refused() {
        for document in [
            r#"{"schema":"olm.channel","entries":{}}"#,
            r#"{"schema":"olm.channel","entries":[7]}"#,
            r#"{"schema":"olm.bundle","image":1}"#,
            r#"{"schema":"olm.package","name":["p"]}"#,
        ] {
            assert!(PackageContent::default().push_json(document.as_bytes()).is_err(), "{document}");
        }
    }
}
