//! The operator's part of its webhooks, played by the test: a server behind the rendered Service that shows the
//! certificate of the Secret.

use std::sync::Mutex;

use axum::{Json, Router, extract::State, http::Uri};
use olm_runtime::{ServerLimits, listen, serve};
use olm_test::{cluster::own_address, prelude::*};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::bundle;

/// How often the Secret is looked at, as a kubelet does for the files of a pod.
const REREAD: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct Shared {
    calls: Mutex<BTreeMap<String, usize>>,
    serving: Mutex<Option<(String, Arc<CertifiedKey>)>>,
}

impl ResolvesServerCert for Shared {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.serving.lock().unwrap().as_ref().map(|(_, certified)| Arc::clone(certified))
    }
}

/// Serves until it is dropped.
pub(crate) struct WebhookServer {
    shared: Arc<Shared>,
    _stop: DropGuard,
}

impl WebhookServer {
    /// Serves, and makes the rendered Service of the scenario's bundle lead here.
    pub(crate) async fn start(scenario: &Scenario<'_>) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let address = own_address()?;
        let listener = listen(&format!("{address}:0"))?;
        let port = listener.local_addr()?.port();
        let stop = CancellationToken::new();
        let config =
            ServerConfig::builder().with_no_client_auth().with_cert_resolver(Arc::clone(&shared) as _);
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        tokio::spawn(serve(listener, router, Some(Arc::new(config)), ServerLimits::default(), stop.clone()));
        tokio::spawn(follow(
            scenario.client.clone(),
            scenario.name.clone(),
            Arc::clone(&shared),
            stop.clone(),
        ));
        let service = bundle::service_name(&scenario.name);
        scenario.world.cluster.lead_here(&scenario.name, &service, port).await?;
        Ok(Self { shared, _stop: stop.drop_guard() })
    }

    /// Requests so far, by path.
    pub(crate) fn calls(&self) -> BTreeMap<String, usize> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// Whether the certificate that is shown is another one.
    pub(crate) fn shows_another_than(&self, certificate: &str) -> bool {
        self.shared.serving.lock().unwrap().as_ref().is_some_and(|(shown, _)| shown != certificate)
    }
}

/// Shows whatever certificate the Secret holds.
async fn follow(client: kube::Client, name: String, shared: Arc<Shared>, stop: CancellationToken) {
    let api: Api<Secret> = Api::namespaced(client, &name);
    while !stop.is_cancelled() {
        if let Ok(Some(secret)) = api.get_opt(&bundle::secret_name(&name)).await
            && let Some(pair) = pair(&secret)
        {
            *shared.serving.lock().unwrap() = Some(pair);
        }
        tokio::time::sleep(REREAD).await;
    }
}

fn pair(secret: &Secret) -> Option<(String, Arc<CertifiedKey>)> {
    let data = secret.data.as_ref()?;
    let (certificate, key) = (&data.get("tls.crt")?.0, &data.get("tls.key")?.0);
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>().ok()?;
    let key = PrivateKeyDer::from_pem_slice(key).ok()?;
    let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).ok()?;
    Some((String::from_utf8_lossy(certificate).into_owned(), Arc::new(certified)))
}

/// Lets everything through, marks what it mutates and what it converts.
async fn answer(State(shared): State<Arc<Shared>>, uri: Uri, Json(review): Json<Value>) -> Json<Value> {
    *shared.calls.lock().unwrap().entry(uri.path().to_owned()).or_default() += 1;
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
