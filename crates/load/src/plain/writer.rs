//! Output of lines: a bounded queue, and a thread that waits for the reader instead of the run.

use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::oneshot;

/// Maximum number of queued lines: about two minutes of seconds.
const LINES_MAX: usize = 128;

/// Queue to the thread that writes lines.
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

    /// Queues a line and returns whether there was room. Always true if the output is closed.
    pub(super) fn push(&mut self, line: String) -> bool {
        !matches!(self.lines.try_send(line), Err(std::sync::mpsc::TrySendError::Full(_)))
    }

    /// Resolves once, when nothing more can be written; without an error if the reader closed the output.
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
            // The reader closed the output, as `head` does.
            Err(err) if err.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
    Ok(())
}
