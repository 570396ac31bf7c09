//! Real catalogs, packed as images, pulled, and served: every query is a filter over the whole, plain and
//! compressed.

use std::{fs::File, io::Read, path::Path, sync::Arc};

use catalogd::{CONFIGS_LABEL, CatalogSource, Pinned};
use olm_image::{Compression, ImageBuilder, LayerBuilder, LayoutRegistry, PackedLayer, Puller, PullerConfig};
use olm_test_programs::data::find;
use serde_json::Value;

use crate::world::{UNPACKED_AT, World, ask};

const GZIP: (&str, &str) = ("accept-encoding", "gzip");

/// Packs a layer as a catalog image, pulls it, and serves it as `c`.
fn serve(layer: PackedLayer) -> World {
    let world = World::new();
    let layout = tempfile::tempdir().unwrap();
    let packed = ImageBuilder::new().label(CONFIGS_LABEL, "/configs").layer(layer).build();
    packed.write_layout(layout.path(), None).unwrap();
    let registry = LayoutRegistry::open(layout.path()).unwrap();
    let reference = registry.image(None).unwrap().to_string();
    let puller = Puller::with_registry(PullerConfig::new(layout.path()), Arc::new(registry));
    let image = world
        .block_on(CatalogSource::pull(&puller, &reference, Pinned::Yes, std::sync::Arc::new(|_| {})))
        .unwrap();
    let at = jiff::Timestamp::from_second(UNPACKED_AT).unwrap();
    world.store.install_image("c", &reference, at, &*image, &|| false).unwrap();
    world.compress("c");
    world
}

#[derive(PartialEq, Eq, Hash, Clone, Copy)]
struct Asked<'a> {
    schema: &'a str,
    package: &'a str,
    name: &'a str,
}

impl Asked<'_> {
    fn target(&self) -> String {
        format!("/catalogs/c/api/v1/metas?schema={}&package={}&name={}", self.schema, self.package, self.name)
    }
}

/// Asks for a sample of queries, each plain and compressed; answers how many answers were compressed.
fn queries_are_filters(world: &World, every: usize) -> (usize, usize) {
    let all = world.get("/catalogs/c/api/v1/all");
    let all_compressed = world.ask("GET", "/catalogs/c/api/v1/all", &[GZIP]);
    assert_eq!(all_compressed.header("content-encoding"), Some("gzip"));
    assert!(all_compressed.decoded() == all.body);
    let lines: Vec<(&str, Value)> =
        all.text().lines().map(|line| (line, serde_json::from_str(line).unwrap())).collect();
    let field =
        |value: &'static str| move |document: &Value| document[value].as_str().unwrap_or("").to_owned();
    let fields: Vec<[String; 3]> =
        lines.iter().map(|(_, line)| ["schema", "package", "name"].map(|name| field(name)(line))).collect();
    let mut sample = std::collections::BTreeSet::new();
    for [schema, package, name] in fields.iter().step_by(every) {
        for chosen in 0..8_u8 {
            let pick = |bit: u8, text: &String| if chosen & bit == 0 { String::new() } else { text.clone() };
            sample.insert([pick(1, schema), pick(2, package), pick(4, name)]);
        }
    }
    sample.remove(&[String::new(), String::new(), String::new()]);
    let mut compressed = 0;
    for wanted in &sample {
        let [schema, package, name] = wanted;
        let asked = Asked { schema, package, name };
        let fits = |own: &[String; 3]| {
            !own[0].is_empty()
                && own.iter().zip(wanted).all(|(own, wanted)| wanted.is_empty() || own == wanted)
        };
        let expected: String = fields
            .iter()
            .zip(&lines)
            .filter(|(own, _)| fits(own))
            .flat_map(|(_, (line, _))| [*line, "\n"])
            .collect();
        let target = asked.target();
        assert!(world.get(&target).body == expected.as_bytes(), "{target}");
        let answer = world.ask("GET", &target, &[GZIP]);
        assert!(answer.decoded() == expected.as_bytes(), "{target}, compressed");
        compressed += usize::from(answer.header("content-encoding").is_some());
    }
    (sample.len(), compressed)
}

#[test]
fn a_tree_of_yaml_files_is_served_whole_and_by_query() {
    let Some(folder) = find("fbc/v4.18") else { return };
    let layer = olm_image::folder_layer(&folder, "/configs", Compression::Gzip).unwrap();
    let world = serve(layer);
    let (asked, compressed) = queries_are_filters(&world, 7);
    println!("{asked} queries, {compressed} of them compressed");
    assert!(asked > 100 && compressed > 30, "{asked}, {compressed}");
}

#[test]
fn a_real_catalog_answers_graphql_as_its_lines_say() {
    let Some(folder) = find("fbc/v4.18") else { return };
    let world = serve(olm_image::folder_layer(&folder, "/configs", Compression::Gzip).unwrap());
    let graphql = |query: &str| -> Value {
        let body = serde_json::json!({"query": query}).to_string();
        let answer = ask(world.address, "POST", "/catalogs/c/api/v1/graphql", &[], &body);
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer["errors"], Value::Null, "{query}");
        answer["data"].clone()
    };
    let summary = graphql("{ summary { schemas { name totalObjects } } }");
    let schemas = summary["summary"]["schemas"].as_array().unwrap();
    assert!(schemas.len() >= 3, "{schemas:?}");
    for schema in schemas {
        let answer =
            world.get(&format!("/catalogs/c/api/v1/metas?schema={}", schema["name"].as_str().unwrap()));
        assert_eq!(schema["totalObjects"], answer.text().lines().count(), "{schema}");
    }
    let answer = world.get("/catalogs/c/api/v1/metas?schema=olm.bundle");
    let bundles: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for offset in (0..bundles.len()).step_by(60) {
        let query = format!(
            "{{ olmbundles(limit: 60, offset: {offset}) {{ name package image properties {{ type value }} }} }}"
        );
        let listed = graphql(&query);
        let listed = listed["olmbundles"].as_array().unwrap();
        assert_eq!(listed.len(), (bundles.len() - offset).min(60));
        for (bundle, listed) in bundles[offset..].iter().zip(listed) {
            for field in ["name", "package", "image"] {
                assert_eq!(bundle[field], listed[field]);
            }
            let properties = bundle["properties"].as_array().unwrap();
            assert_eq!(properties.len(), listed["properties"].as_array().unwrap().len());
            for (property, listed) in properties.iter().zip(listed["properties"].as_array().unwrap()) {
                assert_eq!(property["type"], listed["type"]);
                let text = match &property["value"] {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                assert_eq!(listed["value"], text);
            }
        }
    }
}

#[test]
fn a_large_catalog_is_served_whole_and_by_query() {
    let Some(file) = find("community.jsonl.zst") else { return };
    let world = serve(large(&file));
    let (asked, compressed) = queries_are_filters(&world, 401);
    println!("{asked} queries, {compressed} of them compressed");
    assert!(asked > 80 && compressed > 30, "{asked}, {compressed}");
}

fn large(file: &Path) -> PackedLayer {
    let mut content = Vec::new();
    zstd::Decoder::new(File::open(file).unwrap()).unwrap().read_to_end(&mut content).unwrap();
    let layer = LayerBuilder::new(Compression::Gzip).file("configs/catalog.json", content).unwrap();
    layer.build().unwrap()
}
