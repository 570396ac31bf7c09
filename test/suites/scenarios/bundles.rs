//! Bundles and catalogs made of named pieces, so that a scenario says in one line what its package brings.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use olm_test::sample_operator::SampleOperator;
use serde_json::{Value, json};

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

    pub(crate) fn name(&self) -> String {
        format!("{}.v{}", self.package, self.version)
    }

    /// Writes the bundle's files; its Pods run these images.
    pub(crate) fn write(&self, folder: &Path, place: &Facts) -> Result<()> {
        if self.pieces.contains(&Piece::SampleOperator) {
            let sample = SampleOperator::new(&self.package, &place.webhook_image);
            return sample.write_bundle(folder, &self.version);
        }
        let (manifests, metadata) = (folder.join("manifests"), folder.join("metadata"));
        fs::create_dir_all(&manifests)?;
        fs::create_dir_all(&metadata)?;
        let annotations = json!({"annotations": {
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.package.v1": self.package,
        }});
        fs::write(metadata.join("annotations.yaml"), annotations.to_string())?;
        let objects = self
            .pieces
            .iter()
            .filter_map(|piece| self.object(piece))
            .chain([self.csv(&place.operator_image)]);
        for (index, object) in objects.enumerate() {
            fs::write(manifests.join(format!("{index}.yaml")), object.to_string())?;
        }
        Ok(())
    }

    fn object(&self, piece: &Piece) -> Option<Value> {
        let id = &self.id;
        Some(match piece {
            Piece::Crd => self.crd(&json!({"size": {"type": "integer"}})),
            Piece::LargeCrd(fields) => {
                let words = "all work and no play ".repeat(DESCRIPTION_BYTES / 21);
                let field = |index| {
                    (
                        format!("field{index}"),
                        json!({"type": "string", "description": format!("{index} {words}")}),
                    )
                };
                self.crd(&(0..*fields).map(field).collect::<serde_json::Map<_, _>>().into())
            }
            Piece::ConfigMap(name) => json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{id}-{name}")},
                "data": {"color": "green"},
            }),
            Piece::NetworkPolicy => json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                "metadata": {"name": format!("{id}-policy")},
                "spec": {"podSelector": {"matchLabels": {"app": id}}, "policyTypes": ["Ingress"]},
            }),
            _ => return None,
        })
    }

    fn crd(&self, fields: &Value) -> Value {
        let group = format!("{}.example.com", self.id);
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("gadgets.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": fields}},
                }}}],
            },
        })
    }

    fn csv(&self, image: &str) -> Value {
        let mut annotations = json!({});
        let mut modes = Vec::new();
        let mut owned = Vec::new();
        let mut install = json!({"deployments": []});
        for piece in &self.pieces {
            match piece {
                Piece::Properties(properties) => annotations["olm.properties"] = properties.as_str().into(),
                Piece::Mode(mode) => modes.push(mode.as_str()),
                Piece::Crd | Piece::LargeCrd(_) => owned.push(json!({
                    "name": format!("gadgets.{}.example.com", self.id), "version": "v1", "kind": "Gadget",
                })),
                Piece::Deployment(runs) => install = self.operator(*runs, image),
                Piece::ConfigMap(_) | Piece::NetworkPolicy | Piece::SampleOperator => {}
            }
        }
        let supported =
            |mode: &str| if modes.is_empty() { mode == "AllNamespaces" } else { modes.contains(&mode) };
        let modes: Vec<Value> = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
            .iter()
            .map(|mode| json!({"type": mode, "supported": supported(mode)}))
            .collect();
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": self.name(), "annotations": annotations},
            "spec": {
                "displayName": self.package, "version": self.version, "installModes": modes,
                "customresourcedefinitions": {"owned": owned},
                "install": {"strategy": "deployment", "spec": install},
            },
        })
    }

    fn operator(&self, runs: Runs, image: &str) -> Value {
        let name = format!("{}-operator", self.id);
        let labels = json!({"app": self.id});
        let mut template = json!({
            "metadata": {"labels": labels, "annotations": {}},
            "spec": {
                "serviceAccountName": name, "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "manager", "image": image}],
            },
        });
        if runs == Runs::NoImage {
            template["spec"]["containers"][0]["image"] = "localhost:1/nobody/has:this".into();
        }
        if runs == Runs::Never || runs == Runs::Gated {
            template["spec"]["readinessGates"] = json!([{"conditionType": READINESS_GATE}]);
        }
        if runs == Runs::Never || runs == Runs::NoImage {
            // Where Pods are played nothing goes wrong by itself.
            template["metadata"]["annotations"]["olm-test/never-ready"] = "true".into();
        }
        let rules =
            json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
        json!({
            "deployments": [{"name": name, "spec": {
                "replicas": 1, "selector": {"matchLabels": labels}, "template": template,
            }}],
            "clusterPermissions": [{"serviceAccountName": name, "rules": rules}],
        })
    }

    fn blob(&self, image: &str) -> Value {
        json!({
            "schema": "olm.bundle", "package": self.package, "name": self.name(), "image": image,
            "properties": [{"type": "olm.package", "value": {"packageName": self.package, "version": self.version}}],
        })
    }
}

/// The text of a catalog with these bundles and the references of their images: one channel, `stable`, a package.
pub(crate) fn catalog(bundles: &[(Bundle, String)]) -> String {
    let mut packages: Vec<&str> = bundles.iter().map(|(bundle, _)| bundle.package.as_str()).collect();
    packages.sort_unstable();
    packages.dedup();
    let mut lines = Vec::new();
    for package in packages {
        lines.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        let entries: Vec<Value> = bundles
            .iter()
            .filter(|(bundle, _)| bundle.package == package)
            .map(|(bundle, _)| {
                let mut entry = json!({"name": bundle.name()});
                if let Some(version) = &bundle.replaces {
                    entry["replaces"] = format!("{package}.v{version}").into();
                }
                entry
            })
            .collect();
        lines
            .push(json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}));
    }
    lines.extend(bundles.iter().map(|(bundle, image)| bundle.blob(image)));
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    lines.join("\n") + "\n"
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
