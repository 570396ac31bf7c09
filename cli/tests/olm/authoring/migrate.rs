//! Folders that come to be as a whole or not at all.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use super::{CATALOG, bundle, catalog_image, folder, path, printed, refused};

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("reads").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_catalog_is_written_a_folder_a_package() {
    let catalog = folder(&CATALOG);
    let place = folder(&[]);
    let rendered =
        |level: &str| printed(&["catalog", "render", path(catalog.path()), "--migrate-level", level]);
    for (name, level, form) in
        [("new/deep", "none", "json"), ("empty", "all", "yaml"), ("short", "all", "json")]
    {
        let target = place.path().join(name);
        if name == "empty" {
            fs::create_dir(&target).expect("made");
        }
        let said = printed(&[
            "catalog",
            "migrate",
            path(catalog.path()),
            path(&target),
            "--level",
            level,
            "-o",
            form,
        ]);
        assert_eq!(said, format!("6 documents written to {}\n", target.display()));
        assert_eq!(names(&target), ["bar", &format!("catalog.{form}"), "foo"]);
        assert_eq!(names(&target.join("foo")), [format!("catalog.{form}")]);
        assert_eq!(printed(&["catalog", "render", path(&target)]), rendered(level), "{name}");
        let mode = fs::metadata(target.join("foo")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "as the mask of the process has it");
    }
    assert_eq!(names(place.path()), ["empty", "new", "short"], "nothing else is left");
}

#[test]
fn a_catalog_image_is_written_like_its_folder() {
    let catalog = folder(&CATALOG);
    let (layout, place) = (folder(&[]), folder(&[]));
    catalog_image(catalog.path()).write_layout(layout.path(), None).expect("written");
    let target = place.path().join("out");
    printed(&["catalog", "migrate", path(layout.path()), path(&target), "--migrate-level=all"]);
    let package = fs::read_to_string(target.join("foo/catalog.json")).expect("written");
    assert!(package.contains("olm.csv.metadata") && !package.contains("olm.bundle.object"), "{package}");
    assert_eq!(
        fs::read_to_string(target.join("catalog.json")).expect("written"),
        "{\n    \"schema\": \"rootless.io\"\n}\n"
    );
}

#[test]
fn what_cannot_be_migrated_leaves_nothing_behind() {
    let catalog = folder(&CATALOG);
    let bundle = bundle("0.1.0");
    let full = folder(&[("a", "b")]);
    let outside = folder(&[
        ("a.yaml", "schema: olm.package\nname: a/b\n"),
        ("b.yaml", "schema: olm.package\nname: aa\n"),
    ]);
    let broken = folder(&[("a.yaml", "schema: 1")]);
    let place = folder(&[]);
    let target = place.path().join("out");
    for (reference, target, wanted) in [
        (path(catalog.path()), full.path(), format!("output dir {:?} must be empty", path(full.path()))),
        (
            path(bundle.path()),
            &target,
            format!(
                "render catalog image: render reference {0:?}: cannot render bundle directory {0:?}: not allowed",
                path(bundle.path())
            ),
        ),
        (
            path(outside.path()),
            &target,
            "invalid package name \"a/b\": must be a single local path element".to_owned(),
        ),
        (path(broken.path()), &target, "expected value for key \"schema\" to be a string".to_owned()),
        (path(catalog.path()), Path::new("/"), "output dir \"/\" must be empty".to_owned()),
    ] {
        let error = refused(&["catalog", "migrate", reference, path(target)]);
        assert!(error.contains(&wanted), "{error}");
        assert_eq!(names(place.path()), [""; 0], "{error}");
    }
    assert_eq!(names(full.path()), ["a"], "what was there stays");
}
