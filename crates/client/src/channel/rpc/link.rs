//! A stream of calls: a reading task, a writing task, and the waiting calls.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sealway_proto::rpc::{Envelope, FrameError, HEADER_LEN, ID_MAX, RpcError, frame};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::serve::{Handlers, Invocation};
use super::{CallError, Stream};
use crate::channel::error::{Error, Stage};

/// Frames that wait to be written, at most.
const OUTBOX: usize = 64;
/// Bytes at which the writer stops gathering frames for one write.
const GATHERED: usize = 64 * 1024;
/// Size of the read buffer, in bytes.
const READ_LEN: usize = 16 * 1024;
/// Longest time to write the waiting frames once the stream is to end.
const LAST_FRAMES_TIME: Duration = Duration::from_secs(5);
/// Malformed frames in a row after which the stream is given up.
const MALFORMED_MAX: u32 = 16;

type Waiting = HashMap<u64, oneshot::Sender<Result<Value, RpcError>>>;

/// Link between the handles and the tasks of a stream. The tasks end with the last handle, or with the stream.
pub(super) struct Link {
    outbox: mpsc::Sender<Vec<u8>>,
    waiting: Mutex<Waiting>,
    next_id: AtomicU64,
    frame_len_max: usize,
    over: watch::Receiver<bool>,
    stop: CancellationToken,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Link {
    pub(super) fn start(stream: Stream, handlers: Handlers) -> Arc<Link> {
        let (read, write) = tokio::io::split(stream);
        let (outbox, to_write) = mpsc::channel(OUTBOX);
        let (over_now, over) = watch::channel(false);
        let stop = CancellationToken::new();
        let link = Arc::new(Link {
            outbox: outbox.clone(),
            waiting: Mutex::default(),
            next_id: AtomicU64::new(1),
            frame_len_max: handlers.frame_len_max,
            over,
            stop: stop.clone(),
        });
        tokio::spawn(write_all(write, to_write, stop.clone()));
        let reader = Reader {
            link: Arc::downgrade(&link),
            outbox,
            room: Arc::new(Semaphore::new(handlers.at_once_max)),
            handlers: Arc::new(handlers),
            running: Arc::default(),
            stop: stop.clone(),
        };
        let ended = Arc::downgrade(&link);
        tokio::spawn(async move {
            tokio::select! {
                () = reader.run(read) => {}
                () = stop.cancelled() => {}
            }
            // Waiting calls end with an error. `over` is set first: a call begun meanwhile sees it, or is cleared.
            over_now.send_replace(true);
            if let Some(link) = ended.upgrade() {
                link.waiting().clear();
            }
            stop.cancel();
        });
        link
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn over(&self) {
        let _ = self.over.clone().wait_for(|over| *over).await;
    }

    fn frame(&self, envelope: &Envelope) -> Result<Vec<u8>, CallError> {
        let mut out = Vec::with_capacity(256);
        match envelope.append(&mut out, self.frame_len_max) {
            Ok(()) => Ok(out),
            Err(_) => Err(CallError::TooLong(self.frame_len_max)),
        }
    }

    pub(super) async fn call(
        self: &Arc<Self>,
        type_id: u32,
        payload: Value,
        limit: Duration,
    ) -> Result<Value, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) % ID_MAX + 1;
        let timeout_ms = Some(u32::try_from(limit.as_millis()).unwrap_or(u32::MAX));
        let request = self.frame(&Envelope::Request { id, type_id, payload, timeout_ms })?;
        let (answer, answered) = oneshot::channel();
        self.waiting().insert(id, answer);
        let mut given_up = GivenUp { link: self, id, is_told: false };
        if *self.over.borrow() {
            return Err(broken());
        }
        let asked = async {
            self.outbox.send(request).await.map_err(|_| broken())?;
            given_up.is_told = true;
            match answered.await {
                Ok(result) => result.map_err(CallError::Refused),
                Err(_) => Err(broken()),
            }
        };
        match tokio::time::timeout(limit, asked).await {
            Ok(result) => {
                given_up.is_told = false;
                result
            }
            Err(_) => Err(CallError::TimedOut(limit)),
        }
    }

    pub(super) async fn notify(&self, type_id: u32, payload: Value) -> Result<(), CallError> {
        let told = self.frame(&Envelope::Notification { type_id, payload })?;
        self.outbox.send(told).await.map_err(|_| broken())
    }
}

fn broken() -> CallError {
    CallError::Broken(Error::new(Stage::Rpc, "transport_error", "the stream of calls is over"))
}

/// Removes a call at its end, and sends a cancellation if the peer may still be working on it.
struct GivenUp<'a> {
    link: &'a Arc<Link>,
    id: u64,
    is_told: bool,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        self.link.waiting().remove(&self.id);
        if self.is_told
            && let Ok(cancel) = self.link.frame(&Envelope::Cancel { id: self.id })
        {
            // If the outbox is full, the peer's work is wasted, as it is for a caller of v1.
            let _ = self.link.outbox.try_send(cancel);
        }
    }
}

/// Writes frames until the stop, and then the frames that already wait: their sender may be gone at once.
async fn write_all(mut write: WriteHalf<Stream>, mut outbox: mpsc::Receiver<Vec<u8>>, stop: CancellationToken) {
    let written = async {
        let mut is_stopping = false;
        loop {
            let frames = tokio::select! {
                frames = outbox.recv() => frames,
                () = stop.cancelled(), if !is_stopping => {
                    outbox.close();
                    is_stopping = true;
                    continue;
                }
            };
            let Some(mut frames) = frames else { break };
            while frames.len() < GATHERED
                && let Ok(more) = outbox.try_recv()
            {
                frames.extend_from_slice(&more);
            }
            write.write_all(&frames).await?;
            write.flush().await?;
        }
        write.shutdown().await
    };
    let late = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_FRAMES_TIME).await;
    };
    tokio::select! {
        result = written => if result.is_err() {
            stop.cancel();
        },
        () = late => {}
    }
}

/// State of the reading task.
struct Reader {
    link: Weak<Link>,
    outbox: mpsc::Sender<Vec<u8>>,
    room: Arc<Semaphore>,
    handlers: Arc<Handlers>,
    running: Arc<Mutex<HashMap<u64, CancellationToken>>>,
    stop: CancellationToken,
}

impl Reader {
    async fn run(&self, read: ReadHalf<Stream>) {
        let mut read = BufReader::with_capacity(READ_LEN, read);
        let (mut json, mut malformed) = (Vec::new(), 0);
        loop {
            let mut header = [0; HEADER_LEN];
            if read.read_exact(&mut header).await.is_err() {
                return;
            }
            // After a length over the bound, the next frame cannot be found.
            let Ok(len) = frame::body_len(header, self.handlers.frame_len_max) else { return };
            json.clear();
            json.resize(len, 0);
            if read.read_exact(&mut json).await.is_err() {
                return;
            }
            match Envelope::parse(&json) {
                Ok(envelope) => {
                    malformed = 0;
                    self.take(envelope).await;
                }
                // Single malformed frames are skipped, as v1 servers do; a peer that sends nothing else is dropped.
                Err(_) => {
                    malformed += 1;
                    if malformed >= MALFORMED_MAX {
                        return;
                    }
                }
            }
            // The buffer of a long frame is not kept for the short ones after it.
            json.shrink_to(READ_LEN);
        }
    }

    async fn take(&self, envelope: Envelope) {
        match envelope {
            Envelope::Request { id, type_id, payload, timeout_ms } => {
                let timeout = timeout_ms.map(|ms| Duration::from_millis(ms.into()));
                self.handle(id, Invocation { type_id, payload, timeout }).await;
            }
            Envelope::Response { id, result, .. } => {
                let waiting = self.link.upgrade().and_then(|link| link.waiting().remove(&id));
                if let Some(answer) = waiting {
                    let _ = answer.send(result);
                }
            }
            Envelope::Notification { type_id, payload } => self.handlers.hear(type_id, payload),
            Envelope::Cancel { id } => {
                if let Some(token) = running(&self.running).remove(&id) {
                    token.cancel();
                }
            }
        }
    }

    async fn handle(&self, id: u64, called: Invocation) {
        let Ok(place) = self.room.clone().acquire_owned().await else { return };
        let (handlers, outbox, all) = (self.handlers.clone(), self.outbox.clone(), self.running.clone());
        let cancel = self.stop.child_token();
        running(&all).insert(id, cancel.clone());
        tokio::spawn(async move {
            let type_id = called.type_id;
            let result = tokio::select! {
                result = handlers.answer(called) => result,
                // The caller no longer waits for the answer.
                () = cancel.cancelled() => return,
            };
            running(&all).remove(&id);
            let mut out = Vec::with_capacity(256);
            let response = Envelope::Response { id, type_id, result };
            if let Err(FrameError::TooLong(max)) = response.append(&mut out, handlers.frame_len_max) {
                let error = RpcError::new(RpcError::TOO_LARGE, &format!("the answer is longer than {max} bytes"));
                let _ = Envelope::Response { id, type_id, result: Err(error) }.append(&mut out, usize::MAX);
            }
            let _ = outbox.send(out).await;
            drop(place);
        });
    }
}

fn running(all: &Mutex<HashMap<u64, CancellationToken>>) -> MutexGuard<'_, HashMap<u64, CancellationToken>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}
