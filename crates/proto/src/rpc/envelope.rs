//! The content of a frame of remote calls. SPEC rpc.md#envelope
//!
//! The members of v1, and two more that its peers ignore: `timeout_ms` on a request, and `cancel`.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::{FrameError, frame};

/// The highest id of a request: the highest whole number that every JSON reader keeps.
pub const ID_MAX: u64 = (1 << 53) - 1;

/// A frame of remote calls.
#[derive(Clone, PartialEq)]
pub enum Envelope {
    /// A request, which expects one answer.
    Request {
        /// The request's id, 1 to [`ID_MAX`]; no other request that waits on this stream has it.
        id: u64,
        /// The number of the handler.
        type_id: u32,
        /// The argument of the handler.
        payload: Value,
        /// Time for which the caller waits, in ms from now.
        timeout_ms: Option<u32>,
    },
    /// The answer to a request.
    Response {
        /// The id of the request.
        id: u64,
        /// The type of the request.
        type_id: u32,
        /// The handler's result, or the error in its place.
        result: Result<Value, RpcError>,
    },
    /// A message that expects no answer.
    Notification {
        /// The number of the handler.
        type_id: u32,
        /// The argument of the handler.
        payload: Value,
    },
    /// The withdrawal of a request: the caller no longer waits for the answer. A peer of v1 takes it for a notification that it
    /// has no handler for.
    Cancel {
        /// The id of the request.
        id: u64,
    },
}

impl core::fmt::Debug for Envelope {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (name, id, type_id) = match self {
            Envelope::Request { id, type_id, .. } => ("Request", *id, *type_id),
            Envelope::Response { id, type_id, .. } => ("Response", *id, *type_id),
            Envelope::Notification { type_id, .. } => ("Notification", 0, *type_id),
            Envelope::Cancel { id } => ("Cancel", *id, 0),
        };
        write!(f, "{name}(id {id}, type {type_id}, payload redacted)")
    }
}

/// The error that answers a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// The kind: one of the constants, or a number from 1000 up that both ends have agreed.
    pub code: u32,
    /// Text for people; at most 1 KiB is kept.
    pub message: String,
}

impl RpcError {
    /// The request is not what its handler reads.
    pub const BAD_REQUEST: u32 = 400;
    /// No handler has the request's type.
    pub const HANDLER_NOT_FOUND: u32 = 404;
    /// The handler was not done in the time that the caller gave.
    pub const DEADLINE_EXCEEDED: u32 = 408;
    /// The answer is longer than a frame may be.
    pub const TOO_LARGE: u32 = 413;
    /// The caller withdrew its request.
    pub const CANCELLED: u32 = 499;
    /// The handler failed, for a cause of its own.
    pub const INTERNAL: u32 = 500;

    /// Creates an error from its code and sentence.
    pub fn new(code: u32, message: &str) -> Self {
        let end = message.char_indices().map(|(at, _)| at).take_while(|at| *at <= MESSAGE_LEN_MAX).last().unwrap_or(0);
        let message = if message.len() <= MESSAGE_LEN_MAX { message } else { message.get(..end).unwrap_or_default() };
        RpcError { code, message: message.into() }
    }

    /// Creates the error for a type without a handler, in the words of v1's servers.
    pub fn handler_not_found() -> Self {
        RpcError::new(RpcError::HANDLER_NOT_FOUND, "handler not found")
    }
}

/// Longest sentence of an error, in bytes.
const MESSAGE_LEN_MAX: usize = 1024;

impl Envelope {
    /// Reads the JSON of a frame. Unknown members are ignored; an absent `payload` is null.
    ///
    /// # Errors
    /// [`FrameError`]. The stream continues after it: the next frame's position is known.
    pub fn parse(json: &[u8]) -> Result<Self, FrameError> {
        let value: Value = serde_json::from_slice(json).map_err(|_| FrameError::NotJson)?;
        let Value::Object(mut members) = value else { return Err(FrameError::NotJson) };
        let type_id = number(&members, "type_id")?;
        let type_id = u32::try_from(type_id).map_err(|_| FrameError::Field("type_id"))?;
        let id = number(&members, "request_id")?;
        let answered = number(&members, "response_to")?;
        let payload = members.remove("payload").unwrap_or(Value::Null);
        match (id, answered) {
            (0, 0) => match members.get("cancel") {
                None | Some(Value::Null) => Ok(Envelope::Notification { type_id, payload }),
                Some(_) => Ok(Envelope::Cancel { id: number(&members, "cancel")? }),
            },
            (0, id) => match members.remove("error") {
                None | Some(Value::Null) => Ok(Envelope::Response { id, type_id, result: Ok(payload) }),
                Some(error) => Ok(Envelope::Response { id, type_id, result: Err(parse_error(&error)?) }),
            },
            (id, 0) => Ok(Envelope::Request { id, type_id, payload, timeout_ms: timeout(&members)? }),
            _ => Err(FrameError::Field("response_to")),
        }
    }

    /// Appends the whole frame, with its length.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] when its JSON is longer than `len_max`; nothing is appended then.
    pub fn append(&self, out: &mut Vec<u8>, len_max: usize) -> Result<(), FrameError> {
        let mut members = Map::new();
        let mut head = |type_id: u32, id: u64, answered: u64| {
            members.insert("type_id".into(), Value::from(type_id));
            members.insert("request_id".into(), Value::from(id));
            members.insert("response_to".into(), Value::from(answered));
        };
        let payload = match self {
            Envelope::Request { id, type_id, payload, timeout_ms } => {
                head(*type_id, *id, 0);
                if let Some(timeout_ms) = timeout_ms {
                    members.insert("timeout_ms".into(), Value::from(*timeout_ms));
                }
                payload
            }
            Envelope::Response { id, type_id, result } => {
                head(*type_id, 0, *id);
                if let Err(error) = result {
                    let mut told = Map::new();
                    told.insert("code".into(), Value::from(error.code));
                    told.insert("message".into(), Value::from(error.message.as_str()));
                    members.insert("error".into(), Value::from(told));
                }
                result.as_ref().unwrap_or(&Value::Null)
            }
            Envelope::Notification { type_id, payload } => {
                head(*type_id, 0, 0);
                payload
            }
            Envelope::Cancel { id } => {
                head(0, 0, 0);
                members.insert("cancel".into(), Value::from(*id));
                &Value::Null
            }
        };
        // The payload is written without a copy: it may be a MiB.
        let (head, payload) = (
            serde_json::to_vec(&members).map_err(|_| FrameError::NotJson)?,
            serde_json::to_vec(payload).map_err(|_| FrameError::NotJson)?,
        );
        frame::append(out, len_max, |out| {
            out.extend_from_slice(head.strip_suffix(b"}").unwrap_or(&head));
            out.extend_from_slice(b",\"payload\":");
            out.extend_from_slice(&payload);
            out.push(b'}');
        })
    }
}

/// Reads a whole number up to [`ID_MAX`]; an absent member is 0, as v1's readers have it.
fn number(members: &Map<String, Value>, name: &'static str) -> Result<u64, FrameError> {
    match members.get(name) {
        None => Ok(0),
        Some(value) => value.as_u64().filter(|number| *number <= ID_MAX).ok_or(FrameError::Field(name)),
    }
}

fn timeout(members: &Map<String, Value>) -> Result<Option<u32>, FrameError> {
    match members.get("timeout_ms") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|ms| u32::try_from(ms).ok()) {
            Some(ms) => Ok(Some(ms)),
            None => Err(FrameError::Field("timeout_ms")),
        },
    }
}

fn parse_error(error: &Value) -> Result<RpcError, FrameError> {
    let code = error.get("code").and_then(Value::as_u64).and_then(|code| u32::try_from(code).ok());
    let message = match error.get("message") {
        None | Some(Value::Null) => "",
        Some(message) => message.as_str().ok_or(FrameError::Field("error"))?,
    };
    Ok(RpcError::new(code.ok_or(FrameError::Field("error"))?, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use serde_json::json;

    fn body(envelope: &Envelope) -> Value {
        let mut out = Vec::new();
        envelope.append(&mut out, frame::FRAME_LEN_MAX).unwrap();
        assert_eq!(u32::from_be_bytes(out[..4].try_into().unwrap()) as usize, out.len() - 4);
        assert_eq!(Envelope::parse(&out[4..]).as_ref(), Ok(envelope), "what was written is what is read");
        serde_json::from_slice(&out[4..]).unwrap()
    }

    #[test]
    fn every_kind_of_frame_has_the_members_of_v1() {
        let payload = json!({"a": [1, "x"]});
        let request = Envelope::Request { id: 7, type_id: 1, payload: payload.clone(), timeout_ms: None };
        assert_eq!(body(&request), json!({"type_id": 1, "request_id": 7, "response_to": 0, "payload": payload}));
        let response = Envelope::Response { id: 7, type_id: 1, result: Ok(payload.clone()) };
        assert_eq!(body(&response), json!({"type_id": 1, "request_id": 0, "response_to": 7, "payload": payload}));
        let told = Envelope::Notification { type_id: 2, payload: payload.clone() };
        assert_eq!(body(&told), json!({"type_id": 2, "request_id": 0, "response_to": 0, "payload": payload}));
        let failed = Envelope::Response { id: 7, type_id: 9, result: Err(RpcError::handler_not_found()) };
        let error = json!({"code": 404, "message": "handler not found"});
        let expected = json!({"type_id": 9, "request_id": 0, "response_to": 7, "payload": null, "error": error});
        assert_eq!(body(&failed), expected);
    }

    #[test]
    fn a_time_and_a_cancellation_are_members_that_v1_passes_over() {
        let request = Envelope::Request { id: 1, type_id: 1, payload: Value::Null, timeout_ms: Some(250) };
        assert_eq!(body(&request)["timeout_ms"], 250);
        let cancel = body(&Envelope::Cancel { id: 1 });
        assert_eq!(
            (&cancel["request_id"], &cancel["response_to"], &cancel["cancel"]),
            (&json!(0), &json!(0), &json!(1))
        );
    }

    #[test]
    fn malformed_envelopes_are_rejected_with_the_member_at_fault() {
        for (text, fault) in [
            ("7", FrameError::NotJson),
            ("{\"type_id\":", FrameError::NotJson),
            (r#"{"type_id":-1}"#, FrameError::Field("type_id")),
            (r#"{"type_id":4294967296}"#, FrameError::Field("type_id")),
            (r#"{"request_id":"1"}"#, FrameError::Field("request_id")),
            (r#"{"request_id":9007199254740992}"#, FrameError::Field("request_id")),
            (r#"{"request_id":1,"response_to":1}"#, FrameError::Field("response_to")),
            (r#"{"response_to":1,"error":{}}"#, FrameError::Field("error")),
            (r#"{"response_to":1,"error":{"code":1,"message":2}}"#, FrameError::Field("error")),
            (r#"{"request_id":1,"timeout_ms":1.5}"#, FrameError::Field("timeout_ms")),
            (r#"{"cancel":"x"}"#, FrameError::Field("cancel")),
        ] {
            assert_eq!(Envelope::parse(text.as_bytes()), Err(fault), "{text}");
        }
    }

    #[test]
    fn nothing_of_a_payload_is_in_debug_text_and_long_sentences_are_cut() {
        let told = Envelope::Notification { type_id: 2, payload: json!("secret") };
        assert!(!alloc::format!("{told:?}").contains("secret"));
        let long = "ä".repeat(2000);
        let cut = RpcError::new(1, &long).message;
        assert!(cut.len() <= MESSAGE_LEN_MAX && cut.len() > MESSAGE_LEN_MAX - 4 && long.starts_with(&cut.to_string()));
    }
}
