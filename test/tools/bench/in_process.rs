//! Figures of the pure crates: rendering real bundles, resolving every package.

use catalogd::{CatalogReader as _, CatalogStore, LocalReader};
use olm_bundle::{Bundle, MEMORY_BYTES_MAX};
use olm_render::{Options, render};
use olm_resolve::{CatalogView, DependencyHandling, Request, UpgradePolicy, resolve};
use olm_semver::ReleaseSupport;

use super::catalogs::LARGE;
use super::large_catalog::LargeCatalog;
use super::{figure, percentile, usage::memory};
use crate::{images::bundle_files, prelude::*};

/// Renderings of each bundle, of which the median counts.
const ROUNDS: usize = 5;

/// Renders every real bundle.
pub(super) fn renders(bundles: &Path) -> Result<()> {
    let mut medians = Vec::new();
    let (mut rendered, mut refused) = (0_u32, 0_u32);
    // From here on the kernel counts the most that is resident anew.
    fs::write("/proc/self/clear_refs", "5").context("resetting the peak of memory")?;
    let before = memory(std::process::id())?.resident;
    for folder in versions(bundles)? {
        let files = bundle_files(&folder)?;
        let options = Options::new("bench");
        let mut rounds: Vec<f64> = Vec::with_capacity(ROUNDS);
        let mut is_rendered = true;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            is_rendered = Bundle::read(&files, MEMORY_BYTES_MAX)
                .is_ok_and(|bundle| std::hint::black_box(render(bundle, &options)).is_ok());
            rounds.push(start.elapsed().as_secs_f64() * 1e3);
        }
        if is_rendered {
            rendered += 1;
            medians.push(percentile(&mut rounds, 50));
        } else {
            refused += 1;
        }
    }
    figure("render-bundles", f64::from(rendered), "rendered");
    figure("render-bundles-refused", f64::from(refused), "refused");
    figure("render-median", percentile(&mut medians, 50), "ms");
    figure("render-max", percentile(&mut medians, 100), "ms");
    figure("render-memory-peak", memory(std::process::id())?.peak - before, "MB");
    Ok(())
}

/// The folders of all bundles: `<operator>/<version>` with manifests.
fn versions(bundles: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for operator in subfolders(bundles)? {
        found.extend(subfolders(&operator)?.into_iter().filter(|f| f.join("manifests").is_dir()));
    }
    Ok(found)
}

pub(super) fn subfolders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Resolves the newest version of every package, from what the program left on disk and from memory.
pub(super) async fn resolutions(store: &Path, large: &LargeCatalog) -> Result<()> {
    let reader = LocalReader::new(Arc::new(CatalogStore::open(store)?));
    let (mut through_reader, mut in_memory) = (Vec::new(), Vec::new());
    for package in &large.packages {
        let request = request(package);
        let start = Instant::now();
        let content = reader.package(LARGE, package).await?;
        let read = start.elapsed();
        let views = [CatalogView { name: LARGE, priority: 0, content: Ok(&content) }];
        let start = Instant::now();
        // An error is an answer too, and takes as long to find.
        let _ = std::hint::black_box(resolve(&request, &views));
        let resolved = start.elapsed();
        in_memory.push(resolved.as_secs_f64() * 1e6);
        through_reader.push((read + resolved).as_secs_f64() * 1e6);
    }
    for (name, values) in [("memory", &mut in_memory), ("reader", &mut through_reader)] {
        figure(&format!("resolution-{name}-median"), percentile(values, 50), "us");
        figure(&format!("resolution-{name}-p90"), percentile(values, 90), "us");
        figure(&format!("resolution-{name}-max"), percentile(values, 100), "us");
    }
    Ok(())
}

fn request(package: &str) -> Request {
    Request {
        package: package.to_owned(),
        version: None,
        channels: Vec::new(),
        upgrade_policy: UpgradePolicy::CatalogProvided,
        installed: None,
        options: olm_resolve::Options {
            dependencies: DependencyHandling::Refuse,
            releases: ReleaseSupport::On,
            ..olm_resolve::Options::default()
        },
        ceiling: None,
    }
}
