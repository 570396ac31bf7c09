//! Bundles with configurations: each with both feature gates on or off, and with each certificate provider.

use olm_render::{CertificateProvider, Features, Options};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Answer, Case, Recent, compare};
use crate::data;

/// A line of the data.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    bundle: String,
    install_namespace: String,
    provider: String,
    single_own_namespace_install_support: bool,
    deployment_config: bool,
    /// Null is a configuration, too.
    #[serde(default, deserialize_with = "present")]
    config: Option<Value>,
    #[serde(flatten)]
    answer: Answer,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl From<Line> for Case {
    fn from(line: Line) -> Self {
        let features = Features {
            single_own_namespace_install_support: line.single_own_namespace_install_support,
            deployment_config: line.deployment_config,
        };
        let config = line.config.as_ref().map_or("no configuration".to_owned(), Value::to_string);
        let gates = match (features.single_own_namespace_install_support, features.deployment_config) {
            (true, true) => "",
            (false, true) => ", without SingleOwnNamespaceInstallSupport",
            (true, false) => ", without DeploymentConfig",
            (false, false) => ", without both gates",
        };
        let certificate_provider = CertificateProvider::named(&line.provider).expect(&line.provider);
        Self {
            name: format!("{} {} {config}{gates}", line.bundle, line.provider),
            options: Options {
                install_namespace: line.install_namespace,
                config: line.config,
                certificate_provider,
                features,
            },
            targets: None,
            answer: line.answer,
        }
    }
}

pub(crate) fn check() {
    data::each("configured", "configured.jsonl.zst", |folder, counts| {
        let mut recent = Recent::default();
        data::cases(&folder.join("configured.jsonl.zst"), |line: Line| {
            let files = recent.files(folder, &line.bundle);
            compare(&line.into(), files, counts);
        });
    });
}
