//! A list of keys that a root signs: what key sets (wire 3) and key documents (wire 4) share of their JSON and of the signed message.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::Fields;
use super::key_set::{KEY_SET_LEN_MAX, KEYS_MAX, KeyId, RootSignature, time};
use crate::crypto::Provider;
use crate::crypto::identity::IdentityPair;
use crate::error::Error;
use crate::limits::SIGNATURE_LEN_MAX;
use crate::wire::base64;

/// A list that was parsed: time of issue, time of expiry, keys, signature.
pub(crate) type List<K> = (u64, u64, Vec<K>, Option<RootSignature>);

/// Encodes the JSON text of a list; `keys` are the texts of its keys, and no text needs escaping.
pub(crate) fn encode(
    (issued_ms, expires_ms): (u64, u64),
    keys: impl Iterator<Item = String>,
    root: Option<&RootSignature>,
) -> String {
    let mut text = format!(r#"{{"issued_ms":{issued_ms},"expires_ms":{expires_ms},"keys":["#);
    for (index, key) in keys.enumerate() {
        text.push_str(if index == 0 { "" } else { "," });
        text.push_str(&key);
    }
    text.push(']');
    if let Some(root) = root {
        let signature = base64::encode(&root.signature);
        text.push_str(&format!(r#","root_key_id":"{}","root_signature":"{signature}""#, root.key_id));
    }
    text.push('}');
    text
}

/// Parses the JSON text of a list. Unknown members are ignored, `null` counts as absent. `member` is the one of a key that no two keys have
/// alike by `is_same`.
///
/// # Errors
/// [`Error::BodyTooLarge`], [`Error::JsonInvalid`], [`Error::FieldInvalid`], and those of `parse_key`.
pub(crate) fn parse<K>(
    bytes: &[u8],
    parse_key: impl Fn(&Value) -> Result<K, Error>,
    (member, is_same): (&'static str, impl Fn(&K, &K) -> bool),
) -> Result<List<K>, Error> {
    if bytes.len() > KEY_SET_LEN_MAX {
        return Err(Error::BodyTooLarge);
    }
    let list: Value = serde_json::from_slice(bytes).map_err(|_| Error::JsonInvalid)?;
    let listed = list.get("keys").and_then(Value::as_array).filter(|keys| keys.len() <= KEYS_MAX);
    let mut keys: Vec<K> = Vec::new();
    for listed in listed.ok_or(Error::FieldInvalid("keys"))? {
        let key = parse_key(listed)?;
        if keys.iter().any(|known| is_same(known, &key)) {
            return Err(Error::FieldInvalid(member));
        }
        keys.push(key);
    }
    let root = parse_root(&list)?;
    Ok((time(&list, "issued_ms")?, time(&list, "expires_ms")?, keys, root))
}

/// Parses the signature of a root; both members or neither.
fn parse_root(list: &Value) -> Result<Option<RootSignature>, Error> {
    let text = |name| match list.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Error::FieldInvalid(name)),
    };
    match (text("root_key_id")?, text("root_signature")?) {
        (Some(key_id), Some(signature)) => {
            let key_id = KeyId::parse(key_id).map_err(|_| Error::FieldInvalid("root_key_id"))?;
            let signature = read_signature(signature).ok_or(Error::FieldInvalid("root_signature"))?;
            Ok(Some(RootSignature { key_id, signature }))
        }
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Error::FieldInvalid("root_key_id")),
        (Some(_), None) => Err(Error::FieldInvalid("root_signature")),
    }
}

/// Reads a signature in base64, of any algorithm: its length belongs to the key.
pub(crate) fn read_signature(text: &str) -> Option<Vec<u8>> {
    base64::decode(text).ok().filter(|signature| (1..=SIGNATURE_LEN_MAX).contains(&signature.len()))
}

/// Returns the message that a root signs. `label` makes the signature of one kind of list valid for no other.
pub(crate) fn message(
    provider: &dyn Provider,
    label: &[u8],
    (issued_ms, expires_ms): (u64, u64),
    keys: impl Iterator<Item = Fields>,
) -> Vec<u8> {
    let fields = Fields::new().number(issued_ms).number(expires_ms).list(keys);
    let mut message = label.to_vec();
    message.extend_from_slice(&provider.sha256(&[fields.as_bytes()]));
    message
}

/// Signs a message with a root.
///
/// # Errors
/// [`Error::Provider`].
pub(crate) fn sign(provider: &dyn Provider, root: &IdentityPair, message: &[u8]) -> Result<RootSignature, Error> {
    Ok(RootSignature { key_id: KeyId::of(provider, root.public()), signature: root.sign(message)? })
}
