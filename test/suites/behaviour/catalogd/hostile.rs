//! Hostile images: each is refused with a condition that names what is wrong, within bounds of memory and disk,
//! and the other catalogs go on.

use std::{fmt::Write as _, io::Write};

use flate2::{Compression as Level, write::GzEncoder};
use olm_image::{Compression, LayerBuilder, PackedLayer};
use olm_test::{prelude::*, tools::bench::usage};
use tar::{EntryType, Header};

use crate::world::{Alone, Catalog, all, content, files};

/// Far above what catalogd needs, far below what these images ask for. A debug build of it.
const MEMORY_MEGABYTES_MAX: f64 = 419.0;
const APPLYING: &str =
    "True/Retrying/source catalog content: error applying image: error applying layer[0]: ";
const TREE: &str = "True/Retrying/source catalog content: error applying image: ";
const STORING: &str = "True/Retrying/error storing fbc: error walking FBC root: ";

fn header(kind: EntryType, path: &str, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    let name = &mut header.as_old_mut().name;
    name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_cksum();
    header
}

/// A symbolic or a hard link.
fn link(layer: LayerBuilder, kind: EntryType, path: &str, target: &str) -> std::io::Result<LayerBuilder> {
    let mut header = header(kind, path, 0);
    header.set_link_name(target)?;
    header.set_cksum();
    layer.raw(&header, &[])
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Level::new(6));
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// A gzip layer of members, each repeated so many times: what takes gigabytes uncompressed is made in a moment.
fn members(parts: &[(&[u8], usize)]) -> Result<PackedLayer> {
    let mut layer = Vec::new();
    for (bytes, times) in parts {
        let member = gzip(bytes)?;
        (0..*times).for_each(|_| layer.extend_from_slice(&member));
    }
    Ok(PackedLayer::from_bytes(layer, Compression::Gzip))
}

/// Eight gigabytes of zeros.
fn bomb() -> Result<PackedLayer> {
    let head = header(EntryType::Regular, "usr/zeros", 8 << 30);
    members(&[(head.as_bytes(), 1), (&vec![0; 64 << 20], 128)])
}

fn ten_million_entries() -> Result<PackedLayer> {
    let mut part = Vec::new();
    for number in 0..100_000 {
        part.extend_from_slice(header(EntryType::Regular, &format!("usr/{number}"), 0).as_bytes());
    }
    members(&[(&part, 100)])
}

/// A JSON document of one gigabyte, compressed some 60 times.
fn huge_document() -> Result<PackedLayer> {
    let mut random = fastrand::Rng::with_seed(1);
    let pattern: Vec<u8> = std::iter::repeat_with(|| random.alphanumeric() as u8).take(512).collect();
    let mut body: Vec<u8> = pattern.iter().copied().cycle().take(16 << 20).collect();
    for at in (0..body.len()).step_by(200) {
        body[at] = random.alphanumeric() as u8;
    }
    let mut first = header(EntryType::Regular, "configs/catalog.json", 1 << 30).as_bytes().to_vec();
    first.extend_from_slice(b"{\"schema\":\"x\",\"a\":\"");
    let used = first.len() - 512;
    members(&[(&first, 1), (&body[used..], 1), (&body, 63), (&[0; 1024], 1)])
}

fn alias_bomb() -> String {
    let mut text = "schema: x\nl0: &l0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*l{}", level - 1);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "l{level}: &l{level} [{}]", vec![before; 10].join(", "));
    }
    text
}

fn gz() -> LayerBuilder {
    LayerBuilder::new(Compression::Gzip)
}

/// Name, layer, beginning of the condition, and what it names.
type Case = (&'static str, PackedLayer, &'static str, &'static str);

fn cases() -> Result<Vec<Case>> {
    let symlink = |layer, path: &str, target: &str| link(layer, EntryType::Symlink, path, target);
    let leading_to = |target: &str| symlink(gz(), "configs/a.yaml", target).and_then(LayerBuilder::build);
    let deep = format!("configs/{}a.yaml", "d/".repeat(200));
    let nested = format!("{{\"schema\":\"x\",\"a\":{}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let chain = [("a.yaml", "b"), ("b", "c"), ("c", "../../../../etc/passwd")];
    let chained = chain
        .iter()
        .try_fold(gz(), |layer, (name, target)| symlink(layer, &format!("configs/{name}"), target))?
        .build()?;
    let linked = symlink(gz(), "configs/link", "/proc/self/environ")?;
    let linked = link(linked, EntryType::Link, "configs/a.yaml", "configs/link")?.build()?;
    let device = gz().raw(&header(EntryType::Char, "configs/zero", 0), &[])?.build()?;
    Ok(vec![
        ("bomb", bomb()?, APPLYING, "more than 250 times larger uncompressed"),
        ("entries", ten_million_entries()?, APPLYING, "more than 1000000 entries"),
        ("deep-path", gz().file(&deep, "{}")?.build()?, APPLYING, "deeper than 64 components"),
        ("deep-document", gz().file("configs/a.json", nested)?.build()?, STORING, "recursion limit exceeded"),
        ("climbing", gz().file("configs/../../etc/x", "{}")?.build()?, APPLYING, "leaves the image"),
        (
            "absolute-link",
            leading_to("/etc/passwd")?,
            TREE,
            "does not lead to one of the image's wanted files",
        ),
        (
            "relative-link",
            leading_to("../../etc/passwd")?,
            TREE,
            "does not lead to one of the image's wanted files",
        ),
        ("chained-links", chained, TREE, "does not lead to one of the image's wanted files"),
        ("hard-link-to-link", linked, TREE, "does not lead to one of the image's wanted files"),
        ("device", device, APPLYING, "only files, directories and links are allowed"),
        ("huge-document", huge_document()?, STORING, "16777216"),
        (
            "alias-bomb",
            gz().file("configs/a.yaml", alias_bomb())?.build()?,
            STORING,
            "bytes of memory in one text",
        ),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_images_are_refused_within_bounds_and_the_others_go_on() -> Result<()> {
    let alone = Alone::take().await?;
    let (cluster, images) = (&alone.cluster, &alone.registries.images);
    let catalogd = Catalogd::start(cluster, &alone.registries.settings()).await?;
    let good = Catalog::named(cluster, "good").await?;
    let pushed = images.push_catalog(&content(1, 100_000), &format!("{}:v1", good.name)).await?;
    good.put(serde_json::json!({ "ref": format!("{}/{}:v1", images.host(), good.name) })).await?;
    good.serves(&pushed).await?;
    let served = all(&catalogd, &good.name).await?;

    let mut hostile = Vec::new();
    for (name, layer, begins, names) in cases()? {
        images.push_catalog_layers(vec![layer], &format!("{name}:v1")).await?;
        let reference = format!("{}/{name}:v1", images.host());
        hostile.push((Catalog::create(cluster, name, &reference).await?, begins, names));
    }
    let after = Catalog::named(cluster, "after").await?;
    images.push_catalog(&content(2, 100_000), "after:v1").await?;
    after.put(serde_json::json!({ "ref": format!("{}/after:v1", images.host()) })).await?;

    for (catalog, begins, names) in &hostile {
        let text = catalog.shows(Progressing, begins).await?;
        ensure!(text.contains(names), "{}: {text}", catalog.name);
        ensure!(catalog.condition(Serving).await?.is_empty(), "{} serves something", catalog.name);
        ensure!(!text.contains("root:x") && !text.contains("PATH="), "content of this machine: {text}");
    }
    after.shows(Serving, "True/Available").await?;
    ensure!(all(&catalogd, &good.name).await? == served, "the good catalog is served as before");
    let peak = usage::memory(catalogd.process().pid())?.peak;
    println!("peak memory {peak:.0} MB");
    ensure!(peak < MEMORY_MEGABYTES_MAX, "{peak} MB of memory");
    wait::until("nothing of the hostile images to be on disk", DEADLINE, || async {
        let left = files(&catalogd.cache())?;
        let good = |file: &String| {
            [&good.name, &after.name].iter().any(|name| file.starts_with(&format!("catalogs/{name}/")))
        };
        wait::check(left.iter().all(good), || format!("{left:?}"))
    })
    .await?;
    for (catalog, _, _) in &hostile {
        catalog.delete().await?;
    }
    good.delete().await?;
    after.delete().await
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_differ_in_case_are_different_names() -> Result<()> {
    let alone = Alone::take().await?;
    let (cluster, images) = (&alone.cluster, &alone.registries.images);
    let catalogd = Catalogd::start(cluster, &alone.registries.settings()).await?;
    let layer = gz()
        .file("configs/a.json", "{\"schema\":\"lower\"}")?
        .file("configs/A.json", "{\"schema\":\"upper\"}")?
        .file("CONFIGS/b.json", "{\"schema\":\"elsewhere\"}")?
        .file("Configs/.wh.a.json", "")?
        .build()?;
    let pushed = images.push_catalog_layers(vec![layer], "case:v1").await?;
    let catalog = Catalog::create(cluster, "case", &format!("{}/case:v1", images.host())).await?;
    catalog.serves(&pushed).await?;
    let served = all(&catalogd, &catalog.name).await?;
    ensure!(served == "{\"schema\":\"upper\"}\n{\"schema\":\"lower\"}\n", "{served}");
    catalog.delete().await
}
