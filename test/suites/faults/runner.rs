//! Where an extension runs through install, upgrade, rollback and delete, or is deleted under a policy that keeps
//! its CRDs and comes back, with or without fault done to it.

use std::{cell::RefCell, sync::atomic::AtomicBool};

use olm_api::{
    names::{DELETION_POLICY_ANNOTATION, PLAN_DIGEST_ANNOTATION, ROLLBACK_TO_ANNOTATION},
    v1alpha1::UpdatePolicy,
};
use olm_objectset::DeletionPolicy;
use olm_test::{
    extension::allow_deadline,
    instance::Instance,
    prelude::*,
    proxy::{Blow, Proxy},
};

use crate::{
    bystanders,
    extension::retains,
    history::History,
    lives::{Fault, Life, Lives, STILL, State},
    snapshot::{Snapshot, settled},
    user_objects::{Identity, UserObjects},
    world::{COLLECTED, PACKAGE, Sample, everything, restart},
};

/// Longer than every fixed wait of the program after which it looks again by itself.
const IDLE: Duration = Duration::from_secs(65);
/// Longer than those that follow an event.
const IDLE_OF_A_SAMPLE: Duration = Duration::from_secs(16);

/// What is asked for in a run, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Install,
    Upgrade,
    /// An upgrade that misses its deadline at once: the first revision takes its place, as an update policy says.
    Fail,
    /// Back to the first revision, by annotation.
    Rollback,
    /// The policy that leaves CRDs on deletion, after a user made use of the CRD.
    Retain,
    /// Deleted under that policy.
    Keep,
    /// Created again, without the policy, where the CRD was kept.
    Return,
    Delete,
}

/// What is shown: the steps of a run.
pub(crate) type Steps = &'static [Step];
pub(crate) const WHOLE: Steps = &[Step::Install, Step::Upgrade, Step::Rollback, Step::Delete];
pub(crate) const FAILING: Steps = &[Step::Install, Step::Fail, Step::Delete];
pub(crate) const KEEPING: Steps = &[Step::Install, Step::Retain, Step::Keep, Step::Return, Step::Delete];

/// A policy under which what fails is replaced, and deadlines as short as no cluster has them.
async fn replace_what_fails(client: &Client, name: &str) -> Result<()> {
    let policy = json!({
        "apiVersion": "extensions.olm.operatorframework.io/v1alpha1", "kind": "UpdatePolicy",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"fails": name}}, "onFailure": "Return"},
    });
    Api::<UpdatePolicy>::all(client.clone()).make(policy).await?;
    allow_deadline(client, 0).await?;
    let extension = Extension::new(client, name);
    let mut short = extension.object(PACKAGE, &json!({}));
    short["spec"]["progressDeadlineMinutes"] = 0.into();
    let short: ClusterExtension = serde_json::from_value(short)?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("the short deadline to be accepted", DEADLINE, async || {
        extension.api.create(&dry_run, &short).await.map(drop).map_err(Into::into)
    })
    .await
}

/// Where runs take place: a cluster with bystanders.
pub(crate) struct Runner<'a> {
    world: &'a World,
    steps: Steps,
    struck_from: Step,
    client: Client,
    extension: Extension,
    user_objects: UserObjects,
    /// What the user of this run has.
    used: RefCell<Option<Identity>>,
    before: Snapshot,
    _sample: Sample,
}

impl<'a> Runner<'a> {
    /// With bystanders, a catalog, and one undisturbed run to learn from. Writes are struck from a step on.
    pub(crate) async fn build(
        world: &'a World,
        name: &str,
        steps: Steps,
        struck_from: Step,
    ) -> Result<Lives<Self>> {
        let client = world.cluster.client().await?;
        let fails = steps.contains(&Step::Fail);
        let broken = fails.then_some("1.1.0");
        let sample = Sample::with_broken(world, name, &["1.0.0", "1.1.0"], broken).await?;
        if fails {
            replace_what_fails(&client, name).await?;
        }
        bystanders::create(&client, name).await?;
        Lives::of(Self {
            world,
            steps,
            struck_from,
            extension: Extension::new(&client, name),
            user_objects: UserObjects::of(&client, name),
            used: RefCell::default(),
            before: settled(&client).await?,
            client,
            _sample: sample,
        })
        .await
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::take(&self.client).await?.since(&self.before)
    }
}

/// A run that stops after the installation: nothing is written for longer than timers run, nor by a process that
/// starts anew.
pub(crate) async fn idle(lives: &Lives<Runner<'_>>) -> Result<()> {
    let (runner, proxy) = (&lives.place, lives.place.proxy());
    proxy.reset();
    lives.end(Step::Install, &Fault::None, &AtomicBool::new(false)).await?;
    let before = proxy.writes().len();
    let nothing_since = |what: &str| {
        let since: Vec<_> = proxy.writes().iter().skip(before).map(|write| write.name.to_string()).collect();
        wait::check(since.is_empty(), || format!("{what} wrote {since:?}"))
    };
    // That nothing comes can only be waited for.
    tokio::time::sleep(if everything() { IDLE } else { IDLE_OF_A_SAMPLE }).await;
    nothing_since("an installed extension at rest")?;
    let asked_before = proxy.requests().len();
    restart(runner.program(), proxy).await?;
    wait::until("a look at the extension", DEADLINE, async || {
        let requests = proxy.requests();
        let mut since = requests.iter().skip(asked_before);
        let asked = since.any(|asked| asked.contains("serviceaccounts/token"));
        wait::check(asked, || format!("{:?}", requests.last()))
    })
    .await?;
    proxy.quiet(STILL, DEADLINE).await?;
    nothing_since("a start with an installed extension")?;
    runner.clear().await
}

impl Life for Runner<'_> {
    type Stage = Step;

    const BLOWS: &'static [Blow] = &[Blow::Before, Blow::After, Blow::Stale, Blow::Unobserved];
    const SAMPLE: usize = 4;
    const ALL_FALL: bool = true;

    fn stages(&self) -> Steps {
        self.steps
    }

    fn struck_from(&self) -> Step {
        self.struck_from
    }

    fn cluster(&self) -> &Cluster {
        &self.world.cluster
    }

    fn proxy(&self) -> &Proxy {
        self.world.proxy()
    }

    fn program(&self) -> &Instance {
        &self.world.operator
    }

    async fn ask(&self, step: Step) -> Result<()> {
        let extension = &self.extension;
        let annotate = async |annotation: &str, value: &str| {
            extension.patch(&json!({"metadata": {"annotations": {annotation: value}}})).await
        };
        match step {
            Step::Install | Step::Return => {
                let mut object = extension.object(PACKAGE, &json!({"version": "1.0.0"}));
                if self.steps.contains(&Step::Fail) {
                    object["metadata"]["labels"] = json!({"fails": extension.name});
                    object["spec"]["progressDeadlineMinutes"] = 0.into();
                }
                extension.create(object).await
            }
            Step::Upgrade | Step::Fail => extension.set_version("1.1.0").await,
            Step::Rollback => annotate(ROLLBACK_TO_ANNOTATION, "1").await,
            Step::Retain => {
                let used = self.user_objects.create().await?;
                self.used.replace(Some(used));
                annotate(DELETION_POLICY_ANNOTATION, DeletionPolicy::RetainCrds.as_str()).await
            }
            Step::Keep | Step::Delete => extension.delete().await,
        }
    }

    async fn is_over(&self, step: Step) -> Result<()> {
        let extension = &self.extension;
        match step {
            Step::Install | Step::Rollback | Step::Return => extension.is_installed("1.0.0").await,
            Step::Upgrade => extension.is_installed("1.1.0").await,
            Step::Fail => {
                extension.shows(ConditionType::Ready, "True/Succeeded/1.1.0 missed its deadline").await?;
                extension.is_installed("1.0.0").await?;
                // What never became available has not succeeded, whoever has its objects now.
                let sets: Api<ClusterObjectSet> = Api::all(self.client.clone());
                let failed = sets.get(&format!("{}-2", extension.name)).await?;
                let conditions = failed.status.unwrap_or_default().conditions;
                ensure!(!conditions.is_true(ConditionType::Succeeded), "{conditions:?}");
                Ok(())
            }
            Step::Retain => retains(extension, DeletionPolicy::RetainCrds.as_str()).await,
            Step::Keep | Step::Delete => extension.is_gone().await,
        }
    }

    async fn is_collected(&self, step: Step) -> Result<()> {
        let left = self.snapshot().await?.len();
        wait::check(step != Step::Delete || left == 0, || format!("{left} objects are left"))
    }

    fn rest_deadline(&self, step: Step) -> Duration {
        if matches!(step, Step::Keep | Step::Delete) { COLLECTED } else { DEADLINE }
    }

    async fn state(&self) -> Result<State> {
        Ok(self.snapshot().await?.normal())
    }

    fn counts(&self, step: Step, fault: &Fault<Step>, line: &str) -> bool {
        let without_api_server = matches!(fault, Fault::ApiServer { .. });
        // A plan says of what it could not read or try that it could not, and its digest covers that.
        let is_of_plan = (without_api_server || matches!(fault, Fault::Weather(_)))
            && line.contains(PLAN_DIGEST_ANNOTATION);
        // Other controllers do not know whether a request arrived whose answer was lost: the one of Deployments then
        // takes its own ReplicaSet for somebody else's and counts that.
        let is_of_lost = without_api_server && of_lost_replica_set(line);
        // Whether the controller of Deployments saw what failed before it was replaced.
        let is_of_failed = step == Step::Fail && line.contains("deployment.kubernetes.io/revision");
        !is_of_plan && !is_of_lost && !is_of_failed
    }

    async fn check(&self, step: Step) -> Result<()> {
        self.snapshot().await?.check_owners()?;
        let used = self.used.borrow().clone();
        match used {
            Some(used) if matches!(step, Step::Retain | Step::Keep | Step::Return) => {
                self.user_objects.check(&used).await
            }
            _ => Ok(()),
        }
    }

    async fn watch<T>(&self, fault: &Fault<Step>, run: impl Future<Output = Result<T>>) -> Result<T> {
        // How many extensions a policy selects is reported within seconds, longer than the program is still.
        let policies = Api::<UpdatePolicy>::all(self.client.clone());
        wait::until("update policies to select nothing", DEADLINE, async || {
            let all = policies.all().await?;
            let selected: i32 = all
                .iter()
                .filter_map(|policy| policy.status.as_ref().and_then(|status| status.selected))
                .sum();
            wait::check(selected == 0, || format!("{selected} extensions"))
        })
        .await?;
        let history = History::start(&self.client).await?;
        let run = run.await?;
        // Without the API server nobody could take notes.
        if !matches!(fault, Fault::ApiServer { .. }) {
            history.check().await?;
        }
        Ok(run)
    }

    async fn statuses(&self) -> Result<String> {
        Ok(Snapshot::take(&self.client).await?.told())
    }

    async fn clear(&self) -> Result<()> {
        // It may be gone already.
        let _ = self.extension.api.delete(&self.extension.name, &DeleteParams::default()).await;
        wait::until("the extension's end", DEADLINE, async || self.extension.is_gone().await).await?;
        self.user_objects.clear().await?;
        wait::until("an empty cluster", COLLECTED, async || self.snapshot().await?.check_empty()).await
    }
}

fn of_lost_replica_set(line: &str) -> bool {
    let told = line.split(": wanted ").next().unwrap_or_default();
    let is_counted = told.ends_with("ollisionCount") || told.ends_with(".deployment.kubernetes.io/revision");
    let is_named = told.contains(".status.conditions[") && told.ends_with("].message");
    line.starts_with("Deployment ") && (is_counted || is_named && line.contains("ReplicaSet"))
}
