//! What a node needs of this machine: Linux tools, a container runtime, CNI plugins. On Debian, as root, what is
//! missing is installed.

use crate::prelude::*;

/// Programs, and the Debian package of each.
const PROGRAMS: [(&str, &str); 9] = [
    ("containerd", "containerd"),
    ("containerd-shim-runc-v2", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("nft", "nftables"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("sysctl", "procps"),
];
const PLUGINS: [&str; 3] = ["bridge", "host-local", "loopback"];
const PLUGINS_PACKAGE: &str = "containernetworking-plugins";
/// Where distributions and people put CNI plugins.
const PLUGIN_FOLDERS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];
/// Not in everybody's PATH.
const MORE_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];
/// Seconds that apt-get may take for one of its two steps.
const INSTALL_SECONDS: &str = "150";

/// The folder with the CNI plugins.
pub(super) fn plugins() -> Result<PathBuf> {
    let complete = |folder: &Path| PLUGINS.iter().all(|plugin| folder.join(plugin).is_file());
    let folder = PLUGIN_FOLDERS.iter().map(PathBuf::from).find(|folder| complete(folder));
    folder.with_context(|| format!("no CNI plugins in {}", PLUGIN_FOLDERS.join(", ")))
}

/// Where a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(MORE_FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Makes sure that everything is there, and installs what is not if it may; otherwise says in one sentence why there can be no node here.
pub fn provide(may_install: bool) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("a node needs root: its namespaces, cgroups and container runtime do".to_owned());
    }
    if !cfg!(target_os = "linux") || find("go").is_none() {
        return Err("a node needs Linux, and Go to build the kubelet".to_owned());
    }
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    if !may_install || find("apt-get").is_none() {
        return Err(format!("a node needs what Debian has in {}", missing.join(", ")));
    }
    eprintln!("installing {}", missing.join(", "));
    // Indexes may be older than the packages; an attempt without asking for them is quicker.
    if install(&missing).is_err() {
        apt_get(&["update"]).and_then(|()| install(&missing)).map_err(|error| format!("{error:#}"))?;
    }
    match self::missing() {
        none if none.is_empty() => Ok(()),
        some => Err(format!("{} were installed, and yet something of them is missing", some.join(", "))),
    }
}

/// Packages of what is not there.
fn missing() -> Vec<&'static str> {
    let programs =
        PROGRAMS.iter().filter(|(program, _)| find(program).is_none()).map(|(_, package)| *package);
    let mut packages: Vec<_> = programs.collect();
    if plugins().is_err() {
        packages.push(PLUGINS_PACKAGE);
    }
    packages.dedup();
    packages
}

fn install(packages: &[&str]) -> Result<()> {
    // Nothing is taken away: another package may have brought its own runtime.
    apt_get(&[&["install", "-y", "--no-remove", "--no-install-recommends"], packages].concat())
}

fn apt_get(args: &[&str]) -> Result<()> {
    let mut command = Command::new("timeout");
    command.arg(INSTALL_SECONDS).arg("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive");
    super::namespaces::output(&mut command).map(drop)
}
