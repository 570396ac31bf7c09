//! The roles of a process.

use clap::ValueEnum;

/// A part of OLM Classic that may run in a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Role {
    /// Installs operators: ClusterServiceVersions, OperatorGroups, OperatorConditions.
    Olm,
    /// Reads catalogs and serves them: CatalogSources, the registry API.
    Catalog,
    /// Shows packages: the API of PackageManifests.
    Packages,
}

/// The roles of a process: those that it was given, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles(Option<Role>);

impl Roles {
    /// The role of `--role`, if any.
    pub fn new(role: Option<Role>) -> Self {
        Self(role)
    }

    /// Whether the process has this role.
    pub fn has(self, role: Role) -> bool {
        self.0.is_none_or(|only| only == role)
    }

    /// Whether the process reads the content of catalogs.
    pub fn reads_catalogs(self) -> bool {
        self.has(Role::Catalog) || self.has(Role::Packages)
    }

    /// The Lease of the part that writes. The packages are served by every replica, which write nothing.
    pub fn lease(self) -> Option<&'static str> {
        match self.0 {
            None => Some("olm-classic"),
            Some(Role::Olm) => Some("olm-classic-olm"),
            Some(Role::Catalog) => Some("olm-classic-catalog"),
            Some(Role::Packages) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_role_has_all() {
        let all = Roles::new(None);
        assert!([Role::Olm, Role::Catalog, Role::Packages].into_iter().all(|role| all.has(role)));
        let packages = Roles::new(Some(Role::Packages));
        assert!(packages.reads_catalogs() && !packages.has(Role::Catalog) && packages.lease().is_none());
        assert!(!Roles::new(Some(Role::Olm)).reads_catalogs());
    }
}
