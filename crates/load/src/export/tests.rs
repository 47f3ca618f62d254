use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::engine::{Control, Tick};
use crate::report::tests::sample::{self, Shape};

fn events(label: &str) -> Vec<Event> {
    let outcome = sample::outcome(1, Shape::Usual, 3, 1.0);
    let mut plan = outcome.plan.clone();
    plan.label = label.to_owned();
    let tick = Tick { second: outcome.seconds[3].clone(), totals: outcome.totals.clone() };
    vec![Event::Run { plan: Arc::new(plan), control: Control::default() }, Event::Tick(Box::new(tick))]
}

fn snapshot(label: &str) -> Arc<Snapshot> {
    let outcome = sample::outcome(1, Shape::Usual, 3, 1.0);
    let tick = Tick { second: outcome.seconds[3].clone(), totals: outcome.totals };
    Arc::new(Snapshot::of(label.into(), &tick))
}

/// Sends one request and returns the whole answer.
async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Push destination that answers with this status; the receiver gets the text of each push.
async fn place(status: &'static str) -> (Uri, tokio::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (sender, receiver) = tokio::sync::mpsc::channel(16);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut text, mut buffer) = (Vec::new(), vec![0; 65_536]);
            loop {
                let read = stream.read(&mut buffer).await.unwrap();
                text.extend_from_slice(&buffer[..read]);
                let all = String::from_utf8_lossy(&text);
                let Some((head, body)) = all.split_once("\r\n\r\n") else { continue };
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                if body.len() >= length.parse::<usize>().unwrap() {
                    break;
                }
            }
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            sender.send(String::from_utf8(text).unwrap()).await.unwrap();
        }
    });
    (address, receiver)
}

#[tokio::test]
async fn prometheus_is_answered_with_the_newest_figures_and_nothing_else_is() {
    let exports = Exports { prometheus: Some("127.0.0.1:0".parse().unwrap()), ..Exports::default() };
    let exporter = Exporter::start(&exports).unwrap();
    let address = exporter.listens_at().unwrap();
    let ask = "GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    assert!(exchange(address, ask).await.ends_with("\r\n\r\n"), "nothing is measured yet");
    events("a \"b\"\n\\").iter().for_each(|event| exporter.feed(event));
    let answer = exchange(address, ask).await;
    assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
    assert!(answer.contains(r#"sealway_load_requests_total{run="a \"b\"\n\\",result="succeeded"} 3036"#), "{answer}");
    assert!(answer.contains("sealway_load_running{run=\"a \\\"b\\\"\\n\\\\\"} 1"), "{answer}");
    for wrong in ["GET / HTTP/1.1", "POST /metrics HTTP/1.1"] {
        let answer = exchange(address, &format!("{wrong}\r\nhost: a\r\nconnection: close\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 40"), "{answer}");
    }
    assert!(exporter.finish().await.is_empty());
}

#[test]
fn every_line_is_of_the_text_format_and_buckets_never_fall() {
    let text = prometheus::text(&snapshot("checkout"));
    let mut last = (String::new(), 0.0);
    for line in text.lines() {
        if line.starts_with("# HELP ") || line.starts_with("# TYPE ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite() && series.starts_with("sealway_load_") && series.ends_with('}'), "{line}");
        if let Some((name, _)) = series.split_once(",le=") {
            assert!(last.0 != name || value >= last.1, "{line}");
            last = (name.to_owned(), value);
        }
    }
    let value = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).unwrap().to_owned();
    let count = value("sealway_load_seconds_count{run=\"checkout\",phase=\"response\"} ");
    assert_eq!(count, value("sealway_load_requests_total{run=\"checkout\",result=\"succeeded\"} "));
    assert_eq!(count, value("sealway_load_seconds_bucket{run=\"checkout\",phase=\"response\",le=\"+Inf\"} "));
}

#[tokio::test]
async fn the_last_figures_are_pushed_to_both_places_in_their_forms() {
    let (gateway, mut at_gateway) = place("202 Accepted").await;
    let (collector, mut at_collector) = place("200 OK").await;
    let exports = Exports { pushgateway: Some(gateway), otlp: Some(collector), prometheus: None };
    let exporter = Exporter::start(&exports).unwrap();
    events("checkout").iter().for_each(|event| exporter.feed(event));
    exporter.feed(&Event::Outcome(Box::new(sample::outcome(1, Shape::Usual, 1, 1.0))));
    assert_eq!(exporter.finish().await, [""; 0]);
    let pushed = at_gateway.recv().await.unwrap();
    assert!(pushed.starts_with("PUT /metrics/job/sealway_load HTTP/1.1\r\n"), "{pushed}");
    assert!(pushed.contains("sealway_load_running{run=\"checkout\"} 0"), "{pushed}");
    let sent = at_collector.recv().await.unwrap();
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n") && head.contains("application/json"), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap().clone();
    let times = metrics.iter().find(|metric| metric["name"] == "sealway_load_seconds").unwrap();
    let point = &times["histogram"]["dataPoints"][0];
    let counts =
        point["bucketCounts"].as_array().unwrap().iter().map(|count| count.as_str().unwrap().parse::<u64>().unwrap());
    assert_eq!(counts.sum::<u64>().to_string(), point["count"].as_str().unwrap());
    assert_eq!(point["bucketCounts"].as_array().unwrap().len(), point["explicitBounds"].as_array().unwrap().len() + 1);
    if let Some(path) = std::env::var_os("SEALWAY_OTLP_SAMPLE") {
        std::fs::write(path, body.to_string()).unwrap();
    }
}

#[tokio::test]
async fn a_place_that_refuses_or_is_silent_is_reported_at_the_end_and_holds_nobody_back() {
    let (refusing, mut pushed) = place("503 Service Unavailable").await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody: Uri = format!("http://{}", silent.local_addr().unwrap()).parse().unwrap();
    let exports = Exports { pushgateway: Some(refusing), otlp: Some(nobody), prometheus: None };
    let exporter = Exporter::start(&exports).unwrap();
    let events = events("checkout");
    let before = Instant::now();
    events.iter().for_each(|event| exporter.feed(event));
    assert!(before.elapsed() < Duration::from_secs(2));
    let problems = exporter.finish().await;
    assert!(
        problems[0].contains("--pushgateway: 1 of 1 pushes to 127.0.0.1:") && problems[0].contains("status 503"),
        "{problems:?}"
    );
    assert!(problems[1].contains("--otlp: ") && problems[1].contains("no response within 4 s"), "{problems:?}");
    pushed.recv().await.unwrap();
}

#[tokio::test]
async fn addresses_that_cannot_be_used_are_reported_with_their_flag() {
    let push = |address: &str| Exports { pushgateway: Some(address.parse().unwrap()), ..Exports::default() };
    for (exports, part) in [
        (push("https://a:1/"), "--pushgateway: only http"),
        (push("/a"), "--pushgateway: expected an address such as"),
        (push("http://ann:pa55@a/"), "--pushgateway: a user and password"),
    ] {
        let error = Exporter::start(&exports).unwrap_err().to_string();
        assert!(error.starts_with(part) && !error.contains("pa55"), "{error}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let exports = Exports { prometheus: Some(taken.local_addr().unwrap()), ..Exports::default() };
    let error = Exporter::start(&exports).unwrap_err().to_string();
    assert!(error.contains("--prometheus 127.0.0.1:") && error.contains("cannot listen"), "{error}");
}
