//! A connection to one gateway that is opened when needed, and again when lost.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::ledger::{Count, Ledger};
use crate::raw_http::{Answer, Connection};

/// Longest time for opening a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// The gateway at the other end.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    connection: Option<Connection>,
    answer_max: Duration,
}

/// The result of sending a request.
#[derive(Debug)]
pub(super) enum SendResult {
    /// The gateway answered the request.
    Answered(Answer),
    /// The request was never sent.
    NotConnected,
    /// The request was sent, and its result is unknown.
    Unknown,
}

impl Peer {
    pub(super) fn new(address: SocketAddr, answer_max: Duration) -> Self {
        Peer { address, connection: None, answer_max }
    }

    fn connect(&self) -> anyhow::Result<Connection> {
        let mut connection = Connection::over(TcpStream::connect_timeout(&self.address, CONNECT)?)?;
        connection.set_wait(self.answer_max)?;
        Ok(connection)
    }

    /// Sends without waiting; returns false if the gateway does not listen.
    pub(super) fn write(&mut self, bytes: &[u8], ledger: &Ledger) -> bool {
        if let Some(connection) = &mut self.connection {
            if connection.write(bytes).is_ok() {
                return true;
            }
            self.connection = None;
        }
        match self.connect() {
            Ok(mut connection) => {
                // A failure here shows on the read.
                let _ = connection.write(bytes);
                self.connection = Some(connection);
                true
            }
            Err(_) => {
                ledger.add(Count::NotConnected);
                false
            }
        }
    }

    /// Reads the answer to the written request.
    pub(super) fn read(&mut self, started: Instant, what: &str, ledger: &Ledger) -> SendResult {
        let Some(connection) = &mut self.connection else { return SendResult::Unknown };
        match connection.read_answer("POST") {
            Ok(answer) => {
                if answer.all("connection").iter().any(|value| value.eq_ignore_ascii_case("close")) {
                    self.connection = None;
                }
                ledger.answered(what, &answer, started.elapsed());
                SendResult::Answered(answer)
            }
            Err(_) => {
                self.connection = None;
                ledger.add(Count::Broken);
                if started.elapsed() >= self.answer_max {
                    ledger.wrong(format!("{what}: no answer from {} within {:?}", self.address, self.answer_max));
                }
                SendResult::Unknown
            }
        }
    }

    /// Sends a request and reads its answer.
    pub(super) fn exchange(&mut self, bytes: &[u8], what: &str, ledger: &Ledger) -> SendResult {
        let started = Instant::now();
        if self.write(bytes, ledger) { self.read(started, what, ledger) } else { SendResult::NotConnected }
    }
}
