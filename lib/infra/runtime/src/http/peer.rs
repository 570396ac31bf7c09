//! Hands the certificates that a client showed on its TLS connection to the handlers of its requests.

use std::{io, pin::Pin, sync::Arc};

use axum::{Extension, middleware::AddExtension};
use axum_server::accept::Accept;
use rustls::pki_types::CertificateDer;
use tokio_rustls::server::TlsStream;
use tower::Layer;

/// The certificates of the client of a connection, its own first. A request has this extension when its server speaks
/// TLS. The client has the key of the first; whether anybody trusts it is for the handler to verify.
#[derive(Debug, Clone, Default)]
pub struct PeerCertificates(pub Arc<[CertificateDer<'static>]>);

/// Accepts connections as `inner` does.
#[derive(Debug, Clone)]
pub(super) struct PeerAcceptor<A>(pub(super) A);

impl<A, I, S, T> Accept<I, S> for PeerAcceptor<A>
where
    A: Accept<I, S, Stream = TlsStream<T>>,
    A::Service: Send,
    A::Future: Send + 'static,
    T: Send,
{
    type Stream = TlsStream<T>;
    type Service = AddExtension<A::Service, PeerCertificates>;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Self::Stream, Self::Service)>> + Send>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let accepted = self.0.accept(stream, service);
        Box::pin(async move {
            let (stream, service) = accepted.await?;
            let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let shown = PeerCertificates(shown.iter().cloned().collect());
            Ok((stream, Extension(shown).layer(service)))
        })
    }
}
