//! The command line for catalogs, bundles and clusters.
//!
//! Each group of commands has a file; [`Command`] is the table of them. A command gets its arguments
//! and writes to the output it is given; only `main` knows of the process.

mod bundle;
mod catalog;
mod catalogs;
mod classic;
mod cluster;
mod completion;
mod crd;
mod diff;
mod extension;
mod opm_names;
mod output;
mod pack;
mod progress;
mod resolve;
mod search;
mod show;
mod sources;
mod status;
mod version;

use std::{io::Write, process::ExitCode};

use clap::{ArgAction, Parser, Subcommand, error::ErrorKind};
use tracing_subscriber::{filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// Works with operator catalogs and bundles, and with clusters that install them.
#[derive(Parser)]
#[command(name = "olm", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Log requests to standard error; -vv logs more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

/// The groups of commands.
#[derive(Subcommand)]
enum Command {
    /// Creates, checks, lists and serves catalogs.
    #[command(subcommand)]
    Catalog(catalog::Catalog),
    /// Packs, checks and compares bundles, and prints what they need.
    #[command(subcommand)]
    Bundle(bundle::Bundle),
    /// Finds packages of the cluster's catalogs, or of others, by name, keyword or description.
    #[command(after_help = search::HELP)]
    Search(search::Search),
    /// Shows a package: texts, channels, versions, and what installing it takes.
    #[command(after_help = show::HELP)]
    Show(Box<show::Show>),
    /// Shows which bundle an extension would get from catalogs, and why.
    #[command(after_help = resolve::HELP)]
    Resolve(resolve::Resolve),
    /// Shows which extensions run on a cluster, what is pending, and why.
    #[command(after_help = status::HELP, aliases = ["list", "get"])]
    Status(status::StatusCommand),
    /// Shows what the next revision of an extension would do to a cluster.
    #[command(after_help = diff::HELP)]
    Diff(diff::Diff),
    #[command(flatten)]
    Extension(extension::ExtensionCommand),
    /// Checks CustomResourceDefinitions.
    #[command(subcommand)]
    Crd(crd::Crd),
    /// Prints the completion script of a shell.
    #[command(after_help = completion::HELP)]
    Completion(completion::Completion),
    /// Completes a word, as kubectl asks its plug-ins.
    #[command(name = "__complete", hide = true)]
    Words(completion::Words),
    /// Writes man pages.
    #[command(hide = true)]
    Man(completion::Man),
    /// Prints the versions of this program with its commit, of the API server and of the controllers.
    #[command(after_help = version::HELP)]
    Version(version::Version),
}

impl Command {
    async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Catalog(command) => command.run(out).await,
            Self::Bundle(command) => command.run(out).await,
            Self::Search(command) => command.run(out).await,
            Self::Show(command) => command.run(out).await,
            Self::Resolve(command) => command.run(out).await,
            Self::Status(command) => command.run(out).await,
            Self::Diff(command) => command.run(out).await,
            Self::Extension(command) => Box::pin(command.run(out)).await,
            Self::Crd(command) => command.run(out).await,
            Self::Completion(command) => command.run(out),
            Self::Words(command) => command.run(out),
            Self::Man(command) => command.run(out),
            Self::Version(command) => command.run(out).await,
        }
    }
}

fn main() -> ExitCode {
    let given = opm_names::replaced(std::env::args_os());
    let arguments = match Arguments::try_parse_from(&given) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nothing can be reported if the stream is gone. Help and the version are no errors.
            let _ = error.print();
            if let Some(hint) =
                opm_names::hint(&given).filter(|_| error.kind() == ErrorKind::InvalidSubcommand)
            {
                output::hint(hint);
            }
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    let mut out = output::Output::new();
    match run(arguments, &mut out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if out.is_closed() => ExitCode::SUCCESS,
        Err(error) if error.is::<output::Differs>() => ExitCode::from(output::Differs::EXIT_CODE),
        Err(error) => {
            output::error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Logs what is sent and decided, without the content of requests: it may be secret.
fn log(verbose: u8) {
    let level = match verbose {
        0 => return,
        1 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    let ours = ["olm", "olm_image", "olm_runtime", "operator_controller", "catalogd"];
    let targets = Targets::new().with_targets(ours.map(|target| (target, level)));
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry().with(layer).with(targets).init();
}

fn run(arguments: Arguments, out: &mut output::Output) -> anyhow::Result<()> {
    log(arguments.verbose);
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider is installed already"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(arguments.command.run(out))
}
