//! Impact of a smaller catalog on its users: bundles without updates, edges to removed bundles, unmet requirements.

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::Channel;
use olm_go::Quoted;

use super::{Note, NoteKind, PackagePart};
use crate::{BundleOutline, Outline, edges::Edges, validate::check_graph};

/// Adds a note for each impact.
pub(super) fn note_impact(
    outline: &Outline,
    packages: &BTreeMap<String, PackagePart>,
    notes: &mut Vec<Note>,
) {
    for (name, kept) in packages {
        let channels: Vec<&Channel> =
            outline.channels.iter().filter(|channel| channel.package == *name).collect();
        let bundles: Vec<&BundleOutline> =
            outline.bundles.iter().filter(|bundle| bundle.package == *name).collect();
        let mut note = |kind, message| notes.push(Note { package: name.clone(), kind, message });
        updates(&channels, &bundles, kept, &mut note);
        for channel in channels.iter().filter(|channel| kept.channels.contains(&channel.name)) {
            edges(channel, &bundles, kept, &mut note);
        }
        for bundle in bundles.iter().filter(|bundle| kept.bundles.contains(&bundle.name)) {
            let gone: BTreeSet<&String> = bundle
                .required_packages
                .iter()
                .filter(|required| !packages.contains_key(*required))
                .filter(|required| outline.packages.iter().any(|package| package.name == **required))
                .collect();
            for required in gone {
                let message =
                    format!("{} needs package {}, which is removed", Quoted(&bundle.name), Quoted(required));
                note(NoteKind::Dependency, message);
            }
        }
        deprecations(outline, name, kept, &mut note);
    }
}

fn updates(
    channels: &[&Channel],
    bundles: &[&BundleOutline],
    kept: &PackagePart,
    note: &mut impl FnMut(NoteKind, String),
) {
    let all = Edges::of(channels.iter().copied());
    let remaining =
        Edges::of(channels.iter().copied().filter(|channel| kept.channels.contains(&channel.name)));
    for bundle in bundles {
        let has_upgrade = |edges: &Edges<'_>| edges.lead_from(&bundle.name, bundle.version.as_ref());
        if !has_upgrade(&all) || has_upgrade(&remaining) {
            continue;
        }
        let name = Quoted(&bundle.name);
        let message = if kept.bundles.contains(&bundle.name) {
            format!(
                "{name} remains, but the bundles that updated it are removed: where it is installed, it gets no more updates"
            )
        } else {
            format!(
                "{name} is removed, and no remaining bundle updates it: where it is installed, it gets no more updates"
            )
        };
        note(NoteKind::NoUpgrade, message);
    }
}

fn edges(
    channel: &Channel,
    bundles: &[&BundleOutline],
    kept: &PackagePart,
    note: &mut impl FnMut(NoteKind, String),
) {
    let name = Quoted(&channel.name);
    for entry in &channel.entries {
        let existed = bundles.iter().any(|bundle| bundle.name == entry.replaces);
        if existed && !kept.bundles.contains(&entry.replaces) {
            let (entry, replaced) = (Quoted(&entry.name), Quoted(&entry.replaces));
            note(
                NoteKind::ReplacesGone,
                format!("channel {name}: {entry} replaces {replaced}, which is removed"),
            );
        }
    }
    if channel.entries.is_empty() {
        note(NoteKind::Graph, format!("channel {name}: there are no entries"));
    } else if let Err(problem) = check_graph(&channel.entries) {
        note(NoteKind::Graph, format!("channel {name}: {problem}"));
    }
}

fn deprecations(
    outline: &Outline,
    package: &str,
    kept: &PackagePart,
    note: &mut impl FnMut(NoteKind, String),
) {
    let blobs = outline.deprecations.iter().filter(|blob| blob.package == package);
    for reference in blobs.flat_map(|blob| &blob.entries).map(|entry| &entry.reference) {
        if !kept.has(&reference.schema, &reference.name) {
            let (schema, name) = (&reference.schema, Quoted(&reference.name));
            note(NoteKind::Deprecation, format!("the deprecation of {schema} {name} is left out"));
        }
    }
}
