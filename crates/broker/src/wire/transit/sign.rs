//! Signatures and HMAC of the transit API.

use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::answer::{Answer, one, references, settled};
use super::data::{check_version, merged};
use super::names::{self, Form, NOT_DERIVED, parse_versioned, versioned};
use super::{Fields, Request};
use crate::keys::{Algorithm, Key};
use crate::operation::{self, SignedInput};
use crate::profile::policy::Profile;
use crate::service::{Grant, Outcome};
use crate::wire::v1;
use crate::{Refusal, Result};

/// An input of a request, with what is to be verified over it.
struct Input {
    bytes: Zeroizing<Vec<u8>>,
    /// Version of the key, and the signature or tag; none for an input to sign.
    signed: Option<(u32, Vec<u8>)>,
}

/// Entries of a request with its parameters.
struct Plan {
    profile: String,
    form: Form,
    /// Version that the request asks for; 0 for the current one.
    key_version: u32,
    is_list: bool,
    partial: Option<u16>,
    references: Vec<Option<String>>,
    entries: Vec<Result<Input>>,
}

/// Finds the key and a profile for a signature or a MAC, and reads the entries. `field` names what an entry verifies.
fn prepare(
    request: &Request<'_>,
    operation: &'static str,
    mut fields: Fields,
    field: Option<&'static str>,
) -> Result<Plan> {
    let key = request.key(operation)?;
    let (profile, form) = if matches!(operation, "Mac" | "VerifyMac") {
        let mac = names::mac(request.option, &mut fields, key.algorithm())?;
        let has = |profile: &Profile| profile.mac == Some(mac);
        (request.profile(operation, &key.algorithm().to_string(), has)?, Form::Asn1)
    } else {
        let (algorithm, form) = names::signature(request.option, &mut fields, key.algorithm())?;
        let size = key.algorithm().size().map(|(_, size)| size);
        let has = |profile: &Profile| {
            let fits =
                profile.sign_key_size.zip(size).is_none_or(|(range, size)| (range.min..=range.max).contains(&size));
            profile.sign == Some(algorithm) && fits
        };
        let wanted = format!("{} for this key", v1::signature_name(Some(algorithm)));
        (request.profile(operation, &wanted, has)?, form)
    };
    let key_version = fields.number("key_version")?.unwrap_or_default();
    let mut batch = fields.batch()?;
    let references = references(&mut batch)?;
    let input = |mut fields: Fields| -> Result<Input> {
        let bytes = fields.required_bytes("input")?;
        fields.without(&["context"], NOT_DERIVED)?;
        let signed = match field {
            None => None,
            Some(field) => {
                let text = fields.text(field)?.ok_or_else(|| Refusal::invalid(format!("{field}: required")))?;
                Some(parse_versioned(field, &text, form)?)
            }
        };
        fields.end()?;
        Ok(Input { bytes, signed })
    };
    let entries: Vec<_> = batch.entries.into_iter().map(input).collect();
    if let (false, Some(Err(refusal))) = (batch.is_list, entries.first()) {
        return Err(refusal.clone());
    }
    let (is_list, partial) = (batch.is_list, batch.partial);
    Ok(Plan { profile, form, key_version, is_list, partial, references, entries })
}

/// Runs an operation on the valid entries.
async fn each<T: Send>(
    request: &Request<'_>,
    operation: &'static str,
    plan: Result<Plan>,
    work: impl FnOnce(&Profile, &Key, &Plan, &[&Input]) -> Result<Vec<Result<T>>> + Send,
    show: impl Fn(&T) -> Map<String, Value>,
) -> Result<Answer> {
    let plan = match plan {
        Ok(plan) => plan,
        Err(refusal) => return request.reject(operation, refusal).await,
    };
    let valid: Vec<&Input> = plan.entries.iter().flatten().collect();
    let len = |input: &&Input| input.bytes.len() + input.signed.as_ref().map_or(0, |(_, bytes)| bytes.len());
    let lens: Vec<_> = valid.iter().map(len).collect();
    let shape = operation::check_batch("input", plan.entries.iter().map(|_| 0))
        .and_then(|()| operation::check_batch("input", [lens.iter().sum::<usize>()].into_iter()));
    let query = v1::query(request.call, operation, &plan.profile, request.key_id(), lens);
    let work = |profile: &Profile, grant: &Grant| {
        let key = grant.key()?;
        let results = if valid.is_empty() { Vec::new() } else { work(profile, key, &plan, &valid)? };
        let results = settled(plan.is_list, merged(&plan.entries, results))?;
        let bytes_out = results.len();
        Ok(Outcome { algorithm: key.algorithm().to_string(), ..Outcome::new(results, bytes_out) })
    };
    let (_, results) = v1::run(request.wires, request.call, query, shape, work).await?;
    let shown = results.iter().map(|result| result.as_ref().map(&show).map_err(Refusal::clone)).collect();
    Answer::batch(plan.is_list, plan.partial, plan.references, shown)
}

pub(super) async fn sign(request: &Request<'_>, fields: Fields) -> Result<Answer> {
    let plan = prepare(request, "SignData", fields, None);
    let work = |profile: &Profile, key: &Key, plan: &Plan, inputs: &[&Input]| {
        check_version(plan.key_version, key.current()?.number())?;
        let inputs: Vec<&[u8]> = inputs.iter().map(|input| &input.bytes[..]).collect();
        let signed = operation::sign(profile, key, &inputs)?;
        let text = |bytes: Vec<u8>| Ok((signed.key_version, versioned(signed.key_version, &bytes, plan.form)));
        Ok(signed.outputs.into_iter().map(text).collect())
    };
    let show = |(version, text): &(u32, String)| {
        let mut data = one("signature", text.as_str());
        data.insert("key_version".to_owned(), (*version).into());
        data
    };
    each(request, "SignData", plan, work, show).await
}

pub(super) async fn hmac(request: &Request<'_>, fields: Fields) -> Result<Answer> {
    let plan = prepare(request, "Mac", fields, None);
    let work = |profile: &Profile, key: &Key, plan: &Plan, inputs: &[&Input]| {
        check_version(plan.key_version, key.current()?.number())?;
        let inputs: Vec<&[u8]> = inputs.iter().map(|input| &input.bytes[..]).collect();
        let tags = operation::mac(profile, key, &inputs)?;
        let text = |bytes: Vec<u8>| Ok(versioned(tags.key_version, &bytes, plan.form));
        Ok(tags.outputs.into_iter().map(text).collect())
    };
    each(request, "Mac", plan, work, |text: &String| one("hmac", text.as_str())).await
}

pub(super) async fn verify(request: &Request<'_>, fields: Fields) -> Result<Answer> {
    let is_mac = fields.entry_has("hmac");
    let (operation, field) = if is_mac { ("VerifyMac", "hmac") } else { ("VerifyData", "signature") };
    let plan = prepare(request, operation, fields, Some(field));
    let work = |profile: &Profile, key: &Key, _: &Plan, inputs: &[&Input]| {
        // A version that does not exist fails its entry alone.
        let one = |input: &&Input| {
            let (key_version, signature) =
                input.signed.as_ref().map_or((0, &[][..]), |(version, bytes)| (*version, bytes));
            let signed = [SignedInput { input: &input.bytes, signature, key_version }];
            let verify =
                if matches!(key.algorithm(), Algorithm::Mac(_)) { operation::verify_mac } else { operation::verify };
            verify(profile, key, &signed).map(|valid| valid == [true])
        };
        Ok(inputs.iter().map(one).collect())
    };
    each(request, operation, plan, work, |valid: &bool| one("valid", *valid)).await
}
