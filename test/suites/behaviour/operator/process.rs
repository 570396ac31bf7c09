//! The process: who may read its metrics, and catalogs that a catalogd on its own serves.

use olm_test::{
    prelude::*,
    promtool,
    scrape::{self, Scraper, let_read, token},
};
use reqwest::{Certificate, StatusCode};
use serde_json::Map;

const LIGHTHOUSE: &str = "lighthouse-operator";
/// The families of upstream's metrics, but those of the Go runtime.
const OF_UPSTREAM: [&str; 27] = [
    "controller_runtime_reconcile_total",
    "controller_runtime_reconcile_errors_total",
    "controller_runtime_terminal_reconcile_errors_total",
    "controller_runtime_reconcile_panics_total",
    "controller_runtime_reconcile_time_seconds",
    "controller_runtime_max_concurrent_reconciles",
    "controller_runtime_active_workers",
    "workqueue_depth",
    "workqueue_adds_total",
    "workqueue_queue_duration_seconds",
    "workqueue_work_duration_seconds",
    "workqueue_unfinished_work_seconds",
    "workqueue_longest_running_processor_seconds",
    "workqueue_retries_total",
    "rest_client_requests_total",
    "leader_election_master_status",
    "certwatcher_read_certificate_total",
    "certwatcher_read_certificate_errors_total",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_network_receive_bytes_total",
    "process_network_transmit_bytes_total",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
    "process_virtual_memory_max_bytes",
];
/// How the log says that a pass is over: one of these, once.
const ENDINGS: [&str; 3] = ["reconcile ending", "reconcile failed", "blocked until something changes"];

/// A client that trusts what the program publishes.
async fn trusting(client: &Client) -> Result<reqwest::Client> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let map = maps.get("catalogd-serving-cert").await?;
    let pem = map.data.and_then(|data| data.get("ca.crt").cloned()).context("no authority")?;
    let mut builder = reqwest::Client::builder().no_proxy();
    for certificate in Certificate::from_pem_bundle(pem.as_bytes())? {
        builder = builder.add_root_certificate(certificate);
    }
    Ok(builder.build()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_for_those_who_may_read_them() -> Result<()> {
    let scenario = Scenario::shared("metrics").await?;
    let (client, url) = (scenario.client.clone(), scenario.world.operator.metrics_url());
    let https = trusting(&client).await?;
    let scraper = token(&client, &scenario.name, "scraper").await?;
    let stranger = token(&client, &scenario.name, "stranger").await?;
    let_read(&client, &scenario.name, "scraper").await?;
    ensure!(https.get(&url).send().await?.status() == StatusCode::UNAUTHORIZED);
    ensure!(https.get(&url).bearer_auth("nonsense").send().await?.status() == StatusCode::UNAUTHORIZED);
    ensure!(https.get(&url).bearer_auth(&stranger).send().await?.status() == StatusCode::FORBIDDEN);
    let answer = https.get(&url).bearer_auth(&scraper).send().await?;
    ensure!(answer.status() == StatusCode::OK, "{}", answer.status());
    let text = answer.text().await?;
    for wanted in [
        "# TYPE controller_runtime_reconcile_total counter\n",
        "\nleader_election_master_status 1\n",
        "\nprocess_resident_memory_bytes ",
        "rest_client_requests_total{code=\"200\",host=\"",
        "olm_admission_policy_in_force",
    ] {
        ensure!(text.contains(wanted), "{wanted:?} is missing in\n{text}");
    }
    let missing: Vec<_> =
        OF_UPSTREAM.iter().filter(|name| !text.contains(&format!("# TYPE {name} "))).collect();
    ensure!(missing.is_empty(), "{missing:?} are missing in\n{text}");
    let base = url.trim_end_matches("/metrics");
    for path in ["/", "/metrics/", "/metrics/x", "/debug/pprof/", "/healthz", "/catalogs/a/api/v1/all"] {
        let status = https.get(format!("{base}{path}")).bearer_auth(&scraper).send().await?.status();
        ensure!(status == StatusCode::NOT_FOUND, "{path}: {status}");
    }
    let log = scenario.world.operator.process().log();
    for secret in [scraper.as_str(), stranger.as_str(), "Bearer ", "eyJhbGci"] {
        ensure!(!log.contains(secret), "the log has a token");
    }
    promtool::check_metrics(&text)
}

/// Every line of the log is a JSON object, and each pass has one that says how it ended.
async fn each_pass_has_its_line(process: &Process, url: &str, scraper: &Scraper) -> Result<()> {
    let endings = || -> Result<u64> {
        let mut endings = 0;
        for line in process.log().lines() {
            let fields: Map<String, Value> = serde_json::from_str(line).with_context(|| line.to_owned())?;
            let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
            ensure!(!text("timestamp").is_empty() && !text("level").is_empty(), "{line}");
            if ENDINGS.contains(&text("message")) {
                ensure!(!text("controller").is_empty() && !text("name").is_empty(), "whose pass? {line}");
                endings += 1;
            }
        }
        Ok(endings)
    };
    wait::until("each pass to have its line", DEADLINE, async || {
        let before = endings()?;
        let text = scraper.read(url).await?;
        let (after, passes) = (endings()?, scrape::count(&text, "controller_runtime_reconcile_total", &[]));
        ensure!(before > 0 && before == after && passes == before, "{passes} passes, {before} lines");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalogd_on_its_own_serves_what_is_installed() -> Result<()> {
    let site = Site::start().await?;
    let catalogd = Catalogd::start(&site.cluster, &site.images.settings(&[])).await?;
    let address = format!("--catalogd-address={}", catalogd.catalogs_url().trim_start_matches("https://"));
    let world = World { operator: Operator::start(&site, &[&address]).await?, proxy: None, site };
    let scenario = Scenario::new(&world, "split").await?;
    let (first, second) =
        ([("1.0.0", lighthouse("1.0.0"))], [("1.0.0", lighthouse("1.0.0")), ("1.1.0", lighthouse("1.1.0"))]);
    let reference = scenario.push(LIGHTHOUSE, &first, "latest").await?;
    scenario.create_catalog(&scenario.catalog_image("latest"), Some(1)).await?;
    ensure!(!reference.is_empty());
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.grant(&second).await?;
    scenario.catalog_serves().await?;
    scenario.install(LIGHTHOUSE, json!({}), "1.0.0").await?;

    // What catalogd serves next is fetched and used without anything else happening.
    scenario.push(LIGHTHOUSE, &second, "latest").await?;
    let api: Api<olm_api::v1::ClusterCatalog> = Api::all(scenario.client.clone());
    let patch = json!({"spec": {"source": {"image": {"ref": scenario.push(LIGHTHOUSE, &second, "next").await?, "pollIntervalMinutes": null}}}});
    api.patch(&scenario.name, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(&patch)).await?;
    scenario.installed("1.1.0").await?;

    let scraper = Scraper::new(&scenario.client, &scenario.name).await?;
    each_pass_has_its_line(world.operator.process(), &world.operator.metrics_url(), &scraper).await?;
    each_pass_has_its_line(catalogd.process(), &catalogd.metrics_url(), &scraper).await?;
    for (process, gates) in [
        (world.operator.process(), "APIV1MetasHandler=true,BoxcutterRuntime=true,BundleReleaseSupport=true,"),
        (catalogd.process(), "APIV1MetasHandler=true,GraphQLCatalogQueries=false"),
    ] {
        let told =
            process.log().lines().any(|line| line.contains("feature gate status") && line.contains(gates));
        ensure!(told, "{} does not say how its gates stand", process.name());
    }

    // Away, it hurts nobody who needs nothing new.
    drop(catalogd);
    scenario.patch_extension(json!({"metadata": {"labels": {"touched": "yes"}}})).await?;
    scenario.shows(ConditionType::Progressing, "True/Succeeded/").await?;
    ensure!(scenario.extensions().get(&scenario.name).await?.labels().contains_key("touched"));
    scenario.uninstall().await
}
