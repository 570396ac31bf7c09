//! What the deletion of an extension waits for, once the controller has done its part.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt, api::ListParams};
use olm_api::{
    names::OWNER_NAME_LABEL,
    ownership::{ExtensionId, Relation, relation},
    v1::{ClusterExtension, ClusterObjectSet},
};
use olm_runtime::bounded;
use olm_text::one_line;

use super::{Context, reconcile::FINALIZERS};

/// Kubernetes' finalizer of an object that is deleted after its dependents.
const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// Things of one sort that are named.
const NAMED_MAX: usize = 5;

/// What the deletion waits for, in a sentence.
pub(crate) async fn waits(cx: &Context, extension: &ClusterExtension) -> String {
    let sets = cx.sets_of(extension).unwrap_or_default();
    let owner = ExtensionId::of(&extension.metadata);
    let is_mine =
        |set: &&ClusterObjectSet| owner.is_some_and(|id| relation(&set.metadata, id) == Relation::Revision);
    // The others are deleted when the extension is gone.
    let is_deleted = |set: &&ClusterObjectSet| set.metadata.deletion_timestamp.is_some();
    let sets: Vec<String> =
        sets.iter().filter(is_mine).filter(is_deleted).map(ResourceExt::name_any).collect();
    sentence(extension.finalizers(), &sets, &crds(cx, extension).await)
}

/// The CRDs of the extension that are being deleted: they wait for all their objects.
async fn crds(cx: &Context, extension: &ClusterExtension) -> Vec<String> {
    let api: Api<CustomResourceDefinition> = Api::all(cx.controller());
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", extension.name_any()));
    let listed = bounded(api.list_metadata(&mine)).await.map(|list| list.items).unwrap_or_default();
    let deleted = listed.iter().filter(|crd| crd.metadata.deletion_timestamp.is_some());
    deleted.map(ResourceExt::name_any).collect()
}

fn sentence(finalizers: &[String], sets: &[String], crds: &[String]) -> String {
    let named = |names: &[String]| {
        let first = names.iter().take(NAMED_MAX).map(|name| one_line(name).into_owned());
        let more = names.len().checked_sub(NAMED_MAX).filter(|more| *more > 0);
        first.chain(more.map(|more| format!("{more} more"))).collect::<Vec<_>>().join(", ")
    };
    let foreign: Vec<String> = finalizers
        .iter()
        .filter(|name| *name != FOREGROUND_FINALIZER && !FINALIZERS.contains(&name.as_str()))
        .cloned()
        .collect();
    let mut waits = Vec::new();
    if !crds.is_empty() {
        waits.push(format!(
            "the objects of CustomResourceDefinition {} (\"kubectl get <CRD> -A\" lists them; one with a finalizer is gone when the program that set it has removed it)",
            named(crds)
        ));
    }
    if !sets.is_empty() {
        waits.push(format!("the objects of ClusterObjectSet {}", named(sets)));
    }
    if !foreign.is_empty() {
        waits.push(format!("the finalizer {}, which the program that set it has to remove", named(&foreign)));
    }
    if waits.is_empty() {
        waits.push("the garbage collector of the cluster".to_owned());
    }
    format!("The deletion waits for {}.", waits.join(", and for "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_names_what_it_waits_for() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let own = FINALIZERS.map(str::to_owned);
        let cases = [
            (
                names(&[FOREGROUND_FINALIZER]),
                names(&["e-1"]),
                names(&[]),
                "the objects of ClusterObjectSet e-1.",
            ),
            (
                names(&["example.com/hold"]),
                names(&[]),
                names(&[]),
                "the finalizer example.com/hold, which the program that set it has to remove.",
            ),
            (own.to_vec(), names(&[]), names(&[]), "the garbage collector of the cluster."),
        ];
        for (finalizers, sets, crds, wanted) in cases {
            assert_eq!(sentence(&finalizers, &sets, &crds), format!("The deletion waits for {wanted}"));
        }
        let many = names(&["a", "b", "c", "d", "e", "f", "g"]);
        let all = sentence(&names(&["x"]), &many, &many);
        assert!(all.contains("CustomResourceDefinition a, b, c, d, e, 2 more (\"kubectl"), "{all}");
        assert!(
            all.contains(", and for the objects of ClusterObjectSet a, b, c, d, e, 2 more, and for"),
            "{all}"
        );
    }
}
