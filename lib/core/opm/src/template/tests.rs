use std::{cell::RefCell, collections::BTreeMap};

use serde_json::{Value, json};

use super::{BoxError, Template, TemplateKind, to_basic, to_substitutes};
use crate::{Blob, BlobProperty, BundleBlob};

/// Renders `image/NAME/VERSION` as the bundle NAME.vVERSION of the package NAME.
struct Images {
    asked: RefCell<Vec<String>>,
    annotations: BTreeMap<&'static str, Value>,
}

fn images() -> Images {
    Images { asked: RefCell::default(), annotations: BTreeMap::new() }
}

impl Images {
    fn bundle(&self, image: &str) -> Result<BundleBlob, BoxError> {
        self.asked.borrow_mut().push(image.to_owned());
        let (package, version) =
            image.strip_prefix("image/").and_then(|rest| rest.split_once('/')).ok_or("not found")?;
        let identity = json!({"packageName": package, "version": version});
        Ok(BundleBlob {
            name: format!("{package}.v{version}"),
            package: package.to_owned(),
            image: image.to_owned(),
            properties: vec![BlobProperty::new("olm.package", &identity)],
            csv: Some(json!({
                "metadata": {"annotations": self.annotations.get(image)},
                "spec": {
                    "description": format!("about {version}"),
                    "icon": [{"base64data": "aWNv\nbg==", "mediatype": "image/png"}],
                },
            })),
            ..BundleBlob::default()
        })
    }
}

fn render(text: &str) -> Result<Vec<Value>, String> {
    let template = Template::read(text, None).map_err(|error| error.to_string())?;
    let blobs =
        template.render(&|image| images().bundle(image), &|_| Ok(())).map_err(|error| error.to_string())?;
    Ok(blobs.iter().map(Blob::value).collect())
}

fn error(text: &str) -> String {
    render(text).expect_err(text)
}

/// Channel, entry, replaces, skips.
fn edges(blobs: &[Value]) -> Vec<(String, String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let short = |value: &Value| text(value).replace("p.v", "");
    let mut edges = Vec::new();
    for channel in blobs.iter().filter(|blob| blob["schema"] == "olm.channel") {
        for entry in channel["entries"].as_array().unwrap() {
            let skips: Vec<String> = entry["skips"].as_array().into_iter().flatten().map(short).collect();
            edges.push((
                text(&channel["name"]),
                short(&entry["name"]),
                short(&entry["replaces"]),
                skips.join(", "),
            ));
        }
    }
    edges
}

fn semver(head: &str, lists: &[(&str, &[&str])]) -> String {
    let mut text = format!("schema: olm.semver\n{head}\n");
    for (name, versions) in lists {
        let bundles: Vec<String> =
            versions.iter().map(|version| format!("{{image: image/p/{version}}}")).collect();
        text += &[name, ": {bundles: [", &bundles.join(", "), "]}\n"].concat();
    }
    text
}

const CANDIDATE: &[&str] = &["1.0.0", "1.0.1", "1.1.0", "1.1.1", "1.2.0", "2.0.0", "2.1.0"];

fn owned(rows: &[(&str, &str, &str, &str)]) -> Vec<(String, String, String, String)> {
    rows.iter().map(|row| (row.0.into(), row.1.into(), row.2.into(), row.3.into())).collect()
}

#[test]
fn semver_makes_minor_channels_with_the_documented_edges() {
    let blobs = render(&semver("", &[("candidate", CANDIDATE), ("stable", &["1.0.1", "1.1.0"])])).unwrap();
    assert_eq!(
        edges(&blobs),
        owned(&[
            ("candidate-v1.0", "1.0.0", "", ""),
            ("candidate-v1.0", "1.0.1", "", "1.0.0"),
            ("candidate-v1.1", "1.1.0", "", ""),
            ("candidate-v1.1", "1.1.1", "1.0.1", "1.0.0, 1.1.0"),
            ("candidate-v1.2", "1.2.0", "1.1.1", "1.0.0, 1.0.1, 1.1.0"),
            ("candidate-v2.0", "2.0.0", "", ""),
            ("candidate-v2.1", "2.1.0", "2.0.0", ""),
            ("stable-v1.0", "1.0.1", "", ""),
            ("stable-v1.1", "1.1.0", "1.0.1", ""),
        ])
    );
    assert_eq!(
        blobs[0],
        json!({
            "schema": "olm.package", "name": "p", "defaultChannel": "stable-v1.1",
            "description": "about 1.1.0", "icon": {"base64data": "aWNvbg==", "mediatype": "image/png"},
        })
    );
    assert_eq!(blobs.iter().filter(|blob| blob["schema"] == "olm.bundle").count(), CANDIDATE.len());
}

#[test]
fn semver_makes_major_channels_and_both() {
    let fast: &[(&str, &[&str])] = &[("fast", &["2.0.0", "1.1.0", "1.0.10", "1.0.9"])];
    let major = owned(&[
        ("fast-v1", "1.0.9", "", ""),
        ("fast-v1", "1.0.10", "", "1.0.9"),
        ("fast-v1", "1.1.0", "1.0.10", "1.0.9"),
        ("fast-v2", "2.0.0", "", ""),
    ]);
    assert_eq!(edges(&render(&semver("generateMajorChannels: true", fast)).unwrap()), major);
    let both = "generateMajorChannels: true\ngenerateMinorChannels: true";
    let blobs = render(&semver(both, fast)).unwrap();
    let names: Vec<String> = edges(&blobs).into_iter().map(|edge| edge.0).collect();
    assert_eq!(
        names,
        ["fast-v1", "fast-v1", "fast-v1", "fast-v1.0", "fast-v1.0", "fast-v1.1", "fast-v2", "fast-v2.0"]
    );
}

#[test]
fn semver_chooses_the_default_channel_by_stability_version_and_kind() {
    let both = "generateMajorChannels: true\ngenerateMinorChannels: true\ndefaultChannelTypePreference: ";
    for (head, lists, wanted) in [
        ("", &[("candidate", CANDIDATE), ("fast", &["1.0.0"])][..], "fast-v1.0"),
        ("", &[("candidate", CANDIDATE)], "candidate-v2.1"),
        ("generateMajorChannels: true", &[("candidate", CANDIDATE)], "candidate-v2"),
        // 2.1.0 brings a minor channel about, but no major one: the version goes before the kind.
        (&format!("{both}major"), &[("candidate", CANDIDATE)], "candidate-v2.1"),
        (&format!("{both}major"), &[("stable", &["1.0.0"])], "stable-v1"),
        (&format!("{both}minor"), &[("stable", &["1.0.0"])], "stable-v1.0"),
        ("", &[("stable", &["0.0.0-alpha"])], "stable-v0.0"),
    ] {
        let blobs = render(&semver(head, lists)).unwrap();
        assert_eq!(blobs[0]["defaultChannel"], wanted, "{head} {lists:?}");
    }
}

#[test]
fn semver_renders_each_image_once() {
    let text = semver("", &[("candidate", &["1.0.0", "1.1.0"]), ("stable", &["1.0.0"])]);
    let template = Template::read(&text, None).unwrap();
    assert_eq!(template.images(), ["image/p/1.0.0", "image/p/1.1.0"]);
    let images = images();
    template.render(&|image| images.bundle(image), &|_| Ok(())).unwrap();
    assert_eq!(*images.asked.borrow(), template.images());
}

#[test]
fn semver_templates_that_break_a_rule_are_refused_with_opms_text() {
    let other = "schema: olm.semver\nstable: {bundles: [{image: image/p/1.0.0}, {image: image/q/1.0.0}]}";
    for (text, wanted) in [
        (semver("", &[]), "render: no bundles specified or no bundles could be rendered"),
        (other.to_owned(), r#"bundle "q" does not belong to this package: "p""#),
        (
            semver("", &[("fast", &["1.0.0", "1.0.0"])]),
            r#"render: unable to post-process bundle info: duplicate bundle name "p.v1.0.0""#,
        ),
        (
            semver("", &[("fast", &["1.0.0", "1.0.0+1", "1.0.0+2"])]),
            "encountered bundle versions which differ only by build metadata, which cannot be ordered: \
             [bundle version \"1.0.0+1\" cannot be compared to \"1.0.0\", bundle version \"1.0.0+2\" cannot be \
             compared to \"1.0.0\"]",
        ),
        (
            semver("", &[("fast", &["1.0"])]),
            r#"bundle "p.v1.0" has invalid version "1.0": No Major.Minor.Patch elements found"#,
        ),
        (
            semver("defaultChannelTypePreference: major", &[]),
            "schema attribute mismatch: DefaultChannelTypePreference set to 'major' doesn't make sense if not \
             generating major-version channels",
        ),
        (
            semver("generateMajorChannels: true\ndefaultChannelTypePreference: minor", &[]),
            "schema attribute mismatch: DefaultChannelTypePreference set to 'minor'",
        ),
        (
            semver("defaultChannelTypePreference: x", &[]),
            "unknown DefaultChannelTypePreference: \"x\"\nValid values are",
        ),
        (
            semver("candidates: {}", &[]),
            "unknown field \"candidates\"; known are schema, generateMajorChannels",
        ),
        (
            semver("fast: {bundles: [{img: x}]}", &[]),
            "unknown field \"fast.bundles[0].img\"; known are image",
        ),
        (
            semver("generateMajorChannels: 1", &[]),
            r#"field "generateMajorChannels" is a number, expected a boolean"#,
        ),
        (
            "schema: olm.semver\nfast: {bundles: [{image: nowhere}]}".into(),
            "render reference \"nowhere\": not found",
        ),
    ] {
        assert!(error(&text).contains(wanted), "{}", error(&text));
    }
}

#[test]
fn a_template_is_taken_for_what_its_schema_says() {
    for (text, kind, wanted) in [
        ("", None, "template input missing required 'schema' field"),
        ("entries: []", None, "template input missing required 'schema' field"),
        ("schema: olm.composite", None, "unknown template schema: olm.composite"),
        ("[", None, "decoding template input: "),
        ("[]", None, "unmarshalling template: field \"\" is a list, expected an object"),
        (
            "schema: olm.semver",
            Some(TemplateKind::Basic),
            r#"template has unknown schema ("olm.semver"), should be "olm.template.basic""#,
        ),
        (
            "schema: x",
            Some(TemplateKind::Semver),
            r#"readFile: input file has unknown schema, should be "olm.semver""#,
        ),
        (
            "schema: x",
            Some(TemplateKind::Substitutes),
            r#"template has unknown schema ("x"), should be "olm.template.substitutes""#,
        ),
    ] {
        let found = Template::read(text, kind).unwrap_err().to_string();
        assert!(found.contains(wanted), "{found}");
    }
    assert!(Template::read(r#"{"Schema": "olm.template.basic", "Entries": []}"#, None).is_ok());
}

#[test]
fn basic_replaces_bundles_by_their_rendering() {
    let blobs = render(
        "schema: olm.template.basic
entries:
- {schema: olm.package, name: p, defaultChannel: c}
- {schema: olm.bundle, image: image/p/1.0.0, name: tolerated}
- {schema: custom.io, any: [thing]}
",
    )
    .unwrap();
    assert_eq!(blobs[0], json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"}));
    assert_eq!((&blobs[1]["name"], &blobs[1]["package"]), (&json!("p.v1.0.0"), &json!("p")));
    assert_eq!(blobs[2], json!({"schema": "custom.io", "any": ["thing"]}));
}

#[test]
fn basic_templates_with_more_than_images_are_refused() {
    for (entry, wanted) in [
        ("{schema: olm.bundle, image: i, package: p}", "unexpected fields present in basic template bundle"),
        ("{schema: olm.bundle, image: i, properties: [{type: a, value: 1}]}", "unexpected fields present"),
        ("{schema: olm.bundle, image: i, relatedImages: [{image: x}]}", "unexpected fields present"),
        ("{schema: olm.bundle}", "unexpected fields present in basic template bundle"),
        ("{name: x}", "entries[0]: object '{\"name\":\"x\"}\n' is missing root schema field"),
        ("{schema: 1}", "entries[0]: expected value for key \"schema\" to be a string"),
        ("{schema: olm.bundle, image: 1}", "entries[0]: parse bundle: field \"image\" is a number"),
        ("{schema: olm.bundle, image: nowhere}", "render reference \"nowhere\": not found"),
    ] {
        let found = error(&format!("schema: olm.template.basic\nentries: [{entry}]"));
        assert!(found.contains(wanted), "{found}");
    }
}

const BASE: &str = "schema: olm.template.substitutes
entries:
- {schema: olm.package, name: p, defaultChannel: c}
- schema: olm.channel
  package: p
  name: c
  entries:
  - {name: p.v1.0.0}
  - {name: p.v1.1.0, replaces: p.v1.0.0, skips: [p.v0.9.0], skipRange: <1.1.0}
  - {name: p.v1.2.0, replaces: p.v1.1.0}
  - {name: p.v1.3.0, replaces: p.v1.2.0, skips: [p.v1.1.0, p.v1.0.0]}
- {schema: olm.channel, package: p, name: other, entries: [{name: p.v1.0.0}]}
- {schema: olm.bundle, package: p, name: p.v1.1.0, image: i, properties: [{type: olm.package, value: {packageName: p, version: 1.1.0}}]}
";

#[test]
fn a_substitute_takes_the_place_of_its_base() {
    let text = format!("{BASE}substitutions: [{{name: image/p/1.1.1, base: p.v1.1.0}}]");
    let blobs = render(&text).unwrap();
    assert_eq!(
        blobs[1]["entries"],
        json!([
            {"name": "p.v1.0.0"},
            {"name": "p.v1.1.0"},
            {"name": "p.v1.2.0", "replaces": "p.v1.1.1", "skips": ["p.v1.1.0"]},
            {"name": "p.v1.3.0", "replaces": "p.v1.2.0", "skips": ["p.v1.0.0", "p.v1.1.1"]},
            {"name": "p.v1.1.1", "replaces": "p.v1.0.0", "skips": ["p.v0.9.0", "p.v1.1.0"], "skipRange": "<1.1.0"},
        ])
    );
    assert_eq!(blobs[2]["entries"], json!([{"name": "p.v1.0.0"}]), "a channel without the base stays");
    assert_eq!(blobs.last().unwrap()["name"], "p.v1.1.1");
}

#[test]
fn substitutions_are_validated_before_and_after_each_step() {
    let text = format!("{BASE}substitutions: [{{name: image/p/1.1.1, base: p.v1.1.0}}]");
    let template = Template::read(&text, None).unwrap();
    let error = template.render(&|image| images().bundle(image), &|_| Err("bad".into())).unwrap_err();
    assert_eq!(error.to_string(), "render: entries are not valid FBC: bad");
    let invalid_with_substitute = |blobs: &[Blob]| {
        if blobs.iter().any(|blob| blob.name == "p.v1.1.1") { Err("bad".to_owned()) } else { Ok(()) }
    };
    let error = template.render(&|image| images().bundle(image), &invalid_with_substitute).unwrap_err();
    assert_eq!(
        error.to_string(),
        "render: error processing substitution p.v1.1.0->image/p/1.1.1: resulting config is not valid FBC: bad"
    );
}

#[test]
fn substitutions_that_break_a_rule_are_refused_with_opms_text() {
    for (substitutions, wanted) in [
        ("{base: p.v1.1.0}", "substitution name cannot be empty"),
        ("{name: image/p/1.1.1}", "substitution base cannot be empty"),
        ("{name: a, base: a}", "substitution name and base cannot be the same"),
        (
            "{name: nowhere, base: p.v1.1.0}",
            "failed to render bundle image reference \"nowhere\": render reference \"nowhere\": not found",
        ),
        ("{name: image/p/1.1.1, base: x}", "base bundle \"x\" does not exist in catalog"),
        (
            "{name: image/p/1.1.0, base: p.v1.1.0}",
            "base bundle \"p.v1.1.0\" is not less than substitute bundle \"image/p/1.1.0\"",
        ),
        ("{name: image/p/1.0.9, base: p.v1.1.0}", "is not less than substitute bundle"),
        ("{name: a, base: b}, {name: c, base: b}", "cannot reuse the same substitution base \"b\""),
        (
            "{name: a, base: b}, {name: a, base: c}",
            "cannot reuse the same substitution \"a\" for different bases (\"b\", \"c\")",
        ),
        (
            "{name: image/p/1, base: p.v1.1.0}",
            "failed to get composite version for substitute bundle \"image/p/1\": invalid semver version \"1\"",
        ),
    ] {
        let found = error(&format!("{BASE}substitutions: [{substitutions}]"));
        assert!(found.contains(wanted), "{found}");
    }
}

#[test]
fn build_metadata_are_a_release_when_the_csv_says_that_it_substitutes() {
    let text = format!("{BASE}substitutions: [{{name: image/p/1.1.0+1, base: p.v1.1.0}}]");
    assert!(error(&text).contains("is not less than"));
    let mut with_annotation = images();
    with_annotation.annotations.insert("image/p/1.1.0+1", json!({"olm.substitutesFor": "p.v1.1.0"}));
    let template = Template::read(&text, None).unwrap();
    assert!(template.render(&|image| with_annotation.bundle(image), &|_| Ok(())).is_ok());
}

#[test]
fn a_catalog_becomes_a_template_again() {
    let blobs: Vec<Blob> = [
        json!({"schema": "olm.package", "name": "p", "description": "a<b"}),
        json!({"schema": "olm.bundle", "name": "p.v1", "package": "p", "image": "i", "properties": []}),
    ]
    .iter()
    .map(|value| Blob::of_value(value).unwrap())
    .collect();
    assert_eq!(
        to_basic(&blobs).unwrap().get(),
        concat!(
            r#"{"schema":"olm.template.basic","entries":[{"description":"a\u003cb","name":"p","schema":"olm.package"},"#,
            r#"{"schema":"olm.bundle","image":"i"}]}"#
        )
    );
    let substitutes = to_substitutes(&blobs);
    assert!(substitutes.get().ends_with(r#""schema":"olm.bundle"}],"substitutions":[]}"#), "{substitutes}");
    assert!(Template::read(to_basic(&blobs).unwrap().get(), None).is_ok());
    assert_eq!(Template::read(substitutes.get(), None).unwrap().images(), [""; 0]);
}
