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

const fn row(
    scope: Scope,
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    purpose: &'static str,
) -> Permission {
    Permission { scope, group, resources, verbs, purpose }
}

/// What finds out who asks for metrics. Both programs do.
const TOKEN_REVIEWS: Permission = row(
    Scope::Cluster,
    "authentication.k8s.io",
    &["tokenreviews"],
    &["create"],
    "find out who asks for metrics",
);

/// What finds out whether metrics may be read. Both programs do.
const ACCESS_REVIEWS: Permission = row(
    Scope::Cluster,
    "authorization.k8s.io",
    &["subjectaccessreviews"],
    &["create"],
    "find out whether metrics may be read",
);

/// What publishes the authority of the serving certificate. Both programs do.
const AUTHORITY: Permission = row(
    Scope::SystemNamespace,
    "",
    &["configmaps"],
    &["create", "get", "patch"],
    "publish the authority of the serving certificate",
);

/// All rights of operator-controller with catalogd inside.
pub const PERMISSIONS: &[Permission] = &[
    row(
        Scope::Cluster,
        OLM,
        &["clustercatalogs"],
        &["list", "patch", "watch"],
        "read the specs; finalizers and labels are metadata",
    ),
    row(
        Scope::Cluster,
        OLM,
        &["clusterextensions"],
        &["get", "list", "patch", "update", "watch"],
        "read the specs; finalizers are metadata; revisions may be written only by who may update their extension",
    ),
    row(
        Scope::Cluster,
        OLM,
        &["clusterextensions/revisions"],
        &["own"],
        "make revisions of extensions, which admission lets nobody else do",
    ),
    row(
        Scope::Cluster,
        OLM,
        &["clustercatalogs/status", "clusterextensions/status", "clusterobjectsets/status"],
        &["update"],
        "tell what became of them",
    ),
    row(
        Scope::Cluster,
        OLM,
        &["clustercatalogs/finalizers", "clusterextensions/finalizers", "clusterobjectsets/finalizers"],
        &["update"],
        "own what is made for them, on clusters that enforce it",
    ),
    row(
        Scope::Cluster,
        OLM,
        &["clusterobjectsets"],
        &["create", "delete", "get", "list", "patch", "watch"],
        "revisions are written and archived by the program",
    ),
    row(
        Scope::Cluster,
        "",
        &["serviceaccounts/token"],
        &["create"],
        "act as the ServiceAccount that an extension names",
    ),
    row(Scope::Cluster, "", &["serviceaccounts"], &["list", "watch"], "go on when an account appears"),
    row(
        Scope::Cluster,
        "",
        &["namespaces"],
        &["get"],
        "tell a namespace that was created again from the one that an extension was written for",
    ),
    row(
        Scope::Cluster,
        "rbac.authorization.k8s.io",
        &["clusterroles", "clusterrolebindings", "roles", "rolebindings"],
        &["list", "watch"],
        "go on when rights are granted, and read the rules of roles that a bundle binds",
    ),
    row(Scope::Cluster, "*", &["*"], &["list", "watch"], "see objects of revisions change"),
    row(
        Scope::Cluster,
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        &["get"],
        "compare a CRD with the one that is to replace it",
    ),
    row(
        Scope::Cluster,
        "admissionregistration.k8s.io",
        &["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
        &["get"],
        "see whether the policies that guard accounts are in force",
    ),
    TOKEN_REVIEWS,
    ACCESS_REVIEWS,
    row(
        Scope::Cluster,
        "events.k8s.io",
        &["events"],
        &["create", "patch"],
        "Events about cluster-scoped objects",
    ),
    row(
        Scope::SystemNamespace,
        "",
        &["secrets"],
        &["create", "delete", "get", "list", "patch", "watch"],
        "the content of revisions, pull secrets, and the serving certificate",
    ),
    AUTHORITY,
    row(
        Scope::SystemNamespace,
        "",
        &["serviceaccounts"],
        &["get"],
        "the pull secrets of the program's own account",
    ),
    row(
        Scope::SystemNamespace,
        "coordination.k8s.io",
        &["leases"],
        &["create", "get", "update"],
        "leader election",
    ),
];

/// All rights of a catalogd on its own.
pub const CATALOGD_PERMISSIONS: &[Permission] = &[
    row(
        Scope::Cluster,
        OLM,
        &["clustercatalogs"],
        &["list", "patch", "watch"],
        "read the specs; finalizers and labels are metadata",
    ),
    row(Scope::Cluster, OLM, &["clustercatalogs/status"], &["update"], "tell what became of them"),
    row(
        Scope::Cluster,
        OLM,
        &["clustercatalogs/finalizers"],
        &["update"],
        "own what is made for them, on clusters that enforce it",
    ),
    TOKEN_REVIEWS,
    ACCESS_REVIEWS,
    row(Scope::Cluster, "events.k8s.io", &["events"], &["create", "patch"], "Events about catalogs"),
    row(
        Scope::SystemNamespace,
        "",
        &["secrets"],
        &["create", "get", "list", "patch", "watch"],
        "pull secrets, and the serving certificate",
    ),
    AUTHORITY,
    row(
        Scope::SystemNamespace,
        "",
        &["serviceaccounts"],
        &["get", "list", "watch"],
        "the pull secrets of the program's own account, followed while they change",
    ),
    row(
        Scope::SystemNamespace,
        "coordination.k8s.io",
        &["leases"],
        &["create", "get", "list", "update", "watch"],
        "leader election; one given back is taken at once",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogd_on_its_own_may_do_nothing_that_it_may_not_inside() {
        for right in CATALOGD_PERMISSIONS {
            for resource in right.resources {
                let covers = |row: &&Permission| {
                    let same = row.scope == right.scope && row.group == right.group;
                    row.resources.contains(&"*") || same && row.resources.contains(resource)
                };
                let rows: Vec<_> = PERMISSIONS.iter().filter(covers).collect();
                let held = |verb: &&&str| rows.iter().any(|row| row.verbs.contains(*verb));
                assert_eq!(right.verbs.iter().find(|verb| !held(verb)), None, "{resource}");
            }
        }
    }
}
