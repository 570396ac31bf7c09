//! The commands of the first hour against a whole real catalog, on a terminal. With `OLM_TEST_TRANSCRIPT=<file>` what is
//! typed and shown is appended to that file, to be read as a new user would.

use std::{borrow::Cow, collections::BTreeMap, fs, io::Write as _, path::Path, time::Instant};

use anyhow::{Result, ensure};
use olm_test::{data, scenario::Scenario, world::World};
use serde_json::Value;

use super::Terminal;

const PACKAGE: &str = "grafana-operator";
/// Versions that the data have as bundles too, of which the second replaces the first safely.
const VERSIONS: [&str; 2] = ["5.22.2", "5.24.0"];
/// The variable that names the file.
const FILE: &str = "OLM_TEST_TRANSCRIPT";
/// What erases a line of progress, before another one or what stays is written.
const ERASE: &str = "\r\u{1b}[2K";

/// The catalog as it is, but for the images of bundles that the registry of the test has.
fn catalog(packed: &Path, images: &BTreeMap<String, String>) -> Result<String> {
    let text = String::from_utf8(zstd::decode_all(fs::File::open(packed)?)?)?;
    let mut rewritten = 0;
    let mut lines = Vec::new();
    for line in text.lines() {
        if !images.keys().any(|name| line.contains(name.as_str())) {
            lines.push(Cow::Borrowed(line));
            continue;
        }
        let mut document: Value = serde_json::from_str(line)?;
        let name = document["name"].as_str().unwrap_or_default();
        let image = images.get(name).filter(|_| document["schema"] == "olm.bundle").cloned();
        if let Some(image) = image {
            document["image"] = image.into();
            rewritten += 1;
        }
        lines.push(Cow::Owned(document.to_string()));
    }
    ensure!(rewritten == images.len(), "{rewritten} of {} bundles are in the catalog", images.len());
    Ok(lines.join("\n") + "\n")
}

/// What a terminal shows in the end: lines of progress are drawn over, colours are none of the text.
fn screen(shown: &str) -> String {
    let plain = shown.replace("\r\n", "\n");
    let lines = plain.split('\n').map(|line| {
        let line = line.rsplit_once(ERASE).map_or(line, |(_, last)| last);
        let mut text = String::new();
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("\u{1b}[") {
            text.push_str(before);
            rest = after.split_once('m').map_or("", |(_, after)| after);
        }
        text + rest
    });
    lines.collect::<Vec<_>>().join("\n")
}

struct Recorded<'a> {
    scenario: &'a Scenario<'a>,
    text: String,
}

impl Recorded<'_> {
    /// Types a command, answers its question with yes if it has one, and checks the end and parts of what is shown.
    async fn types(&mut self, args: &[&str], asks: bool, code: i32, contains: &[&str]) -> Result<()> {
        let (begun, mut terminal) = (Instant::now(), Terminal::run(self.scenario, args)?);
        let ended = tokio::task::spawn_blocking(move || {
            if asks {
                terminal.until("? [y/N] ")?;
                terminal.answer("y")?;
            }
            terminal.end()
        });
        let (found, shown) = ended.await??;
        let (shown, seconds) = (screen(&shown), begun.elapsed().as_secs_f64());
        let entry = format!(
            "$ olm {}\n{}\n[exit code {found:?}, {seconds:.1} s]\n\n",
            args.join(" "),
            shown.trim_end()
        );
        println!("{entry}");
        self.text.push_str(&entry);
        ensure!(found == Some(code), "exit code {found:?}, not {code}\n{shown}");
        for wanted in contains {
            ensure!(shown.contains(wanted), "{wanted:?} is not in\n{shown}");
        }
        Ok(())
    }

    /// Appends everything to the file, if one is named.
    fn write(self) -> Result<()> {
        let Some(path) = std::env::var_os(FILE) else { return Ok(()) };
        let host = self.scenario.world.images.host();
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
        Ok(file.write_all(self.text.replace(host, "registry.example.com").as_bytes())?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_hour_with_a_whole_real_catalog() -> Result<()> {
    let (Some(bundles), Some(data)) = (data::find(&format!("bundles/{PACKAGE}")), data::find("")) else {
        return Ok(());
    };
    let packed = data.join("community.jsonl.zst");
    if !packed.is_file() {
        data::report(&format!("skipped the recorded commands: no {}", packed.display()));
        return Ok(());
    }
    // A world of its own: what is typed names neither the catalog nor the extension.
    let world = World::start().await?;
    let scenario = Scenario::new(&world, "community").await?;
    let mut images = BTreeMap::new();
    for version in VERSIONS {
        let name = format!("{PACKAGE}/bundle:v{version}");
        let image = world.images.push_bundle(&bundles.join(version), &name).await?;
        images.insert(format!("{PACKAGE}.v{version}"), image);
    }
    let reference = scenario.push_catalog(&catalog(&packed, &images)?, "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    scenario.catalog_serves().await?;

    let mut recorded = Recorded { scenario: &scenario, text: String::new() };
    let [old, new] = VERSIONS;
    recorded.types(&["search", "grafana"], false, 0, &[PACKAGE]).await?;
    let healthy = "is installed and healthy after";
    recorded.types(&["install", PACKAGE, "--version", old], true, 0, &["DANGEROUS", healthy]).await?;
    recorded.types(&["status"], false, 0, &[PACKAGE, "Ready"]).await?;
    recorded.types(&["outdated"], false, 2, &[PACKAGE, old, new, "olm upgrade grafana-operator"]).await?;
    let bundle = format!("{PACKAGE}.v{new}");
    recorded.types(&["diff", PACKAGE, "--version", new], false, 2, &[&bundle]).await?;
    let installed = format!("{bundle} is installed");
    recorded.types(&["upgrade", PACKAGE], true, 0, &[&installed]).await?;
    recorded.types(&["outdated"], false, 0, &["everything is up to date"]).await?;
    recorded.types(&["explain", PACKAGE], false, 0, &["Objects\n", "Workloads\n"]).await?;
    recorded
        .types(
            &["explain", "clustercatalog", &scenario.name],
            false,
            0,
            &["grafana-operator is installed from it"],
        )
        .await?;
    recorded.types(&["uninstall", PACKAGE], true, 0, &["grafana-operator: removed"]).await?;
    recorded.write()
}

#[test]
fn a_screen_has_neither_progress_nor_colours() {
    let shown = format!("{ERASE}waiting 1{ERASE}waiting 2{ERASE}  done\r\n\u{1b}[32mok\u{1b}[0m  x\r\n");
    assert_eq!(screen(&shown), "  done\nok  x\n");
}
