//! The format registry+v1: `manifests/` and `metadata/` around one ClusterServiceVersion (CSV).
//!
//! [`load`] reads the files, [`install_modes`] and the configuration say which namespaces are watched,
//! [`validate`] finds everything that is wrong at once, the other modules generate one sort of object each.
//! Where upstream's behaviour is a defect, the module says what is done instead.
//!
//! Source: operator-controller `internal/operator-controller/rukpak`.

mod crds;
mod declared;
mod deployment_config;
mod deployments;
mod duplicates;
mod install_modes;
mod load;
mod model;
mod properties;
mod rbac;
mod shipped;
mod validate;
mod webhooks;

pub use load::defines;
pub(crate) use model::InstallMode;

use crate::{
    BundleFiles, CertificateProvider, Options, RenderError,
    budget::Budget,
    config,
    format::{BundleFormat, Rendered},
    limits::{COPIES, DEFINITIONS_MAX},
};

/// The table entry of registry+v1.
pub(crate) struct RegistryV1;

/// What every generator needs to know besides the bundle.
struct Context<'a> {
    install_namespace: &'a str,
    target_namespaces: &'a [String],
    provider: CertificateProvider,
}

impl Context<'_> {
    /// Whether the operator watches the whole cluster.
    fn watches_all(&self) -> bool {
        matches!(self.target_namespaces, [all] if all.is_empty())
    }
}

impl BundleFormat for RegistryV1 {
    fn media_type(&self) -> &'static str {
        "registry+v1"
    }

    fn recognizes(&self, _files: &BundleFiles) -> bool {
        true
    }

    fn render(&self, files: &BundleFiles, options: &Options) -> Result<Rendered, RenderError> {
        let mut budget = Budget::new(options.memory, files.bytes());
        let bundle = load::load(files, &mut budget)?;
        if options.target_namespaces.is_none() {
            refuse_unsupported(&bundle, options)?;
        }
        let configuration = config::read(options, &bundle.csv.install_modes)?;
        validate::check(&bundle)?;
        let target_namespaces = match (&options.target_namespaces, configuration.watch_namespace) {
            (Some(targets), _) => targets.clone(),
            (None, Some(namespace)) => vec![namespace],
            (None, None) => install_modes::default_targets(&bundle.csv.install_modes),
        };
        install_modes::check(&bundle.csv.install_modes, &options.install_namespace, &target_namespaces)?;
        let context = Context {
            install_namespace: &options.install_namespace,
            target_namespaces: &target_namespaces,
            provider: options.certificate_provider,
        };
        let mut rendered = Rendered {
            package_name: bundle.package.clone(),
            name: bundle.csv.name.clone(),
            version: bundle.csv.version.clone(),
            min_kube_version: bundle.csv.min_kube_version.clone(),
            objects: Vec::new(),
            olm_properties: declared::platform_properties(&bundle.csv),
            declared: declared::properties(&bundle.csv, files, &mut budget)?,
            memory: budget.spent().saturating_mul(COPIES),
            certificate_provider: (!bundle.csv.webhooks.is_empty()).then_some(options.certificate_provider),
        };
        rendered.objects = generate(bundle, &context, configuration.deployment_config.as_ref())?;
        Ok(rendered)
    }
}

fn refuse_unsupported(bundle: &model::Bundle, options: &Options) -> Result<(), RenderError> {
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

fn generate(
    bundle: model::Bundle,
    context: &Context<'_>,
    deployment_config: Option<&serde_json::Map<String, serde_json::Value>>,
) -> Result<Vec<serde_json::Value>, RenderError> {
    let model::Bundle { csv, crds, others, .. } = bundle;
    for (what, count) in [
        ("Deployments", csv.deployments.len()),
        ("webhooks", csv.webhooks.len()),
        ("permissions", csv.permissions.len().saturating_add(csv.cluster_permissions.len())),
    ] {
        if count > DEFINITIONS_MAX {
            return Err(RenderError::TooLarge { what, limit: DEFINITIONS_MAX });
        }
    }
    let mut objects = rbac::service_accounts(&csv, context);
    objects.extend(rbac::roles(&csv, context)?);
    objects.extend(crds::generate(crds, &csv, context)?);
    let shipped_start = objects.len();
    objects.extend(shipped::generate(others, context));
    let shipped = shipped_start..objects.len();
    objects.extend(deployments::generate(&csv, context, deployment_config)?);
    objects.extend(webhooks::configurations(&csv, context));
    objects.extend(webhooks::services(&csv, context));
    objects.extend(webhooks::certificate_objects(&csv, context));
    duplicates::resolve(objects, &shipped)
}
