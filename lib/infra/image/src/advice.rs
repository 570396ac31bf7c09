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
            Self::Source(source) | Self::Copy(source) => of_registry(source),
            Self::Policy(_)
            | Self::Refused(_)
            | Self::Layer { .. }
            | Self::Content(_)
            | Self::File(_)
            | Self::Deadline(_) => None,
        }
    }
}

fn of_registry(error: &SourceError) -> Option<&'static str> {
    let (SourceError::Registry(error) | SourceError::Mirrors { primary: error, .. }) = error else {
        return None;
    };
    match error {
        RegistryError::Status { status: NOT_FOUND, .. } => {
            Some("The registry does not have this image: correct the reference, or push the image.")
        }
        RegistryError::Unauthorized { .. } | RegistryError::Status { status: FORBIDDEN, .. } => Some(
            "The registry does not give this image to the controller: correct the reference, or give the controller a pull secret for it.",
        ),
        _ => None,
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
    }
}
