//! Answers over catalogs in memory. The same on real catalogs, beside upstream's, is in the suite `compatibility`.

use std::collections::BTreeMap;

use olm_fbc::{CatalogError, PackageContent};
use serde_json::{Value, json};

use super::*;

/// Documents as a content.
#[derive(Debug, Default)]
struct Documents(BTreeMap<String, Vec<Value>>);

impl Documents {
    fn of(documents: &[Value]) -> Self {
        let mut packages: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for document in documents {
            let of = if document["schema"] == "olm.package" { "name" } else { "package" };
            let package = document[of].as_str().unwrap_or_default().to_owned();
            packages.entry(package).or_default().push(document.clone());
        }
        Self(packages)
    }

    fn read(documents: &[Value]) -> Catalog<Self> {
        Catalog::read(Self::of(documents), Some(|_| Ok(()))).unwrap()
    }
}

impl Content for Documents {
    fn packages(&self) -> Vec<String> {
        self.0.keys().filter(|name| !name.is_empty()).cloned().collect()
    }

    fn package(&self, package: &str) -> Result<PackageContent, CatalogError> {
        let mut content = PackageContent::default();
        for document in self.0.get(package).into_iter().flatten() {
            content.push_json(document.to_string().as_bytes()).map_err(|error| CatalogError::Decode {
                package: package.to_owned(),
                cause: error.to_string(),
            })?;
        }
        Ok(content)
    }

    fn document(&self, package: &str, bundle: Option<&str>) -> Result<Option<Vec<u8>>, CatalogError> {
        let is_asked = |document: &&Value| match bundle {
            Some(bundle) => document["schema"] == "olm.bundle" && document["name"] == bundle,
            None => document["schema"] == "olm.package",
        };
        let found = self.0.get(package).and_then(|documents| documents.iter().find(is_asked));
        Ok(found.map(|document| document.to_string().into_bytes()))
    }

    fn documents(
        &self,
        schema: &str,
        package: &str,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), CatalogError> {
        let documents = self.0.get(package).into_iter().flatten();
        documents
            .filter(|document| document["schema"] == schema)
            .all(|document| each(document.to_string().as_bytes()));
        Ok(())
    }
}

fn bundle(package: &str, version: &str, more: Vec<Value>) -> Value {
    let mut properties =
        vec![json!({"type": "olm.package", "value": {"packageName": package, "version": version}})];
    properties.extend(more);
    json!({
        "schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"),
        "image": format!("example.com/{package}:{version}"), "properties": properties,
    })
}

fn gvk(kind: &str) -> Value {
    json!({"type": "olm.gvk", "value": {"group": "g.example.com", "version": "v1", "kind": kind}})
}

/// Two packages: `lamp` with two channels and a deprecation, `socket` with one bundle of the older form.
fn documents() -> Vec<Value> {
    let metadata = json!({"type": "olm.csv.metadata", "value": {
        "displayName": "Lamp <1>", "annotations": {"b": "2", "a": "1"}, "provider": {"name": "P"},
        "crdDescriptions": {"owned": [{"name": "lamps.g.example.com", "version": "v1", "kind": "Lamp"}]},
    }});
    let csv = json!({"kind": "ClusterServiceVersion", "metadata": {"name": "socket.v1.0.0"}});
    let object = |json: &Value| json!({"type": "olm.bundle.object", "value": {"data": olm_go::base64::encode(json.to_string().as_bytes())}});
    let mut socket =
        bundle("socket", "1.0.0", vec![gvk("Lamp"), object(&json!({"kind": "A"})), object(&csv)]);
    socket["image"] = json!("");
    let entry = |version: &str, replaces: &str, skips: &[&str]| json!({"name": format!("lamp.v{version}"), "replaces": replaces, "skips": skips, "skipRange": "<1.0.0"});
    vec![
        json!({"schema": "olm.package", "name": "lamp", "defaultChannel": "stable", "description": "Light",
            "icon": {"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}}),
        json!({"schema": "olm.channel", "package": "lamp", "name": "stable", "entries": [
            entry("1.1.0", "lamp.v1.0.0", &["lamp.v1.0.1"]), entry("1.0.0", "", &[]), entry("1.0.1", "", &[])]}),
        json!({"schema": "olm.channel", "package": "lamp", "name": "alpha", "entries": [entry("1.0.1", "lamp.v0", &[])]}),
        bundle("lamp", "1.0.0", vec![gvk("Lamp")]),
        bundle("lamp", "1.0.1", vec![]),
        bundle(
            "lamp",
            "1.1.0",
            vec![
                gvk("Lamp"),
                gvk("Bulb"),
                metadata,
                json!({"type": "olm.package.required", "value": {"packageName": "socket", "versionRange": ">0 <2"}}),
            ],
        ),
        json!({"schema": "olm.deprecations", "package": "lamp", "entries": [
            {"reference": {"schema": "olm.bundle", "name": "lamp.v1.0.0"}, "message": "dim"},
            {"reference": {"schema": "olm.channel", "name": "alpha"}, "message": "old"}]}),
        json!({"schema": "olm.package", "name": "socket", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "package": "socket", "name": "c", "entries": [{"name": "socket.v1.0.0"}]}),
        socket,
        json!({"schema": "example.note", "package": "lamp", "text": "x"}),
    ]
}

fn kind(kind: &str) -> GroupVersionKind {
    GroupVersionKind { group: "g.example.com".to_owned(), version: "v1".to_owned(), kind: kind.to_owned() }
}

fn unknown<T>(result: Result<T, QueryError>) -> String {
    match result {
        Err(QueryError::Unknown(text)) => text,
        Err(QueryError::InvalidArgument(text)) => panic!("invalid argument: {text}"),
        Ok(_) => panic!("there is an answer"),
    }
}

#[test]
fn bundles_have_names_edges_and_requirements_of_their_documents() {
    let catalog = Documents::read(&documents());
    let bundle = catalog.bundle("lamp", "stable", "lamp.v1.1.0").unwrap();
    assert_eq!((bundle.replaces.as_str(), bundle.skips.len(), bundle.skip_range.as_str()), ("", 0, "<1.0.0"));
    assert_eq!(bundle.provided_apis, [kind("Lamp"), kind("Bulb")]);
    let dependency = r#"{"packageName":"socket","version":">0 <2"}"#;
    assert_eq!(
        bundle.dependencies,
        [Property { kind: "olm.package".to_owned(), value: dependency.to_owned() }]
    );
    let kinds: Vec<&str> = bundle.properties.iter().map(|one| one.kind.as_str()).collect();
    assert_eq!(kinds, ["olm.package", "olm.gvk", "olm.gvk", "olm.package.required"]);
    assert_eq!(bundle.object, std::slice::from_ref(&bundle.csv_json));
    let csv = concat!(
        r#"{"kind":"ClusterServiceVersion","apiVersion":"operators.coreos.com/v1alpha1","metadata":{"name":"lamp.v1.1.0","#,
        r#""annotations":{"a":"1","b":"2"}},"spec":{"install":{"strategy":"deployment","spec":{"deployments":null}},"#,
        r#""version":"1.1.0","customresourcedefinitions":{"owned":[{"name":"lamps.g.example.com","version":"v1","#,
        r#""kind":"Lamp"}]},"apiservicedefinitions":{},"displayName":"Lamp \u003c1\u003e","description":"Light","#,
        r#""provider":{"name":"P"},"icon":[{"base64data":"PHN2Zy8+","mediatype":"image/svg+xml"}],"#,
        r#""cleanup":{"enabled":false}},"status":{"cleanup":{}}}"#
    );
    assert_eq!(bundle.csv_json, csv);
    assert_eq!(catalog.bundle("lamp", "stable", "lamp.v1.0.0").unwrap().deprecation.as_deref(), Some("dim"));
}

#[test]
fn bundles_of_the_older_form_have_their_manifests_with_them() {
    let catalog = Documents::read(&documents());
    let bundle = catalog.bundle_for_channel("socket", "c").unwrap();
    assert_eq!(bundle.object.len(), 2);
    assert_eq!(bundle.csv_json, bundle.object[1]);
    let mut listed = Vec::new();
    catalog
        .each_bundle(|bundle| {
            listed.push((bundle.channel_name, bundle.csv_name, bundle.object.len(), bundle.replaces));
            true
        })
        .unwrap();
    let listed: Vec<String> = listed
        .iter()
        .map(|(channel, name, objects, replaces)| format!("{channel} {name} {objects} {replaces}"))
        .collect();
    assert_eq!(
        listed,
        [
            "alpha lamp.v1.0.1 0 lamp.v0",
            "c socket.v1.0.0 2 ",
            "stable lamp.v1.0.0 0 ",
            "stable lamp.v1.0.1 0 ",
            "stable lamp.v1.1.0 0 lamp.v1.0.0",
        ]
    );
}

#[test]
fn packages_have_channels_by_name_with_their_heads() {
    let package = Documents::read(&documents()).package("lamp").unwrap();
    assert_eq!(package.default_channel_name, "stable");
    let channels: Vec<_> = package
        .channels
        .iter()
        .map(|channel| (channel.name.as_str(), channel.csv_name.as_str(), channel.deprecation.as_deref()))
        .collect();
    assert_eq!(channels, [("alpha", "lamp.v1.0.1", Some("old")), ("stable", "lamp.v1.1.0", None)]);
}

/// What takes each entry of an answer.
type Each<'e> = &'e mut dyn FnMut(ChannelEntry) -> bool;

#[test]
fn upgrades_and_providers_are_found_by_replaces_and_skips() {
    let catalog = Documents::read(&documents());
    let listed = |list: &dyn Fn(Each<'_>) -> Result<(), QueryError>| {
        let mut found = Vec::new();
        list(&mut |entry| {
            found.push(format!("{} {} {}", entry.channel_name, entry.bundle_name, entry.replaces));
            true
        })
        .unwrap();
        found
    };
    let replace = listed(&|each| catalog.entries_that_replace("lamp.v1.0.1", each));
    assert_eq!(replace, ["stable lamp.v1.1.0 lamp.v1.0.0"]);
    let provide = listed(&|each| catalog.entries_that_provide(&kind("Lamp"), each));
    let (first, second) = ("stable lamp.v1.1.0 lamp.v1.0.0", "stable lamp.v1.1.0 lamp.v1.0.1");
    assert_eq!(provide, ["stable lamp.v1.0.0 ", first, second, "c socket.v1.0.0 "]);
    let latest = listed(&|each| catalog.latest_entries_that_provide(&kind("Lamp"), each));
    assert_eq!(latest, [first, second, "c socket.v1.0.0 "]);
    assert_eq!(
        catalog.bundle_that_replaces("lamp.v1.0.1", "lamp", "stable").unwrap().csv_name,
        "lamp.v1.1.0"
    );
    assert_eq!(catalog.default_bundle_that_provides(&kind("Bulb")).unwrap().csv_name, "lamp.v1.1.0");
}

#[test]
fn missing_things_are_reported_in_upstreams_words() {
    let catalog = Documents::read(&documents());
    assert_eq!(unknown(catalog.package("x")), r#"package "x" not found"#);
    assert_eq!(unknown(catalog.bundle("lamp", "x", "y")), r#"package "lamp", channel "x" not found"#);
    let missing = r#"package "lamp", channel "alpha", bundle "y" not found"#;
    assert_eq!(unknown(catalog.bundle("lamp", "alpha", "y")), missing);
    assert_eq!(unknown(catalog.bundle_that_replaces("y", "x", "c")), "package x not found");
    let none = r#"no entry found for package "lamp", channel "stable""#;
    assert_eq!(unknown(catalog.bundle_that_replaces("y", "lamp", "stable")), none);
    let none = "no channel entries found that replace y";
    assert_eq!(unknown(catalog.entries_that_replace("y", |_| true)), none);
    let none = r#"no channel entries found that provide group:"g.example.com" version:"v1" kind:"K""#;
    assert_eq!(unknown(catalog.entries_that_provide(&kind("K"), |_| true)), none);
    assert_eq!(unknown(catalog.default_bundle_that_provides(&kind("K"))), none);
}

#[test]
fn documents_of_other_schemas_are_found_by_name() {
    let catalog = Documents::read(&documents());
    let count = |schema: &str, package: &str| {
        let mut count = 0;
        catalog
            .each_document(schema, package, |_| {
                count += 1;
                true
            })
            .map(|()| count)
    };
    assert_eq!(count("example.note", "lamp"), Ok(1));
    assert_eq!(count("example.note", ""), Ok(0));
    assert_eq!(count("olm.bundle", "lamp"), Ok(0));
    let pattern = "must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$";
    for (schema, package, text) in [
        ("", "", "schema is required".to_owned()),
        ("a b", "", format!("invalid custom schema query: invalid schema \"a b\": {pattern}")),
        ("a", ".b", format!("invalid custom schema query: invalid packageName \".b\": {pattern}")),
    ] {
        assert_eq!(count(schema, package), Err(QueryError::InvalidArgument(text)));
    }
}

#[test]
fn an_invalid_package_is_left_out_alone() {
    let mut documents = documents();
    documents[1]["entries"].as_array_mut().unwrap().push(json!({"name": "lamp.v1.0.2"}));
    documents.push(bundle("lamp", "1.0.2", vec![]));
    let catalog = Documents::read(&documents);
    assert_eq!(catalog.packages().keys().collect::<Vec<_>>(), ["socket"]);
    let problem = &catalog.faulty()["lamp"];
    assert!(
        problem.ends_with("multiple channel heads found in graph: lamp.v1.0.2, lamp.v1.1.0"),
        "{problem}"
    );
}

#[test]
fn a_bundle_without_image_and_manifests_makes_its_package_invalid() {
    let mut documents = documents();
    documents[3]["image"] = json!("");
    let catalog = Documents::read(&documents);
    assert!(catalog.faulty()["lamp"].ends_with("bundle image must be set"), "{:?}", catalog.faulty());
}

#[test]
fn the_snapshot_has_every_package_and_bundle() {
    let snapshot = Documents::read(&documents()).snapshot().unwrap();
    let lamp = &snapshot.packages["lamp"];
    assert_eq!(lamp.graph.channels["alpha"].deprecation.as_deref(), Some("old"));
    assert_eq!(lamp.graph.deprecated_bundles["lamp.v1.0.0"], "dim");
    let order = lamp.graph.channels["stable"].order("lamp", "stable").unwrap();
    assert_eq!(
        order.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(),
        ["lamp.v1.1.0", "lamp.v1.0.0"]
    );
    assert_eq!(lamp.bundles.len(), 3);
    assert!(snapshot.packages["socket"].bundles["socket.v1.0.0"].provided.contains(&kind("Lamp")));
}
