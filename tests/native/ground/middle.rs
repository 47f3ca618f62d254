//! An attacker that ends TLS between a client and a gateway. It reads every message, and makes the changes that the test
//! requests.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use anyhow::Context;
use sealway_testkit::native_client::Link;
use sealway_testkit::raw_http::{Answer, Connection, Request};

type OnRequest = Box<dyn FnOnce(Request) -> Request + Send>;
type OnAnswer = Box<dyn FnOnce(Answer) -> Answer + Send>;

/// The changes to the next message of each direction.
#[derive(Default)]
struct Orders {
    request: Option<OnRequest>,
    answer: Option<OnAnswer>,
}

/// A proxy for one test, which runs until the process ends.
pub(crate) struct Middle {
    /// The address on which the proxy listens.
    pub(crate) address: SocketAddr,
    orders: Arc<Mutex<Orders>>,
}

impl Middle {
    pub(crate) fn before(gateway: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let orders = Arc::new(Mutex::new(Orders::default()));
        let told = orders.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let told = told.clone();
                std::thread::spawn(move || while_it_lasts(stream, gateway, &told));
            }
        });
        Middle { address, orders }
    }

    /// Changes the next request with this function.
    pub(crate) fn change_request(&self, change: impl FnOnce(Request) -> Request + Send + 'static) {
        self.orders.lock().unwrap().request = Some(Box::new(change));
    }

    /// Changes the next answer with this function.
    pub(crate) fn change_answer(&self, change: impl FnOnce(Answer) -> Answer + Send + 'static) {
        self.orders.lock().unwrap().answer = Some(Box::new(change));
    }
}

fn while_it_lasts(stream: TcpStream, gateway: SocketAddr, orders: &Mutex<Orders>) {
    let Ok(mut client) = Connection::over(stream) else { return };
    let mut link = Link::new(gateway);
    while pass(&mut client, &mut link, orders).is_ok() {}
}

fn pass(client: &mut Connection, link: &mut Link, orders: &Mutex<Orders>) -> anyhow::Result<()> {
    let (line, headers) = client.read_head()?;
    let mut words = line.split(' ');
    let mut request = Request::new(words.next().context("method")?, words.next().context("target")?);
    request = request.body(client.read_body(&headers, false)?);
    for (name, value) in headers.iter().filter(|(name, _)| !is_of_hop(name)) {
        request = request.header(name, value);
    }
    let Orders { request: change, answer: change_back } = std::mem::take(&mut *orders.lock().unwrap());
    let answer = link.send(&match change {
        Some(change) => change(request),
        None => request,
    })?;
    let answer = match change_back {
        Some(change) => change(answer),
        None => answer,
    };
    let mut bytes = format!("HTTP/1.1 {} .\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in answer.headers.iter().filter(|(name, _)| !is_of_hop(name)) {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    bytes.push_str("\r\n");
    let bytes = bytes.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).chain(answer.body);
    client.write(&bytes.collect::<Vec<u8>>())
}

fn is_of_hop(name: &str) -> bool {
    ["connection", "content-length", "transfer-encoding"].iter().any(|known| known.eq_ignore_ascii_case(name))
}
