//! Bundles that are pulled by jobs.

use async_trait::async_trait;
use axum::body::Bytes;
use olm_image::{BlobContent, BlobStream, Digest, Endpoint, Registry, RegistryError};
use olm_runtime::Chance;
use tokio::sync::mpsc;

use super::*;

/// A registry that never answers; the future of a request holds what it holds.
struct Hanging(Arc<()>);

impl Hanging {
    async fn never<T>(&self) -> T {
        let held = Arc::clone(&self.0);
        let never = std::future::pending().await;
        drop(held);
        never
    }
}

#[async_trait]
impl Registry for Hanging {
    async fn resolve(&self, _: &Endpoint, _: &str) -> Result<Digest, RegistryError> {
        self.never().await
    }

    async fn manifest(&self, _: &Endpoint, _: &Digest) -> Result<Bytes, RegistryError> {
        self.never().await
    }

    async fn blob(&self, _: &Endpoint, _: &Digest) -> Result<BlobStream, RegistryError> {
        self.never().await
    }

    async fn has_blob(&self, _: &Endpoint, _: &Digest) -> Result<bool, RegistryError> {
        self.never().await
    }

    async fn push_blob(&self, _: &Endpoint, _: &Digest, _: &BlobContent) -> Result<(), RegistryError> {
        self.never().await
    }

    async fn push_manifest(&self, _: &Endpoint, _: &str, _: &str, _: Bytes) -> Result<(), RegistryError> {
        self.never().await
    }
}

/// Bundles that are pulled by jobs, and whom their ends concern.
fn by_jobs(bundles: Bundles) -> (Bundles, mpsc::UnboundedReceiver<String>) {
    let (sender, extensions) = mpsc::unbounded_channel();
    let ended = move |extension: &str| drop(sender.send(extension.to_owned()));
    (bundles.pulling_by_jobs(Arc::new(ended), &Chance::seeded(1)), extensions)
}

fn is_pulling(requested: &Requested) -> bool {
    matches!(requested, Requested::Pulling { .. })
}

fn is_loaded(requested: &Requested) -> bool {
    matches!(requested, Requested::Loaded(_))
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_hangs_is_not_waited_for_and_let_go_of_with_the_last_extension() {
    let (world, held) = (World::new(DiskBudget::default()), Arc::new(()));
    let config = PullerConfig::new(world.folder.path());
    let puller = Puller::with_registry(config, Arc::new(Hanging(held.clone())));
    let memory = MemoryBudget::new(MEMORY_BYTES_MAX);
    let (bundles, _ended) = by_jobs(Bundles::new(&puller, world.cache(), memory).unwrap());
    let digest = format!("registry.example.com/x@sha256:{}", "0".repeat(64));
    for reference in ["registry.example.com/x:v1", &digest] {
        let before = tokio::time::Instant::now();
        for extension in ["a", "b"] {
            assert!(is_pulling(&bundles.request(extension, reference).await));
        }
        assert_eq!(before.elapsed(), Duration::ZERO);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(Arc::strong_count(&held), 3, "one pull for both");
        bundles.release("a");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(Arc::strong_count(&held), 3, "b needs it");
        bundles.release("b");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(Arc::strong_count(&held), 2, "the pull goes on");
    }
}

#[tokio::test]
async fn a_bundle_that_was_pulled_is_read_by_the_extension_that_is_woken() {
    let world = World::new(DiskBudget::default());
    let by_digest = world.push_one("one", 1_000).await;
    let by_tag = "registry.example.com/one:v1";
    let (bundles, mut ended) = by_jobs(world.bundles());
    for (reference, is_kept) in [(by_tag, false), (by_tag, false), (by_digest.as_str(), true)] {
        let requested = bundles.request("a", reference).await;
        assert_eq!(is_loaded(&requested), is_kept, "a tag is resolved each time");
        if is_pulling(&requested) {
            assert_eq!(ended.recv().await.as_deref(), Some("a"));
            assert!(is_loaded(&bundles.request("a", reference).await));
        }
    }
    // Nothing is kept on a full disk: what was pulled is at hand all the same.
    let full = World::new(DiskBudget::new(100));
    let reference = full.push_one("two", 1_000).await;
    let (bundles, mut ended) = by_jobs(full.bundles());
    assert!(is_pulling(&bundles.request("a", &reference).await));
    ended.recv().await.unwrap();
    assert!(is_loaded(&bundles.request("a", &reference).await));
    assert_eq!(full.kept(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_fails_is_told_with_the_time_of_the_next() {
    let world = World::new(DiskBudget::default());
    let (bundles, mut ended) = by_jobs(world.bundles());
    let request = async || bundles.request("a", "registry.example.com/none:v1").await;
    assert!(is_pulling(&request().await));
    ended.recv().await.unwrap();
    for is_first in [true, false] {
        let Requested::Failed { error, next: Some(NextPull::After { wait, is_new }) } = request().await
        else {
            panic!("not failed")
        };
        assert!(error.to_string().ends_with("manifest unknown (status 404)"), "{error}");
        assert_eq!((is_new, wait > Duration::ZERO), (is_first, true));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = request().await;
    assert!(
        matches!(again, Requested::Failed { next: Some(NextPull::Now), .. }),
        "the error stays meanwhile"
    );
    let malformed = bundles.request("a", "none").await;
    assert!(matches!(malformed, Requested::Failed { error, next: None } if error.is_terminal()));
}

fn is_waiting(requested: &Requested) -> bool {
    matches!(requested, Requested::Waiting(_))
}

fn loaded(requested: Requested) -> Loaded {
    let Requested::Loaded(loaded) = requested else { panic!("not loaded") };
    loaded
}

/// Bundles that are kept on disk, and one of them in all memory.
async fn without_memory(world: &World) -> (Bundles, mpsc::UnboundedReceiver<String>, [String; 2], Loaded) {
    let (bundles, ended) = by_jobs(world.bundles());
    let references = [world.push_one("one", 1_000).await, world.push_one("two", 1_001).await];
    for reference in &references {
        bundles.load(reference, Need::Usual).await.unwrap();
    }
    let pulled = loaded(bundles.request("large", &references[0]).await).pulled;
    let all = loaded(bundles.request_alone("large", &references[0], pulled).await);
    (bundles, ended, references, all)
}

#[tokio::test]
async fn extensions_whose_bundle_waits_for_memory_are_woken_in_their_order() {
    let world = World::new(DiskBudget::default());
    let (bundles, mut ended, [one, two], all) = without_memory(&world).await;
    let names: Vec<String> = (0..8).map(|number| format!("waiting-{number}")).collect();
    for name in &names {
        assert!(is_waiting(&bundles.request(name, &one).await));
        tokio::task::yield_now().await;
    }
    assert!(is_waiting(&bundles.request(&names[0], &one).await), "as often as it is asked for");
    // One needs another bundle meanwhile, and two need none.
    assert!(is_waiting(&bundles.request(&names[1], &two).await));
    bundles.release(&names[2]);
    bundles.release(&names[3]);
    tokio::task::yield_now().await;
    drop(all);
    for number in [0, 4, 5, 6, 7, 1] {
        assert_eq!(ended.recv().await.as_ref(), Some(&names[number]));
    }
    assert_eq!(loaded(bundles.request(&names[0], &one).await).files.bytes(), 1_000);
    assert_eq!(loaded(bundles.request(&names[1], &two).await).files.bytes(), 1_001);
    assert!(ended.try_recv().is_err(), "nobody else is woken");
}

#[tokio::test]
async fn a_bundle_that_needs_all_memory_waits_without_a_worker_and_has_it_then() {
    let world = World::new(DiskBudget::default());
    let (bundles, mut ended, [one, two], all) = without_memory(&world).await;
    let pulled = all.pulled.clone();
    drop(all);
    let beside = loaded(bundles.request("beside", &two).await);
    assert!(is_waiting(&bundles.request_alone("large", &one, pulled).await));
    tokio::task::yield_now().await;
    assert!(is_waiting(&bundles.request("late", &two).await), "it is not overtaken");
    drop(beside);
    assert_eq!(ended.recv().await.as_deref(), Some("large"));
    let all = loaded(bundles.request("large", &one).await);
    assert_eq!(all.memory.bytes(), MEMORY_BYTES_MAX);
    assert!(is_waiting(&bundles.request("late", &two).await));
    drop(all);
    assert_eq!(ended.recv().await.as_deref(), Some("late"));
}

#[tokio::test(start_paused = true)]
async fn memory_that_is_not_taken_is_given_back() {
    let world = World::new(DiskBudget::default());
    let (bundles, mut ended, [one, _], all) = without_memory(&world).await;
    let pulled = all.pulled.clone();
    assert!(is_waiting(&bundles.request_alone("gone", &one, pulled).await));
    tokio::task::yield_now().await;
    assert!(is_waiting(&bundles.request("next", &one).await));
    let waited = Duration::from_secs(3);
    tokio::time::advance(waited).await;
    let again = bundles.request("next", &one).await;
    assert!(matches!(again, Requested::Waiting(elapsed) if elapsed == waited), "since the first request");
    drop(all);
    for name in ["gone", "next"] {
        assert_eq!(ended.recv().await.as_deref(), Some(name));
    }
    assert!(is_loaded(&bundles.request("next", &one).await));
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_takes_too_long_ends_and_is_made_again_when_it_was_told() {
    let (world, held) = (World::new(DiskBudget::default()), Arc::new(()));
    let config = PullerConfig::new(world.folder.path());
    let puller = Puller::with_registry(config, Arc::new(Hanging(held.clone())));
    let memory = MemoryBudget::new(MEMORY_BYTES_MAX);
    let (bundles, mut ended) = by_jobs(Bundles::new(&puller, world.cache(), memory).unwrap());
    let reference = format!("registry.example.com/x@sha256:{}", "0".repeat(64));
    let (attempt, retry) = (Duration::from_secs(10), Duration::from_mins(30));
    let within = bundles.clone().within(Deadlines { attempt: Some(attempt), retry: Some(retry) });
    let began = tokio::time::Instant::now();
    assert!(is_pulling(&within.request("a", &reference).await));
    // Others have the time that they were given.
    assert!(is_pulling(&bundles.request("b", &reference).await));
    assert_eq!(ended.recv().await.as_deref(), Some("a"));
    assert!(began.elapsed() >= attempt);
    let Requested::Failed { error, next } = within.request("a", &reference).await else {
        panic!("no failure")
    };
    assert!(matches!(&*error, BundleError::DeadlineExceeded(after) if *after == attempt), "{error}");
    assert!(matches!(next, Some(NextPull::After { wait, is_new: true }) if wait > retry / 2), "{next:?}");
    assert!(is_pulling(&bundles.request("b", &reference).await));
    tokio::time::sleep(retry).await;
    let again = within.request("a", &reference).await;
    assert!(matches!(again, Requested::Failed { next: Some(NextPull::Now), .. }));
    // Other times begin anew.
    let longer = bundles.within(Deadlines { attempt: Some(retry), retry: None });
    assert!(is_pulling(&longer.request("a", &reference).await));
}
