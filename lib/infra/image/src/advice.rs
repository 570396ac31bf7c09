//! What a person has to do before an image can be pulled.

use crate::{PullError, RegistryError, SourceError};

const NOT_FOUND: u16 = 404;
const FORBIDDEN: u16 = 403;

impl PullError {
    /// A sentence for the user who named the image; `None` where the error may pass by itself, or says it all.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Reference(_) | Self::Unpullable(_) => Some(
                "Correct the reference: <registry>/<repository>:<tag> or <registry>/<repository>@sha256:<digest>.",
            ),
            _ if self.is_content() => Some(CONTENT),
            Self::Source(source) | Self::Copy(source) => of_source(source),
            Self::Policy(_) => Some(POLICY),
            Self::Refused(_) | Self::Layer { .. } | Self::Content(_) | Self::File(_) | Self::Deadline(_) => {
                None
            }
        }
    }
}

const CONTENT: &str =
    "The content of this image cannot be used: push a corrected image, or correct the reference.";
const POLICY: &str = "The signature policy of the controller does not allow this image: correct the reference, or policy.json.";
const UNUSABLE: &str = "The registry cannot be used like this, and trying again does not help: correct the reference, the registry, or registries.conf of the controller.";

fn of_source(error: &SourceError) -> Option<&'static str> {
    match error {
        SourceError::Registry(error) => of_registry(error),
        // The image may come from a mirror that fails in a way that passes.
        SourceError::Mirrors { mirrors, primary } => {
            let is_lasting = mirrors.iter().all(|(_, error)| of_registry(error).is_some());
            of_registry(primary).filter(|_| is_lasting)
        }
        SourceError::Registries(_) => Some("Correct registries.conf of the controller."),
        SourceError::Policy(_) => Some(POLICY),
        SourceError::Manifest(_) => Some(CONTENT),
        SourceError::Blob(_) | SourceError::Interrupted => None,
    }
}

fn of_registry(error: &RegistryError) -> Option<&'static str> {
    match error {
        RegistryError::UnknownHost { .. } => Some(
            "No host has this name: correct the reference, or have the DNS that the controller uses resolve the name.",
        ),
        RegistryError::Status { status: NOT_FOUND, .. } => {
            Some("The registry does not have this image: correct the reference, or push the image.")
        }
        RegistryError::Unauthorized { .. } | RegistryError::Status { status: FORBIDDEN, .. } => Some(
            "The registry does not give this image to the controller: correct the reference, or give the controller a pull secret for it.",
        ),
        RegistryError::Unusable { .. } => Some(UNUSABLE),
        RegistryError::Certificates(_) => {
            Some("Correct the certificates for registries that are mounted in the controller's Pod.")
        }
        RegistryError::Connection { .. } | RegistryError::TooSlow { .. } | RegistryError::Status { .. } => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16) -> SourceError {
        let (action, message) = ("reading manifest".to_owned(), "m".to_owned());
        SourceError::Registry(RegistryError::Status { action, status, message })
    }

    #[test]
    fn only_what_a_person_has_to_do_is_advised() {
        for (code, wanted) in
            [(404, Some("does not have")), (403, Some("pull secret")), (500, None), (429, None)]
        {
            let advice = PullError::Source(status(code)).advice();
            assert_eq!(advice.is_some(), wanted.is_some(), "{code}: {advice:?}");
            assert!(advice.unwrap_or_default().contains(wanted.unwrap_or_default()), "{code}: {advice:?}");
            assert_eq!(PullError::Copy(status(code)).advice(), advice);
        }
        let away = RegistryError::Connection { action: "pinging".into(), cause: "refused".into() };
        assert_eq!(PullError::Source(SourceError::Registry(away)).advice(), None);
        let slow = RegistryError::TooSlow { action: "reading".into(), cause: "next to nothing".into() };
        assert_eq!(PullError::Copy(SourceError::Registry(slow)).advice(), None);
        let unusable = RegistryError::Unusable { action: "pinging".into(), cause: "no TLS".into() };
        assert_eq!(PullError::Copy(SourceError::Registry(unusable)).advice(), Some(UNUSABLE));
        let unknown =
            RegistryError::UnknownHost { action: "pinging".into(), host: "registry.example".into() };
        assert_eq!(unknown.to_string(), "pinging: dial tcp: lookup registry.example: no such host");
        let advice = PullError::Source(SourceError::Registry(unknown)).advice();
        assert!(advice.is_some_and(|advice| advice.starts_with("No host has this name: ")), "{advice:?}");
    }

    #[test]
    fn a_mirror_may_yet_have_what_the_registry_has_not() {
        let unknown = || RegistryError::UnknownHost { action: "a".into(), host: "h".into() };
        let away = || RegistryError::Connection { action: "a".into(), cause: "refused".into() };
        let advised = |mirrors: Vec<RegistryError>, primary| {
            let mirrors = mirrors.into_iter().map(|error| ("m/a".to_owned(), error)).collect();
            PullError::Source(SourceError::Mirrors { mirrors, primary }).advice().is_some()
        };
        assert!(advised(vec![unknown(), unknown()], unknown()));
        assert!(!advised(vec![unknown(), away()], unknown()));
        assert!(!advised(vec![unknown()], away()));
    }
}
