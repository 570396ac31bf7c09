//! Permissions that a revision needs beyond those of a ServiceAccount that `olm install` created.

use std::fmt::Write as _;

use anyhow::Context as _;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
};
use olm_api::{
    names::{CLI_FIELD_MANAGER, INSTALLED_FOR_ANNOTATION, MANAGED_BY_LABEL},
    v1::ClusterExtension,
};
use olm_object::Rule;
use olm_plan::{Plan, Section, permission_line};
use olm_rbac::{Grant, Permission, dangers};
use olm_runtime::bounded;
use olm_text::one_line;
use operator_controller::plan::NewRevision;

use super::manifests::{apply, resource, with_marks};

/// The kinds that hold permissions and who has them.
pub(crate) const RBAC: [(&str, &str); 4] = [
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
];

/// Permissions to be added to a ServiceAccount.
pub(crate) struct Added {
    extension: String,
    account: String,
    missing: Vec<Permission>,
    /// What grants them, beside those that are held; nothing if the ServiceAccount is another's.
    grant: Option<Grant>,
}

impl Added {
    /// Those that the extension's ServiceAccount lacks for the revision.
    pub(crate) async fn to(
        client: &Client,
        extension: &ClusterExtension,
        revision: &NewRevision,
    ) -> anyhow::Result<Self> {
        let name = extension.name_any();
        let missing = revision.plan.missing_permissions.known().cloned().unwrap_or_default();
        let account = extension.spec.service_account.as_ref().and_then(|account| account.name.clone());
        let mut added = Self {
            extension: name.clone(),
            account: account.clone().unwrap_or_default(),
            missing,
            grant: None,
        };
        let Some(account) = account.filter(|_| !added.missing.is_empty()) else { return Ok(added) };
        let mut all = added.missing.clone();
        let mut is_ours = false;
        for (api_version, kind) in RBAC.into_iter().filter(|(_, kind)| !kind.ends_with("Binding")) {
            for role in created_for(client, api_version, kind, &name).await? {
                let namespace = role.namespace().unwrap_or_default();
                // Whoever may create roles can set the marks; only those that are bound to this ServiceAccount count.
                if role.name_any() != Grant::role_name(&extension.spec.namespace, &account, &namespace) {
                    continue;
                }
                is_ours = true;
                let rules = role.data["rules"].as_array().into_iter().flatten();
                all.extend(
                    rules.map(|rule| Permission { namespace: namespace.clone(), rule: Rule::of(rule) }),
                );
            }
        }
        if is_ours {
            added.grant = Some(Grant::of(&extension.spec.namespace, &account, all));
        }
        Ok(added)
    }

    /// The plan once the permissions are added.
    pub(crate) fn to_plan(&self, mut plan: Plan) -> Plan {
        if self.grant.is_some() {
            plan.missing_permissions = Section::Known(Vec::new());
        }
        plan
    }

    /// A line for each.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if self.grant.is_none() {
            return text;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "Permissions added to ServiceAccount {}", self.account);
        let in_cluster: Vec<Rule> =
            self.missing.iter().filter(|one| one.namespace.is_empty()).map(|one| one.rule.clone()).collect();
        for danger in dangers(&in_cluster) {
            let _ = writeln!(text, "  dangerous: it {}", danger.meaning());
        }
        for one in &self.missing {
            let _ = writeln!(text, "  + {}", one_line(&permission_line(one)));
        }
        text
    }

    /// Grants them.
    pub(crate) async fn apply(&self, client: &Client) -> anyhow::Result<()> {
        let Some(grant) = &self.grant else { return Ok(()) };
        // The ServiceAccount is there.
        for manifest in grant.manifests().into_iter().skip(1) {
            apply(client, &with_marks(manifest, &self.extension), &self.extension).await?;
        }
        Ok(())
    }
}

/// The objects of a kind that `olm install` created for an extension.
pub(crate) async fn created_for(
    client: &Client,
    api_version: &str,
    kind: &str,
    extension: &str,
) -> anyhow::Result<Vec<DynamicObject>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(api_version, kind)?);
    let labelled = ListParams::default().labels(&format!("{MANAGED_BY_LABEL}={CLI_FIELD_MANAGER}"));
    let listed = bounded(api.list(&labelled)).await.with_context(|| format!("listing {kind}s"))?;
    let is_for = |object: &DynamicObject| {
        object.annotations().get(INSTALLED_FOR_ANNOTATION).is_some_and(|name| name == extension)
    };
    Ok(listed.items.into_iter().filter(is_for).collect())
}
