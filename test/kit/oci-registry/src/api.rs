//! The distribution API: requests to answers.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{
        Method, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LINK, LOCATION, RANGE},
    },
    response::{IntoResponse as _, Response},
};
use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::store::{Manifest, Store, digest};

/// The most bytes of one request, so that a test that goes wrong does not take this machine's memory.
pub(crate) const BODY_BYTES_MAX: usize = 512 << 20;
/// The most bytes of a manifest, as other registries have it.
pub(crate) const MANIFEST_BYTES_MAX: usize = 4 << 20;
const DIGEST: &str = "docker-content-digest";

type Query = BTreeMap<String, String>;
/// An error of the API: its status, its code and a sentence.
struct Refused(StatusCode, &'static str, String);
type Answer = Result<Response, Refused>;

pub(crate) async fn answer(State(store): State<Arc<Mutex<Store>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    // What cannot be decoded names nothing that is here.
    let path = percent_decode_str(parts.uri.path()).decode_utf8_lossy().into_owned();
    let query = query(parts.uri.query().unwrap_or_default());
    let limit = if path.contains("/manifests/") { MANIFEST_BYTES_MAX } else { BODY_BYTES_MAX };
    let answer = match read(&parts.headers, body, limit).await {
        Ok(body) => {
            let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
            route(&mut store, &parts.method, &path, &query, &parts.headers, body)
        }
        Err(refused) => Err(refused),
    };
    answer.unwrap_or_else(|Refused(status, code, message)| {
        let body = json!({"errors": [{"code": code, "message": message}]}).to_string();
        (status, [(CONTENT_TYPE, "application/json")], body).into_response()
    })
}

async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Refused> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let too_large = || {
        let message = format!("more than {limit} bytes");
        Refused(StatusCode::PAYLOAD_TOO_LARGE, "SIZE_INVALID", message)
    };
    if announced.is_some_and(|bytes| bytes > limit as u64) {
        return Err(too_large());
    }
    to_bytes(body, limit).await.map_err(|_| too_large())
}

fn query(text: &str) -> Query {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pairs = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

fn route(
    store: &mut Store,
    method: &Method,
    path: &str,
    query: &Query,
    headers: &HeaderMap,
    body: Bytes,
) -> Answer {
    if path == "/v2/" || path == "/v2" {
        return Ok((StatusCode::OK, [(CONTENT_TYPE, "application/json")], "{}").into_response());
    }
    let unknown = || Refused(StatusCode::NOT_FOUND, "NAME_UNKNOWN", format!("no such address: {path}"));
    let rest = path.strip_prefix("/v2/").ok_or_else(unknown)?;
    if let Some((repository, upload)) = rest.split_once("/blobs/uploads/") {
        return uploads(store, method, repository, upload, query, &body);
    }
    if let Some(repository) = rest.strip_suffix("/tags/list") {
        return Ok(tags(store, repository, query));
    }
    if let Some((repository, reference)) = rest.rsplit_once("/manifests/") {
        return manifests(store, method, repository, reference, headers, body);
    }
    let (repository, digest) = rest.rsplit_once("/blobs/").ok_or_else(unknown)?;
    blobs(store, method, repository, digest)
}

fn not_allowed(method: &Method) -> Refused {
    Refused(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED", format!("{method} is not served here"))
}

fn uploads(
    store: &mut Store,
    method: &Method,
    repository: &str,
    upload: &str,
    query: &Query,
    body: &[u8],
) -> Answer {
    let number = match *method {
        Method::POST if upload.is_empty() => store.upload(),
        _ => upload.parse().unwrap_or_default(),
    };
    let unknown = || {
        Refused(StatusCode::NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry".to_owned())
    };
    let received = store.uploads.get_mut(&number).ok_or_else(unknown)?;
    if received.len().saturating_add(body.len()) > BODY_BYTES_MAX {
        let message = format!("more than {BODY_BYTES_MAX} bytes");
        return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, "SIZE_INVALID", message));
    }
    received.extend_from_slice(body);
    let end = received.len();
    match *method {
        Method::DELETE => {
            store.uploads.remove(&number);
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        Method::POST | Method::PATCH | Method::PUT | Method::GET => {}
        _ => return Err(not_allowed(method)),
    }
    let place = format!("/v2/{repository}/blobs/uploads/{number}");
    let Some(wanted) = query.get("digest").filter(|_| matches!(*method, Method::POST | Method::PUT)) else {
        if *method == Method::PUT {
            let message = "the query names no digest".to_owned();
            return Err(Refused(StatusCode::BAD_REQUEST, "DIGEST_INVALID", message));
        }
        let range = format!("0-{}", end.saturating_sub(1));
        return Ok((StatusCode::ACCEPTED, [(LOCATION, place), (RANGE, range)]).into_response());
    };
    let blob = Bytes::from(store.uploads.remove(&number).ok_or_else(unknown)?);
    let digest = digest(&blob);
    check_digest(wanted, &digest)?;
    store.repository(repository).blobs.insert(digest.clone(), blob);
    Ok(created(&format!("/v2/{repository}/blobs/{digest}"), &digest))
}

fn check_digest(wanted: &str, actual: &str) -> Result<(), Refused> {
    if wanted == actual {
        return Ok(());
    }
    let message = format!("the content has the digest {actual}, not {wanted}");
    Err(Refused(StatusCode::BAD_REQUEST, "DIGEST_INVALID", message))
}

fn created(place: &str, digest: &str) -> Response {
    (StatusCode::CREATED, [(LOCATION.as_str(), place), (DIGEST, digest)]).into_response()
}

fn blobs(store: &mut Store, method: &Method, repository: &str, digest: &str) -> Answer {
    let blobs = &mut store.repository(repository).blobs;
    let unknown = || Refused(StatusCode::NOT_FOUND, "BLOB_UNKNOWN", "blob unknown to registry".to_owned());
    match *method {
        Method::GET | Method::HEAD => {
            let blob = blobs.get(digest).cloned().ok_or_else(unknown)?;
            Ok(([(CONTENT_TYPE.as_str(), "application/octet-stream"), (DIGEST, digest)], blob)
                .into_response())
        }
        Method::DELETE => {
            blobs.remove(digest).ok_or_else(unknown)?;
            Ok(StatusCode::ACCEPTED.into_response())
        }
        _ => Err(not_allowed(method)),
    }
}

fn manifests(
    store: &mut Store,
    method: &Method,
    repository: &str,
    reference: &str,
    headers: &HeaderMap,
    body: Bytes,
) -> Answer {
    let name = repository;
    let repository = store.repository(repository);
    let unknown = || Refused(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN", "manifest unknown".to_owned());
    let found = repository.resolve(reference).to_owned();
    match *method {
        Method::PUT => {
            if reference.contains(':') {
                check_digest(reference, &digest(&body))?;
            }
            let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let media_type = media_type.unwrap_or(crate::IMAGE_MANIFEST).to_owned();
            let digest = repository.put(reference, Manifest { media_type, bytes: body });
            Ok(created(&format!("/v2/{name}/manifests/{digest}"), &digest))
        }
        Method::GET | Method::HEAD => {
            let Manifest { media_type, bytes } =
                repository.manifests.get(&found).cloned().ok_or_else(unknown)?;
            Ok(([(CONTENT_TYPE.as_str(), media_type), (DIGEST, found)], bytes).into_response())
        }
        Method::DELETE if found == reference => {
            repository.manifests.remove(reference).ok_or_else(unknown)?;
            repository.tags.retain(|_, digest| digest != reference);
            Ok(StatusCode::ACCEPTED.into_response())
        }
        Method::DELETE => {
            repository.tags.remove(reference);
            Ok(StatusCode::ACCEPTED.into_response())
        }
        _ => Err(not_allowed(method)),
    }
}

/// The tags in order, those after `last`, at most `n`; a link leads to the others.
fn tags(store: &mut Store, repository: &str, query: &Query) -> Response {
    let tags = store.repository(repository).tags.keys();
    let last = query.get("last").map_or("", String::as_str);
    let mut tags: Vec<_> = tags.filter(|tag| tag.as_str() > last).cloned().collect();
    let limit = query.get("n").and_then(|n| n.parse().ok()).unwrap_or(usize::MAX);
    let more = tags.len() > limit;
    tags.truncate(limit);
    let mut headers = HeaderMap::new();
    if let Some(last) = tags.last().filter(|_| more) {
        let link = format!("</v2/{repository}/tags/list?n={limit}&last={last}>; rel=\"next\"");
        headers.extend(link.parse().map(|link| (LINK, link)));
    }
    (headers, axum::Json(json!({"name": repository, "tags": tags}))).into_response()
}
