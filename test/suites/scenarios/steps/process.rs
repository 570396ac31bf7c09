//! The programs: metrics, TLS, proxies, a leader that dies.

use cucumber::{given, then, when};
use k8s_openapi::api::{authentication::v1::TokenRequest, coordination::v1::Lease};
use olm_test::{faults::ConnectProxy, prelude::*, process::free_ports};

use super::Outcome;
use crate::{
    place::{CATALOGD_LEASE, Component},
    tls::{Offer, handshake},
    world::{COLLECTED, DEADLINE, World, at_home},
};

/// A token of an account bound to the role that the manifests have for scrapers.
async fn token(w: &mut World, role: &str) -> Result<String> {
    at_home(w).await?;
    let id = w.id.clone();
    create_account(&w.client, &id, "scraper").await?;
    w.apply(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{id}-scraper")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": id, "name": "scraper"}],
    }))
    .await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(w.client.clone(), &id);
    let params = PostParams::default();
    let granted = accounts.create_token_request("scraper", &params, &TokenRequest::default()).await?;
    granted.status.and_then(|status| status.token).context("no token")
}

#[then(expr = "{word} shows its metrics to whom {string} is granted, and to nobody else")]
async fn metrics(w: &mut World, component: String, role: String) -> Outcome {
    let token = token(w, &role).await?;
    let reach = w.place.metrics(Component::parse(&component)?).await?;
    let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build()?;
    let url = format!("https://{}/metrics", reach.address);
    let stranger = client.get(&url).send().await?.status();
    must!(stranger == reqwest::StatusCode::UNAUTHORIZED, "without a token: {stranger}");
    Ok(wait::until("the metrics", DEADLINE, async || {
        let answer = client.get(&url).bearer_auth(&token).send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        must!(status.is_success(), "{status}: {text}");
        must!(text.contains("# TYPE ") && text.contains("\nprocess_"), "these are no metrics: {text}");
        Ok(())
    })
    .await?)
}

#[given(expr = "{word} runs with the custom TLS profile {string}")]
async fn profile(w: &mut World, component: String, flags: String) -> Outcome {
    let flags = flags.split_whitespace().map(|flag| format!("--tls-custom-{flag}"));
    let args: Vec<String> = ["--tls-profile=custom".to_owned()].into_iter().chain(flags).collect();
    w.reconfigured = true;
    Ok(w.place.reconfigure(Component::parse(&component)?, &args, &BTreeMap::new()).await?)
}

async fn offer(w: &World, component: &str, offer: &str) -> Result<String> {
    let reach = w.place.metrics(Component::parse(component)?).await?;
    let offer = Offer::parse(offer);
    tokio::task::spawn_blocking(move || handshake(&reach.address, &offer)).await?
}

#[then(expr = "the metrics of {word} can be had over {string}")]
async fn accepts(w: &mut World, component: String, offered: String) -> Outcome {
    // After a restart it may not listen yet.
    Ok(wait::until("the handshake", DEADLINE, async || offer(w, &component, &offered).await.map(drop))
        .await?)
}

#[then(expr = "the metrics of {word} cannot be had over {string}")]
async fn refuses(w: &mut World, component: String, offered: String) -> Outcome {
    match offer(w, &component, &offered).await {
        Ok(agreed) => fail!("{agreed} was agreed on"),
        // The server's refusal, not a server that is not there.
        Err(error) => {
            let text = format!("{error:#}");
            must!(text.contains("alert") || text.contains("HandshakeFailure"), "{text}");
            Ok(())
        }
    }
}

async fn through(w: &mut World, url: String) -> Result<()> {
    let env = BTreeMap::from([
        ("HTTPS_PROXY".to_owned(), url),
        // The API server alone.
        ("NO_PROXY".to_owned(), "127.0.0.1,10.96.0.1,kubernetes.default.svc".to_owned()),
    ]);
    w.reconfigured = true;
    w.place.reconfigure(Component::OperatorController, &[], &env).await
}

#[given("operator-controller is to use a proxy that nobody runs")]
async fn dead_proxy(w: &mut World) -> Outcome {
    let [port] = free_ports()?;
    Ok(through(w, format!("http://127.0.0.1:{port}")).await?)
}

#[given("operator-controller is to use a proxy")]
async fn proxy(w: &mut World) -> Outcome {
    let proxy = ConnectProxy::start()?;
    let url = proxy.url();
    w.proxy = Some(proxy);
    Ok(through(w, url).await?)
}

#[then(expr = "the proxy was asked for a host whose name contains {string}")]
async fn asked(w: &mut World, part: String) -> Outcome {
    let proxy = w.proxy.as_ref().context("there is no proxy")?;
    let asked = proxy.asked();
    must!(asked.iter().any(|host| host.contains(&part)), "it was asked for {asked:?}");
    Ok(())
}

async fn holder(w: &World) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(w.client.clone(), &w.place.facts().system_namespace);
    let spec = leases.get(CATALOGD_LEASE).await?.spec.unwrap_or_default();
    spec.holder_identity.filter(|holder| !holder.is_empty()).context("nobody leads")
}

#[given("two replicas serve catalogs")]
async fn replicas(w: &mut World) -> Outcome {
    w.reconfigured = true;
    Ok(w.place.two_replicas().await?)
}

#[when("the leading replica is killed")]
async fn killed(w: &mut World) -> Outcome {
    let leader = holder(w).await?;
    w.kept.insert("leader".to_owned(), leader.clone().into());
    Ok(w.place.kill_leader(&leader).await?)
}

#[then("another replica leads")]
async fn another_leads(w: &mut World) -> Outcome {
    let before = w.kept.get("leader").and_then(|leader| leader.as_str()).context("nobody was killed")?;
    Ok(eventually_within(COLLECTED, "another leader", async || holder(w).await, |now| *now != before).await?)
}
