//! What catalogd accepts at most. Images, requests and the files of an earlier process are not trusted.

use std::time::Duration;

/// Largest catalog, as served lines. The largest published ones have 150 MB.
pub const CATALOG_BYTES_MAX: u64 = 2 << 30;
/// Largest index file that is loaded; the index of 8,000 documents has 0.5 MB.
pub const INDEX_BYTES_MAX: u64 = 128 << 20;
/// Largest generation or resolution file; both hold a few names and numbers.
pub const GENERATION_BYTES_MAX: u64 = 64 << 10;
/// Largest set of records that is read for one package. The largest real package has 0.5 MB, and each extension that is
/// worked on has one in memory.
pub const PACKAGE_BYTES_MAX: u64 = 4 << 20;
/// Memory that ingesting a catalog takes at most, in bytes: a document of 16 MiB and what is made of it. Real catalogs take
/// a few MB, whatever their size.
pub const INGEST_MEMORY_BYTES: usize = 64 << 20;
/// Catalogs ingested at the same time where nothing else shares the memory: ingest is bound by the processor.
pub const CONCURRENT_INGESTS: usize = 2;
/// Catalogs reconciled at the same time; none of them waits for a registry.
pub const CONCURRENT_RECONCILES: u16 = 4;
/// Longest time between two checks of a tag; the API takes any number of minutes.
pub const POLL_INTERVAL_MAX: Duration = Duration::from_hours(24 * 365);
/// Bytes of an answer that are read at once; each answer in flight holds two such chunks at most.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Ranges of one request; a request for more gets the whole.
pub const RANGES_MAX: usize = 32;
/// Entity tags read of one header.
pub const ETAGS_MAX: usize = 64;
/// How long a replica that knows of newer content than it holds asks clients to wait.
pub const CATCH_UP: Duration = Duration::from_secs(10);
/// `Retry-After` while content is on its way.
pub const RETRY_AFTER_SECONDS: u64 = 2;
/// How long fetching a whole catalog from another catalogd may take, as upstream's client.
pub const FETCH_TIMEOUT: Duration = Duration::from_mins(5);
/// How long readiness waits for a catalog's content.
pub const READY_WAIT: Duration = Duration::from_mins(1);
/// Most segments of a catalog's compressed form, each taking 24 bytes of memory; the largest real one has 1,000.
pub const SEGMENTS_MAX: usize = 65_536;
/// Shorter answers are not compressed, as upstream.
pub const COMPRESSED_ANSWER_BYTES_MIN: u64 = 1024;
/// Longest body of a GraphQL request, as upstream.
pub const GRAPHQL_BODY_BYTES_MAX: usize = 1 << 20;
/// Longest GraphQL query, as upstream.
pub const GRAPHQL_QUERY_BYTES_MAX: usize = 100_000;
/// How long the body of a GraphQL request may take to come, as upstream.
pub const GRAPHQL_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a GraphQL query may take, as upstream.
pub const GRAPHQL_TIMEOUT: Duration = Duration::from_secs(5);
/// GraphQL queries carried out at the same time; more wait.
pub const GRAPHQL_QUERIES_MAX: usize = 2;
/// Time of a pull before its progress is first reported; most are over by then.
pub const PROGRESS_FIRST: Duration = Duration::from_secs(3);
/// Time between two reports of a pull's progress; each is a write to the API server.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
