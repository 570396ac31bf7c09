//! What one scenario knows: its name, what it has offered in catalogs, what it has made and must remove again.

use cucumber::event::ScenarioFinished;
use olm_test::{faults::ConnectProxy, prelude::*};

use crate::{bundles::Bundle, kinds, match_parts, place::Place};

/// For anything that should happen by itself. Generous: two cores run a whole control plane.
pub(crate) const DEADLINE: Duration = Duration::from_mins(2);
/// For what the cluster's garbage collector does: it learns of new kinds every 30 s only, and goes slower after
/// a miss.
pub(crate) const COLLECTED: Duration = Duration::from_mins(6);
/// The account that installs.
pub(crate) const ACCOUNT: &str = "installer";
const FIELD_MANAGER: &str = "olm-test";

/// A scenario's world.
#[derive(cucumber::World)]
#[world(init = Self::new)]
pub(crate) struct World {
    pub(crate) place: &'static Place,
    pub(crate) client: Client,
    /// Its namespace, package and extension, and the beginning of all other names.
    pub(crate) id: String,
    /// Everything catalogs offer, for the rights of the account.
    pub(crate) offered: Vec<Bundle>,
    /// A verb and a resource that the account gets no right to.
    pub(crate) withheld: Option<(String, String)>,
    /// Values kept from one step for another.
    pub(crate) kept: BTreeMap<String, Value>,
    /// A proxy for HTTPS.
    pub(crate) proxy: Option<ConnectProxy>,
    /// The sample operator where Pods are played, and its files.
    pub(crate) sample: Option<(Process, StateDirectory)>,
    /// Whether the programs are to be put back.
    pub(crate) reconfigured: bool,
    /// Objects without a namespace that it made, in order.
    made: Vec<(String, String)>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("id", &self.id).field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl World {
    async fn new() -> Result<Self> {
        let place = Place::shared().await?;
        let world = Self {
            place,
            client: place.client.clone(),
            id: unique_name("s"),
            offered: Vec::new(),
            withheld: None,
            kept: BTreeMap::new(),
            proxy: None,
            sample: None,
            reconfigured: false,
            made: vec![],
        };
        Ok(world)
    }

    /// A text of a scenario with its names put in.
    pub(crate) fn text(&self, text: &str) -> String {
        let facts = self.place.facts();
        text.trim()
            .replace("${ID}", &self.id)
            .replace("${SYSTEM}", &facts.system_namespace)
            .replace("${OPERATOR_IMAGE}", &self.place.facts().operator_image)
    }

    /// The one document of a step's text.
    pub(crate) fn yaml(&self, step: &cucumber::gherkin::Step) -> Result<Value> {
        let text = step.docstring.as_deref().context("the step has no text below it")?;
        Ok(olm_yaml::one(&self.text(text))?)
    }

    pub(crate) fn api(&self, kind: &str) -> Result<Api<DynamicObject>> {
        self.api_in(&self.client, kind, &self.id)
    }

    pub(crate) fn api_in(&self, client: &Client, kind: &str, namespace: &str) -> Result<Api<DynamicObject>> {
        let (resource, namespaced) = kinds::of_kind(&self.text(kind))?;
        Ok(if namespaced {
            Api::namespaced_with(client.clone(), namespace, &resource)
        } else {
            Api::all_with(client.clone(), &resource)
        })
    }

    /// An object as it is now.
    pub(crate) async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        let found = self.api(kind)?.get_opt(&self.text(name)).await?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    pub(crate) async fn get_there(&self, kind: &str, name: &str) -> Result<Value> {
        self.get(kind, name).await?.with_context(|| format!("there is no {kind} {}", self.text(name)))
    }

    /// Creates an object whose kind is one of [`kinds`].
    pub(crate) async fn create(&mut self, object: &Value) -> Result<()> {
        let kind = object["kind"].as_str().context("an object without kind")?.to_owned();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(&self.id).to_owned();
        let api = self.api_in(&self.client, &Self::known(object, &kind), &namespace)?;
        let created = api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await;
        let created = created.with_context(|| format!("creating {object}"))?;
        self.remember(&kind, &created.name_any());
        Ok(())
    }

    /// Creates or changes an object.
    pub(crate) async fn apply(&mut self, object: &Value) -> Result<()> {
        let kind = object["kind"].as_str().context("an object without kind")?.to_owned();
        let name = object["metadata"]["name"].as_str().context("an object without name")?.to_owned();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(&self.id).to_owned();
        let api = self.api_in(&self.client, &Self::known(object, &kind), &namespace)?;
        let params = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(&name, &params, &Patch::Apply(object))
            .await
            .with_context(|| format!("applying {kind} {name}"))?;
        self.remember(&kind, &name);
        Ok(())
    }

    /// The name of an object's kind: with group and version if it is of the scenario's own.
    fn known(object: &Value, kind: &str) -> String {
        if kinds::of_kind(kind).is_ok() {
            return kind.to_owned();
        }
        let (group, version) =
            object["apiVersion"].as_str().and_then(|text| text.split_once('/')).unwrap_or_default();
        format!("{kind}.{version}.{group}")
    }

    /// Notes that somebody else has made the object of this kind that has the scenario's name.
    pub(crate) fn made(&mut self, kind: &str) {
        let name = self.id.clone();
        self.remember(kind, &name);
    }

    fn remember(&mut self, kind: &str, name: &str) {
        let made = (kind.to_owned(), name.to_owned());
        if kinds::of_kind(kind).is_ok_and(|(_, namespaced)| !namespaced) && !self.made.contains(&made) {
            self.made.push(made);
        }
    }

    /// Changes some fields of an object.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<()> {
        let name = self.text(name);
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.api(kind)?
            .patch(&name, &params, &Patch::Merge(patch))
            .await
            .with_context(|| format!("changing {kind} {name}"))?;
        Ok(())
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        self.api(kind)?.delete(&self.text(name), &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until an object is gone.
    pub(crate) async fn gone(&self, kind: &str, name: &str, deadline: Duration) -> Result<()> {
        wait::until(&format!("{kind} {name} to be gone"), deadline, async || {
            let found = self.get(kind, name).await?;
            wait::check(found.is_none(), || format!("it is there: {}", found.unwrap_or_default()["metadata"]))
        })
        .await
    }

    /// Waits until an object is as `look` wants it, while the programs run.
    pub(crate) async fn until(
        &self,
        what: &str,
        kind: &str,
        name: &str,
        look: impl Fn(&Value) -> Result<()>,
    ) -> Result<()> {
        wait::until(&format!("{kind} {} {what}", self.text(name)), DEADLINE, async || {
            self.place.check_running()?;
            look(&self.get_there(kind, name).await?)
        })
        .await
    }

    /// Waits until an object has these parts.
    pub(crate) async fn includes(&self, kind: &str, name: &str, parts: &Value) -> Result<()> {
        self.until("to have what is written", kind, name, |object| {
            match_parts::missing(parts, object).map_or(Ok(()), |missing| Err(anyhow::anyhow!(missing)))
        })
        .await
    }

    /// Objects of a kind that carry the extension's owner label.
    pub(crate) async fn owned(&self, kind: &str) -> Result<Vec<String>> {
        let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", self.id));
        let list = self.api(kind)?.list_metadata(&mine).await?;
        Ok(list.items.iter().map(|item| format!("{kind} {}", item.name_any())).collect())
    }

    /// Removes everything, extensions first: their accounts are needed until they are gone.
    async fn remove_all(&self) -> Result<()> {
        for kind in ["ClusterExtension", "ClusterObjectSet"] {
            for (_, name) in self.made.iter().filter(|(made, _)| made == kind) {
                self.api(kind)?.delete(name, &DeleteParams::default()).await.map(drop).or_else(absent)?;
            }
            for (_, name) in self.made.iter().filter(|(made, _)| made == kind) {
                self.gone(kind, name, COLLECTED).await?;
            }
        }
        for (kind, name) in self.made.iter().rev() {
            self.api(kind)?.delete(name, &DeleteParams::default()).await.map(drop).or_else(absent)?;
        }
        Ok(())
    }
}

fn absent(error: kube::Error) -> Result<()> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        error => Err(error.into()),
    }
}

/// After a scenario: the programs as before, and what it made removed. That this is possible is part of every scenario
/// that passed.
pub(crate) async fn clean_up(finished: &ScenarioFinished, world: Option<&mut World>) {
    let Some(world) = world else { return };
    if std::mem::take(&mut world.reconfigured) {
        world.place.restore().await.expect("the programs run again as before");
    }
    let removed = world.remove_all().await;
    if matches!(finished, ScenarioFinished::StepPassed) {
        ensure_removed(removed);
    }
}

fn ensure_removed(removed: Result<()>) {
    if let Err(error) = removed {
        panic!("what the scenario made cannot be removed: {error:#}");
    }
}

/// The namespace and the account of a scenario.
pub(crate) async fn at_home(world: &mut World) -> Result<()> {
    if world.get("Namespace", "${ID}").await?.is_some() {
        return Ok(());
    }
    let id = world.id.clone();
    world
        .create(&serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": id}}))
        .await?;
    olm_test::permissions::create_account(&world.client, &id, ACCOUNT).await?;
    ensure!(world.get("ServiceAccount", ACCOUNT).await?.is_some(), "no account");
    Ok(())
}
