//! Several requests at a time, never more than a limit.

use std::future::Future;

use futures::{StreamExt, stream};

/// Requests of one kind that are under way at the same time.
pub const REQUESTS: usize = 8;

/// Runs `futures`, at most `limit` at a time, and returns their results in the order given.
///
/// They are collected first: a stream that maps borrowed items to futures is not `Send` in the compiler's eyes.
pub async fn concurrently<F: Future>(limit: usize, futures: Vec<F>) -> Vec<F::Output> {
    let numbered = futures.into_iter().enumerate().map(async |(number, future)| (number, future.await));
    // A slow one keeps none from being begun, as it would where the results have to leave in order.
    let mut results: Vec<_> = stream::iter(numbered).buffer_unordered(limit).collect().await;
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}
