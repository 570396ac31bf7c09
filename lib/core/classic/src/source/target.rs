//! Where the content of a CatalogSource comes from.

use olm_api_classic::{CatalogSourceSpec, names::SERVE_ANNOTATION};

use super::texts;

/// Longest image reference; registries take shorter ones.
const REFERENCE_BYTES_MAX: usize = 1000;

/// The place of the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An image.
    Image {
        /// Its reference.
        reference: String,
        /// Whether it is to run in a Pod, although its content could be read.
        in_pod: bool,
    },
    /// A registry server.
    Address(String),
    /// A ConfigMap of the source's namespace.
    ConfigMap(String),
}

/// When images run in Pods although their content could be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PodPolicy {
    /// When the object's annotation asks for it.
    #[default]
    Annotated,
    /// When the object has a `grpcPodConfig` that says where or how a Pod runs.
    Configured,
    /// Always.
    Always,
}

/// The place that a spec names.
///
/// # Errors
/// The spec names none; upstream's message.
pub fn target(
    spec: &CatalogSourceSpec,
    annotation: Option<&str>,
    policy: PodPolicy,
) -> Result<Target, String> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let source_type = spec.source_type.as_str();
    match source_type {
        "grpc" => match (given(&spec.address), given(&spec.image)) {
            (Some(address), _) => Ok(Target::Address(address)),
            (None, Some(reference)) if reference.len() > REFERENCE_BYTES_MAX => {
                Err(format!("image has more than {REFERENCE_BYTES_MAX} characters"))
            }
            (None, Some(reference)) => {
                Ok(Target::Image { reference, in_pod: in_pod(spec, annotation, policy) })
            }
            (None, None) => Err(texts::image_and_address_unset(source_type)),
        },
        "configmap" | "internal" => {
            given(&spec.config_map).map(Target::ConfigMap).ok_or_else(|| texts::config_map_unset(source_type))
        }
        other => Err(texts::unknown_source_type(other)),
    }
}

fn in_pod(spec: &CatalogSourceSpec, annotation: Option<&str>, policy: PodPolicy) -> bool {
    // How far a Pod is restricted says nothing about whether there is to be one: upstream's manifests have it everywhere.
    let is_configured = spec.grpc_pod_config.as_ref().is_some_and(|config| {
        config.node_selector.is_some()
            || config.tolerations.is_some()
            || config.affinity.is_some()
            || config.priority_class_name.is_some()
            || config.memory_target.is_some()
            || config.extract_content.is_some()
    });
    annotation == Some("Pod")
        || match policy {
            PodPolicy::Annotated => false,
            PodPolicy::Configured => is_configured,
            PodPolicy::Always => true,
        }
}

/// The key of the annotation that asks for a Pod.
pub const ANNOTATION: &str = SERVE_ANNOTATION;

#[cfg(test)]
mod tests {
    use olm_api_classic::GrpcPodConfig;

    use super::*;

    fn spec(source_type: &str) -> CatalogSourceSpec {
        CatalogSourceSpec { source_type: source_type.to_owned(), ..CatalogSourceSpec::default() }
    }

    #[test]
    fn a_spec_names_one_place_or_says_what_is_missing() {
        let image = CatalogSourceSpec { image: Some("r/c:1".to_owned()), ..spec("grpc") };
        let both = CatalogSourceSpec { address: Some("h:50051".to_owned()), ..image.clone() };
        let map = CatalogSourceSpec { config_map: Some("m".to_owned()), ..spec("internal") };
        let old = CatalogSourceSpec { source_type: "configmap".to_owned(), ..map.clone() };
        let read = |spec| target(&spec, None, PodPolicy::default());
        assert_eq!(read(image.clone()), Ok(Target::Image { reference: "r/c:1".to_owned(), in_pod: false }));
        assert_eq!(read(both), Ok(Target::Address("h:50051".to_owned())), "as upstream");
        assert_eq!(read(map), Ok(Target::ConfigMap("m".to_owned())));
        assert_eq!(read(old), Ok(Target::ConfigMap("m".to_owned())));
        for (wrong, text) in [
            (spec("grpc"), "image and address unset: at least one must be set for sourcetype: grpc"),
            (spec("configmap"), "configmap name unset: must be set for sourcetype: configmap"),
            (spec("internal"), "configmap name unset: must be set for sourcetype: internal"),
            (spec("http"), "unknown sourcetype: http"),
            (spec(""), "unknown sourcetype: "),
        ] {
            assert_eq!(read(wrong), Err(text.to_owned()));
        }
        let long = CatalogSourceSpec { image: Some("a".repeat(1001)), ..image };
        assert!(read(long).is_err());
    }

    #[test]
    fn an_image_runs_in_a_pod_when_that_is_asked_for() {
        let with = |config| CatalogSourceSpec {
            image: Some("r/c:1".to_owned()),
            grpc_pod_config: config,
            ..spec("grpc")
        };
        let selects = GrpcPodConfig { node_selector: Some([].into()), ..GrpcPodConfig::default() };
        for (config, annotation, policy, wanted) in [
            (None, None, PodPolicy::Annotated, false),
            (None, Some("Pod"), PodPolicy::Annotated, true),
            (None, Some("Process"), PodPolicy::Configured, false),
            (Some(GrpcPodConfig::default()), None, PodPolicy::Configured, false),
            (Some(selects.clone()), None, PodPolicy::Annotated, false),
            (Some(selects), None, PodPolicy::Configured, true),
            (None, None, PodPolicy::Always, true),
        ] {
            let found = target(&with(config), annotation, policy).unwrap();
            assert!(
                matches!(found, Target::Image { in_pod, .. } if in_pod == wanted),
                "{annotation:?} {policy:?}"
            );
        }
    }
}
