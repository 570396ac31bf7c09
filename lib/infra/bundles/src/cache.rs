//! Pulled bundles on disk: one file each, raw, under the digest of the image.
//!
//! A file begins with [`MAGIC`]; then come length of path (4 bytes, big endian), length of content (8 bytes), path and
//! content of every file, a path of no bytes, and the SHA-256 of all that. One that does not end so is no bundle and is
//! pulled again. When a file was last used is its time of modification, so that it outlives the process.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write},
    path::PathBuf,
    sync::Arc,
    time::SystemTime,
};

use olm_bundle::BundleFiles;
use olm_image::{DiskBudget, DiskCharge, Files};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::{BUNDLE_BYTES_MAX, ENTRIES_MAX, FILE_BYTES_MAX, PATH_BYTES_MAX};

const MAGIC: &[u8] = b"olm bundle 1\n";
const EXTENSION: &str = "bundle";
/// Extension of a file that is being written.
const UNFINISHED: &str = "tmp";
/// Extension of earlier programs' files.
const OUTDATED: &str = "json";
/// Bundles kept on disk; the least recently used go first. Larger installations have 300 operators.
const BUNDLES_MAX: usize = 500;
/// Bytes of all of them. Real bundles have some 300 KB.
const BYTES_MAX: u64 = 512 << 20;

pub(crate) struct Cache {
    folder: PathBuf,
    disk: DiskBudget,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_key: BTreeMap<String, Entry>,
    /// Counts uses.
    uses: u64,
}

struct Entry {
    charge: DiskCharge,
    /// The number of its last use.
    used: u64,
}

/// A bundle that was found.
pub(crate) struct Cached {
    key: String,
    file: File,
    bytes: u64,
}

impl Cached {
    /// Bytes of the bundle, a little more than its files have.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Cache {
    /// Takes over what an earlier process left, and removes what it left unfinished.
    pub(crate) fn open(folder: PathBuf, disk: &DiskBudget) -> io::Result<Arc<Self>> {
        fs::create_dir_all(&folder)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            match (extension, path.file_stem().and_then(|key| key.to_str()), fs::metadata(&path)) {
                (Some(EXTENSION), Some(key), Ok(file)) if file.is_file() => {
                    found.push((file.modified()?, key.to_owned(), file.len()));
                }
                (Some(UNFINISHED | OUTDATED), _, Ok(file)) if file.is_file() => fs::remove_file(&path)?,
                _ => {}
            }
        }
        found.sort_unstable();
        let mut entries = Entries::default();
        for (_, key, bytes) in found {
            let used = entries.next_use();
            entries.by_key.insert(key, Entry { charge: disk.charge_existing(bytes), used });
        }
        let cache = Arc::new(Self { folder, disk: disk.clone(), entries: Mutex::new(entries) });
        cache.trim(0);
        let weak = Arc::downgrade(&cache);
        disk.on_shortage(move |missing| {
            if let Some(cache) = weak.upgrade() {
                cache.give_up(missing);
            }
        });
        Ok(cache)
    }

    /// The bundle under this key, which counts as used now.
    pub(crate) fn find(&self, key: &str) -> Option<Cached> {
        let opened = File::options().read(true).write(true).open(self.path(key));
        let Ok((file, metadata)) = opened.and_then(|file| file.metadata().map(|metadata| (file, metadata)))
        else {
            self.entries.lock().by_key.remove(key);
            return None;
        };
        // Only the order in which bundles go depends on it.
        let _ = file.set_modified(SystemTime::now());
        let mut entries = self.entries.lock();
        let used = entries.next_use();
        if let Some(entry) = entries.by_key.get_mut(key) {
            entry.used = used;
        }
        Some(Cached { key: key.to_owned(), file, bytes: metadata.len() })
    }

    /// The files of a bundle that was found; one that is damaged is removed.
    pub(crate) async fn read(self: &Arc<Self>, cached: Cached) -> Option<BundleFiles> {
        let Cached { key, file, bytes } = cached;
        let read = tokio::task::spawn_blocking(move || decode(BufReader::new(file), bytes)).await;
        match read {
            Ok(Ok(files)) => Some(files),
            Ok(Err(error)) => {
                tracing::warn!(%error, bundle = key, "cached bundle is not usable and is pulled again");
                self.remove(&mut self.entries.lock(), &key);
                None
            }
            Err(_) => None,
        }
    }

    pub(crate) async fn store(self: &Arc<Self>, key: &str, files: &Files) -> io::Result<()> {
        let (cache, key, files) = (Arc::clone(self), key.to_owned(), files.clone());
        tokio::task::spawn_blocking(move || cache.store_now(&key, &files)).await.map_err(io::Error::other)?
    }

    fn store_now(&self, key: &str, files: &Files) -> io::Result<()> {
        let listed = || files.paths().filter_map(|path| Some((path, files.size(path)?)));
        let overhead = MAGIC.len() + 4 + Sha256::output_size();
        let bytes =
            listed().map(|(path, length)| 12 + path.len() as u64 + length).sum::<u64>() + overhead as u64;
        self.trim(bytes);
        let mut charge = self.disk.empty();
        charge.grow(bytes)?;
        let aside = self.path(key).with_extension(format!("{:016x}.{UNFINISHED}", fastrand::u64(..)));
        let written = File::create_new(&aside).and_then(|file| {
            let mut out = BufWriter::new(file);
            let opened = listed().map(|(path, length)| {
                let content = files.open(path).map_err(io::Error::other)?;
                Ok((path, length, content))
            });
            encode(&mut out, opened)?;
            out.flush()?;
            fs::rename(&aside, self.path(key))
        });
        if let Err(error) = written {
            // The first error says why; what stays behind goes with the next start.
            let _ = fs::remove_file(&aside);
            return Err(error);
        }
        let mut entries = self.entries.lock();
        let used = entries.next_use();
        entries.by_key.insert(key.to_owned(), Entry { charge, used });
        Ok(())
    }

    /// Removes the least recently used bundles until one more of `bytes` is within the limits.
    fn trim(&self, bytes: u64) {
        let mut entries = self.entries.lock();
        let mut total = entries.by_key.values().fold(bytes, |sum, e| sum.saturating_add(e.charge.bytes()));
        while total > BYTES_MAX || entries.by_key.len() >= BUNDLES_MAX {
            let Some(freed) = self.remove_oldest(&mut entries) else { return };
            total = total.saturating_sub(freed);
        }
    }

    /// Removes the least recently used bundles until so many bytes are free.
    fn give_up(&self, missing: u64) {
        let mut entries = self.entries.lock();
        let mut freed = 0_u64;
        while freed < missing {
            let Some(bytes) = self.remove_oldest(&mut entries) else { return };
            freed = freed.saturating_add(bytes);
        }
    }

    fn remove_oldest(&self, entries: &mut Entries) -> Option<u64> {
        let oldest = entries.by_key.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone())?;
        Some(self.remove(entries, &oldest))
    }

    /// Removes a bundle; the bytes it had.
    fn remove(&self, entries: &mut Entries, key: &str) -> u64 {
        if let Err(error) = fs::remove_file(self.path(key))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, bundle = key, "cached bundle could not be removed");
        }
        entries.by_key.remove(key).map_or(0, |entry| entry.charge.bytes())
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(key).with_extension(EXTENSION)
    }
}

impl Entries {
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

/// Writes a bundle of these paths, lengths and contents.
pub(crate) fn encode<'a, R: Read>(
    out: &mut impl Write,
    files: impl Iterator<Item = io::Result<(&'a str, u64, R)>>,
) -> io::Result<()> {
    let mut out = Hashing { inner: out, hasher: Sha256::new() };
    out.write_all(MAGIC)?;
    for file in files {
        let (path, length, mut content) = file?;
        out.write_all(&u32::try_from(path.len()).map_err(io::Error::other)?.to_be_bytes())?;
        out.write_all(&length.to_be_bytes())?;
        out.write_all(path.as_bytes())?;
        if io::copy(&mut content, &mut out)? != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    out.write_all(&0_u32.to_be_bytes())?;
    let digest = out.hasher.finalize();
    out.inner.write_all(&digest)
}

/// Reads a bundle of `bytes` in all. Nothing is allocated that these bytes do not hold.
fn decode(file: impl Read, bytes: u64) -> io::Result<BundleFiles> {
    let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut file = Hashing { inner: file.take(bytes), hasher: Sha256::new() };
    if file.array::<{ MAGIC.len() }>()? != *MAGIC {
        return Err(damaged("it is no bundle"));
    }
    let (mut files, mut paths, mut total) = (BundleFiles::new(), 0, 0_u64);
    loop {
        let path = u32::from_be_bytes(file.array()?) as usize;
        if path == 0 {
            break;
        }
        let length = u64::from_be_bytes(file.array()?);
        (paths, total) = (paths + path, total.saturating_add(length));
        let fits = length <= FILE_BYTES_MAX && total <= BUNDLE_BYTES_MAX && total <= bytes;
        if !fits || paths > PATH_BYTES_MAX || files.len() >= ENTRIES_MAX {
            return Err(damaged("it is larger than a bundle may be"));
        }
        let path = String::from_utf8(file.vec(path)?).map_err(|_| damaged("a path is no text"))?;
        files.insert(&path, file.vec(usize::try_from(length).map_err(io::Error::other)?)?);
    }
    let digest = file.hasher.clone().finalize();
    let is_whole = file.array::<32>()? == <[u8; 32]>::from(digest) && file.inner.limit() == 0;
    if is_whole { Ok(files) } else { Err(damaged("its checksum differs")) }
}

/// Passes bytes on and hashes them.
struct Hashing<T> {
    inner: T,
    hasher: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Hashing<R> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.hasher.update(bytes);
        Ok(bytes)
    }

    fn vec(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.inner.read_exact(&mut bytes)?;
        self.hasher.update(&bytes);
        Ok(bytes)
    }
}

/// Puts a bundle where pulled ones are kept, so that a test need not pull it.
///
/// # Errors
/// It cannot be written.
pub fn keep(folder: &std::path::Path, digest: &str, files: &BundleFiles) -> io::Result<()> {
    let mut out = File::create(folder.join(format!("{}.bundle", digest.replace(':', "-"))))?;
    encode(&mut out, files.iter().map(|(path, bytes)| Ok((path, bytes.len() as u64, bytes))))
}
