use olm_fbc::{
    Channel, ChannelEntry, Deprecation as Deprecations, DeprecationEntry, Package, PackageContent,
    PackageReference, Property, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE,
};
use serde_json::{Value, json};

use super::*;

fn channel(name: &str, entries: &[(&str, &str, &[&str])]) -> Channel {
    let entry = |(name, replaces, skips): &(&str, &str, &[&str])| ChannelEntry {
        name: (*name).to_owned(),
        replaces: (*replaces).to_owned(),
        skips: skips.iter().map(|&skip| skip.to_owned()).collect(),
        ..ChannelEntry::default()
    };
    let entries = entries.iter().map(entry).collect();
    Channel { name: name.to_owned(), package: "p".to_owned(), entries }
}

fn bundle(name: &str, version: &str, more: &[&str]) -> Bundle {
    let property = |kind: &str, value: Value| Property { kind: kind.to_owned(), value };
    let mut properties = vec![property(PROPERTY_PACKAGE, json!({ "packageName": "p", "version": version }))];
    properties.extend(more.iter().map(|kind| property(kind, json!({}))));
    Bundle { name: name.to_owned(), package: "p".to_owned(), properties, ..Bundle::default() }
}

fn content() -> PackageContent {
    let about = |schema: &str, name: &str, message: &str| DeprecationEntry {
        reference: PackageReference { schema: schema.to_owned(), name: name.to_owned() },
        message: message.to_owned(),
    };
    PackageContent {
        packages: vec![Package { name: "p".to_owned(), default_channel: "stable".to_owned() }],
        channels: vec![
            channel("stable", &[("p.v1", "", &[]), ("p.v10", "p.v2", &["p.v1"]), ("p.v2", "p.v1", &[])]),
            channel("alpha", &[("p.v11-a", "", &["p.v10"]), ("p.v10", "", &[]), ("p.v0", "", &["p.v11-a"])]),
        ],
        bundles: vec![
            bundle("p.v0", "0.1.0", &[]),
            bundle("p.v1", "1.0.0", &[]),
            bundle("p.v2", "2.0.0", &[PROPERTY_DEPRECATED]),
            bundle("p.v10", "10.0.0", &[]),
            bundle("p.v11-a", "11.0.0-a", &[]),
        ],
        deprecations: vec![Deprecations {
            package: "p".to_owned(),
            entries: vec![
                about(SCHEMA_PACKAGE, "", "take q"),
                about(SCHEMA_CHANNEL, "alpha", "take stable"),
                about(SCHEMA_BUNDLE, "p.v1", "take p.v10"),
            ],
        }],
    }
}

fn head(name: &str) -> Head {
    let link = Link { name: Some(format!("{name} Inc.")), url: None };
    Head {
        name: name.to_owned(),
        labels: BTreeMap::from([("version".to_owned(), name.to_owned())]),
        description: olm_api_classic::CsvDescription { provider: link, ..Default::default() },
        icon: Some(Icon { base64data: name.to_owned(), mediatype: "image/png".to_owned() }),
    }
}

fn offer(read: impl FnMut(&str) -> Result<Head, HeadError>) -> Result<Offer, Vec<String>> {
    let content = content();
    Offer::of("p", &graph::Package::of(&content).unwrap(), &content.bundles, read)
}

#[test]
fn an_offer_shows_heads_entries_and_deprecations() {
    let offer = offer(|name| Ok(head(name))).unwrap();
    let channels: Vec<_> =
        offer.channels.iter().map(|one| (one.name.as_str(), one.current_csv.as_str())).collect();
    assert_eq!(channels, [("alpha", "p.v0"), ("stable", "p.v10")]);
    let entries = |channel: usize| {
        let entries = offer.channels[channel].entries.iter();
        entries.map(|one| (one.name.as_str(), one.version.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(entries(0), [("p.v11-a", "11.0.0-a"), ("p.v10", "10.0.0"), ("p.v0", "0.1.0")]);
    assert_eq!(entries(1), [("p.v10", "10.0.0"), ("p.v1", "1.0.0")], "by version, without olm.deprecated");
    let message = |text: &str| Some(Deprecation { message: text.to_owned() });
    assert_eq!(offer.deprecation, message("take q"));
    assert_eq!(offer.channels[0].deprecation, message("take stable"));
    assert_eq!(offer.channels[1].entries[1].deprecation, message("take p.v10"));
    assert_eq!(offer.default_channel, "stable");
    assert_eq!(offer.provider.name.as_deref(), Some("p.v10 Inc."), "of the default channel");
    assert_eq!(offer.labels["version"], "p.v10");
    assert_eq!(offer.icon.unwrap().base64data, "p.v10");
}

#[test]
fn without_the_default_channel_the_first_one_is_the_default() {
    let bare = |name: &str| HeadError::Bare(name.to_owned());
    let read = |name: &str| if name == "p.v10" { Err(bare(name)) } else { Ok(head(name)) };
    let shown = offer(read).unwrap();
    assert_eq!((shown.channels.len(), shown.default_channel.as_str()), (1, "alpha"));
    assert_eq!(shown.icon, None, "the default icon is shown");
    let problems = offer(|name| Err(bare(name))).unwrap_err();
    assert_eq!(problems.len(), 2);
    assert_eq!(
        problems[1],
        r#"channel "stable" of package "p" is left out: bundle "p.v10" has no ClusterServiceVersion in the catalog"#
    );
}

#[test]
fn labels_are_those_of_source_provider_and_version() {
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let provider = Link { name: Some("Example".to_owned()), url: None };
    let of_version = map(&[("operatorframework.io/arch.arm64", "supported"), ("tier", "version")]);
    let of_source = map(&[("tier", "source"), ("catalog", "other")]);
    assert_eq!(
        manifest_labels(&provider, &of_version, ("olm", "community"), Some(&of_source)),
        map(&[
            ("catalog", "community"),
            ("catalog-namespace", "olm"),
            ("operatorframework.io/arch.arm64", "supported"),
            ("operatorframework.io/os.linux", "supported"),
            ("provider", "Example"),
            ("provider-url", ""),
            ("tier", "version"),
        ])
    );
}

fn package() -> PackageDisplay {
    let line = json!({ "schema": "olm.package", "description": "Of the package", "icon": { "base64data": "QQ==", "mediatype": "image/png" } });
    PackageDisplay::read(line.to_string().as_bytes()).unwrap()
}

#[test]
fn a_summary_is_shown_with_what_the_package_adds() {
    let line = json!({
        "schema": "olm.bundle", "name": "p.v1", "package": "p", "image": "example.com/p@sha256:1",
        "properties": [
            { "type": "olm.package", "value": { "packageName": "p", "version": "1.2.3" } },
            { "type": "olm.csv.metadata", "value": {
                "annotations": { "a": "b" }, "labels": { "l": "m" }, "displayName": "P",
                "apiServiceDefinitions": {},
                "crdDescriptions": { "owned": [
                    { "name": "ps.example.com", "version": "v1", "kind": "P", "description": "", "displayName": "A P",
                      "specDescriptors": [{ "path": "x" }], "resources": [{ "name": "", "kind": "Pod", "version": "v1" }] }
                ] },
                "nativeAPIs": [{ "group": "g", "version": "v1", "kind": "K" }],
                "keywords": ["k"], "links": [{ "name": "L", "url": "" }], "maintainers": null,
                "installModes": [{ "type": "AllNamespaces", "supported": true }],
                "provider": { "name": "Example" }, "minKubeVersion": "1.20.0", "maturity": "alpha",
            } },
        ],
        "relatedImages": [{ "name": "b", "image": "example.com/b" }, { "name": "a", "image": "example.com/a" }],
    });
    let head = Head::read("p.v1", line.to_string().as_bytes(), &package()).unwrap();
    assert_eq!((head.name.as_str(), &head.labels["l"], head.icon), ("p.v1", &"m".to_owned(), package().icon));
    let wanted = json!({
        "displayName": "P", "version": "1.2.3", "provider": { "name": "Example" }, "annotations": { "a": "b" },
        "keywords": ["k"], "links": [{ "name": "L" }], "maturity": "alpha", "description": "Of the package",
        "installModes": [{ "type": "AllNamespaces", "supported": true }],
        "customresourcedefinitions": { "owned": [
            { "name": "ps.example.com", "version": "v1", "kind": "P", "displayName": "A P" }
        ] },
        "apiservicedefinitions": {}, "nativeApis": [{ "group": "g", "version": "v1", "kind": "K" }],
        "minKubeVersion": "1.20.0", "relatedImages": ["example.com/a", "example.com/b"],
    });
    assert_eq!(json!(head.description), wanted);
}

#[test]
fn a_whole_version_is_preferred_to_a_summary() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let version = json!({
        "kind": "ClusterServiceVersion",
        "metadata": { "name": "p.v01", "annotations": { "a": "b" } },
        "spec": {
            "version": "v1.02", "description": "Its own", "icon": [{ "base64data": "Qg==", "mediatype": "image/gif" }],
            "install": { "strategy": "deployment", "spec": { "deployments": [{ "name": "d", "spec": { "template": { "spec": {
                "containers": [{ "image": "example.com/c" }], "initContainers": [{ "image": "example.com/i" }],
            } } } }] } },
            "relatedImages": [{ "name": "c", "image": "example.com/c" }],
        },
    });
    let object = |object: &Value| json!({ "type": "olm.bundle.object", "value": { "data": STANDARD.encode(object.to_string()) } });
    let line = |object: Value| {
        let summary = json!({ "type": "olm.csv.metadata", "value": {} });
        json!({ "name": "p.v1", "properties": [object, summary] }).to_string()
    };
    let text = line(object(&version));
    let head = Head::read("p.v1", text.as_bytes(), &package()).unwrap();
    assert_eq!((head.name.as_str(), head.icon.unwrap().mediatype.as_str()), ("p.v01", "image/gif"));
    assert_eq!(head.description.version, "1.2.0");
    assert_eq!(head.description.long_description, "Its own");
    assert_eq!(head.description.related_images, ["example.com/c", "example.com/i"]);
    // Another object is not it.
    let text = line(object(&json!({ "kind": "Service" })));
    assert_eq!(Head::read("p.v1", text.as_bytes(), &package()).unwrap().name, "p.v1");
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let unreadable = json!({ "type": "olm.bundle.object", "value": { "data": "!" } });
    let wrong = json!({ "type": "olm.csv.metadata", "value": { "keywords": "k" } });
    let summary = json!({ "type": "olm.csv.metadata", "value": {} });
    for properties in [json!([unreadable]), json!([wrong]), json!([]), json!([summary, summary])] {
        let line = json!({ "name": "p.v1", "properties": properties }).to_string();
        let error = Head::read("p.v1", line.as_bytes(), &package()).unwrap_err().to_string();
        assert!(error.starts_with("bundle \"p.v1\" "), "{error}");
    }
    assert!(Head::read("p.v1", b"{", &package()).is_err());
}
