//! Webhooks: the certificates that each provider makes, and the built-in ones in use through a rotation.

pub(crate) mod bundle;
pub(crate) mod server;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::api::{WatchEvent, WatchParams};
use olm_api::names::{WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION, WEBHOOK_CERTIFICATES_FIELD_MANAGER};

use crate::extension_tables::written::{kinds, wanted};
use olm_test::prelude::*;
use server::WebhookServer;

/// Long enough for every step of a rotation to be seen, short enough to wait for.
const LIFETIME: &str = "--webhook-certificate-lifetime=75s";
/// A rotation takes one lifetime.
const ROTATED: Duration = Duration::from_mins(3);

pub(crate) async fn scenario<'a>(world: &'a World, base: &str) -> Result<Scenario<'a>> {
    let scenario = Scenario::new(world, base).await?;
    let folder = tempfile::tempdir()?;
    bundle::with_webhooks(&scenario.name).write(folder.path())?;
    scenario.prepare(&scenario.name, &[("1.0.0", folder.path().to_owned())]).await?;
    scenario.create_extension(&scenario.name, json!({})).await?;
    Ok(scenario)
}

/// The two configurations and the CRD of the bundle.
async fn configured(scenario: &Scenario<'_>) -> Result<[Value; 3]> {
    let name = &scenario.name;
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(scenario.client.clone());
    Ok([
        serde_json::to_value(validating(scenario).get(&format!("v.{name}.example.com")).await?)?,
        serde_json::to_value(mutating.get(&format!("m.{name}.example.com")).await?)?,
        serde_json::to_value(scenario.crds().get(&bundle::crd_name(name)).await?)?,
    ])
}

fn validating(scenario: &Scenario<'_>) -> Api<ValidatingWebhookConfiguration> {
    Api::all(scenario.client.clone())
}

/// What the webhooks of the bundle trust.
pub(crate) async fn injected(scenario: &Scenario<'_>) -> Result<[String; 3]> {
    let decoded = configured(scenario).await?.map(|object| {
        let place = object.pointer("/webhooks/0/clientConfig/caBundle");
        let place = place.or_else(|| object.pointer("/spec/conversion/webhook/clientConfig/caBundle"));
        STANDARD.decode(place.and_then(Value::as_str).unwrap_or_default())
    });
    let [validating, mutating, crd] = decoded;
    Ok([String::from_utf8(validating?)?, String::from_utf8(mutating?)?, String::from_utf8(crd?)?])
}

/// What the webhooks trust is kept under a field manager of its own: no apply of the objects takes it away.
async fn kept(scenario: &Scenario<'_>) -> Result<()> {
    for object in configured(scenario).await? {
        let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let managers = managers.into_iter().flatten();
        let keepers: Vec<_> = managers.filter(|entry| entry.to_string().contains("f:caBundle")).collect();
        let is_own = |entry: &&Value| {
            entry["manager"] == WEBHOOK_CERTIFICATES_FIELD_MANAGER && entry["operation"] == "Apply"
        };
        ensure!(keepers.iter().any(is_own), "caBundle is kept by {keepers:?}");
    }
    Ok(())
}

/// Since this version, the webhook has had a CA bundle in each version of its configuration.
async fn trusted_all_the_time(scenario: &Scenario<'_>, since: &str) -> Result<()> {
    let (api, name) = (validating(scenario), format!("v.{}.example.com", scenario.name));
    let last = api.get(&name).await?.resource_version();
    let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(30);
    let mut events = api.watch(&params, since).await?.boxed();
    let mut versions = 0;
    while let Some(WatchEvent::Modified(object)) = events.try_next().await? {
        let webhook = object.webhooks.iter().flatten().next().context("no webhook")?;
        ensure!(webhook.client_config.ca_bundle.is_some(), "no CA bundle in {:?}", object.metadata);
        versions += 1;
        if object.resource_version() == last {
            ensure!(versions > 1, "it was not written");
            return Ok(());
        }
    }
    anyhow::bail!("the watch ended after {versions} versions")
}

fn authorities(bundle: &str) -> usize {
    bundle.matches("-----BEGIN CERTIFICATE-----").count()
}

pub(crate) async fn secret(scenario: &Scenario<'_>) -> Result<Secret> {
    Ok(scenario.secrets().get(&bundle::secret_name(&scenario.name)).await?)
}

fn text(secret: &Secret, key: &str) -> String {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
}

/// One request that both admission webhooks must let through, and one object that must be converted.
pub(crate) async fn admitted(scenario: &Scenario<'_>, server: &WebhookServer) -> Result<()> {
    let before = server.calls();
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {"generateName": "guarded-", "labels": {"guarded": scenario.name}}, "data": {"a": "b"},
    }))?;
    let created = scenario.maps().create(&PostParams::default(), &map).await.context("admission")?;
    ensure!(created.annotations().get("mutated").map(String::as_str) == Some("true"), "it was not mutated");
    let converted = bundle::read_as_v2(scenario).await.context("conversion")?;
    ensure!(converted.pointer("/spec/converted") == Some(&json!(true)), "it was not converted: {converted}");
    let after = server.calls();
    for (path, calls) in &after {
        ensure!(calls > before.get(path).unwrap_or(&0), "the webhook {path} was not called");
    }
    ensure!(after.len() == 3, "only {:?} were called", after.keys());
    Ok(())
}

async fn revisions(scenario: &Scenario<'_>) -> Result<Vec<ClusterObjectSet>> {
    let mine = format!("olm.operatorframework.io/owner-name={}", scenario.name);
    Ok(scenario.sets().list(&ListParams::default().labels(&mine)).await?.items)
}

async fn provider(scenario: &Scenario<'_>) -> Result<Vec<String>> {
    let of = |set: &ClusterObjectSet| set.annotations().get(WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION).cloned();
    Ok(revisions(scenario).await?.iter().filter_map(of).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_certificates_are_used_before_during_and_after_a_rotation() -> Result<()> {
    let world = World::start_with(&[LIFETIME]).await?;
    let scenario = scenario(&world, "hooked").await?;
    let server = WebhookServer::start(&scenario).await?;
    scenario.installed("1.0.0").await?;
    assert_eq!(provider(&scenario).await?, ["built-in"]);

    let first = secret(&scenario).await?;
    let owner = first.owner_references().first().context("the Secret has no owner")?;
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("ClusterExtension", scenario.name.as_str()));
    assert_eq!(first.type_.as_deref(), Some("kubernetes.io/tls"));
    let bundles = injected(&scenario).await?;
    assert!(bundles.iter().all(|bundle| *bundle == text(&first, "ca.crt")));
    assert!(!first.data.iter().flatten().any(|(key, _)| key.contains("ca.key")));

    bundle::create_as_v1(&scenario).await?;
    wait::until("the webhooks to be reached", DEADLINE, || admitted(&scenario, &server)).await?;
    // From here on every single request must be answered.
    let (mut overlapped, mut overlapped_after_switch) = (false, false);
    let start = std::time::Instant::now();
    loop {
        ensure!(start.elapsed() < ROTATED, "no rotation in time");
        admitted(&scenario, &server).await.context("interrupted by the rotation")?;
        let [bundle, _, _] = injected(&scenario).await?;
        let switched = text(&secret(&scenario).await?, "tls.crt") != text(&first, "tls.crt");
        overlapped |= authorities(&bundle) == 2 && !switched;
        overlapped_after_switch |=
            authorities(&bundle) == 2 && switched && server.shows_another_than(&text(&first, "tls.crt"));
        if switched && authorities(&bundle) == 1 && overlapped_after_switch {
            ensure!(!bundle.contains(text(&first, "ca.crt").trim()), "the old authority is still trusted");
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(overlapped, "the new authority was not trusted before it was used");
    kept(&scenario).await?;
    admitted(&scenario, &server).await?;

    // Rendering stayed pure: there is one revision, and the objects are as it says.
    assert_eq!(revisions(&scenario).await?.len(), 1);
    written_by_the_account(&world.cluster, &scenario)?;

    // A Secret that is lost is made anew.
    let api: Api<Secret> = Api::namespaced(scenario.client.clone(), &scenario.name);
    let name = bundle::secret_name(&scenario.name);
    api.delete(&name, &kube::api::DeleteParams::default()).await?;
    wait::until("the Secret to be back and trusted", DEADLINE, || async {
        let again = api.get(&name).await?;
        let bundles = injected(&scenario).await?;
        ensure!(bundles.iter().all(|bundle| *bundle == text(&again, "ca.crt")), "another bundle is injected");
        Ok(())
    })
    .await?;
    wait::until("admission to go on", DEADLINE, || admitted(&scenario, &server)).await?;

    scenario.uninstall().await
}

/// Whatever was written of the bundle, and the Secret, was written by the extension's account.
fn written_by_the_account(cluster: &Cluster, scenario: &Scenario<'_>) -> Result<()> {
    let account = format!("system:serviceaccount:{}:{ACCOUNT}", scenario.name);
    let resources =
        ["validatingwebhookconfigurations", "mutatingwebhookconfigurations", "customresourcedefinitions"];
    let mut seen = 0;
    for event in cluster.audit_events()? {
        let of_test = event.name.contains(&scenario.name) && resources.contains(&event.resource.as_str())
            || event.resource == "secrets" && event.namespace == scenario.name;
        let by_cluster = event.user.starts_with("system:kube-controller-manager")
            || event.user.starts_with("system:serviceaccount:kube-system:")
            || event.user == "system:apiserver"
            || event.user == "admin";
        if of_test && !by_cluster {
            ensure!(event.user == account, "{} {} was written by {}", event.verb, event.resource, event.user);
            seen += 1;
        }
    }
    ensure!(seen > 4, "only {seen} writes were seen");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_is_chosen_by_the_cluster_and_kept_for_a_version() -> Result<()> {
    // A world of its own: other tests' extensions must not see the providers' kinds.
    let world = World::start().await?;
    let bare = scenario(&world, "bare").await?;
    bare.installed("1.0.0").await?;
    assert_eq!(provider(&bare).await?, ["built-in"]);
    a_secret_of_somebody_else_is_not_used(&world).await?;

    bundle::serve_kinds(&world.cluster, "operator.openshift.io", &[("ServiceCA", "servicecas")]).await?;
    let service_ca = scenario(&world, "svcca").await?;
    service_ca.installed("1.0.0").await?;
    assert_eq!(provider(&service_ca).await?, ["openshift-service-ca"]);
    let crds: Api<CustomResourceDefinition> = Api::all(world.cluster.client().await?);
    let crd = crds.get(&bundle::crd_name(&service_ca.name)).await?;
    assert_eq!(crd.annotations()["service.beta.openshift.io/inject-cabundle"], "true");

    let kinds = [("Certificate", "certificates"), ("Issuer", "issuers")];
    bundle::serve_kinds(&world.cluster, "cert-manager.io", &kinds).await?;
    let cert_manager = scenario(&world, "certmgr").await?;
    let certificate = cert_manager_certificate(&cert_manager).await?;
    assert_eq!(certificate.data["spec"]["secretName"], bundle::secret_name(&cert_manager.name));
    assert_eq!(provider(&cert_manager).await?, ["cert-manager"]);
    let crd = crds.get(&bundle::crd_name(&cert_manager.name)).await?;
    assert!(crd.annotations().contains_key("cert-manager.io/inject-ca-from"));
    certificates_come_before_deployments(&cert_manager).await?;

    // Another configuration of the same version keeps its provider, and its webhooks are trusted meanwhile.
    let before = validating(&bare).get(&format!("v.{}.example.com", bare.name)).await?;
    let replicas = json!({"deploymentConfig": {"env": [{"name": "A", "value": "1"}]}});
    bare.patch_extension(json!({"spec": {"config": {"configType": "Inline", "inline": replicas}}})).await?;
    let found = async || revisions(&bare).await;
    eventually("a second revision", found, |found| found.iter().any(|set| set.spec.revision == 2)).await?;
    bare.installed("1.0.0").await?;
    assert_eq!(provider(&bare).await?, ["built-in", "built-in"]);
    kept(&bare).await?;
    trusted_all_the_time(&bare, &before.resource_version().unwrap_or_default()).await
}

/// cert-manager's kinds are of the infrastructure, and probed: nothing that uses them begins before they are ready.
async fn certificates_come_before_deployments(scenario: &Scenario<'_>) -> Result<()> {
    let set = revisions(scenario).await?.remove(0);
    let found = kinds(&scenario.client, &set).await?;
    let wanted = wanted(&[
        ("crds", &["CustomResourceDefinition"]),
        ("infrastructure", &["Service", "Certificate", "Issuer"]),
        ("deploy", &["Deployment"]),
        ("admission", &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]),
    ]);
    ensure!(found == wanted, "{found:?}");
    let text = format!(
        "False/ProbeFailure/Object Certificate.cert-manager.io/v1 {}/{}: missing .status.conditions",
        scenario.name,
        bundle::secret_name(&scenario.name)
    );
    wait::until(&format!("Available to be {text}"), DEADLINE, || async {
        let status = revisions(scenario).await?.remove(0).status.unwrap_or_default();
        let found = status.conditions.find(olm_api::ConditionType::Available);
        let told = found.map(|c| format!("{}/{}/{}", c.status, c.reason, c.message)).unwrap_or_default();
        wait::check(told == text, || told)
    })
    .await?;
    let deployments: Api<Deployment> = Api::namespaced(scenario.client.clone(), &scenario.name);
    ensure!(deployments.get_opt(&scenario.name).await?.is_none(), "it was deployed without its certificate");
    Ok(())
}

async fn a_secret_of_somebody_else_is_not_used(world: &World) -> Result<()> {
    let scenario = Scenario::new(world, "foreigncert").await?;
    let folder = tempfile::tempdir()?;
    bundle::with_webhooks(&scenario.name).write(folder.path())?;
    scenario.prepare(&scenario.name, &[("1.0.0", folder.path().to_owned())]).await?;
    let owner = scenario.maps().make(json!({"metadata": {"name": "mine"}})).await?;
    let name = bundle::secret_name(&scenario.name);
    let secret = json!({"metadata": {"name": name, "ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": owner.uid(), "controller": true}]}});
    scenario.secrets().make(secret).await?;
    scenario.create_extension(&scenario.name, json!({})).await?;
    let text = format!(
        "True/Retrying/webhook certificate in Secret {}/{name}: it is controlled by ConfigMap \"mine\": remove the Secret or its owner reference, so that the certificate can be stored there",
        scenario.name
    );
    scenario.shows(olm_api::ConditionType::Progressing, &text).await?;
    scenario.secrets().delete(&name, &kube::api::DeleteParams::default()).await?;
    scenario.installed("1.0.0").await
}

/// The Certificate, once it is there; its own controller is not at hand.
async fn cert_manager_certificate(scenario: &Scenario<'_>) -> Result<DynamicObject> {
    let resource = resource("cert-manager.io/v1", "Certificate", "certificates");
    let api: Api<DynamicObject> = Api::namespaced_with(scenario.client.clone(), &scenario.name, &resource);
    wait::until("the Certificate", DEADLINE, || async {
        api.get(&bundle::secret_name(&scenario.name)).await.context("no Certificate")
    })
    .await
}
