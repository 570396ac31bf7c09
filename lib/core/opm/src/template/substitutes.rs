//! The substitutes template: a catalog, and bundles that take the place of others in it.
//!
//! A substitute gets the edges of its base, and skips it; who replaced or skipped the base now does so with the
//! substitute. The base stays, without edges.

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::{ChannelEntry, SCHEMA_BUNDLE, SCHEMA_CHANNEL};
use olm_go::field::Fields;
use serde_json::Value;

use super::{Bundles, TemplateError, Validate, bundle, entries, versions::version_and_release};
use crate::{Blob, BundleBlob};

#[derive(Debug)]
pub(super) struct Substitutes {
    entries: Vec<Blob>,
    substitutions: Vec<Substitution>,
}

#[derive(Debug)]
struct Substitution {
    /// Image of the bundle.
    name: String,
    /// Name of the bundle whose place it takes.
    base: String,
}

impl Substitutes {
    pub(super) fn read(template: Fields<'_>) -> Result<Self, TemplateError> {
        let substitution = |item: Fields<'_>| Substitution {
            name: item.text("name").to_owned(),
            base: item.text("base").to_owned(),
        };
        let substitutions = template.objects("substitutions").map(substitution).collect();
        Ok(Self { entries: entries(template)?, substitutions })
    }

    pub(super) fn images(&self) -> Vec<&str> {
        let images = self.substitutions.iter().map(|substitution| substitution.name.as_str());
        images.filter(|image| !image.is_empty()).collect()
    }

    pub(super) fn render(
        &self,
        bundles: Bundles<'_>,
        validate: Validate<'_>,
    ) -> Result<Vec<Blob>, TemplateError> {
        let mut blobs = self.entries.clone();
        validate(&blobs).map_err(|problem| {
            TemplateError::rule(format_args!("render: entries are not valid FBC: {problem}"))
        })?;
        self.check_unique()?;
        for substitution in &self.substitutions {
            substitution.apply(&mut blobs, bundles, validate).map_err(|problem| {
                TemplateError::rule(format_args!(
                    "render: error processing substitution {}->{}: {problem}",
                    substitution.base, substitution.name
                ))
            })?;
        }
        Ok(blobs)
    }

    /// A base is substituted once, and a bundle substitutes one base.
    fn check_unique(&self) -> Result<(), TemplateError> {
        let (mut bases, mut base_of) = (BTreeSet::new(), BTreeMap::new());
        for Substitution { name, base } in &self.substitutions {
            if !bases.insert(base) {
                return Err(TemplateError::rule(format_args!(
                    "render: cannot reuse the same substitution base {base:?}"
                )));
            }
            if let Some(earlier) = base_of.insert(name, base) {
                return Err(TemplateError::rule(format_args!(
                    "render: cannot reuse the same substitution {name:?} for different bases ({earlier:?}, {base:?})"
                )));
            }
        }
        Ok(())
    }
}

impl Substitution {
    fn apply(
        &self,
        blobs: &mut Vec<Blob>,
        bundles: Bundles<'_>,
        validate: Validate<'_>,
    ) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("substitution name cannot be empty".to_owned());
        }
        if self.base.is_empty() {
            return Err("substitution base cannot be empty".to_owned());
        }
        if self.name == self.base {
            return Err("substitution name and base cannot be the same".to_owned());
        }
        let substitute = bundle(bundles, &self.name)
            .map_err(|error| format!("failed to render bundle image reference {:?}: {error}", self.name))?;
        self.check_order(blobs, &substitute)?;
        for blob in blobs.iter_mut().filter(|blob| blob.schema == SCHEMA_CHANNEL) {
            self.apply_to_channel(blob, &substitute.name)?;
        }
        blobs.push(substitute.to_blob());
        validate(blobs).map_err(|problem| format!("resulting config is not valid FBC: {problem}"))
    }

    /// The substitute must be newer than what it substitutes.
    fn check_order(&self, blobs: &[Blob], substitute: &BundleBlob) -> Result<(), String> {
        let Self { name, base } = self;
        let newer = version_and_release(substitute).map_err(|error| {
            format!("failed to get composite version for substitute bundle {name:?}: {error}")
        })?;
        let found = blobs.iter().find(|blob| blob.schema == SCHEMA_BUNDLE && blob.name == *base);
        let found = found.ok_or_else(|| format!("base bundle {base:?} does not exist in catalog"))?;
        let older = BundleBlob::read(found)
            .map_err(|error| error.to_string())
            .and_then(|bundle| version_and_release(&bundle));
        let older = older
            .map_err(|error| format!("failed to get composite version for base bundle {base:?}: {error}"))?;
        if older.cmp_precedence(&newer).is_ge() {
            return Err(format!("base bundle {base:?} is not less than substitute bundle {name:?}"));
        }
        Ok(())
    }

    fn apply_to_channel(&self, blob: &mut Blob, substitute: &str) -> Result<(), String> {
        let mut document = blob.value();
        let found = document.get("entries").cloned().unwrap_or_default();
        let entries: Option<Vec<ChannelEntry>> =
            serde_json::from_value(found).map_err(|error| format!("channel {:?}: {error}", blob.name))?;
        let mut entries = entries.unwrap_or_default();
        if !self.rewrite(&mut entries, substitute) {
            return Ok(());
        }
        let entries = serde_json::to_value(entries).map_err(|error| error.to_string())?;
        if let Value::Object(members) = &mut document {
            members.insert("entries".to_owned(), entries);
        }
        *blob = Blob::of_value(&document).map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Puts the substitute in; returns whether anything changed.
    fn rewrite(&self, entries: &mut Vec<ChannelEntry>, substitute: &str) -> bool {
        let base = &self.base;
        let mut added = Vec::new();
        let mut changed = false;
        for entry in entries.iter_mut() {
            if entry.name == *base {
                let mut taken = ChannelEntry { name: substitute.to_owned(), ..std::mem::take(entry) };
                entry.name.clone_from(base);
                taken.skips.push(base.clone());
                added.insert(0, taken);
            }
        }
        for entry in entries.iter_mut() {
            if entry.replaces == *base {
                substitute.clone_into(&mut entry.replaces);
                entry.skips.push(base.clone());
                changed = true;
            } else if entry.skips.contains(base) {
                entry.skips.push(substitute.to_owned());
                entry.skips.retain(|skip| skip != base);
                changed = true;
            }
        }
        changed |= !added.is_empty();
        entries.extend(added);
        changed
    }
}
