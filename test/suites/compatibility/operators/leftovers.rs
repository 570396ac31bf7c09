//! Nothing is left of operators that were removed: neither in their namespaces nor in the cluster.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::core::ObjectMeta;
use olm_test::{cluster::inventory, prelude::*};

use crate::{expected::OPERATORS, place::Place};

/// The cluster's garbage collector learns of new kinds every 30 s only, and goes slower after a miss.
const COLLECTED: Duration = Duration::from_mins(6);
/// After this, what only the garbage collector has still to collect is told and not waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until nothing is left but what the cluster's own controllers are bound to take away: objects whose owners are
/// all gone, for which the garbage collector takes many minutes when kinds come and go, and what hangs on those. Those
/// that are still there in the end are told.
pub(crate) async fn none(place: &Place) -> Result<()> {
    let begun = Instant::now();
    let collectable = wait::until("everything of the operators to be gone", COLLECTED, || async {
        let everything = inventory(&place.client, &ListParams::default()).await?;
        let going = going(&everything);
        let (collectable, left): (Vec<_>, Vec<_>) = everything
            .iter()
            .filter(|(kind, item)| is_left(kind, item))
            .partition(|(_, item)| item.uid.as_deref().is_some_and(|uid| going.contains(uid)));
        ensure!(left.is_empty(), "left: {:?}", named(&left));
        let patient = begun.elapsed() > PATIENCE;
        ensure!(collectable.is_empty() || patient, "not collected: {:?}", named(&collectable));
        Ok(named(&collectable))
    })
    .await?;
    println!("left for the garbage collector after {:.0} s: {collectable:?}", begun.elapsed().as_secs_f64());
    Ok(())
}

fn named(items: &[&(String, ObjectMeta)]) -> Vec<String> {
    let name = |(kind, item): &&(String, ObjectMeta)| {
        let (namespace, name) = (item.namespace.as_deref(), item.name.as_deref());
        format!("{kind} {}/{}", namespace.unwrap_or_default(), name.unwrap_or_default())
    };
    items.iter().map(name).collect()
}

/// Which of the objects the cluster is bound to take away, by UID: those whose owners are all gone or are taken away
/// themselves. Endpoints name no owner: they go with the Service of their name.
fn going(everything: &[(String, ObjectMeta)]) -> BTreeSet<&str> {
    let mut staying: BTreeSet<&str> = everything.iter().filter_map(|(_, item)| item.uid.as_deref()).collect();
    let mut going = BTreeSet::new();
    loop {
        let services: BTreeSet<_> = everything
            .iter()
            .filter(|(kind, item)| {
                kind == "Service" && item.uid.as_deref().is_some_and(|uid| going.contains(uid))
            })
            .map(|(_, item)| (&item.namespace, &item.name))
            .collect();
        let goes = |(kind, item): &(String, ObjectMeta)| {
            let owners = item.owner_references.as_deref().unwrap_or_default();
            let owned =
                !owners.is_empty() && !owners.iter().any(|owner| staying.contains(owner.uid.as_str()));
            owned || (kind == "Endpoints" && services.contains(&(&item.namespace, &item.name)))
        };
        let found: BTreeSet<&str> =
            everything.iter().filter(|one| goes(one)).filter_map(|(_, item)| item.uid.as_deref()).collect();
        if found == going {
            return going;
        }
        staying.retain(|uid| !found.contains(uid));
        going = found;
    }
}

/// Waits until no webhook and no kind of an operator is there that others would notice.
pub(crate) async fn nothing_that_matters_to_others(place: &Place) -> Result<()> {
    let ours = ListParams::default().labels(OWNER_NAME_LABEL);
    wait::until("webhooks and kinds of other operators to be gone", COLLECTED, || async {
        let mut left = names(&Api::<MutatingWebhookConfiguration>::all(place.client.clone()), &ours).await?;
        left.extend(names(&Api::<CustomResourceDefinition>::all(place.client.clone()), &ours).await?);
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })
    .await
}

async fn names<K>(api: &Api<K>, params: &ListParams) -> Result<Vec<String>>
where
    K: ResourceExt + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    Ok(api.list_metadata(params).await?.items.iter().map(ResourceExt::name_any).collect())
}

/// Whether an object is an operator's: by our label, or because it is in an operator's namespace, nobody's dependent,
/// and neither the cluster nor the administrator put it there.
fn is_left(kind: &str, item: &ObjectMeta) -> bool {
    if item.labels.as_ref().is_some_and(|labels| labels.contains_key(OWNER_NAME_LABEL)) {
        return true;
    }
    let namespace = item.namespace.as_deref();
    let inside = OPERATORS.iter().any(|operator| Some(operator.package) == namespace);
    let name = item.name.as_deref().unwrap_or_default();
    let known = match kind {
        "Event" => true,
        "ConfigMap" => name == "kube-root-ca.crt",
        "ServiceAccount" => name == "default" || name == ACCOUNT,
        "Role" | "RoleBinding" => name == ACCOUNT,
        _ => false,
    };
    let dependent = item.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
    inside && !known && !dependent
}
