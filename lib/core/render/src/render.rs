//! From a bundle and the user's options to objects.

use olm_bundle::Bundle;
use serde_json::{Map, Value};

use crate::{
    CertificateProvider, Options, RenderError, config, crds, deployments, duplicates, install_modes,
    limits::DEFINITIONS_MAX, rbac, shipped, validate, webhooks,
};

/// A rendered bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The package of the bundle, by its annotations.
    pub package_name: String,
    /// Name of its ClusterServiceVersion.
    pub name: String,
    /// Version of its ClusterServiceVersion; empty when it has none.
    pub version: String,
    /// The oldest Kubernetes version the operator claims to run on, as written.
    pub min_kube_version: Option<String>,
    /// The objects: ServiceAccounts, Roles and bindings, ClusterRoles and bindings, CRDs, shipped objects,
    /// Deployments, webhook configurations, webhook Services, certificate objects.
    pub objects: Vec<Value>,
    /// The annotation `olm.properties` of a revision: see [`olm_bundle::Csv::olm_properties`].
    pub olm_properties: Option<String>,
    /// The properties by which the bundle declares its requirements and the APIs it provides: see [`Bundle::declared`].
    pub declared: Result<Vec<Value>, String>,
    /// Who makes the certificates of its webhooks; `None` when it has none.
    pub certificate_provider: Option<CertificateProvider>,
    /// Memory that the objects take until a revision is written, in bytes, estimated.
    pub memory: usize,
}

/// The settings that every generator needs besides the bundle.
pub(crate) struct Context<'a> {
    pub(crate) install_namespace: &'a str,
    pub(crate) target_namespaces: &'a [String],
    pub(crate) provider: CertificateProvider,
}

impl Context<'_> {
    /// Whether the operator watches the whole cluster.
    pub(crate) fn watches_all(&self) -> bool {
        matches!(self.target_namespaces, [all] if all.is_empty())
    }
}

/// Renders a bundle as an extension with these options installs it.
///
/// # Errors
/// See [`RenderError`]; none of them is solved without another bundle or another configuration.
pub fn render(bundle: Bundle, options: &Options) -> Result<Rendered, RenderError> {
    refuse_unsupported(&bundle, options)?;
    let modes = &bundle.csv.install_modes;
    let configuration = config::read(options, config::NamespaceRule::of(modes))?;
    let default = || install_modes::default_targets(modes);
    let targets = configuration.watch_namespace.map_or_else(default, |namespace| vec![namespace]);
    objects(bundle, options, &targets, configuration.deployment_config.as_ref())
}

/// Renders a bundle for namespaces to watch, `[""]` for all, which the configuration then does not choose. As
/// upstream's renderer (`rukpak/render`), it renders bundles that cannot be installed: those with API services, and
/// those with webhooks and without a certificate provider.
///
/// # Errors
/// See [`RenderError`].
pub fn render_for(bundle: Bundle, options: &Options, targets: &[String]) -> Result<Rendered, RenderError> {
    let configuration = config::read(options, config::NamespaceRule::Unknown)?;
    objects(bundle, options, targets, configuration.deployment_config.as_ref())
}

fn refuse_unsupported(bundle: &Bundle, options: &Options) -> Result<(), RenderError> {
    if bundle.csv.owns_api_services {
        return Err(RenderError::Unsupported("apiServiceDefintions are not supported"));
    }
    if !bundle.csv.webhooks.is_empty() && options.certificate_provider == CertificateProvider::None {
        return Err(RenderError::Unsupported("webhookDefinitions are not supported"));
    }
    install_modes::refuse_unsupported(
        &bundle.csv.install_modes,
        options.features.single_own_namespace_install_support,
    )
}

fn objects(
    bundle: Bundle,
    options: &Options,
    targets: &[String],
    deployment_config: Option<&Map<String, Value>>,
) -> Result<Rendered, RenderError> {
    validate::check(&bundle)?;
    install_modes::check(&bundle.csv, &options.install_namespace, targets)?;
    let context = Context {
        install_namespace: &options.install_namespace,
        target_namespaces: targets,
        provider: options.certificate_provider,
    };
    let Bundle { package, csv, crds, others, declared, memory } = bundle;
    for (what, count) in [
        ("Deployments", csv.deployments.len()),
        ("webhooks", csv.webhooks.len()),
        ("permissions", csv.permissions.len().saturating_add(csv.cluster_permissions.len())),
    ] {
        if count > DEFINITIONS_MAX {
            return Err(RenderError::TooLarge { what, limit: DEFINITIONS_MAX });
        }
    }
    let mut objects = rbac::service_accounts(&csv, &context);
    objects.extend(rbac::roles(&csv, &context)?);
    objects.extend(crds::generate(crds, &csv, &context)?);
    let shipped_start = objects.len();
    objects.extend(shipped::generate(others, &context));
    let shipped = shipped_start..objects.len();
    objects.extend(deployments::generate(&csv, &context, deployment_config)?);
    objects.extend(webhooks::configurations(&csv, &context));
    objects.extend(webhooks::services(&csv, &context));
    objects.extend(webhooks::certificate_objects(&csv, &context));
    Ok(Rendered {
        package_name: package,
        min_kube_version: csv.min_kube_version.clone(),
        objects: duplicates::resolve(objects, &shipped)?,
        olm_properties: csv.olm_properties(),
        declared,
        certificate_provider: (!csv.webhooks.is_empty()).then_some(options.certificate_provider),
        memory,
        name: csv.name,
        version: csv.version,
    })
}
