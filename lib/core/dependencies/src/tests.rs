use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::{Bundle, PackageContent, Property};
use olm_object::GroupVersionKind;
use olm_semver::Version;
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use crate::{
    InstalledBundle, PendingBundle, Requirement, RequirementError, Work, can_proceed, cluster_extension,
    is_met, providers, requirements, unmet,
};

fn properties(value: Value) -> Vec<Property> {
    serde_json::from_value(value).unwrap()
}

fn one(kind: &str, value: Value) -> Result<Requirement, RequirementError> {
    let property = Property { kind: kind.to_owned(), value };
    let mut all = requirements(&[property])?;
    assert_eq!(all.len(), 1);
    Ok(all.remove(0))
}

fn constraint(value: Value) -> Requirement {
    one("olm.constraint", value).unwrap()
}

/// A bundle: package, version, properties beside them.
struct There(String, Version, Vec<Property>);

fn there(package: &str, version: &str, all: Value) -> There {
    There(package.to_owned(), version.parse().unwrap(), properties(all))
}

impl There {
    fn present(&self) -> InstalledBundle<'_> {
        InstalledBundle { package: &self.0, version: Some(&self.1), properties: &self.2 }
    }
}

fn met(requirement: &Requirement, installed: &[There], served: &[&str]) -> bool {
    let present: Vec<_> = installed.iter().map(There::present).collect();
    is_met(
        requirement,
        &present,
        &|kind: &GroupVersionKind| served.contains(&kind.kind.as_str()),
        &Work::default(),
    )
}

fn kind(name: &str) -> Value {
    json!({"group": "g", "version": "v1", "kind": name})
}

fn provides(name: &str) -> Value {
    json!([{"type": "olm.gvk", "value": kind(name)}])
}

#[test]
fn a_package_is_required_in_a_range() {
    let required =
        one("olm.package.required", json!({"packageName": "db", "versionRange": ">=1.0.0 <2.0.0"})).unwrap();
    assert_eq!(required.to_string(), "package \"db\" in version range \">=1.0.0 <2.0.0\"");
    assert!(!met(&required, &[], &[]));
    assert!(!met(&required, &[there("db", "2.0.0", json!([]))], &[]));
    assert!(!met(&required, &[there("other", "1.2.0", json!([]))], &[]));
    assert!(met(&required, &[there("other", "1.2.0", json!([])), there("db", "1.2.0", json!([]))], &[]));
    let any = one("olm.package.required", json!({"packageName": "db"})).unwrap();
    assert!(met(&any, &[there("db", "9.0.0", json!([]))], &[]));
    let unknown = InstalledBundle { package: "db", version: None, properties: &[] };
    assert!(!is_met(&required, &[unknown], &|_| false, &Work::default()));
    assert!(is_met(&any, &[unknown], &|_| false, &Work::default()));
}

/// Each is within its own limit; together they would take minutes at every reconcile.
#[test]
fn the_expressions_of_a_resolution_have_one_budget() {
    let rule = |number: usize| json!({"cel": {"rule": format!("properties.all(p, properties.all(q, properties.all(r, p.type != 'x{number}')))")}});
    let of = |count: usize| -> Vec<Requirement> {
        let property = |number| json!({"type": "olm.constraint", "value": rule(number)});
        requirements(&properties((0..count).map(property).collect())).unwrap()
    };
    let present: Vec<_> = (0..24).map(|number| json!({"type": "t", "value": number})).collect();
    let installed = there("db", "1.0.0", json!(present));
    let [one] = of(1).try_into().unwrap();
    let work = Work::default();
    assert!(is_met(&one, &[installed.present()], &|_| false, &work));
    assert_eq!(work.check(), Ok(()));
    let all = of(250);
    let missing = unmet(&all, &[installed.present()], &|_| false, &work).len();
    assert!((1..250).contains(&missing), "{missing}");
    assert_eq!(work.check(), Err(RequirementError::EvaluationCost));
    // Expressions that take too much themselves are false, and the others are evaluated.
    let large: Vec<_> = (0..200).map(|number| json!({"type": "t", "value": number})).collect();
    let large = there("db", "1.0.0", json!(large));
    let work = Work::default();
    assert!(!is_met(&one, &[large.present()], &|_| false, &work));
    assert!(is_met(&one, &[installed.present()], &|_| false, &work));
    assert_eq!(work.check(), Ok(()));
}

#[test]
fn one_waiting_bundle_takes_no_work_from_the_others() {
    let cycle = |other: &str| {
        let need = json!([{"type": "olm.package.required", "value": {"packageName": other, "versionRange": ">=1.0.0"}}]);
        requirements(&properties(need)).unwrap()
    };
    let (a, b) = (there("a", "1.0.0", json!([])), there("b", "1.0.0", json!([])));
    let many: Vec<_> = (0..250)
        .map(|number| {
            let nested = format!("properties.all(p, properties.all(q, properties.all(r, properties.all(s, p.type != 'x{number}'))))");
            json!({"type": "olm.constraint", "value": {"cel": {"rule": nested}}})
        })
        .collect();
    let hostile = requirements(&properties(many.into_iter().collect())).unwrap();
    let large: Vec<_> = (0..100).map(|number| json!({"type": "t", "value": number})).collect();
    let large = there("large", "1.0.0", json!(large));
    let (needs_b, needs_a) = (cycle("b"), cycle("a"));
    let waiting = [
        PendingBundle { extension: "hostile", bundle: large.present(), requirements: &hostile },
        PendingBundle { extension: "a", bundle: a.present(), requirements: &needs_b },
        PendingBundle { extension: "b", bundle: b.present(), requirements: &needs_a },
    ];
    let installed = [large.present()];
    assert!(can_proceed("a", &waiting, &installed, &|_| false));
    assert!(!can_proceed("hostile", &waiting, &installed, &|_| false));
}

#[test]
fn a_kind_is_met_by_a_bundle_or_by_the_cluster() {
    let required = one("olm.gvk.required", kind("Database")).unwrap();
    assert_eq!(required.to_string(), "kind Database of g/v1");
    assert!(!met(&required, &[there("db", "1.0.0", provides("Table"))], &[]));
    assert!(met(&required, &[there("db", "1.0.0", provides("Database"))], &[]));
    assert!(met(&required, &[], &["Database"]));
    let own = properties(json!([
        {"type": "olm.gvk", "value": kind("Database")},
        {"type": "olm.gvk.required", "value": kind("Database")},
        {"type": "olm.gvk.required", "value": kind("Table")},
        {"type": "olm.gvk.required", "value": kind("Table")},
    ]));
    let found: Vec<_> = requirements(&own).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["kind Table of g/v1"],
        "what it brings itself is no requirement, and each counts once"
    );
}

#[test]
fn a_constraint_is_a_statement_about_one_bundle() {
    let package = |name: &str| json!({"package": {"packageName": name, "versionRange": ">=1.0.0"}});
    let db = || {
        there(
            "db",
            "1.0.0",
            json!([{"type": "certified", "value": true}, {"type": "olm.gvk", "value": kind("Database")}]),
        )
    };
    let cel = json!({"cel": {"rule": "properties.exists(p, p.type == 'certified' && p.value == true)"}});

    let all = constraint(json!({"all": {"constraints": [package("db"), cel]}}));
    assert!(met(&all, &[db()], &[]));
    assert!(!met(
        &all,
        &[
            there("db", "1.0.0", json!([])),
            there("x", "1.0.0", json!([{"type": "certified", "value": true}]))
        ],
        &[]
    ));

    let any = constraint(json!({"any": {"constraints": [package("db"), package("store")]}}));
    assert!(met(&any, &[there("store", "1.5.0", json!([]))], &[]));
    assert!(!met(&any, &[there("store", "0.5.0", json!([]))], &[]));

    let nested = constraint(
        json!({"all": {"constraints": [{"gvk": kind("Database")}, {"not": {"constraints": [package("db")]}}]}}),
    );
    assert!(!met(&nested, &[db()], &[]), "the bundle with the kind is the one it must not be");
    assert!(met(&nested, &[db(), there("other", "1.0.0", provides("Database"))], &[]));

    let kinds = constraint(json!({"any": {"constraints": [{"gvk": kind("A")}, {"gvk": kind("B")}]}}));
    assert!(met(&kinds, &[], &["B"]));
    let both = constraint(json!({"all": {"constraints": [{"gvk": kind("A")}, {"gvk": kind("B")}]}}));
    assert!(!met(&both, &[], &["B"]) && met(&both, &[], &["A", "B"]));
}

/// The examples of OLM's documentation, in the form of this file.
#[test]
fn documented_constraints_mean_what_their_documentation_says() {
    let marked = |all: Value| there("db", "1.5.0", all);
    let has = |name: &str| json!({"type": name, "value": true});
    let two = constraint(json!({
        "failureMessage": "stable and certified",
        "cel": {"rule": "properties.exists(p, p.type == 'certified') && properties.exists(p, p.type == 'stable')"},
    }));
    assert!(met(&two, &[marked(json!([has("certified"), has("stable")]))], &[]));
    assert!(!met(&two, &[marked(json!([has("certified")]))], &[]));

    let package = json!({
        "failureMessage": "at least version 1", "package": {"packageName": "db", "versionRange": ">=1.0.0"},
    });
    let gvk = json!({"failureMessage": "its API", "gvk": kind("Database")});
    let both = constraint(json!({"failureMessage": "a database", "all": {"constraints": [package, gvk]}}));
    assert!(met(&both, &[marked(provides("Database"))], &[]));
    assert!(!met(&both, &[marked(json!([]))], &[]));
    assert!(!met(&both, &[there("db", "0.9.0", provides("Database"))], &[]));

    let without = constraint(
        json!({"all": {"constraints": [{"package": {"packageName": "db", "versionRange": ">=1.0.0"}},
            {"not": {"constraints": [{"gvk": kind("Rival")}]}}]}}),
    );
    assert!(met(&without, &[marked(provides("Database"))], &[]));
    assert!(!met(&without, &[marked(provides("Rival"))], &[]));

    let of = |range: &str, name: &str| {
        json!({"all": {"constraints": [
            {"package": {"packageName": "db", "versionRange": range}}, {"gvk": kind(name)},
        ]}})
    };
    let either = constraint(json!({"any": {"constraints": [of("<1.0.0", "A"), of(">=1.0.0", "B")]}}));
    let (old, new) = (|| there("db", "0.5.0", provides("A")), || there("db", "1.0.0", provides("B")));
    assert!(met(&either, &[old()], &[]) && met(&either, &[new()], &[]) && met(&either, &[old(), new()], &[]));
    assert!(!met(&either, &[there("db", "1.0.0", provides("A"))], &[]));
}

#[test]
fn not_at_the_top_says_what_must_not_be_there() {
    let not = constraint(
        json!({"failureMessage": "they fight", "not": {"constraints": [{"package": {"packageName": "rival"}}]}}),
    );
    assert!(met(&not, &[], &[]));
    assert!(met(&not, &[there("db", "1.0.0", json!([]))], &[]));
    assert!(!met(&not, &[there("db", "1.0.0", json!([])), there("rival", "1.0.0", json!([]))], &[]));
    assert_eq!(
        not.to_string(),
        "the absence of (package \"rival\" in any version) (the author says: they fight)"
    );
    assert!(not.is_conflict() && not.packages().is_empty());
}

#[test]
fn what_cannot_be_understood_is_refused() {
    let deep = (0..=crate::limits::CONSTRAINT_DEPTH_MAX)
        .fold(json!({"gvk": kind("A")}), |inner, _| json!({"all": {"constraints": [inner]}}));
    let many = json!({"any": {"constraints": vec![json!({"gvk": kind("A")}); 300]}});
    let large = json!({"failureMessage": "x".repeat(140_000), "gvk": kind("A")});
    for (kind_of, value, text) in [
        ("olm.package.required", json!("db"), "property olm.package.required: want {\"packageName\""),
        ("olm.package.required", json!({}), "property olm.package.required: packageName is empty"),
        (
            "olm.package.required",
            json!({"packageName": "db", "versionRange": ">>1"}),
            "property olm.package.required: package \"db\": version range \">>1\" is invalid: ",
        ),
        ("olm.gvk.required", json!({"group": "g"}), "property olm.gvk.required: want {\"group\""),
        (
            "olm.gvk.required",
            json!({"version": "", "kind": ""}),
            "property olm.gvk.required: version or kind is empty",
        ),
        ("olm.constraint", json!({}), "property olm.constraint: constraint is empty"),
        (
            "olm.constraint",
            json!({"all": {"constraints": []}}),
            "property olm.constraint: constraint is empty",
        ),
        (
            "olm.constraint",
            json!({"gvk": kind("A"), "package": {"packageName": "p"}}),
            "property olm.constraint: a constraint has gvk and package, exactly one is allowed",
        ),
        ("olm.constraint", json!({"gvk": kind("A"), "more": 1}), "property olm.constraint: want one of gvk"),
        (
            "olm.constraint",
            json!({"cel": {"rule": "1 +"}}),
            "property olm.constraint: cel.rule does not compile, only the bundle's author can fix it: ",
        ),
        ("olm.constraint", deep, "property olm.constraint: constraints are nested deeper than 16"),
        ("olm.constraint", many, "property olm.constraint: more than 256 constraints in one"),
        ("olm.constraint", large, "olm.constraint value is greater than max constraint size 131072 bytes"),
    ] {
        let error = one(kind_of, value).unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    }
    let all: Vec<Property> = (0..300)
        .map(|i| Property {
            kind: "olm.package.required".to_owned(),
            value: json!({"packageName": format!("p{i}")}),
        })
        .collect();
    assert_eq!(requirements(&all), Err(RequirementError::TooMany(300)));
}

fn content(package: &str, bundles: &[(&str, Value)]) -> PackageContent {
    let bundle = |(version, more): &(&str, Value)| {
        let mut all = properties(
            json!([{"type": "olm.package", "value": {"packageName": package, "version": version}}]),
        );
        all.extend(properties(more.clone()));
        Bundle {
            name: format!("{package}.v{version}"),
            package: package.to_owned(),
            image: String::new(),
            properties: all,
        }
    };
    PackageContent { bundles: bundles.iter().map(bundle).collect(), ..PackageContent::default() }
}

#[test]
fn what_would_help_is_named_with_an_extension_for_it() {
    let db = content(
        "db",
        &[
            ("1.0.0", provides("Database")),
            ("1.4.0", provides("Database")),
            ("1.5.0-rc.1", provides("Database")),
            ("2.0.0", json!([])),
        ],
    );
    let other = content("other", &[("0.1.0", provides("Database"))]);
    let packages = [("low", -1, &db), ("high", 5, &other), ("low", -1, &other)];
    let required = one("olm.gvk.required", kind("Database")).unwrap();
    let found: Vec<_> = providers(&required, &packages, &Work::default())
        .into_iter()
        .map(|p| (p.catalog, p.package, p.version))
        .collect();
    let want = [("high", "other", "0.1.0"), ("low", "db", "1.4.0"), ("low", "other", "0.1.0")];
    assert_eq!(found, want.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));

    let required =
        one("olm.package.required", json!({"packageName": "db", "versionRange": ">=1.0.0 <2.0.0"})).unwrap();
    let provider = providers(&required, &packages, &Work::default()).remove(0);
    let extension = cluster_extension(&required, &provider);
    assert_eq!(
        extension["spec"]["source"]["catalog"],
        json!({"packageName": "db", "version": ">=1.0.0 <2.0.0"})
    );
    assert_eq!(extension["spec"]["serviceAccount"]["name"], "db-installer");
    // Only a pre-release would do: the range would not take it in the other dialect.
    let required =
        one("olm.package.required", json!({"packageName": "db", "versionRange": ">1.4.0 <2.0.0"})).unwrap();
    let provider = providers(&required, &packages, &Work::default()).remove(0);
    assert_eq!(cluster_extension(&required, &provider)["spec"]["source"]["catalog"]["version"], "1.5.0-rc.1");
}

/// Extensions `0..n`; each is a package of its own that needs the ones listed.
struct Needs(Vec<(There, Vec<Requirement>)>);

impl Needs {
    fn new(needs: &[Vec<usize>]) -> Self {
        let of = |(i, needs): (usize, &Vec<usize>)| {
            let required: Vec<_> = needs
                .iter()
                .map(|n| json!({"type": "olm.package.required", "value": {"packageName": format!("p{n}")}}))
                .collect();
            (there(&format!("p{i}"), "1.0.0", json!([])), requirements(&properties(json!(required))).unwrap())
        };
        Self(needs.iter().enumerate().map(of).collect())
    }

    fn goes_on(&self, index: usize, installed: &BTreeSet<usize>) -> bool {
        let waiting: Vec<_> = self
            .0
            .iter()
            .enumerate()
            .filter(|(i, _)| !installed.contains(i))
            .map(|(_, (bundle, requirements))| PendingBundle {
                extension: &bundle.0,
                bundle: bundle.present(),
                requirements,
            })
            .collect();
        let present: Vec<_> = installed.iter().map(|i| self.0[*i].0.present()).collect();
        can_proceed(&format!("p{index}"), &waiting, &present, &|_| false)
    }

    /// Installs until nothing more can be installed; also checks that none overtakes one outside of its cycle.
    fn run(&self) -> BTreeSet<usize> {
        let mut installed = BTreeSet::new();
        while let Some(next) =
            (0..self.0.len()).find(|i| !installed.contains(i) && self.goes_on(*i, &installed))
        {
            installed.insert(next);
        }
        installed
    }
}

#[test]
fn cycles_go_on_and_chains_wait() {
    let pair = Needs::new(&[vec![1], vec![0]]);
    assert!(pair.goes_on(0, &BTreeSet::new()) && pair.goes_on(1, &BTreeSet::new()));
    let chain = Needs::new(&[vec![1], vec![2], vec![]]);
    assert!(!chain.goes_on(0, &BTreeSet::new()) && chain.goes_on(2, &BTreeSet::new()));
    let stuck = Needs::new(&[vec![1], vec![0, 7]]);
    assert!(!stuck.goes_on(0, &BTreeSet::new()) && !stuck.goes_on(1, &BTreeSet::new()));
    let behind = Needs::new(&[vec![1, 2], vec![0], vec![]]);
    assert!(!behind.goes_on(0, &BTreeSet::new()), "what is not on the cycle comes first");
    assert!(behind.goes_on(0, &BTreeSet::from([2])));
    assert!(Needs::new(&[vec![0]]).goes_on(0, &BTreeSet::new()), "itself is a cycle of one");
}

proptest! {
    #[test]
    fn everything_that_can_be_installed_is_and_nothing_overtakes(
        needs in vec(vec(0usize..9, 0..3), 1..8),
    ) {
        let count = needs.len();
        let installed = Needs::new(&needs).run();
        // The greatest set that is closed under what it needs.
        let mut possible: BTreeSet<usize> = (0..count).collect();
        while let Some(lost) = possible.iter().copied().find(|i| needs[*i].iter().any(|n| !possible.contains(n))) {
            possible.remove(&lost);
        }
        prop_assert_eq!(&installed, &possible);
        let reach: BTreeMap<usize, BTreeSet<usize>> = (0..count).map(|i| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![i]);
            while let Some(one) = open.pop() {
                for next in needs.get(one).into_iter().flatten() {
                    if seen.insert(*next) { open.push(*next); }
                }
            }
            (i, seen)
        }).collect();
        let all = Needs::new(&needs);
        for one in &possible {
            let on_a_cycle = reach[one].iter().all(|other| reach.get(other).is_some_and(|back| back.contains(one)));
            prop_assert_eq!(all.goes_on(*one, &BTreeSet::new()), on_a_cycle, "with nothing installed");
        }
    }

    #[test]
    fn any_value_is_read_or_refused_without_harm(text in "[(){}a-z.!\\-+?:&|,'0-9 \\[\\]]{0,80}", range in ".{0,20}") {
        let _ = one("olm.constraint", json!({"cel": {"rule": text}}));
        let _ = one("olm.package.required", json!({"packageName": "p", "versionRange": range}));
    }

    #[test]
    fn what_is_unmet_is_what_is_not_met(needs in vec(0usize..5, 0..6), installed in vec(0usize..5, 0..4)) {
        let all = Needs::new(&[needs]).0.remove(0).1;
        let there: Vec<There> = installed.iter().map(|i| there(&format!("p{i}"), "1.0.0", json!([]))).collect();
        let present: Vec<_> = there.iter().map(There::present).collect();
        let left = unmet(&all, &present, &|_| false, &Work::default()).len();
        prop_assert_eq!(left, all.iter().filter(|one| !met(one, &there, &[])).count());
    }
}
