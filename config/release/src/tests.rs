use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::assemble::{Build, Release, clear};
use crate::programs::{PLATFORMS, PROGRAMS};
use crate::source::Source;

type Files = BTreeMap<String, Vec<u8>>;

/// A static program for a machine, as far as its header says.
fn program(machine: u8, content: &str) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..5].copy_from_slice(b"\x7fELF\x02");
    bytes[18] = machine;
    bytes.extend(content.as_bytes());
    bytes
}

#[test]
fn pages_and_scripts_are_what_the_command_prints() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("olm");
    let text = "#!/bin/sh\nif [ \"$1\" = man ]; then mkdir -p \"$2\" && echo page > \"$2/olm.1\"; else echo \"$1 $2\"; fi\n";
    fs::write(&program, text).unwrap();
    let script = std::process::Command::new("chmod").arg("+x").arg(&program).status().unwrap();
    assert!(script.success());
    let files = crate::texts::of_command(&program, folder.path()).unwrap();
    let found: Vec<_> =
        files.iter().map(|(path, text)| (path.as_str(), String::from_utf8_lossy(text))).collect();
    let expected = [
        ("completion/_olm", "completion zsh\n"),
        ("completion/olm.bash", "completion bash\n"),
        ("completion/olm.fish", "completion fish\n"),
        ("completion/olm.ps1", "completion powershell\n"),
        ("man/man1/olm.1", "page\n"),
    ];
    assert_eq!(found, expected.map(|(path, text)| (path, text.into())));
}

/// The files of a release, put together in a folder of its own.
fn release(content: &str, machine: u8) -> anyhow::Result<Files> {
    let folder = tempfile::tempdir()?;
    for one in &PROGRAMS {
        fs::write(folder.path().join(one.name), program(machine, content))?;
        fs::write(folder.path().join(format!("{}.cdx.json", one.name)), "{}")?;
    }
    let binaries: PathBuf = folder.path().to_owned();
    let builds = [Build { platform: &PLATFORMS[0], sboms: binaries.clone(), binaries }];
    let repository = "https://example.com/olm".to_owned();
    let source = Source { repository, commit: "c0ffee".to_owned(), time: 7, is_clean: true };
    let release = Release {
        root: &Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
        builds: &builds,
        prefix: "registry.example.com/olm",
        profile: "release",
        rustc: "rustc 1",
        builder: "https://example.com/builder",
        source: &source,
        texts: &BTreeMap::from([
            ("completion/olm.bash".to_owned(), b"complete".to_vec()),
            ("man/man1/olm.1".to_owned(), b".TH olm 1".to_vec()),
        ]),
    };
    let out = folder.path().join("out");
    let names = release.write(&out)?;
    names.into_keys().map(|name| Ok((name.clone(), fs::read(out.join(name))?))).collect()
}

fn text(files: &Files, name: &str) -> String {
    String::from_utf8(files[name].clone()).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    olm_image::Digest::of(bytes).hex().to_owned()
}

/// The entries of an archive, with their modes.
fn entries(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry: tar::Entry<'_, GzDecoder<&[u8]>> = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (entry.path().unwrap().display().to_string(), entry.header().mode().unwrap(), content)
    };
    archive.entries().unwrap().map(read).collect()
}

#[test]
fn the_same_programs_give_the_same_release_and_others_another() {
    let one = release("a", 62).unwrap();
    assert_eq!(one, release("a", 62).unwrap());
    let other = release("b", 62).unwrap();
    let same: Vec<_> =
        one.iter().filter(|(name, bytes)| other[*name] == **bytes).map(|(name, _)| name).collect();
    let of_no_program = ["install.yaml".to_owned(), format!("olmv1-{}.tgz", crate::VERSION)];
    assert!(same.iter().all(|name| name.ends_with(".cdx.json") || of_no_program.contains(name)), "{same:?}");
}

#[test]
fn checksums_and_provenance_name_every_file() {
    let files = release("a", 62).unwrap();
    let expected = |except: &[&str]| -> BTreeMap<String, String> {
        let listed = files.iter().filter(|(name, _)| !except.contains(&name.as_str()));
        listed.map(|(name, bytes)| (name.clone(), sha256(bytes))).collect()
    };
    let sums = text(&files, "SHA256SUMS");
    let listed = sums.lines().map(|line| line.split_once("  ").unwrap());
    let listed: BTreeMap<String, String> =
        listed.map(|(digest, name)| (name.to_owned(), digest.to_owned())).collect();
    assert_eq!(listed, expected(&["SHA256SUMS"]));
    let provenance: Value = serde_json::from_str(&text(&files, "provenance.intoto.json")).unwrap();
    let subjects = provenance["subject"].as_array().unwrap().iter();
    let subjects =
        subjects.map(|one| (one["name"].as_str().unwrap(), one["digest"]["sha256"].as_str().unwrap()));
    let subjects: BTreeMap<String, String> =
        subjects.map(|(name, digest)| (name.to_owned(), digest.to_owned())).collect();
    assert_eq!(subjects, expected(&["SHA256SUMS", "provenance.intoto.json"]));
    assert_eq!(provenance["predicateType"], "https://slsa.dev/provenance/v1");
    let definition = &provenance["predicate"]["buildDefinition"];
    assert_eq!(definition["resolvedDependencies"][0]["digest"]["gitCommit"], "c0ffee");
    assert_eq!(provenance["predicate"]["runDetails"]["builder"]["id"], "https://example.com/builder");
}

#[test]
fn manifests_and_chart_name_the_images_of_the_release() {
    let files = release("a", 62).unwrap();
    let version = crate::VERSION;
    let image = format!("image: registry.example.com/olm/operator-controller:{version}");
    let manifest = text(&files, "install.yaml");
    assert!(manifest.contains(&image) && !manifest.contains("localhost/olmv1/"));
    let chart = entries(&files[&format!("olmv1-{version}.tgz")]);
    let names: Vec<&str> = chart.iter().map(|(name, ..)| name.as_str()).collect();
    assert!(names.is_sorted() && names.contains(&"olmv1/Chart.yaml"), "{names:?}");
    assert!(!names.contains(&"olmv1/.helmignore"), "{names:?}");
    assert!(
        names.contains(&"olmv1/templates/programs.yaml") && names.contains(&"olmv1/files/crds.yaml"),
        "{names:?}"
    );
    let values = chart.iter().find(|(name, ..)| name == "olmv1/values.yaml").unwrap();
    assert!(String::from_utf8_lossy(&values.2).contains(&image));
    assert!(chart.iter().all(|(.., content)| !String::from_utf8_lossy(content).contains("localhost/olmv1/")));
}

#[test]
fn krew_gets_an_archive_with_the_command_its_pages_and_the_license() {
    let files = release("a", 62).unwrap();
    let name = format!("olm_{}_linux_amd64.tar.gz", crate::VERSION);
    let archive = entries(&files[&name]);
    let found: Vec<_> = archive.iter().map(|(name, mode, _)| (name.as_str(), *mode)).collect();
    let expected = [
        ("LICENSE", 0o644),
        ("olm", 0o755),
        ("kubectl_complete-olm", 0o755),
        ("completion/olm.bash", 0o644),
        ("man/man1/olm.1", 0o644),
    ];
    assert_eq!(found, expected);
    assert_eq!(archive[1].2, program(62, "a"));
    let other = entries(&files[&format!("catalogd_{}_linux_amd64.tar.gz", crate::VERSION)]);
    assert_eq!(other.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), ["LICENSE", "catalogd"]);
    let manifest = text(&files, "olm.yaml");
    for line in [
        format!("      uri: https://example.com/olm/releases/download/v{}/{name}\n", crate::VERSION),
        format!("      sha256: {}\n      bin: olm\n", sha256(&files[&name])),
        "          os: linux\n          arch: amd64\n".to_owned(),
    ] {
        assert!(manifest.contains(&line), "{manifest}");
    }
}

#[test]
fn a_program_for_another_platform_is_refused() {
    let error = release("a", 183).unwrap_err().to_string();
    assert!(error.ends_with("operator-controller is for arm64, not for amd64"), "{error}");
}

#[test]
fn an_earlier_release_is_removed_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    clear(&out).unwrap();
    fs::create_dir(&out).unwrap();
    fs::write(out.join("notes"), "").unwrap();
    let error = clear(&out).unwrap_err().to_string();
    assert!(error.ends_with("holds files and no release: name another folder"), "{error}");
    assert!(out.join("notes").is_file());
    fs::write(out.join("SHA256SUMS"), "").unwrap();
    clear(&out).unwrap();
    assert!(!out.exists());
}

#[test]
fn one_version_of_the_tool_for_bills_of_materials_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let makefile = read("Makefile");
    let version = makefile.lines().find_map(|line| line.strip_prefix("CYCLONEDX = ")).unwrap();
    for file in ["CONTRIBUTING.md", ".github/workflows/release.yml"] {
        assert!(read(file).contains(&format!("cargo install --locked cargo-cyclonedx@{version}")), "{file}");
    }
}
