//! Every method of `api.Registry`, asked of `opm serve` and of `olm catalog serve --grpc` with the same real catalogs. This opm
//! does not have `api.ExperimentalRegistry` yet.
//!
//! Lists are compared without their order. Where upstream answers at random, it is asked until it gives our answer.

use std::{
    borrow::Cow,
    fmt::Debug,
    io::{BufRead, BufReader, BufWriter, Write},
};

use olm_registry::api;
use olm_test::{
    data::{large, report},
    long,
    prelude::*,
    process::free_ports,
    supervisor::Program,
};
use olm_test_programs::GoModule;
use serde::Deserialize;
use tonic::{
    Request, Status,
    client::Grpc,
    codec::Codec,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

/// How often opm is asked for an answer that may be random.
const ATTEMPTS: usize = 32;
/// Bundles of a catalog that are asked for one by one, about.
const BUNDLES: usize = 300;
/// Of the valid packages of a packed catalog every so many are compared, all of them in a long run.
const PACKAGES_STEP: usize = 4;
/// opm builds a database of a large catalog first.
const START: Duration = Duration::from_mins(8);
/// Differences that are printed.
const SHOWN_MAX: usize = 20;

/// A server that runs.
struct Server {
    channel: Channel,
    _process: Process,
}

impl Server {
    async fn start(name: &str, program: PathBuf, args: &[&str], port: u16, log: PathBuf) -> Result<Self> {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let program = Program { program, args, env: BTreeMap::new(), env_remove: Vec::new(), log };
        let process = Process::start(name, program)?;
        wait::until(name, START, async || {
            process.check_running()?;
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
            Ok(())
        })
        .await?;
        let channel = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?.connect_lazy();
        Ok(Self { channel, _process: process })
    }

    async fn ours(catalog: &Path, port: u16, folder: &Path) -> Result<Self> {
        let (path, address) = (catalog.display().to_string(), format!("127.0.0.1:{port}"));
        let args = ["catalog", "serve", "--grpc", &address, &path];
        let olm = cargo_program("olm-cli", "olm")?;
        Self::start("olm catalog serve", olm, &args, port, folder.join("olm.log")).await
    }

    /// The messages of an answer.
    async fn ask<Q, A>(&self, method: &str, asked: Q, is_list: bool) -> Result<Vec<A>, (String, String)>
    where
        Q: Send + Sync + 'static,
        A: Send + Sync + 'static,
        ProstCodec<Q, A>: Codec<Encode = Q, Decode = A> + Default,
    {
        let failed = |status: Status| (format!("{:?}", status.code()), status.message().to_owned());
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
        grpc.ready().await.map_err(|error| ("not connected".to_owned(), error.to_string()))?;
        let path = format!("/api.Registry/{method}").parse().expect("a path");
        let request = Request::new(asked);
        let codec = ProstCodec::<Q, A>::default();
        if !is_list {
            return Ok(vec![grpc.unary(request, path, codec).await.map_err(failed)?.into_inner()]);
        }
        let mut stream = grpc.server_streaming(request, path, codec).await.map_err(failed)?.into_inner();
        let mut found = Vec::new();
        while let Some(message) = stream.message().await.map_err(failed)? {
            found.push(message);
        }
        Ok(found)
    }
}

/// Both servers, and how many of their answers are equal, by method.
struct Pair {
    ours: Server,
    theirs: Server,
    equal: BTreeMap<String, usize>,
    different: Vec<String>,
}

impl Pair {
    async fn start(catalog: &Path) -> Result<Self> {
        let folder = StateDirectory::kept("registry-conformance")?;
        let [own_port, port] = free_ports()?;
        let (path, cache) = (catalog.display().to_string(), folder.join("cache").display().to_string());
        let ours = Server::ours(catalog, own_port, &folder).await?;
        let (number, stop) = (port.to_string(), folder.join("termination").display().to_string());
        let args = ["serve", &path, "--port", &number, "--cache-dir", &cache, "--termination-log", &stop];
        // It builds the cache by itself, and does not listen for profilers on a port that others may have.
        let more = ["--cache-enforce-integrity=false", "--pprof-addr", "127.0.0.1:0"];
        let args = [&args[..], &more].concat();
        let theirs = Server::start("opm serve", opm()?, &args, port, folder.join("opm.log")).await?;
        Ok(Self { ours, theirs, equal: BTreeMap::new(), different: Vec::new() })
    }

    /// Compares the answers to a question; ours.
    async fn compare<Q, A>(&mut self, method: &str, asked: Q, normal: fn(&mut A)) -> Vec<A>
    where
        Q: Clone + Debug + Send + Sync + 'static,
        A: Clone + Debug + PartialEq + Send + Sync + 'static,
        ProstCodec<Q, A>: Codec<Encode = Q, Decode = A> + Default,
    {
        let is_list =
            ["List", "GetChannelEntries", "GetLatest"].iter().any(|prefix| method.starts_with(prefix));
        let sorted = |answer: Result<Vec<A>, (String, String)>| {
            answer.map(|mut messages| {
                messages.iter_mut().for_each(normal);
                messages.sort_by_cached_key(|message| format!("{message:?}"));
                messages
            })
        };
        let ours = sorted(self.ours.ask(method, asked.clone(), is_list).await);
        let mut theirs = sorted(self.theirs.ask(method, asked.clone(), is_list).await);
        for _ in 1..ATTEMPTS {
            if ours == theirs {
                break;
            }
            theirs = sorted(self.theirs.ask(method, asked.clone(), is_list).await);
        }
        if ours == theirs {
            *self.equal.entry(method.to_owned()).or_default() += 1;
        } else {
            self.different.push(first_difference(method, &format!("{asked:?}"), &ours, &theirs));
        }
        ours.unwrap_or_default()
    }
}

/// Where two answers differ, not their whole texts, which may be long.
fn first_difference(method: &str, asked: &str, ours: &impl Debug, theirs: &impl Debug) -> String {
    let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
    let common = ours.chars().zip(theirs.chars()).take_while(|(one, other)| one == other).count();
    let around = |text: &str| text.chars().skip(common.saturating_sub(80)).take(200).collect::<String>();
    format!("{method} {asked}: ours …{}, opm's …{}", around(&ours), around(&theirs))
}

/// The path of `opm`, built if it is not there (five minutes, once). Blocks.
fn opm() -> Result<PathBuf> {
    let (link_flags, tags) = ("-s -w".to_owned(), "containers_image_openpgp exclude_graphdriver_btrfs");
    let module = GoModule { folder: "kit/opm", programs: &["opm"], renamed: &[], link_flags, tags };
    Ok(module.built()?.join("opm"))
}

fn nothing<A>(_: &mut A) {}

fn normal_package(package: &mut api::Package) {
    package.channels.sort_by(|one, other| one.name.cmp(&other.name));
}

fn normal_bundle(bundle: &mut api::Bundle) {
    let by_text = |one: &api::GroupVersionKind| format!("{one:?}");
    bundle.provided_apis.sort_by_cached_key(by_text);
    bundle.required_apis.sort_by_cached_key(by_text);
    bundle.dependencies.sort_by_cached_key(|one| format!("{one:?}"));
    bundle.properties.sort_by_cached_key(|one| format!("{one:?}"));
}

async fn compare_all(pair: &mut Pair) {
    let names = pair.compare("ListPackages", api::ListPackageRequest {}, nothing::<api::PackageName>).await;
    for name in names.into_iter().map(|one| one.name).chain(["absent".to_owned()]) {
        let asked = api::GetPackageRequest { name: name.clone() };
        let packages = pair.compare("GetPackage", asked, normal_package).await;
        let channels = packages.into_iter().flat_map(|package| package.channels).map(|channel| channel.name);
        for channel_name in channels.chain(["absent".to_owned()]) {
            let asked = api::GetBundleInChannelRequest { pkg_name: name.clone(), channel_name };
            pair.compare("GetBundleForChannel", asked, normal_bundle).await;
        }
    }
    let bundles = pair.compare("ListBundles", api::ListBundlesRequest {}, normal_bundle).await;
    let mut kinds = BTreeMap::new();
    for bundle in bundles.iter().step_by(bundles.len().div_ceil(BUNDLES).max(1)) {
        let (pkg_name, channel_name) = (bundle.package_name.clone(), bundle.channel_name.clone());
        let csv_name = bundle.csv_name.clone();
        let asked = api::GetBundleRequest {
            pkg_name: pkg_name.clone(),
            channel_name: channel_name.clone(),
            csv_name: csv_name.clone(),
        };
        pair.compare("GetBundle", asked, normal_bundle).await;
        let asked = api::GetReplacementRequest { csv_name: csv_name.clone(), pkg_name, channel_name };
        pair.compare("GetBundleThatReplaces", asked, normal_bundle).await;
        let asked = api::GetAllReplacementsRequest { csv_name };
        pair.compare("GetChannelEntriesThatReplace", asked, nothing::<api::ChannelEntry>).await;
        let provided = bundle.provided_apis.iter().map(|kind| (format!("{kind:?}"), kind.clone()));
        kinds.extend(provided);
    }
    for kind in kinds.into_values() {
        compare_providers(pair, kind).await;
    }
}

async fn compare_providers(pair: &mut Pair, asked: api::GroupVersionKind) {
    let api::GroupVersionKind { group, version, kind, plural } = asked;
    let all = api::GetAllProvidersRequest {
        group: group.clone(),
        version: version.clone(),
        kind: kind.clone(),
        plural: plural.clone(),
    };
    pair.compare("GetChannelEntriesThatProvide", all, nothing::<api::ChannelEntry>).await;
    let latest = api::GetLatestProvidersRequest {
        group: group.clone(),
        version: version.clone(),
        kind: kind.clone(),
        plural: plural.clone(),
    };
    pair.compare("GetLatestChannelEntriesThatProvide", latest, nothing::<api::ChannelEntry>).await;
    let default = api::GetDefaultProviderRequest { group, version, kind, plural };
    pair.compare("GetDefaultBundleThatProvides", default, normal_bundle).await;
}

/// A real catalog: a folder, or one file of JSON lines, packed.
fn catalogs(data: &Path) -> Result<Vec<(String, PathBuf)>> {
    let listed: BTreeMap<String, Value> = serde_json::from_slice(&fs::read(data.join("catalogs.json"))?)?;
    let path = |catalog: &Value| catalog["path"].as_str().map(|path| data.join(path)).context("no path");
    listed.into_iter().map(|(name, catalog)| Ok((name, path(&catalog)?))).collect()
}

/// What of a packed catalog both serve, as a folder: opm serves nothing of a catalog with a single package that it finds
/// invalid, and ours leaves that package out.
async fn unpacked(packed: &Path, folder: &Path) -> Result<PathBuf> {
    let (whole, valid) = (folder.join("whole"), folder.join("valid"));
    fs::create_dir_all(&whole)?;
    fs::create_dir_all(&valid)?;
    let content = whole.join("catalog.json");
    std::io::copy(&mut zstd::Decoder::new(fs::File::open(packed)?)?, &mut fs::File::create(&content)?)?;
    let [port] = free_ports()?;
    let ours = Server::ours(&whole, port, folder).await?;
    let names = ours.ask::<_, api::PackageName>("ListPackages", api::ListPackageRequest {}, true).await;
    let names: Vec<String> =
        names.map_err(|error| anyhow::anyhow!("{error:?}"))?.into_iter().map(|n| n.name).collect();
    let step = if long::is_asked() { 1 } else { PACKAGES_STEP };
    let kept: BTreeSet<&str> = names.iter().step_by(step).map(String::as_str).collect();
    report(&format!("{} of {} valid packages of {}", kept.len(), names.len(), packed.display()));
    let mut written = BufWriter::new(fs::File::create(valid.join("catalog.json"))?);
    for line in BufReader::new(fs::File::open(&content)?).lines() {
        let line = line?;
        let Package { package, name } = serde_json::from_str(&line)?;
        if kept.contains(package.unwrap_or(name).as_ref()) {
            writeln!(written, "{line}")?;
        }
    }
    written.flush()?;
    Ok(valid)
}

/// Whose a document of a catalog is.
#[derive(Deserialize)]
struct Package<'a> {
    #[serde(borrow)]
    package: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Cow<'a, str>,
}

pub(crate) async fn check() -> Result<()> {
    let is_there = |data: &PathBuf| data.join("catalogs.json").is_file();
    let Some(data) = large("").ok().filter(is_there) else {
        report("skipped conformance::registry_answers: no catalogs.json of real catalogs (set OLM_DATA)");
        return Ok(());
    };
    let mut failures = Vec::new();
    for (name, mut catalog) in catalogs(&data)? {
        let folder = tempfile::tempdir()?;
        if catalog.is_file() {
            catalog = unpacked(&catalog, folder.path()).await?;
        }
        let mut pair = Pair::start(&catalog).await?;
        Box::pin(compare_all(&mut pair)).await;
        let equal: usize = pair.equal.values().sum();
        let methods: Vec<_> = pair.equal.iter().map(|(method, count)| format!("{method} {count}")).collect();
        report(&format!(
            "compatibility registry, {name}: {equal} answers equal opm's ({}), {} different",
            methods.join(", "),
            pair.different.len()
        ));
        ensure!(equal > 0, "nothing of {name} was compared");
        failures.extend(pair.different.into_iter().map(|different| format!("{name}: {different}")));
    }
    let count = failures.len();
    failures.truncate(SHOWN_MAX);
    ensure!(failures.is_empty(), "{count} answers differ:\n{}", failures.join("\n"));
    Ok(())
}
