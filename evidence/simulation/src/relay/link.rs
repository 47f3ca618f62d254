//! The connection of an endpoint to a node, of which an attacker reads and changes every frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::time::sleep;

use super::attacker::Attacker;
use crate::rng::Rng;

/// Length of a frame's head at the longest, with its mask.
const HEAD_MAX: usize = 14;

/// A connection whose frames an attacker has in hand.
pub(super) struct Link {
    rng: Mutex<Rng>,
    /// In 1000 frames, those that are disturbed.
    per_mille: u64,
    /// A frame was changed, dropped, duplicated or swapped.
    is_tampered: AtomicBool,
}

/// The lot of one frame at the attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Passed,
    Dropped,
    Duplicated,
    /// It comes after the next one.
    Swapped,
    /// A bit of its payload is changed.
    Changed,
    /// The connection ends within it.
    Cut,
    Delayed,
}

impl Link {
    pub(super) fn new(rng: Rng, per_mille: u64) -> Arc<Self> {
        Arc::new(Link { rng: Mutex::new(rng), per_mille, is_tampered: AtomicBool::new(false) })
    }

    pub(super) fn is_tampered(&self) -> bool {
        self.is_tampered.load(Ordering::Relaxed)
    }

    fn fate(&self) -> Fate {
        const FATES: [Fate; 6] =
            [Fate::Dropped, Fate::Duplicated, Fate::Swapped, Fate::Changed, Fate::Cut, Fate::Delayed];
        let mut rng = self.rng.lock();
        if !rng.chance(self.per_mille) {
            return Fate::Passed;
        }
        FATES.get(rng.index(FATES.len())).copied().unwrap_or(Fate::Passed)
    }

    /// Puts the attacker into a connection to a node; returns the endpoint's side.
    pub(super) fn tap<IO>(self: &Arc<Self>, io: IO, attacker: &Arc<Attacker>, node: usize) -> DuplexStream
    where
        IO: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (near, far) = duplex(64 * 1024);
        let (link, attacker) = (self.clone(), attacker.clone());
        tokio::spawn(async move {
            let (far_read, far_write) = split(far);
            let (io_read, io_write) = split(io);
            let capture = |frame: &[u8]| attacker.capture(frame, node);
            tokio::select! {
                biased;
                () = link.pump(far_read, io_write, capture, &attacker) => {}
                () = link.pump(io_read, far_write, |_| (), &attacker) => {}
            }
        });
        near
    }

    /// Carries frames in one direction until an end closes.
    async fn pump<R, W>(&self, mut from: R, mut to: W, capture: impl Fn(&[u8]), attacker: &Attacker)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let (mut input, mut buffer, mut is_open) = (Vec::new(), vec![0; 16 * 1024], false);
        let mut held: Option<Vec<u8>> = None;
        while let Ok(len @ 1..) = from.read(&mut buffer).await {
            input.extend_from_slice(buffer.get(..len).unwrap_or_default());
            while let Some(len) = if is_open { frame_len(&input) } else { head_len(&input) } {
                let mut frame: Vec<u8> = input.drain(..len).collect();
                let fate = if is_open { self.fate() } else { Fate::Passed };
                if is_open {
                    capture(&frame);
                }
                is_open = true;
                if !matches!(fate, Fate::Passed | Fate::Delayed | Fate::Cut) {
                    self.is_tampered.store(true, Ordering::Relaxed);
                    attacker.count_tampered();
                }
                match fate {
                    Fate::Passed => {}
                    Fate::Dropped => continue,
                    Fate::Duplicated => frame.extend_from_within(..),
                    Fate::Swapped if held.is_none() => {
                        held = Some(frame);
                        continue;
                    }
                    Fate::Swapped => {}
                    Fate::Changed => self.change(&mut frame),
                    Fate::Cut => {
                        let _ = to.write_all(frame.get(..frame.len() / 2).unwrap_or_default()).await;
                        return;
                    }
                    Fate::Delayed => {
                        let ms = self.rng.lock().range(50, 3000);
                        sleep(Duration::from_millis(ms)).await;
                    }
                }
                frame.extend(held.take().unwrap_or_default());
                if to.write_all(&frame).await.is_err() {
                    return;
                }
            }
        }
    }

    fn change(&self, frame: &mut [u8]) {
        let Some((at, _)) = payload(frame) else { return };
        let mut rng = self.rng.lock();
        let Some(payload) = frame.get_mut(at..).filter(|payload| !payload.is_empty()) else { return };
        let index = rng.index(payload.len());
        if let Some(byte) = payload.get_mut(index) {
            *byte ^= 1 << rng.index(8);
        }
    }
}

/// Returns the length of the head of a request or of an answer, if it is complete.
fn head_len(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// Returns the position of a frame's payload, and the payload's length.
pub(super) fn payload(bytes: &[u8]) -> Option<(usize, usize)> {
    let [_, second, rest @ ..] = bytes else { return None };
    let mask_len = if second & 0x80 == 0 { 0 } else { 4 };
    let (len, len_len) = match second & 0x7f {
        126 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 2),
        127 => (u64::from_be_bytes(*rest.first_chunk()?), 8),
        short => (u64::from(short), 0),
    };
    Some((2 + len_len + mask_len, usize::try_from(len).ok()?))
}

/// Returns the length of the frame at the front, if it is complete.
pub(super) fn frame_len(bytes: &[u8]) -> Option<usize> {
    let (at, len) = payload(bytes)?;
    (bytes.len() >= at + len).then_some(at + len)
}

/// Encodes a frame with a mask, as clients send it.
pub(super) fn masked(opcode: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x11, 0x22, 0x33, 0x44];
    let mut frame = Vec::with_capacity(HEAD_MAX + payload.len());
    frame.push(0x80 | opcode);
    match u16::try_from(payload.len()) {
        Ok(short @ ..126) => frame.push(0x80 | short as u8),
        Ok(len) => {
            frame.push(0x80 | 126);
            frame.extend(len.to_be_bytes());
        }
        Err(_) => {
            frame.push(0x80 | 127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.into_iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Returns the payload of a complete frame without its mask.
pub(super) fn unmasked(frame: &[u8]) -> Vec<u8> {
    let Some((at, _)) = payload(frame) else { return Vec::new() };
    let body = frame.get(at..).unwrap_or_default();
    match frame.get(1) {
        Some(second) if second & 0x80 != 0 => {
            let mask = frame.get(at - 4..at).unwrap_or_default();
            body.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()
        }
        _ => body.to_vec(),
    }
}
