use olm_dependencies::requirements;
use serde_json::{Value, json};

use super::*;

/// An extension of a package, with annotations under our prefix.
fn one(name: &str, package: &str, annotations: &[(&str, &str)]) -> ClusterExtension {
    let prefixed = |(key, value): &(&str, &str)| {
        (format!("extensions.olm.operatorframework.io/{key}"), (*value).to_owned())
    };
    let catalog = json!({"packageName": package, "selector": {"matchLabels": {"team": "a"}}});
    let mut extension: ClusterExtension = serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": name, "uid": format!("u-{name}"), "labels": {"team": "a"}},
        "spec": {
            "namespace": "shop", "serviceAccount": {"name": "installer"},
            "source": {"sourceType": "Catalog", "catalog": catalog},
        },
    }))
    .unwrap();
    extension.annotations_mut().extend(annotations.iter().map(prefixed));
    extension
}

/// One that was created for another, and goes when nothing needs it.
fn created(name: &str, origin: &str) -> ClusterExtension {
    let origin = format!("{origin}/u-{origin}");
    one(name, name, &[("dependencies", "InstallAndRemove"), ("required-by", &origin)])
}

fn with_status(mut extension: ClusterExtension, status: Value) -> ClusterExtension {
    extension.status = Some(serde_json::from_value(status).unwrap());
    extension
}

fn installed(name: &str, version: &str) -> ClusterExtension {
    let bundle = json!({"name": format!("{name}.v{version}"), "version": version});
    with_status(one(name, name, &[]), json!({"install": {"bundle": bundle}}))
}

fn deleted(mut extension: ClusterExtension) -> ClusterExtension {
    extension.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    extension
}

fn package(name: &str, range: &str) -> Requirement {
    let value = json!({"packageName": name, "versionRange": range});
    let property = json!({"type": "olm.package.required", "value": value});
    requirements(&[serde_json::from_value(property).unwrap()]).unwrap().remove(0)
}

fn kind(name: &str) -> Requirement {
    let value = json!({"group": "example.com", "version": "v1", "kind": name});
    let property = json!({"type": "olm.gvk.required", "value": value});
    requirements(&[serde_json::from_value(property).unwrap()]).unwrap().remove(0)
}

fn provider(package: &str, version: &str) -> Provider {
    Provider {
        catalog: "coast".into(),
        package: package.into(),
        version: version.into(),
        bundle: format!("{package}.v{version}"),
    }
}

/// What is created, by name and version, and what is awaited; or why nothing is.
fn outcome(
    missing: &[(Requirement, Vec<Provider>)],
    needy: &ClusterExtension,
    others: &[ClusterExtension],
) -> Result<(Vec<String>, Vec<String>), String> {
    let missing: Vec<_> =
        missing.iter().map(|(requirement, providers)| (requirement, providers.clone())).collect();
    let all: Vec<&ClusterExtension> = [needy].into_iter().chain(others).collect();
    let found = installs(needy, &missing, &all)?;
    let version =
        |one: &ClusterExtension| one.spec.source.catalog.clone().unwrap().version.unwrap_or_default();
    let create =
        found.create.iter().map(|one| format!("{} {}", one.name_any(), version(one)).trim().to_owned());
    Ok((create.collect(), found.awaited.into_iter().collect()))
}

/// Checks what comes of missing requirements: names and versions of what is created with the sentence about what is awaited,
/// or a part of the reason.
fn check(
    words: &str,
    (missing, others): (&[(Requirement, Vec<Provider>)], &[ClusterExtension]),
    wanted: Result<(&[&str], &str), &str>,
) {
    let needy = one("needy", "needy", &[("dependencies", "Install")]);
    match (outcome(missing, &needy, others), wanted) {
        (Ok((create, awaited)), Ok((names, sentence))) => {
            assert_eq!(
                (create, awaited.join("\n")),
                (names.iter().map(ToString::to_string).collect(), sentence.to_owned()),
                "{words}"
            );
        }
        (Err(why), Err(part)) => assert!(why.contains(part), "{words}: {why}"),
        (found, wanted) => panic!("{words}: {found:?} instead of {wanted:?}"),
    }
}

fn base() -> (Requirement, Vec<Provider>) {
    (package("base", ">=1.0.0 <2.0.0"), vec![provider("base", "1.2.0")])
}

#[test]
fn what_is_missing_is_created() {
    let both = |more| [base(), more];
    check("missing", (&[base()], &[]), Ok((&["base >=1.0.0 <2.0.0"], "")));
    let widget = (kind("Widget"), vec![provider("kinds", "1.0.0")]);
    check("two packages", (&both(widget), &[]), Ok((&["base >=1.0.0 <2.0.0", "kinds"], "")));
    let widget = (kind("Widget"), vec![provider("aaa", "1.0.0"), provider("base", "1.2.0")]);
    check("a kind that it brings", (&both(widget), &[]), Ok((&["base >=1.0.0 <2.0.0"], "")));
    let older = (package("base", "<1.1.0"), vec![provider("base", "1.0.0")]);
    check("two ranges", (&both(older), &[]), Err("package \"base\" is required in several ranges"));
    check("no catalog has it", (&both((kind("Gone"), vec![])), &[]), Err("kind Gone"));
    let itself = (package("needy", ">=2.0.0"), vec![provider("needy", "2.0.0")]);
    check("itself", (&[itself], &[]), Err("ClusterExtension \"needy\" has package \"needy\" already"));
    let odd = (package("Base_1", ">=1.0.0"), vec![provider("Base_1", "1.0.0")]);
    check("no name", (&[odd], &[]), Err("because \"Base_1\" cannot be the name"));
}

#[test]
fn what_is_there_already_is_awaited_or_left_alone() {
    check(
        "not rolled out",
        (&[base()], &[one("other", "base", &[])]),
        Ok((&[], "ClusterExtension \"other\" is to install package \"base\", and has not rolled out yet.")),
    );
    check(
        "being deleted",
        (&[base()], &[deleted(installed("base", "1.0.0"))]),
        Ok((
            &[],
            "ClusterExtension \"base\" of package \"base\" is being deleted, and is created anew afterwards.",
        )),
    );
    check(
        "another version",
        (&[base()], &[installed("base", "0.9.0")]),
        Err("because ClusterExtension \"base\" has package \"base\" already"),
    );
    check(
        "the name is taken",
        (&[base()], &[one("base", "other", &[])]),
        Err("because ClusterExtension \"base\" is of another package, \"other\""),
    );
}

#[test]
fn one_that_is_stalled_needs_a_person() {
    let needy = one("needy", "needy", &[]);
    let conditions = json!([{"type": "Stalled", "status": "True", "reason": "Blocked", "message": "",
                             "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let stalled = with_status(one("base", "base", &[]), json!({"conditions": conditions}));
    let base = package("base", ">=1.0.0");
    let found = installs(&needy, &[(&base, vec![provider("base", "1.0.0")])], &[&needy, &stalled]).unwrap();
    assert!(found.is_stalled && found.create.is_empty(), "{found:?}");
}

#[test]
fn it_uses_what_the_extension_uses_that_needs_it_and_nothing_else() {
    let asked = [("dependencies", "InstallAndRemove"), ("deletion-guard", "Block"), ("paused", "true")];
    let needy = one("needy", "needy", &asked);
    let base = package("base", ">=1.0.0");
    let found = installs(&needy, &[(&base, vec![provider("base", "1.0.0")])], &[&needy]).unwrap();
    assert_eq!(
        serde_json::to_value(&found.create[0]).unwrap(),
        json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "base", "annotations": {
                "extensions.olm.operatorframework.io/dependencies": "InstallAndRemove",
                "extensions.olm.operatorframework.io/deletion-guard": "Block",
                "extensions.olm.operatorframework.io/required-by": "needy/u-needy",
            }},
            "spec": {
                "namespace": "shop", "serviceAccount": {"name": "installer"},
                "source": {"sourceType": "Catalog", "catalog": {
                    "packageName": "base", "version": ">=1.0.0", "upgradeConstraintPolicy": "CatalogProvided",
                    "selector": {"matchLabels": {"team": "a"}},
                }},
            },
        })
    );
}

#[test]
fn chains_and_cycles_end() {
    let next = |number: usize| {
        (package(&format!("p{number}"), ">=1.0.0"), vec![provider(&format!("p{number}"), "1.0.0")])
    };
    let mut line = vec![one("root", "root", &[]), created("p1", "root")];
    for number in 2..DEPTH_MAX {
        let last = line[line.len() - 1].clone();
        assert!(outcome(&[next(number)], &last, &line).is_ok(), "{number}");
        line.push(created(&format!("p{number}"), &last.name_any()));
    }
    let last = created("last", &line[line.len() - 1].name_any());
    let why = outcome(&[next(99)], &last, &line).unwrap_err();
    assert!(why.contains("because 4 extensions were created for one another already"), "{why}");
    // The first may have more, up to the limit.
    let many = |count: usize| (10..10 + count).map(next).collect::<Vec<_>>();
    let room = CREATED_MAX - (line.len() - 1);
    assert_eq!(outcome(&many(room), &line[0], &line[1..]).unwrap().0.len(), room);
    let why = outcome(&many(room + 1), &line[0], &line[1..]).unwrap_err();
    assert!(why.contains("more than 10 extensions would be created for ClusterExtension \"root\""), "{why}");
    // Those of one line count for the first of it.
    let why = outcome(&many(room + 1), &line[1], &line).unwrap_err();
    assert!(why.contains("for ClusterExtension \"root\""), "{why}");
    // a needs b, which needs a: a is there.
    let (a, b) = (one("a", "a", &[]), created("b", "a"));
    let (create, awaited) =
        outcome(&[(package("a", ">=1.0.0"), vec![provider("a", "1.0.0")])], &b, &[a]).unwrap();
    assert!(create.is_empty() && awaited.len() == 1, "{create:?} {awaited:?}");
    // Records that were made to lead in a circle.
    let (left, right) = (created("left", "right"), created("right", "left"));
    assert!(outcome(&[next(1)], &left, &[right]).is_err());
}

#[test]
fn a_plan_names_them_before_and_after_they_are_created() {
    let needy = one("needy", "needy", &[]);
    let base = created("base", "needy");
    let other = created("other", "someone");
    let text = vec!["ClusterExtension base: package base".to_owned()];
    assert_eq!(lines(&needy, std::slice::from_ref(&base), &[&needy, &other]), (text.clone(), text.clone()));
    assert_eq!(lines(&needy, &[], &[&needy, &base, &other]), (Vec::new(), text));
    assert_eq!(lines(&needy, &[], &[&needy, &other]), (Vec::new(), Vec::new()));
}

#[test]
fn it_goes_when_nothing_needs_it_and_not_before() {
    let needy = || one("needy", "needy", &[]);
    let base = || created("base", "needy");
    let edited = |key: &str, value: Option<&str>| {
        let mut base = base();
        let key = format!("extensions.olm.operatorframework.io/{key}");
        let _ = match value {
            Some(value) => base.annotations_mut().insert(key, value.to_owned()),
            None => base.annotations_mut().remove(&key),
        };
        base
    };
    let second = || one("second", "second", &[]);
    let mut another = needy();
    another.metadata.uid = Some("u-another".to_owned());
    let own = &[("needy", "base")][..];
    let both = &[("needy", "base"), ("second", "base")][..];
    let by_second = &[("second", "base")][..];
    for (words, base, others, needs, settled, goes) in [
        ("the first needs it", base(), vec![needy()], own, true, false),
        ("the first still installs", base(), vec![needy()], &[][..], false, false),
        ("the first has all it wants without it", base(), vec![needy()], &[][..], true, true),
        ("the first is being removed", base(), vec![deleted(needy())], own, true, false),
        ("its objects are not gone yet", base(), vec![], own, false, false),
        ("it is gone", base(), vec![], &[][..], false, true),
        ("it is gone, and the second needs it", base(), vec![second()], by_second, false, false),
        ("both need it", base(), vec![needy(), second()], both, true, false),
        ("the second is gone, the first needs it", base(), vec![needy()], own, true, false),
        ("both are gone", base(), vec![], &[][..], false, true),
        ("the record was removed", edited("required-by", None), vec![], &[][..], false, false),
        ("it is to stay", edited("dependencies", Some("Install")), vec![], &[][..], false, false),
        ("nothing is said of it", edited("dependencies", None), vec![], &[][..], false, false),
        ("another of the name of the first", base(), vec![another], &[][..], false, true),
    ] {
        let all: Vec<&ClusterExtension> = [&base].into_iter().chain(&others).collect();
        assert_eq!(is_unneeded(&base, &all, &pairs(needs), |_| settled), goes, "{words}");
    }
}

fn pairs(needs: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    needs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect()
}

#[test]
fn those_that_need_each_other_go_together_and_others_one_after_another() {
    let goes = |extension: &ClusterExtension, others: &[&ClusterExtension], needs: &[(&str, &str)]| {
        let all: Vec<&ClusterExtension> = [extension].into_iter().chain(others.iter().copied()).collect();
        is_unneeded(extension, &all, &pairs(needs), |_| true)
    };
    let (base, deep) = (created("base", "needy"), created("deep", "base"));
    let line = [("needy", "base"), ("base", "deep")];
    assert!(!goes(&base, &[&deep], &line) && !goes(&deep, &[&base], &line));
    assert!(goes(&base, &[&deep], &line[1..]), "the first of the line");
    assert!(!goes(&deep, &[&base], &line[1..]), "the second waits for it");
    let circle = [("base", "deep"), ("deep", "base")];
    assert!(goes(&base, &[&deep], &circle) && goes(&deep, &[&base], &circle));
    let needed = [("base", "deep"), ("deep", "base"), ("needy", "deep")];
    assert!(!goes(&base, &[&deep], &needed) && !goes(&deep, &[&base], &needed));
    let kept = one("deep", "deep", &[]);
    assert!(!goes(&base, &[&kept], &circle), "a user's own needs it");
}
