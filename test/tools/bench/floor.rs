//! The floor: what a cluster takes for the objects of real operators when a bare client creates them, rendered beforehand,
//! beside what an installation of the same operators takes.
//!
//! The client creates the CRDs of an operator, waits until they are established, creates the roles, then the rest at once, and
//! waits for the Deployments. It has the permissions of the ServiceAccount that the operator is installed with, because the
//! API server checks who may grant what: an administrator's bindings are made a tenth of a second earlier. Each side has a
//! control plane of its own, of the same kind, one after the other. One operator is installed and removed several times, of
//! which the medians count: one installation takes a second, in which a machine is seldom quiet.

use futures::future::try_join_all;
use kube::{
    core::GroupVersionKind,
    runtime::wait::{Condition as _, conditions::is_crd_established},
};
use olm_bundle::{Bundle, MEMORY_BYTES_MAX};
use olm_object::{ObjectKey, known_kind};
use olm_render::{CertificateProvider, Options as Rendering, render};

use super::extensions::{events_of, is_installed, remove};
use super::sample::{Sample, give_account, user_of};
use super::watching::Watch;
use super::{accounts, catalogs, figure, percentile, start_on, subject, usage};
use crate::{images::bundle_files, prelude::*};

/// The operator that is installed alone.
const ALONE: (&str, &str) = ("grafana-operator", "5.24.0");
/// Those that are installed at once. All watch all namespaces, and require nothing.
const TOGETHER: [(&str, &str); 20] = [
    ("3scale-community-operator", "0.11.0"),
    ("argocd-operator", "0.18.0"),
    ("community-kubevirt-hyperconverged", "1.18.1"),
    ("etcd", "0.9.4-clusterwide"),
    ("external-secrets-operator", "0.11.0"),
    ("flux", "2.3.0"),
    ("infinispan", "2.5.14"),
    ("keda", "2.7.1"),
    ("kepler-operator", "0.24.0"),
    ("loki-operator", "0.11.0"),
    ("marin3r", "0.13.1"),
    ("ndmspc-operator", "0.20250209.0"),
    ("nfs-provisioner-operator", "0.0.9"),
    ("node-healthcheck-operator", "0.12.0"),
    ("observability-operator", "0.0.28"),
    ("project-quay", "3.18.0"),
    ("rabbitmq-cluster-operator", "2.22.3"),
    ("redis-operator", "0.15.1"),
    ("strimzi-kafka-operator", "1.2.0"),
    ("universal-crossplane", "1.5.1-up.1"),
];
/// Pods that keep away from each other need nodes.
const NODES: usize = 4;
/// The priority class of an operator, which its own Pod makes on a real cluster.
const PRIORITY_CLASS: &str = "kubevirt-cluster-critical";
const CATALOG: &str = "floor";
/// Installations of the one.
const ROUNDS: usize = 9;

/// What a side took.
#[derive(Debug, Clone, Copy)]
struct Cost {
    seconds: f64,
    /// CPU seconds of the API server.
    server: f64,
    /// CPU seconds of who installs.
    own: f64,
}

impl Cost {
    /// The median of each of the figures.
    fn of_rounds(rounds: &[Self]) -> Self {
        let median =
            |figure: fn(&Self) -> f64| percentile(&mut rounds.iter().map(figure).collect::<Vec<_>>(), 50);
        Self {
            seconds: median(|cost| cost.seconds),
            server: median(|cost| cost.server),
            own: median(|cost| cost.own),
        }
    }
}

/// Operators that are installed at once, as often as there are rounds.
#[derive(Clone, Copy)]
struct Group {
    name: &'static str,
    operators: &'static [(&'static str, &'static str)],
    rounds: usize,
}

const GROUPS: [Group; 2] = [
    Group { name: "one", operators: &[ALONE], rounds: ROUNDS },
    Group { name: "20-at-once", operators: &TOGETHER, rounds: 1 },
];

/// Takes the figures of both sides, on bundles below `folder`.
pub(super) async fn measure(folder: &Path) -> Result<()> {
    let mut operators = GROUPS.iter().flat_map(|group| group.operators);
    if let Some((package, version)) =
        operators.find(|(package, version)| !folder.join(package).join(version).is_dir())
    {
        println!("skipped: the floor, there is no bundle {package} {version}");
        return Ok(());
    }
    let bare = Box::pin(bare(folder)).await?;
    let ours = Box::pin(installed(folder)).await?;
    for ((Group { name, .. }, bare), ours) in GROUPS.into_iter().zip(bare).zip(ours) {
        for (who, rounds) in [("a bare client", &bare), ("the program", &ours)] {
            let seconds: Vec<_> = rounds.iter().map(|cost| format!("{:.3}", cost.seconds)).collect();
            println!("note: {name} by {who}, in seconds: {}", seconds.join(" "));
        }
        let (bare, ours) = (Cost::of_rounds(&bare), Cost::of_rounds(&ours));
        figure(&format!("floor-{name}"), bare.seconds, "s");
        figure(&format!("floor-{name}-installed"), ours.seconds, "s");
        figure(&format!("floor-{name}-ratio"), ours.seconds / bare.seconds, "x the floor");
        figure(&format!("floor-{name}-api-server-cpu"), bare.server, "s");
        figure(&format!("floor-{name}-installed-api-server-cpu"), ours.server, "s");
        figure(&format!("floor-{name}-api-server-cpu-ratio"), ours.server / bare.server, "x the floor");
        figure(&format!("floor-{name}-cpu"), bare.own, "s");
        figure(&format!("floor-{name}-installed-cpu"), ours.own, "s");
    }
    Ok(())
}

/// CPU seconds of the API server once it is idle.
async fn server_cpu(cluster: &Cluster) -> Result<f64> {
    let servers = || cluster.processes().iter().filter(|process| process.name() == "kube-apiserver");
    for server in servers() {
        usage::idle(server.pid()).await?;
    }
    servers().map(|process| usage::cpu_seconds(process.pid())).sum()
}

async fn priority_class(client: &Client) -> Result<()> {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": PRIORITY_CLASS}, "value": 1_000_000_000,
    });
    Api::<k8s_openapi::api::scheduling::v1::PriorityClass>::all(client.clone()).make(class).await.map(drop)
}

/// The objects of an operator as a bare client creates them.
struct Objects {
    /// The client, which has the permissions that an installation is given.
    client: Client,
    crds: Vec<Value>,
    /// Which bindings refer to.
    roles: Vec<Value>,
    rest: Vec<Value>,
    /// Namespace and name.
    deployments: BTreeSet<(String, String)>,
}

impl Objects {
    /// Renders a bundle, and makes its namespace with an account. Kinds of add-ons that the cluster does not have are left
    /// out, as an installation does.
    async fn prepared(
        (cluster, client): (&Cluster, &Client),
        folder: &Path,
        (package, version): (&str, &str),
    ) -> Result<Self> {
        let files = bundle_files(&folder.join(package).join(version))?;
        cluster.create_namespace(package).await?;
        give_account(client, package, std::slice::from_ref(&files)).await?;
        let groups =
            ["system:serviceaccounts", &format!("system:serviceaccounts:{package}"), "system:authenticated"];
        let options =
            Rendering { certificate_provider: CertificateProvider::BuiltIn, ..Rendering::new(package) };
        let objects = render(Bundle::read(&files, MEMORY_BYTES_MAX)?, &options)?.objects;
        let (crds, rest): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|object| ObjectKey::of(object).is_crd());
        let is_served = |object: &Value| {
            let key = ObjectKey::of(object);
            known_kind(&key.group, &key.kind).is_some_and(|kind| !kind.optional)
        };
        let is_role = |object: &Value| object["kind"] == "ClusterRole" || object["kind"] == "Role";
        let (roles, rest): (Vec<_>, Vec<_>) = rest.into_iter().filter(is_served).partition(is_role);
        let deployments = rest.iter().filter(|object| object["kind"] == "Deployment").map(ObjectKey::of);
        let deployments = deployments.map(|key| (key.namespace, key.name)).collect();
        let client = cluster.client_for(&user_of(package), &groups).await?;
        Ok(Self { client, crds, roles, rest, deployments })
    }

    fn count(&self) -> usize {
        self.crds.len() + self.roles.len() + self.rest.len()
    }

    /// Creates them; `observer` sees CRDs.
    async fn create(&self, observer: &Client) -> Result<()> {
        let (client, api) = (&self.client, Api::<CustomResourceDefinition>::all(observer.clone()));
        let mut watch = Watch::begin(&api, "CRDs to be established").await?;
        try_join_all(self.crds.iter().map(|crd| created(client, crd))).await?;
        let mut missing: BTreeSet<_> =
            self.crds.iter().filter_map(|crd| crd["metadata"]["name"].as_str()).map(str::to_owned).collect();
        if !missing.is_empty() {
            let all = |crd: &CustomResourceDefinition, _| {
                if is_crd_established().matches_object(Some(crd)) {
                    missing.remove(&crd.name_any());
                }
                missing.is_empty().then_some(())
            };
            watch.first(all).await?;
        }
        try_join_all(self.roles.iter().map(|object| created(client, object))).await?;
        try_join_all(self.rest.iter().map(|object| created(client, object))).await?;
        Ok(())
    }

    /// Deletes them, and waits until they are gone.
    async fn remove(&self, client: &Client) -> Result<()> {
        for object in self.rest.iter().chain(&self.roles).chain(&self.crds) {
            let (api, name) = (api_of(client, object)?, ObjectKey::of(object).name);
            api.remove(&name).await.with_context(|| format!("deleting {name}"))?;
            api.gone(&name).await?;
        }
        Ok(())
    }
}

fn api_of(client: &Client, object: &Value) -> Result<Api<DynamicObject>> {
    let key = ObjectKey::of(object);
    let kind = known_kind(&key.group, &key.kind).with_context(|| format!("{} is not known", key.kind))?;
    let gvk = GroupVersionKind::gvk(&key.group, &key.version, &key.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
    // Bundles give objects of the cluster a namespace too.
    Ok(if kind.namespaced {
        Api::namespaced_with(client.clone(), &key.namespace, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    })
}

async fn created(client: &Client, object: &Value) -> Result<()> {
    let (api, key) = (api_of(client, object)?, ObjectKey::of(object));
    let object = serde_json::from_value(object.clone())?;
    api.create(&PostParams::default(), &object)
        .await
        .with_context(|| format!("{} {}", key.kind, key.name))?;
    Ok(())
}

/// What a bare client takes: one operator, then those at once.
async fn bare(folder: &Path) -> Result<[Vec<Cost>; 2]> {
    let (options, _policy) = super::options()?;
    let cluster = Cluster::start(Options { nodes: NODES, ..options }).await?;
    let client = cluster.client().await?;
    priority_class(&client).await?;
    let mut costs = [Vec::new(), Vec::new()];
    for (Group { operators, rounds, .. }, costs) in GROUPS.into_iter().zip(&mut costs) {
        let mut all = Vec::new();
        for operator in operators {
            all.push(Objects::prepared((&cluster, &client), folder, *operator).await?);
        }
        let count: usize = all.iter().map(Objects::count).sum();
        println!("note: {count} objects of {} operators by a bare client", all.len());
        for round in 1..=rounds {
            costs.push(create(&cluster, &client, &all).await?);
            for objects in all.iter().filter(|_| round < rounds) {
                objects.remove(&client).await?;
            }
        }
    }
    Ok(costs)
}

/// Creates the objects of operators at once; what it took until their Deployments were available.
async fn create(cluster: &Cluster, client: &Client, all: &[Objects]) -> Result<Cost> {
    let mut missing: BTreeSet<_> = all.iter().flat_map(|one| one.deployments.clone()).collect();
    let api: Api<Deployment> = Api::all(client.clone());
    let mut watch = Watch::begin(&api, "the Deployments to be available").await?;
    let (before, start) = (server_cpu(cluster).await?, Instant::now());
    let own = usage::cpu_seconds(std::process::id())?;
    let available = watch.first(|deployment, is_deleted| {
        let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if !is_deleted && conditions.into_iter().any(|one| one.type_ == "Available" && one.status == "True") {
            missing.remove(&(deployment.namespace().unwrap_or_default(), deployment.name_any()));
        }
        missing.is_empty().then_some(())
    });
    let creating = try_join_all(all.iter().map(|objects| objects.create(client)));
    let (_, (end, ())) = tokio::try_join!(creating, available)?;
    let server = server_cpu(cluster).await? - before;
    let own = usage::cpu_seconds(std::process::id())? - own;
    Ok(Cost { seconds: (end - start).as_secs_f64(), server, own })
}

/// What installations of the same operators take, with tables of their requests.
async fn installed(folder: &Path) -> Result<[Vec<Cost>; 2]> {
    let world = start_on(NODES).await?;
    let client = world.cluster.client().await?;
    priority_class(&client).await?;
    let mut groups = Vec::new();
    let mut catalog = String::new();
    for Group { operators, rounds, .. } in GROUPS {
        let mut samples = Vec::new();
        for (package, version) in operators {
            let sample = Sample::real(&world, package, version, &folder.join(package).join(version)).await?;
            sample.prepare(&world, &client).await?;
            catalog.push_str(&sample.catalog);
            samples.push(sample);
        }
        groups.push((samples, rounds));
    }
    catalogs::push(&subject(&world), catalog.as_bytes(), CATALOG).await?;
    catalogs::create_and_serve(&subject(&world), CATALOG).await?;
    let mut costs = [Vec::new(), Vec::new()];
    for ((samples, rounds), costs) in groups.iter().zip(&mut costs) {
        for round in 1..=*rounds {
            costs.push(install(&world, &client, samples, round == *rounds).await?);
            for sample in samples.iter().filter(|_| round < *rounds) {
                remove(&client, &sample.name).await?;
            }
        }
    }
    Ok(costs)
}

/// Installs operators; with a table of the requests if it `is_last`.
async fn install(world: &World, client: &Client, samples: &[Sample], is_last: bool) -> Result<Cost> {
    let pid = world.operator.process().pid();
    usage::idle(pid).await?;
    let api: Api<ClusterExtension> = Api::all(client.clone());
    let mut watch = Watch::begin(&api, "the operators to be installed").await?;
    let (before, mark) = (server_cpu(&world.cluster).await?, world.cluster.audit_mark()?);
    let own = usage::cpu_seconds(pid)?;
    let start = Instant::now();
    try_join_all(samples.iter().map(async |sample| {
        api.create(&PostParams::default(), &sample.extension(CATALOG)?).await?;
        anyhow::Ok(())
    }))
    .await?;
    let mut missing: BTreeSet<_> = samples.iter().map(|sample| sample.name.clone()).collect();
    let installed = watch.first(|one, is_deleted| {
        if !is_deleted && is_installed(one) {
            missing.remove(&one.name_any());
        }
        missing.is_empty().then_some(())
    });
    let end = installed.await;
    let (end, ()) = end.with_context(|| format!("not installed: {missing:?}"))?;
    usage::idle(pid).await?;
    let server = server_cpu(&world.cluster).await? - before;
    if is_last {
        accounts::print(&events_of(world, mark, &samples.iter().collect::<Vec<_>>())?, samples.len());
    }
    Ok(Cost { seconds: (end - start).as_secs_f64(), server, own: usage::cpu_seconds(pid)? - own })
}
