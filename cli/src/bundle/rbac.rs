//! `olm bundle rbac`: the ServiceAccount of an extension, with exactly the permissions it needs.

use std::{collections::BTreeSet, io::Write};

use anyhow::{Context as _, bail};
use clap::Args;
use olm_rbac::{Danger, Grant, Style, targets, webhooks_on_pods};
use olm_render::{CertificateProvider, render};
use olm_text::one_line;

use super::rendering::{Rendering, written};
use crate::{
    output::{self, ManifestFormat},
    sources::{Registries, Source},
};

/// `olm bundle rbac`
#[derive(Debug, Args)]
pub(crate) struct Rbac {
    /// Bundles to install: folders, OCI image layouts (oci:FOLDER[:NAME]) or images. Include the versions that
    /// upgrades go through; the permissions are those for all of them together
    #[arg(required = true, value_name = "BUNDLE")]
    bundles: Vec<Source>,
    #[command(flatten)]
    rendering: Rendering,
    /// Name of the ServiceAccount
    #[arg(long, value_name = "NAME", default_value = "installer")]
    service_account: String,
    /// Grant escalate and bind on the operator's roles instead of every permission in these roles: shorter, but
    /// with this ServiceAccount one can write any permission into these roles
    #[arg(long)]
    escalate: bool,
    /// Add the Role that allows this controller to create tokens for the ServiceAccount, for installations whose
    /// controller may not create them for all
    #[arg(long, value_name = "NAMESPACE/NAME")]
    token_for: Option<String>,
    /// Format of the manifests; yaml has comments on risky permissions
    #[arg(short, long, value_enum, default_value_t)]
    output: ManifestFormat,
    #[command(flatten)]
    registries: Registries,
}

impl Rbac {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let options = self.rendering.options()?;
        let (mut rendered, mut provider) = (Vec::new(), None);
        for source in &self.bundles {
            let bundle = self.registries.bundle(source).await?;
            let bundle = render(bundle, &options).with_context(|| source.to_string())?;
            provider = provider.or(bundle.certificate_provider);
            rendered.push(written(bundle));
        }
        let style = if self.escalate { Style::Escalate } else { Style::Exact };
        let bundles = rendered.iter().map(|bundle| targets(bundle)).collect::<Result<Vec<_>, _>>()?;
        let grant = Grant::new(&self.rendering.install_namespace, &self.service_account, &bundles, style);
        let mut manifests = grant.manifests();
        if let Some(controller) = &self.token_for {
            let Some((namespace, name)) = controller.split_once('/') else {
                bail!("--token-for {controller:?}: write the controller's ServiceAccount as NAMESPACE/NAME");
            };
            manifests.extend(grant.token_manifests(namespace, name));
        }
        if self.output == ManifestFormat::Yaml {
            let on_pods = webhooks_on_pods(rendered.iter().flatten());
            let comments = warnings(&grant.dangers(), &on_pods, style) + provider.map_or("", certificates);
            write!(out, "{comments}")?;
        }
        output::manifests(out, self.output, &manifests)
    }
}

/// A comment that names the clusters for whose webhook certificates these permissions are.
fn certificates(provider: CertificateProvider) -> &'static str {
    match provider {
        CertificateProvider::CertManager => {
            "# The bundle has webhooks. These permissions assume that cert-manager issues their certificates; on a cluster without\n# it, pass --certificate-provider openshift-service-ca or built-in.\n"
        }
        CertificateProvider::OpenshiftServiceCa => {
            "# The bundle has webhooks. These permissions assume that OpenShift's service CA issues their certificates.\n"
        }
        CertificateProvider::BuiltIn => {
            "# The bundle has webhooks. These permissions assume that the controller issues their certificates, as it does on a\n# cluster with neither cert-manager nor OpenShift's service CA.\n"
        }
        CertificateProvider::None => "",
    }
}

/// Comments on risky permissions.
fn warnings(found: &BTreeSet<Danger>, on_pods: &BTreeSet<String>, style: Style) -> String {
    let mut lines = Vec::new();
    if style == Style::Escalate {
        lines.push(
            "# WARNING: generated with --escalate. The ServiceAccount can give the operator's roles, and thereby itself, any permission:"
                .to_owned(),
        );
        lines.push("# treat it as cluster-admin.".to_owned());
    }
    if !found.is_empty() {
        lines.push("# This ServiceAccount, and everyone who can use it:".to_owned());
        lines.extend(found.iter().map(|danger| format!("# - {}", danger.meaning())));
    }
    if !on_pods.is_empty() {
        lines.push("# Webhooks of the bundle that see Pods:".to_owned());
        lines.extend(on_pods.iter().map(|configuration| format!("# - {configuration}")));
    }
    // A line break in a name would end the comment: what follows would be applied.
    lines.into_iter().map(|line| one_line(&line).into_owned() + "\n").collect()
}
