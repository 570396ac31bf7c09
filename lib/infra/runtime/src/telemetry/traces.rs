//! Traces for an OpenTelemetry collector, over HTTP, in builds with the feature `otel`: a span for each pass of a
//! controller, with its log lines as events.
//!
//! Everything is set by OpenTelemetry's own variables; without an endpoint among them nothing is sent. Without the
//! feature an endpoint is answered with a warning.

/// Variables that name a collector.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

fn wanted() -> bool {
    ENDPOINTS.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

pub use kind::Traces;
pub(super) use kind::of_environment;

#[cfg(not(feature = "otel"))]
mod kind {
    use tracing_subscriber::layer::Identity;

    /// What has to be ended for the last traces to arrive. This build has none.
    #[derive(Debug)]
    pub struct Traces;

    /// Nothing, whatever the environment asks for.
    pub(in super::super) fn of_environment(_: &'static str) -> (Identity, Traces) {
        (Identity::new(), Traces)
    }

    impl Traces {
        /// Says what came of the environment's wish, once there is a log.
        pub(in super::super) fn logged(self) -> Self {
            if super::wanted() {
                tracing::warn!("this program was built without traces: build it with the feature otel");
            }
            self
        }

        /// Sends what is left.
        pub fn end(self) {}
    }
}

#[cfg(feature = "otel")]
mod kind {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
    use opentelemetry_sdk::{
        Resource,
        trace::{SdkTracer, SdkTracerProvider},
    };
    use tracing_opentelemetry::OpenTelemetryLayer;
    use tracing_subscriber::registry::LookupSpan;

    /// Who makes the spans.
    const SCOPE: &str = "olm-runtime";
    /// Names the process in traces.
    const NAME: &str = "OTEL_SERVICE_NAME";

    /// What has to be ended for the last traces to arrive.
    #[derive(Debug)]
    pub struct Traces(Result<Option<SdkTracerProvider>, ExporterBuildError>);

    type Layer<S> = OpenTelemetryLayer<S, SdkTracer>;

    /// What the environment asks for.
    pub(in super::super) fn of_environment<S>(program: &'static str) -> (Option<Layer<S>>, Traces)
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    {
        if !super::wanted() {
            return (None, Traces(Ok(None)));
        }
        to(program, None)
    }

    /// Traces for the collector at `endpoint`, else for the environment's.
    pub(super) fn to<S>(program: &'static str, endpoint: Option<&str>) -> (Option<Layer<S>>, Traces)
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    {
        // The exporter's client panics without one; that there is one already is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut exporter = SpanExporter::builder().with_http();
        if let Some(endpoint) = endpoint {
            exporter = exporter.with_endpoint(endpoint);
        }
        let exporter = match exporter.build() {
            Ok(exporter) => exporter,
            Err(error) => return (None, Traces(Err(error))),
        };
        let resource = Resource::builder();
        let resource =
            if std::env::var_os(NAME).is_some() { resource } else { resource.with_service_name(program) };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer(SCOPE));
        (Some(layer), Traces(Ok(Some(provider))))
    }

    impl Traces {
        /// Says what came of the environment's wish, once there is a log.
        pub(in super::super) fn logged(self) -> Self {
            match &self.0 {
                Ok(None) => {}
                Ok(Some(_)) => tracing::info!("sending traces"),
                Err(error) => tracing::warn!(%error, "no traces are sent"),
            }
            self
        }

        /// Sends what is left; waits some seconds for it at most.
        pub fn end(self) {
            if let Ok(Some(provider)) = self.0
                && let Err(error) = provider.shutdown()
            {
                tracing::warn!(%error, "the last traces were not sent");
            }
        }
    }
}

#[cfg(all(test, feature = "otel"))]
mod tests {
    use std::{
        io::{BufRead, BufReader, Read, Write},
        net::TcpListener,
    };

    use tracing_subscriber::layer::SubscriberExt;

    use super::kind::to;

    /// Takes one request; its first line, its headers in lower case, and its body.
    fn one_request(listener: &TcpListener) -> (String, String, Vec<u8>) {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let headers = lines[1..].join("\n").to_lowercase();
        let length = headers.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        reader.get_mut().write_all(answer).unwrap();
        (lines[0].clone(), headers, body)
    }

    #[test]
    fn spans_reach_a_collector_with_what_was_said_in_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let collector = std::thread::spawn(move || one_request(&listener));
        let (layer, traces) = to("the-program", Some(&endpoint));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::info_span!("reconcile", controller = "c", name = "the-object");
            span.in_scope(|| tracing::info!("something was done"));
        });
        traces.end();
        let (line, headers, body) = collector.join().unwrap();
        assert_eq!(line, "POST /v1/traces HTTP/1.1");
        assert!(headers.contains("content-type: application/x-protobuf"), "{headers}");
        // Texts stand in the message as they are.
        let body = String::from_utf8_lossy(&body);
        for text in ["the-program", "reconcile", "the-object", "something was done"] {
            assert!(body.contains(text), "{text} is missing in {body:?}");
        }
    }
}
