//! Upgrades that change CRDs: unsafe changes are blocked, stored objects are validated, administrators decide.

use kube::api::GroupVersionKind;
use olm_api::names::{ALLOW_CRD_CHANGES_ANNOTATION, CRD_CHANGE_MODE_ANNOTATION};
use olm_test::{
    bundle::{IMAGE, config_map, crd, deployment, reads_config_maps, unschedulable},
    prelude::*,
};

const PACKAGE: &str = "widgets";

/// What a version of the widgets' operator is like.
#[derive(Clone, Copy)]
struct Version {
    number: &'static str,
    /// The largest size that its CRD allows; none: it has no CRD.
    size_max: Option<u32>,
    /// Whether its Deployment can run anywhere.
    runs: bool,
}

const VERSIONS: [Version; 3] = [
    Version { number: "1.0.0", size_max: Some(10), runs: true },
    Version { number: "1.1.0", size_max: Some(5), runs: true },
    Version { number: "1.2.0", size_max: None, runs: false },
];

/// The version with a ConfigMap, which is written before its CRD.
const GATED: &str = "1.1.0";

/// Writes the bundles below `folder`, each into one named like its version.
fn write_bundles(folder: &Path, group: &str, reads_widgets: bool) -> Result<()> {
    for version in VERSIONS {
        let deployment = if version.runs { deployment(PACKAGE, IMAGE) } else { unschedulable(PACKAGE) };
        let rules = if reads_widgets {
            json!([{"apiGroups": [group], "resources": ["widgets"], "verbs": ["get", "list", "watch"]}])
        } else {
            reads_config_maps()
        };
        let mut bundle = Bundle::new(PACKAGE, version.number).operator(deployment, &rules);
        if version.number == GATED {
            bundle = bundle.contains(config_map("gate", &json!({})));
        }
        if let Some(size_max) = version.size_max {
            let size = json!({"size": {"type": "integer", "maximum": size_max}});
            bundle = bundle.contains(crd(group, "Widget", &size));
        }
        bundle.write(&folder.join(version.number))?;
    }
    Ok(())
}

/// An installed operator at its first version.
struct Installed {
    scenario: Scenario<'static>,
    group: String,
    folder: tempfile::TempDir,
}

impl Installed {
    async fn new(base: &str, reads_widgets: bool) -> Result<Self> {
        let scenario = Scenario::shared(base).await?;
        let group = format!("{}.example.com", scenario.name);
        let folder = tempfile::tempdir()?;
        write_bundles(folder.path(), &group, reads_widgets)?;
        let bundles = VERSIONS.map(|v| (v.number, folder.path().join(v.number)));
        scenario.prepare(PACKAGE, &bundles).await?;
        scenario.install(PACKAGE, json!({"version": "1.0.0"}), "1.0.0").await?;
        Ok(Self { scenario, group, folder })
    }

    async fn create_widgets(&self, sizes: &[u32]) -> Result<()> {
        let objects = sizes.iter().map(|size| (format!("size-{size}"), json!({"size": size})));
        create_objects(&self.scenario, &self.group, ["v1", "Widget", "widgets"], objects).await
    }

    async fn delete_widget(&self, name: &str) -> Result<()> {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&self.group, "v1", "Widget"), "widgets");
        let client = self.scenario.client.clone();
        let api: Api<DynamicObject> = Api::namespaced_with(client, &self.scenario.name, &resource);
        api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    fn crd_name(&self) -> String {
        format!("widgets.{}", self.group)
    }

    fn refusal(&self) -> String {
        format!(
            "True/Retrying/error for resolved bundle \"widgets.v1.1.0\" with version \"1.1.0\": validating upgrade for CRD {:?}: v1: ^.spec.size: maximum: maximum decreased : 10 -> 5",
            self.crd_name()
        )
    }
}

async fn create_objects(
    scenario: &Scenario<'_>,
    group: &str,
    [version, kind, plural]: [&str; 3],
    objects: impl Iterator<Item = (String, Value)>,
) -> Result<()> {
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    let api: Api<DynamicObject> = Api::namespaced_with(scenario.client.clone(), &scenario.name, &resource);
    for (name, spec) in objects {
        let object = DynamicObject::new(&name, &resource).data(json!({"spec": spec}));
        api.create(&PostParams::default(), &object).await.with_context(|| name.clone())?;
    }
    Ok(())
}

/// Waits until a condition's text has all of these in it.
async fn says(scenario: &Scenario<'_>, type_: olm_api::ConditionType, wanted: &[&str]) -> Result<()> {
    scenario.reports(type_, |found| wanted.iter().all(|wanted| found.contains(wanted))).await
}

async fn allow(scenario: &Scenario<'_>, entries: Option<&str>) -> Result<()> {
    let annotations = json!({"metadata": {"annotations": {ALLOW_CRD_CHANGES_ANNOTATION: entries}}});
    scenario.patch_extension(annotations).await
}

// An unsafe change is stopped and the stored objects are counted; the installed version goes on; accepting the
// change lets it through, and Ready goes on saying so.
#[tokio::test(flavor = "multi_thread")]
async fn an_unsafe_change_is_stopped_until_it_is_accepted() -> Result<()> {
    let widgets = Installed::new("crd-accepted", true).await?;
    let scenario = &widgets.scenario;
    widgets.create_widgets(&[1, 4, 6, 9]).await?;

    scenario.set_version("1.1.0").await?;
    scenario.shows(Progressing, &widgets.refusal()).await?;
    let entry = format!("{}:^.spec.size:maximum", widgets.crd_name());
    let counted = format!("CRD {:?}: 2 of 4 objects would become invalid.", widgets.crd_name());
    let hint = format!("{ALLOW_CRD_CHANGES_ANNOTATION}: {entry}");
    says(scenario, Stalled, &["True/Blocked/", &counted, &hint]).await?;
    let stalled = scenario.shown().await?.condition(Stalled);
    ensure!(!stalled.contains("size-6"), "objects are named in a condition: {stalled}");
    scenario.repairs("1.0.0").await?;
    names_are_printed(&widgets).await?;

    allow(scenario, Some("everything")).await?;
    let refused =
        format!("annotation {ALLOW_CRD_CHANGES_ANNOTATION:?}: entry \"everything\" is not of the form");
    says(scenario, Progressing, &["False/Blocked/", &refused]).await?;

    allow(scenario, Some(&format!("{entry}, other.example.com:^.spec:type"))).await?;
    scenario.installed("1.1.0").await?;
    let accepted = format!("CRD changes accepted by {ALLOW_CRD_CHANGES_ANNOTATION}: {entry}");
    let unused = format!(
        "Entries of {ALLOW_CRD_CHANGES_ANNOTATION} that nothing needs: other.example.com:^.spec:type"
    );
    says(scenario, Ready, &["True/", &accepted, &unused]).await?;
    scenario.delete_extension().await
}

/// `olm crd check` names the objects that conditions only count.
async fn names_are_printed(widgets: &Installed) -> Result<()> {
    let olm = tokio::task::spawn_blocking(|| cargo_program("olm-cli", "olm")).await??;
    let bundle = |version: &str| widgets.folder.path().join(version);
    let kubeconfig = widgets.scenario.world.cluster.kubeconfig_admin();
    let output = Command::new(olm)
        .args(["crd", "check"])
        .args([bundle("1.0.0"), bundle("1.1.0")])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(2), "{:?}: {text}{errors}", output.status);
    let name = &widgets.scenario.name;
    for wanted in [
        "unsafe   v1: ^.spec.size: maximum: maximum decreased : 10 -> 5".to_owned(),
        "objects  2 of 4 objects would become invalid".to_owned(),
        format!("{name}/size-6  invalid: spec.size: must be at most 5"),
        format!("{name}/size-9  invalid: spec.size: must be at most 5"),
    ] {
        ensure!(text.contains(&wanted), "{wanted:?} is not in {text}");
    }
    ensure!(!text.contains("size-4"), "{text}");
    Ok(())
}

// The text names the permission that a ServiceAccount needs to read the objects; None skips the check; a CRD that is
// removed is announced with its objects.
#[tokio::test(flavor = "multi_thread")]
async fn the_check_can_be_turned_off_and_removed_crds_are_announced() -> Result<()> {
    let widgets = Installed::new("crd-skipped", false).await?;
    let scenario = &widgets.scenario;
    widgets.create_widgets(&[1, 9]).await?;

    scenario.set_version("1.1.0").await?;
    scenario.shows(Progressing, &widgets.refusal()).await?;
    let (name, crd) = (&scenario.name, widgets.crd_name());
    let unread = format!(
        "CRD {crd:?}: its objects were not checked: service account \"installer\" in namespace {name:?} may not list them; give it the verb \"list\" on {crd}."
    );
    says(scenario, Stalled, &[&unread]).await?;

    let enforcement = |value: &str| json!({"spec": {"install": {"preflight": {"crdUpgradeSafety": {"enforcement": value}}}}});
    scenario.patch_extension(enforcement("None")).await?;
    scenario.installed("1.1.0").await?;

    // Its Deployment never becomes available, so the CRD stays for the time being.
    scenario.patch_extension(enforcement("Strict")).await?;
    scenario.set_version("1.2.0").await?;
    let goes = format!(
        "CRD {crd:?} is no longer part of the bundle: it is deleted once the new revision has rolled out, and its custom resources are deleted with it."
    );
    says(scenario, Ready, &["False/RollingOut/", &goes]).await?;
    ensure!(scenario.crds().get_opt(&crd).await?.is_some(), "the CRD is gone already");
    scenario.delete_extension().await
}

async fn mode(scenario: &Scenario<'_>, mode: &str) -> Result<()> {
    scenario.patch_extension(json!({"metadata": {"annotations": {CRD_CHANGE_MODE_ANNOTATION: mode}}})).await
}

// With CheckObjects a change is refused while it affects an object, which the condition names, and accepted when it affects
// none; `olm crd check` has the same decision.
#[tokio::test(flavor = "multi_thread")]
async fn stored_objects_decide_about_a_change() -> Result<()> {
    let widgets = Installed::new("crd-decided", true).await?;
    let scenario = &widgets.scenario;
    widgets.create_widgets(&[1, 4, 9]).await?;
    mode(scenario, "CheckObjects").await?;
    scenario.set_version("1.1.0").await?;
    scenario.shows(Progressing, &widgets.refusal()).await?;
    let (name, crd) = (&scenario.name, widgets.crd_name());
    let counted = format!(
        "CRD {crd:?}: at version v1 1 of 3 objects would become invalid: {name}/size-9 would become invalid."
    );
    says(scenario, Stalled, &["True/Blocked/", &counted]).await?;
    scenario.repairs("1.0.0").await?;
    decides(&widgets, Some(2), "  CheckObjects: at version v1 1 of 3 objects would become invalid").await?;

    widgets.delete_widget("size-9").await?;
    decides(&widgets, Some(0), "  accepted by CheckObjects: none of 2 stored objects is affected").await?;
    // A new reconcile, without the wait after an error.
    scenario.patch_extension(json!({"metadata": {"annotations": {"example.com/again": "1"}}})).await?;
    scenario.installed("1.1.0").await?;
    let accepted = format!("Changes of CRD {crd:?} accepted because none of 2 stored objects is affected");
    says(scenario, Ready, &["True/", "crd-changes: CheckObjects", &accepted]).await?;
    scenario.delete_extension().await
}

/// `olm crd check` ends with this code and prints this line.
async fn decides(widgets: &Installed, code: Option<i32>, line: &str) -> Result<()> {
    let olm = tokio::task::spawn_blocking(|| cargo_program("olm-cli", "olm")).await??;
    let bundle = |version: &str| widgets.folder.path().join(version);
    let output = Command::new(olm)
        .args(["crd", "check", "--crd-changes", "CheckObjects"])
        .args([bundle("1.0.0"), bundle("1.1.0")])
        .arg("--kubeconfig")
        .arg(widgets.scenario.world.cluster.kubeconfig_admin())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(output.status.code() == code, "{:?}: {text}", output.status);
    ensure!(text.lines().any(|found| found == line), "{line:?} is not in {text}");
    Ok(())
}

// An object that is created after the decision stops the write of the CRD: the revision names it and waits.
#[tokio::test(flavor = "multi_thread")]
async fn objects_are_checked_once_more_before_the_crd_is_written() -> Result<()> {
    let widgets = Installed::new("crd-twice", true).await?;
    let scenario = &widgets.scenario;
    widgets.create_widgets(&[1]).await?;
    mode(scenario, "CheckObjects").await?;
    // What is not the extension's own keeps the phase before the CRD from being done.
    let maps: Api<ConfigMap> = Api::namespaced(scenario.client.clone(), &scenario.name);
    maps.create(&PostParams::default(), &serde_json::from_value(config_map("gate", &json!({})))?).await?;
    scenario.set_version(GATED).await?;
    let sets: Api<ClusterObjectSet> = Api::all(scenario.client.clone());
    let revision = format!("{}-2", scenario.name);
    let shows = async |wanted: &[&str]| {
        let look = || async {
            let conditions = sets.get(&revision).await?.status.unwrap_or_default().conditions;
            Ok(conditions.find(Progressing).map(|c| c.message.clone()).unwrap_or_default())
        };
        let has = |found: &String| wanted.iter().all(|wanted| found.contains(wanted));
        eventually("the revision to report it", look, has).await
    };
    shows(&["revision object collisions", "gate"]).await?;
    widgets.create_widgets(&[9]).await?;
    maps.delete("gate", &DeleteParams::default()).await?;
    let object = format!("{}/size-9 would become invalid", scenario.name);
    shows(&["its changes were accepted because they affected no stored object", &object]).await?;
    let live = scenario.crds().get(&widgets.crd_name()).await?;
    let size = serde_json::to_value(live)?["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        ["spec"]["properties"]["size"]["maximum"]
        .clone();
    ensure!(size == 10.0, "the CRD was written: {size}");
    widgets.delete_widget("size-9").await?;
    scenario.installed(GATED).await?;
    scenario.delete_extension().await
}
