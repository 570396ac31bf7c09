//! What the demo needs, and how it is built: Go and Rust side by side, only what is missing.

use anyhow::{Context as _, Result, ensure};

use crate::{
    Progress, cargo,
    controlplane::{API_SERVER, CONTROLLERS, Tool, Tools},
    in_path, variable,
};

const ALL: [[Tool; 3]; 2] = [API_SERVER, CONTROLLERS];
/// The packages and programs of this workspace that the demo runs.
const PACKAGES: [&str; 3] = ["operator-controller", "olm-cli", "olm-test"];
const PROGRAMS: [&str; 4] = ["operator-controller", "olm", "olm-test-supervisor", "olm-demo"];

/// Builds what the demo needs and does not have.
pub fn build() -> Result<()> {
    let tools = Tools::find_for_demo()?;
    let own = std::env::current_exe().context("finding the folder of the programs")?;
    let folder = own.parent().context("the program has no folder")?;
    let go = needs_go(&tools, &Machine::look())?;
    let rust = PROGRAMS.iter().any(|program| !folder.join(program).is_file());
    let packages = PACKAGES.iter().flat_map(|package| ["-p", package]);
    let arguments: Vec<&str> = ["--locked"]
        .into_iter()
        .chain(packages)
        .chain(PROGRAMS.iter().flat_map(|one| ["--bin", one]))
        .collect();
    Progress::during(|progress| {
        if let Some(text) = announcement(go, rust) {
            progress.line(text);
        }
        // Of two failures the second is that of the part that was stopped.
        let first = |built: Result<()>| if built.is_err() && !progress.fail() { Ok(()) } else { built };
        std::thread::scope(|scope| {
            let go = scope.spawn(|| first(if go { tools.build(&ALL.concat(), progress) } else { Ok(()) }));
            let rust = first(cargo::build(&arguments, progress));
            let go = go.join().unwrap_or_else(|_| Err(anyhow::anyhow!("building the Go programs panicked")));
            rust.and(go)
        })
    })
}

/// How long building takes on a machine with a few cores, if something is missing.
fn announcement(go: bool, rust: bool) -> Option<&'static str> {
    match (go, rust) {
        (false, false) => None,
        (true, false) => Some("Building the control plane, once. It takes 5 to 15 minutes."),
        (false, true) => Some("Building the programs, once. It takes 5 to 15 minutes."),
        (true, true) => Some("Building everything, once. It takes 10 to 30 minutes."),
    }
}

/// What there is on this machine.
struct Machine {
    kubeconfig: bool,
    kubectl: bool,
    go: bool,
}

impl Machine {
    fn look() -> Self {
        let has = |program| in_path(program).is_some();
        Self { kubeconfig: variable("KUBECONFIG").is_some(), kubectl: has("kubectl"), go: has("go") }
    }
}

/// Whether Go programs must be built. An error says in one sentence what is missing for that.
fn needs_go(tools: &Tools, machine: &Machine) -> Result<bool> {
    if machine.kubeconfig {
        let needs = "KUBECONFIG names a cluster of yours, for which the demo needs kubectl: install it, or unset KUBECONFIG";
        ensure!(machine.kubectl, needs);
        return Ok(false);
    }
    // With a given API server the demo does without controllers that are not there.
    let wanted = if tools.assets().is_some() { API_SERVER.to_vec() } else { ALL.concat() };
    let missing = tools.missing(&wanted);
    ensure!(
        missing.is_empty() || tools.assets().is_some() || machine.go,
        "the demo needs a control plane: install Go 1.26 or later (https://go.dev/dl), with which it is built, or set \
         KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl (`setup-envtest use -p path` prints one), \
         or KUBECONFIG to a cluster of yours"
    );
    Ok(!missing.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_announced_only_when_something_is_missing() {
        assert_eq!(announcement(false, false), None);
        assert!(
            [(true, false), (false, true), (true, true)]
                .iter()
                .all(|&(go, rust)| announcement(go, rust).is_some())
        );
    }

    #[test]
    fn go_is_asked_for_only_when_something_must_be_built() {
        let (empty, full) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for tool in ALL.concat() {
            std::fs::write(full.path().join(tool.file_name()), "").unwrap();
        }
        let bare = Machine { kubeconfig: false, kubectl: false, go: false };
        let needs =
            |tools: &Tools, machine: &Machine| needs_go(tools, machine).map_err(|error| error.to_string());
        let nothing = Tools::at(empty.path(), None);
        let error = needs(&nothing, &bare).unwrap_err();
        assert!(error.starts_with("the demo needs a control plane: install Go"), "{error}");
        assert_eq!(needs(&nothing, &Machine { go: true, ..bare }), Ok(true));
        assert_eq!(needs(&Tools::at(full.path(), None), &bare), Ok(false));
        assert_eq!(needs(&Tools::at(empty.path(), Some(full.path())), &bare), Ok(false));
        assert_eq!(needs(&nothing, &Machine { kubeconfig: true, kubectl: true, ..bare }), Ok(false));
        let error = needs(&nothing, &Machine { kubeconfig: true, ..bare }).unwrap_err();
        assert!(error.contains("needs kubectl"), "{error}");
    }
}
