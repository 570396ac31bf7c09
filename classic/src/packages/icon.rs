//! The subresource `icon`: the picture of the default channel's head.

use axum::response::{IntoResponse, Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, StatusCode, header, request::Parts};
use olm_aggregate::Failure;

use super::resource::Manifest;

/// For packages without a picture: a grey box in a grey ring.
const DEFAULT: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 64 64\">\
    <circle cx=\"32\" cy=\"32\" r=\"29\" fill=\"none\" stroke=\"#d2d2d2\" stroke-width=\"5\"/>\
    <path d=\"M18 25l14-7 14 7v15l-14 7-14-7zm14 7l14-7m-14 7l-14-7m14 7v15\" fill=\"none\" stroke=\"#8a8d90\" \
    stroke-width=\"3\" stroke-linejoin=\"round\"/></svg>\n";
const SVG: HeaderValue = HeaderValue::from_static("image/svg+xml");
/// Pictures are from catalogs: they are no pages, and run no scripts.
const SAFE: [(header::HeaderName, HeaderValue); 2] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'"),
    ),
];

/// The picture. A client that names a version of the object and has a picture keeps the one that it has, as upstream
/// answers.
pub(super) async fn answer(object: Manifest, request: &Parts) -> Response {
    let query = request.uri.query().unwrap_or_default();
    let mut parameters = query.split('&').filter_map(|pair| pair.split_once('='));
    let names_version = parameters.any(|(key, value)| key == "resourceVersion" && !value.is_empty());
    let has_picture = request.headers.get(header::IF_NONE_MATCH).is_some_and(|value| !value.is_empty());
    if names_version && has_picture {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let package = object.package();
    let etag = package
        .default_version
        .as_ref()
        .map(|version| format!("\"{}.{}.{version}\"", package.name, package.default_channel));
    let read = tokio::task::spawn_blocking(move || object.catalog().summary.icon(object.package())).await;
    let icon = match read {
        Ok(Ok(icon)) => icon,
        failed => {
            tracing::warn!(?failed, "reading an icon");
            return Failure::internal("the icon could not be read").into_response();
        }
    };
    let Some(icon) = icon else { return (SAFE, [(header::CONTENT_TYPE, SVG)], DEFAULT).into_response() };
    let media = HeaderValue::from_str(&icon.mediatype);
    let media = media.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let text: String = icon.base64data.split_ascii_whitespace().collect();
    let picture = STANDARD.decode(text).unwrap_or_default();
    let mut response = (SAFE, [(header::CONTENT_TYPE, media)], picture).into_response();
    if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(&etag).ok()) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}
