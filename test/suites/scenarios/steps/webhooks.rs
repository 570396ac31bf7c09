//! The sample operator: its program, and what its webhooks do.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use cucumber::{gherkin::Step, then, when};
use olm_test::{
    cluster::own_address, prelude::*, process::free_ports, sample_operator::PROGRAM, supervisor::Program,
};

use super::Outcome;
use crate::world::{DEADLINE, World};

/// Where Pods are played, the program runs here, as the account and with the certificate that its Pod would have, behind
/// the Service that was installed.
#[when("the sample operator runs")]
async fn runs(w: &mut World) -> Outcome {
    if w.place.facts().pods || w.sample.is_some() {
        return Ok(());
    }
    let directory = StateDirectory::new("sample-operator")?;
    let secret = format!("{}-service-cert", w.id);
    w.until("to hold a certificate", "Secret", &secret, |secret| {
        for file in ["tls.crt", "tls.key"] {
            let text = secret["data"][file].as_str().with_context(|| format!("no {file}"))?;
            fs::write(directory.path().join(file), STANDARD.decode(text)?)?;
        }
        Ok(())
    })
    .await?;
    let account = format!("system:serviceaccount:{0}:{0}", w.id);
    let kubeconfig = w.place.cluster.kubeconfig_for(&account, &["system:serviceaccounts"])?;
    let (address, [port, health]) = (own_address()?, free_ports()?);
    let program = Program {
        program: cargo_program(PROGRAM, PROGRAM)?,
        args: vec![
            format!("--group={}.example.com", w.id),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--certificates={}", directory.path().display()),
            format!("--webhook-bind-address={address}:{port}"),
            format!("--health-probe-bind-address=127.0.0.1:{health}"),
        ],
        env_remove: vec!["KUBECONFIG".to_owned(), "RUST_LOG".to_owned()],
        log: directory.path().join("log"),
        ..Program::default()
    };
    w.sample = Some((Process::start(PROGRAM, program)?, directory));
    Ok(w.place.cluster.lead_here(&w.id, &format!("{}-service", w.id), port).await?)
}

#[when("the webhooks let this object pass")]
async fn pass(w: &mut World, step: &Step) -> Outcome {
    let object = w.yaml(step)?;
    // It takes a moment until API servers know the way.
    Ok(wait::until("the object to pass", DEADLINE, async || w.create(&object).await).await?)
}

#[then(expr = "the webhooks refuse, saying {string}, this object")]
async fn refuse(w: &mut World, text: String, step: &Step) -> Outcome {
    let object = w.yaml(step)?;
    Ok(wait::until("the refusal", DEADLINE, async || {
        let Err(error) = w.create(&object).await else { anyhow::bail!("it was let through") };
        let told = format!("{error:#}");
        wait::check(told.contains(&text), || told)
    })
    .await?)
}
