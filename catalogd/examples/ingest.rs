//! Ingests a folder of catalog files as catalogd does and prints what it took, to measure on real catalogs:
//! `ingest <folder with files> <cache folder>`. Run twice on one cache folder, the second run also shows
//! how long taking over stored content takes.

use std::{
    error::Error,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use catalogd::{CatalogFiles, CatalogReader as _, CatalogStore, LocalReader};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Folder(PathBuf);

impl CatalogFiles for Folder {
    fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Some(path) = path.strip_prefix(&self.0).ok().and_then(Path::to_str) {
                    paths.push(path.to_owned());
                }
            }
        }
        paths
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(Box::new(File::open(self.0.join(path))?))
    }
}

/// A line of the kernel's account of this process.
fn account(file: &str, key: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim().to_owned()
}

#[expect(clippy::print_stdout, reason = "the figures are the result")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(folder), Some(cache)) = (arguments.next(), arguments.next()) else {
        return Err("usage: ingest <folder with files> <cache folder>".into());
    };
    let started = Instant::now();
    let store = Arc::new(CatalogStore::open(&cache)?);
    println!("opened the store in {:?}: {:?}", started.elapsed(), store.catalogs());

    let started = Instant::now();
    let reference = format!("localhost/measured/catalog@sha256:{}", "0".repeat(64));
    let generation = store.install("measured", &reference, jiff::Timestamp::now(), &Folder(folder))?;
    println!(
        "ingested {} documents, {} bytes in {:?}; peak memory {}",
        generation.documents(),
        generation.bytes(),
        started.elapsed(),
        account("/proc/self/status", "VmHWM:")
    );

    let started = Instant::now();
    let is_made = store.compress("measured", &|| false)?;
    println!(
        "compressed form made ({is_made}) in {:?}; peak memory {}",
        started.elapsed(),
        account("/proc/self/status", "VmHWM:")
    );

    let reader = LocalReader::new(Arc::clone(&store));
    let mut times = Vec::new();
    for package in generation.packages() {
        let started = Instant::now();
        reader.package("measured", package).await?;
        times.push(started.elapsed());
    }
    times.sort();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    println!(
        "{} packages read: median {:?}, 90 % {:?}, longest {:?}",
        times.len(),
        at(50),
        at(90),
        times.last()
    );
    println!(
        "memory {}, peak {}",
        account("/proc/self/status", "VmRSS:"),
        account("/proc/self/status", "VmHWM:")
    );
    Ok(())
}
