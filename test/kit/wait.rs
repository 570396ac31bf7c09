//! Waiting for a condition, with a deadline and a text that says what was seen last.
//!
//! Tests never sleep for a fixed time: they name what they wait for and say why it is not so yet.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, ensure};

use crate::world::DEADLINE;

/// Between two looks: short at first, so that what is fast stays fast.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// How much of what was found a failure shows, in bytes.
const FOUND_MAX: usize = 4_000;

/// An error that waiting does not mend: a wait ends with it at once.
#[derive(Debug)]
pub struct Final(pub String);

impl std::fmt::Display for Final {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Final {}

/// Calls `look` until it answers, and returns the answer. While it does not, its error says why; when
/// `deadline` has passed, the last of these errors is part of the failure. A [`Final`] error ends it at once.
pub async fn until<T>(what: &str, deadline: Duration, mut look: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut told = anyhow!("no answer");
    loop {
        // A look that hangs must not outlast the deadline.
        let left = deadline.saturating_sub(start.elapsed()).max(FIRST_PAUSE);
        let error = match tokio::time::timeout(left, look()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            // What the look before saw says more than that this one came too late.
            Err(_) => told,
        };
        if error.is::<Final>() {
            return Err(error.context(format!("waiting for {what}")));
        }
        if start.elapsed() + pause >= deadline {
            return Err(error.context(format!("waited {:.1} s for {what}", deadline.as_secs_f64())));
        }
        told = error;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Calls `look` until what it finds is as wanted; a failure shows what was found last.
pub async fn eventually<T: Debug>(
    what: &str,
    look: impl AsyncFnMut() -> Result<T>,
    is_wanted: impl Fn(&T) -> bool,
) -> Result<()> {
    eventually_within(DEADLINE, what, look, is_wanted).await
}

/// The same with a deadline of its own.
pub async fn eventually_within<T: Debug>(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T>,
    is_wanted: impl Fn(&T) -> bool,
) -> Result<()> {
    until(what, deadline, async || {
        let found = look().await?;
        ensure!(is_wanted(&found), "found {}", beginning(format!("{found:?}")));
        Ok(())
    })
    .await
}

/// As much of a text as a failure can show.
fn beginning(mut text: String) -> String {
    let end = text.floor_char_boundary(FOUND_MAX);
    if end < text.len() {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// `Ok` if the condition holds, else an error with the text: the short form of a look.
pub fn check(holds: bool, why_not: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(anyhow!(why_not())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_ends_with_the_answer_or_says_what_it_saw_last() {
        let mut looks = 0;
        let answer = until("three looks", Duration::from_secs(10), || {
            looks += 1;
            let seen = looks;
            async move { check(seen == 3, || format!("saw {seen}")).map(|()| seen) }
        })
        .await
        .unwrap();
        assert_eq!(answer, 3);

        let error =
            until("the impossible", Duration::from_millis(50), || async { check(false, || "no".to_owned()) })
                .await
                .unwrap_err();
        assert_eq!(format!("{error:#}"), "waited 0.1 s for the impossible: no");
    }

    #[tokio::test]
    async fn what_is_found_is_awaited_and_shown() {
        let mut found = 0;
        let count = async || {
            found += 1;
            Ok(found)
        };
        eventually("three", count, |found| *found == 3).await.unwrap();
        let error =
            eventually_within(Duration::from_millis(50), "much", async || Ok("é".repeat(9_000)), |_| false)
                .await
                .unwrap_err();
        let text = format!("{error:#}");
        assert!(text.starts_with("waited 0.1 s for much: found \"éé") && text.len() < 4_100, "{text}");
    }

    #[tokio::test]
    async fn a_final_error_ends_the_wait_at_once() {
        let start = Instant::now();
        let error = until("the dead", Duration::from_hours(1), async || {
            Err::<(), _>(anyhow::Error::new(Final("gone".to_owned())).context("looking"))
        })
        .await
        .unwrap_err();
        assert_eq!(format!("{error:#}"), "waiting for the dead: looking: gone");
        assert!(start.elapsed() < Duration::from_mins(1));
    }

    #[tokio::test]
    async fn a_look_that_hangs_does_not_outlast_the_deadline() {
        let error = until("an answer", Duration::from_millis(30), std::future::pending::<Result<()>>)
            .await
            .unwrap_err();
        assert_eq!(format!("{error:#}"), "waited 0.0 s for an answer: no answer");
    }
}
