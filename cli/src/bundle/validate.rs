//! `olm bundle validate`: the errors of a bundle, and hints for its installation.

use std::{collections::BTreeSet, fmt::Write as _, io::Write};

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use olm_bundle::{ANNOTATIONS, Bundle, BundleFiles, CSV_KIND, InstallMode, MEMORY_BYTES_MAX};
use olm_object::{ObjectKey, Rule, known_kind, text as text_of};
use olm_opm::{Suite, SuiteFinding};
use olm_plan::{image_changes, permission_line};
use olm_rbac::{Danger, Grant, Permission, Style, dangers, targets, webhooks_on_pods};
use olm_render::{CertificateProvider, Options, RenderError, Rendered, render};
use olm_text::one_line;
use serde::Serialize;
use serde_json::{Value, json};

use super::rendering::written;
use crate::{
    output::{self, Case, ReportFormat, below, junit},
    sources::{Registries, Source},
};

/// The annotation with the channels of a bundle.
const CHANNELS: &str = "operators.operatorframework.io.bundle.channels.v1";
/// The annotation with its default channel.
const DEFAULT_CHANNEL: &str = "operators.operatorframework.io.bundle.channel.default.v1";
/// The ServiceAccount in the hints; its name changes none of them.
const ACCOUNT: &str = "installer";
/// `olm bundle validate`
#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// The bundle: a folder, an OCI image layout (oci:FOLDER[:NAME]) or an image
    #[arg(value_name = "BUNDLE")]
    bundle: Source,
    /// Namespace the operator would be installed into
    #[arg(long, short = 'n', value_name = "NAMESPACE", default_value = "operators")]
    install_namespace: String,
    /// Also check the rules of a suite; may be repeated
    #[arg(long = "suite", value_name = "SUITE", value_enum, alias = "select-optional")]
    suites: Vec<SuiteName>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: ReportFormat,
    #[command(flatten)]
    registries: Registries,
}

/// A suite of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SuiteName {
    /// What OperatorHub's pipeline asks for
    Operatorhub,
    /// What makes an operator pleasant to run
    GoodPractices,
}

impl SuiteName {
    fn suite(self) -> Suite {
        match self {
            Self::Operatorhub => Suite::Operatorhub,
            Self::GoodPractices => Suite::GoodPractices,
        }
    }
}

/// The findings, with those of the suites.
#[derive(Debug, Serialize)]
struct Checked {
    #[serde(flatten)]
    examination: Examination,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suites: Vec<SuiteFinding>,
}

/// The findings.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Examination {
    valid: bool,
    package: String,
    name: String,
    version: String,
    install_modes: Vec<Mode>,
    /// Names of the CRDs.
    pub(crate) crds: BTreeSet<String>,
    /// Images of Deployments, and others that the ClusterServiceVersion names.
    pub(crate) images: BTreeSet<String>,
    pub(crate) errors: Vec<String>,
    /// What an attacker could do with the extension's ServiceAccount, the worst first.
    pub(crate) dangers: Vec<DangerGroup>,
    pub(crate) hints: Vec<String>,
}

/// A power, and the permissions that it comes with.
#[derive(Debug, Serialize)]
pub(crate) struct DangerGroup {
    pub(crate) danger: &'static str,
    pub(crate) permissions: Vec<String>,
}

/// A way to install the bundle.
#[derive(Debug, Clone, Serialize)]
struct Mode {
    name: &'static str,
    /// The `spec.config.inline` that asks for it.
    config: Value,
}

impl Validate {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let files = self.registries.bundle_files(&self.bundle).await?;
        let examination = Examination::of(&files, &self.install_namespace);
        let suites = if self.suites.is_empty() { Vec::new() } else { self.findings(&files)? };
        let answer = Checked { examination, suites };
        match self.output.plain() {
            Some(format) => output::answer(out, format, &answer, Checked::text)?,
            None => writeln!(out, "{}", self.junit(&answer))?,
        }
        if !answer.examination.valid {
            bail!("{}: the bundle is not valid", self.bundle);
        }
        if let Some(finding) = answer.suites.iter().find(|finding| finding.is_error) {
            bail!("{}: the bundle breaks rules of the suite {}", self.bundle, finding.suite);
        }
        Ok(())
    }

    fn findings(&self, files: &BundleFiles) -> anyhow::Result<Vec<SuiteFinding>> {
        let manifests = manifests(files)?;
        let csv = manifests.iter().find(|manifest| text_of(manifest, "/kind") == CSV_KIND);
        let Some(csv) = csv else {
            bail!("the bundle has no ClusterServiceVersion: the suites cannot be checked")
        };
        let annotations = files.get(ANNOTATIONS).map(olm_bundle::labels);
        let labels = annotations.and_then(Result::ok).unwrap_or_default();
        let channels = labels.get(CHANNELS).map_or("", String::as_str);
        let default = labels.get(DEFAULT_CHANNEL).map_or("", String::as_str);
        let all = channels.split(',').chain([default]).map(str::trim);
        let channels: BTreeSet<&str> = all.filter(|channel| !channel.is_empty()).collect();
        let channels: Vec<&str> = channels.into_iter().collect();
        Ok(self.suites.iter().flat_map(|name| name.suite().check(csv, &channels, &manifests)).collect())
    }

    /// One case for validity, and one for each rule of the suites.
    fn junit(&self, answer: &Checked) -> String {
        let mut cases = vec![Case {
            name: "valid".to_owned(),
            failures: answer.examination.errors.clone(),
            warnings: Vec::new(),
        }];
        for suite in self.suites.iter().map(|name| name.suite()) {
            for rule in suite.rules() {
                let messages = |is_error: bool| -> Vec<String> {
                    let all = answer.suites.iter().filter(|one| one.suite == suite && one.rule == rule);
                    all.filter(|one| one.is_error == is_error).map(|one| one.message.clone()).collect()
                };
                cases.push(Case {
                    name: format!("{suite}/{rule}"),
                    failures: messages(true),
                    warnings: messages(false),
                });
            }
        }
        junit(&self.bundle.to_string(), &cases)
    }
}

/// The manifests of a bundle.
fn manifests(files: &BundleFiles) -> anyhow::Result<Vec<Value>> {
    let of_bundle = files.iter().filter(|(path, _)| path.starts_with("manifests/"));
    let manifest = |(path, content)| {
        let manifest = olm_yaml::text(content).and_then(olm_yaml::one);
        manifest.map_err(|error| anyhow!("{path}: {error}"))
    };
    of_bundle.map(manifest).collect()
}

impl Checked {
    fn text(&self) -> String {
        let mut text = text(&self.examination);
        for SuiteFinding { suite, rule, is_error, message } in &self.suites {
            let level = if *is_error { "error" } else { "warning" };
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{level} ({suite}, {rule}): {}", one_line(message));
        }
        text
    }
}

impl Examination {
    /// Examines a bundle for an installation into this namespace.
    pub(crate) fn of(files: &BundleFiles, namespace: &str) -> Self {
        let mut answer = Self::default();
        let bundle = match Bundle::read(files, MEMORY_BYTES_MAX) {
            Ok(bundle) => bundle,
            Err(error) => return Self { errors: vec![error.to_string()], ..answer },
        };
        let mut first: Option<Rendered> = None;
        let mut refused: Option<RenderError> = None;
        for mode in [InstallMode::AllNamespaces, InstallMode::OwnNamespace, InstallMode::SingleNamespace] {
            let config = configuration(mode, namespace);
            let options = Options {
                config: Some(config.clone()),
                certificate_provider: CertificateProvider::BuiltIn,
                ..Options::new(namespace)
            };
            match render(bundle.clone(), &options) {
                Ok(rendered) => {
                    answer.install_modes.push(Mode { name: mode.as_str(), config });
                    first = first.or(Some(rendered));
                }
                // That a mode is not supported is no fault.
                Err(RenderError::Configuration(_) | RenderError::TargetNamespaces { .. }) => {}
                Err(error) => refused = Some(error),
            }
        }
        match (first, refused) {
            (Some(rendered), None) => {
                answer.valid = true;
                (answer.package, answer.name, answer.version) =
                    (rendered.package_name.clone(), rendered.name.clone(), rendered.version.clone());
                let deployed =
                    image_changes([], &rendered.objects).into_iter().filter_map(|image| image.after);
                answer.crds = rendered
                    .objects
                    .iter()
                    .filter(|object| is_crd(object))
                    .map(|object| text_of(object, "/metadata/name").to_owned())
                    .collect();
                answer.images = deployed.chain(bundle.csv.related_images).collect();
                (answer.hints, answer.dangers) = hints(rendered, namespace);
            }
            (_, Some(RenderError::Invalid(findings))) => answer.errors = findings,
            (_, Some(error)) => answer.errors = vec![error.to_string()],
            (None, None) => answer.errors = vec!["no install mode can be rendered".to_owned()],
        }
        answer
    }
}

fn is_crd(object: &Value) -> bool {
    text_of(object, "/kind") == "CustomResourceDefinition"
}

/// The `spec.config.inline` that asks for an install mode.
pub(crate) fn configuration(mode: InstallMode, namespace: &str) -> Value {
    match mode {
        InstallMode::OwnNamespace => json!({"watchNamespace": namespace}),
        InstallMode::SingleNamespace => {
            json!({"watchNamespace": format!("{}-watched", namespace.get(..40).unwrap_or(namespace))})
        }
        InstallMode::AllNamespaces | InstallMode::MultiNamespace => json!({}),
    }
}

fn hints(rendered: Rendered, namespace: &str) -> (Vec<String>, Vec<DangerGroup>) {
    let (mut hints, mut groups) = (Vec::new(), Vec::new());
    if let Some(lowest) = &rendered.min_kube_version {
        hints.push(format!("needs Kubernetes {lowest} or later (spec.minKubeVersion)"));
    }
    if rendered.certificate_provider.is_some() {
        hints.push(
            "has webhooks: cert-manager, OpenShift's service CA or, without both, the controller makes their certificates"
                .to_owned(),
        );
    }
    hints.extend(rendered.objects.iter().filter_map(old_crd));
    hints.extend(rendered.objects.iter().flat_map(lost_volumes));
    let optional: BTreeSet<String> = rendered.objects.iter().filter_map(optional_kind).collect();
    if !optional.is_empty() {
        let kinds = optional.into_iter().collect::<Vec<_>>().join(", ");
        hints.push(format!("ships objects of kinds that not every cluster serves: {kinds}"));
    }
    let objects = written(rendered);
    match targets(&objects) {
        Err(unknown) => hints.push(unknown.to_string()),
        Ok(targets) => {
            let grant = Grant::new(namespace, ACCOUNT, &[targets], Style::Exact);
            for (place, rules) in grant.rules() {
                let place = if place.is_empty() {
                    "the whole cluster".to_owned()
                } else {
                    format!("namespace {place:?}")
                };
                hints.push(format!(
                    "the extension's ServiceAccount needs {} rules in {place}: see olm bundle rbac",
                    rules.len()
                ));
            }
            groups = grouped(&grant);
            let on_pods = webhooks_on_pods(&objects).into_iter();
            hints.extend(on_pods.map(|configuration| format!("{configuration} sees Pods")));
        }
    }
    (hints, groups)
}

/// The permissions for the whole cluster that are dangerous, by what they allow.
fn grouped(grant: &Grant) -> Vec<DangerGroup> {
    let rules: Vec<&Rule> =
        grant.rules().filter(|(namespace, _)| namespace.is_empty()).flat_map(|(_, rules)| rules).collect();
    let group = |danger: Danger| {
        let of_danger = rules.iter().filter(|rule| dangers(std::slice::from_ref(**rule)).contains(&danger));
        let line =
            |rule: &&Rule| permission_line(&Permission { namespace: String::new(), rule: Rule::clone(rule) });
        DangerGroup { danger: danger.meaning(), permissions: of_danger.map(line).collect() }
    };
    grant.dangers().into_iter().map(group).collect()
}

fn old_crd(object: &Value) -> Option<String> {
    (text_of(object, "/apiVersion") == "apiextensions.k8s.io/v1beta1").then(|| {
        format!(
            "CustomResourceDefinition {:?} is of apiextensions.k8s.io/v1beta1, which no supported cluster serves: ship it as v1",
            text_of(object, "/metadata/name")
        )
    })
}

fn optional_kind(object: &Value) -> Option<String> {
    let ObjectKey { group, kind, .. } = ObjectKey::of(object);
    known_kind(&group, &kind).is_some_and(|known| known.optional).then(|| format!("{kind} ({group})"))
}

/// Init containers that mount volumes which the webhook certificates have replaced: API servers refuse them.
fn lost_volumes(object: &Value) -> Vec<String> {
    let names = |list: Option<&Value>| -> BTreeSet<String> {
        let items = list.and_then(Value::as_array).into_iter().flatten();
        items.map(|item| text_of(item, "/name").to_owned()).collect()
    };
    if text_of(object, "/kind") != "Deployment" {
        return Vec::new();
    }
    let volumes = names(object.pointer("/spec/template/spec/volumes"));
    let containers = object.pointer("/spec/template/spec/initContainers").and_then(Value::as_array);
    containers
        .into_iter()
        .flatten()
        .flat_map(|container| {
            names(container.get("volumeMounts")).difference(&volumes).cloned().collect::<Vec<_>>()
        })
        .map(|volume| {
            format!(
                "Deployment {:?}: an init container mounts the volume {volume:?}, which is not there: API servers refuse it",
                text_of(object, "/metadata/name")
            )
        })
        .collect()
}

fn text(answer: &Examination) -> String {
    let mut lines = Vec::new();
    if answer.valid {
        let Examination { name, version, package, .. } = answer;
        lines.push(one_line(&format!("{name} {version} of package {package} is valid")).into_owned());
        for mode in &answer.install_modes {
            let config = match &mode.config {
                Value::Object(map) if map.is_empty() => "no configuration".to_owned(),
                config => format!("configuration {config}"),
            };
            lines.push(format!("install mode {}: {config}", mode.name));
        }
    }
    lines.extend(answer.images.iter().map(|image| format!("image: {}", one_line(image))));
    lines.extend(answer.errors.iter().map(|error| format!("error: {}", below(error, 7))));
    let dangers = answer.dangers.iter();
    lines.extend(dangers.map(|group| format!("hint: the extension's ServiceAccount {}", group.danger)));
    lines.extend(answer.hints.iter().map(|hint| format!("hint: {}", one_line(hint))));
    lines.join("\n")
}
