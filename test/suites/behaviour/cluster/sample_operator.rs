//! The sample operator as a process, with just the rights of its bundle, called by the API server.

use olm_bundle::{Bundle, MEMORY_BYTES_MAX};
use olm_render::{Options, render};
use olm_test::{
    images::bundle_files,
    pki::Authority,
    prelude::*,
    process::free_ports,
    sample_operator::{PROGRAM, SampleOperator},
    supervisor::Program,
};

const DEADLINE: Duration = Duration::from_secs(90);

/// What would run it in a Pod, and what would make its certificate.
const ELSEWHERE: [&str; 4] = ["Deployment", "Service", "Issuer", "Certificate"];

/// The operator outside of the cluster.
struct Running {
    cluster: &'static Cluster,
    sample: SampleOperator,
    /// Its namespace.
    name: String,
    directory: StateDirectory,
    webhook_port: u16,
    ca: String,
    process: Option<Process>,
}

impl Running {
    async fn new() -> Result<Self> {
        let cluster = Cluster::shared().await?;
        let name = unique_name("sampled");
        cluster.create_namespace(&name).await?;
        let directory = StateDirectory::new("sample-operator")?;
        let authority = Authority::new("sample-operator")?;
        let shown = authority.server("sample-operator", &["127.0.0.1"])?;
        fs::write(directory.path().join("tls.crt"), shown.certificate)?;
        fs::write(directory.path().join("tls.key"), shown.key)?;
        let [webhook_port] = free_ports()?;
        let sample = SampleOperator::new(&name, "example.com/never-pulled:v1");
        let ca = authority.identity().certificate;
        Ok(Self { cluster, sample, name, directory, webhook_port, ca, process: None })
    }

    /// Applies what the bundle renders to, except what makes no sense here, and starts the program as its account.
    async fn start(&mut self, version: &str) -> Result<()> {
        let folder = tempfile::tempdir()?;
        self.sample.bundle(version).write(folder.path())?;
        let bundle = Bundle::read(&bundle_files(folder.path())?, MEMORY_BYTES_MAX)?;
        let rendered = render(bundle, &Options::new(&self.name))?;
        let objects: Vec<Value> = rendered
            .objects
            .into_iter()
            .filter(|object| !ELSEWHERE.iter().any(|kind| object["kind"] == *kind))
            .map(|object| self.with_own_address(object))
            .collect();
        let file = folder.path().join("objects.json");
        fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string())?;
        kubectl(self.cluster, &["apply", "--server-side", "-f", &file.display().to_string()])?;

        drop(self.process.take());
        let account = format!("system:serviceaccount:{}:{}", self.name, self.sample.package);
        let kubeconfig = self.cluster.kubeconfig_for(&account, &["system:serviceaccounts"])?;
        let [health_port] = free_ports()?;
        let program = Program {
            program: cargo_program(PROGRAM, PROGRAM)?,
            args: vec![
                format!("--operator-version={version}"),
                format!("--group={}", self.sample.group),
                format!("--kubeconfig={}", kubeconfig.display()),
                format!("--certificates={}", self.directory.path().display()),
                format!("--webhook-bind-address=127.0.0.1:{}", self.webhook_port),
                format!("--health-probe-bind-address=127.0.0.1:{health_port}"),
            ],
            env: [].into(),
            env_remove: vec!["KUBECONFIG".to_owned(), "RUST_LOG".to_owned()],
            log: self.directory.path().join("log"),
        };
        let process = Process::start(PROGRAM, program)?;
        wait::until("the sample operator to be ready", DEADLINE, || async {
            process.check_running()?;
            let answer = reqwest::get(format!("http://127.0.0.1:{health_port}/readyz")).await?;
            ensure!(answer.status().is_success(), "{}\n{}", answer.text().await?, process.log_tail());
            Ok(())
        })
        .await?;
        self.process = Some(process);
        Ok(())
    }

    /// Webhooks that lead to the process instead of a Service.
    fn with_own_address(&self, mut object: Value) -> Value {
        let url = |path: &Value| {
            let path = path.as_str().unwrap_or("/");
            let url = format!("https://127.0.0.1:{}{path}", self.webhook_port);
            let ca = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &self.ca);
            json!({"url": url, "caBundle": ca})
        };
        for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
            webhook["clientConfig"] = url(&webhook["clientConfig"]["service"]["path"]);
        }
        if let Some(config) = object.pointer_mut("/spec/conversion/webhook/clientConfig") {
            *config = url(&config["service"]["path"]);
        }
        object
    }

    async fn samples(&self, version: &str) -> Result<Api<DynamicObject>> {
        let client = self.cluster.client().await?;
        Ok(Api::namespaced_with(client, &self.name, &self.sample.resource(version)))
    }

    async fn says_its_version(&self, version: &str) -> Result<()> {
        let (samples, maps) = (
            self.samples("v1").await?,
            Api::<ConfigMap>::namespaced(self.cluster.client().await?, &self.name),
        );
        wait::until(&format!("version {version} to have worked"), DEADLINE, || async {
            let log = || self.process.as_ref().map(Process::log_tail).unwrap_or_default();
            let found = samples.get("first").await?.data;
            wait::check(found["status"]["operatorVersion"] == version, || format!("{found}\n{}", log()))?;
            let map = maps.get("first").await?;
            let told = map.data.unwrap_or_default();
            wait::check(told.get("operator-version").is_some_and(|told| told == version), || {
                format!("{told:?}")
            })
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_operator_converts_defaults_refuses_and_works() -> Result<()> {
    let mut running = Running::new().await?;
    running.start("1.0.0").await?;
    let (v1, v2) = (running.samples("v1").await?, running.samples("v2").await?);
    let first: DynamicObject = serde_json::from_value(running.sample.object_v1("first", "hello", None))?;
    // The API server learns of webhook configurations a moment after they are written.
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("the webhooks to be called", DEADLINE, || async {
        let would_be = v1.create(&dry_run, &first).await?.data;
        wait::check(would_be["spec"]["copies"] == 1, || would_be.to_string())
    })
    .await?;
    let created = v1.make(&first).await?;
    assert_eq!(created.data["spec"], json!({"message": "hello", "copies": 1}), "the number is filled in");
    let converted = v2.get("first").await?;
    assert_eq!(converted.data["spec"], json!({"content": {"text": "hello"}, "copies": 1}));

    let second: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{}/v2", running.sample.group), "kind": "Sample", "metadata": {"name": "second"},
        "spec": {"content": {"text": "there"}, "copies": 11},
    }))?;
    let refused = v2.create(&PostParams::default(), &second).await.unwrap_err().to_string();
    assert!(
        refused.contains("denied the request: spec.copies is 11: a Sample has 1 to 10 copies"),
        "{refused}"
    );
    let mut second = second;
    second.data["spec"]["copies"] = json!(3);
    v2.make(&second).await?;
    assert_eq!(v1.get("second").await?.data["spec"], json!({"message": "there", "copies": 3}));

    running.says_its_version("1.0.0").await?;
    let maps: Api<ConfigMap> = Api::namespaced(running.cluster.client().await?, &running.name);
    let map = wait::until("the second ConfigMap", DEADLINE, async || Ok(maps.get("second").await?)).await?;
    let data = map.data.unwrap_or_default();
    assert_eq!(data.get("copy-3").map(String::as_str), Some("there"), "{data:?}");
    let owner =
        map.metadata.owner_references.and_then(|owners| owners.first().cloned()).context("no owner")?;
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Sample", "second"));

    // An upgrade, and what remains of the version before is written anew.
    running.start("1.1.0").await?;
    running.says_its_version("1.1.0").await?;
    running.start("1.0.0").await?;
    running.says_its_version("1.0.0").await?;
    // The last word of another version that still ran for a moment, and a ConfigMap that somebody deletes.
    let last_word = json!({"data": {"operator-version": "1.1.0"}});
    maps.merge("first", &last_word).await?;
    running.says_its_version("1.0.0").await?;
    maps.remove("first").await?;
    running.says_its_version("1.0.0").await
}
