//! A second question to the API server about an object that it refuses in dry-run.
//!
//! Objects are created by `create`, so that a foreign object of the same name is never touched. The server then counts
//! our fields as updated, not as applied, until the first real apply moves them. A dry-run cannot move them: it keeps
//! what the new version takes away, such as a port under its old number, and the server may find the mixture invalid.

use kube::{
    Api, ResourceExt,
    api::{DynamicObject, PostParams},
};
use olm_api::names::OBJECT_FIELD_MANAGER;
use olm_object::ObjectKey;
use olm_objectset::has_created_fields;
use olm_runtime::bounded;
use serde_json::Value;

/// Whether the server takes `object` in place of one whose fields were only created so far, as the real apply will have
/// it. `false` for all other objects: the server's first answer was about what would be applied.
pub(super) async fn takes_instead(api: &Api<DynamicObject>, key: &ObjectKey, object: &Value) -> bool {
    let Ok(Some(live)) = bounded(api.get_opt(&key.name)).await else { return false };
    let version = live.resource_version();
    let (Ok(live), Ok(mut wanted)) =
        (serde_json::to_value(live), serde_json::from_value::<DynamicObject>(object.clone()))
    else {
        return false;
    };
    if !has_created_fields(&live) {
        return false;
    }
    wanted.metadata.resource_version = version;
    let params = PostParams { dry_run: true, field_manager: Some(OBJECT_FIELD_MANAGER.to_owned()) };
    bounded(api.replace(&key.name, &params, &wanted)).await.is_ok()
}
