//! Writes of objects of any kind, with the warnings that the API server answers with.

use http::{Method, Request, header::WARNING};
use kube::{
    Client,
    api::{Api, DynamicObject, GetParams},
    client::Body,
    core::Status,
};
use olm_runtime::{Kind, bounded, get_json};
use serde_json::Value;

use super::FIELD_MANAGER;

/// Warnings of one answer that are kept.
const WARNINGS_MAX: usize = 10;

/// The object of a kind; none if there is none.
pub(super) async fn get(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, kube::Error> {
    get_json(&kind.api(client, namespace), name, &GetParams::default()).await
}

/// Creates an object, or replaces the one with the same `resourceVersion`. Returns it, and the API server's warnings.
pub(super) async fn write(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    object: &Value,
    is_new: bool,
) -> Result<(Value, Vec<String>), kube::Error> {
    let api: Api<DynamicObject> = kind.api(client, namespace);
    let url = api.resource_url();
    let (method, url) = if is_new {
        (Method::POST, format!("{url}?fieldManager={FIELD_MANAGER}"))
    } else {
        let name = olm_object::text(object, "/metadata/name");
        (Method::PUT, format!("{url}/{name}?fieldManager={FIELD_MANAGER}"))
    };
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = Request::builder().method(method).uri(url).header("content-type", "application/json");
    let request = request.body(Body::from(body)).map_err(kube::Error::HttpError)?;
    bounded(send(client, request)).await
}

async fn send(client: &Client, request: Request<Body>) -> Result<(Value, Vec<String>), kube::Error> {
    let response = client.send(request).await?;
    let (parts, body) = response.into_parts();
    let warnings = parts.headers.get_all(WARNING).iter().filter_map(|value| text(value.to_str().ok()?));
    let warnings: Vec<String> = warnings.take(WARNINGS_MAX).collect();
    let body = body.collect_bytes().await?;
    if parts.status.is_success() {
        return Ok((serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?, warnings));
    }
    let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
        Status::failure(&String::from_utf8_lossy(&body), "Failed").with_code(parts.status.as_u16())
    });
    Err(kube::Error::Api(Box::new(status)))
}

/// The text of a warning: `299 - "text"`.
fn text(header: &str) -> Option<String> {
    let quoted = header.splitn(3, ' ').nth(2)?;
    let text = quoted.strip_prefix('"').unwrap_or(quoted);
    Some(text.strip_suffix('"').unwrap_or(text).replace("\\\"", "\""))
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn the_text_of_a_warning_is_unquoted() {
        let header = "299 - \"policy/v1beta1 is \\\"old\\\"\"";
        assert_eq!(text(header).as_deref(), Some("policy/v1beta1 is \"old\""));
        assert_eq!(text("299"), None);
    }
}
