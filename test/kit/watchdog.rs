//! The end of a suite in which a test hangs: libtest has no deadline, and a run that never ends tells nothing.

use std::io::Write as _;

use crate::prelude::*;

/// More than the longest suite takes on two cores that have other work too.
const DEADLINE: Duration = Duration::from_mins(30);

/// Ends this process when it runs for longer than a suite may, and says what it waited for. Suites that take longer on
/// purpose are left alone.
pub(crate) fn start() {
    if crate::long::is_asked() {
        return;
    }
    std::thread::spawn(|| {
        std::thread::sleep(DEADLINE);
        // What a macro prints here would go to the test that started this thread, and be lost.
        let minutes = DEADLINE.as_secs() / 60;
        let text = running(Path::new("/proc"));
        drop(writeln!(std::io::stderr(), "\nended after {minutes} minutes because a test hangs. {text}"));
        std::process::abort();
    });
}

/// The tests that run, by the first letters of their names, and the programs that they wait for.
fn running(proc: &Path) -> String {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let entries = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
    let tests = entries(proc.join("self/task")).map(|task| read(task.path().join("comm")).trim().to_owned());
    let own = format!("PPid:\t{}\n", std::process::id());
    let children = entries(proc.to_owned())
        .filter(|process| read(process.path().join("status")).contains(&own))
        .map(|process| read(process.path().join("cmdline")).replace('\0', " "));
    format!(
        "Its threads: {:?}. Its programs: {:#?}",
        tests.collect::<BTreeSet<_>>(),
        children.collect::<Vec<_>>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_named() -> Result<()> {
        let mut child = Command::new("sleep").arg("614").spawn()?;
        let mut text = running(Path::new("/proc"));
        // The kernel shows the command line of a program a moment after its start.
        let since = Instant::now();
        while !text.contains("sleep 614") && since.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
            text = running(Path::new("/proc"));
        }
        child.kill()?;
        child.wait()?;
        ensure!(text.contains("sleep 614") && text.contains("watchdog"), "{text}");
        Ok(())
    }
}
