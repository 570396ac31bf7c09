//! The requests about one object, as the revision's ServiceAccount.

use std::borrow::Cow;

use kube::{
    Api,
    api::{DynamicObject, GetParams, Patch, PatchParams},
};
use olm_api::names::{OBJECT_FIELD_MANAGER, WEBHOOK_CERTIFICATES_FIELD_MANAGER};
use olm_object::ObjectKey;
use olm_runtime::{as_conflict, create_json, dry_run_creation, get_json, patch_as, patch_json, post_as};
use serde_json::Value;

use crate::webhook_certificates::Injection;

/// An object that is brought to its desired state.
pub(super) struct Target<'a> {
    pub(super) api: Api<DynamicObject>,
    pub(super) key: &'a ObjectKey,
    pub(super) desired: &'a Value,
    pub(super) injection: Option<&'a Injection>,
}

impl Target<'_> {
    /// Creates it; its webhooks have their CA bundle from the first moment.
    pub(super) async fn create(&self) -> Result<Value, kube::Error> {
        create_json(&self.api, &post_as(OBJECT_FIELD_MANAGER), &self.filled()).await
    }

    /// Asks whether it would be created.
    pub(super) async fn dry_run_creation(&self) -> Result<(), kube::Error> {
        dry_run_creation(&self.api, &post_as(OBJECT_FIELD_MANAGER), &self.filled()).await
    }

    fn filled(&self) -> Cow<'_, Value> {
        let filled = self.injection.map(|injection| injection.fill(self.desired));
        filled.map_or(Cow::Borrowed(self.desired), Cow::Owned)
    }

    /// Applies the version that was read, or that the patch has made of it. Revisions share a field manager: without the
    /// version, an older one that has not seen the newer one take the object over would take it back.
    pub(super) async fn apply(&self, metadata_patch: Vec<Value>, live: Value) -> Result<Value, kube::Error> {
        let mut current = live;
        if !metadata_patch.is_empty() {
            let patch =
                serde_json::from_value(Value::Array(metadata_patch)).map_err(kube::Error::SerdeError)?;
            let params = patch_as(OBJECT_FIELD_MANAGER);
            let patched = patch_json(&self.api, &self.key.name, &params, &Patch::Json::<()>(patch)).await;
            current = patched.map_err(as_conflict)?;
        }
        // A bundle that came with the creation is kept by its own manager first, so that this apply does not take it away.
        if self.injection.is_some_and(|injection| injection.fits(&current) && !injection.is_kept(&current)) {
            current = self.inject(current).await?;
        }
        let mut desired = self.desired.clone();
        desired["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
        let params = PatchParams::apply(OBJECT_FIELD_MANAGER).force();
        patch_json(&self.api, &self.key.name, &params, &Patch::Apply(desired)).await
    }

    /// Gives its webhooks their CA bundle, unless they have it.
    pub(super) async fn complete(&self, current: Value) -> Result<Value, kube::Error> {
        let is_complete = self.injection.is_none_or(|injection| injection.is_trusted(&current));
        if is_complete { Ok(current) } else { self.inject(current).await }
    }

    /// Writes its CA bundle under a field manager of its own.
    async fn inject(&self, current: Value) -> Result<Value, kube::Error> {
        let Some(injection) = self.injection else { return Ok(current) };
        let params = PatchParams::apply(WEBHOOK_CERTIFICATES_FIELD_MANAGER).force();
        let patch = Patch::Apply(injection.patch(self.desired));
        patch_json(&self.api, &self.key.name, &params, &patch).await
    }
}

pub(crate) async fn get(api: &Api<DynamicObject>, name: &str) -> Result<Option<Value>, kube::Error> {
    get_json(api, name, &GetParams::default()).await
}

/// The object in this version or a later one, which the API server has in memory: that spares it to read and decode the object.
/// One that is behind the watch says so with a time-out.
pub(super) async fn get_since(
    api: &Api<DynamicObject>,
    name: &str,
    version: Option<&str>,
) -> Result<Option<Value>, kube::Error> {
    let Some(version) = version else { return get(api, name).await };
    match get_json(api, name, &GetParams::at(version)).await {
        Err(kube::Error::Api(status)) if status.code == 504 => get(api, name).await,
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Arc};

    use http::{Request, Response, StatusCode};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Client, api::ApiResource, client::Body};
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    /// What is asked of a server whose memory has version 5, and what comes of it.
    async fn asked(version: Option<&str>) -> (Vec<String>, Option<String>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let known = Arc::clone(&seen);
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let is_behind =
                query.split('&').any(|one| one.starts_with("resourceVersion=") && one != "resourceVersion=5");
            known.lock().push(query.trim_start_matches('&').to_owned());
            let (code, answer) = if is_behind {
                (
                    StatusCode::GATEWAY_TIMEOUT,
                    json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Timeout", "code": 504,
                        "message": "Too large resource version: 9, current: 5",
                    }),
                )
            } else {
                (
                    StatusCode::OK,
                    json!({
                        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "resourceVersion": "5"},
                    }),
                )
            };
            let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            std::future::ready(Ok::<_, Infallible>(answer.unwrap()))
        });
        let kind = ApiResource::erase::<ConfigMap>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(Client::new(service, "n"), "n", &kind);
        let found = get_since(&api, "c", version).await.unwrap();
        let found =
            found.map(|object| object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned());
        let seen = seen.lock().clone();
        (seen, found)
    }

    #[tokio::test]
    async fn a_server_that_is_behind_the_watch_reads_the_object() {
        let five = Some("5".to_owned());
        assert_eq!(asked(None).await, (vec![String::new()], five.clone()));
        assert_eq!(asked(Some("5")).await, (vec!["resourceVersion=5".to_owned()], five.clone()));
        let both = vec!["resourceVersion=9".to_owned(), String::new()];
        assert_eq!(asked(Some("9")).await, (both, five));
    }
}
