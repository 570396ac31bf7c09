//! The program asked to end, or robbed of a Lease, at random moments, with registries that never answer.

use k8s_openapi::api::coordination::v1::Lease;
use olm_test::{catalog, extension::extension, operator::GRACE, prelude::*, supervisor::State};
use tokio::net::TcpListener;

use crate::world::{everything, seed};

const LEASES: [&str; 2] = ["9c4404e7.operatorframework.io", "catalogd-operator-lock"];
const MOMENTS: usize = 50;
/// One of each kind, and one more.
const MOMENTS_OF_A_SAMPLE: usize = 4;
/// Within so much time everything has begun that hangs.
const MOMENT_MILLISECONDS_MAX: u64 = 4000;
/// A Lease that is lost is noticed when it is to be renewed.
const RETRY: Duration = Duration::from_secs(1);

/// What is done to the program.
#[derive(Debug, Clone, Copy)]
enum End {
    Signal,
    Robbed(usize),
}

impl End {
    fn of(moment: usize) -> Self {
        [Self::Signal, Self::Robbed(0), Self::Robbed(1)][moment % 3]
    }
}

/// A registry that takes connections and requests, and answers none.
async fn hanging() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            held.push(connection);
        }
    });
    Ok(address)
}

struct Setup {
    operator: Operator,
    leases: Api<Lease>,
    // Dropped last.
    _site: Site,
}

impl Setup {
    /// A catalog whose image, and an extension whose bundle, never arrive.
    async fn build() -> Result<Self> {
        let site = Site::start().await?;
        let (cluster, images) = (&site.cluster, &site.images);
        let hanging = hanging().await?;
        let flags = [
            "--leader-elect".to_owned(),
            format!("--leader-elect-retry-period={}s", RETRY.as_secs()),
            format!("--insecure-registry={hanging}"),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let operator = Operator::start(&site, &flags).await?;
        let client = cluster.client().await?;
        cluster.create_namespace("stuck").await?;
        create_account(&client, "stuck", ACCOUNT).await?;
        let bundle = format!("{hanging}/stuck/bundle@sha256:{:0>64}", 7);
        let content = catalog::chain("stuck", &[("1.0.0", &bundle)]);
        images.push_catalog(&content, "good-catalog:latest").await?;
        for (name, host) in [("good", images.host()), ("hanging", hanging.as_str())] {
            let reference = format!("{host}/{name}-catalog:latest");
            let catalog = catalog::cluster_catalog(name, &json!({"ref": reference}));
            Api::<ClusterCatalog>::all(client.clone()).make(&catalog).await?;
        }
        catalog::serves(&client, "good", DEADLINE).await?;
        let extension = extension("stuck", "stuck", "stuck", "good", &Value::Null);
        Api::<ClusterExtension>::all(client.clone()).make(extension).await?;
        let leases = Api::namespaced(client, SYSTEM_NAMESPACE);
        Ok(Self { operator, leases, _site: site })
    }

    async fn holders(&self) -> Result<[String; 2]> {
        let mut holders = [String::new(), String::new()];
        for (name, holder) in LEASES.iter().zip(&mut holders) {
            let lease = self.leases.get_opt(name).await?;
            *holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        }
        Ok(holders)
    }

    /// Starts the program, ends it after a while, and returns how long that took: until the Leases were released, and
    /// until the end of the process.
    async fn end(&self, end: End, after: Duration) -> Result<(Duration, Duration)> {
        self.operator.process().restart()?;
        wait::until("both leases to be held", DEADLINE, async || {
            self.operator.process().check_running()?;
            let holders = self.holders().await?;
            wait::check(holders.iter().all(|holder| !holder.is_empty()), || format!("{holders:?}"))
        })
        .await?;
        tokio::time::sleep(after).await;
        let began = Instant::now();
        let stopping = async {
            match end {
                End::Signal => self.operator.process().terminate(GRACE).await.map(drop),
                End::Robbed(lease) => {
                    let thief = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}});
                    self.leases.merge(LEASES[lease], &thief).await?;
                    wait::until("the end of the process", GRACE, async || {
                        match self.operator.process().state()? {
                            State::Running => bail!("it runs\n{}", self.operator.process().log_tail()),
                            _ => Ok(()),
                        }
                    })
                    .await
                }
            }?;
            Ok::<_, anyhow::Error>(began.elapsed())
        };
        let releasing = async {
            wait::until("the leases to be released", GRACE, async || {
                let holders = self.holders().await?;
                let free = holders.iter().all(|holder| holder.is_empty() || holder == "thief");
                wait::check(free, || format!("{holders:?}"))
            })
            .await?;
            Ok(began.elapsed())
        };
        let (ended, released) = tokio::try_join!(stopping, releasing)?;
        let state = self.operator.process().state()?;
        let well = matches!(state, State::Exited(code) if (code == 0) == matches!(end, End::Signal));
        ensure!(well, "{state:?}\n{}", self.operator.process().log_tail());
        ensure!(!self.operator.process().log().contains("panicked"), "it panicked");
        for lease in LEASES {
            self.leases.remove(lease).await?;
        }
        Ok((released, ended))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_at_random_moments_it_releases_its_leases_and_is_gone_within_the_grace_period() -> Result<()> {
    let setup = Setup::build().await?;
    setup.operator.process().terminate(GRACE).await?;
    let mut random = fastrand::Rng::with_seed(seed());
    let moments = if everything() { MOMENTS } else { MOMENTS_OF_A_SAMPLE };
    let mut figures = Vec::new();
    for moment in 0..moments {
        let (end, after) = (End::of(moment), Duration::from_millis(random.u64(..MOMENT_MILLISECONDS_MAX)));
        let took = setup.end(end, after).await.with_context(|| format!("{end:?} after {after:?}"))?;
        println!(
            "{end:?} after {:.1} s: released in {:.1} s, ended in {:.1} s",
            after.as_secs_f64(),
            took.0.as_secs_f64(),
            took.1.as_secs_f64()
        );
        figures.push(took);
    }
    let most = |of: fn(&(Duration, Duration)) -> Duration| figures.iter().map(of).max().unwrap_or_default();
    let (released, ended) = (most(|took| took.0), most(|took| took.1));
    println!("{moments} ends: released in {released:.1?} at most, ended in {ended:.1?}");
    Ok(())
}
