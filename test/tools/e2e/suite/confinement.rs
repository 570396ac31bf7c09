//! What Pods may do and where they write, seen from the node.

use olm_test::prelude::*;
use std::os::unix::fs::MetadataExt;

use crate::world::{SYSTEM, World};

/// What the programs may write into.
const CACHE: &str = "/var/cache";
/// Mounted by the kubelet for each container, or by the runtime; not ours to write into or not for keeping. The
/// kubelet's files are root's.
const OF_THE_NODE: [&str; 6] = ["/dev", "/proc", "/sys", "/run/secrets", "/etc/hosts", "/etc/resolv.conf"];

/// The program's process of a Pod, as this machine numbers it.
pub(crate) fn process(world: &World, pod: &str) -> Result<u32> {
    let pod = world.get(&["pod", pod, "-n", SYSTEM])?;
    let id =
        pod["status"]["containerStatuses"][0]["containerID"].as_str().context("a container has an ID")?;
    let id = id.rsplit('/').next().context("an ID")?;
    for entry in fs::read_dir("/proc")? {
        let place = entry?.path();
        let cgroups = fs::read_to_string(place.join("cgroup")).unwrap_or_default();
        let number = place.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        if let (true, Some(number)) = (cgroups.contains(id), number) {
            return Ok(number);
        }
    }
    anyhow::bail!("no process is in the container {id}")
}

/// The process of each Pod of a Deployment: no rights of its own, a root that is read only, files open for writing in the cache alone.
pub(crate) fn written(world: &World, deployment: &str) -> Result<()> {
    if !world.own_node {
        world.leave_out("processes are looked at on a node of this machine's own only");
        return Ok(());
    }
    for pod in world.pods(deployment)? {
        let name = pod["metadata"]["name"].as_str().context("a Pod has a name")?;
        let number = process(world, name)?;
        let place = Path::new("/proc").join(number.to_string());
        let status = fs::read_to_string(place.join("status"))?;
        let field = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        ensure!(field("Uid:") == "65532 65532 65532 65532", "{name} runs as {}", field("Uid:"));
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            ensure!(field(set) == "0000000000000000", "{name}: {set} {}", field(set));
        }
        ensure!(field("NoNewPrivs:") == "1" && field("Seccomp:") == "2", "{name}: {status}");
        let (writable, upper) = mounts(&fs::read_to_string(place.join("mountinfo"))?)?;
        ensure!(writable == [CACHE], "{name} has writable mounts {writable:?}");
        for file in ["etc/hosts", "etc/resolv.conf"] {
            let about = fs::metadata(place.join("root").join(file))?;
            ensure!(about.uid() == 0 && about.mode() & 0o022 == 0, "{name} may write into {file}");
        }
        let left = files(Path::new(&upper))?;
        ensure!(left.is_empty(), "{name} has files in its root that are not of its image: {left:?}");
        let open = written_files(&place)?;
        ensure!(open.iter().all(|file| file.starts_with(CACHE)), "{name} writes into {open:?}");
        println!("   {name}: uid 65532, no capabilities, seccomp, read-only root; writes into {CACHE} alone");
    }
    Ok(())
}

/// Mounts that can be written to, and the folder in which the runtime keeps what is changed in the root.
fn mounts(mountinfo: &str) -> Result<(Vec<String>, String)> {
    let mut writable = Vec::new();
    let mut upper = None;
    for line in mountinfo.lines() {
        let (mount, filesystem) = line.split_once(" - ").context("a mount")?;
        let fields: Vec<_> = mount.split(' ').collect();
        let (place, options) = (fields[4], fields[5]);
        if place == "/" {
            let folder = filesystem.split(',').find_map(|option| option.strip_prefix("upperdir="));
            upper = folder.map(str::to_owned);
        }
        let of_the_node = OF_THE_NODE.iter().any(|folder| place.starts_with(folder));
        if options.split(',').any(|option| option == "rw") && !of_the_node {
            writable.push(place.to_owned());
        }
    }
    Ok((writable, upper.context("the root is no overlay")?))
}

/// Files with content. Empty ones and folders are where something is mounted.
fn files(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            found.extend(files(&entry.path())?);
        } else if kind.is_file() && entry.metadata()?.len() > 0 {
            found.push(entry.path().display().to_string());
        }
    }
    Ok(found)
}

/// Files that a process has open for writing.
fn written_files(place: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place.join("fd"))? {
        let entry = entry?;
        let Ok(file) = fs::read_link(entry.path()) else { continue };
        let info = place.join("fdinfo").join(entry.file_name());
        let info = fs::read_to_string(info).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("0");
        let flags = u32::from_str_radix(flags.trim(), 8)?;
        // The last two bits: 0 reads only. Pipes, sockets and devices are no files.
        if flags & 3 != 0 && file.is_absolute() && !file.starts_with("/dev") {
            found.push(file.display().to_string());
        }
    }
    Ok(found)
}
