//! Connections to servers through something other than the system's network: a simulation gives its own.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// A connected stream of bytes.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for T {}

/// The result of a dial, as it is awaited.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn ByteStream>>> + Send>>;

/// Opens streams of bytes to servers.
pub trait Dial: Send + Sync {
    /// Opens a stream to a port of a host.
    fn dial(&self, host: &str, port: u16) -> Dialing;
}

/// A shared [`Dial`]. Two are equal if they are the same one.
#[derive(Clone)]
pub struct Dialer(pub Arc<dyn Dial>);

impl PartialEq for Dialer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Dialer {}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}
