use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{mpsc, oneshot};

use super::*;

type TestJobs = Jobs<&'static str, u32, Failure>;
type TestJob = Job<&'static str, u32, Failure>;

#[derive(Debug, PartialEq)]
struct Failure(String);

impl From<Panicked> for Failure {
    fn from(panicked: Panicked) -> Self {
        Self(panicked.to_string())
    }
}

fn jobs() -> (TestJobs, mpsc::UnboundedReceiver<String>) {
    let (sender, objects) = mpsc::unbounded_channel();
    let ended: JobEnded = Arc::new(move |object| drop(sender.send(object.to_owned())));
    let backoff = Limits { first: Duration::from_secs(10), longest: Duration::from_secs(20) };
    (Jobs::new(ended, backoff, Chance::seeded(1)), objects)
}

/// Ends a job.
type End = oneshot::Sender<Result<&'static str, &'static str>>;

/// Requests a job that ends as the test says.
fn request(jobs: &TestJobs, object: &str, key: &str) -> (TestJob, Option<End>) {
    let mut end: Option<End> = None;
    let job = jobs.request(object, key, |_| {
        let (send, ended) = oneshot::channel();
        end = Some(send);
        async move { ended.await.unwrap().map_err(|text| Failure(text.to_owned())) }
    });
    (job, end)
}

fn is_running(job: &TestJob) -> bool {
    matches!(job, Job::Running { .. })
}

#[tokio::test(start_paused = true)]
async fn a_job_is_shared_and_its_success_is_given_once_to_each_object() {
    let (jobs, mut ended) = jobs();
    let (job, end) = request(&jobs, "a", "pull");
    assert!(is_running(&job));
    let (job, second) = request(&jobs, "b", "pull");
    assert!(is_running(&job) && second.is_none(), "it runs already");
    assert!(jobs.has("a", "pull") && !jobs.has("c", "pull"));
    end.unwrap().send(Ok("content")).unwrap();
    assert_eq!([ended.recv().await.unwrap(), ended.recv().await.unwrap()], ["a", "b"]);
    for object in ["a", "b"] {
        assert!(matches!(request(&jobs, object, "pull").0, Job::Done("content")));
        assert!(!jobs.has(object, "pull"));
    }
    let (job, again) = request(&jobs, "a", "pull");
    assert!(is_running(&job) && again.is_some(), "what was given is asked for anew");
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_when_the_last_object_does_not_need_it_any_more() {
    let (jobs, mut ended) = jobs();
    let mut end = request(&jobs, "a", "one").1.unwrap();
    request(&jobs, "b", "one");
    let _two = request(&jobs, "a", "two");
    assert!(!end.is_closed(), "b needs it");
    jobs.release("b");
    tokio::time::timeout(Duration::from_secs(1), end.closed()).await.expect("not cancelled");
    assert!(jobs.has("a", "two"));

    let mut end = request(&jobs, "c", "three").1.unwrap();
    drop(jobs);
    tokio::time::timeout(Duration::from_secs(1), end.closed()).await.expect("outlived its owner");
    assert_eq!(ended.recv().await, None, "nobody is told of what was cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_failed_is_held_back_and_keeps_its_error_while_it_is_tried_again() {
    let (jobs, mut ended) = jobs();
    request(&jobs, "a", "pull").1.unwrap().send(Err("away")).unwrap();
    ended.recv().await.unwrap();
    let mut waits = Vec::new();
    for is_first in [true, false] {
        let Job::Failed { error, wait, is_new } = request(&jobs, "a", "pull").0 else { panic!("not failed") };
        assert_eq!((error.0.as_str(), is_new), ("away", is_first));
        waits.push(wait);
    }
    assert!(waits[0] >= Duration::from_secs(8) && waits[0] == waits[1], "{waits:?}");
    tokio::time::sleep(waits[0]).await;
    let (job, end) = request(&jobs, "a", "pull");
    assert!(matches!(job, Job::Running { failed: Some(error), .. } if error.0 == "away"));
    end.unwrap().send(Err("still away")).unwrap();
    ended.recv().await.unwrap();
    let Job::Failed { wait, is_new, .. } = request(&jobs, "a", "pull").0 else { panic!("not failed") };
    assert!(is_new && wait >= Duration::from_secs(16), "the wait grows: {wait:?}");

    jobs.retry_now();
    request(&jobs, "a", "pull").1.expect("no wait").send(Ok("content")).unwrap();
    ended.recv().await.unwrap();
    assert!(matches!(request(&jobs, "a", "pull").0, Job::Done("content")));
}

async fn panicking(_: JobContext<u32>) -> Result<&'static str, Failure> {
    panic!("made to panic")
}

#[tokio::test(start_paused = true)]
async fn a_job_that_panics_has_failed_and_one_that_runs_says_how_far_it_is() {
    let (jobs, mut ended) = jobs();
    jobs.request("a", "bad", panicking);
    ended.recv().await.unwrap();
    let Job::Failed { error, .. } = jobs.request("a", "bad", panicking) else { panic!("not failed") };
    assert_eq!(error.0, "panic: made to panic");

    let start = |context: JobContext<u32>| async move {
        context.progress.send_replace(Some(7));
        tokio::time::sleep(Duration::from_hours(1)).await;
        Ok("late")
    };
    jobs.request("b", "long", start);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let Job::Running { elapsed, progress, failed: None } = jobs.request("b", "long", start) else {
        panic!("does not run")
    };
    assert_eq!((elapsed.as_secs(), progress), (5, Some(7)));
}

#[tokio::test(start_paused = true)]
async fn a_thread_of_a_job_sees_that_it_was_cancelled() {
    let (jobs, _ended) = jobs();
    let (seen, cancelled) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
    let (count, token) = (seen.clone(), cancelled.clone());
    jobs.request("a", "pull", move |context: JobContext<u32>| {
        *token.lock() = Some(context.cancelled);
        count.fetch_add(1, Ordering::SeqCst);
        std::future::pending()
    });
    let token = cancelled.lock().take().unwrap();
    assert!(!token.is_cancelled());
    jobs.release("a");
    // At once, and not when the task is polled next.
    assert!(token.is_cancelled() && seen.load(Ordering::SeqCst) == 1);
}
