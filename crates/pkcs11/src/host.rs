//! The host process of a token's module: answers requests that arrive at its standard input, a socket.
//!
//! It keeps no state that is worth a repair: if the token or its module fails, it answers, and ends.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, Signal};

use crate::message::{Operation, Request, Response, read, write};
use crate::module::{Module, Worker};
use crate::{Error, Fault};

/// Most sessions of a host, one a thread.
pub(crate) const SESSIONS_MAX: u32 = 64;

/// Serves requests until the socket ends, and then ends this process by a signal: a module's own handlers at the exit may
/// hang. Standard input must be a connected Unix socket.
///
/// # Errors
/// Standard input is not such a socket: a user ran the command by hand.
pub fn run() -> io::Result<()> {
    shut_memory()?;
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    stream
        .peer_addr()
        .map_err(|_| io::Error::other("standard input is not a socket; sealway starts this command itself"))?;
    serve(&stream);
    end();
    Ok(())
}

/// No core dump has the PIN or what passes through, and no process of this user reads this memory.
fn shut_memory() -> io::Result<()> {
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

fn end() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
}

fn serve(stream: &UnixStream) {
    let Ok(Some(Request { number, operation: Some(Operation::Open(open)) })) = read(stream) else { return };
    let sessions = open.sessions.clamp(1, SESSIONS_MAX);
    // The login lasts as long as its session.
    let (module, _login) = match Module::open(open) {
        Ok(opened) => opened,
        Err(err) => {
            let _ = write(stream, &Response::new(number, Err(err)));
            return;
        }
    };
    let shared = Arc::new(module);
    let Ok(answers) = stream.try_clone().map(|stream| Arc::new(Mutex::new(stream))) else { return };
    let (sender, receiver): (SyncSender<Request>, Receiver<Request>) = sync_channel(1);
    let receiver = Arc::new(Mutex::new(receiver));
    for _ in 0..sessions {
        let (module, answers, receiver) = (shared.clone(), answers.clone(), receiver.clone());
        std::thread::spawn(move || work(&module, &receiver, &answers));
    }
    if write(&mut *answers.lock(), &Response::new(number, Ok(Vec::new()))).is_err() {
        return;
    }
    while let Ok(Some(request)) = read::<Request>(stream) {
        if sender.send(request).is_err() {
            return;
        }
    }
}

/// Answers requests in one session.
fn work(module: &Module, requests: &Mutex<Receiver<Request>>, answers: &Mutex<UnixStream>) {
    let mut worker = Worker::default();
    loop {
        let Ok(request) = requests.lock().recv() else { return };
        let done = match request.operation {
            Some(operation) => worker.run(module, operation),
            None => Err(Error::new(Fault::Device, "an unknown request")),
        };
        let is_end = done.as_ref().is_err_and(|err| err.fault.ends_host());
        let mut stream = answers.lock();
        let written = write(&mut *stream, &Response::new(request.number, done));
        if is_end || written.is_err() {
            // The lock is held: no other answer follows on a broken stream.
            let _ = stream.shutdown(Shutdown::Both);
            end();
            return;
        }
    }
}
