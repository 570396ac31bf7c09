//! Every method over gRPC, beside the answers that `opm serve` gave on the same catalog. What upstream answers in random
//! order was recorded in the order of its JSON; of a query with several right answers all were recorded.
#![expect(clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod world;

use http::uri::PathAndQuery;
use olm_registry::{Proxy, RegistryClient, api};
use olm_test_programs::data;
use prost_types::{Struct, value::Kind};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tonic::{Request, Status, client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;
use world::World;

type Answer = Result<Value, Status>;

fn path(method: &str) -> PathAndQuery {
    let service = if method.starts_with("Experimental") { "ExperimentalRegistry" } else { "Registry" };
    format!("/api.{service}/{method}").parse().expect("a path")
}

async fn one<Q: prost::Message + 'static, A: prost::Message + Default + 'static>(
    channel: &Channel,
    method: &str,
    asked: Q,
    json: fn(A) -> Value,
) -> Answer {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.expect("connected");
    let answer = grpc.unary(Request::new(asked), path(method), ProstCodec::default()).await?;
    Ok(json(answer.into_inner()))
}

async fn many<Q: prost::Message + 'static, A: prost::Message + Default + 'static>(
    channel: &Channel,
    method: &str,
    asked: Request<Q>,
    json: fn(A) -> Value,
) -> Result<Vec<Value>, Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.expect("connected");
    let mut messages = grpc.server_streaming(asked, path(method), ProstCodec::default()).await?.into_inner();
    let mut found = Vec::new();
    while let Some(message) = messages.message().await? {
        found.push(json(message));
    }
    Ok(found)
}

/// Members that are not empty, as the JSON of protocol buffers has them.
fn object(members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let is_empty = |value: &Value| match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        _ => false,
    };
    let members = members.into_iter().filter(|(_, value)| !is_empty(value));
    Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect())
}

fn deprecation(deprecation: Option<api::Deprecation>) -> Value {
    deprecation.map_or(Value::Null, |one| object([("message", json!(one.message))]))
}

fn package(package: api::Package) -> Value {
    let channels = package.channels.into_iter().map(|channel| {
        object([
            ("name", json!(channel.name)),
            ("csvName", json!(channel.csv_name)),
            ("deprecation", deprecation(channel.deprecation)),
        ])
    });
    object([
        ("name", json!(package.name)),
        ("channels", channels.collect()),
        ("defaultChannelName", json!(package.default_channel_name)),
        ("deprecation", deprecation(package.deprecation)),
    ])
}

fn kinds(kinds: Vec<api::GroupVersionKind>) -> Value {
    let kinds = kinds.into_iter().map(|kind| {
        object([
            ("group", json!(kind.group)),
            ("version", json!(kind.version)),
            ("kind", json!(kind.kind)),
            ("plural", json!(kind.plural)),
        ])
    });
    kinds.collect()
}

fn bundle(bundle: api::Bundle) -> Value {
    let pair = |kind: String, value: String| object([("type", json!(kind)), ("value", json!(value))]);
    let dependencies = bundle.dependencies.into_iter().map(|one| pair(one.r#type, one.value));
    let properties = bundle.properties.into_iter().map(|one| pair(one.r#type, one.value));
    object([
        ("csvName", json!(bundle.csv_name)),
        ("packageName", json!(bundle.package_name)),
        ("channelName", json!(bundle.channel_name)),
        ("csvJson", json!(bundle.csv_json)),
        ("object", json!(bundle.object)),
        ("bundlePath", json!(bundle.bundle_path)),
        ("providedApis", kinds(bundle.provided_apis)),
        ("requiredApis", kinds(bundle.required_apis)),
        ("version", json!(bundle.version)),
        ("skipRange", json!(bundle.skip_range)),
        ("dependencies", dependencies.collect()),
        ("properties", properties.collect()),
        ("replaces", json!(bundle.replaces)),
        ("skips", json!(bundle.skips)),
        ("deprecation", deprecation(bundle.deprecation)),
    ])
}

fn entry(entry: api::ChannelEntry) -> Value {
    object([
        ("packageName", entry.package_name.into()),
        ("channelName", entry.channel_name.into()),
        ("bundleName", entry.bundle_name.into()),
        ("replaces", entry.replaces.into()),
    ])
}

fn structure(one: Struct) -> Value {
    fn value(one: prost_types::Value) -> Value {
        match one.kind {
            None | Some(Kind::NullValue(_)) => Value::Null,
            Some(Kind::BoolValue(bool)) => json!(bool),
            Some(Kind::NumberValue(number)) => json!(number),
            Some(Kind::StringValue(text)) => json!(text),
            Some(Kind::ListValue(list)) => list.values.into_iter().map(value).collect(),
            Some(Kind::StructValue(one)) => structure(one),
        }
    }
    Value::Object(one.fields.into_iter().map(|(key, one)| (key, value(one))).collect::<Map<_, _>>())
}

fn sorted(mut values: Vec<Value>) -> Value {
    values.sort_by_key(Value::to_string);
    Value::Array(values)
}

/// Numbers without their kinds: protocol buffers have only one.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, one)| (key.clone(), plain(one))).collect())
        }
        other => other.clone(),
    }
}

/// Asks what a line of the recording asked.
async fn ask(channel: &Channel, method: &str, asked: &Value) -> Answer {
    let text = |at: usize| asked[at].as_str().unwrap_or_default().to_owned();
    let name = asked.as_str().unwrap_or_default().to_owned();
    let (group, version, kind, plural) = (text(0), text(1), text(2), String::new());
    match method {
        "ListPackages" => {
            let asked = Request::new(api::ListPackageRequest {});
            many(channel, method, asked, |package: api::PackageName| json!(package.name)).await.map(sorted)
        }
        "ListBundles" => {
            many(channel, method, Request::new(api::ListBundlesRequest {}), bundle).await.map(Value::Array)
        }
        "GetPackage" => one(channel, method, api::GetPackageRequest { name }, package).await,
        "GetBundle" => {
            let asked = api::GetBundleRequest { pkg_name: text(0), channel_name: text(1), csv_name: text(2) };
            one(channel, method, asked, bundle).await
        }
        "GetBundleForChannel" => {
            let asked = api::GetBundleInChannelRequest { pkg_name: text(0), channel_name: text(1) };
            one(channel, method, asked, bundle).await
        }
        "GetBundleThatReplaces" => {
            let asked =
                api::GetReplacementRequest { csv_name: text(0), pkg_name: text(1), channel_name: text(2) };
            one(channel, method, asked, bundle).await
        }
        "GetChannelEntriesThatReplace" => {
            let asked = Request::new(api::GetAllReplacementsRequest { csv_name: name });
            many(channel, method, asked, entry).await.map(sorted)
        }
        "GetChannelEntriesThatProvide" => {
            let asked = Request::new(api::GetAllProvidersRequest { group, version, kind, plural });
            many(channel, method, asked, entry).await.map(sorted)
        }
        "GetLatestChannelEntriesThatProvide" => {
            let asked = Request::new(api::GetLatestProvidersRequest { group, version, kind, plural });
            many(channel, method, asked, entry).await.map(sorted)
        }
        "GetDefaultBundleThatProvides" => {
            one(channel, method, api::GetDefaultProviderRequest { group, version, kind, plural }, bundle)
                .await
        }
        _ => {
            let message =
                api::ExperimentalListPackageCustomSchemasRequest { schema: text(1), package_name: text(2) };
            let mut request = Request::new(message);
            if asked[0] == 1 {
                let value = "true".parse().expect("a header");
                request.metadata_mut().insert("x-acknowledge-experimental", value);
            }
            many(channel, method, request, structure).await.map(Value::Array)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_upstreams() {
    let mut compared = 0;
    for (folder, catalog, answers) in samples() {
        let world = World::start(&catalog);
        let channel = world.channel("kiosk.olm.svc:50051");
        for line in answers.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let recorded: Value = serde_json::from_slice(line).expect("JSON");
            let method = recorded["method"].as_str().expect("a method");
            let place = format!("{folder}: {method} {}", recorded["request"]);
            let expected = plain(&recorded["answer"]);
            match ask(&channel, method, &recorded["request"]).await.map(|answer| plain(&answer)) {
                Err(status) => {
                    let (code, text) = (format!("{:?}", status.code()), status.message());
                    assert_eq!((code.as_str(), text), (code_of(&recorded), text_of(&recorded)), "{place}");
                }
                Ok(answer) if method == "GetBundleThatReplaces" => {
                    let outcomes = expected.as_array().expect("outcomes");
                    assert!(outcomes.contains(&answer), "{place}: {answer}");
                }
                // An empty list is left out of the recording.
                Ok(Value::Array(items)) if items.is_empty() => {
                    assert!(
                        recorded.get("code").is_none() && expected.as_array().is_none_or(Vec::is_empty),
                        "{place}"
                    );
                }
                Ok(answer) => assert_eq!(answer, expected, "{place}"),
            }
            compared += 1;
        }
    }
    println!("{compared} answers of the registry API were compared with upstream's");
    assert!(compared > 90, "{compared}");
}

fn code_of(recorded: &Value) -> &str {
    recorded["code"].as_str().unwrap_or("there is an answer")
}

fn text_of(recorded: &Value) -> &str {
    recorded["message"].as_str().unwrap_or_default()
}

/// The sample, and the answers about real catalogs where they are present.
fn samples() -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let mut samples = Vec::new();
    for folder in [data::sample().join("registry")].into_iter().chain(data::find("registry")) {
        for entry in std::fs::read_dir(&folder).expect("the sample") {
            let path = entry.expect("an entry").path();
            let catalog = std::fs::read(path.join("catalog.jsonl")).expect("a catalog");
            let answers = std::fs::File::open(path.join("answers.jsonl.zst")).expect("answers");
            let answers = zstd::decode_all(answers).expect("compressed");
            samples.push((path.display().to_string(), catalog, answers));
        }
    }
    samples
}

/// The sample's catalog.
fn sample() -> Vec<u8> {
    std::fs::read(data::sample().join("registry/kiosk/catalog.jsonl")).expect("the sample")
}

async fn read(client: &RegistryClient) -> (Vec<u8>, String) {
    let mut lines = Vec::new();
    let documents = client
        .documents(|line| {
            lines.extend_from_slice(line);
            Ok(())
        })
        .await
        .expect("a catalog");
    assert_eq!(documents.left_out(), 0);
    (lines, documents.digest())
}

fn client(world: &World) -> RegistryClient {
    RegistryClient::new(&world.address).expect("an address")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_was_read_is_answered_with_as_the_server_did() {
    let first = World::start(&sample());
    let (lines, digest) = read(&client(&first)).await;
    let second = World::start(&lines);
    let (original, copy) = (client(&first), client(&second));
    let packages = original.packages().await.expect("packages");
    assert_eq!(packages, ["kiosk", "stand"]);
    assert_eq!(copy.packages().await.expect("packages"), packages);
    for name in &packages {
        let package = original.package(name).await.expect("a package");
        assert_eq!(copy.package(name).await.expect("a package"), package);
        for channel in &package.channels {
            let head = original.head(name, &channel.name).await.expect("a head");
            let mut found = copy.head(name, &channel.name).await.expect("a head");
            if !head.bundle_path.is_empty() {
                // Manifests that are in the image too are not read.
                found.object.clone_from(&head.object);
            }
            assert_eq!(found, head);
        }
    }
    let bundles = async |client: &RegistryClient| {
        let mut all = Vec::new();
        let take = |bundle| {
            all.push(bundle);
            true
        };
        client.each_bundle(take).await.expect("bundles");
        all
    };
    assert_eq!(bundles(&copy).await, bundles(&original).await);
    assert_eq!(read(&copy).await.1, digest, "the digest is that of the content");
}

/// A proxy that leads every host to one address; answers with its own.
async fn proxy(to: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let to = to.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while line != "\r\n" {
                    line.clear();
                    stream.read_line(&mut line).await.expect("a request");
                }
                let mut server = TcpStream::connect(to).await.expect("connected");
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("answered");
                // It ends with either side.
                let _ = copy_bidirectional(&mut stream, &mut server).await;
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_leads_to_names_that_only_it_knows() {
    let world = World::start(&sample());
    let address = proxy(world.address.clone()).await;
    let proxy = Proxy::new(&address, "direct.invalid").expect("an address");
    let client = |host: &str| RegistryClient::by_way_of(Some(&proxy), host).expect("an address");
    assert!(!client("kiosk.olm.svc:50051").packages().await.expect("packages").is_empty());
    assert!(client("direct.invalid:50051").packages().await.is_err());
    assert!(Proxy::new("", "").is_none());
}
