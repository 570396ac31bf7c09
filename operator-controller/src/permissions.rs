//! The permissions of the programs' own identities as a table: `permissions.yaml`.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

/// Where permissions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Scope {
    /// In the whole cluster.
    Cluster,
    /// In the namespace the program runs in.
    SystemNamespace,
}

/// One row of the table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Permission {
    /// Where it holds.
    pub scope: Scope,
    /// API group; empty for the core group.
    pub group: String,
    /// Resources.
    pub resources: Vec<String>,
    /// Names of the objects, if it holds for these alone.
    #[serde(default)]
    pub names: Vec<String>,
    /// Verbs.
    pub verbs: Vec<String>,
    /// Its purpose.
    pub purpose: String,
}

/// All permissions of operator-controller with catalogd inside.
pub static PERMISSIONS: LazyLock<Vec<Permission>> = LazyLock::new(|| permissions("operator-controller"));

/// All permissions of a catalogd on its own.
pub static CATALOGD_PERMISSIONS: LazyLock<Vec<Permission>> = LazyLock::new(|| permissions("catalogd"));

/// All permissions of olm-classic with all roles.
pub static CLASSIC_PERMISSIONS: LazyLock<Vec<Permission>> = LazyLock::new(|| permissions("olm-classic"));

#[expect(clippy::expect_used, reason = "the table is part of the program, and tests read it")]
fn permissions(program: &str) -> Vec<Permission> {
    let table = olm_yaml::one(include_str!("permissions.yaml")).expect("permissions.yaml is YAML");
    let mut table: BTreeMap<String, Vec<Permission>> =
        serde_json::from_value(table).expect("rows of permissions");
    table.remove(program).expect("a part for each program")
}

/// Whether the program may list and watch a resource in the whole cluster.
pub(crate) fn is_watched(group: &str, resource: &str) -> bool {
    let covers = |row: &Permission| {
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == wanted);
        row.scope == Scope::Cluster
            && row.group == group
            && has(&row.resources, resource)
            && ["list", "watch"].iter().all(|verb| has(&row.verbs, verb))
    };
    PERMISSIONS.iter().any(covers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogd_on_its_own_may_do_nothing_that_it_may_not_inside() {
        for right in CATALOGD_PERMISSIONS.iter() {
            for resource in &right.resources {
                let covers = |row: &&Permission| {
                    let place = row.scope == right.scope || row.scope == Scope::Cluster;
                    place && row.group == right.group && row.resources.contains(resource)
                };
                let rows: Vec<_> = PERMISSIONS.iter().filter(covers).collect();
                let held = |verb: &&String| rows.iter().any(|row| row.verbs.contains(verb));
                assert_eq!(right.verbs.iter().find(|verb| !held(verb)), None, "{resource}");
            }
        }
    }

    #[test]
    fn the_program_itself_reads_no_secrets_but_those_of_its_namespace() {
        let reads_secrets = |row: &&Permission| {
            let read = row.verbs.iter().any(|verb| ["get", "list", "watch", "*"].contains(&verb.as_str()));
            read && ["", "*"].contains(&row.group.as_str())
                && row.resources.iter().any(|resource| ["secrets", "*"].contains(&resource.as_str()))
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
