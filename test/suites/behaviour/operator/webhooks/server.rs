//! The operator's part of its webhooks, played by the test: a server behind the rendered Service that shows the
//! certificate of the Secret.

use std::sync::Mutex;

use axum::{Json, Router, extract::State, http::Uri};
use olm_runtime::{ServerLimits, listen, serve};
use olm_test::{cluster::own_address, prelude::*, secret_certificate::SecretCertificate};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::bundle;

type Calls = Arc<Mutex<BTreeMap<String, usize>>>;

/// Serves until it is dropped.
pub(crate) struct WebhookServer {
    calls: Calls,
    certificate: Arc<SecretCertificate>,
    _stop: DropGuard,
}

impl WebhookServer {
    /// Serves, and makes the rendered Service of the scenario's bundle lead here.
    pub(crate) async fn start(scenario: &Scenario<'_>) -> Result<Self> {
        let calls = Calls::default();
        let address = own_address()?;
        let listener = listen(&format!("{address}:0"))?;
        let port = listener.local_addr()?.port();
        let stop = CancellationToken::new();
        let secrets = Api::namespaced(scenario.client.clone(), &scenario.name);
        let certificate =
            SecretCertificate::follow(secrets, bundle::secret_name(&scenario.name), stop.clone());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&calls));
        let tls = Some(certificate.config());
        tokio::spawn(serve(listener, router, tls, ServerLimits::default(), stop.clone()));
        let service = bundle::service_name(&scenario.name);
        scenario.world.cluster.lead_here(&scenario.name, &service, port).await?;
        Ok(Self { calls, certificate, _stop: stop.drop_guard() })
    }

    /// Requests so far, by path.
    pub(crate) fn calls(&self) -> BTreeMap<String, usize> {
        self.calls.lock().unwrap().clone()
    }

    /// Whether the certificate that is shown is another one.
    pub(crate) fn shows_another_than(&self, certificate: &str) -> bool {
        self.certificate.is_another_than(certificate)
    }
}

/// Lets everything through, marks what it mutates and what it converts.
async fn answer(State(calls): State<Calls>, uri: Uri, Json(review): Json<Value>) -> Json<Value> {
    *calls.lock().unwrap().entry(uri.path().to_owned()).or_default() += 1;
    let request = &review["request"];
    let mut response = json!({"uid": request["uid"]});
    match uri.path() {
        "/c" => {
            let objects = request["objects"].as_array().into_iter().flatten().cloned().map(|mut object| {
                object["apiVersion"] = request["desiredAPIVersion"].clone();
                object["spec"]["converted"] = json!(true);
                object
            });
            response["convertedObjects"] = objects.collect();
            response["result"] = json!({"status": "Success"});
        }
        "/m" => {
            response["allowed"] = json!(true);
            let patch = json!([{"op": "add", "path": "/metadata/annotations", "value": {"mutated": "true"}}]);
            response["patch"] =
                base64::Engine::encode(&base64::engine::general_purpose::STANDARD, patch.to_string()).into();
            response["patchType"] = json!("JSONPatch");
        }
        _ => response["allowed"] = json!(true),
    }
    Json(json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}))
}
