//! Changes that stored objects decide about, against the API server's own verdict.
//!
//! Pairs of definitions are made, and objects of the first. Where the objects accept the change, the second definition is
//! put in place of the first, and every object must be read as before and be written at every served version.

use kube::api::GroupVersionKind;
use olm_crd::{Policy, compare};
use olm_preflight::stored_objects::{Decision, ReadLimits, decide};
use olm_test::{bundle::crd_with_versions, long, objects::Objects, prelude::*};

use crate::schemas::{edit, random_schema};

/// Pairs of a sample, and of a long run.
const PAIRS: [usize; 2] = [60, 2_000];
/// Definitions that change at the same time.
const WORKERS: usize = 4;
/// Objects of a pair, at most.
const OBJECTS_MAX: usize = 4;
const ACCEPTED: &str = "accepted";
/// Changes that are refused and break an object, and those that break none.
const REFUSED: &str = "refused";
const IN_DOUBT: &str = "refused in doubt";
/// Changes that the API server does not take.
const IMPOSSIBLE: &str = "impossible";

/// How often what was seen.
type Counts = BTreeMap<&'static str, usize>;

// No change that stored objects accept breaks one of them.
#[tokio::test(flavor = "multi_thread")]
async fn no_change_that_objects_accept_breaks_one() -> Result<()> {
    let pairs = PAIRS[usize::from(long::is_asked())];
    // A cluster of its own: every change of a definition makes the server describe itself anew.
    let cluster = Cluster::start(Options { nodes: 1, ..Options::default() }).await?;
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let client = cluster.client().await?;
        workers.push(Worker::new(client, worker).run(pairs / WORKERS));
    }
    let mut all = Counts::default();
    for counts in futures::future::try_join_all(workers).await? {
        for (what, count) in counts {
            *all.entry(what).or_default() += count;
        }
    }
    let count = |what| all.get(what).copied().unwrap_or_default();
    println!("by objects: {pairs} pairs: {all:?}");
    assert!(count(ACCEPTED) > pairs / 20 && count(REFUSED) > pairs / 20, "too few of a kind: {all:?}");
    assert!(count(IN_DOUBT) <= count(REFUSED), "too much is refused without need: {all:?}");
    Ok(())
}

struct Worker {
    client: Client,
    group: String,
    rng: fastrand::Rng,
    objects: Objects,
    /// The number of definitions that were put in place.
    placed: usize,
}

impl Worker {
    fn new(client: Client, worker: usize) -> Self {
        let seed = u64::try_from(worker).unwrap_or_default();
        Self {
            client,
            group: format!("{}.example.com", unique_name("decided")),
            rng: fastrand::Rng::with_seed(seed),
            objects: Objects::new(seed),
            placed: 0,
        }
    }

    async fn run(mut self, pairs: usize) -> Result<Counts> {
        let mut counts = Counts::default();
        for _ in 0..pairs {
            let [old, new] = self.pair();
            self.decide(&old, &new, &mut counts)
                .await
                .with_context(|| format!("{old:?} and then {new:?}"))?;
        }
        Ok(counts)
    }

    /// Schemas of `spec` for each version, before and after.
    fn pair(&mut self) -> [Vec<Value>; 2] {
        let rng = &mut self.rng;
        let mut old = json!({"type": "object", "properties": {
            "f": random_schema(rng, 2), "g": random_schema(rng, 1),
            "d": {"type": "integer"}, "n": {"type": "string", "nullable": true},
            "p": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "s": {"type": "string", "maxLength": 20},
        }});
        if rng.bool() {
            old["properties"]["d"]["default"] = rng.u8(..3).into();
        }
        let mut new = old.clone();
        for _ in 0..rng.u8(1..3) {
            change(rng, &mut new);
        }
        match rng.u8(..4) {
            // Two served versions that stay alike.
            0 => [vec![old.clone(), old], vec![new.clone(), new]],
            // Only one of them changes.
            1 if rng.bool() => [vec![old.clone(), old.clone()], vec![new, old]],
            _ => [vec![old], vec![new]],
        }
    }

    async fn decide(&mut self, old: &[Value], new: &[Value], counts: &mut Counts) -> Result<()> {
        if !self.place(old).await? {
            *counts.entry(IMPOSSIBLE).or_default() += 1;
            return Ok(());
        }
        let versions = versions(old.len().min(new.len()));
        let mut names = Vec::new();
        for number in 0..self.rng.usize(..=OBJECTS_MAX) {
            let (name, version) = (format!("one-{number}"), self.rng.usize(..old.len()));
            let spec = self.objects.value(&old[version], 0);
            let object = json!({"spec": spec});
            let api = self.api(&versions[version.min(versions.len() - 1)]);
            match api.0.create(&PostParams::default(), &DynamicObject::new(&name, &api.1).data(object)).await
            {
                Ok(_) => names.push(name),
                Err(kube::Error::Api(status)) if status.code == 422 => {}
                Err(error) => return Err(error.into()),
            }
        }
        *counts.entry("objects").or_default() += names.len();
        let live: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let live = serde_json::to_value(live.get(&self.name()).await?)?;
        // The mark of what is in force is no part of the change.
        let mut wanted = self.definition(new, self.placed);
        wanted["status"] = Value::Null;
        let report = compare(&live, &wanted, Policy::Ours)?;
        if report.is_refused() {
            let change = (&live, &wanted, &report);
            let decision = decide(&self.client, "you", change, &mut ReadLimits::full()).await;
            self.compare(decision, (new, &versions, &names), counts).await?;
        } else {
            *counts.entry("safe").or_default() += 1;
        }
        for name in &names {
            self.api(&versions[0]).0.delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    async fn compare(
        &mut self,
        decision: Decision,
        (new, versions, names): (&[Value], &[String], &[String]),
        counts: &mut Counts,
    ) -> Result<()> {
        if matches!(decision, Decision::Inapplicable(_)) {
            *counts.entry("inapplicable").or_default() += 1;
            return Ok(());
        }
        let mut before = Vec::new();
        for version in versions {
            for name in names {
                before.push((version, name, self.api(version).0.get(name).await?.data));
            }
        }
        if !self.place(new).await? {
            *counts.entry(IMPOSSIBLE).or_default() += 1;
            return Ok(());
        }
        let mut broken = Vec::new();
        for (version, name, data) in before {
            if let Some(how) = self.broken(version, name, &data).await? {
                broken.push(format!("{name} at {version}: {how}: {data}"));
            }
        }
        match (decision, broken.is_empty()) {
            (Decision::Unaffected(seen), true) => {
                ensure!(seen == names.len(), "{seen} objects were seen of {names:?}");
                *counts.entry(ACCEPTED).or_default() += 1;
                *counts.entry("accepted without objects").or_default() += usize::from(seen == 0);
            }
            (Decision::Unaffected(_), false) => bail!("an accepted change breaks {broken:?}"),
            (_, true) => *counts.entry(IN_DOUBT).or_default() += 1,
            (_, false) => *counts.entry(REFUSED).or_default() += 1,
        }
        Ok(())
    }

    /// What is no longer possible with an object: it has to be read as before, and to be created and changed.
    async fn broken(&self, version: &str, name: &str, data: &Value) -> Result<Option<String>> {
        let (api, resource) = self.api(version);
        let read = api.get(name).await?;
        if read.data != *data {
            return Ok(Some(format!("is read as {}", read.data)));
        }
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let copy = DynamicObject::new("copy", &resource).data(data.clone());
        let mut changed = read;
        changed.annotations_mut().insert("example.com/changed".to_owned(), version.to_owned());
        for written in [api.create(&dry, &copy).await, api.replace(name, &dry, &changed).await] {
            match written {
                Ok(written) if written.data == *data => {}
                Ok(written) => return Ok(Some(format!("is written as {}", written.data))),
                Err(kube::Error::Api(status)) if status.code == 422 => return Ok(Some(status.message)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    fn name(&self) -> String {
        format!("pairs.{}", self.group)
    }

    fn api(&self, version: &str) -> (Api<DynamicObject>, ApiResource) {
        let gvk = GroupVersionKind::gvk(&self.group, version, "Pair");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "pairs");
        (Api::all_with(self.client.clone(), &resource), resource)
    }

    /// The definition with a mark that shows whether it is in force.
    fn definition(&self, schemas: &[Value], mark: usize) -> Value {
        let marked = json!({"type": "string", "enum": [format!("m{mark}")]});
        let schema =
            |schema: &Value| json!({"type": "object", "properties": {"spec": schema, "mark": marked}});
        let names = versions(schemas.len());
        let versions: Vec<_> = names.iter().map(String::as_str).zip(schemas.iter().map(schema)).collect();
        let mut definition = crd_with_versions(&self.group, "Pair", &versions);
        definition["spec"]["scope"] = "Cluster".into();
        definition
    }

    /// Puts a definition in force at all of its versions; whether the API server takes it.
    async fn place(&mut self, schemas: &[Value]) -> Result<bool> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let mark = self.placed + 1;
        let definition = self.definition(schemas, mark);
        let params = PatchParams::apply("test").force();
        match api.patch(&self.name(), &params, &Patch::Apply(&definition)).await {
            Ok(_) => self.placed = mark,
            Err(kube::Error::Api(status)) if status.code == 422 => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        for version in versions(schemas.len()) {
            let (api, resource) = self.api(&version);
            let marked = DynamicObject::new("marked", &resource).data(json!({"mark": format!("m{mark}")}));
            let dry = PostParams { dry_run: true, ..PostParams::default() };
            wait::until("the definition to be in force", DEADLINE, || async {
                api.create(&dry, &marked).await?;
                Ok(())
            })
            .await?;
        }
        Ok(true)
    }
}

fn versions(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("v{number}")).collect()
}

/// Changes a schema in a way that may endanger objects.
fn change(rng: &mut fastrand::Rng, schema: &mut Value) {
    let all = ["d", "f", "g", "n", "p", "s"];
    let kind = rng.u8(..10);
    if kind == 6 {
        schema["required"] = json!([all[rng.usize(..all.len())]]);
        return;
    }
    let Some(properties) = schema["properties"].as_object_mut() else { return };
    match kind {
        5 => drop(properties.remove(all[rng.usize(..all.len())])),
        7 => drop(properties.insert("g".to_owned(), random_schema(rng, 1))),
        3 => {
            let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}});
            properties.insert("p".to_owned(), closed);
        }
        _ => {
            let name = ["d", "d", "n", "p", "s"].get(usize::from(kind)).unwrap_or(&"f");
            let Some(property) = properties.get_mut(*name) else { return };
            match kind {
                0 => property["default"] = rng.u8(..3).into(),
                1 => drop(property.as_object_mut().map(|d| d.remove("default"))),
                2 => drop(property.as_object_mut().map(|n| n.remove("nullable"))),
                4 => {
                    let rule = ["self.size() < 4", "self.startsWith('a')", "self != 'abc'"][rng.usize(..3)];
                    property["x-kubernetes-validations"] = json!([{"rule": rule}]);
                }
                _ => edit(rng, property),
            }
        }
    }
}
