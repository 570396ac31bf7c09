//! What can happen to a control plane.

use super::{Cluster, Kind, Own};
use crate::prelude::*;
use olm_test_programs::controlplane::Tool;

impl Cluster {
    /// Kills the API server and starts it again; returns when it is ready.
    pub async fn restart_api_server(&self) -> Result<()> {
        let name = Tool::ApiServer.file_name();
        let server = self.own()?.processes.iter().find(|process| process.name() == name);
        let server = server.context("the cluster has no API server")?;
        server.restart()?;
        let client = self.client().await?;
        wait::until("the API server to be ready again", DEADLINE, async || {
            server.check_running()?;
            let request = http::Request::get("/readyz").body(Vec::new())?;
            wait::check(client.request_text(request).await? == "ok", || "not ok".to_owned())
        })
        .await
    }

    /// Starts the controllers of the cluster again, so that the garbage collector knows the kinds that there are now:
    /// by itself it asks every 30 s, and what it came across before that waits for up to minutes more. A given
    /// cluster has had that time, and is left alone; a control plane without controllers has no collector.
    pub fn show_kinds_to_collector(&self) -> Result<()> {
        let Kind::Own(own) = &self.kind else { return Ok(()) };
        let name = Tool::ControllerManager.file_name();
        let controllers = own.processes.iter().find(|process| process.name() == name);
        controllers.map_or(Ok(()), Process::restart)
    }

    /// Throws the history in etcd away, up to now.
    pub async fn compact(&self) -> Result<()> {
        let status = self.ask_etcd("maintenance/status", &json!({})).await?;
        let revision = &status["header"]["revision"];
        ensure!(revision.is_string(), "etcd told no revision: {status}");
        self.ask_etcd("kv/compaction", &json!({"revision": revision, "physical": true})).await?;
        Ok(())
    }

    pub(super) async fn ask_etcd(&self, what: &str, question: &Value) -> Result<Value> {
        let url = format!("{}/v3/{what}", self.own()?.etcd);
        let client = reqwest::Client::builder().no_proxy().build()?;
        let answer = client.post(url).body(question.to_string()).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "etcd: {status} {text}");
        Ok(serde_json::from_str(&text)?)
    }

    fn own(&self) -> Result<&Own> {
        match &self.kind {
            Kind::Own(own) => Ok(own),
            Kind::Given { .. } => bail!("the cluster of KUBECONFIG is not to be disturbed"),
        }
    }
}
