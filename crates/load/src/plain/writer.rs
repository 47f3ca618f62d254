//! Lines on their way to a reader: a bounded queue, and a thread that waits for the reader in place of the run.

use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::oneshot;

/// Lines that wait at most: two minutes of seconds.
const LINES_MAX: usize = 128;

/// Where lines go.
#[derive(Debug)]
pub(super) struct Writer {
    lines: SyncSender<String>,
    end: oneshot::Receiver<io::Result<()>>,
    ended: bool,
}

impl Writer {
    pub(super) fn new(output: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(LINES_MAX);
        let (done, end) = oneshot::channel();
        std::thread::Builder::new().name("load-lines".to_owned()).spawn(move || {
            let _ = done.send(write_all(&waiting, output));
        })?;
        Ok(Writer { lines, end, ended: false })
    }

    /// Adds a line; says whether there was room. A reader who is gone has room for everything.
    pub(super) fn push(&mut self, line: String) -> bool {
        !matches!(self.lines.try_send(line), Err(std::sync::mpsc::TrySendError::Full(_)))
    }

    /// Resolves when nothing more can be written: without an error where the reader is gone. Once.
    pub(super) async fn gone(&mut self) -> io::Result<()> {
        if self.ended {
            return std::future::pending().await;
        }
        let end = (&mut self.end).await;
        self.ended = true;
        end.unwrap_or(Ok(()))
    }

    /// Waits until all lines are written.
    pub(super) async fn close(self) -> io::Result<()> {
        drop(self.lines);
        if self.ended { Ok(()) } else { self.end.await.unwrap_or(Ok(())) }
    }
}

fn write_all(lines: &Receiver<String>, mut output: impl Write) -> io::Result<()> {
    for line in lines {
        match output.write_all(line.as_bytes()).and_then(|()| output.flush()) {
            // Whoever read has seen enough, as `head` does.
            Err(err) if err.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
    Ok(())
}
