//! The rows of the requirements.

use olm_object::Rule;

use super::*;
use crate::csv::requirements::{Account, ApiService, Crd, Facts, requirements};

/// `Kind name status: message` of each requirement, and whether all are met.
fn list(spec: &Value, facts: &Facts) -> (bool, Vec<String>) {
    let found = requirements(&with("Pending", "", spec), facts).unwrap();
    let line = |one: &olm_api_classic::RequirementStatus| {
        format!("{} {} {}: {}", one.kind, one.name, one.status, one.message)
    };
    (found.met, found.statuses.iter().map(line).collect())
}

fn none() -> Value {
    json!({"customresourcedefinitions": null})
}

#[test]
fn every_row_of_the_minimum_version() {
    let rows = [
        (
            "1.20.0",
            Some("v1.36.3"),
            "Present: CSV minKubeVersion (1.20.0) less than server version (v1.36.3)",
        ),
        (
            "1.36.3",
            Some("v1.36.3-gke.1"),
            "Present: CSV minKubeVersion (1.36.3) less than server version (v1.36.3-gke.1)",
        ),
        ("1.20.0", None, "PresentNotSatisfied: Server version discovery error"),
        ("1.20.0", Some("new"), "PresentNotSatisfied: Server version parsing error"),
        ("old", Some("v1.36.3"), "PresentNotSatisfied: CSV version parsing error"),
        (
            "99.0.0",
            Some("v1.36.3"),
            "PresentNotSatisfied: CSV version requirement not met: minKubeVersion (99.0.0) > server version (1.36.3)",
        ),
    ];
    for (wanted, server, text) in rows {
        let facts = Facts { server_version: server.map(str::to_owned), ..Facts::default() };
        let mut spec = none();
        spec["minKubeVersion"] = wanted.into();
        let text = format!("ClusterServiceVersion a.v1 {text}");
        assert_eq!(list(&spec, &facts).1, [text]);
    }
}

#[test]
fn every_row_of_crds() {
    let crd = |served: &str, is_established, alongside: &[&str]| Crd {
        uid: "u".to_owned(),
        served: [served.to_owned()].into(),
        is_established,
        alongside: alongside.iter().map(|name| (*name).to_owned()).collect(),
    };
    let rows = [
        (None, "NotPresent: CRD is not present"),
        (Some(crd("v2", true, &[])), "NotPresent: CRD version not served"),
        (
            Some(crd("v1", true, &["a.v0", "foreign"])),
            "PresentNotSatisfied: CRD installed alongside other CSV(s): a.v0",
        ),
        (
            Some(crd("v1", false, &["a.v0", "a.v1"])),
            "PresentNotAvailable: CRD is present but the Established condition is False (not available)",
        ),
        (Some(crd("v1", true, &["foreign"])), "Present: CRD is present and Established condition is true"),
    ];
    for (crd, text) in rows {
        let mut facts = Facts { predecessors: ["a.v0".to_owned()].into(), ..Facts::default() };
        facts.crds.extend(crd.map(|crd| ("as.example.com".to_owned(), crd)));
        let (met, list) = list(&json!({}), &facts);
        assert_eq!(list, [format!("CustomResourceDefinition as.example.com {text}")]);
        assert_eq!(met, text.starts_with("Present:"));
    }
}

#[test]
fn every_row_of_api_services_and_native_apis() {
    let service = |group: &str, deployment: &str| json!({"name": "ws", "group": group, "version": "v1", "kind": "W", "deploymentName": deployment});
    let mut spec = none();
    spec["apiservicedefinitions"] = json!({
        "required": [service("a.io", ""), service("b.io", ""), service("own.io", "")],
        "owned": [service("own.io", "op"), service("out.io", "other")],
    });
    spec["nativeAPIs"] = json!([
        {"group": "apps", "version": "v1", "kind": "Deployment"}, {"group": "none.io", "version": "v1", "kind": "Nothing"},
    ]);
    spec["install"] = json!({"strategy": "deployment", "spec": {"deployments": [
        {"name": "op", "spec": {"selector": {}, "template": {}}},
    ]}});
    let kind = |group: &str, kind: &str| (group.to_owned(), "v1".to_owned(), kind.to_owned());
    let facts = Facts {
        served: [kind("apps", "Deployment"), kind("a.io", "W"), kind("b.io", "W")].into(),
        api_services: [
            ("v1.a.io".to_owned(), ApiService { uid: "u".to_owned(), is_available: true }),
            ("v1.b.io".to_owned(), ApiService { uid: "u".to_owned(), is_available: false }),
        ]
        .into(),
        ..Facts::default()
    };
    let (met, list) = list(&spec, &facts);
    assert!(!met);
    assert_eq!(
        list,
        [
            "APIService v1.a.io Present: ",
            "APIService v1.b.io NotPresent: ",
            "APIService v1.out.io DeploymentNotFound: ",
            "APIService v1.own.io DeploymentFound: ",
            "Deployment v1.apps Present: Native API exists",
            "Nothing v1.none.io NotPresent: Native API does not exist",
        ]
    );
}

#[test]
fn every_row_of_service_accounts() {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let mut spec = none();
    spec["install"] = json!({"strategy": "deployment", "spec": {
        "deployments": [],
        "permissions": [{"serviceAccountName": "a", "rules": [rule]}],
        "clusterPermissions": [{"serviceAccountName": "a", "rules": [rule]}],
    }});
    let held = |cluster: bool| {
        let rules = vec![Rule::new("", "pods", None, &["get"])];
        let mut held = olm_rbac::Held::default();
        if cluster {
            held.cluster = rules;
        } else {
            held.namespaces.insert("ops".to_owned(), rules);
        }
        held
    };
    let account = |is_foreign, cluster| Account { uid: "u".to_owned(), is_foreign, held: held(cluster) };
    let rows = [
        (None, "NotPresent: Service account does not exist"),
        (
            Some(account(true, true)),
            "PresentNotSatisfied: Service account is owned by another ClusterServiceVersion",
        ),
        (Some(account(false, false)), "PresentNotSatisfied: Policy rule not satisfied for service account"),
        (Some(account(false, true)), "Present: "),
    ];
    for (account, text) in rows {
        let mut facts = Facts::default();
        facts.accounts.extend(account.map(|account| ("a".to_owned(), account)));
        assert_eq!(list(&spec, &facts).1, [format!("ServiceAccount a {text}")]);
    }
    let mut facts = Facts::default();
    facts.accounts.insert("a".to_owned(), account(false, false));
    let found = requirements(&with("Pending", "", &spec), &facts).unwrap();
    let dependents = &found.statuses[0].dependents;
    let rule = r#"rule:{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}"#;
    let line = |one: &olm_api_classic::DependentStatus| {
        format!("{} {}", one.status, one.message.as_deref().unwrap_or_default())
    };
    let lines: Vec<_> = dependents.iter().map(line).collect();
    assert_eq!(lines, [format!("Satisfied namespaced {rule}"), format!("NotSatisfied cluster {rule}")]);
}

#[test]
fn the_requirements_are_listed_in_order() {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let crd = |name: &str| json!({"name": name, "version": "v1", "kind": "A"});
    let service = |group: &str| json!({"name": "ws", "group": group, "version": "v1", "kind": "W"});
    let spec = json!({
        "minKubeVersion": "1.20.0",
        "customresourcedefinitions": {"owned": [crd("b.x.io")], "required": [crd("c.x.io"), crd("a.x.io")]},
        "apiservicedefinitions": {"owned": [service("a.io")], "required": [service("z.io"), service("y.io")]},
        "nativeAPIs": [{"group": "z", "version": "v1", "kind": "Z"}, {"group": "a", "version": "v1", "kind": "A"}],
        "install": {"strategy": "deployment", "spec": {"deployments": [], "permissions": [
            {"serviceAccountName": "b", "rules": [rule]}, {"serviceAccountName": "a", "rules": [rule]},
        ]}},
    });
    let found = requirements(&with("Pending", "", &spec), &Facts::default()).unwrap();
    let names: Vec<_> = found.statuses.iter().map(|one| one.name.as_str()).collect();
    let crds = ["a.x.io", "b.x.io", "c.x.io"];
    let wanted =
        [&["a.v1"], &crds[..], &["v1.y.io", "v1.z.io", "v1.a.io"], &["v1.z", "v1.a"], &["a", "b"]].concat();
    assert_eq!(names, wanted);
}

#[test]
fn only_a_crd_that_is_owned_has_to_be_let_go_by_the_version_before() {
    let crd = Crd {
        uid: "u".to_owned(),
        served: ["v1".to_owned()].into(),
        is_established: true,
        alongside: ["a.v0".to_owned()].into(),
    };
    let facts = Facts {
        predecessors: ["a.v0".to_owned()].into(),
        crds: [("as.x.io".to_owned(), crd)].into(),
        ..Facts::default()
    };
    let of = |owned: Value, required: Value| {
        let spec = json!({"customresourcedefinitions": {"owned": owned, "required": required}});
        let found = requirements(&with("Pending", "", &spec), &facts).unwrap();
        found.statuses.into_iter().map(|one| (one.status, one.uuid)).collect::<Vec<_>>()
    };
    let (crd, none) = (json!([{"name": "as.x.io", "version": "v1", "kind": "A"}]), json!([]));
    let present = ("Present".to_owned(), Some("u".to_owned()));
    assert_eq!(of(none.clone(), crd.clone()), [present]);
    let blocked = ("PresentNotSatisfied".to_owned(), None);
    assert_eq!(of(crd.clone(), none), std::slice::from_ref(&blocked));
    assert_eq!(of(crd.clone(), crd), [blocked], "one that is owned and required is owned");
}

#[test]
fn a_role_of_its_own_and_one_for_all_namespaces_both_give_a_permission() {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let mut spec = none();
    spec["install"] = json!({"strategy": "deployment", "spec": {
        "deployments": [], "permissions": [{"serviceAccountName": "a", "rules": [rule]}],
    }});
    let mut everywhere = olm_rbac::Held::default();
    everywhere.cluster.push(Rule::new("", "pods", None, &["get"]));
    let mut elsewhere = olm_rbac::Held::default();
    elsewhere.namespaces.insert("other".to_owned(), vec![Rule::new("", "pods", None, &["get"])]);
    for (held, met) in [(everywhere, true), (elsewhere, false)] {
        let account = Account { uid: "u".to_owned(), is_foreign: false, held };
        let facts = Facts { accounts: [("a".to_owned(), account)].into(), ..Facts::default() };
        assert_eq!(list(&spec, &facts).0, met);
    }
}
