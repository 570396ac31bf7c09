//! Which watches notice changes to the objects of a revision.
//!
//! Kinds that the program may list itself are watched once for all revisions. Any other object, a Secret above all, is
//! watched by its name with the permissions of the revision's ServiceAccount.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::api::ApiResource;
use olm_object::ObjectKey;
use olm_render::webhook_certificates;
use olm_runtime::{Kind, Watched};

use crate::{cluster_object_set::observe::Observed, permissions};

/// The watches of the objects; `served` are the kinds that the cluster serves.
pub(crate) fn objects(observed: &Observed<'_>, served: &[Kind]) -> Vec<Watched> {
    let is_watched = |kind: &&Kind| permissions::is_watched(&kind.resource.group, &kind.resource.plural);
    let (own, others): (Vec<&Kind>, Vec<&Kind>) = served.iter().partition(is_watched);
    let mut watched: Vec<Watched> = own.into_iter().cloned().map(Watched::Kind).collect();
    if others.is_empty() {
        // Most revisions: nothing is worked out for each object at each reconcile.
        return watched;
    }
    let keys: BTreeSet<&ObjectKey> = observed.items().map(|item| &item.known.key).collect();
    for key in keys {
        let is_its = |kind: &&&Kind| {
            let resource = &kind.resource;
            (&resource.group, &resource.version, &resource.kind) == (&key.group, &key.version, &key.kind)
        };
        if let Some(kind) = others.iter().find(is_its) {
            watched.push(object(observed, kind, key.namespace.clone(), key.name.clone()));
        }
    }
    watched
}

/// The watches of the Secrets with the certificates that the webhooks among the objects serve with.
pub(crate) fn certificates(observed: &Observed<'_>) -> Vec<Watched> {
    let secrets = Kind { resource: ApiResource::erase::<Secret>(&()), namespaced: true };
    let certificates = webhook_certificates(observed.objects_of_webhooks());
    certificates.into_iter().map(|c| object(observed, &secrets, c.namespace, c.secret)).collect()
}

fn object(observed: &Observed<'_>, kind: &Kind, namespace: String, name: String) -> Watched {
    let (account, client) = (observed.account.clone(), observed.client.clone());
    let namespace = if kind.namespaced { namespace } else { String::new() };
    Watched::Object { kind: kind.clone(), namespace, name, account, client }
}

#[cfg(test)]
mod tests {
    use kube::{Client, core::GroupVersionKind};
    use olm_api::v1::{ClusterObjectSet, ClusterObjectSetSpec};
    use olm_runtime::AccountRef;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        cluster_object_set::observe::content::{Item, LoadedPhase},
        interest::Wanted,
    };

    fn kind(group: &str, kind: &str, namespaced: bool) -> Kind {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Kind { resource, namespaced }
    }

    fn client() -> Client {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
        });
        Client::new(service, "default")
    }

    /// The watches in words.
    fn names(watched: &[Watched]) -> Vec<String> {
        let one = |watched: &Watched| match watched {
            Watched::Kind(kind) => kind.resource.plural.clone(),
            Watched::Object { kind, namespace, name, account, .. } => {
                format!("{} {namespace}/{name} as {}", kind.resource.plural, account.name)
            }
        };
        watched.iter().map(one).collect()
    }

    #[tokio::test]
    async fn secrets_and_unknown_kinds_are_watched_by_name_as_the_service_account() {
        let object = |version: &str, kind: &str, namespace: &str, name: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"namespace": namespace, "name": name}});
        let objects = [
            object("v1", "ConfigMap", "n", "c"),
            object("v1", "Secret", "n", "s"),
            object("v1", "Secret", "m", "t"),
            object("x.example.com/v1", "Beacon", "ignored", "b"),
            object("x.example.com/v1", "NotServed", "n", "b"),
        ];
        let served =
            [kind("", "ConfigMap", true), kind("", "Secret", true), kind("x.example.com", "Beacon", false)];
        let account = AccountRef { namespace: "n".into(), name: "installer".into() };
        let (set, wanted) = (ClusterObjectSet::new("s", ClusterObjectSetSpec::default()), Wanted::default());
        let observed = |objects: &[Value]| {
            let items = objects.iter().cloned().map(Item::of).collect();
            let phases = vec![LoadedPhase { name: "all".into(), items }];
            let (account, client) = (account.clone(), client());
            Observed { set: &set, account, client, phases, content: Vec::new(), wanted: &wanted }
        };
        let user = &account.name;
        let expected = [
            "configmaps".to_owned(),
            format!("secrets m/t as {user}"),
            format!("secrets n/s as {user}"),
            format!("beacons /b as {user}"),
        ];
        assert_eq!(names(&super::objects(&observed(&objects), &served)), expected);
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "hooks", "namespace": "n"},
            "spec": {"template": {"spec": {"volumes": [{"secret": {"secretName": "hooks-service-cert"}}]}}}});
        let certificates = names(&certificates(&observed(&[deployment])));
        assert_eq!(certificates, [format!("secrets n/hooks-service-cert as {user}")]);
    }
}
