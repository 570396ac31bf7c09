//! Objects of a kind, of which some may have another form than this program knows.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    core::{PartialObjectMeta, error_boundary::InvalidObject},
};
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

/// An object, or what is wrong with it and its metadata: one that cannot be read hides none of the others of a list.
///
/// kube's own guard reads each object into a tree of values, copies that and reads the copy, with code of its own for each
/// kind; here the text is kept until it has been read.
#[derive(Debug, Clone)]
pub struct Guarded<K>(pub Result<K, InvalidObject>);

impl<'de, K: Resource + de::DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let error = match serde_json::from_str(text.get()) {
            Ok(object) => return Ok(Self(Ok(object))),
            Err(error) => error.to_string(),
        };
        let partial: PartialObjectMeta<K> = serde_json::from_str(text.get()).map_err(de::Error::custom)?;
        // The line and the column are those of a text that its readers have in another form.
        let error = error.rsplit_once(" at line ").map_or(error.as_str(), |(error, _)| error).to_owned();
        Ok(Self(Err(InvalidObject { error, metadata: partial.metadata })))
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|invalid| &invalid.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|invalid| &mut invalid.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::{ObjectList, WatchEvent};
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_of_another_form_is_named_and_hides_no_other() {
        let pod = |name: &str, containers: serde_json::Value| json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"containers": containers}});
        let list = json!({
            "apiVersion": "v1", "kind": "PodList", "metadata": {},
            "items": [pod("odd", json!("none")), pod("good", json!([]))],
        });
        let list: ObjectList<Guarded<Pod>> = serde_json::from_str(&list.to_string()).unwrap();
        let [odd, good] = &list.items[..] else { panic!("{list:?}") };
        assert_eq!(odd.meta().name.as_deref(), Some("odd"));
        let error = odd.0.as_ref().unwrap_err().to_string();
        assert_eq!(error, "invalid type: string \"none\", expected a sequence");
        assert_eq!(good.0.as_ref().unwrap().metadata.name.as_deref(), Some("good"));

        let event = format!(r#"{{"type":"ADDED","object":{}}}"#, pod("odd", json!(1)));
        let Ok(WatchEvent::Added(odd)) = serde_json::from_str::<WatchEvent<Guarded<Pod>>>(&event) else {
            panic!("an event")
        };
        assert_eq!(odd.meta().namespace.as_deref(), Some("n"));
        assert!(odd.0.is_err());
        assert!(serde_json::from_str::<Guarded<Pod>>("[1]").is_err(), "not even metadata");
    }
}
