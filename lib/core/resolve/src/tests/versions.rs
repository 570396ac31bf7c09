//! The versions of a package, as people choose among them.

use olm_fbc::{Deprecation, DeprecationEntry, PackageReference};

use super::case::package;
use crate::PackageVersions;

#[test]
fn versions_come_from_the_highest_with_their_channels_and_deprecations() {
    let mut content = package("p", ["1.2.0 in a,b", "1.10.0 in b deprecated", "1.9.0 in a"]);
    content.packages[0].default_channel = "a".to_owned();
    let entry = |schema: &str, name: &str, message: &str| DeprecationEntry {
        reference: PackageReference { schema: schema.to_owned(), name: name.to_owned() },
        message: message.to_owned(),
    };
    let entries = [entry("olm.channel", "b", "use a"), entry("olm.package", "", "use q")];
    content.deprecations[0].entries.extend(entries);
    content
        .deprecations
        .push(Deprecation { package: "p".to_owned(), entries: vec![entry("olm.channel", "a", "no")] });

    let listed = PackageVersions::of(&content);
    let versions: Vec<String> =
        listed.versions.iter().map(|one| format!("{} {}", one.version, one.channels.join(","))).collect();
    assert_eq!(versions, ["1.10.0 b", "1.9.0 a", "1.2.0 a,b"]);
    assert!(listed.versions[0].deprecation.is_some() && listed.versions[1].deprecation.is_none());
    let channels: Vec<String> = listed
        .channels
        .iter()
        .map(|one| {
            format!("{} {} {} {:?}", one.name, one.highest.as_ref().unwrap(), one.bundles, one.deprecation)
        })
        .collect();
    assert_eq!(channels, ["a 1.9.0 2 None", "b 1.10.0 2 Some(\"use a\")"]);
    assert_eq!((listed.default_channel.as_str(), listed.deprecation.as_deref()), ("a", Some("use q")));
}
