//! The plan of an installation, for people, and what to do after it.

use std::fmt::Write as _;

use olm_object::{Rule, text};
use olm_plan::permission_line;
use olm_rbac::{Permission, webhooks_on_pods};
use olm_text::one_line;

use super::{
    super::manifests::{Presence, label},
    package::Package,
};

/// Kinds that are named at the end.
const KINDS_MAX: usize = 5;

/// The plan: dangers, what this command creates, permissions, and what the controller does.
pub(super) fn plan(package: &Package) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "Install {}", one_line(&package.bundle()));
    dangers(&mut text, package);
    let _ = writeln!(text, "Created by this command");
    for (manifest, presence) in &package.prepared {
        let _ = match presence {
            Presence::Absent => writeln!(text, "  + {}", label(manifest)),
            Presence::Ours => {
                writeln!(text, "  ~ {} (created by an earlier \"olm install\")", label(manifest))
            }
            Presence::Foreign => writeln!(text, "    {} exists", label(manifest)),
        };
    }
    let version = olm_object::text(&package.extension, "/spec/source/catalog/version");
    let upgrades = if package.wanted.follows {
        "later versions in this range are installed by themselves"
    } else {
        "pinned"
    };
    let _ = writeln!(text, "  + {}, version {version} ({upgrades})", label(&package.extension));
    if let Some(config) = package.wanted.config.as_ref().filter(|_| package.is_filled_in) {
        let _ = writeln!(
            text,
            "      with the configuration {config}, because the bundle does not support all namespaces"
        );
    }
    permissions(&mut text, package);
    let plan = package.plan().to_text();
    // The name of the revision says nothing yet.
    text.push_str("Done by the controller\n");
    for line in plan.lines().skip(1) {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// What an attacker who gets hold of the ServiceAccount could do, on top.
fn dangers(text: &mut String, package: &Package) {
    let (namespace, account) = (&package.wanted.namespace, package.wanted.service_account());
    let mut lines: Vec<String> = Vec::new();
    if let Some(grant) = &package.grant {
        lines.extend(grant.dangers().iter().map(|danger| format!("it {}", danger.meaning())));
        let is_there = package.prepared.first().is_some_and(|(_, presence)| *presence == Presence::Foreign);
        if is_there && !lines.is_empty() {
            lines.push(format!("everyone who may create Pods in namespace {namespace} can use it"));
        }
    }
    let on_pods = webhooks_on_pods(&package.revision.objects);
    if !lines.is_empty() {
        let _ = writeln!(text, "DANGEROUS permissions of ServiceAccount {namespace}/{account}");
        for line in lines {
            let _ = writeln!(text, "  ! {line}");
        }
    }
    for configuration in on_pods {
        let _ = writeln!(text, "  ! webhook {} sees Pods", one_line(&configuration));
    }
}

fn permissions(text: &mut String, package: &Package) {
    let account = package.wanted.service_account();
    let Some(grant) = &package.grant else {
        let _ = writeln!(text, "ServiceAccount {account} exists and keeps the permissions it has");
        return;
    };
    let _ = writeln!(text, "Permissions of ServiceAccount {account}");
    for (namespace, rules) in grant.rules() {
        for rule in rules {
            let permission = Permission { namespace: namespace.to_owned(), rule: Rule::clone(rule) };
            let _ = writeln!(text, "  {}", one_line(&permission_line(&permission)));
        }
    }
}

/// The next steps.
pub(super) fn next(package: &Package) -> String {
    let name = &package.name;
    let mut text = String::from("Next\n");
    let is_crd =
        |object: &&serde_json::Value| olm_object::text(object, "/kind") == "CustomResourceDefinition";
    let crds: Vec<&serde_json::Value> = package.revision.objects.iter().filter(is_crd).collect();
    for crd in crds.iter().take(KINDS_MAX) {
        let (kind, plural) = (self::text(crd, "/spec/names/kind"), self::text(crd, "/spec/names/plural"));
        let group = self::text(crd, "/spec/group");
        let _ = writeln!(text, "  kubectl explain {plural}.{group}   describes the new kind {kind}");
    }
    if crds.len() > KINDS_MAX {
        let _ = writeln!(text, "  ({} more kinds)", crds.len() - KINDS_MAX);
    }
    let _ = writeln!(text, "  olm status {name}   shows how it is");
    let _ = writeln!(text, "  olm upgrade {name} --dry-run   shows what a newer version would change");
    text
}
