//! Search for packages by what people know of them: name, keyword, display name, description.
//!
//! A package is shown as the head of its default channel. Every word has to be found somewhere; the better the place, the
//! higher the package is in the answer.

use std::collections::BTreeMap;

use olm_fbc::{
    Channel, ChannelEntry, Meta, PROPERTY_PACKAGE, Package, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE,
};
use olm_go::field::Fields;
use olm_semver::Version;
use serde::Serialize;
use serde_json::Value;

use crate::{Profile, head};

/// The packages of a catalog, as far as a search needs them.
#[derive(Debug, Default)]
pub struct SearchIndex(BTreeMap<String, Entry>);

#[derive(Debug, Default)]
struct Entry {
    default_channel: String,
    /// Description in the package's own document.
    description: String,
    channels: BTreeMap<String, Vec<ChannelEntry>>,
    /// Bundles that are heads, and those that were read before the channels; with their versions.
    bundles: BTreeMap<String, (String, Profile)>,
}

/// A package that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    /// Name of the package.
    pub name: String,
    /// Default channel.
    pub channel: String,
    /// The head of the default channel; empty if it has none.
    pub bundle: String,
    /// Its version.
    pub version: String,
    /// Display name.
    pub display_name: String,
    /// Provider.
    pub provider: String,
    /// Keywords.
    pub keywords: Vec<String>,
    /// Short description.
    pub summary: String,
    /// How well it fits: more is better.
    #[serde(skip)]
    pub score: u32,
}

impl SearchIndex {
    /// Takes the next document. Documents that cannot be read are skipped, as a search is no validation.
    pub fn push(&mut self, meta: &Meta<'_>) {
        let package = meta.envelope.subject();
        if package.is_empty() {
            return;
        }
        match meta.envelope.schema.as_ref() {
            SCHEMA_PACKAGE => {
                let Ok(value) = serde_json::from_slice::<Value>(meta.line) else { return };
                let Ok(read) = serde_json::from_value::<Package>(value.clone()) else { return };
                let entry = self.0.entry(package.to_owned()).or_default();
                entry.default_channel = read.default_channel;
                Fields::of(&value).text("description").clone_into(&mut entry.description);
            }
            SCHEMA_CHANNEL => {
                let Ok(read) = serde_json::from_slice::<Channel>(meta.line) else { return };
                let entry = self.0.entry(package.to_owned()).or_default();
                entry.channels.insert(read.name, read.entries);
            }
            SCHEMA_BUNDLE => {
                let entry = self.0.entry(package.to_owned()).or_default();
                if entry.may_be_head(&meta.envelope.name)
                    && let Ok(value) = serde_json::from_slice::<Value>(meta.line)
                {
                    let bundle = Fields::of(&value);
                    let profile = Profile::of(bundle).unwrap_or_default();
                    let version = version(bundle).to_owned();
                    entry.bundles.insert(meta.envelope.name.clone().into_owned(), (version, profile));
                }
            }
            _ => {}
        }
    }

    /// The packages in which every one of `words` is found, the best first. Without words all of them, by name.
    pub fn search(&self, words: &[String]) -> Vec<Hit> {
        let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let mut hits: Vec<Hit> = self.0.iter().filter_map(|(name, entry)| entry.hit(name, &words)).collect();
        hits.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.name.cmp(&b.name)));
        hits
    }
}

fn version(bundle: Fields<'_>) -> &str {
    let mut properties = bundle.objects("properties");
    let identity = properties.find(|property| property.text("type") == PROPERTY_PACKAGE);
    identity.unwrap_or_default().object("value").text("version")
}

impl Entry {
    /// Whether the bundle may be the one that stands for the package, by the channels known so far.
    fn may_be_head(&self, bundle: &str) -> bool {
        let is_head = |entries: &Vec<ChannelEntry>| match head(entries) {
            Ok(head) => head.name == bundle,
            Err(_) => entries.iter().any(|entry| entry.name == bundle),
        };
        self.channels.is_empty() || self.channels.values().any(is_head)
    }

    /// The bundle that stands for the package: the head of the default channel, else of another one. Of a channel without a
    /// single head it is the highest version.
    fn shown(&self) -> Option<(&str, &(String, Profile))> {
        let of_channel = |entries: &Vec<ChannelEntry>| {
            let read = |entry: &ChannelEntry| {
                self.bundles.get_key_value(&entry.name).map(|(name, bundle)| (name.as_str(), bundle))
            };
            let by_version = |(_, (a, _)): &(&str, &(String, Profile)),
                              (_, (b, _)): &(&str, &(String, Profile))| {
                match (a.parse::<Version>(), b.parse::<Version>()) {
                    (Ok(a), Ok(b)) => a.cmp_precedence(&b),
                    (a, b) => a.is_ok().cmp(&b.is_ok()),
                }
            };
            match head(entries) {
                Ok(head) => read(head),
                Err(_) => entries.iter().filter_map(read).max_by(by_version),
            }
        };
        let default = self.channels.get(&self.default_channel).and_then(of_channel);
        default.or_else(|| self.channels.values().find_map(of_channel))
    }

    fn hit(&self, name: &str, words: &[String]) -> Option<Hit> {
        let (bundle, (version, profile)) = match self.shown() {
            Some((bundle, shown)) => (bundle, shown.clone()),
            None => ("", Default::default()),
        };
        let mut score = 0_u32;
        for word in words {
            score = score.saturating_add(self.score(name, &profile, word)?);
        }
        let summary = if profile.summary.is_empty() { &self.description } else { &profile.summary };
        Some(Hit {
            name: name.to_owned(),
            channel: self.default_channel.clone(),
            bundle: bundle.to_owned(),
            version,
            summary: summary.clone(),
            display_name: profile.display_name,
            provider: profile.provider,
            keywords: profile.keywords,
            score,
        })
    }

    /// How good the best place is in which a word, in lower case, is found.
    fn score(&self, name: &str, profile: &Profile, word: &str) -> Option<u32> {
        let has = |text: &str| text.to_lowercase().contains(word);
        let is_word_of =
            |text: &str| text.to_lowercase().split(|c: char| !c.is_alphanumeric()).any(|part| part == word);
        let places = [
            (1_000, name.to_lowercase() == word),
            (900, is_word_of(name)),
            (800, name.to_lowercase().starts_with(word)),
            (700, has(name)),
            (600, profile.keywords.iter().any(|keyword| keyword.to_lowercase() == word)),
            (500, profile.keywords.iter().any(|keyword| has(keyword))),
            (400, is_word_of(&profile.display_name)),
            (300, has(&profile.display_name)),
            (250, has(&profile.provider)),
            (200, has(&profile.summary) || has(&self.description)),
            (100, has(&profile.description)),
        ];
        places.into_iter().find(|(_, found)| *found).map(|(score, _)| score)
    }
}

#[cfg(test)]
mod tests;
