//! Stock clients of gRPC servers: grpcurl, which finds methods by reflection, and the health probe for containers.

use std::{
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
};

use crate::prelude::*;
use olm_test_programs::GoModule;

/// Both programs, built if they are not there (a minute, once). Blocks.
fn programs() -> Result<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(built) = BUILT.get() {
        return Ok(built.clone());
    }
    let link_flags = "-s -w".to_owned();
    let programs = &["grpcurl", "grpc-health-probe"];
    let built = GoModule { folder: "kit/grpc", programs, renamed: &[], link_flags, tags: "" }.built()?;
    Ok(BUILT.get_or_init(|| built).clone())
}

/// grpcurl on one server.
pub struct Grpcurl {
    program: PathBuf,
    address: String,
    authority: String,
}

impl Grpcurl {
    /// For requests to `address` as from a client that connected to `authority`. Blocks.
    pub fn new(address: &str, authority: &str) -> Result<Self> {
        let (address, authority) = (address.to_owned(), authority.to_owned());
        Ok(Self { program: programs()?.join("grpcurl"), address, authority })
    }

    fn command(&self, options: &[&str], what: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-plaintext", "-authority", &self.authority]).args(options);
        command.arg(&self.address).args(what).stdin(Stdio::null());
        command
    }

    /// The lines of its answer. Blocks.
    pub fn lines(&self, what: &[&str]) -> Result<Vec<String>> {
        Ok(succeeded(&self.command(&[], what).output()?)?.lines().map(str::to_owned).collect())
    }

    /// The messages that a method answers with. Blocks.
    pub fn call(&self, method: &str, asked: &Value) -> Result<Vec<Value>> {
        let header = "x-acknowledge-experimental: true";
        let options = ["-rpc-header", header, "-max-time", "60", "-d", &asked.to_string()];
        let text = succeeded(&self.command(&options, &[method]).output()?)?;
        serde_json::Deserializer::from_str(&text).into_iter().collect::<Result<_, _>>().context(text)
    }

    /// Starts a call that does not end; its messages are on standard output.
    pub fn watch(&self, method: &str) -> Result<Child> {
        Ok(self.command(&[], &[method]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    }
}

/// Whether the health probe finds the server of an address healthy. Blocks.
pub fn probe(address: &str) -> Result<()> {
    let program = programs()?.join("grpc-health-probe");
    succeeded(&Command::new(program).arg(format!("-addr={address}")).output()?).map(drop)
}

fn succeeded(output: &Output) -> Result<String> {
    let [text, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    ensure!(output.status.success(), "{}: {errors}{text}", output.status);
    Ok(text.into_owned())
}
