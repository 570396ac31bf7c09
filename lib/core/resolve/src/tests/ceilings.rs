//! What an update policy leaves of the catalogs.

use super::case::Case;
use crate::{AvailableUpdate, Ceiling, Reason, available_update, explain};

const PATH: [&str; 3] = ["1.0.0", "1.1.0 replaces 1.0.0", "2.0.0 replaces 1.1.0 range <2.0.0"];

fn under(mut case: Case, catalogs: &[&str], versions: Option<&str>) -> Case {
    case.request.ceiling = Some(Ceiling {
        policy: "prod".to_owned(),
        catalogs: catalogs.iter().map(|name| (*name).to_owned()).collect(),
        versions: versions.map(str::to_owned),
    });
    case
}

fn case() -> Case {
    Case::new("ceiling").package("p", PATH)
}

#[test]
fn the_best_bundle_that_is_allowed_is_chosen_and_the_policy_is_named() {
    let case = under(case().installed("1.0.0"), &[], Some("<2"));
    let rejected = explain(&case.request, &case.views());
    let newest = rejected.iter().find(|one| one.bundle == "p.v2.0.0").unwrap();
    assert_eq!(
        newest.reasons,
        [Reason::PolicyVersions { range: "<2".to_owned(), policy: "prod".to_owned() }]
    );
    assert!(newest.to_string().ends_with("is outside the range \"<2\" of update policy prod"), "{newest}");
    // What there would be without the policy is still reported.
    let update = available_update(&case.request, &case.views(), case.resolve().as_ref().ok());
    assert_eq!(update, Some(AvailableUpdate::Newer("2.0.0".to_owned())));
    case.resolves_to("1.1.0");
}

#[test]
fn nothing_is_downgraded_to_fit() {
    under(case().installed("2.0.0").self_certified(), &[], Some("<2")).resolves_to("2.0.0");
    under(case().installed("2.0.0").self_certified(), &["other"], None).resolves_to("2.0.0");
    under(case().installed("2.0.0").self_certified(), &[], Some("no range")).resolves_to("2.0.0");
    under(case().installed("1.0.0"), &[], Some("no range")).resolves_to("1.0.0");
}

#[test]
fn bundles_of_other_catalogs_are_no_candidates() {
    let two = || case().installed("1.0.0").catalog("other", 5).package("p", PATH);
    let allowed = under(two(), &["catalog"], None);
    let rejected = explain(&allowed.request, &allowed.views());
    let reason = Reason::PolicyCatalog { catalog: "other".to_owned(), policy: "prod".to_owned() };
    assert!(rejected.iter().filter(|one| one.catalog == "other").all(|one| one.reasons.contains(&reason)));
    allowed.resolves_in("catalog", "2.0.0");
    // Also if what is installed came from the catalog that is not allowed any more.
    under(two().installed_from("other"), &["catalog"], None).resolves_in("catalog", "2.0.0");
    // What is installed stays rather than going back to an older version of an allowed catalog.
    let older = || {
        Case::new("older").package("p", ["1.0.0"]).catalog("other", 5).package("p", PATH).installed("1.1.0")
    };
    under(older().self_certified().installed_from("other"), &["catalog"], None).resolves_in("other", "1.1.0");
    let none = under(case(), &["other"], None);
    let error = none.resolve().unwrap_err();
    assert!(
        error.rejected[0]
            .to_string()
            .ends_with("is from catalog catalog, which update policy prod does not allow"),
        "{error:?}"
    );
}
