//! Limits of the server and of the client.

use std::time::Duration;

/// Longest request message: requests are a few names.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Largest message of an answer, which is a bundle with its manifests. Documents of catalogs have 16 MiB at most.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Most connections at the same time.
pub const CONNECTIONS_MAX: usize = 256;
/// Most streams of a connection at the same time.
pub const STREAMS_MAX: u32 = 32;
/// Longest list of headers of a request, in bytes.
pub const HEADER_BYTES_MAX: u32 = 16 << 10;
/// Streams that a client opened and reset before they were accepted; more end the connection.
pub const RESET_STREAMS_MAX: usize = 32;
/// Queries for one thing that are answered at the same time; each may hold the document of a bundle.
pub const QUERIES_MAX: usize = 4;
/// Lists that are answered at the same time; each holds the small parts of a package.
pub const LISTS_MAX: usize = 16;
/// Clients that watch the health of catalogs at the same time.
pub const WATCHES_MAX: usize = 256;
/// How long a query or a list waits for its turn.
pub const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// Messages of a list that wait for the client in this process, beside those in the buffers of its connection.
pub const MESSAGES_WAITING_MAX: usize = 2;
/// How long a client may take for a message of a list.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a list may take. Upstream's clients give up after a minute.
pub const LIST_TIMEOUT: Duration = Duration::from_mins(5);
/// Time between two signs of life that are asked of an idle client, and how long it may take for one.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// See [`KEEPALIVE_INTERVAL`].
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest address of a server: that of a name and a port.
pub const ADDRESS_BYTES_MAX: usize = 261;
/// How long the client waits for a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the client waits for one answer, or for one message of a list.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the client takes for a whole catalog.
pub const CATALOG_TIMEOUT: Duration = Duration::from_mins(2);
/// Largest message that the client reads.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Largest catalog that the client reads, in bytes of its messages.
pub const CATALOG_BYTES_MAX: usize = 256 << 20;
/// Most bytes of the names of its packages, which are kept together.
pub const NAMES_BYTES_MAX: usize = 4 << 20;
/// Most packages, and most bundles, of a catalog that the client reads.
pub const CATALOG_MESSAGES_MAX: usize = 500_000;
