use super::{Documents, Form};

fn documents(text: &str) -> Documents {
    let mut documents = Documents::default();
    documents.push_text(text.as_bytes()).expect("a catalog");
    documents
}

fn written(text: &str, form: Form) -> String {
    documents(text).texts(form).collect()
}

const MIXED: &str = r#"
{"schema":"z.io/root","b":[],"a":{}}
{"schema":"olm.deprecations","package":"a","entries":[{"message":"m","reference":{"schema":"olm.package"}}]}
{"schema":"olm.bundle","package":"a","name":"a.v2","relatedImages":[{"image":"i"}],"image":"q","extra":1,
 "properties":[{"value":{"z":1,"a":[1.50,"<&>"]},"type":"t"}]}
{"schema":"x.io/two","package":"a","n":2}
{"schema":"x.io/one","package":"a","n":3}
{"schema":"x.io/two","package":"a","n":1}
{"schema":"olm.bundle","package":"a","name":"a.v1"}
{"schema":"olm.channel","package":"a","name":"c"}
{"schema":"olm.channel","package":"a","name":"b","entries":[{"skips":["x"],"replaces":"","name":"a.v1","skipRange":">1.0.0"}]}
{"schema":"olm.package","name":"b","icon":{"base64data":"YQ=\n="},"description":"","properties":[]}
{"schema":"olm.package","name":"a","defaultChannel":"b","description":"d"}
"#;

const MIXED_AS_JSON: &str = r#"{
    "schema": "olm.package",
    "name": "a",
    "defaultChannel": "b",
    "description": "d"
}
{
    "schema": "olm.channel",
    "name": "b",
    "package": "a",
    "entries": [
        {
            "name": "a.v1",
            "skips": [
                "x"
            ],
            "skipRange": ">1.0.0"
        }
    ]
}
{
    "schema": "olm.channel",
    "name": "c",
    "package": "a",
    "entries": null
}
{
    "schema": "olm.bundle",
    "name": "a.v1",
    "package": "a",
    "image": ""
}
{
    "schema": "olm.bundle",
    "name": "a.v2",
    "package": "a",
    "image": "q",
    "properties": [
        {
            "type": "t",
            "value": {
                "a": [
                    1.5,
                    "<&>"
                ],
                "z": 1
            }
        }
    ],
    "relatedImages": [
        {
            "name": "",
            "image": "i"
        }
    ]
}
{
    "n": 3,
    "package": "a",
    "schema": "x.io/one"
}
{
    "n": 2,
    "package": "a",
    "schema": "x.io/two"
}
{
    "n": 1,
    "package": "a",
    "schema": "x.io/two"
}
{
    "schema": "olm.deprecations",
    "package": "a",
    "entries": [
        {
            "reference": {
                "schema": "olm.package"
            },
            "message": "m"
        }
    ]
}
{
    "schema": "olm.package",
    "name": "b",
    "defaultChannel": "",
    "icon": {
        "base64data": "YQ==",
        "mediatype": ""
    }
}
{
    "a": {},
    "b": [],
    "schema": "z.io/root"
}
"#;

#[test]
fn documents_and_fields_are_in_opms_order() {
    assert_eq!(written(MIXED, Form::Json), MIXED_AS_JSON);
}

#[test]
fn writing_what_was_written_changes_nothing_in_either_form() {
    let json = written(MIXED, Form::Json);
    let yaml = written(MIXED, Form::Yaml);
    for text in [&json, &yaml] {
        assert_eq!(written(text, Form::Json), json);
        assert_eq!(written(text, Form::Yaml), yaml);
    }
    let objects = serde_json::Deserializer::from_str(&json).into_iter::<serde_json::Value>();
    assert_eq!(objects.flatten().count(), documents(MIXED).len());
}

#[test]
fn yaml_has_a_separator_before_each_document_sorted_keys_and_flat_lists() {
    let text = r#"{"schema":"olm.channel","package":"a","name":"b","entries":[{"skips":["x","y"],"name":"a.v1"}]}{"schema":"olm.package","name":"a"}"#;
    let expected = "---\ndefaultChannel: \"\"\nname: a\nschema: olm.package\n---\nentries:\n- name: a.v1\n  skips:\n  - x\n  - \
                    \"y\"\nname: b\npackage: a\nschema: olm.channel\n";
    assert_eq!(written(text, Form::Yaml), expected);
}

#[test]
fn documents_of_a_known_schema_without_a_package_are_refused() {
    for (text, expected) in [
        (
            "schema: olm.package\n",
            "olm.package \"\": the field name is missing: it says which package the document belongs to",
        ),
        (
            "schema: olm.bundle\nname: b\n",
            "olm.bundle \"b\": the field package is missing: it says which package the document belongs to",
        ),
        (
            "schema: olm.channel\npackage: a\nname: c\nentries: 7\n",
            "olm.channel \"c\": invalid type: integer `7`, expected a sequence at line 1 column 1",
        ),
    ] {
        let error = Documents::default().push_text(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn packages_can_be_written_one_by_one() {
    let documents = documents(MIXED);
    assert_eq!(documents.packages().collect::<Vec<_>>(), ["a", "b"]);
    let parts = documents.packages().map(|name| documents.package(name, Form::Yaml)).collect::<String>();
    assert_eq!(parts + &documents.without_package(Form::Yaml), written(MIXED, Form::Yaml));
    assert_eq!(documents.package("nope", Form::Json), "");
}
