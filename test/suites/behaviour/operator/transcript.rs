//! Each state that people meet, as kubectl and `olm explain` show it. With `OLM_TEST_TRANSCRIPT=<file>` what they print is
//! appended to that file, to be read as a new user would.

mod accounts;
mod images;
mod requests;
mod running;

use std::io::Write as _;

use olm_api::ConditionType::Reconciling;
use olm_test::{
    cli::{self, Answer},
    prelude::*,
};

/// The variable that names the file.
const FILE: &str = "OLM_TEST_TRANSCRIPT";

/// What an object says of itself for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Someone has to act.
    Stalled,
    /// It continues by itself.
    Reconciling,
    Ready,
}

/// What is shown of the objects of a scenario.
struct Transcript<'a> {
    scenario: &'a Scenario<'static>,
    text: String,
}

impl<'a> Transcript<'a> {
    fn new(scenario: &'a Scenario<'static>) -> Self {
        Self { scenario, text: String::new() }
    }

    /// An extension is in a state, of which `Ready` has these parts, each in a line, and `olm explain` these lines.
    async fn extension(
        &mut self,
        title: &str,
        name: &str,
        (state, parts): (State, &[&str]),
        explained: &[&str],
    ) -> Result<()> {
        let seen =
            async || Ok(self.scenario.extensions().get(name).await?.status.unwrap_or_default().conditions);
        is_in_state(title, seen, (state, parts)).await?;
        self.shown(title, "cext", name)?;
        self.explained(title, &[name], explained).await
    }

    /// The same of a catalog.
    async fn catalog(&mut self, title: &str, name: &str, (state, parts): (State, &[&str])) -> Result<()> {
        let seen =
            async || Ok(self.scenario.catalogs().get(name).await?.status.unwrap_or_default().conditions);
        is_in_state(title, seen, (state, parts)).await?;
        self.shown(title, "ccat", name)?;
        // The remedy, and the error, are lines of their own.
        self.explained(title, &["clustercatalog", name], parts).await
    }

    /// What `olm explain` shows has these parts.
    async fn explained(&mut self, title: &str, args: &[&str], parts: &[&str]) -> Result<()> {
        let answer = self.explain(args).await?;
        self.line(&format!("$ olm explain {}\n{}{}", args.join(" "), answer.text, answer.errors));
        answer.ensure(0, parts).with_context(|| title.to_owned())
    }

    /// A manifest is refused with these words.
    fn refused(&mut self, title: &str, manifest: &Value, parts: &[&str]) -> Result<()> {
        self.refused_with(&[], title, manifest, parts)
    }

    /// A manifest that is applied with further flags is refused with these words.
    fn refused_with(&mut self, flags: &[&str], title: &str, manifest: &Value, parts: &[&str]) -> Result<()> {
        let text = manifest.to_string();
        let cluster = &self.scenario.world.cluster;
        let args = [&["apply", "-f", "-"][..], flags].concat();
        let answer = olm_test::kubectl::kubectl_with(cluster, &args, text.as_bytes());
        let error = answer.err().with_context(|| format!("{title}: it is accepted"))?.to_string();
        let typed = [&["kubectl apply -f extension.yaml"][..], flags].concat().join(" ");
        self.line(&format!("## {title}\n$ {typed}\n{error}\n"));
        for part in parts {
            ensure!(error.contains(part), "{title}: no {part:?} in {error}");
        }
        Ok(())
    }

    fn shown(&mut self, title: &str, kind: &str, name: &str) -> Result<()> {
        let cluster = &self.scenario.world.cluster;
        let got = kubectl(cluster, &["get", kind, name, "-o", "wide"])?;
        let described = kubectl(cluster, &["describe", kind, name])?;
        self.line(&format!("## {title}\n$ kubectl get {kind} {name} -o wide\n{got}"));
        self.line(&format!("$ kubectl describe {kind} {name}\n{}", essential(&described)));
        Ok(())
    }

    async fn explain(&self, args: &[&str]) -> Result<Answer> {
        let registries = self.scenario.world.images.registries_conf().display().to_string();
        let args = [&["explain"][..], args, &["--registries-conf", &registries]].concat();
        cli::olm(&self.scenario.world.cluster.kubeconfig_admin(), &args).await
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Appends everything to the file, if one is named.
    fn write(self) -> Result<()> {
        let host = self.scenario.world.images.host();
        let text = self.text.replace(&self.scenario.name, "demo").replace(host, "registry.example.com");
        println!("{text}");
        if let Some(path) = std::env::var_os(FILE) {
            let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
            file.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}

/// Waits until the conditions are those of the state, and `Ready` has these parts.
async fn is_in_state(
    title: &str,
    seen: impl AsyncFn() -> Result<olm_api::Conditions>,
    (state, parts): (State, &[&str]),
) -> Result<()> {
    wait::until(title, DEADLINE, async || {
        let conditions = seen().await?;
        let text = |type_| condition_text(&conditions, type_);
        let found =
            match (conditions.is_true(Ready), conditions.is_true(Stalled), conditions.is_true(Reconciling)) {
                (true, false, false) => Some(State::Ready),
                (false, true, false) => Some(State::Stalled),
                (false, false, true) => Some(State::Reconciling),
                _ => None,
            };
        wait::check(found == Some(state) && parts.iter().all(|part| text(Ready).contains(part)), || {
            format!("{parts:?} of {state:?}: {conditions:?}")
        })?;
        // What someone has to do stands where tools look for it.
        wait::check(state != State::Stalled || parts.iter().all(|part| text(Stalled).contains(part)), || {
            format!("{parts:?} in Stalled: {conditions:?}")
        })
    })
    .await
}

/// The conditions and Events of what `kubectl describe` prints, without empty fields and times.
fn essential(described: &str) -> String {
    let from = described.find("\n  Conditions:").or_else(|| described.find("\nEvents:")).unwrap_or_default();
    let is_noise = |line: &&str| {
        let field = line.trim_start();
        field.is_empty()
            || field.starts_with("Last Transition Time:")
            || field.starts_with("Observed Generation:")
    };
    let lines: Vec<&str> = described[from..].lines().filter(|line| !is_noise(line)).collect();
    lines.join("\n") + "\n"
}
