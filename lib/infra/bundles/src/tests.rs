mod jobs;

use std::{fs, path::Path, time::SystemTime};

use futures::FutureExt as _;
use olm_image::{Compression, DiskBudget, ImageBuilder, LayerBuilder, PullerConfig};
use olm_test_registry::MemoryRegistry;

use super::*;

const MEBIBYTE: usize = 1 << 20;

/// A registry in memory, a folder, and the bundles of a process.
struct World {
    folder: tempfile::TempDir,
    puller: Puller,
}

impl World {
    fn new(disk: DiskBudget) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = PullerConfig { disk, ..PullerConfig::new(folder.path()) };
        Self { puller: Puller::with_registry(config, Arc::new(MemoryRegistry::new())), folder }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("bundles")
    }

    /// What a process has that starts now.
    fn bundles(&self) -> Bundles {
        Bundles::new(&self.puller, self.cache(), MemoryBudget::new(MEMORY_BYTES_MAX)).unwrap()
    }

    /// The same, with a registry that has nothing: only what is kept can be read.
    fn away(&self) -> Bundles {
        let config = PullerConfig::new(self.folder.path());
        let puller = Puller::with_registry(config, Arc::new(MemoryRegistry::new()));
        Bundles::new(&puller, self.cache(), MemoryBudget::new(MEMORY_BYTES_MAX)).unwrap()
    }

    async fn push(&self, name: &str, files: &[(String, Vec<u8>)]) -> String {
        let mut layer = LayerBuilder::new(Compression::Gzip);
        for (path, content) in files {
            layer = layer.file(path, content.clone()).unwrap();
        }
        let image = ImageBuilder::new().layer(layer.build().unwrap()).build();
        let name = Reference::parse(&format!("registry.example.com/{name}:v1")).unwrap();
        image.push(&self.puller, &name).await.unwrap().to_string()
    }

    /// A bundle of one file of these bytes.
    async fn push_one(&self, name: &str, bytes: usize) -> String {
        self.push(name, &[("manifests/a.yaml".to_owned(), noise(bytes))]).await
    }

    fn kept(&self) -> Vec<String> {
        let names =
            fs::read_dir(self.cache()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    }
}

/// Bytes that do not compress: the ratio of a layer has a limit too.
fn noise(bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    std::iter::repeat_with(|| random.u8(..)).take(bytes).collect()
}

fn file_of(reference: &str) -> String {
    format!("{}.bundle", reference.rsplit_once('@').unwrap().1.replace(':', "-"))
}

async fn refusal(world: &World, name: &str, files: &[(String, Vec<u8>)]) -> String {
    let reference = world.push(name, files).await;
    let error = world.bundles().load(&reference, Need::Usual).await.err().unwrap();
    assert_eq!(world.kept(), Vec::<String>::new(), "nothing of it is kept");
    error.to_string()
}

#[tokio::test]
async fn a_bundle_is_limited_while_it_streams_in() {
    let world = World::new(DiskBudget::default());
    let of = |count: usize, bytes: usize| -> Vec<(String, Vec<u8>)> {
        (0..count).map(|index| (format!("manifests/{index}.yaml"), noise(bytes))).collect()
    };
    let largest = usize::try_from(FILE_BYTES_MAX).unwrap();
    let too_large = refusal(&world, "large", &of(1, largest + 1)).await;
    assert!(too_large.ends_with("file \"manifests/0.yaml\" is larger than 16777216 bytes"), "{too_large}");
    let too_much = refusal(&world, "much", &of(5, largest - MEBIBYTE)).await;
    assert!(too_much.ends_with("the wanted files have more than 67108864 bytes"), "{too_much}");
    let too_many = refusal(&world, "many", &of(ENTRIES_MAX + 1, 1)).await;
    assert!(too_many.ends_with("more than 4000 wanted files and directories"), "{too_many}");
    // What lies beside a bundle is not its own.
    let beside = [("manifests/a.yaml".to_owned(), noise(largest)), ("root/b".to_owned(), noise(largest + 1))];
    let reference = world.push("fits", &beside).await;
    assert_eq!(world.bundles().load(&reference, Need::Usual).await.unwrap().files.len(), 1);
}

#[tokio::test]
async fn what_was_pulled_once_is_read_from_disk_and_checked() {
    let world = World::new(DiskBudget::default());
    let files = [
        ("manifests/a.yaml".to_owned(), b"kind: A".to_vec()),
        ("manifests/empty.yaml".to_owned(), Vec::new()),
        ("metadata/annotations.yaml".to_owned(), noise(100_000)),
    ];
    let reference = world.push("kept", &files).await;
    let wanted: BundleFiles = files.iter().map(|(path, bytes)| (path, bytes.clone())).collect();
    assert_eq!(world.bundles().load(&reference, Need::Usual).await.unwrap().files, wanted);
    assert_eq!(world.away().load(&reference, Need::Usual).await.unwrap().files, wanted, "not pulled again");

    let path = world.cache().join(file_of(&reference));
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() < 101_000, "raw: {} bytes", whole.len());
    let mut flipped = whole.clone();
    flipped[5_000] ^= 1;
    let mut huge = whole.clone();
    // The length of the first file.
    huge[17..25].copy_from_slice(&u64::MAX.to_be_bytes());
    let longer = [whole.as_slice(), b"more"].concat();
    for damaged in
        [&whole[..whole.len() - 1], &whole[..20], &[], &flipped, &huge, &longer, b"no bundle at all"]
    {
        fs::write(&path, damaged).unwrap();
        assert!(world.away().load(&reference, Need::Usual).await.is_err(), "{} bytes", damaged.len());
        assert_eq!(world.kept(), Vec::<String>::new(), "it is removed");
        assert_eq!(
            world.bundles().load(&reference, Need::Usual).await.unwrap().files,
            wanted,
            "pulled again"
        );
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
}

#[tokio::test]
async fn the_least_recently_used_bundles_go_first() {
    let world = World::new(DiskBudget::new(350_000));
    let bundles = world.bundles();
    let mut references = Vec::new();
    for name in ["a", "b", "c"] {
        references.push(world.push_one(name, 100_000 + references.len()).await);
        bundles.load(references.last().unwrap(), Need::Usual).await.unwrap();
    }
    drop(bundles);
    // Read again by the next process, as the one after that knows: the oldest is now the second.
    let bundles = world.bundles();
    bundles.load(&references[0], Need::Usual).await.unwrap();
    drop(bundles);
    let bundles = world.bundles();
    let fourth = world.push_one("d", 90_000).await;
    bundles.load(&fourth, Need::Usual).await.unwrap();
    let mut wanted = [&references[0], &references[2], &fourth].map(|reference| file_of(reference));
    wanted.sort_unstable();
    assert_eq!(world.kept(), wanted);
}

#[test]
fn too_many_bundles_of_an_earlier_process_and_its_leavings_go_at_the_start() {
    let world = World::new(DiskBudget::default());
    fs::create_dir_all(world.cache()).unwrap();
    let write = |name: &str, age: u64| {
        let file = fs::File::create_new(world.cache().join(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000 - age)).unwrap();
    };
    for age in 0..600 {
        write(&format!("sha256-{age}.bundle"), age);
    }
    write("sha256-1.json", 0);
    write("sha256-1.0123456789abcdef.tmp", 0);
    let bundles = world.bundles();
    let kept = world.kept();
    assert_eq!(kept.len(), 499, "there is room for one more");
    assert!(
        kept.contains(&"sha256-498.bundle".to_owned()) && !kept.contains(&"sha256-499.bundle".to_owned())
    );
    drop(bundles);
}

#[tokio::test]
async fn a_disk_that_is_full_is_no_reason_not_to_read_a_bundle() {
    let world = World::new(DiskBudget::new(10_000));
    let reference = world.push_one("a", 20_000).await;
    assert_eq!(world.bundles().load(&reference, Need::Usual).await.unwrap().files.bytes(), 20_000);
    assert_eq!(world.kept(), Vec::<String>::new());
    let much = world.push_one("b", 2 * MEBIBYTE).await;
    let error = world.bundles().load(&much, Need::Usual).await.err().unwrap().to_string();
    assert!(
        error.contains("writing the spool file: the caches hold 0 of the 10000 bytes they may take"),
        "{error}"
    );
}

#[tokio::test]
async fn bundles_wait_for_memory_before_they_are_read() {
    let world = World::new(DiskBudget::default());
    let bundles = world.bundles();
    let small = world.push_one("small", 1_000).await;
    let large = world.push_one("large", 6 * MEBIBYTE).await;
    let load = async |reference: &str, need| bundles.load(reference, need).await.unwrap();
    let first = load(&small, Need::Usual).await;
    assert_eq!(first.memory.bytes(), 9 * MEBIBYTE);
    let second = load(&large, Need::Usual).await;
    assert_eq!(second.memory.bytes(), 104 * MEBIBYTE, "8 MiB beside 16 bytes for each byte of it");
    let third = load(&small, Need::Usual).await;
    let mut waiting = Box::pin(load(&large, Need::Usual));
    // Everything but the memory is there at once: as often as it is asked, it waits for that.
    for _ in 0..100 {
        assert!(waiting.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    drop(second);
    drop(waiting.await);
    drop((first, third));
    let alone = load(&small, Need::All).await;
    assert_eq!(alone.memory.bytes(), MEMORY_BYTES_MAX);
    assert!(bundles.memory.share(1).now_or_never().is_none(), "nobody else has any");
}

#[tokio::test(start_paused = true)]
async fn what_was_being_read_at_an_unexpected_end_is_read_alone_after_the_others() {
    let world = World::new(DiskBudget::default());
    let notes = |bundles: Bundles| bundles.noting(world.folder.path().join("reading")).unwrap();
    let suspect = world.push_one("suspect", 1_000).await;
    let other = world.push_one("other", 1_001).await;
    let killed = notes(world.bundles());
    let loaded = killed.load(&suspect, Need::Usual).await.unwrap();
    // As SIGKILL does: nothing is cleaned up.
    std::mem::forget(loaded.reading);

    let next = notes(world.bundles());
    let error = next.load(&suspect, Need::Usual).await.err().unwrap();
    assert!(!error.is_terminal());
    assert!(error.to_string().starts_with("the controller crashed while it read this bundle"));
    next.load(&other, Need::Usual).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(31)).await;
    let loaded = next.load(&suspect, Need::Usual).await.unwrap();
    assert_eq!(loaded.memory.bytes(), MEMORY_BYTES_MAX, "alone");
    drop(loaded);
    assert!(is_empty(&world.folder.path().join("reading")), "it came through");
    next.load(&suspect, Need::Usual).await.unwrap();
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[tokio::test]
async fn what_others_pulled_is_read_if_the_registry_delivers_it_to_the_reader_too() {
    let world = World::new(DiskBudget::default());
    let reference = world.push_one("private", 10).await;
    let bundles = world.bundles();
    bundles.load(&reference, Need::Usual).await.unwrap();
    let stranger =
        Puller::with_registry(PullerConfig::new(world.folder.path()), Arc::new(MemoryRegistry::new()));
    let stranger = bundles.of_reader(&stranger, "stranger");
    assert!(stranger.load(&reference, Need::Usual).await.is_err(), "a digest alone opens nothing");
    let guest = bundles.of_reader(&world.puller, "guest");
    guest.load(&reference, Need::Usual).await.unwrap();
    let parsed = Reference::parse(&reference).unwrap();
    assert!(guest.source.kept(&parsed).is_some(), "the registry is asked once");
    assert!(stranger.source.kept(&parsed).is_none());
}
