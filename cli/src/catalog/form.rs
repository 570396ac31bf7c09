//! The form in which catalogs are written.

use clap::ValueEnum;

/// The form of a catalog that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Form {
    /// Concatenated objects.
    #[default]
    Json,
    /// Documents.
    Yaml,
}

impl From<Form> for olm_opm::Form {
    fn from(form: Form) -> Self {
        match form {
            Form::Json => Self::Json,
            Form::Yaml => Self::Yaml,
        }
    }
}
