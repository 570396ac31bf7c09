//! Accepting connections and passing requests on, or not.

use std::{sync::Arc, time::Instant};

use axum::body::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio_util::sync::CancellationToken;

use super::{
    Blow, Fault, Shared,
    requests::{Asked, Write, WriteName},
    watches::{BoxError, Flow, events},
};

type Answer = Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

/// Accepts connections until `stop`.
pub(super) async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        let connection = tokio::select! {
            () = stop.cancelled() => return,
            connection = listener.accept() => connection,
        };
        let Ok((connection, _)) = connection else { continue };
        // Without it small answers wait for the client's acknowledgement of the one before.
        let _ = connection.set_nodelay(true);
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| answer(Arc::clone(&shared), request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(connection), service);
        // A connection that breaks is the client's to report.
        drop(tokio::spawn(connection));
    }
}

/// Counts a request as under way while it is.
struct UnderWay(Arc<Shared>);

impl UnderWay {
    fn new(shared: &Arc<Shared>) -> Self {
        let mut state = shared.state();
        state.under_way += 1;
        state.last_request = Some(Instant::now());
        drop(state);
        Self(Arc::clone(shared))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.under_way = state.under_way.saturating_sub(1);
        state.last_request = Some(Instant::now());
    }
}

/// What is to be done with a request.
struct Verdict {
    /// Its place in the list of writes.
    write: Option<usize>,
    blow: Option<Blow>,
    fault: Option<Fault>,
}

/// An error closes the connection without an answer.
async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let asked = Asked::read(&parts.method, &parts.uri, &parts.headers, &body);
    let has_token = parts.headers.contains_key(header::AUTHORIZATION);
    let under_way = (!asked.is_watch() && !asked.is_lease()).then(|| UnderWay::new(&shared));
    let mut frozen = shared.frozen.subscribe();
    if *frozen.borrow_and_update() {
        return lost(frozen, under_way).await;
    }
    let verdict = judge(&shared, &asked, has_token);
    match verdict.blow {
        Some(Blow::Before) => {
            shared.frozen.send_replace(true);
            shared.struck.send_replace(true);
            return lost(frozen, under_way).await;
        }
        Some(Blow::After) => drop(shared.frozen.send_replace(true)),
        Some(blow) => {
            let flow = if blow == Blow::Stale { Flow::Held } else { Flow::Lost };
            shared.gate.send_modify(|gate| gate.flow = flow);
            shared.struck.send_replace(true);
        }
        None => {}
    }
    match verdict.fault {
        Some(Fault::Status(code)) => return status(code),
        Some(Fault::Drop) => return Err("dropped by the proxy".into()),
        Some(Fault::Lose) | None => {}
    }
    let client = if has_token { &shared.as_nobody } else { &shared.as_user };
    let mut onward = Request::from_parts(parts, Body::from(body.to_vec()));
    for name in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        onward.headers_mut().remove(name);
    }
    let answer = client.send(onward).await?;
    if let Some(index) = verdict.write
        && let Some(write) = shared.state().writes.get_mut(index)
    {
        write.status = Some(answer.status().as_u16());
    }
    if verdict.blow == Some(Blow::After) {
        // The write is through before anybody acts on the blow.
        let _ = answer.into_body().collect().await?;
        shared.struck.send_replace(true);
        return lost(frozen, under_way).await;
    }
    if verdict.fault == Some(Fault::Lose) {
        return Err("lost by the proxy".into());
    }
    let (mut parts, body) = answer.into_parts();
    for name in [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        parts.headers.remove(name);
    }
    let body = if asked.is_watch() && parts.status.is_success() {
        StreamBody::new(events(shared, body)).boxed_unsync()
    } else {
        whole(body.collect().await?.to_bytes())
    };
    drop(under_way);
    Ok(Response::from_parts(parts, body))
}

/// Waits until the proxy thaws, and loses the request then.
async fn lost(mut frozen: tokio::sync::watch::Receiver<bool>, under_way: Option<UnderWay>) -> Answer {
    // Nobody waits for what is stopped.
    drop(under_way);
    let _ = frozen.wait_for(|frozen| !frozen).await;
    Err("lost by the proxy".into())
}

fn judge(shared: &Shared, asked: &Asked, has_token: bool) -> Verdict {
    let mut state = shared.state();
    if !asked.is_watch() && !asked.is_lease() {
        state.requests.push(asked.text());
    }
    let fault = state.weather.as_mut().and_then(|weather| weather.strikes(asked, has_token));
    if !asked.is_write() {
        return Verdict { write: None, blow: None, fault };
    }
    let Asked { verb, resource, object, .. } = asked.clone();
    let nth = state.counts.entry((verb.clone(), resource.clone(), object.clone())).or_insert(0);
    *nth += 1;
    let name = WriteName { verb, resource, object, nth: *nth };
    let blow = state.strike.take_if(|(at, _)| *at == name).map(|(_, blow)| blow);
    state.writes.push(Write { name, at: Instant::now(), status: None });
    Verdict { write: Some(state.writes.len() - 1), blow, fault }
}

fn status(code: u16) -> Answer {
    let mut answer = Response::new(whole(Fault::body(code).to_string().into()));
    *answer.status_mut() = StatusCode::from_u16(code)?;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if code == 429 {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    Ok(answer)
}

fn whole(bytes: Bytes) -> UnsyncBoxBody<Bytes, BoxError> {
    Full::new(bytes).map_err(BoxError::from).boxed_unsync()
}
