//! Errors as the Status objects that clients of Kubernetes read.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::Names;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Option<Value>,
}

impl Failure {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    /// There is no object of that name.
    pub fn not_found(names: &Names, name: &str) -> Self {
        let details = json!({ "name": name, "group": names.group, "kind": names.plural });
        let message = format!("{} {name:?} not found", names.qualified());
        Self { details: Some(details), ..Self::new(StatusCode::NOT_FOUND, "NotFound", message) }
    }

    pub(crate) fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub(crate) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json";
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub(crate) fn expired(version: u64) -> Self {
        let message = format!("the resource version is not the current one, {version}: list again");
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub(crate) fn not_continued() -> Self {
        let message = "lists are not divided, so no continue token is valid: list again without one";
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub(crate) fn too_many_watches() -> Self {
        let message = "too many watches are open: try again later";
        let details = json!({ "retryAfterSeconds": 10 });
        let failure = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        Self { details: Some(details), ..failure }
    }

    /// Something that the request is not to blame for.
    pub fn internal(message: &str) -> Self {
        let message = format!("Internal error occurred: {message}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        let retry = self.details.as_ref().and_then(|details| details["retryAfterSeconds"].as_u64());
        if let Some(details) = self.details {
            status["details"] = details;
        }
        let mut response = (self.code, Json(status)).into_response();
        if let Some(seconds) = retry {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
