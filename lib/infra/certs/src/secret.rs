//! The form of a Secret that keeps certificates.

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde_json::{Map, Value, json};

use crate::{Content, Pair};

/// Key of the authorities to be trusted, also where they are published.
pub const AUTHORITIES_KEY: &str = "ca.crt";
const SERVING: [&str; 2] = ["tls.crt", "tls.key"];
const STAGED: [&str; 2] = ["next.crt", "next.key"];
const TYPE: &str = "kubernetes.io/tls";

/// A Secret for certificates, still without any.
pub fn new_secret(namespace: &str, name: &str) -> Secret {
    let (namespace, name) = (Some(namespace.to_owned()), Some(name.to_owned()));
    Secret {
        metadata: ObjectMeta { name, namespace, ..ObjectMeta::default() },
        type_: Some(TYPE.to_owned()),
        ..Secret::default()
    }
}

impl Content {
    /// The content of a Secret. A half of a pair is none.
    pub fn of(secret: &Secret) -> Self {
        let text = |key: &str| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(key));
            bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
        };
        let pair = |keys: [&str; 2]| {
            text(keys[0]).zip(text(keys[1])).map(|(certificate, key)| Pair { certificate, key })
        };
        Self {
            serving: pair(SERVING),
            staged: pair(STAGED),
            authorities: text(AUTHORITIES_KEY).unwrap_or_default(),
        }
    }

    /// Puts the content into a Secret. Other keys of it stay.
    pub fn fill(self, secret: &mut Secret) {
        let data = secret.data.get_or_insert_default();
        for (key, value) in self.entries() {
            match value {
                Some(value) => drop(data.insert(key.to_owned(), ByteString(value.into_bytes()))),
                None => drop(data.remove(key)),
            }
        }
    }

    /// The same as a merge patch of the Secret's `data`.
    pub fn patch(self) -> Value {
        let entries = self.entries().into_iter();
        let value = |value: String| json!(ByteString(value.into_bytes()));
        Value::Object(
            entries
                .map(|(key, text)| (key.to_owned(), text.map_or(Value::Null, value)))
                .collect::<Map<_, _>>(),
        )
    }

    fn entries(self) -> [(&'static str, Option<String>); 5] {
        let halves = |pair: Option<Pair>| pair.map(|pair| (pair.certificate, pair.key)).unzip();
        let ((certificate, key), (next, next_key)) = (halves(self.serving), halves(self.staged));
        [
            (SERVING[0], certificate),
            (SERVING[1], key),
            (STAGED[0], next),
            (STAGED[1], next_key),
            (AUTHORITIES_KEY, Some(self.authorities)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_keeps_the_content_and_what_else_it_holds() {
        let pair = |text: &str| Some(Pair { certificate: format!("{text}.crt"), key: format!("{text}.key") });
        let staged =
            Content { serving: pair("tls"), staged: pair("next"), authorities: "the authorities".to_owned() };
        let mut secret = new_secret("ns", "name");
        secret.data = Some([("other".to_owned(), ByteString(b"x".to_vec()))].into());
        staged.clone().fill(&mut secret);
        let data = json!(secret.data);
        assert_eq!(
            data,
            json!({
                "tls.crt": "dGxzLmNydA==", "tls.key": "dGxzLmtleQ==", "next.crt": "bmV4dC5jcnQ=",
                "next.key": "bmV4dC5rZXk=", "ca.crt": "dGhlIGF1dGhvcml0aWVz", "other": "eA==",
            })
        );
        assert_eq!(Content::of(&secret), staged);
        let switched = Content { serving: pair("next"), staged: None, ..staged };
        let patch = switched.clone().patch();
        assert_eq!((&patch["next.key"], &patch["tls.crt"]), (&Value::Null, &data["next.crt"]));
        assert!(patch.as_object().is_some_and(|patch| patch.contains_key("next.crt")), "null removes a key");
        switched.clone().fill(&mut secret);
        assert_eq!(Content::of(&secret), switched);
        secret.data.get_or_insert_default().remove("tls.key");
        assert_eq!(Content::of(&secret).serving, None, "a half of a pair");
    }
}
