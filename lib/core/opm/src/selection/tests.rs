use std::collections::BTreeMap;

use olm_fbc::MetaReader;

use super::{NoteKind, Selection};
use crate::{Documents, Form, Outline, validate};

fn outline(text: &str) -> Outline {
    let mut outline = Outline::new(|_| Ok(()));
    let mut reader = MetaReader::new(text.as_bytes());
    while let Some(meta) = reader.next_meta().expect("objects") {
        outline.push(&meta).expect("taken");
    }
    outline
}

fn selection(packages: &[&str], channels: &[(&str, &str)], defaults: &[(&str, &str)]) -> Selection {
    let mut selection = Selection {
        packages: packages.iter().map(|name| (*name).to_owned()).collect(),
        default_channels: defaults
            .iter()
            .map(|(package, name)| ((*package).into(), (*name).into()))
            .collect(),
        channels: BTreeMap::new(),
    };
    for (package, channel) in channels {
        selection.channels.entry((*package).into()).or_default().insert((*channel).into());
    }
    selection
}

fn bundle(package: &str, version: &str, more: &str) -> String {
    format!(
        r#"{{"schema":"olm.bundle","package":"{package}","name":"{package}.v{version}","image":"i","properties":[{{"type":"olm.package","value":{{"packageName":"{package}","version":"{version}"}}}}{more}]}}"#
    )
}

/// Two packages; p has a stable channel, and a fast one that goes further and began later.
fn catalog() -> String {
    let needs = r#",{"type":"olm.package.required","value":{"packageName":"q","versionRange":">=1.0.0"}}"#;
    [
        r#"{"schema":"olm.package","name":"p","defaultChannel":"stable","description":"d"}"#.to_owned(),
        r#"{"schema":"olm.channel","package":"p","name":"stable","entries":[{"name":"p.v1.0.0"},{"name":"p.v1.1.0","replaces":"p.v1.0.0"}]}"#.into(),
        r#"{"schema":"olm.channel","package":"p","name":"fast","entries":[{"name":"p.v2.0.0","replaces":"p.v1.1.0"},{"name":"p.v2.1.0","replaces":"p.v2.0.0","skipRange":">=1.1.0 <2.0.0"}]}"#.into(),
        bundle("p", "1.0.0", ""),
        bundle("p", "1.1.0", ""),
        bundle("p", "2.0.0", ""),
        bundle("p", "2.1.0", needs),
        r#"{"schema":"olm.deprecations","package":"p","entries":[{"reference":{"schema":"olm.channel","name":"stable"},"message":"m"},{"reference":{"schema":"olm.bundle","name":"p.v2.0.0"},"message":"m"},{"reference":{"schema":"olm.package"},"message":"m"}]}"#.into(),
        r#"{"schema":"x.io/extra","package":"p"}{"schema":"x.io/everywhere"}"#.into(),
        r#"{"schema":"olm.package","name":"q","defaultChannel":"c"}{"schema":"olm.channel","package":"q","name":"c","entries":[{"name":"q.v1.0.0"}]}"#.into(),
        bundle("q", "1.0.0", ""),
    ]
    .concat()
}

fn select(selection: &Selection) -> Result<(String, Vec<(NoteKind, String)>), String> {
    let text = catalog();
    let part = selection.of(&outline(&text)).map_err(|error| error.to_string())?;
    let mut documents = Documents::default();
    let mut reader = MetaReader::new(text.as_bytes());
    while let Some(meta) = reader.next_meta().expect("objects") {
        part.take(&meta, &mut documents).expect("written");
    }
    let notes = part.notes.iter().map(|note| (note.kind, format!("{}: {}", note.package, note.message)));
    Ok((documents.texts(Form::Json).collect(), notes.collect()))
}

#[test]
fn a_part_is_a_valid_catalog_and_what_it_strands_is_reported() {
    let (text, notes) = select(&selection(&[], &[("p", "fast")], &[])).expect("possible");
    assert_eq!(validate(&outline(&text)).message(), None, "{text}");
    assert_eq!(
        notes,
        [
            (NoteKind::DefaultChannel, "p: the default channel is \"fast\" instead of \"stable\"".to_owned()),
            (
                NoteKind::NoUpgrade,
                "p: \"p.v1.0.0\" is removed, and no remaining bundle updates it: where it is installed, it gets no more updates"
                    .into()
            ),
            (NoteKind::ReplacesGone, "p: channel \"fast\": \"p.v2.0.0\" replaces \"p.v1.1.0\", which is removed".into()),
            (NoteKind::Dependency, "p: \"p.v2.1.0\" needs package \"q\", which is removed".into()),
            (NoteKind::Deprecation, "p: the deprecation of olm.channel \"stable\" is left out".into()),
        ]
    );
    assert!(
        text.contains("\"description\": \"d\"")
            && text.contains("x.io/extra")
            && text.contains("x.io/everywhere")
    );
    let outline = outline(&text);
    assert_eq!(outline.packages.len(), 1);
    let names: Vec<&str> = outline.bundles.iter().map(|bundle| bundle.name.as_str()).collect();
    assert_eq!(names, ["p.v2.0.0", "p.v2.1.0"]);
}

#[test]
fn a_bundle_that_stays_and_loses_its_updates_is_reported() {
    let (text, notes) = select(&selection(&["q"], &[("p", "stable")], &[])).expect("possible");
    assert_eq!(validate(&outline(&text)).message(), None);
    assert_eq!(
        notes,
        [
            (
                NoteKind::NoUpgrade,
                "p: \"p.v1.1.0\" remains, but the bundles that updated it are removed: where it is installed, it gets no more updates"
                    .to_owned()
            ),
            (
                NoteKind::NoUpgrade,
                "p: \"p.v2.0.0\" is removed, and no remaining bundle updates it: where it is installed, it gets no more updates"
                    .into()
            ),
            (NoteKind::Deprecation, "p: the deprecation of olm.bundle \"p.v2.0.0\" is left out".into()),
        ]
    );
    let (whole, notes) = select(&selection(&["p", "q"], &[("p", "fast")], &[])).expect("possible");
    assert_eq!(notes, []);
    assert_eq!(outline(&whole).bundles.len(), 5);
}

#[test]
fn channels_that_were_broken_before_are_noted() {
    let text = r#"{"schema":"olm.package","name":"p","defaultChannel":"c"}
        {"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"a"},{"name":"b"}]}
        {"schema":"olm.channel","package":"p","name":"d"}"#;
    let part = selection(&["p"], &[], &[]).of(&outline(text)).expect("possible");
    let notes: Vec<&str> = part.notes.iter().map(|note| note.message.as_str()).collect();
    assert_eq!(
        notes,
        ["channel \"c\": multiple channel heads found in graph: a, b", "channel \"d\": there are no entries"]
    );
}

#[test]
fn what_cannot_be_selected_is_named() {
    for (selection, expected) in [
        (selection(&[], &[], &[]), "nothing is selected: name packages or channels"),
        (selection(&["nope"], &[], &[]), "package \"nope\" not found"),
        (selection(&[], &[("p", "nope")], &[]), "package \"p\" has no channel \"nope\" among those selected"),
        (
            selection(&[], &[("p", "fast")], &[("p", "stable")]),
            "package \"p\" has no channel \"stable\" among those selected",
        ),
    ] {
        assert_eq!(select(&selection).unwrap_err(), expected);
    }
    let text = catalog().replace("\"defaultChannel\":\"stable\"", "\"defaultChannel\":\"other\"");
    let error = selection(&["p"], &[], &[]).of(&outline(&text)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "package \"p\" loses its default channel \"other\": name another one of fast, stable"
    );
    assert!(selection(&["p"], &[], &[("p", "fast")]).of(&outline(&text)).is_ok());
}
