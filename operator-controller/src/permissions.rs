//! The rights of the program's own identity, as a table, and those of a catalogd on its own. They are the truth:
//! `config/rbac` and `config/catalogd` are generated from them, and tests run the programs with nothing else.
//!
//! Bundle content is never written with these rights but with those of the extension's ServiceAccount.

/// Where rights hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In the whole cluster.
    Cluster,
    /// In the namespace the program runs in.
    SystemNamespace,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Permission {
    /// Where it holds.
    pub scope: Scope,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resources.
    pub resources: &'static [&'static str],
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// What it is for.
    pub purpose: &'static str,
}

const OLM: &str = "olm.operatorframework.io";

type Names = &'static [&'static str];

const fn cluster(group: &'static str, resources: Names, verbs: Names, purpose: &'static str) -> Permission {
    Permission { scope: Scope::Cluster, group, resources, verbs, purpose }
}

const fn system(group: &'static str, resources: Names, verbs: Names, purpose: &'static str) -> Permission {
    Permission { scope: Scope::SystemNamespace, group, resources, verbs, purpose }
}

/// Purpose of the rows that [`watched`] makes.
pub const WATCHED_OBJECTS: &str = "notice changes to objects of extensions";

/// Kinds that the program watches for all extensions with its own permissions. A permission to list gives the whole
/// objects away, so Secrets, and kinds that may carry secrets, are not among them: those are watched one by one as the
/// ServiceAccount that manages them.
const fn watched(group: &'static str, resources: Names) -> Permission {
    cluster(group, resources, &["list", "watch"], WATCHED_OBJECTS)
}

/// Resources of the Prometheus operator's groups that hold no credentials.
const MONITORS: &[&str] = &["podmonitors", "probes", "prometheusrules", "servicemonitors"];

/// Whether the program may list and watch a resource in the whole cluster.
pub(crate) fn is_watched(group: &str, resource: &str) -> bool {
    let covers = |row: &Permission| {
        row.scope == Scope::Cluster
            && row.group == group
            && row.resources.contains(&resource)
            && ["list", "watch"].iter().all(|verb| row.verbs.contains(verb))
    };
    PERMISSIONS.iter().any(covers)
}

const CATALOGS: Permission = cluster(
    OLM,
    &["clustercatalogs"],
    &["list", "patch", "watch"],
    "read the specs; finalizers and labels are metadata",
);
const LEASES: Permission = system(
    "coordination.k8s.io",
    &["leases"],
    &["create", "get", "list", "update", "watch"],
    "leader election; a released Lease is taken at once",
);

/// What finds out who asks for metrics. Both programs do.
const TOKEN_REVIEWS: Permission =
    cluster("authentication.k8s.io", &["tokenreviews"], &["create"], "authenticate requests for metrics");

/// What finds out whether metrics may be read. Both programs do.
const ACCESS_REVIEWS: Permission =
    cluster("authorization.k8s.io", &["subjectaccessreviews"], &["create"], "authorize requests for metrics");

/// What publishes the authority of the serving certificate. Both programs do.
const AUTHORITY: Permission = system(
    "",
    &["configmaps"],
    &["create", "get", "patch"],
    "publish the authority of the serving certificate",
);

/// All rights of operator-controller with catalogd inside.
pub const PERMISSIONS: &[Permission] = &[
    CATALOGS,
    cluster(
        OLM,
        &["clusterextensions"],
        &["get", "list", "patch", "update", "watch"],
        "read the specs; finalizers are metadata; writing revisions takes permission to update their extension",
    ),
    cluster(
        OLM,
        &["clusterextensions/revisions"],
        &["own"],
        "create revisions of extensions, which admission allows to the controller only",
    ),
    cluster(
        OLM,
        &["clustercatalogs/status", "clusterextensions/status", "clusterobjectsets/status"],
        &["update"],
        "report their status",
    ),
    cluster(
        OLM,
        &["clustercatalogs/finalizers", "clusterextensions/finalizers", "clusterobjectsets/finalizers"],
        &["update"],
        "set owner references, on clusters that enforce this permission",
    ),
    cluster(
        OLM,
        &["clusterobjectsets"],
        &["create", "delete", "get", "list", "patch", "watch"],
        "write and archive revisions",
    ),
    cluster("", &["serviceaccounts/token"], &["create"], "act as the ServiceAccount that an extension names"),
    cluster("", &["serviceaccounts"], &["list", "watch"], "continue when a ServiceAccount appears"),
    cluster("", &["namespaces"], &["get"], "recognize a namespace that was created again"),
    cluster(
        "rbac.authorization.k8s.io",
        &["clusterroles", "clusterrolebindings", "roles", "rolebindings"],
        &["list", "watch"],
        "continue when permissions are granted, and read the rules of roles that a bundle binds",
    ),
    watched(
        "",
        &[
            "configmaps",
            "limitranges",
            "namespaces",
            "persistentvolumeclaims",
            "persistentvolumes",
            "resourcequotas",
            "services",
        ],
    ),
    watched(
        "admissionregistration.k8s.io",
        &[
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        ],
    ),
    watched("apiextensions.k8s.io", &["customresourcedefinitions"]),
    watched("apiregistration.k8s.io", &["apiservices"]),
    watched("apps", &["daemonsets", "deployments", "statefulsets"]),
    watched("autoscaling", &["horizontalpodautoscalers"]),
    watched("autoscaling.k8s.io", &["verticalpodautoscalers"]),
    watched("batch", &["cronjobs", "jobs"]),
    watched("cert-manager.io", &["certificates", "issuers"]),
    watched("config.openshift.io", &["clusterversions"]),
    watched(
        "console.openshift.io",
        &[
            "consoleclidownloads",
            "consoleexternalloglinks",
            "consolelinks",
            "consolenotifications",
            "consoleplugins",
            "consolequickstarts",
            "consolesamples",
            "consoleyamlsamples",
        ],
    ),
    watched("grafana.integreatly.org", &["grafanadashboards", "grafanafolders"]),
    watched("monitoring.coreos.com", MONITORS),
    watched("monitoring.rhobs", MONITORS),
    watched("networking.k8s.io", &["ingresses", "networkpolicies"]),
    watched("policy", &["poddisruptionbudgets"]),
    watched("route.openshift.io", &["routes"]),
    watched("scheduling.k8s.io", &["priorityclasses"]),
    watched("storage.k8s.io", &["storageclasses"]),
    cluster(
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        &["get"],
        "compare a CRD with the one that is to replace it",
    ),
    cluster(
        "admissionregistration.k8s.io",
        &["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
        &["get"],
        "check that the policies that protect ServiceAccounts are in force",
    ),
    cluster("", &["pods"], &["list"], "say why the Pods of an unhealthy workload do not run"),
    TOKEN_REVIEWS,
    ACCESS_REVIEWS,
    cluster("events.k8s.io", &["events"], &["create", "patch"], "Events about cluster-scoped objects"),
    system(
        "",
        &["secrets"],
        &["create", "delete", "get", "list", "patch", "watch"],
        "the content of revisions, pull secrets, and the serving certificate",
    ),
    AUTHORITY,
    system("", &["serviceaccounts"], &["get"], "pull secrets of the controller's own ServiceAccount"),
    LEASES,
];

/// All rights of a catalogd on its own.
pub const CATALOGD_PERMISSIONS: &[Permission] = &[
    CATALOGS,
    cluster(OLM, &["clustercatalogs/status"], &["update"], "report their status"),
    cluster(
        OLM,
        &["clustercatalogs/finalizers"],
        &["update"],
        "set owner references, on clusters that enforce this permission",
    ),
    TOKEN_REVIEWS,
    ACCESS_REVIEWS,
    cluster("events.k8s.io", &["events"], &["create", "patch"], "Events about catalogs"),
    system(
        "",
        &["secrets"],
        &["create", "get", "list", "patch", "watch"],
        "pull secrets, and the serving certificate",
    ),
    AUTHORITY,
    system(
        "",
        &["serviceaccounts"],
        &["get", "list", "watch"],
        "pull secrets of the controller's own ServiceAccount, and their changes",
    ),
    LEASES,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogd_on_its_own_may_do_nothing_that_it_may_not_inside() {
        for right in CATALOGD_PERMISSIONS {
            for resource in right.resources {
                let covers = |row: &&Permission| {
                    let place = row.scope == right.scope || row.scope == Scope::Cluster;
                    place && row.group == right.group && row.resources.contains(resource)
                };
                let rows: Vec<_> = PERMISSIONS.iter().filter(covers).collect();
                let held = |verb: &&&str| rows.iter().any(|row| row.verbs.contains(*verb));
                assert_eq!(right.verbs.iter().find(|verb| !held(verb)), None, "{resource}");
            }
        }
    }

    #[test]
    fn the_program_itself_reads_no_secrets_but_those_of_its_namespace() {
        let reads_secrets = |row: &&Permission| {
            let read = row.verbs.iter().any(|verb| ["get", "list", "watch", "*"].contains(verb));
            read && ["", "*"].contains(&row.group)
                && row.resources.iter().any(|resource| ["secrets", "*"].contains(resource))
        };
        let scopes: Vec<Scope> = PERMISSIONS.iter().filter(reads_secrets).map(|row| row.scope).collect();
        assert_eq!(scopes, [Scope::SystemNamespace]);
        assert!(!is_watched("", "secrets"));
    }

    #[test]
    fn every_kind_of_bundles_but_secrets_is_watched_by_the_program() {
        let not_watched: Vec<_> =
            olm_rbac::known_resources().filter(|(group, resource)| !is_watched(group, resource)).collect();
        assert_eq!(not_watched, [("", "secrets")]);
    }
}
