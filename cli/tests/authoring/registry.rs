//! A registry on loopback that holds a few images, plain HTTP.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use olm_image::PackedImage;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Serves until the test ends.
pub(crate) struct Registry {
    address: SocketAddr,
}

#[derive(Default)]
struct Content {
    /// Digests by `repository:tag`.
    tags: BTreeMap<String, String>,
    /// Media type and bytes, by digest.
    blobs: BTreeMap<String, (&'static str, Vec<u8>)>,
}

impl Registry {
    /// Serves images under their names, such as `foo:v1`.
    pub(crate) fn serve(images: &[(&str, &PackedImage)]) -> Self {
        let mut content = Content::default();
        for (name, image) in images {
            let digest = image.digest().to_string();
            content.blobs.insert(digest.clone(), (MANIFEST, image.manifest().to_vec()));
            content.tags.insert((*name).to_owned(), digest);
            for (digest, bytes) in image.blobs() {
                content.blobs.insert(digest.to_string(), ("application/octet-stream", bytes.to_vec()));
            }
        }
        let content = Arc::new(content);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let content = Arc::clone(&content);
                // A client that goes away is no failure of the test.
                thread::spawn(move || content.answer(&stream).unwrap_or_default());
            }
        });
        Self { address }
    }

    /// The reference of an image.
    pub(crate) fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Arguments that let `olm` speak to this registry.
    pub(crate) fn trusted(&self) -> [String; 2] {
        ["--insecure-registry".to_owned(), self.address.to_string()]
    }
}

impl Content {
    fn answer(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head)? == 0 {
                    return Ok(());
                }
            }
            let mut words = head.split(' ');
            let (method, url) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let Some((digest, (media_type, bytes))) = self.find(url) else {
                stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
                continue;
            };
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nDocker-Content-Digest: {digest}\r\n\
                 Content-Length: {}\r\n\r\n",
                bytes.len()
            )?;
            if method != "HEAD" {
                stream.write_all(bytes)?;
            }
        }
    }

    fn find(&self, url: &str) -> Option<(&str, &(&'static str, Vec<u8>))> {
        let (repository, place) = url.strip_prefix("/v2/")?.rsplit_once('/')?;
        let repository =
            repository.strip_suffix("/manifests").or_else(|| repository.strip_suffix("/blobs"))?;
        let digest = self.tags.get(&format!("{repository}:{place}")).map_or(place, String::as_str);
        self.blobs.get_key_value(digest).map(|(digest, blob)| (digest.as_str(), blob))
    }
}
