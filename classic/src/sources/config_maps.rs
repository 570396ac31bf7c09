//! Content of ConfigMaps.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use olm_api_classic::ConfigMapReference;
use olm_classic_core::source::{status::Health, texts};
use olm_runtime::{Next, api_text, bounded};

use super::{
    Interest, act,
    content::{self, Unusable},
    now,
    reconcile::{Reconcile, Reconciler},
};

impl Reconciler {
    /// Reads the ConfigMap of a source, and reports what became of it.
    pub(super) async fn config_map(&self, reconcile: &mut Reconcile<'_>, name: &str) -> Next {
        reconcile.interests.insert(Interest::ConfigMap(format!("{}/{name}", reconcile.key.namespace)));
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &reconcile.key.namespace);
        let map = match bounded(api.get(name)).await {
            Ok(map) => map,
            Err(error) => {
                let message = texts::config_map_failed(name, &api_text(&error));
                return self.trouble(reconcile, texts::CONFIG_MAP, message);
            }
        };
        let owned = if self.leads() {
            act::own_config_map(&self.client, reconcile.source, &map).await
        } else {
            Ok(None)
        };
        let map = match owned {
            Ok(owned) => owned.unwrap_or(map),
            Err(cause) => return self.trouble(reconcile, texts::CONFIG_MAP, texts::config_map_owner(&cause)),
        };
        reconcile.report.config_map = Some(ConfigMapReference {
            name: name.to_owned(),
            namespace: reconcile.key.namespace.clone(),
            uid: map.uid(),
            resource_version: map.resource_version(),
            last_update_time: None,
        });
        let taken =
            content::take_config_map(&self.store, reconcile.slot.clone(), &map, now(&self.clock)).await;
        let (state, next) = match taken {
            Ok(_) => {
                reconcile.report.health =
                    Health::Serving(format!("Serving the content of ConfigMap {name}."));
                (texts::READY, Next::Await)
            }
            Err(Unusable::Content(cause)) => {
                let text = format!(
                    "ConfigMap {name} is not a catalog: {cause}. Correct it; it is then read at once."
                );
                reconcile.report.health = self.failed(reconcile, text.clone());
                (self.state_of_earlier(reconcile), Next::Blocked(text))
            }
            Err(Unusable::Store(cause)) => {
                reconcile.report.health =
                    self.failed(reconcile, format!("The content cannot be stored: {cause}."));
                (self.state_of_earlier(reconcile), Next::Retry(cause))
            }
        };
        self.serve(reconcile, state).await.unwrap_or(next)
    }
}
