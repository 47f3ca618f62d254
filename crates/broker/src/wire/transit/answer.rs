//! Answers of the transit API: the envelope of its clients, its errors, and its statuses.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::Batch;
use crate::hash::hex;
use crate::{Code, Refusal, Result};

/// An answer before it is written.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Body in JSON; `None` for an empty one.
    pub(super) body: Option<Value>,
}

impl Answer {
    /// Creates an answer with data.
    pub(super) fn data(data: Value) -> Answer {
        Answer::with_warning(data, None)
    }

    /// Creates an answer with data and a text for the client's log.
    pub(super) fn with_warning(data: Value, warning: Option<String>) -> Answer {
        Answer { status: StatusCode::OK, body: Some(envelope(data, warning)) }
    }

    /// Creates an answer outside of the envelope.
    pub(super) fn plain(body: Value) -> Answer {
        Answer { status: StatusCode::OK, body: Some(body) }
    }

    /// Creates an answer without a body.
    pub(super) fn empty() -> Answer {
        Answer { status: StatusCode::NO_CONTENT, body: None }
    }

    /// Creates an error with one text.
    pub(super) fn error(status: StatusCode, text: &str) -> Answer {
        Answer { status, body: Some(json!({ "errors": [text] })) }
    }

    /// Creates the error of a failed operation. `is_read`: a missing key is a missing page, as for clients that look first.
    pub(super) fn of_refusal(refusal: &Refusal, is_read: bool) -> Answer {
        let status = match refusal.code {
            Code::NotFound if is_read => StatusCode::NOT_FOUND,
            Code::PermissionDenied => return Answer::denied(),
            Code::OutOfRange => StatusCode::PAYLOAD_TOO_LARGE,
            Code::DeadlineExceeded => StatusCode::REQUEST_TIMEOUT,
            Code::ResourceExhausted | Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        Answer::error(status, &refusal.text)
    }

    /// Creates the error for an unknown token, and for what its rules do not allow: both are the same.
    pub(super) fn denied() -> Answer {
        Answer::error(StatusCode::FORBIDDEN, "permission denied")
    }

    /// Creates the answer of a batch, or of its only entry. Results are in the order of the entries, and so are their
    /// references.
    pub(super) fn batch(
        is_list: bool,
        partial: Option<u16>,
        references: Vec<Option<String>>,
        results: Vec<Result<Map<String, Value>>>,
    ) -> Result<Answer> {
        if !is_list {
            let missing = || Err(Refusal::new(Code::Internal, "an operation without a result"));
            return results.into_iter().next().unwrap_or_else(missing).map(|data| Answer::data(Value::Object(data)));
        }
        let failed = results.iter().filter(|result| result.is_err()).count();
        let status = match failed {
            0 => StatusCode::OK,
            _ if failed < results.len() => {
                partial.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::BAD_REQUEST)
            }
            _ => StatusCode::BAD_REQUEST,
        };
        let entry = |(result, reference): (Result<Map<String, Value>>, Option<String>)| {
            let mut entry = result.unwrap_or_else(|refusal| one("error", refusal.text));
            if let Some(reference) = reference {
                entry.insert("reference".to_owned(), reference.into());
            }
            Value::Object(entry)
        };
        let entries: Vec<Value> = results.into_iter().zip(references).map(entry).collect();
        Ok(Answer { status, ..Answer::data(json!({ "batch_results": entries })) })
    }
}

/// Creates an object with one member.
pub(super) fn one(name: &str, value: impl Into<Value>) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), value.into())])
}

/// Takes the texts by which a client knows the entries of its batch again.
pub(super) fn references(batch: &mut Batch) -> Result<Vec<Option<String>>> {
    let is_list = batch.is_list;
    let take = |fields: &mut super::Fields| match is_list {
        true => Ok(fields.text("reference")?.map(|text| text.to_string())),
        false => Ok(None),
    };
    batch.entries.iter_mut().map(take).collect()
}

/// Returns the results of a list; of a single entry the error is that of the operation, so that the audit log has it.
pub(super) fn settled<T>(is_list: bool, mut results: Vec<Result<T>>) -> Result<Vec<Result<T>>> {
    if !is_list && let Some(Err(_)) = results.first() {
        return results.swap_remove(0).map(|one| vec![Ok(one)]);
    }
    Ok(results)
}

fn envelope(data: Value, warning: Option<String>) -> Value {
    json!({
        "request_id": request_id(),
        "lease_id": "",
        "renewable": false,
        "lease_duration": 0,
        "data": data,
        "wrap_info": null,
        "warnings": warning.map(|text| vec![text]),
        "auth": null,
        "mount_type": "transit",
    })
}

/// Draws an id in the form of a UUID (RFC 9562 section 5.4). It serves no purpose of security.
fn request_id() -> String {
    let mut bytes = [0; 16];
    // Without randomness the id is that of no other answer's form, and the operation itself has failed before.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex(&bytes);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}
