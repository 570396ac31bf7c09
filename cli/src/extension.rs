//! Commands that install, change and remove the extensions of a cluster.

mod approval;
mod change;
mod check;
mod events;
mod explain;
mod history;
mod install;
mod manifests;
mod outdated;
mod pause;
mod permissions;
pub(crate) mod planning;
mod question;
mod restore;
pub(crate) mod revisions;
mod rollback;
mod run;
mod snapshot;
mod uninstall;
pub(crate) mod upgrade;
mod waiting;

use std::io::Write;

use clap::Subcommand;

/// Commands for one extension of a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ExtensionCommand {
    /// Installs a package with all that it needs, after showing the plan.
    #[command(after_help = install::HELP)]
    Install(Box<install::Install>),
    /// Tries what no catalog has.
    #[command(subcommand)]
    Run(run::Run),
    /// Upgrades an extension to another version or channel, after showing what changes.
    #[command(after_help = upgrade::HELP)]
    Upgrade(Box<upgrade::Upgrade>),
    /// Rolls an extension back to an earlier revision.
    #[command(after_help = rollback::HELP)]
    Rollback(Box<rollback::Rollback>),
    /// Shows the plan of a change that waits.
    #[command(after_help = approval::PLAN_HELP)]
    Plan(Box<approval::PlanCommand>),
    /// Approves the plan of a change that waits, after showing it.
    #[command(after_help = approval::APPROVE_HELP)]
    Approve(approval::Approve),
    /// Stops upgrades of an extension; what is installed is still repaired.
    #[command(after_help = pause::PAUSE_HELP)]
    Pause(pause::Pause),
    /// Lets upgrades of a paused extension continue.
    #[command(after_help = pause::RESUME_HELP)]
    Resume(pause::Resume),
    /// Removes an extension, after showing which data goes with it.
    #[command(after_help = uninstall::HELP)]
    Uninstall(uninstall::Uninstall),
    /// Saves the CRDs and custom resources of an extension in a file.
    #[command(after_help = snapshot::HELP)]
    Snapshot(snapshot::Snapshot),
    /// Brings the CRDs and custom resources of a snapshot back.
    #[command(after_help = restore::HELP)]
    Restore(restore::Restore),
    /// Lists extensions that have a newer version, and what keeps them from it.
    #[command(after_help = outdated::HELP)]
    Outdated(outdated::Outdated),
    /// Lists the revisions of an extension.
    #[command(after_help = history::HELP)]
    History(history::History),
    /// Explains the state of an extension, from the catalogs to its Pods.
    #[command(after_help = explain::HELP)]
    Explain(explain::Explain),
    /// Lists Events about extensions, their revisions and catalogs.
    #[command(after_help = events::HELP)]
    Events(events::Events),
    /// Checks whether OLM itself is healthy on a cluster.
    #[command(after_help = check::HELP)]
    Check(check::Check),
}

impl ExtensionCommand {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Install(command) => command.run(out).await,
            Self::Run(command) => Box::pin(command.run(out)).await,
            Self::Upgrade(command) => command.run(out).await,
            Self::Rollback(command) => command.run(out).await,
            Self::Plan(command) => command.run(out).await,
            Self::Approve(command) => command.run(out).await,
            Self::Pause(command) => command.run(out).await,
            Self::Resume(command) => command.run(out).await,
            Self::Uninstall(command) => command.run(out).await,
            Self::Snapshot(command) => command.run(out).await,
            Self::Restore(command) => command.run(out).await,
            Self::Outdated(command) => command.run(out).await,
            Self::History(command) => command.run(out).await,
            Self::Explain(command) => command.run(out).await,
            Self::Events(command) => command.run(out).await,
            Self::Check(command) => command.run(out).await,
        }
    }
}
