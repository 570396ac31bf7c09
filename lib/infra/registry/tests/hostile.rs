//! Servers and clients that do not keep to the protocol, or ask for more than there is.
#![expect(clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod world;

use std::{convert::Infallible, time::Duration};

use futures::stream::{self, StreamExt as _};
use http::uri::PathAndQuery;
use olm_registry::{ClientError, ReadError, RegistryClient, api, limits::REQUEST_BYTES_MAX};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tonic::{Code, Request, Response, Status, body::Body, client::Grpc, server, transport::Server};
use tonic_prost::ProstCodec;
use tower::service_fn;
use world::World;

fn catalog() -> Vec<u8> {
    let mut lines = vec![r#"{"schema":"olm.package","name":"p","defaultChannel":"c"}"#.to_owned()];
    let entries: Vec<String> = (0..2000)
        .map(|number| format!(r#"{{"name":"p.v1.0.{number}","replaces":"p.v1.0.{}"}}"#, number - 1))
        .collect();
    lines.push(format!(
        r#"{{"schema":"olm.channel","package":"p","name":"c","entries":[{}]}}"#,
        entries.join(",")
    ));
    lines.extend((0..2000).map(|number| {
        format!(
            r#"{{"schema":"olm.bundle","package":"p","name":"p.v1.0.{number}","image":"example.com/p:{number}","properties":[{{"type":"olm.package","value":{{"packageName":"p","version":"1.0.{number}"}}}},{{"type":"t","value":"{}"}}]}}"#,
            "x".repeat(500)
        )
    }));
    lines.join("\n").into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_ends_its_connection_and_nothing_else() {
    let world = World::start(&catalog());
    let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    let nonsense: [&[u8]; 5] = [
        b"\0\xff\0\xff nonsense",
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        // A frame of 16 MiB, a frame of an unknown stream, headers that are not compressed as they must be.
        &[hello, b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"].concat(),
        &[hello, b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x09x"].concat(),
        &[hello, b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x04\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff"]
            .concat(),
    ];
    for bytes in nonsense {
        let mut stream = TcpStream::connect(&world.address).await.expect("connected");
        stream.write_all(bytes).await.expect("sent");
        stream.shutdown().await.expect("ended");
        let mut answer = Vec::new();
        // The server may reset the connection.
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.len() < 4096, "{} bytes", answer.len());
    }
    let client = RegistryClient::new(&world.address).expect("an address");
    assert_eq!(client.packages().await.expect("packages"), ["p"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_requests_and_unknown_methods_are_refused() {
    let world = World::start(&catalog());
    let ask = async |path: &'static str, name: String| {
        let mut grpc = Grpc::new(world.channel(&world.address));
        grpc.ready().await.expect("connected");
        let asked = Request::new(api::GetPackageRequest { name });
        let codec = ProstCodec::<_, api::Package>::default();
        grpc.unary(asked, PathAndQuery::from_static(path), codec).await.expect_err("refused").code()
    };
    let long = "x".repeat(REQUEST_BYTES_MAX);
    assert_eq!(ask("/api.Registry/GetPackage", long).await, Code::OutOfRange);
    assert_eq!(ask("/api.Registry/GetAll", String::new()).await, Code::Unimplemented);
    assert_eq!(ask("/x", String::new()).await, Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_chooses_the_catalog() {
    let world = World::start(&catalog());
    for (authority, code) in [
        ("kiosk.olm.svc:50051", Code::Ok),
        ("kiosk.olm.svc.cluster.local", Code::Ok),
        ("other.olm.svc", Code::Unavailable),
    ] {
        let mut grpc = Grpc::new(world.channel(authority));
        grpc.ready().await.expect("connected");
        let asked = Request::new(api::GetPackageRequest { name: "p".to_owned() });
        let path = PathAndQuery::from_static("/api.Registry/GetPackage");
        let answer = grpc.unary(asked, path, ProstCodec::<_, api::Package>::default()).await;
        assert_eq!(answer.map_or_else(|status| status.code(), |_| Code::Ok), code, "{authority}");
    }
    assert!(RegistryClient::new(&world.address).expect("an address").is_serving().await.expect("health"));
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_leave_queries_to_others() {
    let world = World::start(&catalog());
    let mut unread = Vec::new();
    for _ in 0..3 {
        let channel = world.channel(&world.address);
        for _ in 0..5 {
            let mut grpc = Grpc::new(channel.clone());
            grpc.ready().await.expect("connected");
            let asked = Request::new(api::ListBundlesRequest {});
            let path = PathAndQuery::from_static("/api.Registry/ListBundles");
            unread.push(
                grpc.server_streaming(asked, path, ProstCodec::<_, api::Bundle>::default())
                    .await
                    .expect("a list"),
            );
        }
    }
    let client = RegistryClient::new(&world.address).expect("an address");
    assert_eq!(client.package("p").await.expect("a package").default_channel_name, "c");
    assert_eq!(client.head("p", "c").await.expect("a head").csv_name, "p.v1.0.1999");
    let mut bundles = 0;
    client
        .each_bundle(|_| {
            bundles += 1;
            true
        })
        .await
        .expect("bundles");
    assert_eq!((bundles, unread.len()), (2000, 15));
}

/// The address of a server that treats every connection like this.
async fn raw<F: Future<Output = ()> + Send + 'static>(
    treat: impl Fn(TcpStream) -> F + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(treat(stream));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_servers_that_are_none_are_reported() {
    let silent = raw(async |stream| {
        std::future::pending::<()>().await;
        drop(stream);
    });
    let silent = RegistryClient::new(&silent.await).expect("an address").within(Duration::from_millis(300));
    assert!(matches!(silent.packages().await, Err(ClientError::Timeout("ListPackages"))));
    assert!(matches!(silent.is_serving().await, Err(ClientError::Timeout("Check"))));
    let web = raw(async |mut stream| {
        // The client may be gone already.
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    });
    let web = RegistryClient::new(&web.await).expect("an address").within(Duration::from_secs(20));
    assert!(matches!(web.packages().await, Err(ClientError::Broken("ListPackages"))));
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let gone = RegistryClient::new(&free.to_string()).expect("an address");
    let problem = gone.packages().await.expect_err("nothing listens").to_string();
    assert!(problem.starts_with("Connection refused"), "{problem}");
    let long = format!("{}:80", "h".repeat(300));
    for address in ["", "x", "h:", ":1", "a:b", "a/b:1", "u@h:1", "h:0", "h:99999", "h:80:x", &long] {
        assert!(matches!(RegistryClient::new(address), Err(ClientError::Address)), "{address}");
    }
}

#[tokio::test]
async fn addresses_of_nodes_credentials_are_not_asked() {
    for address in ["169.254.169.254:80", "[fe80::1]:80", "0.0.0.0:80", "[::ffff:169.254.169.254]:80"] {
        let refused = RegistryClient::new(address).expect("an address").packages().await;
        let refused = refused.expect_err("it is not asked").to_string();
        assert!(refused.ends_with("are not asked"), "{refused}");
    }
}

/// A server whose every list is endless, with messages of this length and a pause between them.
async fn endless(length: usize, pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let service = service_fn(move |request: http::Request<Body>| async move {
        let list = service_fn(move |_: Request<api::ListPackageRequest>| async move {
            let name = "x".repeat(length);
            let names = stream::repeat_with(move || Ok(api::PackageName { name: name.clone() }));
            let names = names.then(move |name| async move {
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                name
            });
            Ok::<_, Status>(Response::new(names.boxed()))
        });
        Ok::<_, Infallible>(server::Grpc::new(ProstCodec::default()).server_streaming(list, request).await)
    });
    let incoming = stream::unfold(listener, |listener| async {
        let stream = listener.accept().await.map(|(stream, _)| stream);
        Some((stream, listener))
    });
    tokio::spawn(Server::builder().serve_with_incoming(service, Box::pin(incoming)));
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_catalogs_and_huge_messages_end() {
    let server =
        async |length, pause| RegistryClient::new(&endless(length, pause).await).expect("an address");
    let client = server(1 << 20, Duration::ZERO).await;
    assert!(matches!(client.packages().await, Err(ClientError::TooLarge("ListPackages"))));
    let many = server(1, Duration::ZERO).await.documents(|_| Ok(())).await;
    assert!(matches!(many, Err(ReadError::Client(ClientError::TooLarge("ListPackages")))), "{many:?}");
    let huge = server(17 << 20, Duration::ZERO).await;
    assert!(matches!(huge.packages().await, Err(ClientError::Call { method: "ListPackages", .. })));
    // No single message takes long.
    let slow = server(1, Duration::from_millis(10)).await.within(Duration::from_millis(300));
    let slow = slow.documents(|_| Ok(())).await;
    assert!(matches!(slow, Err(ReadError::Client(ClientError::Timeout(_)))), "{slow:?}");
}
