//! A Deployment that upstream made of a ClusterServiceVersion: the one that is made of it here asks for nothing else, so that
//! taking it over restarts no Pod.

use k8s_openapi::api::apps::v1::Deployment;
use olm_api_classic::ClusterServiceVersion;
use olm_classic_core::csv::install::deployments::{Additions, CA_HASH_ANNOTATION, deployments};
use olm_test::prelude::*;

use crate::data;

const DUMP: &str = "classic/node-dump.json.zst";

pub(crate) fn check() {
    data::each("classic take-over", DUMP, |folder, counts| {
        let text = zstd::decode_all(fs::File::open(folder.join(DUMP)).unwrap()).unwrap();
        let dump: Value = serde_json::from_slice(&text).unwrap();
        let of_kind = |kind: &str| {
            let all = dump["items"].as_array().into_iter().flatten();
            all.filter(|one| one["kind"] == kind).cloned().collect::<Vec<_>>()
        };
        for recorded in of_kind("Deployment") {
            let owner = &recorded["metadata"]["labels"]["olm.owner"];
            let csvs = of_kind("ClusterServiceVersion");
            let is_owner = |csv: &&Value| {
                csv["metadata"]["name"] == *owner
                    && csv["metadata"]["namespace"] == recorded["metadata"]["namespace"]
            };
            let Some(csv) = csvs.iter().find(is_owner) else { continue };
            let csv: ClusterServiceVersion = serde_json::from_value(csv.clone()).unwrap();
            let name = recorded["metadata"]["name"].as_str().unwrap();
            let authority = &recorded["spec"]["template"]["metadata"]["annotations"][CA_HASH_ANNOTATION];
            let authorities = authority.as_str().map(|hash| (name.to_owned(), hash.to_owned()));
            let additions =
                Additions { authorities: authorities.into_iter().collect(), ..Additions::default() };
            let made = deployments(&csv, &additions).unwrap();
            let made: &Deployment =
                made.iter().find(|one| one.metadata.name.as_deref() == Some(name)).unwrap();
            let mut differences = Vec::new();
            compare(&recorded["spec"], &json!(made.spec), "spec", &mut differences);
            compare(
                &recorded["metadata"]["ownerReferences"],
                &json!(made.metadata.owner_references),
                "owners",
                &mut differences,
            );
            if differences.is_empty() {
                counts.equal();
            } else {
                counts.different(format!("{name}: {differences:?}"));
            }
        }
    });
}

/// Adds where something is wanted that was not recorded. What was recorded besides are defaults of the API server.
fn compare(recorded: &Value, wanted: &Value, path: &str, differences: &mut Vec<String>) {
    match (recorded, wanted) {
        (_, Value::Null) => {}
        (Value::Object(recorded), Value::Object(wanted)) => {
            for (key, value) in wanted {
                let found = recorded.get(key).unwrap_or(&Value::Null);
                compare(found, value, &format!("{path}.{key}"), differences);
            }
        }
        (Value::Array(recorded), Value::Array(wanted)) if recorded.len() == wanted.len() => {
            for (at, (recorded, wanted)) in recorded.iter().zip(wanted).enumerate() {
                compare(recorded, wanted, &format!("{path}[{at}]"), differences);
            }
        }
        _ if recorded == wanted => {}
        _ => differences.push(format!("{path} was {recorded}, is to be {wanted}")),
    }
}
