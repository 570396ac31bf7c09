//! The webhooks: conversion, defaults, refusals, each at a path of its own.

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    routing::post,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::sample;

/// A list of objects to be converted may be as long as etcd's largest answer.
const BODY_BYTES_MAX: usize = 16 << 20;

/// `/convert`, `/default` and `/validate`.
pub(crate) fn router(group: &str) -> Router {
    Router::new()
        .route("/convert", post(convert))
        .route("/default", post(default))
        .route("/validate", post(validate))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(group.to_owned())
}

async fn convert(State(group): State<String>, Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().into_iter().flatten();
    let converted: Result<Vec<Value>, String> =
        objects.map(|object| sample::convert(object, wanted, &group)).collect();
    answer(
        &review,
        match converted {
            Ok(objects) => json!({"convertedObjects": objects, "result": {"status": "Success"}}),
            Err(message) => json!({"result": {"status": "Failure", "message": message}}),
        },
    )
}

async fn default(Json(review): Json<Value>) -> Json<Value> {
    answer(
        &review,
        match sample::defaults(&review["request"]["object"]) {
            None => json!({"allowed": true}),
            Some(patch) => json!({
                "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()),
            }),
        },
    )
}

async fn validate(Json(review): Json<Value>) -> Json<Value> {
    answer(
        &review,
        match sample::refusal(&review["request"]["object"]) {
            None => json!({"allowed": true}),
            Some(message) => json!({"allowed": false, "status": {"code": 422, "message": message}}),
        },
    )
}

/// The answer to a review, as it was asked.
fn answer(review: &Value, mut response: Value) -> Json<Value> {
    response["uid"] = review["request"]["uid"].clone();
    Json(json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}))
}

#[cfg(test)]
mod tests {
    use axum::{
        body::Body,
        http::{Request, StatusCode},
    };
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn ask(path: &str, request: Value) -> Value {
        let review = json!({"apiVersion": "r/v1", "kind": "Review", "request": request});
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(Body::from(review.to_string()))
            .unwrap();
        let answered = router("samples.example.com").oneshot(request).await.unwrap();
        assert_eq!(answered.status(), StatusCode::OK);
        let body = answered.into_body().collect().await.unwrap().to_bytes();
        let review: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(review["kind"], "Review");
        assert_eq!(review["response"]["uid"], "u");
        review["response"].clone()
    }

    #[tokio::test]
    async fn objects_are_converted_together_or_not_at_all() {
        let object = |version: &str| json!({"apiVersion": format!("samples.example.com/{version}"), "spec": {"message": "m"}});
        let request = |objects: Value| json!({"uid": "u", "desiredAPIVersion": "samples.example.com/v2", "objects": objects});
        let response = ask("/convert", request(json!([object("v1"), object("v2")]))).await;
        assert_eq!(response["result"]["status"], "Success");
        assert_eq!(response["convertedObjects"][0]["spec"]["content"]["text"], "m");
        let response = ask("/convert", request(json!([object("v1"), object("v9")]))).await;
        assert_eq!(response["result"]["status"], "Failure");
        assert_eq!(response["convertedObjects"], Value::Null);
    }

    #[tokio::test]
    async fn a_missing_number_is_patched_in() {
        let response = ask("/default", json!({"uid": "u", "object": {"spec": {}}})).await;
        let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(patch, json!([{"op": "add", "path": "/spec/copies", "value": 1}]));
        let response = ask("/default", json!({"uid": "u", "object": {"spec": {"copies": 3}}})).await;
        assert_eq!(response, json!({"allowed": true, "uid": "u"}));
    }

    #[tokio::test]
    async fn a_refusal_says_why() {
        let response = ask("/validate", json!({"uid": "u", "object": {"spec": {"copies": 11}}})).await;
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["message"], "spec.copies is 11: a Sample has 1 to 10 copies");
        let response = ask("/validate", json!({"uid": "u", "object": {"spec": {"copies": 1}}})).await;
        assert_eq!(response["allowed"], true);
    }
}
