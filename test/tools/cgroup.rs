//! A control group whose memory is limited, as a container has it; version 1 and 2.

use crate::prelude::*;

const ROOT: &str = "/sys/fs/cgroup";
/// How long a group whose processes were killed may take to become empty.
const REMOVAL_DEADLINE: Duration = Duration::from_secs(5);

/// A group below the one of this process. Dropped, it is gone; its processes must be gone before.
pub struct MemoryGroup {
    folder: PathBuf,
    files: &'static Files,
}

/// What differs between the versions.
struct Files {
    limit: &'static str,
    /// The limit of memory and swap together, or of swap: a container has none beyond its memory.
    swap: &'static str,
    /// Whether that is the limit of swap alone.
    swap_alone: bool,
    peak: &'static str,
    /// The file with a line `oom_kill <count>`.
    events: &'static str,
}

const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    swap: "memory.memsw.limit_in_bytes",
    swap_alone: false,
    peak: "memory.max_usage_in_bytes",
    events: "memory.oom_control",
};
const VERSION_2: Files = Files {
    limit: "memory.max",
    swap: "memory.swap.max",
    swap_alone: true,
    peak: "memory.peak",
    events: "memory.events",
};

impl MemoryGroup {
    /// A new group of so many bytes; or why there can be none on this machine.
    pub fn new(bytes: u64) -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|e| format!("/proc/self/cgroup: {e}"))?;
        let of = |controllers: &str| {
            own.lines().find_map(|line| {
                let (named, path) = line.split_once(':')?.1.split_once(':')?;
                named
                    .split(',')
                    .any(|name| name == controllers)
                    .then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let (parent, files) = match (of("memory"), of("")) {
            (Some(path), _) => (existing(&Path::new(ROOT).join("memory"), &path), &VERSION_1),
            (None, Some(path)) => {
                let parent = existing(Path::new(ROOT), &path);
                let control = parent.join("cgroup.subtree_control");
                let controls = fs::read_to_string(&control).unwrap_or_default();
                if !controls.split_whitespace().any(|name| name == "memory") {
                    fs::write(&control, "+memory").map_err(|e| format!("{}: {e}", control.display()))?;
                }
                (parent, &VERSION_2)
            }
            (None, None) => return Err("this process is in no control group".to_owned()),
        };
        let folder = parent.join(unique_name("olm-test"));
        fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let group = Self { folder, files };
        group.write(files.limit, bytes).map_err(|e| format!("{e:#}"))?;
        // Not every kernel counts swap.
        let _ = group.write(files.swap, if files.swap_alone { 0 } else { bytes });
        Ok(group)
    }

    /// Text of a shell that puts itself into the group and becomes the program.
    pub fn shell(&self) -> String {
        format!("echo $$ > '{}/cgroup.procs' && exec \"$@\"", self.folder.display())
    }

    /// The most memory that was charged to the group, in bytes, files of the page cache included.
    pub fn peak(&self) -> Result<u64> {
        let path = self.folder.join(self.files.peak);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        text.trim().parse().with_context(|| path.display().to_string())
    }

    /// How often a process of the group was killed because there was no memory.
    pub fn kills(&self) -> Result<u64> {
        let path = self.folder.join(self.files.events);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).with_context(|| format!("no oom_kill in {text}"))
    }

    fn write(&self, file: &str, bytes: u64) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, bytes.to_string()).with_context(|| path.display().to_string())
    }
}

/// The folder of a group. In a container the path may be the one outside of it.
fn existing(root: &Path, path: &str) -> PathBuf {
    let own = root.join(path);
    if own.is_dir() { own } else { root.to_owned() }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let start = Instant::now();
        while fs::remove_dir(&self.folder).is_err() && start.elapsed() < REMOVAL_DEADLINE {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
