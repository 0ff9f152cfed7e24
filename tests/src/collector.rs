//! A collector of telemetry that stands in for a real one, and one that misbehaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How a collector behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Refuses so many requests, asking to be left alone for no time, then takes all.
    BusyAtFirst(usize),
    /// Answers with what is no HTTP.
    Garbage,
    /// Takes a connection and says nothing.
    Hangs,
    /// Takes everything.
    Takes,
}

/// What has arrived so far.
#[derive(Debug, Clone, Default)]
pub struct Received {
    /// All spans, in order.
    pub spans: Vec<Span>,
    /// The newest sums.
    pub metrics: Vec<Metric>,
    /// Bodies of everything that is no OTLP.
    pub bodies: Vec<String>,
}

/// A running collector. It ends with its runtime.
#[derive(Debug)]
pub struct Collector {
    url: String,
    received: watch::Receiver<Received>,
    connections: Arc<AtomicUsize>,
}

impl Collector {
    /// Starts one.
    pub async fn start(mood: Mood) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, received) = watch::channel(Received::default());
        let connections = Arc::new(AtomicUsize::new(0));
        tokio::spawn(serve(listener, mood, sender, Arc::clone(&connections)));
        Self { url, received, connections }
    }

    /// Returns its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns how many connections it had.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits until what has arrived is `enough`, and returns it.
    pub async fn wait_for(&self, enough: impl Fn(&Received) -> bool) -> Received {
        self.received.clone().wait_for(enough).await.unwrap().clone()
    }
}

async fn serve(
    listener: TcpListener,
    mood: Mood,
    sender: watch::Sender<Received>,
    connections: Arc<AtomicUsize>,
) {
    let mut kept = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let number = connections.fetch_add(1, Ordering::SeqCst);
        match mood {
            Mood::Hangs => kept.push(stream),
            Mood::Garbage => drop(stream.write_all(&[0xff; 2_000]).await),
            Mood::BusyAtFirst(times) if number < times => {
                drop(read(&mut stream).await);
                answer(&mut stream, "503 Service Unavailable\r\nRetry-After: 0").await;
            }
            Mood::BusyAtFirst(_) | Mood::Takes => {
                let (head, body) = read(&mut stream).await;
                sender.send_modify(|received| take(received, &head, &body));
                answer(&mut stream, "200 OK").await;
            }
        }
    }
}

fn take(received: &mut Received, head: &str, body: &[u8]) {
    if head.starts_with("POST /v1/traces ") {
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        received.spans.extend(scopes.flat_map(|scope| scope.spans));
    } else if head.starts_with("POST /v1/metrics ") {
        let request = ExportMetricsServiceRequest::decode(body).unwrap();
        let resources = request.resource_metrics.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_metrics);
        received.metrics = scopes.flat_map(|scope| scope.metrics).collect();
    } else {
        received.bodies.push(String::from_utf8(body.to_vec()).unwrap());
    }
}

async fn read(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head.to_ascii_lowercase();
            let length = length.split("content-length: ").nth(1).unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            while bytes.len() < end + 4 + length {
                assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "half a request");
            }
            return (head, bytes.split_off(end + 4));
        }
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "half a head");
    }
}

async fn answer(stream: &mut TcpStream, status: &str) {
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
    // Whoever stopped listening does not matter here.
    drop(stream.write_all(text.as_bytes()).await);
}

/// Returns an attribute as text.
pub fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()? {
        AnyValue { value: Some(Value::StringValue(text)) } => Some(text.clone()),
        AnyValue { value: Some(Value::IntValue(number)) } => Some(number.to_string()),
        AnyValue { value: Some(Value::DoubleValue(number)) } => Some(number.to_string()),
        _ => None,
    }
}

impl Received {
    /// Returns the spans of calls, in the order in which they ended, without those of their stages.
    pub fn calls(&self) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.name.starts_with("tool.call")).collect()
    }

    /// Returns a counter's value for all its labels that have `value` as the label `key`.
    pub fn sum(&self, metric: &str, key: &str, value: &str) -> i64 {
        let Some(Data::Sum(sum)) = self.data(metric) else { return 0 };
        let points = sum.data_points.iter();
        let wanted = points.filter(|p| attribute(&p.attributes, key).as_deref() == Some(value));
        wanted
            .map(|point| match point.value {
                Some(number_data_point::Value::AsInt(number)) => number,
                _ => 0,
            })
            .sum()
    }

    /// Returns how many measurements a histogram has.
    pub fn count(&self, metric: &str) -> u64 {
        let Some(Data::Histogram(histogram)) = self.data(metric) else { return 0 };
        histogram.data_points.iter().map(|point| point.count).sum()
    }

    fn data(&self, metric: &str) -> Option<&Data> {
        self.metrics.iter().find(|own| own.name == metric)?.data.as_ref()
    }
}
