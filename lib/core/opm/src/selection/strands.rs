//! What a part of a catalog strands: bundles without a way on, edges to what goes, needs that are not met.

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::{Channel, ChannelEntry};
use olm_go::Quoted;
use olm_semver::{SkipRange, Version};

use super::{Note, NoteKind, PackagePart};
use crate::{BundleOutline, Outline, validate::check_graph};

/// Adds a note for each thing stranded.
pub(super) fn find(outline: &Outline, packages: &BTreeMap<String, PackagePart>, notes: &mut Vec<Note>) {
    for (name, kept) in packages {
        let channels: Vec<&Channel> =
            outline.channels().iter().filter(|channel| channel.package == *name).collect();
        let bundles: Vec<&BundleOutline> =
            outline.bundles().iter().filter(|bundle| bundle.package == *name).collect();
        let mut note = |kind, message| notes.push(Note { package: name.clone(), kind, message });
        updates(&channels, &bundles, kept, &mut note);
        for channel in channels.iter().filter(|channel| kept.channels.contains(&channel.name)) {
            edges(channel, &bundles, kept, &mut note);
        }
        for bundle in bundles.iter().filter(|bundle| kept.bundles.contains(&bundle.name)) {
            let gone: BTreeSet<&String> = bundle
                .required_packages
                .iter()
                .filter(|required| !packages.contains_key(*required) && has_package(outline, required))
                .collect();
            for required in gone {
                let message =
                    format!("{} needs package {}, which goes", Quoted(&bundle.name), Quoted(required));
                note(NoteKind::Dependency, message);
            }
        }
        deprecations(outline, name, kept, &mut note);
    }
}

fn has_package(outline: &Outline, name: &str) -> bool {
    outline.packages().iter().any(|package| package.name == name)
}

/// Entries with their parsed ranges, by whether their channel stays.
struct Entries<'o> {
    entries: Vec<(&'o ChannelEntry, Option<SkipRange>, bool)>,
}

impl<'o> Entries<'o> {
    fn of(channels: &[&'o Channel], kept: &PackagePart) -> Self {
        let mut entries = Vec::new();
        for channel in channels {
            let stays = kept.channels.contains(&channel.name);
            entries.extend(channel.entries.iter().map(|entry| (entry, entry.skip_range.parse().ok(), stays)));
        }
        Self { entries }
    }

    /// Whether something updates a bundle, and whether something that stays does.
    fn update(&self, name: &str, version: Option<&Version>) -> (bool, bool) {
        let leads = self.entries.iter().filter(|(entry, range, _)| {
            entry.name != name
                && (entry.replaces == name
                    || entry.skips.iter().any(|skip| skip == name)
                    || range.as_ref().zip(version).is_some_and(|(range, version)| range.contains(version)))
        });
        leads.fold((false, false), |(_, after), (_, _, stays)| (true, after || *stays))
    }
}

fn updates(
    channels: &[&Channel],
    bundles: &[&BundleOutline],
    kept: &PackagePart,
    note: &mut impl FnMut(NoteKind, String),
) {
    let entries = Entries::of(channels, kept);
    for bundle in bundles {
        if entries.update(&bundle.name, bundle.version.as_ref()) != (true, false) {
            continue;
        }
        let name = Quoted(&bundle.name);
        let message = if kept.bundles.contains(&bundle.name) {
            format!("{name} stays, but all that updated it goes: where it is installed, no update is left")
        } else {
            format!(
                "{name} goes, and nothing that stays updates it: where it is installed, no update is left"
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
            note(NoteKind::ReplacesGone, format!("channel {name}: {entry} replaces {replaced}, which goes"));
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
    let blobs = outline.deprecations().iter().filter(|blob| blob.package == package);
    for reference in blobs.flat_map(|blob| &blob.entries).map(|entry| &entry.reference) {
        if !kept.has(&reference.schema, &reference.name) {
            let (schema, name) = (&reference.schema, Quoted(&reference.name));
            note(NoteKind::Deprecation, format!("the deprecation of {schema} {name} is left out"));
        }
    }
}
