//! Progress on a terminal; elsewhere there is none, which every other test here shows.

use std::{fs::File, io::Read, os::fd::OwnedFd, process::Stdio};

use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use super::{bundle, bundle_image, command, registry::Registry};

/// Both ends of a terminal.
fn terminal() -> (File, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("granted");
    unlockpt(&ours).expect("unlocked");
    let name = ptsname(&ours, Vec::new()).expect("a name");
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("opens");
    (File::from(ours), theirs)
}

#[test]
fn pulls_are_followed_on_a_terminal_and_the_line_is_gone_at_the_end() {
    let images = ["1.0.0", "1.1.0"].map(|version| bundle_image(bundle(version).path()));
    let registry = Registry::serve(&[("foo:1", &images[0]), ("foo:2", &images[1])]);
    let [flag, host] = registry.trusted();
    let references = ["foo:1", "foo:2"].map(|name| registry.reference(name));
    let (mut ours, theirs) = terminal();
    let mut child = command(&["catalog", "render", &references[0], &references[1], &flag, &host])
        .env("TERM", "xterm")
        .stdout(Stdio::piped())
        .stderr(theirs)
        .spawn()
        .expect("runs");
    let mut shown = Vec::new();
    let mut chunk = [0; 4096];
    // The other end is gone with the process, which reading tells as an error.
    while let Ok(length @ 1..) = ours.read(&mut chunk) {
        shown.extend_from_slice(&chunk[..length]);
    }
    let mut catalog = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut catalog).expect("text");
    assert!(child.wait().expect("ends").success());
    let shown = String::from_utf8(shown).expect("text");
    assert!(shown.contains("rendering 0/2 ["), "{shown:?}");
    assert!(shown.ends_with("\r\u{1b}[2K"), "{shown:?}");
    assert!(
        catalog.starts_with("{\n    \"schema\": \"olm.bundle\""),
        "the catalog itself is untouched: {catalog}"
    );
}
