//! Images that are named after the version of Kubernetes.

use olm_api_classic::{CatalogSource, names::IMAGE_TEMPLATE_ANNOTATION};

use super::texts;

/// The version of an API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeVersion([String; 3]);

/// The variables of a template, in the order of the version's numbers.
const VARIABLES: [&str; 3] = ["{kube_major_version}", "{kube_minor_version}", "{kube_patch_version}"];
/// Longest template; what is longer is no image.
const TEMPLATE_BYTES_MAX: usize = 4096;

impl KubeVersion {
    /// Reads the `gitVersion` of an API server, for instance `v1.36.3+k3s1`.
    pub fn parse(git_version: &str) -> Option<Self> {
        let numbers = git_version.trim_start_matches('v').split(['-', '+']).next()?;
        let mut numbers = numbers.split('.').map(|number| {
            (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
                .then(|| number.to_owned())
        });
        let version = [numbers.next()??, numbers.next()??, numbers.next()??];
        numbers.next().is_none().then_some(Self(version))
    }
}

/// What becomes of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// An image.
    Image(String),
    /// None.
    Unable {
        /// The template with the variables that have values filled in.
        filled: String,
        /// The message of the condition.
        message: String,
    },
}

/// What becomes of the template of a source, if it has one: without, its image is what its administrator wrote.
pub fn of_source(
    source: &CatalogSource,
    version: Option<&KubeVersion>,
    is_image: impl Fn(&str) -> bool,
) -> Option<Resolution> {
    let template = source.metadata.annotations.as_ref()?.get(IMAGE_TEMPLATE_ANNOTATION)?;
    Some(resolve(template, version, is_image))
}

/// Fills in a template. Without a version no variable has a value. `is_image` is whether a text is a reference to an image.
fn resolve(template: &str, version: Option<&KubeVersion>, is_image: impl Fn(&str) -> bool) -> Resolution {
    if template.len() > TEMPLATE_BYTES_MAX {
        return Resolution::Unable { filled: String::new(), message: texts::template_failed(&[], true) };
    }
    let mut filled = template.to_owned();
    let mut unresolved = Vec::new();
    for (index, variable) in VARIABLES.into_iter().enumerate() {
        match version {
            Some(KubeVersion(numbers)) => filled = filled.replace(variable, &numbers[index]),
            None if template.contains(variable) => unresolved.push(variable),
            None => {}
        }
    }
    // A variable without a value is no fault of the syntax.
    let rest = unresolved.iter().fold(filled.clone(), |text, variable| text.replace(variable, "0"));
    let is_malformed = rest.contains(['{', '}']) || !is_image(&rest);
    if unresolved.is_empty() && !is_malformed {
        return Resolution::Image(filled);
    }
    Resolution::Unable { filled, message: texts::template_failed(&unresolved, is_malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(template: &str, version: Option<&str>) -> Resolution {
        let version = version.and_then(KubeVersion::parse);
        resolve(template, version.as_ref(), |text| !text.is_empty() && !text.contains(' '))
    }

    #[test]
    fn variables_are_the_numbers_of_the_api_servers_version() {
        for (template, version, image) in [
            (
                "quay.io/example-org/example-catalog:v{kube_major_version}.{kube_minor_version}",
                "v1.25.4",
                "quay.io/example-org/example-catalog:v1.25",
            ),
            (
                "r/c:v{kube_major_version}.{kube_minor_version}.{kube_patch_version}",
                "v1.36.3+k3s1",
                "r/c:v1.36.3",
            ),
            ("r/c:{kube_minor_version}-{kube_minor_version}", "1.30.0-rc.1", "r/c:30-30"),
            ("r/c:latest", "v1.25.4", "r/c:latest"),
        ] {
            assert_eq!(resolved(template, Some(version)), Resolution::Image(image.to_owned()));
        }
        for wrong in ["", "v1", "v1.2", "v1.2.3.4", "v1.x.3", "v1..3"] {
            assert_eq!(KubeVersion::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_a_template_moves_a_catalog_to_another_image() {
        let mut source = CatalogSource::new("a", olm_api_classic::CatalogSourceSpec::default());
        source.spec.image = Some("r/c:v1.25".to_owned());
        let on = |source: &CatalogSource, version: &str| {
            of_source(source, KubeVersion::parse(version).as_ref(), |_| true)
        };
        assert_eq!(["v1.25.3", "v1.26.0"].map(|version| on(&source, version)), [None, None]);
        let template = "r/c:v{kube_major_version}.{kube_minor_version}".to_owned();
        source.metadata.annotations = Some([(IMAGE_TEMPLATE_ANNOTATION.to_owned(), template)].into());
        let image = |image: &str| Some(Resolution::Image(image.to_owned()));
        let moved = ["v1.25.3", "v1.26.0"].map(|version| on(&source, version));
        assert_eq!(moved, [image("r/c:v1.25"), image("r/c:v1.26")]);
    }

    #[test]
    fn what_does_not_become_an_image_says_why() {
        let message = |template: &str, version| match resolved(template, version) {
            Resolution::Unable { message, .. } => message,
            Resolution::Image(image) => image,
        };
        let version = Some("v1.36.3");
        let syntax =
            "cannot construct catalog image reference, because one or more template(s) has improper syntax";
        assert_eq!(message("r/c:{kube_minor}", version), syntax);
        assert_eq!(message("r/c:{kube_minor_version", version), syntax);
        assert_eq!(message("r/c :v1", version), syntax);
        assert_eq!(message(&"a".repeat(5000), version), syntax);
        assert_eq!(
            message("r/c:{kube_minor_version}", None),
            "cannot construct catalog image reference, because variable(s) \"{kube_minor_version}\" could not be resolved"
        );
        assert_eq!(
            message("r/c:{kube_major_version}.{kube_minor_version}.{x}", None),
            "cannot construct catalog image reference, because variable(s) \"{kube_major_version}\", \
             \"{kube_minor_version}\" could not be resolved and one or more template(s) has improper syntax"
        );
        let partly = resolved("r/c:{kube_minor_version}-{x}", version);
        assert!(matches!(partly, Resolution::Unable { filled, .. } if filled == "r/c:36-{x}"));
    }
}
