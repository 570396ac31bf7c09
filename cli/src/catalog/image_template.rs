//! References of bundle images made from what the bundles say, such as `quay.io/x/{{.Package}}:v{{.Version}}`.

use std::str::FromStr;

use anyhow::bail;

/// A text with places for package, name and version of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageTemplate(Vec<Segment>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Text(String),
    Package,
    Name,
    Version,
}

impl FromStr for ImageTemplate {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut segments = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((field, behind)) = after.split_once("}}") else {
                bail!("template {text:?}: {{{{ has no }}}}");
            };
            if !before.is_empty() {
                segments.push(Segment::Text(before.to_owned()));
            }
            segments.push(match field.trim() {
                ".Package" => Segment::Package,
                ".Name" => Segment::Name,
                ".Version" => Segment::Version,
                other => bail!(
                    "template {text:?}: unknown field {other:?}; known are .Package, .Name and .Version"
                ),
            });
            rest = behind;
        }
        if !rest.is_empty() {
            segments.push(Segment::Text(rest.to_owned()));
        }
        Ok(Self(segments))
    }
}

impl ImageTemplate {
    /// The reference of a bundle.
    pub(crate) fn reference(&self, package: &str, name: &str, version: &str) -> String {
        let segment = |segment: &'_ Segment| match segment {
            Segment::Text(text) => text.clone(),
            Segment::Package => package.to_owned(),
            Segment::Name => name.to_owned(),
            Segment::Version => version.to_owned(),
        };
        self.0.iter().map(segment).collect()
    }
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
