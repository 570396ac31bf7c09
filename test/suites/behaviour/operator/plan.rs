//! The plan of a new revision: printed by `olm diff`, made and carried out by the controller.

mod bundle;
mod webhook;

use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use kube::api::GroupVersionKind;
use olm_api::names::{IDENTITY_ANNOTATION, PLAN_DIGEST_ANNOTATION};
use olm_test::{
    cli::{self, Answer},
    cluster::AuditEvent,
    prelude::*,
};

use self::{
    bundle::{PACKAGE, PASSWORDS, Version, write},
    webhook::NoDryRuns,
};

/// Objects of a version: account, Secret, ConfigMap, CRD, role, binding, Deployment.
const OBJECTS: usize = 7;

/// Runs `olm` on the scenario's cluster, as the administrator.
async fn olm(scenario: &Scenario<'_>, args: &[&str]) -> Result<Answer> {
    olm_as(scenario, scenario.world.cluster.kubeconfig_admin(), args).await
}

async fn olm_as(scenario: &Scenario<'_>, kubeconfig: PathBuf, args: &[&str]) -> Result<Answer> {
    let conf = scenario.world.images.registries_conf().display().to_string();
    let more: &[&str] = if args.first() == Some(&"diff") { &["--registries-conf", &conf] } else { &[] };
    cli::olm(&kubeconfig, &[args, more].concat()).await
}

async fn diff(scenario: &Scenario<'_>) -> Result<Answer> {
    let answer = olm(scenario, &["diff", &scenario.name]).await?;
    for password in PASSWORDS {
        let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, password);
        let all = format!("{}{}", answer.text, answer.errors);
        ensure!(!all.contains(password) && !all.contains(&encoded), "data of a Secret in\n{all}");
    }
    Ok(answer)
}

async fn diff_as_json(scenario: &Scenario<'_>) -> Result<Value> {
    olm(scenario, &["diff", &scenario.name, "-o", "json"]).await?.json()
}

/// A serving catalog with both versions; the account may install the first.
async fn prepared(base: &str, versions: &[Version]) -> Result<(Scenario<'static>, tempfile::TempDir)> {
    prepared_in(World::shared().await?, base, versions).await
}

async fn prepared_in<'w>(
    world: &'w World,
    base: &str,
    versions: &[Version],
) -> Result<(Scenario<'w>, tempfile::TempDir)> {
    let scenario = Scenario::new(world, base).await?;
    let folder = tempfile::tempdir()?;
    for version in versions {
        write(folder.path(), version, &scenario.group())?;
    }
    let bundles: Vec<_> = versions.iter().map(|v| (v.number, folder.path().join(v.number))).collect();
    let reference = scenario.push(PACKAGE, &bundles, "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.grant(&bundles[..1]).await?;
    scenario.catalog_serves().await?;
    Ok((scenario, folder))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_shown_before_it_is_made_and_made_as_it_was_shown() -> Result<()> {
    let (scenario, folder) = prepared("plan", &[Version::FIRST, Version::SECOND]).await?;
    let name = scenario.name.clone();
    scenario.install(PACKAGE, json!({"version": "1.0.0"}), "1.0.0").await?;
    let nothing = diff(&scenario).await?;
    nothing.ensure(
        0,
        &[&format!("{name}: no difference: {PACKAGE}.v1.0.0 is installed as revision {name}-1\n")],
    )?;
    ensure!(nothing.text.lines().count() == 1, "{}", nothing.text);
    ensure!(diff_as_json(&scenario).await?["difference"] == false);

    // The account may not install the second version yet, so there is time to look at its plan.
    scenario.set_version("1.1.0").await?;
    scenario.shows(Progressing, "True/Retrying/error for resolved bundle \"plans.v1.1.0\"").await?;
    let shown = upgrade_is_shown(&scenario).await?;
    println!("{}", shown.text);
    let plan = diff_as_json(&scenario).await?;
    let again = diff_as_json(&scenario).await?;
    ensure!(plan == again, "the same plan made twice differs:\n{plan}\n{again}");
    let digest = plan["digest"].as_str().context("a digest")?;
    ensure!(shown.text.contains(&format!("  plan       {digest}\n")));
    a_reader_is_told_what_is_not_known(&scenario, digest).await?;
    let status = olm(&scenario, &["status", &name]).await?;
    status.ensure(
        0,
        &[&format!("installed  plans.v1.0.0  version 1.0.0, revision {name}-1"), "pre-authorization failed"],
    )?;
    println!("{}", status.text);

    scenario.grant(&[("1.0.0", folder.path().join("1.0.0")), ("1.1.0", folder.path().join("1.1.0"))]).await?;
    scenario.installed("1.1.0").await?;
    let made = scenario.sets().get(&format!("{name}-2")).await?;
    let recorded = made.metadata.annotations.unwrap_or_default().remove(PLAN_DIGEST_ANNOTATION);
    ensure!(recorded.as_deref() == Some(digest), "recorded is {recorded:?}, shown was {digest}");
    rights_increase_is_told(&scenario).await?;
    let nothing = diff(&scenario).await?;
    nothing
        .ensure(0, &[&format!("{name}: no difference: plans.v1.1.0 is installed as revision {name}-2\n")])?;
    ensure!(nothing.text.lines().count() == 1, "{}", nothing.text);
    let status = olm(&scenario, &["status"]).await?;
    status.ensure(0, &["EXTENSION", &name, "plans.v1.1.0"])?;
    let status = olm(&scenario, &["status", &name, "-o", "json"]).await?.json()?;
    let shown = &status["extensions"][0];
    ensure!(
        shown["installed"]["revision"] == format!("{name}-2") && shown["pending"].is_null(),
        "{status:#}"
    );
    ensure!(
        shown["revisions"][0]["state"] == "archived" && shown["revisions"][1]["rolledOut"] == true,
        "{status:#}"
    );
    let status = olm(&scenario, &["status", &name, "-o", "yaml"]).await?;
    status.ensure(0, &["extensions:\n", &format!("name: {name}\n")])?;
    scenario.delete_extension().await
}

/// Every section of the plan of the second version, which the account may not install yet.
async fn upgrade_is_shown(scenario: &Scenario<'_>) -> Result<Answer> {
    let name = &scenario.name;
    let shown = diff(scenario).await?;
    let group = scenario.group();
    shown.ensure(
        2,
        &[
            &format!("{name} would become revision {name}-2\n"),
            "  plans.v1.1.0  version 1.1.0 of package plans\n",
            &format!("  catalog    {name}\n"),
            &format!("  installed  plans.v1.0.0  version 1.0.0, revision {name}-1\n"),
            &format!("  ~ CustomResourceDefinition.apiextensions.k8s.io/v1 widgets.{group}\n"),
            "spec.versions[v1].schema.openAPIV3Schema.properties.spec.properties.colour: + {\"type\":\"string\"}\n",
            &format!("  ~ Deployment.apps/v1 {name}/plans\n"),
            "      spec.template.spec.containers[manager].image: \"example.com/c:v1\" -> \"example.com/c:v2\"\n",
            &format!("  ~ Secret.v1 {name}/plans-login\n      data.password: \"sha256:"),
            &format!("  - ConfigMap.v1 {name}/plans-old\n"),
            &format!("  + ConfigMap.v1 {name}/plans-new\n"),
            &format!("  Deployment {name}/plans [manager]: example.com/c:v1 -> example.com/c:v2\n"),
            "Missing permissions of the ServiceAccount\n",
            "  secrets: get,list in the whole cluster\n",
            &format!("New permissions of the operator\n  {name}/plans\n    + secrets: get,list in the whole cluster\n"),
            "    ! may read Secrets of every namespace\n",
            "Dry-run: not known: the ServiceAccount is missing permissions",
            &format!("Blocked\n  ServiceAccount \"{name}/{ACCOUNT}\" is missing permissions"),
        ],
    )?;
    Ok(shown)
}

/// Somebody who may read everything and make no tokens: the same plan, with sections that say what is not known.
async fn a_reader_is_told_what_is_not_known(scenario: &Scenario<'_>, digest: &str) -> Result<()> {
    let name = &scenario.name;
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]);
    let (user, _) = scenario.user("reader", rules).await?;
    let reader = scenario.world.cluster.kubeconfig_for(&user, &[])?;
    let unknown = "not known: this needs a token of ServiceAccount \"installer\"";
    let answer = wait::until("the reader to be known as one", DEADLINE, async || {
        let answer = olm_as(scenario, reader.clone(), &["diff", name]).await?;
        ensure!(!answer.errors.contains("forbidden"), "{}", answer.errors);
        Ok(answer)
    })
    .await?;
    answer.ensure(
        2,
        &[
            &format!("Missing permissions of the ServiceAccount: {unknown}"),
            &format!("Dry-run: {unknown}"),
            "spec.template.spec.containers[manager].image: \"example.com/c:v1\" -> \"example.com/c:v2\"\n",
            &format!("  plan       {digest}\n"),
        ],
    )
}

async fn rights_increase_is_told(scenario: &Scenario<'_>) -> Result<()> {
    let name = &scenario.name;
    let wanted = format!(
        "Bundle plans.v1.1.0 gives ServiceAccount {name}/plans more permissions than plans.v1.0.0 did (1 more); it may read Secrets of every namespace"
    );
    let increases = async || {
        let events = scenario.events("ClusterExtension", name).await?;
        Ok(events.into_iter().filter(|(reason, _)| reason == "PermissionsIncreased").collect::<Vec<_>>())
    };
    let is_wanted = |found: &Vec<(String, String)>| matches!(&found[..], [(_, note)] if *note == wanted);
    eventually("the increase of permissions to be an Event", increases, is_wanted).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_api_server_refuses_stands_in_the_plan() -> Result<()> {
    let broken = Version { budget: Some(json!({"minAvailable": 1, "maxUnavailable": 1})), ..Version::FIRST };
    let (scenario, _folder) = prepared("planrefused", &[broken]).await?;
    let name = scenario.name.clone();
    let quotas: Api<ResourceQuota> = Api::namespaced(scenario.client.clone(), &name);
    quotas
        .make(json!({"metadata": {"name": "no-secrets"}, "spec": {"hard": {"count/secrets": "0"}}}))
        .await?;
    wait::until("the quota to count", DEADLINE, async || {
        let status = quotas.get("no-secrets").await?.status;
        wait::check(status.is_some_and(|status| status.hard.is_some()), || "it has no status".to_owned())
    })
    .await?;
    scenario.create_extension(PACKAGE, json!({})).await?;
    let refused = "True/Retrying/error for resolved bundle \"plans.v1.0.0\" with version \"1.0.0\": creating new Revision: \
                   the API server refuses objects of the bundle:\n";
    scenario.shows(Progressing, refused).await?;
    let shown = diff(&scenario).await?;
    shown.ensure(
        2,
        &[
            &format!("  refused: PodDisruptionBudget.policy/v1 {name}/plans: "),
            &format!("  refused: Secret.v1 {name}/plans-login: "),
            "Blocked\n  the API server refuses PodDisruptionBudget.policy/v1 ",
            "  installed  nothing\n",
            "Missing permissions of the ServiceAccount: none\n",
        ],
    )?;
    let plan = diff_as_json(&scenario).await?;
    ensure!(plan["dryRun"]["known"]["refused"].as_array().is_some_and(|all| all.len() == 2), "{plan:#}");
    ensure!(scenario.sets().get_opt(&format!("{name}-1")).await?.is_none(), "a refused plan was carried out");
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_crd_change_names_the_objects_it_would_hurt() -> Result<()> {
    let narrower = Version { number: "1.1.0", properties: &[], ..Version::FIRST };
    let (scenario, folder) = prepared("plancrd", &[Version::FIRST, narrower]).await?;
    let (name, group) = (scenario.name.clone(), scenario.group());
    scenario.grant(&[("1.0.0", folder.path().join("1.0.0")), ("1.1.0", folder.path().join("1.1.0"))]).await?;
    scenario.install(PACKAGE, json!({"version": "1.0.0"}), "1.0.0").await?;
    let kind = GroupVersionKind::gvk(&group, "v1", "Widget");
    let widgets: Api<DynamicObject> =
        Api::namespaced_with(scenario.client.clone(), &name, &ApiResource::from_gvk(&kind));
    let widget = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": "hidden-value"},
    });
    widgets.make(widget).await?;
    scenario.set_version("1.1.0").await?;
    scenario.shows(Progressing, "True/Retrying/error for resolved bundle \"plans.v1.1.0\"").await?;
    let shown = diff(&scenario).await?;
    shown.ensure(
        2,
        &[
            &format!("CRDs\n  widgets.{group}\n    refused: "),
            &format!("      {name}/one: would lose fields\n"),
            "Dry-run\n  6 objects accepted\n",
            &format!("Blocked\n  CRD \"widgets.{group}\" cannot be replaced safely"),
        ],
    )?;
    ensure!(!shown.text.contains("hidden-value"), "a custom resource is quoted in\n{}", shown.text);
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_asks_once_for_each_object_and_reads_only_what_is_there() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let policy = directory.path().join("audit-policy.json");
    let all = json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "verbs": ["watch"]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
            {"level": "None"},
        ],
    });
    fs::write(&policy, all.to_string())?;
    let api_server_args = vec![format!("--audit-policy-file={}", policy.display())];
    let world = World::start_on(Options { api_server_args, ..Options::default() }).await?;
    let (scenario, folder) = prepared_in(&world, "planrequests", &[Version::FIRST, Version::SECOND]).await?;
    scenario.grant(&[("1.0.0", folder.path().join("1.0.0")), ("1.1.0", folder.path().join("1.1.0"))]).await?;
    let mark = world.cluster.audit_mark()?;
    scenario.install(PACKAGE, json!({"version": "1.0.0"}), "1.0.0").await?;
    let first = Asked::until_revision(&scenario, mark, 1)?;
    // Its new CRD is asked about by creating it. A binding whose role is not there yet: the dry-run says nothing about it.
    ensure!((first.dry_runs, first.reads.len()) == (OBJECTS - 1, 1), "{first:?}");
    // Finalizers and all records come in one write, and what cannot be there yet is created without a look.
    ensure!((first.patches, first.missed) == (1, 0), "{first:?}");
    let mark = world.cluster.audit_mark()?;
    scenario.upgrade("1.1.0").await?;
    let second = Asked::until_revision(&scenario, mark, 2)?;
    // Account, Secret, CRD and Deployment are there already; the roles have other names, and there is the binding.
    ensure!((second.dry_runs, second.reads.len()) == (OBJECTS, 5), "{second:?}");
    println!("{first:?}, {second:?}");
    scenario.delete_extension().await
}

/// What was asked for a revision.
#[derive(Debug)]
struct Asked {
    /// Dry runs of the scenario's account before the revision was written.
    dry_runs: usize,
    /// What the account read before.
    reads: Vec<String>,
    /// Patches of the extension before.
    patches: usize,
    /// How often the account read afterwards what does not exist.
    missed: usize,
}

impl Asked {
    fn until_revision(scenario: &Scenario<'_>, mark: u64, number: u32) -> Result<Self> {
        let account = format!("system:serviceaccount:{}:{ACCOUNT}", scenario.name);
        let revision = format!("{}-{number}", scenario.name);
        let events = scenario.world.cluster.audit_events_since(mark)?;
        let is_write = |event: &&AuditEvent| {
            event.resource == "clusterobjectsets" && event.name == revision && event.verb == "create"
        };
        let written = events.iter().find(is_write).context("the revision's first write")?;
        let is_before = |event: &&AuditEvent| event.user == account && event.received < written.received;
        let asked: Vec<_> = events.iter().filter(is_before).collect();
        let is_patch = |event: &&AuditEvent| {
            event.resource == "clusterextensions"
                && event.verb == "patch"
                && event.received < written.received
        };
        let is_missed = |event: &&AuditEvent| {
            event.user == account && event.code == 404 && event.received > written.received
        };
        Ok(Self {
            patches: events.iter().filter(is_patch).count(),
            missed: events.iter().filter(is_missed).count(),
            dry_runs: asked.iter().filter(|event| event.is_dry_run()).count(),
            reads: asked.iter().filter(|event| event.verb == "get").map(|event| event.name.clone()).collect(),
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_or_an_account_that_was_created_again_blocks_the_plan() -> Result<()> {
    let (scenario, _folder) = prepared("planagain", &[Version::FIRST]).await?;
    scenario.install(PACKAGE, json!({}), "1.0.0").await?;
    scenario.accounts().remove(ACCOUNT).await?;
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.shows(Progressing, "False/Blocked/").await?;
    let again = "was deleted and created again since this extension first used it";
    let account = format!("service account \"{ACCOUNT}\" in namespace {:?} {again}", scenario.name);
    let answer = diff(&scenario).await?;
    answer.ensure(0, &["no difference"])?;
    ensure!(answer.errors.contains("Blocked: ") && answer.errors.contains(&account), "{}", answer.errors);

    // One that waits for permissions, and has nothing yet.
    let place = format!("{}-place", scenario.name);
    scenario.world.cluster.create_namespace(&place).await?;
    create_account(&scenario.client, &place, ACCOUNT).await?;
    let mut waiting = scenario.extension_object(PACKAGE);
    waiting["metadata"]["name"] = place.as_str().into();
    waiting["spec"]["namespace"] = place.as_str().into();
    scenario.extensions().make(waiting).await?;
    wait::until("the namespace to be recorded", DEADLINE, async || {
        let found = scenario.extensions().get(&place).await?;
        let recorded = found.annotations().get(IDENTITY_ANNOTATION).cloned().unwrap_or_default();
        wait::check(recorded.contains(" namespace=") && !recorded.contains("=-"), || recorded)
    })
    .await?;
    let before = olm(&scenario, &["diff", &place]).await?;
    before.ensure(2, &["would become revision"])?;
    ensure!(!before.text.contains(again), "{}", before.text);
    let namespaces: Api<Namespace> = Api::all(scenario.client.clone());
    namespaces.remove(&place).await?;
    namespaces.gone(&place).await?;
    scenario.world.cluster.create_namespace(&place).await?;
    create_account(&scenario.client, &place, ACCOUNT).await?;
    let answer = olm(&scenario, &["diff", &place]).await?;
    answer.ensure(2, &["Blocked\n", &format!("the namespace of spec.namespace {again}")])?;
    scenario.remove_extension(&place).await?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_that_cannot_be_answered_are_errors() -> Result<()> {
    let scenario = Scenario::shared("planerrors").await?;
    for (args, wanted) in [
        (&["diff", "no-such-extension"][..], "there is no ClusterExtension \"no-such-extension\""),
        (&["status", "no-such-extension"], "there is no ClusterExtension \"no-such-extension\""),
        (&["status", "--context", "nowhere"], "--context nowhere: "),
    ] {
        let answer = olm(&scenario, args).await?;
        ensure!(answer.code == Some(1), "{args:?}: exit code {:?}\n{}", answer.code, answer.text);
        ensure!(answer.errors.contains(wanted), "{args:?}: {}", answer.errors);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_whose_webhook_refuses_dry_runs_is_checked_when_its_turn_comes() -> Result<()> {
    // The first version is refused for another reason, so there is time to look at its plan.
    let broken = Version { budget: Some(json!({"minAvailable": 1, "maxUnavailable": 1})), ..Version::FIRST };
    let (scenario, folder) = prepared("planwebhook", &[broken, Version::SECOND]).await?;
    let name = scenario.name.clone();
    let webhook = NoDryRuns::start(&scenario).await?;
    scenario.create_extension(PACKAGE, json!({"version": "1.0.0"})).await?;
    scenario.shows(Progressing, "True/Retrying/error for resolved bundle \"plans.v1.0.0\"").await?;
    let shown = diff(&scenario).await?;
    let deferred = format!(
        "  checked when its turn comes: ConfigMap.v1 {name}/plans-old: admission webhook \"maps.example.com\" denied the request: maps.example.com does not support dry run (400)\n"
    );
    shown.ensure(2, &[&deferred, &format!("  + ConfigMap.v1 {name}/plans-old\n")])?;

    let before = webhook.refused();
    scenario.grant(&[("1.0.0", folder.path().join("1.0.0")), ("1.1.0", folder.path().join("1.1.0"))]).await?;
    scenario.upgrade("1.1.0").await?;
    ensure!(webhook.refused() > before, "the second version was not asked about");
    let maps: Api<ConfigMap> = Api::namespaced(scenario.client.clone(), &name);
    ensure!(maps.get_opt("plans-new").await?.is_some());
    scenario.delete_extension().await?;
    webhook.remove(&scenario).await
}
