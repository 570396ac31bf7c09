//! Objects of any kind as plain JSON.
//!
//! kube's `DynamicObject` flattens what it does not know: every answer is copied once more to read it, and again to make it a
//! value. CustomResourceDefinitions have up to a megabyte.

use std::fmt::Debug;

use http::{HeaderValue, Request, header::ACCEPT};
use kube::{
    Api,
    api::{DynamicObject, GetParams, Patch, PatchParams, PostParams},
    core::{Request as Requests, request::Error as RequestError},
};
use serde::Serialize;
use serde_json::Value;

use crate::{bounded, if_exists};

/// Asks for the metadata of an object alone.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The object, `None` if there is none.
///
/// # Errors
/// As [`bounded`].
pub async fn get_json(
    api: &Api<DynamicObject>,
    name: &str,
    params: &GetParams,
) -> Result<Option<Value>, kube::Error> {
    if_exists(send(api, Requests::new(api.resource_url()).get(name, params))).await
}

/// Creates the object.
///
/// # Errors
/// As [`bounded`].
pub async fn create_json(
    api: &Api<DynamicObject>,
    params: &PostParams,
    object: &Value,
) -> Result<Value, kube::Error> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    bounded(send(api, Requests::new(api.resource_url()).create(params, body))).await
}

/// Asks in a dry run whether the API server would create the object. Nothing is stored, and the answer leaves the object out.
///
/// # Errors
/// As [`bounded`].
pub async fn dry_run_creation(
    api: &Api<DynamicObject>,
    params: &PostParams,
    object: &Value,
) -> Result<(), kube::Error> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let params = PostParams { dry_run: true, ..params.clone() };
    let mut request = Requests::new(api.resource_url()).create(&params, body);
    if let Ok(request) = &mut request {
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(METADATA));
    }
    bounded(send(api, request)).await.map(drop)
}

/// Changes the object.
///
/// # Errors
/// As [`bounded`].
pub async fn patch_json<P: Serialize + Debug>(
    api: &Api<DynamicObject>,
    name: &str,
    params: &PatchParams,
    patch: &Patch<P>,
) -> Result<Value, kube::Error> {
    bounded(send(api, Requests::new(api.resource_url()).patch(name, params, patch))).await
}

async fn send(
    api: &Api<DynamicObject>,
    request: Result<Request<Vec<u8>>, RequestError>,
) -> Result<Value, kube::Error> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    api.clone().into_client().request(request).await
}
