//! What is expected of each real operator, written down before it was run.
//!
//! Made from the bundles alone: their install modes, dependencies, kinds, webhooks, priority classes, the
//! versions of Kubernetes they ask for (the server is 1.36), their custom resources against their own schemas, and
//! the comparison of their CRDs.

/// What an extension comes to with one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Installed, everything healthy.
    Installed,
    /// Held back by the check of CRD upgrades, which names these CRDs (and perhaps more); installed once that is
    /// turned off.
    Unsafe(&'static [&'static str]),
    /// Not installed: the bundle requires packages that no catalog here has. Each part is told.
    Requires(&'static [&'static str]),
    /// Requires what another operator of this table brings, and goes on by itself when that is there.
    RequiresFirst(&'static [&'static str]),
    /// Not installed: the API server refuses an object of the bundle, with this text.
    Refused(&'static str),
}

/// When an operator is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wave {
    /// Beside others.
    Together,
    /// Beside others, but only once the operator with this package is installed.
    With(&'static str),
    /// Alone: what it brings (webhooks for everybody's Pods, kinds that others make use of) would change how
    /// others are installed.
    Alone,
}

/// An operator, the version before its newest, and its newest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) package: &'static str,
    pub(crate) first: (&'static str, Outcome),
    pub(crate) newest: (&'static str, Outcome),
    /// The operator supports only to watch some namespaces: it is told to watch its own.
    pub(crate) watches_own: bool,
    /// Kinds of add-ons that the bundle makes use of and that are left out on a bare cluster.
    pub(crate) left_out: &'static [&'static str],
    /// A priority class that the operator's own Pod makes on a real cluster, before its other Pods can start.
    pub(crate) priority_class: Option<&'static str>,
    pub(crate) wave: Wave,
}

use Outcome::{Installed, Refused, Requires, RequiresFirst, Unsafe};

const fn installed(package: &'static str, first: &'static str, newest: &'static str) -> Expected {
    Expected {
        package,
        first: (first, Installed),
        newest: (newest, Installed),
        watches_own: false,
        left_out: &[],
        priority_class: None,
        wave: Wave::Together,
    }
}

impl Expected {
    const fn watching_own(self) -> Self {
        Self { watches_own: true, ..self }
    }

    const fn leaving_out(self, kinds: &'static [&'static str]) -> Self {
        Self { left_out: kinds, ..self }
    }

    const fn alone(self) -> Self {
        Self { wave: Wave::Alone, ..self }
    }

    const fn both(self, outcome: Outcome) -> Self {
        Self { first: (self.first.0, outcome), newest: (self.newest.0, outcome), ..self }
    }

    const fn upgrade(self, outcome: Outcome) -> Self {
        Self { newest: (self.newest.0, outcome), ..self }
    }

    const fn first_requires(self, parts: &'static [&'static str]) -> Self {
        Self { first: (self.first.0, RequiresFirst(parts)), ..self }
    }
}

const MONITOR: &str = "ServiceMonitor";
const RULE: &str = "PrometheusRule";

/// All of them, in the order in which they are begun: the largest first.
pub(crate) const OPERATORS: [Expected; 32] = [
    Expected {
        priority_class: Some("kubevirt-cluster-critical"),
        ..installed("community-kubevirt-hyperconverged", "1.17.3", "1.18.1")
    }
    .upgrade(Unsafe(&["aaqs.aaq.kubevirt.io", "hyperconvergeds.hco.kubevirt.io"])),
    installed("observability-operator", "0.0.25", "0.0.28")
        .leaving_out(&[RULE])
        .upgrade(Unsafe(&["alertmanagers.monitoring.rhobs", "prometheuses.monitoring.rhobs"])),
    installed("universal-crossplane", "1.4.3-up.1", "1.5.1-up.1")
        .upgrade(Unsafe(&["controllerconfigs.pkg.crossplane.io"])),
    installed("external-secrets-operator", "0.10.7", "0.11.0")
        .upgrade(Unsafe(&["acraccesstokens.generators.external-secrets.io"])),
    // Requires rabbitmq-cluster-operator above 2.0.0 and its kind RabbitmqCluster.
    Expected {
        wave: Wave::With("rabbitmq-cluster-operator"),
        ..installed("rabbitmq-messaging-topology-operator", "1.19.2", "1.19.3")
    }
    .first_requires(&["package \"rabbitmq-cluster-operator\" in version range \">2.0.0\""]),
    installed("rabbitmq-cluster-operator", "2.22.2", "2.22.3"),
    installed("flux", "2.2.2", "2.3.0").upgrade(Unsafe(&["helmreleases.helm.toolkit.fluxcd.io"])),
    installed("3scale-community-operator", "0.10.1", "0.11.0").leaving_out(&[MONITOR]),
    installed("argocd-operator", "0.17.0", "0.18.0")
        .upgrade(Unsafe(&["applications.argoproj.io", "applicationsets.argoproj.io"])),
    installed("strimzi-kafka-operator", "1.1.0", "1.2.0"),
    installed("grafana-operator", "5.22.2", "5.24.0"),
    installed("loki-operator", "0.10.2", "0.11.0")
        .leaving_out(&[MONITOR])
        .upgrade(Unsafe(&["lokistacks.loki.grafana.com"])),
    installed("infinispan", "2.5.13", "2.5.14"),
    installed("marin3r", "0.12.3", "0.13.1"),
    installed("keda", "2.6.1", "2.7.1").upgrade(Unsafe(&["scaledjobs.keda.sh", "scaledobjects.keda.sh"])),
    installed("gitlab-operator-kubernetes", "3.2.4", "3.3.0").watching_own(),
    installed("kepler-operator", "0.23.0", "0.24.0").leaving_out(&[MONITOR]),
    installed("node-healthcheck-operator", "0.11.0", "0.12.0"),
    installed("redis-operator", "0.15.0", "0.15.1").upgrade(Unsafe(&["redis.redis.redis.opstreelabs.in"])),
    installed("project-quay", "3.17.4", "3.18.0").upgrade(Unsafe(&["quayregistries.quay.redhat.com"])),
    // A pre-release: 0.9.4-clusterwide comes before 0.9.4, and only that one watches all namespaces.
    installed("etcd", "0.9.4-clusterwide", "0.9.4").watching_own(),
    installed("nfs-provisioner-operator", "0.0.8", "0.0.9"),
    installed("cat-facts-operator", "1.1.1", "1.1.2").watching_own(),
    // Its dependencies stand in a file of another name than the format's, which is not read.
    installed("ndmspc-operator", "0.20250131.0", "0.20250209.0"),
    // Ships a custom resource that its own CRD does not allow: it lacks a required field.
    installed("ecr-secret-operator", "0.5.1", "0.6.0").both(Refused("spec.region: Required value")),
    installed("kuadrant-operator", "0.11.0", "0.11.1").both(Requires(&[
        "package \"authorino-operator\" in version range \"0.13.0\"",
        "package \"limitador-operator\" in version range \"0.11.0\"",
        "package \"dns-operator\" in version range \"0.6.0\"",
    ])),
    installed("l5-operator", "0.0.2", "0.0.3")
        .leaving_out(&[MONITOR, RULE])
        .both(Requires(&["package \"crunchy-postgres-operator\" in version range"])),
    // Their webhooks are asked about every Pod, Deployment or namespace of the cluster, and nobody answers.
    installed("dynatrace-operator", "1.10.1", "1.10.2").alone(),
    installed("jaeger", "1.62.0", "1.65.0").alone(),
    installed("opentelemetry-operator", "0.157.0", "0.158.0").leaving_out(&[RULE]).alone(),
    // Brings the kinds that others leave out.
    installed("prometheus", "0.47.0", "0.56.3")
        .watching_own()
        .alone()
        .upgrade(Unsafe(&["alertmanagerconfigs.monitoring.coreos.com"])),
    // With its kinds on the cluster, webhooks of others would get their certificates from it.
    installed("cert-manager", "1.16.1", "1.16.5").alone(),
];
