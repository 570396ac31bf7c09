//! Snapshots of custom resources, and bringing them back.

use futures::{StreamExt as _, TryStreamExt as _};
use std::fs::OpenOptions;

use kube::api::GroupVersionKind;
use olm_test::{long, prelude::*};

use super::{Answer, command_line, olm};

/// Objects of a sample, and of a long run.
const OBJECTS: [usize; 2] = [350, 10_000];
/// Objects that are created at once.
const CONCURRENT: usize = 16;

/// An extension with a CRD that has a status, and many custom resources.
struct Saved {
    scenario: Scenario<'static>,
    resource: ApiResource,
    folder: tempfile::TempDir,
}

/// What must be the same afterwards, by name.
type Content = BTreeMap<String, Value>;

impl Saved {
    async fn new(base: &str) -> Result<Self> {
        let scenario = Scenario::shared(base).await?;
        let group = scenario.group();
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        let mut crd = olm_test::bundle::crd_with_versions(&group, "Lamp", &[("v1", schema)]);
        crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
        let bundle = small("lamps", "1.0.0").contains(crd);
        scenario.offer(&[bundle]).await?;
        scenario.install("lamps", json!({"version": "1.0.0"}), "1.0.0").await?;
        let gvk = GroupVersionKind::gvk(&group, "v1", "Lamp");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "lamps");
        Ok(Self { scenario, resource, folder: tempfile::tempdir()? })
    }

    fn api(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.scenario.client.clone(), &self.scenario.name, &self.resource)
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Creates objects; every third is owned by the one before, and by a ConfigMap that is not in the snapshot.
    async fn create(&self, count: usize) -> Result<()> {
        let create = |number: usize, owner: Option<DynamicObject>| async move {
            let (api, name) = (self.api(), format!("lamp-{number:05}"));
            let mut object = DynamicObject::new(&name, &self.resource)
                .data(json!({"spec": {"number": number, "text": "x".repeat(number % 500)}}));
            object.labels_mut().insert("number".to_owned(), number.to_string());
            if let Some(owner) = owner {
                let reference = |kind: &str, name: String, uid: Option<String>| {
                    let api_version = if kind == "Lamp" { &self.resource.api_version } else { "v1" };
                    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid})
                };
                let references = json!([reference("Lamp", owner.name_any(), owner.uid())]);
                object.metadata.owner_references = Some(serde_json::from_value(references)?);
            }
            let created = api.create(&PostParams::default(), &object).await?;
            let status = json!({"status": {"seen": number}});
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
            anyhow::Ok(created)
        };
        let groups = futures::stream::iter((0..count).step_by(3)).map(|first| async move {
            let owner = create(first, None).await?;
            if first + 1 < count {
                let second = create(first + 1, Some(owner)).await?;
                if first + 2 < count {
                    create(first + 2, Some(second)).await?;
                }
            }
            anyhow::Ok(())
        });
        groups.buffer_unordered(CONCURRENT).try_collect::<Vec<()>>().await?;
        Ok(())
    }

    async fn content(&self) -> Result<Content> {
        let listed = self.api().list(&ListParams::default()).await?.items;
        let names: BTreeMap<String, String> =
            listed.iter().filter_map(|one| Some((one.uid()?, one.name_any()))).collect();
        let content = |one: &DynamicObject| {
            // An owner counts by the object that has its UID now.
            let owners: Vec<_> = one.owner_references().iter().map(|owner| names.get(&owner.uid)).collect();
            json!([one.labels(), one.annotations(), owners, one.data])
        };
        Ok(listed.iter().map(|one| (one.name_any(), content(one))).collect())
    }

    async fn run(&self, args: &[&str]) -> Result<Answer> {
        olm(&self.scenario, args).await
    }

    /// Starts `olm` and kills it once `is_time`; whether it was killed.
    async fn killed(&self, args: &[&str], is_time: impl AsyncFn() -> Result<bool>) -> Result<bool> {
        let mut child = command_line(&self.scenario, args)?
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()?;
        loop {
            if child.try_wait()?.is_some() {
                return Ok(false);
            }
            if is_time().await? {
                child.kill()?;
                child.wait()?;
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

// A snapshot that was killed, or whose last record is torn, is continued; what is restored from it, with a kill in between, is
// object by object what it was, and an extension of the same name takes it over.
#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_are_saved_and_restored() -> Result<()> {
    let saved = Saved::new("cli-snapshot").await?;
    let (name, count) = (saved.scenario.name.clone(), OBJECTS[usize::from(long::is_asked())]);
    saved.create(count).await?;
    let before = saved.content().await?;
    ensure!(before.len() == count, "{} objects", before.len());

    let (whole, file) = (saved.file("whole"), saved.file("continued"));
    let begun = Instant::now();
    let wanted = format!("1 CRD, {count} custom resources, sha256:");
    saved.run(&["snapshot", &name, "-o", &whole]).await?.ensure(0, &[&wanted])?;
    println!("saving: {count} objects saved in {:?}, {} bytes", begun.elapsed(), fs::metadata(&whole)?.len());
    let args = ["snapshot", name.as_str(), "-o", file.as_str()];
    // Its first page is written.
    let length = fs::metadata(&whole)?.len() / 4;
    let is_time = async || Ok(fs::metadata(&file).is_ok_and(|file| file.len() > length));
    if !saved.killed(&args, is_time).await? {
        fs::copy(&whole, &file)?;
    }
    // Wherever the kill was: the last record is torn.
    let torn = OpenOptions::new().write(true).open(&file)?;
    torn.set_len(torn.metadata()?.len().min(fs::metadata(&whole)?.len() * 2 / 3) - 7)?;
    let torn = saved.run(&["restore", &file, "--dry-run"]).await?;
    torn.ensure_error(1, &["the snapshot is not complete"])?;
    saved.run(&args).await?.ensure(0, &["continuing after", &wanted])?;
    saved.run(&args).await?.ensure_error(1, &["the snapshot is complete"])?;

    saved.scenario.delete_extension().await?;
    let crds = saved.scenario.crds();
    crds.gone(&format!("lamps.{}", saved.scenario.group())).await?;
    let dry = saved.run(&["restore", &file, "--dry-run"]).await?;
    dry.ensure(0, &["not tried: their CRDs do not exist yet"])?;
    ensure!(crds.get_opt(&format!("lamps.{}", saved.scenario.group())).await?.is_none(), "a dry run writes");

    let begun = Instant::now();
    let args = ["restore", file.as_str(), "--yes"];
    let is_time = async || match saved.api().list_metadata(&ListParams::default()).await {
        Ok(listed) => Ok(listed.items.len() > count / 3),
        // Not served yet.
        Err(_) => Ok(false),
    };
    let was_killed = saved.killed(&args, is_time).await?;
    saved.run(&args).await?.ensure(0, &[&format!("{count} custom resources restored")])?;
    println!("saving: restored in {:?}, killed in between: {was_killed}", begun.elapsed());
    let after = saved.content().await?;
    for (name, content) in &before {
        ensure!(after.get(name) == Some(content), "{name}: {content} became {:?}", after.get(name));
    }
    ensure!(after.len() == count, "{} objects", after.len());
    let versions = async || -> Result<Vec<_>> {
        let listed = saved.api().list_metadata(&ListParams::default()).await?;
        Ok(listed.items.iter().map(ResourceExt::resource_version).collect())
    };
    let once = versions().await?;
    saved.run(&args).await?.ensure(0, &[&format!("{count} custom resources restored")])?;
    ensure!(versions().await? == once, "restoring again changes something");

    saved.scenario.install("lamps", json!({"version": "1.0.0"}), "1.0.0").await?;
    ensure!(saved.content().await? == before, "the new extension changed its custom resources");
    saved.scenario.delete_extension().await
}

// A file that is something else is neither written over nor restored.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_no_snapshot_is_left_alone() -> Result<()> {
    let saved = Saved::new("cli-no-snapshot").await?;
    let (name, file) = (saved.scenario.name.clone(), saved.file("letter"));
    fs::write(&file, "dear all")?;
    let answer = saved.run(&["snapshot", &name, "-o", &file]).await?;
    answer.ensure_error(1, &["the file exists and is no snapshot"])?;
    ensure!(fs::read_to_string(&file)? == "dear all", "the file was written over");
    saved.run(&["restore", &file, "--yes"]).await?.ensure_error(1, &["not complete"])?;
    saved.scenario.delete_extension().await
}
