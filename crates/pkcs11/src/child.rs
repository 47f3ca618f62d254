//! The host process as its parent sees it: started, asked, killed.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;

use crate::message::{Operation, Request, Response, read, write};
use crate::{Error, Fault};

type Answer = Result<Vec<u8>, Error>;

/// A running host process. Dropping it kills the process.
pub(crate) struct Host {
    child: Mutex<Child>,
    requests: Mutex<UnixStream>,
    /// Ends the socket, also while a request is being written.
    control: UnixStream,
    /// Calls that wait for an answer; `None` once the process is gone.
    waiting: Mutex<Option<HashMap<u64, SyncSender<Answer>>>>,
    next: AtomicU64,
}

impl Host {
    /// Starts a process. `on_end` runs once, in another thread, when it no longer answers.
    pub(crate) fn start(
        program: &std::path::Path,
        arguments: &[String],
        hidden: &[String],
        deadline: Duration,
        on_end: impl FnOnce() + Send + 'static,
    ) -> io::Result<Arc<Host>> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own: an interrupt at the terminal must not end operations that are in flight.
        command.process_group(0);
        for name in hidden {
            command.env_remove(name);
        }
        let child = command.spawn()?;
        // The parent's copy of the child's end.
        drop(command);
        ours.set_write_timeout(Some(deadline))?;
        let (answers, control) = (ours.try_clone()?, ours.try_clone()?);
        let host = Arc::new(Host {
            child: Mutex::new(child),
            requests: Mutex::new(ours),
            control,
            waiting: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(1),
        });
        let reader = host.clone();
        std::thread::Builder::new().name("pkcs11-answers".into()).spawn(move || {
            while let Ok(Some(response)) = read::<Response>(&answers) {
                let place = reader.waiting.lock().as_mut().and_then(|waiting| waiting.remove(&response.number));
                // A caller that no longer waits has killed the process.
                if let Some(place) = place {
                    let _ = place.send(response.result());
                }
            }
            reader.kill();
            on_end();
            // Last: a process that hangs in a driver does not end.
            let _ = reader.child.lock().wait();
        })?;
        Ok(host)
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.lock().id()
    }

    /// Sends a request, and waits for its answer. At the deadline the process is killed.
    pub(crate) fn call(&self, operation: Operation, deadline: Duration) -> Answer {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = sync_channel(1);
        let request = Request { number, operation: Some(operation) };
        let is_alive = self.waiting.lock().as_mut().map(|waiting| waiting.insert(number, sender)).is_some();
        if !is_alive {
            wipe(request);
            return Err(Fault::HostDied.into());
        }
        let written = write(&mut *self.requests.lock(), &request);
        wipe(request);
        if let Err(err) = written {
            // Part of the request may be on its way: no other may follow it.
            self.kill();
            let is_late = matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            return Err(if is_late { Fault::Timeout } else { Fault::HostDied }.into());
        }
        match receiver.recv_timeout(deadline) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                Err(Fault::Timeout.into())
            }
            Err(RecvTimeoutError::Disconnected) => Err(Fault::HostDied.into()),
        }
    }

    /// Kills the process, and ends all calls that wait.
    pub(crate) fn kill(&self) {
        // The reader's thread holds the lock only once the process is killed.
        if let Some(mut child) = self.child.try_lock() {
            let _ = child.kill();
        }
        // Dropping the senders wakes the callers.
        self.waiting.lock().take();
        let _ = self.control.shutdown(Shutdown::Both);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Wipes the secrets of a request that was sent.
fn wipe(request: Request) {
    use zeroize::Zeroize;
    match request.operation {
        Some(Operation::Open(mut open)) => open.pin.zeroize(),
        Some(Operation::Gcm(mut text)) => text.input.zeroize(),
        _ => {}
    }
}
