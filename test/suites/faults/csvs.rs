//! Operators of OLM Classic through install, upgrade, failure, recovery and deletion, with each write of the undisturbed
//! life struck in four ways. Each life ends every stage in the state in which the undisturbed one ended it.

mod place;
mod random_changes;

use olm_test::{
    instance::Instance,
    prelude::*,
    proxy::{Blow, Proxy},
};

use crate::lives::{Life, Lives, State};
use place::Place;

/// What is asked for in a life, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Install,
    Upgrade,
    /// The ServiceAccount loses its permission,
    Fail,
    /// and gets it back.
    Recover,
    Delete,
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_at_a_write_an_operator_of_classic_ends_the_same() -> Result<()> {
    Lives::of(Place::start().await?).await?.strike().await
}

impl Life for Place {
    type Stage = Stage;

    const BLOWS: &'static [Blow] = &[Blow::Before, Blow::After, Blow::Stale, Blow::Unobserved];
    const SAMPLE: usize = 6;
    const ALL_FALL: bool = false;

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Install, Stage::Upgrade, Stage::Fail, Stage::Recover, Stage::Delete]
    }

    fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn program(&self) -> &Instance {
        &self.classic
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    async fn ask(&self, stage: Stage) -> Result<()> {
        match stage {
            Stage::Install => {
                self.group().await?;
                self.operator(1, None).await
            }
            Stage::Upgrade => self.operator(2, Some("beacon.v1")).await,
            Stage::Fail => self.unbind().await,
            Stage::Recover => self.bind().await,
            Stage::Delete => {
                self.csvs.remove("beacon.v2").await?;
                self.groups.remove("group").await
            }
        }
    }

    async fn is_over(&self, stage: Stage) -> Result<()> {
        match stage {
            Stage::Install => self.is(&["beacon.v1 Succeeded/InstallSucceeded"]).await,
            Stage::Upgrade | Stage::Recover => self.is(&["beacon.v2 Succeeded/InstallSucceeded"]).await,
            Stage::Fail => self.is(&["beacon.v2 Pending/RequirementsNotMet"]).await,
            Stage::Delete => self.is(&[]).await,
        }
    }

    async fn is_collected(&self, stage: Stage) -> Result<()> {
        let gone: &[u32] = match stage {
            Stage::Install => &[],
            Stage::Upgrade | Stage::Fail | Stage::Recover => &[1],
            Stage::Delete => &[1, 2],
        };
        self.are_collected(gone).await
    }

    fn deadline(&self, stage: Stage) -> Duration {
        if matches!(stage, Stage::Upgrade | Stage::Delete) { DEADLINE * 2 } else { DEADLINE }
    }

    async fn state(&self) -> Result<State> {
        self.snapshot().await
    }

    async fn clear(&self) -> Result<()> {
        // It may be gone.
        drop(self.unbind().await);
        self.bind().await?;
        wait::until("the operators to be gone", DEADLINE, async || {
            for csv in self.csvs.all().await? {
                drop(self.csvs.delete(&csv.name_any(), &DeleteParams::default()).await);
            }
            for group in self.groups.all().await? {
                drop(self.groups.delete(&group.name_any(), &DeleteParams::default()).await);
            }
            self.is(&[]).await
        })
        .await
    }
}
