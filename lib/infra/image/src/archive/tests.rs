use tar::{EntryType, Header};

use super::{ArchiveError, Unpacker};
use crate::{
    Compression, DiskBudget, Files, LayerBuilder, PackedLayer,
    limits::{EXTENSION_HEADER_BYTES_MAX, Limits},
    select::Select,
    spool::Spool,
};

/// Layers from the lowest up, as a catalog's `/configs`.
struct Image {
    layers: Vec<PackedLayer>,
    limits: Limits,
}

fn image<const N: usize>(layers: [LayerBuilder; N]) -> Image {
    let layers = layers.into_iter().map(|layer| layer.build().expect("packs")).collect();
    Image { layers, limits: Limits::default() }
}

fn layer() -> LayerBuilder {
    LayerBuilder::new(Compression::None)
}

impl Image {
    fn limited(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    fn files(&self) -> Result<Files, ArchiveError> {
        let select = Select::paths(["/configs"]).expect("valid");
        let mut spool = Spool::new(std::env::temp_dir(), &DiskBudget::default());
        let mut unpacker = Unpacker::new(&select, self.limits, &mut spool);
        for (index, layer) in self.layers.iter().enumerate() {
            unpacker.apply(index, &mut tar::Archive::new(&layer.bytes()[..]))?;
        }
        let resolved = unpacker.into_tree().resolve(&self.limits)?;
        Ok(Files::new(resolved, spool.finish().expect("finishes")))
    }

    /// `path=content` of each file.
    fn contents(&self) -> Vec<String> {
        let files = self.files().expect("unpacks");
        let content =
            |path: &str| String::from_utf8(files.read(path, 1 << 20).expect("reads")).expect("text");
        files.paths().map(|path| format!("{path}={}", content(path))).collect()
    }

    fn error(&self) -> String {
        self.files().expect_err("refused").to_string()
    }
}

/// Adds an entry; every builder call can fail, which no test wants.
macro_rules! with {
    ($layer:expr $(, $method:ident($($argument:expr),*))* $(,)?) => {
        $layer$(.$method($($argument),*).expect("packs"))*
    };
}

mod links;
mod properties;

fn header(kind: EntryType, name: &str, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

/// One PAX record, its length included.
fn record(key: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {key}={value}\n");
    let length =
        (1..100).find(|length: &usize| length.to_string().len() + rest.len() == *length).expect("a length");
    format!("{length}{rest}").into_bytes()
}

#[test]
fn only_what_lies_under_the_wanted_path_is_kept() {
    let layer = with!(
        layer(),
        file("etc/passwd", "root"),
        directory("configs"),
        file("./configs/a/x", "1"),
        file("/configs//b", "2"),
        file("configs2", "3"),
        file("configs/../configs/c", "4"),
    );
    assert_eq!(image([layer]).contents(), ["configs/a/x=1", "configs/b=2", "configs/c=4"]);
}

#[test]
fn whiteouts_act_on_lower_layers_only_whatever_the_order_of_entries() {
    let lower =
        || with!(layer(), file("configs/a", "old"), file("configs/b/x", "old"), file("configs/c", "keep"));
    let upper = with!(layer(), file("configs/b/y", "new"), opaque("configs/b"), whiteout("configs/a"));
    assert_eq!(image([lower(), upper]).contents(), ["configs/b/y=new", "configs/c=keep"]);
    let upper = with!(layer(), directory("configs"), file("configs/n", "new"), opaque("configs"));
    assert_eq!(image([lower(), upper]).contents(), ["configs/n=new"]);
    let upper = with!(layer(), whiteout("configs/absent"));
    assert_eq!(image([lower(), upper]).contents().len(), 3);
}

#[test]
fn a_whiteout_above_the_wanted_path_counts() {
    // A filtered catalog as mirroring tools build it: the folder goes, a new one comes.
    let lower = || with!(layer(), file("configs/a", "unfiltered"));
    let before = with!(layer(), whiteout("configs"), file("configs/b", "filtered"));
    let after = with!(layer(), file("configs/b", "filtered"), whiteout("configs"));
    let root = with!(layer(), opaque(""), file("configs/b", "filtered"));
    for upper in [before, after, root] {
        assert_eq!(image([lower(), upper]).contents(), ["configs/b=filtered"]);
    }
}

#[test]
fn a_file_in_the_place_of_a_folder_hides_what_was_in_it() {
    let lower = || with!(layer(), file("configs/a/x", "1"), file("configs/b", "2"));
    let upper = with!(layer(), file("configs/a", "now a file"));
    assert_eq!(image([lower(), upper]).contents(), ["configs/a=now a file", "configs/b=2"]);
    let upper = with!(layer(), symlink("configs/a", "b"));
    assert_eq!(image([lower(), upper]).contents(), ["configs/a=2", "configs/b=2"]);
    let upper = with!(layer(), directory("configs/b"), file("configs/b/y", "3"));
    assert_eq!(image([lower(), upper]).contents(), ["configs/a/x=1", "configs/b/y=3"]);
}

#[test]
fn names_that_climb_out_of_the_image_are_refused() {
    for name in ["../configs/x", "configs/../../x", "/..", "a/../../configs/x"] {
        let error = image([with!(layer(), file(name, "x"))]).error();
        assert_eq!(error, format!("path {name:?} leaves the image"));
    }
}

#[test]
fn symbolic_links_lead_to_wanted_files_or_are_refused() {
    let with_link = |target: &str| {
        image([with!(
            layer(),
            file("etc/passwd", "root"),
            file("configs/a/real", "content"),
            symlink("configs/a/link", target),
        )])
    };
    for target in ["real", "./real", "../a/real", "/configs/a/real", "/configs/../configs/a//real"] {
        assert_eq!(with_link(target).contents()[0], "configs/a/link=content", "{target}");
    }
    for target in
        ["/etc/passwd", "../../etc/passwd", "../../../configs/a/real", "absent", "link", "real/x", ""]
    {
        let error = with_link(target).error();
        let wanted = "symbolic link \"configs/a/link\" does not lead to one of the image's wanted files";
        assert_eq!(error, wanted, "{target}");
    }
}

#[test]
fn chains_of_links_are_followed_through_folders_but_not_in_circles() {
    let projected = with!(
        layer(),
        file("configs/..2024/a.yaml", "projected"),
        symlink("configs/..data", "..2024"),
        symlink("configs/a.yaml", "..data/a.yaml"),
    );
    assert_eq!(
        image([projected]).contents(),
        ["configs/..2024/a.yaml=projected", "configs/a.yaml=projected"]
    );
    let circle = with!(layer(), symlink("configs/a", "b"), symlink("configs/b", "a"));
    assert!(image([circle]).error().contains("does not lead to"));
    let mut long = with!(layer(), file("configs/l0", "end"));
    for index in 1..40 {
        long = with!(long, symlink(&format!("configs/l{index}"), &format!("l{}", index - 1)));
    }
    assert!(image([long]).error().contains("does not lead to"));
}

#[test]
fn an_entry_that_goes_through_a_link_is_refused() {
    let layer = with!(layer(), symlink("configs/d", "/tmp"), file("configs/d/f", "x"));
    assert_eq!(
        image([layer]).error(),
        "path \"configs/d/f\" goes through \"configs/d\", which is not a directory"
    );
}

#[test]
fn hard_links_share_the_bytes_of_wanted_files_only() {
    let lower = with!(layer(), file("etc/shadow", "secret"), file("configs/a", "content"));
    let upper = with!(layer(), hard_link("configs/b", "/configs/a"), hard_link("configs/c", "configs/b"));
    assert_eq!(
        image([lower, upper]).contents(),
        ["configs/a=content", "configs/b=content", "configs/c=content"]
    );
    for target in ["etc/shadow", "configs/absent", "configs", "../etc/shadow"] {
        let layer = with!(layer(), directory("configs"), hard_link("configs/x", target));
        let text = image([layer]).files().expect_err("refused").to_string();
        assert!(text.starts_with("hard link ") || text.ends_with(" leaves the image"), "{text}");
    }
}

#[test]
fn a_hard_link_to_a_symbolic_link_is_that_link_and_no_way_out() {
    let inside = with!(
        layer(),
        file("configs/a", "1"),
        symlink("configs/s", "a"),
        hard_link("configs/h", "configs/s")
    );
    assert_eq!(image([inside]).contents(), ["configs/a=1", "configs/h=1", "configs/s=1"]);
    let outside = with!(layer(), symlink("configs/s", "/etc/passwd"), hard_link("configs/h", "configs/s"));
    assert!(image([outside]).error().contains("does not lead to"));
}

#[test]
fn a_link_that_was_replaced_no_longer_matters() {
    let lower = with!(layer(), symlink("configs/a", "/etc/passwd"));
    let upper = with!(layer(), file("configs/a", "fine"));
    assert_eq!(image([lower, upper]).contents(), ["configs/a=fine"]);
}

#[test]
fn devices_and_fifos_are_refused_among_wanted_files_and_skipped_elsewhere() {
    for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo] {
        let inside = with!(layer(), raw(&header(kind, "configs/d", 0), &[]));
        assert!(image([inside]).error().starts_with("refusing entry \"configs/d\" with type"));
        let outside = with!(layer(), raw(&header(kind, "dev/d", 0), &[]), file("configs/a", "1"));
        assert_eq!(image([outside]).contents(), ["configs/a=1"]);
    }
}

#[test]
fn sizes_that_disagree_are_refused() {
    let pax = record("size", "512");
    let layer = || {
        with!(
            layer(),
            raw(&header(EntryType::XHeader, "pax", pax.len() as u64), &pax),
            raw(&header(EntryType::Regular, "etc/x", 1024), &[b'x'; 1024]),
        )
    };
    assert_eq!(image([layer()]).error(), "entry \"etc/x\" has two different sizes");
    let same = record("size", "3");
    let agreeing = with!(
        self::layer(),
        raw(&header(EntryType::XHeader, "pax", same.len() as u64), &same),
        raw(&header(EntryType::Regular, "configs/x", 3), b"abc"),
    );
    assert_eq!(image([agreeing]).contents(), ["configs/x=abc"]);
}

#[test]
fn data_behind_links_and_folders_is_refused() {
    for kind in [EntryType::Directory, EntryType::Link, EntryType::Symlink, EntryType::Fifo] {
        let layer = with!(layer(), raw(&header(kind, "etc/x", 512), &[0; 512]));
        assert_eq!(image([layer]).error(), "entry \"etc/x\" has data, though its type has none");
    }
}

#[test]
fn sparse_files_are_refused_in_both_spellings() {
    let old = with!(layer(), raw(&header(EntryType::GNUSparse, "etc/x", 0), &[]));
    assert!(image([old]).error().contains("sparse"));
    let pax = record("GNU.sparse.realsize", "99999999");
    let new = with!(layer(), raw(&header(EntryType::XHeader, "pax", pax.len() as u64), &pax));
    assert!(image([new]).error().contains("sparse"));
}

#[test]
fn long_names_are_read_in_both_spellings() {
    let long = format!("configs/{}/x", "n".repeat(120));
    let pax = with!(layer(), file(&long, "1"));
    assert_eq!(image([pax]).contents(), [format!("{long}=1")]);
    let mut name = long.clone().into_bytes();
    name.push(0);
    let gnu = with!(
        layer(),
        raw(&header(EntryType::GNULongName, "././@LongLink", name.len() as u64), &name),
        raw(&header(EntryType::Regular, "configs/cut", 1), b"1"),
    );
    assert_eq!(image([gnu]).contents(), [format!("{long}=1")]);
}

#[test]
fn two_different_names_for_one_entry_are_refused() {
    let (pax, gnu) = (record("path", "configs/a"), b"configs/b\0");
    let layer = with!(
        layer(),
        raw(&header(EntryType::XHeader, "pax", pax.len() as u64), &pax),
        raw(&header(EntryType::GNULongName, "l", gnu.len() as u64), gnu),
        file("configs/c", "x"),
    );
    assert_eq!(image([layer]).error(), "malformed extension header");
    let global = with!(layer_with_global("path", "configs/x"), file("configs/c", "x"));
    assert_eq!(image([global]).error(), "malformed extension header");
    let comment = with!(layer_with_global("comment", "a commit"), file("configs/c", "x"));
    assert_eq!(image([comment]).contents(), ["configs/c=x"]);
}

fn layer_with_global(key: &str, value: &str) -> LayerBuilder {
    let record = record(key, value);
    with!(layer(), raw(&header(EntryType::XGlobalHeader, "g", record.len() as u64), &record))
}

#[test]
fn extension_headers_have_a_limit() {
    let size = EXTENSION_HEADER_BYTES_MAX + 1;
    let layer = with!(layer(), raw(&header(EntryType::GNULongName, "l", size), b""));
    let text = image([layer]).files().expect_err("refused").to_string();
    assert!(text.contains("extension headers"), "{text}");
    let half = vec![b'x'; usize::try_from(EXTENSION_HEADER_BYTES_MAX / 2 + 1).expect("fits")];
    let long_name = header(EntryType::GNULongName, "l", half.len() as u64);
    let long_link = header(EntryType::GNULongLink, "l", half.len() as u64);
    let layer = with!(self::layer(), raw(&long_name, &half), raw(&long_link, &half));
    let text = image([layer]).files().expect_err("refused").to_string();
    assert!(text.contains("extension headers"), "{text}");
}

#[test]
fn every_limit_is_enforced() {
    let files = || {
        image([with!(
            layer(),
            file("etc/a", "0123456789"),
            file("configs/a/b/c", "0123456789"),
            file("configs/d", "0123456789"),
        )])
    };
    assert_eq!(files().contents().len(), 2);
    for (limited, wanted) in [
        (files().limited(|l| l.entries_max = 2), "more than 2 entries"),
        (files().limited(|l| l.kept_entries_max = 1), "more than 1 wanted files and directories"),
        (
            files().limited(|l| l.kept_path_bytes_max = 20),
            "the paths of the wanted files have more than 20 bytes",
        ),
        (files().limited(|l| l.path_bytes_max = 12), "a path of the archive is longer than 12 bytes"),
        (files().limited(|l| l.path_depth_max = 3), "path \"configs/a/b/c\" is deeper than 3 components"),
        (files().limited(|l| l.file_bytes_max = 9), "file \"configs/a/b/c\" is larger than 9 bytes"),
        (files().limited(|l| l.total_bytes_max = 19), "the wanted files have more than 19 bytes"),
    ] {
        assert_eq!(limited.error(), wanted);
    }
}

#[test]
fn archives_that_ask_for_endless_work_are_stopped() {
    let limited = |layer: LayerBuilder| image([layer]).limited(|limits| limits.tree_steps_max = 10);
    let wanted = "the whiteouts and links take more than 10 steps to resolve";
    let mut whiteouts = with!(layer(), file("configs/a", ""), file("configs/b", ""));
    for _ in 0..5 {
        whiteouts = with!(whiteouts, opaque(""));
    }
    assert_eq!(limited(with!(whiteouts, file("configs/c", ""))).contents().len(), 3);
    let mut whiteouts = with!(layer(), file("configs/a", ""), file("configs/b", ""));
    for _ in 0..6 {
        whiteouts = with!(whiteouts, opaque(""));
    }
    assert_eq!(limited(whiteouts).error(), wanted);
    let links = with!(
        layer(),
        file("configs/a", ""),
        symlink("configs/b", &format!("{}a", "./../configs/".repeat(6)))
    );
    assert_eq!(limited(links).error(), wanted);
    // Folders that are only implied take memory too.
    let deep = with!(layer(), file(&format!("configs/{}", "d/".repeat(40) + "f"), ""));
    let error = image([deep]).limited(|limits| limits.kept_path_bytes_max = 100).error();
    assert_eq!(error, "the paths of the wanted files have more than 100 bytes");
}

#[test]
fn links_count_as_often_as_they_can_be_read() {
    let layer = || {
        with!(
            layer(),
            file("configs/a", "0123456789"),
            hard_link("configs/b", "configs/a"),
            symlink("configs/c", "a"),
        )
    };
    assert_eq!(image([layer()]).limited(|l| l.total_bytes_max = 30).contents().len(), 3);
    let error = image([layer()]).limited(|l| l.total_bytes_max = 29).error();
    assert_eq!(error, "the wanted files have more than 29 bytes");
}

#[test]
fn what_is_not_an_archive_or_cut_short_is_refused() {
    let whole = with!(layer(), file("configs/a", "x".repeat(2000))).build().expect("packs");
    for (length, inside) in [(700, true), (300, false)] {
        let cut = PackedLayer::from_bytes(whole.bytes().slice(..length), Compression::None);
        let image = Image { layers: vec![cut], limits: Limits::default() };
        let error = image.error();
        assert!(error.contains(if inside { "unexpected EOF in entry" } else { "" }), "{error}");
    }
    let garbage = PackedLayer::from_bytes(vec![b'x'; 2048], Compression::None);
    assert!(Image { layers: vec![garbage], limits: Limits::default() }.files().is_err());
}

/// What GNU tar makes of a folder, in each of its formats, is what is read here.
#[test]
fn archives_of_gnu_tar_are_read_as_gnu_tar_lists_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let configs = folder.path().join("configs");
    let deep = configs.join("d".repeat(80)).join("e".repeat(80));
    std::fs::create_dir_all(&deep).expect("made");
    std::fs::write(configs.join("a.yaml"), "a").expect("written");
    std::fs::write(deep.join("long.yaml"), "long").expect("written");
    std::fs::hard_link(configs.join("a.yaml"), configs.join("hard")).expect("linked");
    std::os::unix::fs::symlink("a.yaml", configs.join("soft")).expect("linked");
    for format in ["gnu", "pax", "ustar", "oldgnu"] {
        let tar = |arguments: &[&str]| {
            let mut command = std::process::Command::new("tar");
            command.current_dir(folder.path()).args(arguments);
            command.output()
        };
        let Ok(made) = tar(&["-cf", "x.tar", "--format", format, "configs"]) else {
            olm_test_programs::data::skip("there is no tar program on this machine");
            return;
        };
        assert!(made.status.success(), "{made:?}");
        let listed = String::from_utf8(tar(&["-tf", "x.tar"]).expect("runs").stdout).expect("text");
        let mut listed: Vec<_> = listed.lines().filter(|line| !line.ends_with('/')).collect();
        listed.sort_unstable();
        let bytes = std::fs::read(folder.path().join("x.tar")).expect("reads");
        let layers = vec![PackedLayer::from_bytes(bytes, Compression::None)];
        let files = Image { layers, limits: Limits::default() }.files().expect("unpacks");
        assert_eq!(files.paths().collect::<Vec<_>>(), listed, "{format}");
        assert_eq!(files.read("configs/soft", 10).expect("reads"), b"a");
        let sizes: Vec<_> = files.paths().filter_map(|path| files.size(path)).collect();
        assert_eq!(sizes, [1, 4, 1, 1], "{format}");
    }
}
