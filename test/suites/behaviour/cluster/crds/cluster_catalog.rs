//! ClusterCatalog: spec and image references.

use olm_test::prelude::*;

use super::{Rows, check_creates, columns, completed};

const REF: &str = "spec.source.image.ref";
pub(super) const DOMAIN: &str = "must start with a valid domain. valid domains must be alphanumeric characters (lowercase and uppercase) separated by the \".\" character.";
pub(super) const NAME: &str = "a valid name is required. valid names must contain lowercase alphanumeric characters separated only by the \".\", \"_\", \"__\", \"-\" characters.";
const END: &str = "must end with a digest or a tag";
const TAG_LENGTH: &str = "tag is invalid. the tag must not be more than 127 characters";
const TAG: &str = "tag is invalid. valid tags must begin with a word character (alphanumeric + \"_\") followed by word characters or \".\", and \"-\" characters";
pub(super) const ALGORITHM: &str = "digest algorithm is not valid. valid algorithms must start with an uppercase or lowercase alpha character followed by alphanumeric characters and may contain the \"-\", \"_\", \"+\", and \".\" characters.";
pub(super) const DIGEST_LENGTH: &str =
    "digest is not valid. the encoded string must be at least 32 characters";
pub(super) const HEX: &str =
    "digest is not valid. the encoded string must only contain hex characters (A-F, a-f, 0-9)";
const UNION: &str = "image is required when source type is Image, and forbidden otherwise";

pub(super) fn catalog() -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": {"name": "crds-catalog"},
        "spec": {"source": {"type": "Image", "image": {"ref": "quay.io/operatorhubio/catalog:latest"}}},
    })
}

pub(super) fn hex(characters: usize) -> String {
    "0123456789abcdef".chars().cycle().take(characters).collect()
}

#[tokio::test]
async fn references_that_could_be_right_are_accepted() -> Result<()> {
    let rows = Rows::of(&catalog())
        .yes(REF, "quay.io/operatorhubio/catalog:latest")
        .yes(REF, format!("quay.io/operatorhubio/catalog@sha256:{}", hex(64)))
        .yes(REF, "localhost:5000/foo:v1")
        .yes(REF, "localhost/foo:v1")
        .yes(REF, "QUAY.IO/foo/bar:v1")
        .yes(REF, "quay.io/foo/bar:x-")
        .yes(REF, format!("quay.io/foo/bar:{}", "t".repeat(127)))
        .yes(REF, format!("quay.io/{}:v1", "a".repeat(116)))
        // The controller's parser refuses what follows; admission only looks for common slips.
        .yes(REF, format!("quay.io/x/y:tag@sha256:{}", hex(64)))
        .yes(REF, "library/busybox:latest")
        .yes(REF, "quay.io/Foo/bar:v1")
        .yes(REF, "quay.io/foo/Bar:v1")
        .yes(REF, "docker://quay.io/foo/bar:v1")
        .yes(REF, "https://quay.io/foo/bar:v1")
        .yes(REF, "quay.io//foo:v1")
        .yes(REF, "quay.io/foo bar:v1")
        .yes(REF, "quay.io/foo/bar:a:b")
        .yes(REF, format!("quay.io/foo/bar@md5:{}", hex(32)))
        .yes(REF, format!("quay.io/foo/bar@sha512:{}", hex(64)))
        .yes(REF, format!("quay.io/foo/bar@sha256:{}", hex(64).to_uppercase()))
        .yes(REF, format!("quay.io/foo/bar@a+b.c-d_e:{}", hex(32)))
        .yes(REF, format!("quay.io/{}:v1", "a".repeat(989)));
    check_creates::<ClusterCatalog>(rows).await
}

#[tokio::test]
async fn references_that_cannot_be_right_are_refused_with_every_reason() -> Result<()> {
    let rows = Rows::of(&catalog())
        .no(REF, "busybox:latest", NAME)
        .no(REF, "quay.io/operatorhubio/catalog", END)
        .no_for(REF, "", &[(REF, DOMAIN), (REF, NAME), (REF, END)])
        // The port's colon is taken for a tag's.
        .no(REF, "localhost:5000/foo", TAG)
        .no(REF, format!("reg.example.com:5000/{}/bar:v1.0.0", "a".repeat(120)), TAG_LENGTH)
        .no(REF, format!("quay.io/foo/bar:{}", "t".repeat(128)), TAG_LENGTH)
        .no(REF, "quay.io/foo/bar:-x", TAG)
        .no(REF, "quay.io/foo/bar:", TAG)
        .no(REF, "quay.io/foo/bar@sha256:abc", DIGEST_LENGTH)
        .no(REF, format!("quay.io/foo/bar@99x:{}", hex(64)), ALGORITHM)
        .no(REF, format!("quay.io/foo/bar@sha256:{}", "g".repeat(64)), HEX)
        .no_for(REF, "quay.io/foo/bar@sha256:xyz", &[(REF, DIGEST_LENGTH), (REF, HEX)])
        .no(REF, "-quay.io/foo:v1", DOMAIN)
        .no(REF, "[::1]:5000/foo:v1", DOMAIN)
        .no(REF, "docker.io:8080", NAME)
        .no(REF, format!("quay.io/{}:v1", "a".repeat(990)), "Too long: may not be more than 1000");
    check_creates::<ClusterCatalog>(rows).await
}

#[tokio::test]
async fn unions_and_limits_are_enforced() -> Result<()> {
    let (image, poll) = ("spec.source.image", "spec.source.image.pollIntervalMinutes");
    let (priority, availability) = ("spec.priority", "spec.availabilityMode");
    let digest = format!("quay.io/operatorhubio/catalog@sha256:{}", hex(64));
    let out_of_range = "must be of type integer with format int32 in spec.priority";
    let rows = Rows::of(&catalog())
        .required("spec")
        .required("spec.source")
        .required("spec.source.type")
        .required(REF)
        .no("spec.source.type", "image", "Unsupported value: \"image\": supported values: \"Image\"")
        .no_without(image, "spec.source", UNION)
        .yes(poll, 1)
        .yes(poll, 52_560_000)
        .no(poll, 0, "should be greater than or equal to 1")
        .no(
            image,
            json!({"ref": digest, "pollIntervalMinutes": 10}),
            "cannot specify pollIntervalMinutes while using digest-based image",
        )
        .yes(priority, i32::MIN)
        .yes(priority, i32::MAX)
        .no_for(
            priority,
            i64::from(i32::MAX) + 1,
            &[("<nil>", out_of_range), (priority, "should be less than or equal to 2147483647")],
        )
        .no_for(
            priority,
            i64::from(i32::MIN) - 1,
            &[("<nil>", out_of_range), (priority, "should be greater than or equal to -2147483648")],
        )
        .yes(availability, "Unavailable")
        .no(availability, "Sometimes", "supported values: \"Unavailable\", \"Available\"");
    check_creates::<ClusterCatalog>(rows).await
}

#[tokio::test]
async fn defaults_are_filled_in() -> Result<()> {
    let object = completed::<ClusterCatalog>(catalog()).await?;
    assert_eq!(
        object["spec"],
        json!({
            "availabilityMode": "Available",
            "priority": 0,
            "source": {"type": "Image", "image": {"ref": "quay.io/operatorhubio/catalog:latest"}},
        })
    );
    Ok(())
}

#[tokio::test]
async fn columns_are_in_their_order() -> Result<()> {
    let names = columns::<ClusterCatalog>().await?;
    assert_eq!(names, ["Name", "LastUnpacked", "Serving", "Ready", "Age", "Message"]);
    Ok(())
}
