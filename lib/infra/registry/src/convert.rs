//! Messages from and to the types of the catalogs.

use olm_classic_core::registry_model as model;
use olm_object::GroupVersionKind;
use prost_types::{ListValue, Struct, value::Kind};
use serde_json::Value;

use crate::api;

fn deprecation(message: Option<String>) -> Option<api::Deprecation> {
    message.map(|message| api::Deprecation { message })
}

fn message(deprecation: Option<api::Deprecation>) -> Option<String> {
    deprecation.map(|deprecation| deprecation.message)
}

impl From<model::Package> for api::Package {
    fn from(package: model::Package) -> Self {
        let channels = package.channels.into_iter().map(|channel| api::Channel {
            name: channel.name,
            csv_name: channel.csv_name,
            deprecation: deprecation(channel.deprecation),
        });
        Self {
            name: package.name,
            channels: channels.collect(),
            default_channel_name: package.default_channel_name,
            deprecation: deprecation(package.deprecation),
        }
    }
}

impl From<api::Package> for model::Package {
    fn from(package: api::Package) -> Self {
        let channels = package.channels.into_iter().map(|channel| model::Channel {
            name: channel.name,
            csv_name: channel.csv_name,
            deprecation: message(channel.deprecation),
        });
        Self {
            name: package.name,
            channels: channels.collect(),
            default_channel_name: package.default_channel_name,
            deprecation: message(package.deprecation),
        }
    }
}

fn kinds(kinds: Vec<GroupVersionKind>) -> Vec<api::GroupVersionKind> {
    let kind = |kind: GroupVersionKind| api::GroupVersionKind {
        group: kind.group,
        version: kind.version,
        kind: kind.kind,
        plural: String::new(),
    };
    kinds.into_iter().map(kind).collect()
}

fn model_kinds(kinds: Vec<api::GroupVersionKind>) -> Vec<GroupVersionKind> {
    let kind = |kind: api::GroupVersionKind| GroupVersionKind {
        group: kind.group,
        version: kind.version,
        kind: kind.kind,
    };
    kinds.into_iter().map(kind).collect()
}

impl From<model::Bundle> for api::Bundle {
    fn from(bundle: model::Bundle) -> Self {
        let dependency = |one: model::Property| api::Dependency { r#type: one.kind, value: one.value };
        let property = |one: model::Property| api::Property { r#type: one.kind, value: one.value };
        Self {
            csv_name: bundle.csv_name,
            package_name: bundle.package_name,
            channel_name: bundle.channel_name,
            csv_json: bundle.csv_json,
            object: bundle.object,
            bundle_path: bundle.bundle_path,
            provided_apis: kinds(bundle.provided_apis),
            required_apis: kinds(bundle.required_apis),
            version: bundle.version,
            skip_range: bundle.skip_range,
            dependencies: bundle.dependencies.into_iter().map(dependency).collect(),
            properties: bundle.properties.into_iter().map(property).collect(),
            replaces: bundle.replaces,
            skips: bundle.skips,
            deprecation: deprecation(bundle.deprecation),
        }
    }
}

impl From<api::Bundle> for model::Bundle {
    fn from(bundle: api::Bundle) -> Self {
        let dependency = |one: api::Dependency| model::Property { kind: one.r#type, value: one.value };
        let property = |one: api::Property| model::Property { kind: one.r#type, value: one.value };
        Self {
            csv_name: bundle.csv_name,
            package_name: bundle.package_name,
            channel_name: bundle.channel_name,
            csv_json: bundle.csv_json,
            object: bundle.object,
            bundle_path: bundle.bundle_path,
            provided_apis: model_kinds(bundle.provided_apis),
            required_apis: model_kinds(bundle.required_apis),
            version: bundle.version,
            skip_range: bundle.skip_range,
            dependencies: bundle.dependencies.into_iter().map(dependency).collect(),
            properties: bundle.properties.into_iter().map(property).collect(),
            replaces: bundle.replaces,
            skips: bundle.skips,
            deprecation: message(bundle.deprecation),
        }
    }
}

impl From<model::ChannelEntry> for api::ChannelEntry {
    fn from(entry: model::ChannelEntry) -> Self {
        Self {
            package_name: entry.package_name,
            channel_name: entry.channel_name,
            bundle_name: entry.bundle_name,
            replaces: entry.replaces,
        }
    }
}

/// A document as the well-known type for any object; `None` when it is none.
pub(crate) fn structure(document: &[u8]) -> Option<Struct> {
    match serde_json::from_slice(document).ok()? {
        Value::Object(members) => {
            Some(Struct { fields: members.into_iter().map(|(key, one)| (key, value(one))).collect() })
        }
        _ => None,
    }
}

fn value(json: Value) -> prost_types::Value {
    let kind = match json {
        Value::Null => Kind::NullValue(0),
        Value::Bool(bool) => Kind::BoolValue(bool),
        // Every number of JSON is one of floating point there.
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(items) => Kind::ListValue(ListValue { values: items.into_iter().map(value).collect() }),
        Value::Object(members) => Kind::StructValue(Struct {
            fields: members.into_iter().map(|(key, one)| (key, value(one))).collect(),
        }),
    };
    prost_types::Value { kind: Some(kind) }
}
