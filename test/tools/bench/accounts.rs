//! The requests of installations, by what they are for.

use super::{figure, volume::number};
use crate::{cluster::AuditEvent, operator, prelude::*};

/// What is told of requests that look alike.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sort {
    purpose: &'static str,
    verb: String,
    resource: String,
    failed: bool,
}

/// Prints how many requests each of `installations` made, one line for each sort, the most frequent first.
pub(super) fn print(events: &[AuditEvent], installations: usize) {
    let each = number(installations);
    let (mut sorts, mut purposes) = (BTreeMap::<Sort, usize>::new(), BTreeMap::<&str, usize>::new());
    for event in events {
        let purpose = purpose(event);
        let resource = [event.resource.as_str(), &event.subresource].join("/");
        let resource = match resource.trim_end_matches('/') {
            "" => event.uri.split('?').next().unwrap_or_default().to_owned(),
            resource => resource.to_owned(),
        };
        let sort = Sort { purpose, verb: event.verb.clone(), resource, failed: event.code >= 400 };
        *sorts.entry(sort).or_default() += 1;
        *purposes.entry(purpose).or_default() += 1;
    }
    figure(&format!("requests-of-{installations}-installed"), number(events.len()) / each, "requests each");
    println!("note: requests of {installations} installed, each: purpose, verb, resource");
    for (purpose, count) in sorted(purposes) {
        println!("note:   {:8.2} {purpose}", number(count) / each);
    }
    for (sort, count) in sorted(sorts) {
        let failed = if sort.failed { " (failed)" } else { "" };
        let Sort { purpose, verb, resource, .. } = sort;
        println!("note:   {:8.2} {purpose:12} {verb:8} {resource}{failed}", number(count) / each);
    }
}

fn sorted<K: Ord>(counts: BTreeMap<K, usize>) -> Vec<(K, usize)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// What a request is for, as far as it shows.
fn purpose(event: &AuditEvent) -> &'static str {
    let is_program = event.user == operator::USER;
    let is_own = event.group == "olm.operatorframework.io";
    match (event.resource.as_str(), event.subresource.as_str(), event.verb.as_str()) {
        ("", ..) => "discovery",
        ("leases", ..) => "lease",
        ("events", ..) => "event",
        (_, "status", _) => "status",
        (_, "token", _) => "token",
        ("selfsubjectrulesreviews" | "selfsubjectaccessreviews" | "subjectaccessreviews", ..) => "permission",
        _ if event.is_dry_run() => "dry-run",
        (_, _, "list") if event.group == "rbac.authorization.k8s.io" => "permission",
        ("secrets", ..) if is_program => "content",
        _ if is_own => "revision",
        (_, _, "create") => "create",
        (_, _, "patch" | "update") => "adopt",
        (_, _, "delete" | "deletecollection") => "delete",
        _ => "read",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_purpose_that_its_parts_show() {
        let event =
            |user: &str, verb: &str, [group, resource, subresource]: [&str; 3], uri: &str| AuditEvent {
                verb: verb.to_owned(),
                user: user.to_owned(),
                impersonated: None,
                user_agent: String::new(),
                group: group.to_owned(),
                resource: resource.to_owned(),
                subresource: subresource.to_owned(),
                namespace: String::new(),
                name: String::new(),
                uri: uri.to_owned(),
                code: 200,
                received: String::new(),
            };
        let own = "olm.operatorframework.io";
        for (user, verb, parts, uri, wanted) in [
            (operator::USER, "get", ["", "", ""], "/apis", "discovery"),
            (operator::USER, "update", [own, "clusterextensions", "status"], "", "status"),
            (operator::USER, "create", [own, "clusterobjectsets", ""], "", "revision"),
            (operator::USER, "create", ["", "secrets", ""], "", "content"),
            ("account", "create", ["", "secrets", ""], "", "create"),
            ("account", "create", ["apps", "deployments", ""], "?dryRun=All", "dry-run"),
            ("account", "patch", ["apps", "deployments", ""], "", "adopt"),
        ] {
            assert_eq!(purpose(&event(user, verb, parts, uri)), wanted, "{verb} {parts:?}");
        }
    }
}
