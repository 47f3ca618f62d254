//! Message authentication codes: HMAC (RFC 2104) with SHA-2.

use super::encrypt::outputs_of;
use super::sign::SignedInput;
use super::{Outputs, check_batch, failed, not_in};
use crate::Result;
use crate::keys::{Algorithm, Form, Key, MacKey, Version};
use crate::profile::policy::Profile;

/// Computes the tags of a batch under the key's current version.
///
/// # Errors
/// [`Code::InvalidArgument`](crate::Code::InvalidArgument): batch or key;
/// [`Code::FailedPrecondition`](crate::Code::FailedPrecondition): not in the profile, or the key is disabled.
pub fn mac(profile: &Profile, key: &Key, inputs: &[&[u8]]) -> Result<Outputs<Vec<u8>>> {
    check(profile, key)?;
    check_batch("inputs", inputs.iter().map(|input| input.len()))?;
    let version = key.current()?;
    let form = form_of(key, version)?;
    let tags = inputs.iter().map(|input| form.tag(input)).collect::<Result<_>>()?;
    Ok(outputs_of(version, tags))
}

/// Verifies tags, each under its version: 0 is the current one.
///
/// # Errors
/// Those of [`mac`]; the batch fails as a whole if one version does not exist or is disabled.
pub fn verify_mac(profile: &Profile, key: &Key, signed: &[SignedInput<'_>]) -> Result<Vec<bool>> {
    check(profile, key)?;
    check_batch("signed", signed.iter().map(SignedInput::len))?;
    let verify = |one: &SignedInput<'_>| {
        let form = form_of(key, key.version(one.key_version)?)?;
        form.is_valid(one.input, one.signature)
    };
    signed.iter().map(verify).collect()
}

fn check(profile: &Profile, key: &Key) -> Result<()> {
    key.require(Algorithm::Mac(profile.mac.ok_or_else(|| not_in(profile, "Mac"))?))
}

fn form_of<'a>(key: &Key, version: &'a Version) -> Result<&'a MacKey> {
    match key.form(version)? {
        Form::Mac(form) => Ok(form),
        _ => Err(failed("Mac")),
    }
}
