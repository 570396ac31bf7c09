use proptest::prelude::*;

use super::*;

/// One entry of a generated layer.
fn entry() -> impl Strategy<Value = (u8, String, String)> {
    let component = prop_oneof![
        4 => "[ab]",
        1 => Just("..".to_owned()),
        1 => Just(String::new()),
        1 => Just(".wh.a".to_owned()),
        1 => Just(".wh..wh..opq".to_owned()),
    ];
    let path = prop::collection::vec(component.clone(), 0..4)
        .prop_map(|parts| format!("configs/{}", parts.join("/")));
    let target = prop::collection::vec(component, 0..5).prop_map(|parts| parts.join("/"));
    (0_u8..4, path, target)
}

fn build(entries: &[(u8, String, String)]) -> LayerBuilder {
    entries.iter().fold(layer(), |layer, (kind, path, target)| match kind {
        0 => with!(layer, file(path, path)),
        1 => with!(layer, directory(path)),
        2 => with!(layer, symlink(path, target)),
        _ => with!(layer, hard_link(path, &format!("configs/{target}"))),
    })
}

proptest! {
    #[test]
    fn whatever_the_entries_only_files_under_the_wanted_path_come_out(
        lower in prop::collection::vec(entry(), 0..8),
        upper in prop::collection::vec(entry(), 0..8),
    ) {
        if let Ok(files) = image([build(&lower), build(&upper)]).files() {
            for path in files.paths() {
                prop_assert!(path.starts_with("configs/") || path == "configs");
                prop_assert!(!path.split('/').any(|part| part.is_empty() || part == ".." || part.starts_with(".wh.")));
                let content = files.read(path, 1 << 10).expect("reads");
                prop_assert!(content.is_empty() || content.starts_with(b"configs/"));
            }
        }
    }

    #[test]
    fn damaged_archives_are_refused_or_read_but_never_panic(
        entries in prop::collection::vec(entry(), 1..6),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = build(&entries).build().expect("packs").bytes().to_vec();
        for (index, value) in damage {
            let index = index.index(bytes.len());
            bytes[index] = value;
        }
        let layers = vec![PackedLayer::from_bytes(bytes, Compression::None)];
        let _ = Image { layers, limits: Limits::default() }.files().map(|files| files.paths().count());
    }
}
