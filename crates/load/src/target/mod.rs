//! How one request is made: a [`Connector`] opens connections, a [`Connection`] exchanges one request at a time.

mod classify;
mod dial;
mod tls;

use std::time::{Duration, Instant};

/// What one request told; filled as it goes on. A new one is made for each request, on the stack.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it was meant to start.
    pub due: Instant,
    /// When it did.
    pub started: Instant,
    /// Opening a TCP connection, where that was part of it.
    pub connect: Option<Duration>,
    /// The TLS handshake, where that was part of it.
    pub tls: Option<(Duration, Handshake)>,
    /// From the request's first byte to its answer's.
    pub first_byte: Option<Duration>,
    /// Agreeing a session, where that was part of it.
    pub key_agreement: Option<Duration>,
    /// Sealing the request.
    pub seal: Option<Duration>,
    /// Opening the answer.
    pub open: Option<Duration>,
    /// What the server says it took.
    pub server: Option<Duration>,
    /// The answer's status; 0 for none.
    pub status: u16,
    /// Bytes written.
    pub bytes_sent: u64,
    /// Bytes read.
    pub bytes_received: u64,
}

/// Which kind of TLS handshake it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// With certificates.
    Full,
    /// By a ticket.
    Resumed,
}

impl Sample {
    /// Of a request that starts now.
    pub fn new(due: Instant, started: Instant) -> Self {
        Sample {
            due,
            started,
            connect: None,
            tls: None,
            first_byte: None,
            key_agreement: None,
            seal: None,
            open: None,
            server: None,
            status: 0,
            bytes_sent: 0,
            bytes_received: 0,
        }
    }
}
