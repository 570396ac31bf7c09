//! Several requests at a time, never more than a limit.

use std::future::Future;

use futures::{StreamExt, stream};

/// Requests of one kind that are under way at the same time.
pub const REQUESTS: usize = 8;

/// Runs `futures`, at most `limit` at a time, and returns their results in the order given.
///
/// They are collected first: a stream that maps borrowed items to futures is not `Send` in the compiler's eyes.
pub async fn concurrently<F: Future>(limit: usize, futures: Vec<F>) -> Vec<F::Output> {
    stream::iter(futures).buffered(limit).collect().await
}
