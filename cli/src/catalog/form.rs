//! The form in which catalogs are written: JSON unless YAML is asked for, in every command, as opm does it.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use olm_opm::Form;

/// Parses `json`, concatenated objects, and `yaml`, documents.
pub(crate) fn form() -> impl TypedValueParser<Value = Form> {
    PossibleValuesParser::new(["json", "yaml"])
        .map(|name| if name == "json" { Form::Json } else { Form::Yaml })
}
