//! A proxy between our program and the API server, which numbers writes and does harm as told.
//!
//! It listens without TLS on loopback. Requests with a token of their own go on as they are; the others go on as
//! the user of the kubeconfig it was started with. Writes are named ([`WriteName`]), so that a later run can be
//! struck at the same one. It has a thread of its own, so that tests of several runtimes can share it.

mod requests;
mod serve;
mod watches;
mod weather;

use std::{
    net::SocketAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use kube::{
    Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use requests::{Write, WriteName};
pub use weather::{Fault, Weather};

use crate::prelude::*;
use watches::{Flow, Gate};

/// What happens at a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    /// Nothing goes on, from this write on and with it, until [`Proxy::thaw`].
    Before,
    /// The same, but this write reaches the API server; its answer is lost.
    After,
    /// From this write on no watch delivers anything, until [`Proxy::release`].
    Stale,
    /// From this write on all events of watches are lost, until [`Proxy::expire`].
    Unobserved,
}

#[derive(Default)]
struct State {
    counts: BTreeMap<(String, String, String), u32>,
    writes: Vec<Write>,
    requests: Vec<String>,
    strike: Option<(WriteName, Blow)>,
    weather: Option<Weather>,
    last_request: Option<Instant>,
    under_way: usize,
}

struct Shared {
    state: Mutex<State>,
    gate: watch::Sender<Gate>,
    frozen: watch::Sender<bool>,
    struck: watch::Sender<bool>,
    /// Events that a closed gate kept back, or lost.
    kept_back: AtomicU64,
    as_user: kube::Client,
    as_nobody: kube::Client,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The proxy. Dropped, it is gone.
pub struct Proxy {
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
    stop: CancellationToken,
    _directory: StateDirectory,
}

impl Proxy {
    /// Starts one before the API server of a kubeconfig.
    pub async fn start(kubeconfig: &Path) -> Result<Self> {
        crate::cluster::install_crypto_provider();
        let config =
            Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &KubeConfigOptions::default())
                .await?;
        let mut anonymous = config.clone();
        anonymous.auth_info = AuthInfo::default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // The clients' tasks belong to the proxy, not to the test that started it.
        let entered = runtime.enter();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            gate: watch::Sender::default(),
            frozen: watch::Sender::new(false),
            struck: watch::Sender::new(false),
            kept_back: AtomicU64::new(0),
            as_user: olm_runtime::connect(config)?,
            as_nobody: olm_runtime::connect(anonymous)?,
        });
        drop(entered);
        let stop = CancellationToken::new();
        let (served, stopped) = (Arc::clone(&shared), stop.clone());
        std::thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || runtime.block_on(serve::serve(listener, served, stopped)))?;
        let directory = StateDirectory::new("proxy")?;
        let kubeconfig = directory.path().join("kubeconfig");
        write_kubeconfig(&kubeconfig, address)?;
        Ok(Self { shared, kubeconfig, stop, _directory: directory })
    }

    /// The kubeconfig for programs that are to go through the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Forgets what was seen and stops all harm.
    pub fn reset(&self) {
        {
            let mut state = self.shared.state();
            *state = State { under_way: state.under_way, ..State::default() };
        }
        self.shared.kept_back.store(0, Ordering::Relaxed);
        self.shared.struck.send_replace(false);
        self.shared.frozen.send_replace(false);
        self.shared.gate.send_modify(|gate| gate.flow = Flow::Open);
    }

    /// Strikes once, at the write of this name.
    pub fn strike(&self, at: WriteName, blow: Blow) {
        self.shared.state().strike = Some((at, blow));
    }

    /// Waits until the blow has fallen.
    pub async fn struck(&self) {
        // The sender lives as long as `self`.
        let _ = self.shared.struck.subscribe().wait_for(|struck| *struck).await;
    }

    /// Whether the blow has fallen.
    pub fn was_struck(&self) -> bool {
        *self.shared.struck.borrow()
    }

    /// Lets new requests go on; those that were stopped are lost.
    pub fn thaw(&self) {
        self.shared.frozen.send_replace(false);
    }

    /// Keeps back all events of watches, until [`Proxy::release`].
    pub fn hold(&self) {
        self.shared.gate.send_modify(|gate| gate.flow = Flow::Held);
    }

    /// Delivers what was kept back.
    pub fn release(&self) {
        self.shared.gate.send_modify(|gate| gate.flow = Flow::Open);
    }

    /// Ends all watches with the answer that what they ask for is too old.
    pub fn expire(&self) {
        self.shared.gate.send_modify(|gate| {
            gate.flow = Flow::Open;
            gate.expired += 1;
        });
    }

    /// Changes the weather.
    pub fn weather(&self, weather: Option<Weather>) {
        self.shared.state().weather = weather;
    }

    /// Lets as many faults come again as the weather had at first.
    pub fn renew_weather(&self) {
        if let Some(weather) = &mut self.shared.state().weather {
            weather.renew();
        }
    }

    /// The faults of the weather so far, as text.
    pub fn damage(&self) -> Vec<String> {
        self.shared.state().weather.as_ref().map(|weather| weather.done().to_vec()).unwrap_or_default()
    }

    /// Events of watches that were kept back or lost.
    pub fn kept_back(&self) -> u64 {
        self.shared.kept_back.load(Ordering::Relaxed)
    }

    /// The writes so far, in the order in which they came.
    pub fn writes(&self) -> Vec<Write> {
        self.shared.state().writes.clone()
    }

    /// All requests so far but watches, each as verb, resource and object, in the order in which they came.
    pub fn requests(&self) -> Vec<String> {
        self.shared.state().requests.clone()
    }

    /// Waits until there has been no request for a while.
    pub async fn quiet(&self, pause: Duration, deadline: Duration) -> Result<()> {
        wait::until("the program to be done", deadline, async || {
            let (last, under_way) = {
                let state = self.shared.state();
                (state.last_request, state.under_way)
            };
            let still = last.is_none_or(|at| at.elapsed() >= pause) && under_way == 0;
            wait::check(still, || {
                let state = self.shared.state();
                let from = state.requests.len().saturating_sub(5);
                format!(
                    "{} requests, {under_way} under way, last: {:?}",
                    state.requests.len(),
                    &state.requests[from..]
                )
            })
        })
        .await
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn write_kubeconfig(path: &Path, address: SocketAddr) -> Result<()> {
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "user", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "user"}}],
        "current-context": "proxy",
    });
    std::fs::write(path, content.to_string()).with_context(|| format!("writing {}", path.display()))
}
