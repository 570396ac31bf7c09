//! A catalog that the cluster serves, read over HTTP as a stream.
//!
//! The address in the catalog's status names a Service of the cluster: it is asked through the API server, which is a proxy
//! for Services, with the permissions of the user and without trust of its own. Any other address is asked itself. Where
//! neither works, the image that the catalog's status names has the same content.

use std::{
    io::{self, Read},
    pin::Pin,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use flate2::read::MultiGzDecoder;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::{
    HeaderMap, Request, StatusCode, Uri,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING},
};
use http_body_util::BodyExt as _;
use kube::client::Body;
use olm_fbc::{CatalogError, Meta, PackageContent, SCHEMA_BUNDLE, SCHEMA_PACKAGE};
use olm_image::Reference;
use olm_object::names::is_label;
use olm_runtime::bounded;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::OnceCell;
use tokio_util::{
    bytes::Bytes,
    io::{StreamReader, SyncIoBridge},
};

use super::{
    Wanted,
    held::{self, CATALOG_BYTES_MAX, Held, untrusted},
    unreadable,
};
use crate::sources::Registries;

/// How long the server may be silent in the middle of an answer.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Bytes that are read of an answer that is an error.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Bytes that are kept of a package; the largest real one has 0.5 MB without its large parts.
const PACKAGE_BYTES_MAX: u64 = catalogd::limits::PACKAGE_BYTES_MAX;

/// A catalog that the cluster serves.
#[derive(Debug)]
pub(crate) struct Served {
    name: String,
    way: Way,
    /// Digest reference of the image with the same content.
    image: String,
    registries: Registries,
    /// The whole content, once it was needed, or no other way to it was found.
    held: OnceCell<Held>,
}

/// How a served catalog is asked.
pub(crate) enum Way {
    /// Through the API server: the path of the catalog behind the proxy.
    ApiServer(kube::Client, String),
    /// Directly: the catalog's address.
    Address(reqwest::Client, String),
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ApiServer(_, path) => f.debug_tuple("ApiServer").field(path).finish(),
            Self::Address(_, url) => f.debug_tuple("Address").field(url).finish(),
        }
    }
}

/// An answer as a stream, and whether it is compressed.
struct Answer {
    body: Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>,
    is_compressed: bool,
}

/// The path of a catalog behind the API server's proxy, if its address is that of a Service.
pub(crate) fn behind_proxy(address: &str) -> Option<String> {
    let address: Uri = address.parse().ok()?;
    let (scheme, default_port) = match address.scheme_str()? {
        "https" => ("https", 443),
        "http" => ("http", 80),
        _ => return None,
    };
    let mut labels = address.host()?.split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    let is_service = labels.next() == Some("svc") && is_label(service) && is_label(namespace);
    let port = address.port_u16().unwrap_or(default_port);
    let path = address.path().trim_end_matches('/');
    let is_plain = path.split('/').all(|segment| segment != "." && segment != "..");
    (is_service && is_plain)
        .then(|| format!("/api/v1/namespaces/{namespace}/services/{scheme}:{service}:{port}/proxy{path}"))
}

impl Served {
    pub(crate) fn new(name: String, way: Way, image: String, registries: Registries) -> Self {
        Self { name, way, image, registries, held: OnceCell::new() }
    }

    pub(super) async fn package(&self, package: &str) -> Result<PackageContent, CatalogError> {
        let read = |(content, bytes): &mut (PackageContent, u64), meta: &Meta<'_>| {
            let mut record = Vec::new();
            meta.write_record(&mut record);
            *bytes = bytes.saturating_add(record.len() as u64);
            if *bytes > PACKAGE_BYTES_MAX {
                bail!("the package has more than {PACKAGE_BYTES_MAX} bytes");
            }
            if !record.is_empty() {
                content.push_json(&record)?;
            }
            Ok(())
        };
        let folded = self.fold(Wanted::Package(package), Default::default(), read).await;
        folded.map(|(content, _)| content).map_err(|error| unreadable(&self.name, &error))
    }

    pub(super) async fn mentioning(&self, text: &str) -> Result<Vec<PackageContent>, CatalogError> {
        let held = self.held.get_or_try_init(|| self.whole()).await;
        held.map_err(|error| unreadable(&self.name, &error))?.mentioning(text).await
    }

    pub(super) async fn fold<T: Send + 'static>(
        &self,
        wanted: Wanted<'_>,
        start: T,
        take: impl Fn(&mut T, &Meta<'_>) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<T> {
        if let Some(held) = self.held.get() {
            return held.fold(wanted, start, take).await;
        }
        let answers = match self.answers(wanted).await {
            Ok(answers) => answers,
            Err(error) => {
                let held = self.held.get_or_try_init(|| self.image_after(error)).await?;
                return held.fold(wanted, start, take).await;
            }
        };
        // A server that does not know the query answers with everything.
        let wanted = Filter::of(wanted);
        let read = move || {
            let take = |folded: &mut T, meta: &Meta<'_>| {
                if wanted.takes(meta) { take(folded, meta) } else { Ok(()) }
            };
            answers.into_iter().try_fold(start, |folded, answer| held::fold(answer.reader(), folded, take))
        };
        tokio::task::spawn_blocking(read).await?
    }

    /// The answers that together have the wanted documents.
    async fn answers(&self, wanted: Wanted<'_>) -> anyhow::Result<Vec<Answer>> {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let queries = match wanted {
            Wanted::All => return Ok(vec![self.all().await?]),
            Wanted::Packages => vec![format!("schema={SCHEMA_PACKAGE}")],
            Wanted::Package(name) => {
                let name = encoded(name);
                vec![format!("schema={SCHEMA_PACKAGE}&name={name}"), format!("package={name}")]
            }
            Wanted::Bundle(package, name) => {
                vec![format!("schema={SCHEMA_BUNDLE}&package={}&name={}", encoded(package), encoded(name))]
            }
        };
        let mut answers = Vec::new();
        for query in queries {
            match self.way.get(&format!("/api/v1/metas?{query}")).await? {
                Some(answer) => answers.push(answer),
                // Upstream answers queries with a feature gate only.
                None => return Ok(vec![self.all().await?]),
            }
        }
        Ok(answers)
    }

    async fn all(&self) -> anyhow::Result<Answer> {
        let answer = self.way.get("/api/v1/all").await?;
        answer.ok_or_else(|| anyhow!("the server of catalogs does not know catalog {:?}", self.name))
    }

    /// The whole content, in files.
    async fn whole(&self) -> anyhow::Result<Held> {
        let answer = match self.all().await {
            Ok(answer) => answer,
            Err(error) => return self.image_after(error).await,
        };
        let spool = || {
            let folder = tempfile::tempdir().context("creating a folder for a catalog")?;
            let path = folder.path().join("catalog.jsonl");
            io::copy(&mut answer.reader(), &mut std::fs::File::create(&path)?)?;
            let tree = crate::sources::Tree::Disk([("catalog.jsonl".to_owned(), path)].into());
            Held::read(&tree, folder.into(), "served")
        };
        tokio::task::spawn_blocking(spool).await?
    }

    /// The content of the image, because the server could not be asked.
    async fn image_after(&self, error: anyhow::Error) -> anyhow::Result<Held> {
        let pulled = async { Held::of_image(Reference::parse(&self.image)?, &self.registries).await };
        pulled.await.map_err(|other| {
            let other = crate::output::causes(&other);
            error.context(format!("neither its server nor its image can be read ({other})"))
        })
    }
}

/// The documents that are wanted, among others.
struct Filter {
    schema: Option<&'static str>,
    package: Option<String>,
    bundle: Option<String>,
}

impl Filter {
    fn of(wanted: Wanted<'_>) -> Self {
        let (schema, package, bundle) = match wanted {
            Wanted::All => (None, None, None),
            Wanted::Packages => (Some(SCHEMA_PACKAGE), None, None),
            Wanted::Package(package) => (None, Some(package), None),
            Wanted::Bundle(package, name) => (Some(SCHEMA_BUNDLE), Some(package), Some(name)),
        };
        Self { schema, package: package.map(str::to_owned), bundle: bundle.map(str::to_owned) }
    }

    fn takes(&self, meta: &Meta<'_>) -> bool {
        self.schema.is_none_or(|schema| meta.envelope.schema == schema)
            && self.package.as_ref().is_none_or(|package| meta.envelope.subject() == package)
            && self.bundle.as_ref().is_none_or(|name| meta.envelope.name == *name)
    }
}

impl Way {
    /// Asks for a path of the catalog; `None` if the server does not know it.
    async fn get(&self, path: &str) -> anyhow::Result<Option<Answer>> {
        let (status, headers, body) = match self {
            Self::ApiServer(client, base) => {
                let request = Request::get(format!("{base}{path}")).header(ACCEPT_ENCODING, "gzip");
                let (head, body) = bounded(client.send(request.body(Body::empty())?)).await?.into_parts();
                let body = body.into_data_stream().map_err(io::Error::other);
                (head.status, head.headers, Box::pin(body) as Pin<Box<dyn Stream<Item = _> + Send>>)
            }
            Self::Address(client, base) => {
                let asked = client.get(format!("{base}{path}")).header(ACCEPT_ENCODING, "gzip").send();
                let answer = tokio::time::timeout(SILENCE_MAX, asked).await.context("no answer")?;
                let answer = answer.map_err(untrusted)?;
                let (status, headers) = (answer.status(), answer.headers().clone());
                (status, headers, Box::pin(answer.bytes_stream().map_err(io::Error::other)) as _)
            }
        };
        match status {
            StatusCode::OK => Ok(Some(Answer::new(body, &headers))),
            StatusCode::NOT_FOUND => match reason(body).await {
                // The Service is what the API server does not find.
                Some(reason) => bail!("{}: {reason}", self.of(path)),
                None => Ok(None),
            },
            _ => {
                let reason = reason(body).await.unwrap_or_else(|| format!("status {status}"));
                bail!("{}: {reason}", self.of(path))
            }
        }
    }

    /// The address of a path, as errors name it.
    fn of(&self, path: &str) -> String {
        match self {
            Self::ApiServer(_, base) => format!("asking the API server for {base}{path}"),
            Self::Address(_, base) => format!("{base}{path}"),
        }
    }
}

/// The API server's reason, if the answer is its own.
async fn reason(mut body: Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>) -> Option<String> {
    let mut text = Vec::new();
    while let Ok(Some(Ok(chunk))) = tokio::time::timeout(SILENCE_MAX, body.next()).await
        && text.len() < ERROR_BYTES_MAX
    {
        text.extend_from_slice(&chunk);
    }
    let answer: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    answer["message"].as_str().filter(|message| !message.is_empty()).map(str::to_owned)
}

impl Answer {
    fn new(body: Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>, headers: &HeaderMap) -> Self {
        let is_compressed = headers.get(CONTENT_ENCODING).is_some_and(|coding| coding == "gzip");
        let body = stream::unfold(body, async |mut body| {
            let next = tokio::time::timeout(SILENCE_MAX, body.next()).await;
            let silent = || io::Error::new(io::ErrorKind::TimedOut, "the server of catalogs is silent");
            next.unwrap_or_else(|_| Some(Err(silent()))).map(|chunk| (chunk, body))
        });
        Self { body: Box::pin(body), is_compressed }
    }

    /// The documents as they are. For a thread that may block.
    fn reader(self) -> impl Read {
        let bytes = SyncIoBridge::new(StreamReader::new(self.body));
        let plain: Box<dyn Read> =
            if self.is_compressed { Box::new(MultiGzDecoder::new(bytes)) } else { Box::new(bytes) };
        Limited { reader: plain, left: CATALOG_BYTES_MAX }
    }
}

/// A reader that fails instead of reading more than it may.
struct Limited<R> {
    reader: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.left = self.left.checked_sub(length as u64).ok_or_else(|| {
            io::Error::other(format!("the catalog has more than {CATALOG_BYTES_MAX} bytes"))
        })?;
        Ok(length)
    }
}

#[cfg(test)]
mod tests;
