//! An extension whose bundle requires others in a row: what is created and removed for it is the same wherever a process ends.

use olm_api::names::DEPENDENCIES_ANNOTATION;

use super::*;
use crate::simulation::Process;

/// Each requires the next.
const PACKAGES: [&str; 3] = ["lighthouse", "harbour", "pier"];

fn version(number: usize) -> String {
    format!("1.0.{number}")
}

/// Puts a bundle for each package where pulled ones are kept.
fn keep_all(folder: &Path) {
    let sample = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../config/samples/lighthouse/bundles/1.0.0");
    for (number, package) in PACKAGES.into_iter().enumerate() {
        let mut files = BundleFiles::new();
        for part in ["manifests", "metadata"] {
            for entry in std::fs::read_dir(sample.join(part)).unwrap() {
                let entry = entry.unwrap();
                let text = std::fs::read_to_string(entry.path()).unwrap();
                let text = text.replace("lighthouse", package).replace("1.0.0", &version(number));
                files.insert(&format!("{part}/{}", entry.file_name().to_string_lossy()), text.into_bytes());
            }
        }
        olm_bundles::keep(folder, &digest(&version(number)), &files).unwrap();
    }
}

/// A catalog with all of them.
struct Row;

#[async_trait]
impl CatalogReader for Row {
    async fn package(&self, _: &str, name: &str) -> Result<Arc<PackageContent>, CatalogError> {
        let mut content = PackageContent::default();
        let named = |number: &usize| format!("{}-operator", PACKAGES[*number]);
        if let Some(number) = (0..PACKAGES.len()).find(|number| named(number) == name) {
            let (version, bundle) = (version(number), format!("{name}.v{}", version(number)));
            let own = json!({"type": "olm.package", "value": {"packageName": name, "version": version}});
            let next = Some(number + 1).filter(|next| *next < PACKAGES.len());
            let next = next.map(|next| {
                let value = json!({"packageName": named(&next), "versionRange": ">=1.0.0"});
                json!({"type": "olm.package.required", "value": value})
            });
            let properties: Vec<Value> = [own].into_iter().chain(next).collect();
            for blob in [
                json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
                json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": [{"name": bundle}]}),
                json!({
                    "schema": "olm.bundle", "package": name, "name": bundle, "properties": properties,
                    "image": format!("registry.example.com/{name}@{}", digest(&version)),
                }),
            ] {
                content.push_json(blob.to_string().as_bytes()).unwrap();
            }
        }
        Ok(Arc::new(content))
    }

    async fn mentioning(&self, _: &str, _: &str) -> Result<Vec<PackageContent>, CatalogError> {
        Ok(Vec::new())
    }

    async fn packages(&self, _: &str) -> Result<Vec<String>, CatalogError> {
        Ok(Vec::new())
    }
}

/// Runs a process that ends with its n-th request, then one that does not.
async fn run(server: &ApiServer, folder: &Path, crash_at: u64) {
    for crash_at in [crash_at, 0] {
        let client = server.client_of(Process::crashing_at(crash_at));
        let content = crate::content::Content::Given(Arc::new(Row), broadcast::channel(8).0);
        let loops = loops(client, (crash_at, 1), server.clock(), (content, folder.to_owned()));
        let work = tokio::spawn(async move { Box::pin(loops.run(CancellationToken::new())).await });
        for _ in 0..30 {
            tokio::time::sleep(Duration::from_mins(1)).await;
            // What is left without an owner goes.
            server.reconcile_cluster();
        }
        work.abort();
    }
}

/// The extensions with the versions that are installed, and what is left of them after the first is removed.
fn life(folder: &Path, value: &str, crash_at: u64) -> (Vec<String>, Vec<String>) {
    runtime().block_on(async {
        let server = ApiServer::new(0);
        server.create(catalog());
        let mut first = extension();
        first["metadata"]["annotations"] = json!({DEPENDENCIES_ANNOTATION: value});
        server.create(first);
        let extensions = || -> Vec<String> {
            let objects = server.objects().into_iter();
            let objects: Vec<Value> = objects.map(|text| serde_json::from_str(&text).unwrap()).collect();
            let installed = |one: &&Value| {
                format!("{} {}", one["metadata"]["name"], one["status"]["install"]["bundle"]["version"])
            };
            of_kind(&objects, "ClusterExtension").iter().map(installed).collect()
        };
        run(&server, folder, crash_at).await;
        let before = extensions();
        server.remove("clusterextensions", "", "ext");
        run(&server, folder, crash_at).await;
        let violations = server.properties().violations;
        assert!(violations.is_empty(), "{crash_at}: {violations:#?}");
        (before, extensions())
    })
}

#[test]
fn what_a_bundle_requires_comes_and_goes_wherever_a_process_ends() {
    let folder = tempfile::tempdir().unwrap();
    keep_all(folder.path());
    let all = ["\"ext\" \"1.0.0\"", "\"harbour-operator\" \"1.0.1\"", "\"pier-operator\" \"1.0.2\""];
    for crash_at in (0..160).step_by(7) {
        let (before, after) = life(folder.path(), "InstallAndRemove", crash_at);
        assert_eq!(before, all, "ended at request {crash_at}");
        assert!(after.is_empty(), "ended at request {crash_at}: {after:?}");
    }
    let (before, after) = life(folder.path(), "Install", 0);
    assert_eq!(
        (before.as_slice(), after.as_slice()),
        (&all.map(str::to_owned)[..], &all[1..].iter().map(ToString::to_string).collect::<Vec<_>>()[..])
    );
}
