//! The ground a node stands on: network, mount and pid namespaces of its own, a link to this machine, cgroups.
//!
//! One process holds the namespaces; it is the first of its pid namespace, so that everything in it ends with
//! it, and mounts, interfaces and rules vanish with the last process. Of this machine nothing is changed: what
//! the kubelet wants to set for the whole kernel it finds set, in files mounted over those of the kernel.

use std::os::unix::fs::DirBuilderExt;

use crate::supervisor::{self, Program, Supervisor};
use crate::{prelude::*, process::target_folder};

/// Where the kernel shows cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";
/// Until the holder is there.
const HOLDER_DEADLINE: Duration = Duration::from_secs(20);
/// Until everything in the namespaces has ended.
const END_DEADLINE: Duration = Duration::from_secs(30);
/// Nodes that can live side by side: each has one of these networks.
const NETWORKS: std::ops::Range<u8> = 0..64;
/// The node's end of the link.
pub(super) const UPLINK: &str = "uplink";

/// What the kubelet sets in the kernel when it is not so already. These are for the whole machine.
const KERNEL: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Namespaces. Dropped, everything in them is gone.
pub(super) struct Namespaces {
    unshare: Process,
    holder: u32,
    network: u8,
    cgroups: Vec<PathBuf>,
}

impl Namespaces {
    /// Makes them, with a link to this machine; programs in them write below `directory`.
    pub(super) async fn new(directory: &Path) -> Result<Self> {
        let hold = target_folder()?.join(supervisor::PROGRAM).display().to_string();
        let flags = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
        let args = flags.map(str::to_owned).into_iter().chain([hold, supervisor::HOLD.to_owned()]);
        let unshare = Process::start(
            "namespaces",
            Program {
                program: "unshare".into(),
                args: args.collect(),
                log: directory.join("namespaces.log"),
                ..Program::default()
            },
        )?;
        let holder = wait::until("the namespaces", HOLDER_DEADLINE, async || {
            unshare.check_running()?;
            holder(unshare.pid())
        })
        .await?;
        let mut namespaces = Self { unshare, holder, network: 0, cgroups: Vec::new() };
        namespaces.network = link(holder)?;
        namespaces.cgroups = make_cgroups(&namespaces.cgroup())?;
        namespaces.mount(directory)?;
        namespaces.connect()?;
        Ok(namespaces)
    }

    /// The cgroup of all pods, from the root of each hierarchy.
    pub(super) fn cgroup(&self) -> String {
        format!("olm-node{}", self.network)
    }

    /// This machine's address on the link.
    pub(super) fn host_address(&self) -> String {
        format!("10.199.{}.1", self.network)
    }

    /// The node's address on the link.
    pub(super) fn address(&self) -> String {
        format!("10.199.{}.2", self.network)
    }

    /// The process that holds the namespaces, as this machine numbers it.
    pub(super) fn holder(&self) -> u32 {
        self.holder
    }

    /// A program, to be run in the namespaces.
    pub(super) fn program(&self, program: &Path, args: Vec<String>, log: PathBuf) -> Program {
        let enter = self.enter().into_iter().chain([program.display().to_string()]);
        Program {
            program: "nsenter".into(),
            args: enter.chain(args).collect(),
            // Neither a cluster nor a proxy of the user's is this node's business.
            env_remove: ["KUBECONFIG", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"]
                .map(str::to_owned)
                .into(),
            log,
            ..Program::default()
        }
    }

    /// Runs a command in the namespaces and returns what it prints.
    pub(super) fn run(&self, command: &[&str]) -> Result<String> {
        let mut nsenter = Command::new("nsenter");
        nsenter.args(self.enter()).args(command);
        output(&mut nsenter)
    }

    fn enter(&self) -> [String; 6] {
        let holder = self.holder.to_string();
        ["-t", &holder, "-m", "-p", "-n", "--"].map(str::to_owned)
    }

    /// The folders that a kubelet, a container runtime and CNI plugins have in fixed places.
    fn mount(&self, directory: &Path) -> Result<()> {
        self.run(&["mount", "--make-rshared", "/"])?;
        for place in ["/run", "/var/lib", "/var/log"] {
            self.run(&["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", place])?;
        }
        for place in ["/run/lock", "/run/netns", "/var/log/containers"] {
            self.run(&["mkdir", place])?;
        }
        for (name, place) in
            [("kubelet", "/var/lib/kubelet"), ("cni", "/var/lib/cni"), ("pods", "/var/log/pods")]
        {
            let folder = directory.join(name);
            fs::create_dir(&folder)?;
            self.run(&["mkdir", place])?;
            self.run(&["mount", "--bind", &folder.display().to_string(), place])?;
        }
        for (name, value) in KERNEL {
            let file = directory.join(name.replace('/', "."));
            fs::write(&file, format!("{value}\n"))?;
            let place = format!("/proc/sys/{name}");
            self.run(&["mount", "--bind", &file.display().to_string(), &place])?;
        }
        Ok(())
    }

    fn connect(&self) -> Result<()> {
        let (address, host) = (format!("{}/30", self.address()), self.host_address());
        self.run(&["ip", "link", "set", "lo", "up"])?;
        self.run(&["ip", "address", "add", &address, "dev", UPLINK])?;
        self.run(&["ip", "link", "set", UPLINK, "up"])?;
        self.run(&["ip", "route", "add", "default", "via", &host])?;
        self.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
        // Without it a Service does not lead to a pod on the same bridge; kernels without the module do so anyway.
        let _ = self.run(&["sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1"]);
        Ok(())
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // Nothing useful can be done about errors here; the supervisor looks after cgroups once more.
        let _ = self.unshare.kill();
        let place = PathBuf::from(format!("/proc/{}", self.holder));
        let start = Instant::now();
        while place.exists() && start.elapsed() < END_DEADLINE {
            std::thread::sleep(Duration::from_millis(20));
        }
        for cgroup in &self.cgroups {
            supervisor::remove(cgroup);
        }
    }
}

/// Runs a command and returns what it prints.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{command:?}: {}: {}", output.status, errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The child of `unshare`, once it has become the holder.
fn holder(unshare: u32) -> Result<u32> {
    let children = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"))?;
    let child = children.split_whitespace().next().context("it has no child yet")?;
    let line = fs::read_to_string(format!("/proc/{child}/cmdline"))?;
    wait::check(
        line.split('\0').any(|word| word == supervisor::HOLD) && !line.starts_with("unshare"),
        || format!("it is {line:?}"),
    )?;
    Ok(child.parse()?)
}

/// Makes the link, on the first network that nobody has, and returns its number.
fn link(holder: u32) -> Result<u8> {
    let holder = holder.to_string();
    for network in NETWORKS {
        let name = format!("olm-node{network}");
        let mut add = Command::new("ip");
        add.args(["link", "add", &name, "type", "veth", "peer", "name", UPLINK, "netns", &holder]);
        match output(&mut add) {
            Ok(_) => {
                let address = format!("10.199.{network}.1/30");
                output(Command::new("ip").args(["address", "add", &address, "dev", &name]))?;
                output(Command::new("ip").args(["link", "set", &name, "up"]))?;
                return Ok(network);
            }
            Err(error) if format!("{error:#}").contains("File exists") => {}
            Err(error) => return Err(error.context("linking the node to this machine")),
        }
    }
    bail!("{} nodes run on this machine already", NETWORKS.len())
}

/// Makes a cgroup in every hierarchy, and returns where.
fn make_cgroups(name: &str) -> Result<Vec<PathBuf>> {
    let root = Path::new(CGROUPS);
    let mut hierarchies = BTreeSet::new();
    if root.join("cgroup.controllers").is_file() {
        hierarchies.insert(root.to_owned());
    } else {
        for entry in fs::read_dir(root).context("reading the cgroups of this machine")? {
            // Some are links to others: cpu and cpuacct are often one.
            let hierarchy = entry?.path().canonicalize()?;
            if hierarchy.join("cgroup.procs").is_file() {
                hierarchies.insert(hierarchy);
            }
        }
    }
    let mut made = Vec::new();
    for hierarchy in hierarchies {
        let cgroup = hierarchy.join(name);
        fs::DirBuilder::new().recursive(true).mode(0o755).create(&cgroup)?;
        Supervisor::shared()?.remove_at_end(&cgroup)?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            // The older kind begins without any processor.
            if cgroup.join(file).is_file() && hierarchy.join(file).is_file() {
                fs::copy(hierarchy.join(file), cgroup.join(file))
                    .with_context(|| format!("{file} of {name}"))?;
            }
        }
        made.push(cgroup);
    }
    Ok(made)
}
