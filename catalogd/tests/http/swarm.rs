//! Many clients read while many catalogs change.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use catalogd::Config;

use crate::world::{DEADLINE, Files, UNPACKED_AT, World, ask};

const CATALOGS: usize = 20;
const CLIENTS: usize = 200;
/// Contents of each catalog, one after another.
const GENERATIONS: usize = 8;
/// Requests of each client after the last content has come, at least.
const REQUESTS_AFTER: usize = 2;
/// Requests of each client, at least.
const REQUESTS: usize = 12;
const PACKAGES: usize = 4;

fn name(catalog: usize) -> String {
    format!("catalog-{catalog}")
}

/// A reference whose digest names catalog and generation.
fn reference(catalog: usize, generation: usize) -> String {
    format!("quay.io/a/b@sha256:{catalog:032x}{generation:032x}")
}

/// The lines of a content; those of one package, if one is given. All as long as those of any other content,
/// so that a mixture would not show in the length.
fn lines(catalog: usize, generation: usize, package: Option<usize>) -> String {
    let text = format!("catalog {catalog:02} generation {generation:02} ").repeat(20);
    let packages = (0..PACKAGES).filter(|own| package.is_none_or(|package| package == *own));
    let lines = packages.flat_map(|own| (0..20).map(move |bundle| (own, bundle))).map(|(own, bundle)| {
        let names = format!("\"name\":\"p{own}.v{bundle}\",\"package\":\"p{own}\"");
        format!("{{{names},\"schema\":\"olm.bundle\",\"text\":\"{text}\"}}\n")
    });
    lines.collect::<Vec<_>>().concat()
}

struct Swarm {
    world: World,
    /// Whether a content has come yet, by catalog.
    is_served: Vec<AtomicBool>,
    installed: AtomicUsize,
    asked: AtomicU64,
    compressed: AtomicU64,
    waited: AtomicU64,
}

impl Swarm {
    fn write(&self, catalog: usize) {
        for generation in 0..GENERATIONS {
            let files =
                BTreeMap::from([("c.json".to_owned(), lines(catalog, generation, None).into_bytes())]);
            let at = jiff::Timestamp::from_second(UNPACKED_AT).unwrap();
            let reference = reference(catalog, generation);
            self.world.store.install(&name(catalog), &reference, at, &Files(files)).unwrap();
            self.world.store.announce(&name(catalog), Some((reference, None)));
            self.is_served[catalog].store(true, Ordering::SeqCst);
            self.installed.fetch_add(1, Ordering::SeqCst);
            // As many contents are read while they are the newest as clients get to.
            let before = self.asked.load(Ordering::SeqCst);
            let started = Instant::now();
            while self.asked.load(Ordering::SeqCst) < before + 20 && started.elapsed() < DEADLINE {
                thread::yield_now();
            }
        }
    }

    fn read(&self, client: usize) {
        let (mut made, mut after) = (0, 0);
        let mut number = client;
        while after < REQUESTS_AFTER || made < REQUESTS {
            made += 1;
            let is_over = self.installed.load(Ordering::SeqCst) == CATALOGS * GENERATIONS;
            after += usize::from(is_over);
            // A different sequence for each client, the same in each run.
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let choice = number >> 33;
            self.request(choice % CATALOGS, (choice / CATALOGS) % 6, choice.is_multiple_of(2));
            self.asked.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn request(&self, catalog: usize, choice: usize, takes_gzip: bool) {
        let was_served = self.is_served[catalog].load(Ordering::SeqCst);
        let base = format!("/catalogs/{}/api/v1", name(catalog));
        let package = (choice < PACKAGES).then_some(choice);
        let target = match (package, choice) {
            (Some(package), _) => format!("{base}/metas?package=p{package}"),
            (None, PACKAGES) => format!("{base}/all"),
            (None, _) => format!("{base}/metas?schema=olm.bundle"),
        };
        let encoding = if takes_gzip { "gzip" } else { "identity" };
        let answer = ask(self.world.address, "GET", &target, &[("accept-encoding", encoding)], "");
        if answer.status == 503 {
            assert!(!was_served, "{target} was served before");
            assert_eq!(answer.header("retry-after"), Some("2"));
            self.waited.fetch_add(1, Ordering::SeqCst);
            return;
        }
        assert_eq!(answer.status, 200, "{target}");
        let tag = answer.header("etag").unwrap().trim_start_matches("W/").trim_matches('"');
        let digest = tag.strip_prefix("sha256:").unwrap().get(..64).unwrap();
        let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
        assert_eq!(number(&digest[..32]), catalog);
        let expected = lines(catalog, number(&digest[32..]), package);
        assert!(answer.decoded() == expected.as_bytes(), "{target} is torn: {answer:?}");
        self.compressed.fetch_add(u64::from(answer.header("content-encoding").is_some()), Ordering::SeqCst);
    }
}

#[test]
fn no_answer_is_torn_and_no_request_fails_while_catalogs_change() {
    let world = World::with(&Config::default(), true);
    for catalog in 0..CATALOGS {
        world.store.announce(&name(catalog), Some((reference(catalog, 0), None)));
    }
    let swarm = Arc::new(Swarm {
        world,
        is_served: (0..CATALOGS).map(|_| AtomicBool::new(false)).collect(),
        installed: AtomicUsize::new(0),
        asked: AtomicU64::new(0),
        compressed: AtomicU64::new(0),
        waited: AtomicU64::new(0),
    });
    let readers = (0..CLIENTS).map(|client| {
        let swarm = Arc::clone(&swarm);
        thread::spawn(move || swarm.read(client))
    });
    let readers: Vec<_> = readers.collect();
    // The clients are there first.
    while swarm.waited.load(Ordering::SeqCst) == 0 && readers.iter().all(|reader| !reader.is_finished()) {
        thread::yield_now();
    }
    let writers = (0..CATALOGS).map(|catalog| {
        let swarm = Arc::clone(&swarm);
        thread::spawn(move || swarm.write(catalog))
    });
    for thread in writers.collect::<Vec<_>>().into_iter().chain(readers) {
        thread.join().unwrap();
    }
    // Compression comes last on a busy machine, but it comes, and its answers are whole as well.
    for catalog in 0..CATALOGS {
        let (before, started) = (swarm.compressed.load(Ordering::SeqCst), Instant::now());
        while swarm.compressed.load(Ordering::SeqCst) == before {
            assert!(started.elapsed() < DEADLINE, "{} is not compressed", name(catalog));
            swarm.request(catalog, PACKAGES, true);
        }
    }
    let [asked, compressed, waited] =
        [&swarm.asked, &swarm.compressed, &swarm.waited].map(|count| count.load(Ordering::SeqCst));
    println!("{asked} requests, {compressed} answers compressed, {waited} too early");
    assert!(waited > 0, "clients were there before the first content");
}
