//! Metrics as a scraper reads them: with the token of an account that may get `/metrics`.

use crate::{permissions, prelude::*};
use k8s_openapi::api::authentication::v1::TokenRequest;

/// A token of an account, which is created.
pub async fn token(client: &Client, namespace: &str, account: &str) -> Result<String> {
    create_account(client, namespace, account).await?;
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let granted = api.create_token_request(account, &PostParams::default(), &TokenRequest::default()).await?;
    granted.status.and_then(|status| status.token).context("no token")
}

/// Lets an account read metrics, as an administrator does for a scraper.
pub async fn let_read(client: &Client, namespace: &str, account: &str) -> Result<()> {
    let name = unique_name("metrics-reader");
    let rules = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    let subject = json!({"kind": "ServiceAccount", "namespace": namespace, "name": account});
    permissions::allow(client, "", &name, &rules, &subject).await
}

/// Reads metrics with a token of its own. Believes every certificate.
pub struct Scraper {
    http: reqwest::Client,
    token: String,
}

impl Scraper {
    /// Makes the account in a namespace that exists.
    pub async fn new(client: &Client, namespace: &str) -> Result<Self> {
        let account = unique_name("scraper");
        let token = token(client, namespace, &account).await?;
        let_read(client, namespace, &account).await?;
        let http = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build()?;
        Ok(Self { http, token })
    }

    /// The text at an address.
    pub async fn read(&self, url: &str) -> Result<String> {
        let answer = self.http.get(url).bearer_auth(&self.token).send().await?;
        ensure!(answer.status().is_success(), "{url}: {}", answer.status());
        Ok(answer.text().await?)
    }
}

/// The sum of a family's samples whose labels hold each of these texts, in the text of metrics that count things.
pub fn count(text: &str, family: &str, labels: &[&str]) -> u64 {
    let of_family = |line: &&str| {
        line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    };
    let value = |line: &str| line.rsplit(' ').next().and_then(|number| number.parse::<u64>().ok());
    text.lines().filter(of_family).filter_map(value).sum()
}
