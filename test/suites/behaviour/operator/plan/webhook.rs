//! A webhook on ConfigMaps that refuses to be asked in a dry-run, with the words of the API server about webhooks
//! that declare side effects.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::{Json, Router, extract::State};
use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use olm_runtime::{ServerLimits, listen, serve};
use olm_test::{pki::Authority, prelude::*};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Serves until it is dropped.
pub(super) struct NoDryRuns {
    refused: Arc<AtomicUsize>,
    _stop: DropGuard,
}

impl NoDryRuns {
    /// Starts the server, registers the webhook for the scenario's namespace, and waits until it is asked.
    pub(super) async fn start(scenario: &Scenario<'_>) -> Result<Self> {
        let authority = Authority::new("webhook")?;
        let identity = authority.server("webhook", &["127.0.0.1"])?;
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
        let tls = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        let listener = listen("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let refused = Arc::new(AtomicUsize::new(0));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&refused));
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, router, Some(Arc::new(tls)), ServerLimits::default(), stop.clone()));
        let authority = STANDARD.encode(authority.identity().certificate);
        let webhook: ValidatingWebhookConfiguration = serde_json::from_value(json!({
            "metadata": {"name": scenario.name},
            "webhooks": [{
                "name": "maps.example.com",
                "clientConfig": {"url": format!("https://127.0.0.1:{port}/"), "caBundle": authority},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scenario.name}},
                "sideEffects": "NoneOnDryRun",
                "admissionReviewVersions": ["v1"],
            }],
        }))?;
        Api::all(scenario.client.clone()).create(&PostParams::default(), &webhook).await?;
        let this = Self { refused, _stop: stop.drop_guard() };
        let maps: Api<ConfigMap> = Api::namespaced(scenario.client.clone(), &scenario.name);
        wait::until("the webhook to be asked", DEADLINE, async || {
            let probe = serde_json::from_value(json!({"metadata": {"generateName": "probe-"}}))?;
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let answer = maps.create(&params, &probe).await;
            wait::check(answer.is_err(), || "a dry-run passed".to_owned())
        })
        .await?;
        Ok(this)
    }

    /// Dry-runs that were refused so far.
    pub(super) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    pub(super) async fn remove(self, scenario: &Scenario<'_>) -> Result<()> {
        let api: Api<ValidatingWebhookConfiguration> = Api::all(scenario.client.clone());
        api.remove(&scenario.name).await?;
        Ok(())
    }
}

async fn answer(State(refused): State<Arc<AtomicUsize>>, Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    let mut response = json!({"uid": request["uid"], "allowed": request["dryRun"] != true});
    if request["dryRun"] == true {
        refused.fetch_add(1, Ordering::Relaxed);
        response["status"] = json!({"code": 400, "message": "maps.example.com does not support dry run"});
    }
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}
