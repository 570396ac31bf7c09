//! The version expression of a ClusterExtension.

use olm_test::prelude::*;

use super::cluster_extension::extension;
use super::{Rows, check_creates};

const VERSION: &str = "spec.source.catalog.version";

fn accepted(texts: impl IntoIterator<Item = String>) -> Rows {
    texts.into_iter().fold(Rows::of(&extension()), |rows, text| rows.yes(VERSION, text))
}

#[tokio::test]
async fn the_documented_strings_are_accepted() -> Result<()> {
    let documented = [
        ">=1.11, <1.13",
        "1.11.x",
        ">=1.12.X",
        "<=2.x",
        "*",
        "~1.11.0",
        "~1",
        "~1.12",
        "~1.12.x",
        "~1.x",
        "^0",
        "^0.0",
        "^0.0.3",
        "^0.2",
        "^0.2.3",
        "^1.2.x",
        "^1.2.3",
        "^2.x",
        "^2.3",
        "1.11.1",
        ">1.11.1",
        "1.14.0",
        "1.14.x",
        ">=1.16",
    ];
    check_creates::<ClusterExtension>(accepted(documented.map(str::to_owned))).await
}

#[tokio::test]
async fn every_operator_takes_every_form_of_version() -> Result<()> {
    let operators = ["", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^"];
    let forms =
        ["1", "1.2", "v1.2.3", " 1.2.3", "x", "*", "1.X", "1.*", "1.2.*", "1.2.3-alpha.1", "1.2.3+a-b.c"];
    let texts = operators.iter().flat_map(|operator| forms.map(|form| format!("{operator}{form}")));
    check_creates::<ClusterExtension>(accepted(texts)).await
}

#[tokio::test]
async fn terms_are_joined_by_blanks_commas_and_bars() -> Result<()> {
    let joined =
        ["", " 1.2.3 ", "1 2", ">=1,<2", ">=1 , <2", "1||2", "1 || 2", "1 || x", "1.*", "0.0.0", "\t1\n"];
    // Upstream's expression refuses these: its brackets are misplaced.
    let wildcards = ["1 || *", "1.2.* || 1.3.*", ">=1.11.0 <2.0.*", "1.2.x || >=2.0.*, !=2.1.*"];
    let longest = format!("1.2.3-{}", "a".repeat(58));
    let texts = joined.into_iter().chain(wildcards).map(str::to_owned).chain([longest]);
    check_creates::<ClusterExtension>(accepted(texts)).await
}

#[tokio::test]
async fn everything_else_is_refused() -> Result<()> {
    let operators = ["==1.2.3", "=!1.2.3", "!1.2.3", "<<1.2.3", ">>1.2.3", ">~1.2.3", "~~1", "=", ">="];
    let joins =
        ["1.2.3 - 2.3.4", ">=1 && <2", "1.2.3;2.3.4", "|", "1 | 2", "1 ||", "|| 1", ", 1", "1,,2", " "];
    let versions =
        ["1.2.3.4", ".1", "1.", "1..2", "01.2.3", "1.02.3", "1.2.03", "1.Y", "1.2.3-", "1.2.3+", "-1"];
    let others = ["v", "latest", "*]", "[1.2.3]", "1\u{e4}", "V1"];
    let rows = operators.iter().chain(&joins).chain(&versions).chain(&others).fold(
        Rows::of(&extension()).no(
            VERSION,
            format!("1.2.3-{}", "a".repeat(59)),
            "Too long: may not be more than 64",
        ),
        |rows, text| rows.no(VERSION, *text, "invalid version expression"),
    );
    check_creates::<ClusterExtension>(rows).await
}
