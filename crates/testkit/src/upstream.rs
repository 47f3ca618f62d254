//! A test's own service behind the gateway: plain TCP and a closure, so that it can answer anything, slowly, in parts, or not
//! at all; and it records its requests.

use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;

use crate::raw_http::{Connection, find};

/// The head of a request that reached the service.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// The line of the request.
    pub line: String,
    /// The headers of the request, in order.
    pub headers: Vec<(String, String)>,
}

impl RequestHead {
    /// Returns method and target of the request line.
    pub fn method_and_target(&self) -> (&str, &str) {
        let mut words = self.line.split(' ');
        (words.next().unwrap_or_default(), words.next().unwrap_or_default())
    }

    /// Returns the first value of a name.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }
}

/// A service that listens until the process ends.
#[derive(Debug)]
pub struct Upstream {
    /// The address that it listens on.
    pub address: SocketAddr,
    seen: Mutex<Receiver<(RequestHead, Vec<u8>)>>,
}

/// The type of the closure: it gets the head, and the connection to read the body from and answer on. It returns the body that
/// it read.
pub trait Serve: Fn(&RequestHead, &mut Connection) -> anyhow::Result<Vec<u8>> + Send + Sync + 'static {}
impl<F: Fn(&RequestHead, &mut Connection) -> anyhow::Result<Vec<u8>> + Send + Sync + 'static> Serve for F {}

impl Upstream {
    /// Serves by a closure, a connection a request.
    ///
    /// # Errors
    /// If no port is free.
    pub fn serve(serve: impl Serve) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (sender, receiver) = channel();
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (serve, sender): (_, Sender<_>) = (serve.clone(), sender.clone());
                std::thread::spawn(move || {
                    let Ok(mut connection) = Connection::over(stream) else { return };
                    // A connection that ends is not a failure here: the test sees the result at its client.
                    let Ok((line, headers)) = connection.read_head() else { return };
                    let received = RequestHead { line, headers };
                    if let Ok(body) = serve(&received, &mut connection) {
                        let _ = sender.send((received, body));
                    }
                });
            }
        });
        Ok(Upstream { address, seen: Mutex::new(receiver) })
    }

    /// Reads each request whole and sends the closure's answer: raw bytes.
    ///
    /// # Errors
    /// If no port is free.
    pub fn answering(answer: impl Fn(&RequestHead, &[u8]) -> Vec<u8> + Send + Sync + 'static) -> anyhow::Result<Self> {
        Upstream::serve(move |received, connection| {
            // A service reads trailers over: with them a request is whole all the same.
            let (body, _) = connection.read_body_and_trailers(&received.headers)?;
            connection.write(&answer(received, &body))?;
            Ok(body)
        })
    }

    /// Returns the next request that was served, in the order of their ends.
    ///
    /// # Errors
    /// If none comes.
    pub fn next(&self) -> anyhow::Result<(RequestHead, Vec<u8>)> {
        let receiver = self.seen.lock().ok().context("another test failed")?;
        receiver.recv_timeout(Duration::from_secs(10)).context("the service was not asked")
    }

    /// Returns whether no (further) request reached it.
    pub fn is_untouched(&self) -> bool {
        self.seen.lock().is_ok_and(|receiver| receiver.try_recv().is_err())
    }
}

/// Creates an answer with a length, and `Connection: close`.
pub fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for (name, value) in headers {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    if !status.starts_with("204") && !status.starts_with("304") {
        bytes.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    bytes.push_str("\r\n");
    let mut bytes = bytes.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
