//! Messages of Oblivious HTTP (RFC 9458), whole and in chunks, without a connection.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};
use sealway_proto::Error as WireError;
use sealway_proto::bhttp::{Control, Event, Field, Head, Reader, Writer};
use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::hpke::{Aead, Kem, Suite};
use sealway_proto::ohttp::{ClientAnswer, ClientRequest, OhttpError};
pub use sealway_proto::ohttp::{Form, KEYS_TYPE};
use sealway_proto::one_shot::KeyConfig;

use super::ehbp::problem_type;
use super::{coded, rejected};
use crate::error::{Error, ErrorKind};
use crate::message::Message;

/// Path of a gateway that has no other (RFC 9540).
pub const GATEWAY_PATH: &str = "/.well-known/ohttp-gateway";
const KEY_TYPE: &str = "https://iana.org/assignments/http-problem-types#ohttp-key";
const DATE_TYPE: &str = "https://iana.org/assignments/http-problem-types#date";

/// Chooses a key of a gateway's list: the first one with a suite that this build has, of one of `kems` unless they are empty.
///
/// # Errors
/// [`ErrorKind::Trust`] for a malformed list and for one without such a key.
pub fn key(list: &[u8], kems: &[Kem]) -> Result<KeyConfig, Error> {
    let configs = KeyConfig::decode_list(default_agreement_provider(), list);
    let configs = configs.map_err(|err| ErrorKind::Trust(format!("the gateway's key list is refused: {err}")))?;
    let is_allowed = |config: &KeyConfig| kems.is_empty() || kems.contains(&config.public_key().kem());
    let chosen = configs.into_iter().find(|config| is_allowed(config) && suite_of(config).is_some());
    Ok(chosen.ok_or_else(|| ErrorKind::Trust("the gateway's key list has no key with a known suite".into()))?)
}

/// Returns the first suite of a configuration that can seal requests.
pub fn suite_of(config: &KeyConfig) -> Option<Suite> {
    config.suites().find(|suite| suite.aead != Aead::ExportOnly)
}

/// Encapsulates a whole request. The scheme and authority of its target are those of `target`, its path is `path_and_query`. The
/// header `host` is left out.
///
/// # Errors
/// [`ErrorKind::Usage`] for a request that Binary HTTP cannot carry and for a key that cannot be used, [`ErrorKind::Seal`].
pub fn seal(
    key: &KeyConfig,
    form: Form,
    (method, target, path_and_query): (&Method, &Uri, &str),
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(Message, OhttpPending), Error> {
    let control = Control::Request {
        method: method.as_str().to_owned(),
        scheme: target.scheme_str().unwrap_or("https").to_owned(),
        authority: target.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default(),
        path: path_and_query.to_owned(),
    };
    let fields = headers.iter().filter(|(name, _)| **name != http::header::HOST);
    let fields = fields.map(|(name, value)| Field::new(name.as_str(), value.as_bytes())).collect();
    let message = message(&Head { control, fields }, body)?;
    let failed = |err: OhttpError| match err {
        OhttpError::Config => ErrorKind::Usage(err.to_string()),
        _ => ErrorKind::Seal(WireError::Provider),
    };
    let suite = suite_of(key).ok_or(OhttpError::Config).map_err(failed)?;
    let mut request = ClientRequest::begin(default_agreement_provider(), form, key, suite).map_err(failed)?;
    let mut sealed = Vec::with_capacity(message.len() + 64 + suite.kem.enc_len());
    request.seal(&mut sealed, &message, true).map_err(failed)?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.request_type()));
    Ok((Message { headers, body: sealed.into(), aad: Vec::new() }, OhttpPending { form, request }))
}

fn message(head: &Head, body: &[u8]) -> Result<Vec<u8>, Error> {
    let (mut out, mut writer) = (Vec::with_capacity(body.len() + 512), Writer::known(body.len() as u64));
    let written = writer.head(&mut out, head).and_then(|()| writer.content(&mut out, body));
    let written = written.and_then(|()| writer.end(&mut out, &[]));
    written.map_err(|err| ErrorKind::Usage(format!("the request cannot be encapsulated: {err}")))?;
    Ok(out)
}

/// State that opens the answer to one request.
#[derive(Debug)]
pub struct OhttpPending {
    form: Form,
    request: ClientRequest,
}

impl OhttpPending {
    /// Opens a whole answer: the status, the headers and the body within. The arguments are those outside.
    ///
    /// # Errors
    /// [`ErrorKind::Problem`] of the codes `key_retired`, `clock_skew` and `replayed`; [`ErrorKind::Refused`] for another rejection in
    /// clear; [`ErrorKind::Untrusted`] for a successful answer in clear, and for one that does not open.
    pub fn open(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(StatusCode, HeaderMap, Bytes), Error> {
        if status != StatusCode::OK || headers.get(CONTENT_TYPE).is_none_or(|kind| kind != self.form.answer_type()) {
            if status.is_client_error() && problem_type(body) == Some(KEY_TYPE.into()) {
                return Err(coded(status, "key_retired"));
            }
            return Err(rejected(status, body, "content-type"));
        }
        let message = self.opened(body).map_err(|err| match err {
            OhttpError::Truncated => ErrorKind::Untrusted(WireError::StreamTruncated),
            OhttpError::Provider => ErrorKind::Untrusted(WireError::Provider),
            _ => ErrorKind::Untrusted(WireError::Unsealable),
        })?;
        let (status, headers, content) = parse(&message).ok_or(ErrorKind::Untrusted(WireError::FrameInvalid))?;
        match (status, problem_type(&content).as_deref()) {
            (StatusCode::BAD_REQUEST, Some(DATE_TYPE)) => Err(coded(status, "clock_skew")),
            (StatusCode::CONFLICT, Some("about:blank")) if is_replay(&content) => Err(coded(status, "replayed")),
            _ => Ok((status, headers, content.into())),
        }
    }

    fn opened(&self, mut sealed: &[u8]) -> Result<Vec<u8>, OhttpError> {
        let mut answer: ClientAnswer = self.request.answer(default_agreement_provider(), &mut sealed)?;
        if self.form == Form::Whole {
            let mut message = sealed.to_vec();
            return answer.open(&mut message).map(|()| message);
        }
        let (mut message, mut chunk) = (Vec::with_capacity(sealed.len()), Vec::new());
        while answer.read(&mut sealed, &mut chunk)? {
            message.append(&mut chunk);
        }
        answer.end(&mut chunk)?;
        message.append(&mut chunk);
        Ok(message)
    }
}

fn is_replay(problem: &[u8]) -> bool {
    let problem: Option<serde_json::Value> = serde_json::from_slice(problem).ok();
    problem.is_some_and(|problem| problem["title"] == "the request was received before")
}

/// Parses the message of an answer; `None` if it breaks a rule of RFC 9292.
fn parse(message: &[u8]) -> Option<(StatusCode, HeaderMap, Vec<u8>)> {
    let (mut reader, mut input) = (Reader::answer(message.len() as u64), message);
    let (mut found, mut content) = (None, Vec::new());
    while let Some(event) = reader.read(&mut input).ok()? {
        match event {
            Event::Head(head) => found = Some(head),
            Event::Content(piece) => content.extend_from_slice(piece),
            Event::Interim(_) | Event::Trailers(_) => {}
        }
    }
    let Head { control: Control::Answer(status), fields } = reader.end().ok()?.or(found)? else { return None };
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(&field.value).ok()?);
    }
    Some((StatusCode::from_u16(status).ok()?, headers, content))
}
