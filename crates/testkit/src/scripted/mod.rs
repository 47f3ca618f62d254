//! A server that answers by a script, and keeps a record of its own: the reference for the measurements of a load generator.
//!
//! It has one thread and a runtime of its own, and serves HTTP/1.1, over TLS on request. Its delays are as precise as the
//! kernel's timers. A request's time in the record goes from the last byte of its head to the last byte of its answer. Requests
//! whose path begins with `/warm` are answered alike and not recorded.

mod connection;
mod record;
mod request;
mod script;
mod sleeper;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};

use self::connection::ServerState;
pub use self::record::Record;
pub use self::script::{Latency, Script, Stall};
use self::sleeper::Sleeper;
pub use self::tls::ServerTls;

/// A running server; it ends when dropped.
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    record: Arc<Mutex<Record>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ScriptedServer {
    /// Serves plain HTTP on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If no port is free or no thread starts.
    pub fn http(script: Script) -> anyhow::Result<Self> {
        ScriptedServer::start(script, None, 0)
    }

    /// Serves, as [`ScriptedServer::http`], over TLS.
    ///
    /// # Errors
    /// Those of [`ScriptedServer::http`], and files that TLS cannot use.
    pub fn https(script: Script, tls: &ServerTls) -> anyhow::Result<Self> {
        ScriptedServer::start(script, Some(tls), 0)
    }

    /// Serves on this port of 127.0.0.1; 0 takes a free one.
    ///
    /// # Errors
    /// If the port is taken, the files are not as TLS needs them, or no thread starts.
    pub fn start(script: Script, tls: Option<&ServerTls>, port: u16) -> anyhow::Result<Self> {
        let acceptor = tls.map(ServerTls::acceptor).transpose()?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        // The queue of connections not yet accepted must hold a whole burst.
        rustix::net::listen(&listener, 8192)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let record = Arc::new(Mutex::new(Record::default()));
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let kept = record.clone();
        let thread = std::thread::Builder::new().name("scripted".to_owned()).spawn(move || {
            let served = serve(script, acceptor, listener, kept, stopped, ready.clone());
            let _ = ready.send(served);
        })?;
        is_ready.recv().context("the server's thread ended")??;
        Ok(ScriptedServer { address, record, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the record since its start or the last [`ScriptedServer::forget`]. The record does not change while this is held.
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of the record once no request is in flight any more, or after `patience`.
    pub fn settled(&self, patience: Duration) -> Record {
        let until = std::time::Instant::now() + patience;
        loop {
            let record = self.record().clone();
            if record.in_flight == 0 || std::time::Instant::now() > until {
                return record;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Begins a new record. Open connections and requests in flight stay counted; a stall and the queue of a bounded rate go
    /// on.
    pub fn forget(&self) {
        let mut record = self.record();
        *record = Record { in_flight: record.in_flight, open: record.open, ..Record::default() };
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs the thread: reports that it is ready, then serves until the handle is dropped.
fn serve(
    script: Script,
    acceptor: Option<tokio_rustls::TlsAcceptor>,
    listener: std::net::TcpListener,
    record: Arc<Mutex<Record>>,
    stopped: oneshot::Receiver<()>,
    ready: std::sync::mpsc::Sender<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::from_std(listener)?;
        let sleeper = Rc::new(Sleeper::new()?);
        let shared = Rc::new(ServerState::new(script, acceptor, sleeper.clone(), record));
        let _ = ready.send(Ok(()));
        spawn_local(async move { sleeper.run().await });
        let accepting = async {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let shared = shared.clone();
                        spawn_local(async move { shared.serve(stream).await });
                    }
                    // Out of descriptors: clients that leave make room.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        tokio::select! {
            () = accepting => {}
            _ = stopped => {}
        }
        Ok(())
    })
}
