//! An operator as users have it, for tests on clusters whose Pods really run: a kind in two versions, a webhook of
//! each type, and a controller that makes a ConfigMap for each object.
//!
//! What it does beyond that is tell its own version, so that upgrades and rollbacks can be seen from outside.

mod operating;
mod sample;
mod webhooks;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result, bail};
use clap::Parser;
use olm_runtime::{
    CertWatcher, ServerLimits, TlsProfile, cluster_config, connect, health_router, init_logs, listen,
    on_signal, serve, server_config,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Where bundles of the format registry+v1 find their webhooks' certificate: folder, certificate, key.
const MOUNTED: [(&str, &str, &str); 2] = [
    ("/tmp/k8s-webhook-server/serving-certs", "tls.crt", "tls.key"),
    ("/apiserver.local.config/certificates", "apiserver.crt", "apiserver.key"),
];

/// The sample operator.
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    /// The version it says it is.
    #[arg(long, default_value = env!("CARGO_PKG_VERSION"))]
    operator_version: String,
    /// The API group of its kind.
    #[arg(long, default_value = "samples.example.com")]
    group: String,
    /// Where its webhooks listen, with TLS.
    #[arg(long, default_value = ":9443")]
    webhook_bind_address: String,
    /// Where /healthz and /readyz are.
    #[arg(long, default_value = ":8081")]
    health_probe_bind_address: String,
    /// A folder with tls.crt and tls.key; without it the two places where Pods have them.
    #[arg(long)]
    certificates: Option<PathBuf>,
    /// The cluster, when it does not run in it.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let traces = init_logs(0, env!("CARGO_PKG_NAME"));
    // The only failure is that a provider is installed already, which is what is wanted.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = runtime.context("starting").and_then(|runtime| runtime.block_on(run(args)));
    traces.end();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "ended");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<()> {
    let shutdown = on_signal().context("catching signals")?;
    let certificate = certificate(args.certificates.as_deref())?;
    let tls = server_config(certificate.serving(), &TlsProfile::default())?;
    let client = connect(cluster_config(args.kubeconfig.as_deref(), None).await?)?;
    let listed = Arc::new(AtomicBool::new(false));
    let ready = listed.clone();
    let health = health_router(move || {
        if ready.load(Ordering::Relaxed) { Ok(()) } else { Err("samples: not listed yet".to_owned()) }
    });
    let limits = ServerLimits::default;
    let hooks = serve(
        listen(&args.webhook_bind_address)?,
        webhooks::router(&args.group),
        Some(tls),
        limits(),
        shutdown.clone(),
    );
    let probes = serve(listen(&args.health_probe_bind_address)?, health, None, limits(), shutdown.clone());
    let operator = operating::Operator { client, group: args.group, version: args.operator_version, listed };
    tracing::info!(version = operator.version, group = operator.group, "started");
    let served = async { tokio::try_join!(hooks, probes) };
    let (served, (), ()) =
        tokio::join!(served, operator.run(shutdown.clone()), certificate.run(shutdown.clone()));
    served?;
    Ok(())
}

/// The certificate of the given folder, else of the first mounted one.
fn certificate(folder: Option<&Path>) -> Result<CertWatcher> {
    if let Some(folder) = folder {
        return Ok(CertWatcher::new(&folder.join("tls.crt"), &folder.join("tls.key"))?);
    }
    let mounted =
        MOUNTED.iter().find(|(folder, certificate, _)| Path::new(folder).join(certificate).is_file());
    let Some((folder, certificate, key)) = mounted else {
        let folders = MOUNTED.map(|(folder, ..)| folder).join(" and ");
        bail!("no certificate in {folders}: run it from a bundle with webhooks, or give --certificates");
    };
    let folder = Path::new(folder);
    Ok(CertWatcher::new(&folder.join(certificate), &folder.join(key))?)
}
