//! A recorded resolution, and our answer to it in the recorded form.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api_classic::{ClusterServiceVersion, OperatorGroup, Subscription};
use olm_classic_core::{
    graph::Snapshot,
    registry_model::{self, Property},
    resolve::{self, Catalog, Part, Request, Scope},
};
use olm_object::GroupVersionKind;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Case {
    pub(crate) id: String,
    namespace: String,
    global: String,
    catalogs: Vec<RecordedCatalog>,
    subscriptions: Vec<Value>,
    csvs: Vec<Value>,
    operator_groups: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct RecordedCatalog {
    name: String,
    namespace: String,
    priority: i32,
    #[serde(default)]
    error: bool,
    /// Packages and bundles as the registry API has them.
    raw: Option<Value>,
    fbc: Option<String>,
}

/// What upstream's answer depends on by chance: the order of its maps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chance {
    /// The Subscriptions by creation; as recorded if empty.
    order: Vec<usize>,
    /// The channel of a package that comes first.
    first: BTreeMap<String, String>,
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Answer {
    #[serde(default)]
    lookups: BTreeSet<Lookup>,
    #[serde(default)]
    subscriptions: BTreeSet<String>,
    #[serde(default)]
    steps: BTreeSet<String>,
    pub(crate) error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Lookup {
    identifier: String,
    catalog: String,
    path: String,
    #[serde(default)]
    replaces: String,
}

#[derive(Deserialize)]
pub(crate) struct Recorded {
    pub(crate) id: String,
    pub(crate) outcomes: Vec<Answer>,
}

/// A text, or the elements of a list, of a recorded message.
fn text(message: &Value, field: &str) -> String {
    message[field].as_str().unwrap_or_else(|| panic!("{field} of {message}")).to_owned()
}

fn list<T>(message: &Value, field: &str, of: impl FnMut(&Value) -> T) -> Vec<T> {
    message[field].as_array().unwrap_or_else(|| panic!("{field} of {message}")).iter().map(of).collect()
}

fn snapshot(raw: &Value, first: &BTreeMap<String, String>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    list(raw, "packages", |one| {
        let name = text(one, "name");
        let channels = list(one, "channels", |channel| registry_model::Channel {
            name: text(channel, "name"),
            csv_name: text(channel, "csvName"),
            deprecation: None,
        });
        let chosen = first.get(&name).filter(|wanted| channels.iter().any(|one| one.name == **wanted));
        let default_channel_name = chosen.cloned().unwrap_or_else(|| text(one, "defaultChannelName"));
        let package = registry_model::Package { name, channels, default_channel_name, deprecation: None };
        snapshot.push_package(&package).unwrap();
    });
    let property = |one: &Value| Property { kind: text(one, "type"), value: text(one, "value") };
    let kind = |one: &Value| GroupVersionKind::deserialize(one).unwrap();
    list(raw, "bundles", |one| {
        let bundle = registry_model::Bundle {
            csv_name: text(one, "csvName"),
            package_name: text(one, "packageName"),
            channel_name: text(one, "channelName"),
            bundle_path: text(one, "bundlePath"),
            version: text(one, "version"),
            skip_range: text(one, "skipRange"),
            replaces: text(one, "replaces"),
            skips: objects(one["skips"].as_array().unwrap()),
            properties: list(one, "properties", property),
            dependencies: list(one, "dependencies", property),
            provided_apis: list(one, "providedApis", kind),
            required_apis: list(one, "requiredApis", kind),
            ..registry_model::Bundle::default()
        };
        snapshot.push_bundle(&bundle).unwrap();
    });
    snapshot
}

fn objects<T: for<'de> Deserialize<'de>>(values: &[Value]) -> Vec<T> {
    values.iter().map(|value| T::deserialize(value).unwrap()).collect()
}

impl Case {
    /// Our answer for the whole namespace, and one for each part of it.
    pub(crate) fn resolve(&self, fbc: &BTreeMap<String, Snapshot>, chance: &Chance) -> (Answer, Vec<Part>) {
        let group = |value: &Value| {
            let metadata = Deserialize::deserialize(&value["metadata"]).unwrap();
            OperatorGroup { metadata, ..OperatorGroup::default() }
        };
        let one = || vec![OperatorGroup::default()];
        let groups: Vec<_> =
            self.operator_groups.as_ref().map_or_else(one, |all| all.iter().map(group).collect());
        let global = match resolve::global_namespace(&groups, &self.global) {
            Ok(global) => global,
            Err(error) => {
                return (Answer { error: Some(error.to_string()), ..Answer::default() }, Vec::new());
            }
        };
        let read = |raw: &Value| snapshot(raw, &chance.first);
        let snapshots: Vec<_> = self.catalogs.iter().map(|one| one.raw.as_ref().map(read)).collect();
        let causes: Vec<_> = self
            .catalogs
            .iter()
            .map(|one| {
                format!("no registry client established for catalogsource {}/{}", one.namespace, one.name)
            })
            .collect();
        let catalogs: Vec<_> = self
            .catalogs
            .iter()
            .zip(&snapshots)
            .zip(&causes)
            .map(|((one, snapshot), cause)| {
                let named = || &fbc[one.fbc.as_deref().unwrap()];
                let content = snapshot.as_ref().unwrap_or_else(named);
                Catalog {
                    namespace: &one.namespace,
                    name: &one.name,
                    priority: one.priority,
                    content: if one.error { Err(cause) } else { Ok(content) },
                }
            })
            .collect();
        let mut subscriptions: Vec<Subscription> = objects(&self.subscriptions);
        for (second, at) in (0..).zip(&chance.order) {
            let time = jiff::Timestamp::from_second(second).unwrap();
            subscriptions[*at].metadata.creation_timestamp = Some(Time(time));
        }
        let csvs: Vec<ClusterServiceVersion> = objects(&self.csvs);
        let mut request = Request {
            namespace: &self.namespace,
            global,
            subscriptions: &subscriptions,
            csvs: &csvs,
            scope: Scope::Namespace,
            fails_forward: false,
        };
        let whole = resolve::resolve(&request, &catalogs);
        request.scope = Scope::Related;
        (answer(&whole), resolve::resolve(&request, &catalogs))
    }
}

impl Case {
    /// All that chance can make of the case.
    pub(crate) fn chances(&self) -> impl Iterator<Item = Chance> + '_ {
        let orders = permutations(self.subscriptions.len());
        let mut firsts = vec![BTreeMap::new()];
        for (package, channels) in self.channels() {
            let with = |first: &BTreeMap<String, String>, channel: &String| {
                let mut first = first.clone();
                first.insert(package.clone(), channel.clone());
                first
            };
            firsts =
                firsts.iter().flat_map(|first| channels.iter().map(move |one| with(first, one))).collect();
        }
        firsts.into_iter().flat_map(move |first| {
            let of = move |order: &Vec<usize>| Chance { order: order.clone(), first: first.clone() };
            orders.iter().map(of).collect::<Vec<_>>()
        })
    }

    /// The channels of the packages that have several.
    fn channels(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut channels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for raw in self.catalogs.iter().filter_map(|one| one.raw.as_ref()) {
            list(raw, "packages", |package| {
                let names = list(package, "channels", |one| text(one, "name"));
                channels.entry(text(package, "name")).or_default().extend(names);
            });
        }
        channels.retain(|_, names| names.len() > 1);
        channels
    }
}

/// All orders of so many.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for next in 0..count {
        let with = |order: &Vec<usize>, at: usize| {
            let mut order = order.clone();
            order.insert(at, next);
            order
        };
        all = all.iter().flat_map(|order| (0..=order.len()).map(move |at| with(order, at))).collect();
    }
    all
}

impl Answer {
    /// Whether it is an error about channels.
    pub(crate) fn is_about_order(&self) -> bool {
        let error = self.error.as_deref().unwrap_or_default().trim_start_matches('[');
        error.starts_with("a unique replacement chain within a channel is required")
    }
}

/// Parts that were all solved, or the errors of the first that was not, in the recorded form.
pub(crate) fn answer(parts: &[Part]) -> Answer {
    let mut answer = Answer::default();
    for part in parts {
        let solution = match &part.outcome {
            Ok(solution) => solution,
            Err(unresolved) => return Answer { error: Some(unresolved.to_string()), ..Answer::default() },
        };
        answer.lookups.extend(solution.bundles.iter().map(|one| Lookup {
            identifier: one.name.clone(),
            catalog: format!("{}/{}", one.catalog_namespace, one.catalog),
            path: one.image.clone(),
            replaces: one.replaces.clone(),
        }));
        answer.subscriptions.extend(solution.updates.iter().map(|(name, csv)| format!("{name} -> {csv}")));
        answer.steps.extend(solution.generated.iter().map(|one| {
            let (name, csv) = (&one.name, &one.starting_csv);
            format!("Subscription/{name} {csv} {}/{}", one.catalog, one.catalog_namespace)
        }));
    }
    answer
}
