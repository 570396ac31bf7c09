//! References of bundle images made from what the bundles say, such as `quay.io/x/{{.Package}}:v{{.Version}}`.

use std::str::FromStr;

use anyhow::bail;

/// A text with places for package, name and version of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageTemplate(String);

impl FromStr for ImageTemplate {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        filled(text, ["", "", ""])?;
        Ok(Self(text.to_owned()))
    }
}

impl ImageTemplate {
    /// The reference of a bundle.
    pub(crate) fn reference(&self, package: &str, name: &str, version: &str) -> String {
        filled(&self.0, [package, name, version]).unwrap_or_default()
    }
}

/// The template with package, name and version.
fn filled(template: &str, [package, name, version]: [&str; 3]) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((field, behind)) = after.split_once("}}") else {
            bail!("template {template:?}: {{{{ has no }}}}");
        };
        text.push_str(before);
        text.push_str(match field.trim() {
            ".Package" => package,
            ".Name" => name,
            ".Version" => version,
            other => bail!(
                "template {template:?}: unknown field {other:?}; known are .Package, .Name and .Version"
            ),
        });
        rest = behind;
    }
    Ok(text + rest)
}

#[cfg(test)]
mod tests {
    use super::ImageTemplate;

    #[test]
    fn fields_are_replaced_and_others_refused() {
        let template: ImageTemplate = "r.io/{{.Package}}/{{ .Name }}:v{{.Version}}".parse().unwrap();
        assert_eq!(template.reference("p", "p.v1", "1.0.0"), "r.io/p/p.v1:v1.0.0");
        for (text, wanted) in [
            (
                "x{{.Pkg}}",
                "template \"x{{.Pkg}}\": unknown field \".Pkg\"; known are .Package, .Name and .Version",
            ),
            ("x{{.Name", "template \"x{{.Name\": {{ has no }}"),
        ] {
            assert_eq!(text.parse::<ImageTemplate>().unwrap_err().to_string(), wanted);
        }
    }
}
