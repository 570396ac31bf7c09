//! Verdicts of the API server in a dry-run.

use serde::Serialize;

/// The verdict on one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DryRunVerdict {
    /// The object may be written.
    Accepted,
    /// The object may not be written: the revision is not made.
    Refused(String),
    /// The object is checked when it is applied.
    Deferred(String),
}

impl DryRunVerdict {
    /// Sorts the refusal of a dry-run by its HTTP status and message.
    ///
    /// 403 and 422 are verdicts about the object, and so is 400, unless a webhook declares side effects and so
    /// cannot be asked. 404 is about something that the revision may bring itself, except for the namespace:
    /// namespaces that the revision brings are known beforehand. Anything else, such as 409, 429 and 5xx, is about
    /// the server or the moment.
    pub fn of_refusal(code: u16, message: &str) -> Self {
        let is_verdict = match code {
            400 => !message.contains("does not support dry run"),
            403 | 422 => true,
            404 => message.starts_with("namespaces "),
            _ => false,
        };
        if is_verdict {
            Self::Refused(message.to_owned())
        } else {
            Self::Deferred(format!("{message} ({code})"))
        }
    }
}

/// The verdicts on all objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DryRun {
    /// Objects that may be written.
    pub accepted: usize,
    /// Objects that may not, sorted.
    pub refused: Vec<Refused>,
    /// Objects that are checked when they are applied, sorted.
    #[serde(rename = "checkedInTurn")]
    pub deferred: Vec<Deferred>,
}

/// An object that may not be written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Refused {
    /// The object.
    pub object: String,
    /// The API server's words.
    pub message: String,
}

/// An object that could not be checked beforehand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Deferred {
    /// The object.
    pub object: String,
    /// Why.
    pub why: String,
}

impl DryRun {
    /// Adds the verdict on an object.
    pub fn add(&mut self, object: String, verdict: DryRunVerdict) {
        match verdict {
            DryRunVerdict::Accepted => self.accepted += 1,
            DryRunVerdict::Refused(message) => self.refused.push(Refused { object, message }),
            DryRunVerdict::Deferred(why) => self.deferred.push(Deferred { object, why }),
        }
    }

    /// The refusals as a text for a condition; nothing if there are none.
    pub fn refusal(&self) -> Option<String> {
        let mut lines: Vec<String> =
            self.refused.iter().map(|one| format!("Object {}: {}", one.object, one.message)).collect();
        lines.sort_unstable();
        (!lines.is_empty())
            .then(|| format!("the API server refuses objects of the bundle:\n{}", lines.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_verdicts_about_the_object_refuse() {
        let refuses =
            |code, message| matches!(DryRunVerdict::of_refusal(code, message), DryRunVerdict::Refused(_));
        assert!(refuses(403, "forbidden"));
        assert!(refuses(422, "invalid"));
        assert!(refuses(404, "namespaces \"x\" not found"));
        assert!(refuses(400, "strict decoding error"));
        assert!(!refuses(404, "clusterrolebindings.rbac.authorization.k8s.io \"b\" not found"));
        assert!(!refuses(400, "admission webhook \"a\" does not support dry run"));
        for busy in [408, 409, 429, 500, 503] {
            assert!(!refuses(busy, "busy"), "{busy}");
        }
    }

    #[test]
    fn what_is_not_known_yet_says_why() {
        let mut said = DryRun::default();
        said.add("ConfigMap.v1 n/a".into(), DryRunVerdict::Accepted);
        said.add("ConfigMap.v1 n/b".into(), DryRunVerdict::of_refusal(429, "too many requests"));
        assert_eq!(said.refusal(), None);
        assert_eq!((said.accepted, said.deferred[0].why.as_str()), (1, "too many requests (429)"));
        said.add("ConfigMap.v1 n/c".into(), DryRunVerdict::of_refusal(422, "bad"));
        assert_eq!(
            said.refusal().as_deref(),
            Some("the API server refuses objects of the bundle:\nObject ConfigMap.v1 n/c: bad")
        );
    }
}
