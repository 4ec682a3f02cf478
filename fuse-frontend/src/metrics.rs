//! Figures of a mount for Prometheus, over HTTP at `/metrics`. A thread of its own answers one question after the
//! other; what a stranger sends is bounded in length and time, and changes nothing.

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::{Counter, Encoder, Gauge, Opts, Registry, TextEncoder};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use crate::serve::{Figure, Kind};

/// Where metrics are by default, as with other clients of the volume format.
pub const DEFAULT: &str = "127.0.0.1:9567";
/// How long a question and its answer may take together.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a question.
const QUESTION: usize = 8 << 10;

/// Labels every figure carries.
pub type Labels = HashMap<String, String>;

/// Gives the figures of a moment; `None` when the mount is over.
pub type Source = Arc<dyn Fn() -> Option<Vec<Figure>> + Send + Sync>;

/// Listens there. With `given` (the user named this place) a place that is taken is an error; else another port is
/// taken.
pub fn bind(place: &str, given: bool) -> anyhow::Result<TcpListener> {
    let remedy = "name another with --metrics HOST:PORT, or none with --metrics ''";
    let found = place.to_socket_addrs().map(|mut all| all.next());
    let Some(address) = found.with_context(|| format!("--metrics {place} is no address: {remedy}"))? else {
        bail!("--metrics {place} is no address: {remedy}");
    };
    match TcpListener::bind(address) {
        Err(_) if !given => Ok(TcpListener::bind(SocketAddr::new(address.ip(), 0))?),
        bound => bound.with_context(|| format!("--metrics {place} can't be used: {remedy}")),
    }
}

/// A place to serve figures at, and what labels they carry.
#[derive(Debug)]
pub struct Endpoint {
    /// Bound, and nobody is answered yet.
    pub listener: TcpListener,
    /// What the user wants every figure to carry.
    pub labels: Labels,
}

impl Endpoint {
    /// Where they are.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        self.listener.local_addr().ok().map(|place| format!("http://{place}/metrics"))
    }
}

/// Answers for as long as the mount lives.
pub fn serve(endpoint: Endpoint, source: Source) -> anyhow::Result<()> {
    let Endpoint { listener, labels } = endpoint;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("zest-metrics".into()).spawn(move || {
        let ended = runtime.block_on(answer_all(listener, &labels, &source));
        if let Err(error) = ended {
            tracing::warn!("metrics are not served any more: {error}");
        }
    })?;
    Ok(())
}

async fn answer_all(listener: TcpListener, labels: &Labels, source: &Source) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        // Looks up now and then, to end with the mount.
        let Ok(accepted) = tokio::time::timeout(PATIENCE, listener.accept()).await else {
            if source().is_none() {
                return Ok(());
            }
            continue;
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let service = service_fn(|request: Request<Incoming>| async move {
            Ok::<_, Infallible>(answer(&request, labels, source))
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .max_buf_size(QUESTION)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        // A stranger's mistake is his own.
        let _ = tokio::time::timeout(PATIENCE, connection).await;
    }
}

fn answer(request: &Request<Incoming>, labels: &Labels, source: &Source) -> Response<Full<Bytes>> {
    let reply = |status, text: Vec<u8>| {
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response
    };
    if request.method() != Method::GET || request.uri().path() != "/metrics" {
        return reply(StatusCode::NOT_FOUND, b"see /metrics\n".to_vec());
    }
    let Some(figures) = source() else {
        return reply(StatusCode::SERVICE_UNAVAILABLE, b"the mount is over\n".to_vec());
    };
    match text(&figures, labels) {
        Ok(text) => reply(StatusCode::OK, text),
        Err(error) => reply(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n").into_bytes()),
    }
}

/// The figures in Prometheus's text format.
fn text(figures: &[Figure], labels: &Labels) -> prometheus::Result<Vec<u8>> {
    let registry = Registry::new();
    for figure in figures {
        let options = Opts::new(figure.name, figure.help).const_labels(labels.clone());
        match figure.kind {
            Kind::Gauge => {
                let gauge = Gauge::with_opts(options)?;
                gauge.set(figure.value);
                registry.register(Box::new(gauge))?;
            }
            Kind::Counter => {
                let counter = Counter::with_opts(options)?;
                counter.inc_by(figure.value);
                registry.register(Box::new(counter))?;
            }
        }
    }
    let mut out = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut out)?;
    Ok(out)
}

/// Labels a user gives: `name:value` pairs, separated by semicolons.
pub fn labels(text: &str) -> anyhow::Result<Labels> {
    let mut labels = Labels::new();
    for pair in text.split(';').filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once(':').filter(|(name, _)| is_label(name)) else {
            bail!("--custom-labels {pair:?} is no label: write name:value, separated by semicolons");
        };
        labels.insert(name.into(), value.into());
    }
    Ok(labels)
}

fn is_label(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn figures_are_served_with_their_labels() {
        let figure = |name, kind, value| Figure { name, help: "It is.", kind, value };
        let source: Source = Arc::new(move || {
            Some(vec![figure("a_gauge", Kind::Gauge, 1.5), figure("a_count", Kind::Counter, 3.0)])
        });
        let listener = bind("127.0.0.1:0", true).unwrap();
        let address = listener.local_addr().unwrap();
        let labels = labels("mp:/x y;zone:a").unwrap();
        serve(Endpoint { listener, labels }, source).unwrap();
        let said = ask(address, "/metrics");
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
        for line in [
            "# TYPE a_count counter\na_count{mp=\"/x y\",zone=\"a\"} 3\n",
            "# HELP a_gauge It is.\n# TYPE a_gauge gauge\na_gauge{mp=\"/x y\",zone=\"a\"} 1.5\n",
        ] {
            assert!(said.contains(line), "{said}");
        }
        assert!(ask(address, "/").starts_with("HTTP/1.1 404"));
        // A place that is taken: an error only for who named it.
        let taken = address.to_string();
        assert!(bind(&taken, true).unwrap_err().to_string().contains("--metrics"));
        assert_ne!(bind(&taken, false).unwrap().local_addr().unwrap(), address);
        assert!(bind("nowhere", true).is_err());
    }

    #[test]
    fn labels_are_checked() {
        assert_eq!(labels("").unwrap().len(), 0);
        assert_eq!(labels("a:1;b:x:y;").unwrap()["b"], "x:y");
        for bad in ["a", "1a:x", "a-b:x", ":x"] {
            assert!(labels(bad).unwrap_err().to_string().contains(bad), "{bad}");
        }
    }
}
