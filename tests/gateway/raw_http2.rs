//! Both sides of HTTP/2 (RFC 9113) as frames: a peer that can send anything, and keeps what it receives. Field blocks are sent as
//! literals, so that names and values may hold any byte. Every wait has a bound.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use sealway_runtime::http::h2::PREFACE;
use sealway_runtime::http::h2::hpack::{Decoder, Field, TABLE_SIZE_DEFAULT};

const WAIT: Duration = Duration::from_secs(20);
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Names and values, in order. Bytes stand as Latin-1 characters.
pub(crate) type Fields = Vec<(String, String)>;

/// Returns the bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[high, middle, low, kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// Returns a field block of literals without indexing (RFC 7541 section 6.2.2). Nothing is checked.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            let text: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
            put_length(&mut block, text.len());
            block.extend(text);
        }
    }
    block
}

/// Appends an integer with a prefix of 7 bits (RFC 7541 section 5.1).
fn put_length(block: &mut Vec<u8>, len: usize) {
    match len.checked_sub(127) {
        None => block.push(u8::try_from(len).unwrap()),
        Some(mut rest) => {
            block.push(127);
            while rest >= 128 {
                block.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            block.push(rest as u8);
        }
    }
}

/// A frame, as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }
}

/// One side of a connection, over TCP.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    decoder: Decoder,
}

impl Wire {
    fn over(stream: TcpStream) -> anyhow::Result<Wire> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(WAIT))?;
        stream.set_write_timeout(Some(WAIT))?;
        Ok(Wire { stream, decoder: Decoder::new(TABLE_SIZE_DEFAULT) })
    }

    /// Connects as a client, and sends the preface with these settings.
    pub(crate) fn open(to: SocketAddr, settings: &[u8]) -> anyhow::Result<Wire> {
        let mut wire = Wire::over(TcpStream::connect(to)?)?;
        wire.write(&[&PREFACE[..], &frame(SETTINGS, 0, 0, settings)].concat())?;
        Ok(wire)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(bytes).context("the connection did not take what was sent")
    }

    /// Returns the next frame; `None` at the end. Settings and pings are answered.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<Frame>> {
        let mut head = [0; 9];
        let len = self.stream.read(&mut head)?;
        if len == 0 {
            return Ok(None);
        }
        self.stream.read_exact(&mut head[len..])?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload)?;
        let frame_read = Frame { kind, flags, stream: u32::from_be_bytes(stream) & 0x7fff_ffff, payload };
        match (kind, flags & ACK) {
            (SETTINGS, 0) => self.write(&frame(SETTINGS, ACK, 0, &[]))?,
            (PING, 0) => self.write(&frame(PING, ACK, 0, &frame_read.payload))?,
            _ => {}
        }
        Ok(Some(frame_read))
    }

    /// Decodes the field block of a HEADERS frame.
    pub(crate) fn decode(&mut self, frame: &Frame) -> anyhow::Result<Fields> {
        ensure!(frame.flags & (END_HEADERS | 8 | 32) == END_HEADERS, "a block in parts: {:x}", frame.flags);
        let mut fields = Vec::new();
        self.decoder.decode(&frame.payload, &mut |field, _| fields.push(field))?;
        let text = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
        let fields = fields.into_iter().map(|field| {
            Ok(match field {
                Field::Method(method) => (":method".to_owned(), method.to_string()),
                Field::Scheme(scheme) => (":scheme".into(), text(scheme.as_bytes())),
                Field::Authority(value) => (":authority".into(), text(&value)),
                Field::Path(value) => (":path".into(), text(&value)),
                Field::Protocol(value) => (":protocol".into(), text(&value)),
                Field::Status(status) => (":status".into(), status.as_str().to_owned()),
                Field::Header(name, value) => (name.as_str().to_owned(), text(value.as_bytes())),
                Field::Malformed(name, reason) => bail!("{name:?}: {reason}"),
            })
        });
        fields.collect()
    }
}

/// A message that arrived: the last field block before its data, its data, and its trailers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) head: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Fields,
}

impl Message {
    /// Returns the value of a field that must not be repeated.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let mut values = self.head.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert!(values.next().is_none(), "{name} is repeated: {:?}", self.head);
        value
    }
}

/// The end of a stream, as its client sees it.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The answer has arrived whole.
    Answered(Message),
    /// The server has reset the stream with this code, after this part of an answer.
    Reset(u32, Message),
    /// The server has ended the connection by an error.
    Gone,
}

/// Reads a stream to its end.
pub(crate) fn outcome(wire: &mut Wire, stream: u32) -> anyhow::Result<Outcome> {
    let mut message = Message::default();
    loop {
        let frame = wire.next()?.context("closed without a GOAWAY")?;
        let code = |at: usize| u32::from_be_bytes(frame.payload[at..at + 4].try_into().unwrap());
        match frame.kind {
            GOAWAY if code(4) != 0 => return Ok(Outcome::Gone),
            RST_STREAM if frame.stream == stream => return Ok(Outcome::Reset(code(0), message)),
            DATA if frame.stream == stream => message.body.extend_from_slice(&frame.payload),
            HEADERS => {
                let fields = wire.decode(&frame)?;
                if frame.stream != stream {
                    continue;
                }
                match fields.iter().find(|(name, _)| name == ":status") {
                    // Interim answers are replaced by the next one.
                    Some(_) => message.head = fields,
                    None => message.trailers = fields,
                }
            }
            _ => {}
        }
        if frame.stream == stream && frame.ends_stream() {
            // A complete answer to an incomplete request is followed by a reset (RFC 9113 section 8.1).
            return Ok(Outcome::Answered(message));
        }
    }
}

/// Makes the frames of the answer to a request on this stream.
pub(crate) trait Answer: Fn(&Message, u32) -> Vec<u8> + Send + Sync + 'static {}
impl<F: Fn(&Message, u32) -> Vec<u8> + Send + Sync + 'static> Answer for F {}

/// A service over HTTP/2 that keeps the requests that reached it. It listens until the process ends.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    seen: Mutex<Receiver<anyhow::Result<Message>>>,
}

impl Service {
    /// Begins a service that answers each request with 200 and `served`.
    pub(crate) fn start() -> anyhow::Result<Service> {
        Service::answering(|_, id| {
            let head = frame(HEADERS, END_HEADERS, id, &block(&[(":status", "200"), ("content-length", "6")]));
            [head, frame(DATA, END_STREAM, id, b"served")].concat()
        })
    }

    pub(crate) fn answering(answer: impl Answer) -> anyhow::Result<Service> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (sender, receiver) = channel();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (sender, answer) = (sender.clone(), answer.clone());
                std::thread::spawn(move || {
                    if let Err(err) = Service::serve(stream, &sender, &*answer) {
                        let _ = sender.send(Err(err));
                    }
                });
            }
        });
        Ok(Service { address, seen: Mutex::new(receiver) })
    }

    fn serve(stream: TcpStream, sender: &Sender<anyhow::Result<Message>>, answer: &impl Answer) -> anyhow::Result<()> {
        let mut wire = Wire::over(stream)?;
        // The gateway keeps idle connections.
        wire.stream.set_read_timeout(None)?;
        let mut preface = [0; PREFACE.len()];
        wire.stream.read_exact(&mut preface)?;
        ensure!(&preface == PREFACE, "no preface");
        wire.write(&frame(SETTINGS, 0, 0, &[]))?;
        let mut messages = HashMap::<u32, Message>::new();
        while let Ok(Some(received)) = wire.next() {
            let id = received.stream;
            match received.kind {
                HEADERS => {
                    let fields = wire.decode(&received)?;
                    match messages.get_mut(&id) {
                        Some(message) => message.trailers = fields,
                        None => _ = messages.insert(id, Message { head: fields, ..Message::default() }),
                    }
                }
                DATA => messages.get_mut(&id).context("DATA without a head")?.body.extend(&received.payload),
                RST_STREAM => _ = messages.remove(&id),
                _ => {}
            }
            if received.ends_stream() {
                let request = messages.remove(&id).context("an end of nothing")?;
                let answer = answer(&request, id);
                sender.send(Ok(request))?;
                wire.write(&answer)?;
            }
        }
        Ok(())
    }

    /// Returns the next request that has arrived whole.
    pub(crate) fn next(&self) -> anyhow::Result<Message> {
        let receiver = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        receiver.recv_timeout(Duration::from_secs(10)).context("the service was not asked")?
    }

    /// Returns whether no (further) request reached it.
    pub(crate) fn is_untouched(&self) -> bool {
        self.seen.lock().is_ok_and(|receiver| receiver.try_recv().is_err())
    }
}
