//! One operator from its installation to its removal, and what was seen of it.

use std::fmt;

use k8s_openapi::api::scheduling::v1::PriorityClass;
use olm_api::v1::ClusterExtensionStatus;
use olm_test::{extension::extension, prelude::*};

use crate::{
    expected::{Expected, Outcome, Wave},
    place::{CATALOG, DEADLINE, Place, Required},
};

/// What was expected of an operator and what was seen.
pub(crate) struct Row {
    pub(crate) package: &'static str,
    lines: Vec<(String, String, String, f64)>,
    failure: Option<String>,
}

impl Row {
    pub(crate) fn is_as_expected(&self) -> bool {
        self.failure.is_none()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (version, expected, seen, seconds) in &self.lines {
            writeln!(f, "| {} | {version} | {expected} | {seen} | {seconds:.1} |", self.package)?;
        }
        match &self.failure {
            Some(failure) => {
                let text = failure.replace('\n', " ");
                let shown: String = text.chars().take(900).collect();
                writeln!(f, "| {} | | | **FAILED** {shown} | |", self.package)
            }
            None => Ok(()),
        }
    }
}

/// An operator that is being worked on.
pub(crate) struct Life<'a> {
    place: &'a Place,
    operator: &'static Expected,
    row: Row,
}

impl<'a> Life<'a> {
    pub(crate) fn new(place: &'a Place, operator: &'static Expected) -> Self {
        let row = Row { package: operator.package, lines: Vec::new(), failure: None };
        Self { place, operator, row }
    }

    /// Installs, upgrades and removes it. Failures are part of what was seen.
    pub(crate) async fn live(mut self) -> Row {
        if let Err(error) = self.all().await {
            self.row.failure = Some(format!("{error:#}"));
        }
        if let Some(required) = self.requires() {
            required.asked_for.cancel();
            required.released.cancel();
        }
        self.row
    }

    /// The operator that this one requires.
    fn requires(&self) -> Option<&'a Required> {
        match self.operator.wave {
            Wave::With(other) => self.place.required.get(other),
            Wave::Together | Wave::Alone => None,
        }
    }

    async fn all(&mut self) -> Result<()> {
        let required = self.place.required.get(self.operator.package);
        if let Some(required) = required {
            required.asked_for.cancelled().await;
        }
        self.prepare().await?;
        let Expected { first, newest, .. } = *self.operator;
        self.create(first.0).await?;
        self.comes_to(first).await.with_context(|| format!("version {}", first.0))?;
        self.patch(json!({"spec": {"source": {"catalog": {"version": newest.0}}}})).await?;
        self.comes_to(newest).await.with_context(|| format!("version {}", newest.0))?;
        if let Some(required) = required {
            required.released.cancelled().await;
        }
        self.remove().await
    }

    async fn prepare(&self) -> Result<()> {
        let package = self.operator.package;
        self.place.site.cluster.create_namespace(package).await?;
        if let Some(name) = self.operator.priority_class {
            let class: PriorityClass = serde_json::from_value(json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": 1_000_000_000,
            }))?;
            Api::all(self.place.client.clone()).create(&PostParams::default(), &class).await?;
        }
        tokio::task::block_in_place(|| self.place.grant(self.operator))
    }

    fn api(&self) -> Api<ClusterExtension> {
        Api::all(self.place.client.clone())
    }

    async fn create(&self, version: &str) -> Result<()> {
        let package = self.operator.package;
        let mut extension = extension(package, package, package, CATALOG, &json!({"version": version}));
        if self.operator.watches_own {
            extension["spec"]["config"] =
                json!({"configType": "Inline", "inline": {"watchNamespace": package}});
        }
        let extension: ClusterExtension = serde_json::from_value(extension)?;
        self.api().make(&extension).await?;
        Ok(())
    }

    async fn patch(&self, patch: Value) -> Result<()> {
        self.api().merge(self.operator.package, &patch).await?;
        Ok(())
    }

    /// Waits until the extension is as expected, and writes down what it says.
    async fn comes_to(&mut self, (version, outcome): (&'static str, Outcome)) -> Result<()> {
        let package = self.operator.package;
        let begun = Instant::now();
        let name = self.place.bundle_name(package, version);
        let wrapped = format!("error for resolved bundle {name:?} with version {version:?}: ");
        let requires = format!("True/Retrying/bundle {name:?} requires what is not installed: ");
        let seen = match outcome {
            Outcome::Installed => self.installed(version).await?,
            Outcome::Unsafe(crds) => {
                let parts: Vec<String> =
                    crds.iter().map(|crd| format!("validating upgrade for CRD {crd:?}: ")).collect();
                let told = self.shows(Progressing, &format!("True/Retrying/{wrapped}"), &parts).await?;
                self.note(version, "held back: CRDs change unsafely", &told, begun);
                let none = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
                self.patch(json!({"spec": {"install": none}})).await?;
                self.installed(version).await?
            }
            Outcome::Requires(parts) => self.shows(Progressing, &requires, parts).await?,
            Outcome::RequiresFirst(parts) => {
                let told = self.shows(Progressing, &requires, parts).await?;
                self.note(version, "requires another operator", &told, begun);
                if let Some(required) = self.requires() {
                    required.asked_for.cancel();
                }
                self.installed(version).await?
            }
            Outcome::Refused(part) => self.shows(Progressing, "True/Retrying/", &[part]).await?,
        };
        let expected = match outcome {
            Outcome::Installed => "installed",
            Outcome::Unsafe(_) => "installed without that check",
            Outcome::Requires(_) => "not installed: requires others",
            Outcome::RequiresFirst(_) => "goes on by itself",
            Outcome::Refused(_) => "not installed: the API server refuses an object",
        };
        self.note(version, expected, &seen, begun);
        Ok(())
    }

    fn note(&mut self, version: &str, expected: &str, seen: &str, begun: Instant) {
        let shown: String = seen.replace('\n', " ").replace('|', "\\|").chars().take(300).collect();
        println!("{} {version}: {shown}", self.operator.package);
        let seconds = begun.elapsed().as_secs_f64();
        self.row.lines.push((version.to_owned(), expected.to_owned(), shown, seconds));
    }

    async fn status(&self) -> Result<(Option<i64>, ClusterExtensionStatus)> {
        self.place.operator.process().check_running()?;
        let extension = self.api().get(self.operator.package).await?;
        Ok((extension.metadata.generation, extension.status.unwrap_or_default()))
    }

    /// Waits until the version is installed, healthy, and `Ready` tells what was left out.
    async fn installed(&self, version: &str) -> Result<String> {
        wait::until("it to be installed", DEADLINE, || async {
            let (generation, status) = self.status().await?;
            let ready = status.conditions.find(Ready).context("no condition Ready yet")?;
            let installed = status.install.as_ref().map(|install| install.bundle.version.as_str());
            ensure!(
                installed == Some(version)
                    && ready.status == "True"
                    && ready.observed_generation == generation,
                "installed: {installed:?}, {}",
                shown(&status)
            );
            for kind in self.operator.left_out {
                ensure!(ready.message.contains(kind), "{kind} is not told: {}", ready.message);
            }
            Ok(format!("{}/{}: {}", ready.status, ready.reason, ready.message))
        })
        .await
    }

    /// Waits until a condition begins so and contains each of the parts.
    async fn shows(
        &self,
        type_: ConditionType,
        beginning: &str,
        parts: &[impl AsRef<str>],
    ) -> Result<String> {
        wait::until(&format!("{type_} to be {beginning}"), DEADLINE, || async {
            let (generation, status) = self.status().await?;
            let found = status.conditions.find(type_).context("no such condition yet")?;
            let text = format!("{}/{}/{}", found.status, found.reason, found.message);
            ensure!(found.observed_generation == generation, "not of this generation");
            ensure!(text.starts_with(beginning), "{}", shown(&status));
            for part in parts {
                ensure!(text.contains(part.as_ref()), "no {:?} in {text}", part.as_ref());
            }
            Ok(text)
        })
        .await
    }

    async fn remove(&self) -> Result<()> {
        self.api().remove(self.operator.package).await?;
        wait::until("the extension to be gone", DEADLINE, || async {
            self.place.operator.process().check_running()?;
            let found = self.api().get_opt(self.operator.package).await?;
            wait::check(found.is_none(), || "it is still there".to_owned())
        })
        .await
    }
}

fn shown(status: &ClusterExtensionStatus) -> String {
    let all = [Progressing, ConditionType::Installed, ConditionType::Available, Stalled].into_iter();
    let found = all.filter_map(|type_| status.conditions.find(type_));
    found
        .map(|c| format!("{}={}/{}/{}", c.type_, c.status, c.reason, c.message))
        .collect::<Vec<_>>()
        .join("; ")
}
