//! Bundles and catalogs made of named pieces, so that a scenario says in one line what its package brings.

use olm_test::{
    bundle::{self, config_map, crd, deployment, reads_config_maps},
    prelude::*,
    sample_operator::SampleOperator,
};

use crate::place::Facts;

/// Long enough that 250 fields of this make an object that is stored compressed.
const DESCRIPTION_BYTES: usize = 4_500;
/// The condition that holds gated Pods back.
pub(crate) const READINESS_GATE: &str = "example.com/ready";

/// A part of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// A CRD with the kind Gadget.
    Crd,
    /// A CRD with this many long fields.
    LargeCrd(usize),
    ConfigMap(String),
    NetworkPolicy,
    /// The operator. Its Pods come to run, never do, are held back by a gate, or have an image that nobody has.
    Deployment(Runs),
    /// The only install modes it has.
    Mode(String),
    /// Properties that revisions are annotated with, as JSON.
    Properties(String),
    /// All of the sample operator, with webhooks; nothing beside it.
    SampleOperator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runs {
    Yes,
    Never,
    Gated,
    NoImage,
}

/// A bundle, and its place in a catalog.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    id: String,
    pub(crate) package: String,
    pub(crate) version: String,
    replaces: Option<String>,
    pieces: Vec<Piece>,
}

impl Bundle {
    /// Reads a row of a table: `version`, `replaces`, `contains`, and `package`, which is the scenario's otherwise.
    pub(crate) fn read(id: &str, head: &[String], row: &[String]) -> Result<Self> {
        for name in head {
            anyhow::ensure!(
                ["version", "replaces", "contains", "package"].contains(&name.as_str()),
                "bundles have no {name:?}"
            );
        }
        let cell = |name: &str| {
            let index = head.iter().position(|one| one == name)?;
            row.get(index).map(|cell| cell.replace("${ID}", id)).filter(|cell| !cell.is_empty())
        };
        Ok(Self {
            id: id.to_owned(),
            package: cell("package").unwrap_or_else(|| id.to_owned()),
            version: cell("version").context("a bundle without version")?,
            replaces: cell("replaces"),
            pieces: pieces(&cell("contains").unwrap_or_default())?,
        })
    }

    /// The same for all namespaces: its objects are the same but for their annotations, and it renders without a
    /// configuration.
    pub(crate) fn for_all_namespaces(&self) -> Self {
        let mut bundle = self.clone();
        bundle.pieces.retain(|piece| !matches!(piece, Piece::Mode(_)));
        bundle
    }

    /// The bundle with its place in a catalog; its Pods run the images of this place.
    pub(crate) fn made(&self, place: &Facts) -> bundle::Bundle {
        let Self { id, package, version, .. } = self;
        let mut made = bundle::Bundle::new(package, version);
        if self.pieces.contains(&Piece::SampleOperator) {
            made = SampleOperator::new(package, &place.webhook_image).bundle(version);
        }
        if let Some(replaced) = &self.replaces {
            made = made.replaces(replaced);
        }
        let group = format!("{id}.example.com");
        let mut modes = Vec::new();
        for piece in &self.pieces {
            made = match piece {
                Piece::Crd => made.contains(crd(&group, "Gadget", &json!({"size": {"type": "integer"}}))),
                Piece::LargeCrd(fields) => made.contains(crd(&group, "Gadget", &described(*fields))),
                Piece::ConfigMap(name) => {
                    made.contains(config_map(&format!("{id}-{name}"), &json!({"color": "green"})))
                }
                Piece::NetworkPolicy => made.contains(json!({
                    "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                    "metadata": {"name": format!("{id}-policy")},
                    "spec": {"podSelector": {"matchLabels": {"app": id}}, "policyTypes": ["Ingress"]},
                })),
                Piece::Deployment(runs) => {
                    made.operator(self.operator(*runs, &place.operator_image), &reads_config_maps())
                }
                Piece::Properties(properties) => made.annotation("olm.properties", properties),
                Piece::Mode(supported) => {
                    modes.push(supported.as_str());
                    made.modes(&modes)
                }
                Piece::SampleOperator => made,
            };
        }
        made
    }

    fn operator(&self, runs: Runs, image: &str) -> Value {
        let image = if runs == Runs::NoImage { "localhost:1/nobody/has:this" } else { image };
        let mut deployment = deployment(&format!("{}-operator", self.id), image);
        let labels = json!({"app": self.id});
        deployment["spec"]["selector"]["matchLabels"] = labels.clone();
        let template = &mut deployment["spec"]["template"];
        template["metadata"]["labels"] = labels;
        template["spec"]["terminationGracePeriodSeconds"] = 1.into();
        if runs == Runs::Never || runs == Runs::Gated {
            template["spec"]["readinessGates"] = json!([{"conditionType": READINESS_GATE}]);
        }
        if runs == Runs::Never || runs == Runs::NoImage {
            // Where Pods are played nothing goes wrong by itself.
            template["metadata"]["annotations"]["olm-test/never-ready"] = "true".into();
        }
        deployment
    }
}

/// Fields with long descriptions.
fn described(fields: usize) -> Value {
    let words = "all work and no play ".repeat(DESCRIPTION_BYTES / 21);
    let field = |index| {
        (format!("field{index}"), json!({"type": "string", "description": format!("{index} {words}")}))
    };
    (0..fields).map(field).collect()
}

/// Reads `CRD; Deployment(gated); ConfigMap(settings)`.
fn pieces(text: &str) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = match part.split_once('(') {
            Some((name, rest)) => (name, rest.strip_suffix(')').context("a piece without its end")?),
            None => (part, ""),
        };
        pieces.push(match (name, value) {
            ("CRD", "") => Piece::Crd,
            ("LargeCRD", fields) => Piece::LargeCrd(fields.parse()?),
            ("ConfigMap", "") => Piece::ConfigMap("settings".to_owned()),
            ("ConfigMap", name) => Piece::ConfigMap(name.to_owned()),
            ("SampleOperator", "") => Piece::SampleOperator,
            ("NetworkPolicy", "") => Piece::NetworkPolicy,
            ("Deployment", "") => Piece::Deployment(Runs::Yes),
            ("Deployment", "never ready") => Piece::Deployment(Runs::Never),
            ("Deployment", "gated") => Piece::Deployment(Runs::Gated),
            ("Deployment", "no such image") => Piece::Deployment(Runs::NoImage),
            ("Mode", mode) if !mode.is_empty() => Piece::Mode(mode.to_owned()),
            ("Properties", properties) => Piece::Properties(properties.to_owned()),
            _ => bail!("there is no piece {part:?}"),
        });
    }
    Ok(pieces)
}
