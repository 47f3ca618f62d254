//! Opening a token (RFC 7516 section 5.2), in two steps around the private operation, which another thread or another component
//! performs. SPEC mle.md#opening

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use super::algorithm::{Alg, CEK_LEN_MAX, Enc};
use super::compact::{self, Parts};
use super::crypto::JoseProvider;
use super::ec;
use super::fle::{self, Metadata};
use super::header::{EphemeralPublic, HEADER_LEN_MAX, Header};
use super::keys::{OpeningKey, OpeningKeys};
use super::profile::{IatUnit, Message, Profile};
use super::refusal::{Class, Refusal};
use crate::crypto::Provider;
use crate::error::Error;
use crate::session::{Claim, ClaimKey, NonceGuard};
use crate::wire::ReplayPolicy;

/// The domain of a token's fingerprint among claims; the scopes of sessions have 1 to 4.
const FINGERPRINT_DOMAIN: u8 = 5;
/// The domain of the fingerprint of an encrypted key of the field-level form.
const FIELD_DOMAIN: u8 = 6;
/// Below this number of milliseconds a time is from before 1973: the sender counts seconds.
const MILLISECONDS_MIN: u64 = 100_000_000_000;

/// A content encryption key of random bytes, which takes the place of one that did not unwrap. Drawn for every token, so that
/// the work does not show whether it was needed.
pub struct OpenRandoms {
    decoy: Zeroizing<[u8; CEK_LEN_MAX]>,
}

impl OpenRandoms {
    /// Draws it from the provider.
    ///
    /// # Errors
    /// [`Error::Provider`] when the generator fails.
    pub fn draw(provider: &dyn Provider) -> Result<OpenRandoms, Error> {
        let mut decoy = Zeroizing::new([0; CEK_LEN_MAX]);
        provider.fill_random(decoy.as_mut_slice())?;
        Ok(OpenRandoms { decoy })
    }

    /// Uses these bytes, for tests.
    pub fn from_bytes(decoy: [u8; CEK_LEN_MAX]) -> OpenRandoms {
        OpenRandoms { decoy: Zeroizing::new(decoy) }
    }
}

/// The private operation that a token needs.
#[derive(Debug)]
pub struct Wants {
    key: Arc<OpeningKey>,
    encrypted_key: Vec<u8>,
    ephemeral: Option<EphemeralPublic>,
}

impl Wants {
    /// Returns the key that the token names.
    pub fn key(&self) -> &Arc<OpeningKey> {
        &self.key
    }

    /// Returns the name of the key, for a component that holds it.
    pub fn kid(&self) -> &str {
        self.key.kid()
    }

    /// Returns the algorithm of the operation.
    pub fn alg(&self) -> Alg {
        self.key.alg()
    }

    /// Returns the encrypted key, which is as long as its algorithm says: empty for `dir`, and the ephemeral point for `ECDH-ES`.
    pub fn encrypted_key(&self) -> &[u8] {
        self.ephemeral.as_ref().map_or(&self.encrypted_key, |ephemeral| &ephemeral.point)
    }

    /// Performs the operation with a key in memory; see [`OpeningKey::unwrap_key`]. It blocks.
    pub fn unwrap_here(&self) -> Option<Zeroizing<Vec<u8>>> {
        self.key.unwrap_key(self.encrypted_key())
    }
}

/// A token that passed every check that needs no secret. It owns its bytes, so that it may move to another thread.
pub struct Opening {
    wants: Wants,
    content: Content,
    iv: Vec<u8>,
    ciphertext: Zeroizing<Vec<u8>>,
    iat_ms: Option<u64>,
    now_ms: u64,
    replay: ReplayPolicy,
}

/// The encryption of the content.
enum Content {
    /// A JWE. Its protected header as received is the additional authenticated data, and never encoded anew.
    Jwe { enc: Enc, aad: Vec<u8>, header: Vec<u8>, tag: Vec<u8> },
    /// A value of the field-level form, without integrity.
    Field,
}

impl Content {
    fn cek_len(&self) -> usize {
        match self {
            Content::Jwe { enc, .. } => enc.cek_len(),
            Content::Field => fle::KEY_LEN,
        }
    }
}

/// The plaintext of a token. It is wiped when dropped, and its `Debug` shows its length alone.
pub struct Plaintext {
    bytes: Result<Zeroizing<Vec<u8>>, Refusal>,
    kid: String,
}

impl Plaintext {
    /// Returns the decrypted bytes. They are a body and nothing else: no header, method or path is in them.
    ///
    /// # Errors
    /// [`Class::Padding`] in the field-level form. It is known only here, behind the claim, so that one encrypted key answers one
    /// question about paddings.
    pub fn bytes(&self) -> Result<&[u8], &Refusal> {
        self.bytes.as_ref().map(|bytes| bytes.as_slice())
    }

    /// Takes the decrypted bytes, which are wiped when dropped.
    ///
    /// # Errors
    /// As [`Plaintext::bytes`].
    pub fn into_bytes(self) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        self.bytes
    }

    /// Returns the name of the key that opened the token.
    pub fn kid(&self) -> &str {
        &self.kid
    }
}

impl fmt::Debug for Plaintext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Plaintext");
        let len = self.bytes.as_ref().map_or(0, |bytes| bytes.len());
        shown.field("len", &len).field("kid", &self.kid).finish()
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Opening");
        shown.field("kid", &self.wants.kid()).field("alg", &self.wants.alg());
        shown.field("ciphertext_len", &self.ciphertext.len()).finish_non_exhaustive()
    }
}

impl Opening {
    /// Checks everything about a token that needs no private key: form, header, algorithms, key name, time, lengths.
    ///
    /// # Errors
    /// A [`Refusal`] of any class but `unwrap`, `json` and `replayed`; of `tag` for its length alone. No private operation was spent.
    // SPEC mle.md#opening
    pub fn begin(
        token: &[u8],
        profile: &Profile,
        message: Message,
        keys: &OpeningKeys,
        now_ms: u64,
    ) -> Result<Opening, Refusal> {
        if token.len() > profile.token_len_max {
            return Err(Refusal::composed(Class::Size, format!("the token has {} bytes", token.len())));
        }
        let parts = Parts::split(token)?;
        if parts.header.len() > HEADER_LEN_MAX.div_ceil(3) * 4 {
            return Err(Refusal::new(Class::Size, "the header is longer than 4096 bytes"));
        }
        let header_bytes = compact::decode(parts.header, profile.alphabet)?;
        let header = Header::parse(&header_bytes)?;
        check_algorithms(&header, profile, message)?;
        let key = find(&header, profile, keys)?;
        let iat_ms = check_time(header.iat, profile, message, now_ms)?;
        let decode = |part| compact::decode(part, profile.alphabet);
        let opening = Opening {
            wants: Wants {
                key: Arc::clone(key),
                encrypted_key: decode(parts.encrypted_key)?,
                ephemeral: header.ephemeral,
            },
            content: Content::Jwe {
                enc: header.enc,
                aad: parts.header.to_vec(),
                header: header_bytes,
                tag: decode(parts.tag)?,
            },
            iv: decode(parts.iv)?,
            ciphertext: Zeroizing::new(decode(parts.ciphertext)?),
            iat_ms,
            now_ms,
            replay: profile.replay,
        };
        opening.check_lengths(profile.is_long_iv_allowed)?;
        Ok(opening)
    }

    /// Checks everything about a value of the field-level form that needs no private key. `metadata` came beside it, or in the
    /// headers of its message.
    ///
    /// # Errors
    /// A [`Refusal`] of the classes `size`, `base64`, `alg`, `kid`, `shape` and `iv`. No private operation was spent.
    // SPEC mle.md#field-level-form
    pub fn begin_field(
        value: &[u8],
        metadata: &Metadata,
        profile: &Profile,
        message: Message,
        keys: &OpeningKeys,
        now_ms: u64,
    ) -> Result<Opening, Refusal> {
        let Some(fle) = &profile.fle else { return Err(Refusal::new(Class::Shape, "the profile is one of JWE")) };
        if value.len() > profile.token_len_max {
            return Err(Refusal::composed(Class::Size, format!("the value has {} bytes", value.len())));
        }
        let key = match &metadata.kid {
            Some(kid) => keys.get(kid).ok_or_else(|| Refusal::quoting(Class::Kid, "no live key has this name", kid))?,
            None => keys.sole().ok_or_else(|| {
                Refusal::new(Class::Kid, "the message does not name its key, and not exactly one key is live")
            })?,
        };
        if !profile.side(message).algs.contains(&key.alg) || metadata.alg.is_some_and(|alg| alg != key.alg) {
            return Err(Refusal::new(Class::Alg, "the digest is not that of the key"));
        }
        let ciphertext = fle.encoding().decode(value)?;
        if ciphertext.is_empty() || ciphertext.len() % fle::BLOCK_LEN != 0 {
            return Err(Refusal::composed(Class::Shape, format!("the value has {} bytes", ciphertext.len())));
        }
        let opening = Opening {
            wants: Wants { key: Arc::clone(key), encrypted_key: metadata.encrypted_key.clone(), ephemeral: None },
            content: Content::Field,
            iv: metadata.iv.clone(),
            ciphertext: Zeroizing::new(ciphertext),
            iat_ms: None,
            now_ms,
            replay: profile.replay,
        };
        opening.check_lengths(false)?;
        Ok(opening)
    }

    /// Returns the length of the content key, in bytes.
    pub fn content_key_len(&self) -> usize {
        self.content.cek_len()
    }

    /// Returns the private operation that the token needs.
    pub fn wants(&self) -> &Wants {
        &self.wants
    }

    fn check_lengths(&self, is_long_iv_allowed: bool) -> Result<(), Refusal> {
        let due = self.wants.key.encrypted_key_len(self.content.cek_len());
        let len = self.wants.encrypted_key.len();
        if len != due {
            let detail = format!("the encrypted key has {len} bytes, and {due} are due");
            return Err(Refusal::composed(Class::Shape, detail));
        }
        let len = self.iv.len();
        let is_iv = match &self.content {
            Content::Jwe { enc, .. } => len == enc.iv_len() || (enc.is_gcm() && is_long_iv_allowed && len == 16),
            Content::Field => len == fle::BLOCK_LEN,
        };
        if !is_iv {
            return Err(Refusal::composed(Class::Iv, format!("the IV has {len} bytes")));
        }
        match &self.content {
            Content::Jwe { enc, tag, .. } if tag.len() != enc.tag_len() => {
                let detail = format!("the tag has {} bytes, and {} are due", tag.len(), enc.tag_len());
                Err(Refusal::composed(Class::Tag, detail))
            }
            _ => Ok(()),
        }
    }

    /// Goes on with the result of the private operation: verifies the tag, decrypts, and makes the claim against replays. `cek` is
    /// the content key, or with `ECDH-ES` the shared secret that it derives from; `None` if the operation failed. Then the same work is
    /// done with a random key.
    ///
    /// # Errors
    /// [`Class::Unwrap`] and [`Class::Tag`], which take the same time and must be answered alike; [`Class::Epk`]. A defect behind the claim of a
    /// field is in [`Plaintext::bytes`].
    // SPEC mle.md#opening
    pub fn unwrapped(
        self,
        cek: Option<&[u8]>,
        randoms: &OpenRandoms,
        provider: &dyn JoseProvider,
    ) -> Result<NonceGuard<Plaintext>, Refusal> {
        // Of the decoded parts, so that another spelling of the same token is the same token.
        let fingerprint = self.fingerprint(provider.base());
        if self.wants.ephemeral.is_some() && cek.is_none() {
            // The point is public.
            return Err(Refusal::new(Class::Epk, "the ephemeral key is not on the curve"));
        }
        let derived = match (&self.wants.ephemeral, &self.content, cek) {
            (Some(ephemeral), Content::Jwe { enc, .. }, Some(secret)) => {
                Some(ec::derive(secret, *enc, (&ephemeral.apu, &ephemeral.apv), provider.base()))
            }
            _ => None,
        };
        let cek = derived.as_ref().map(|derived| derived.as_slice()).or(cek);
        let cek_len = self.content.cek_len();
        let decoy = randoms.decoy.get(..cek_len).unwrap_or_default();
        let right = cek.filter(|cek| cek.len() == cek_len);
        let mut data = self.ciphertext;
        let cek = right.unwrap_or(decoy);
        let verified = match &self.content {
            Content::Jwe { enc, aad, tag, .. } => provider
                .open_content(*enc, cek, &self.iv, aad, &mut data, tag)
                .map_err(|_| Refusal::new(Class::Tag, "the tag does not verify")),
            Content::Field => fle::decrypt(cek, &self.iv, &mut data, provider),
        };
        if right.is_none() {
            return Err(Refusal::new(Class::Unwrap, "the encrypted key did not decrypt to a key of the right length"));
        }
        let bytes = match self.content {
            Content::Jwe { .. } => verified.map(|()| Ok(data))?,
            Content::Field => verified.map(|()| data),
        };
        // Without a time in the token, the claim is stamped ahead: no restart's floor covers it, so a store must make it durable. Half of
        // the window is ahead even after the private operation, a queue and a network.
        let stamp_ms = self.iat_ms.unwrap_or_else(|| self.now_ms.saturating_add(self.replay.window_ms() / 2));
        // Anybody can make a token with the public key: its tag verifies, and says nothing of who sent it.
        let claim = Claim::passed_on(fingerprint, false, stamp_ms, self.now_ms, &self.replay)
            .map_err(|_| Refusal::new(Class::Iat, "iat is outside of the window"))?;
        let plaintext = Plaintext { bytes, kid: self.wants.key.kid.clone() };
        Ok(NonceGuard::new(plaintext, claim))
    }

    /// Computes SHA-256 over the decoded parts, each behind its length, cut to the length of a claim's key. Of the field-level form it is
    /// over the encrypted key alone: its other parts can be changed without a trace.
    fn fingerprint(&self, provider: &dyn Provider) -> ClaimKey {
        let encrypted_key = &self.wants.encrypted_key[..];
        let (domain, parts) = match &self.content {
            Content::Jwe { header, tag, .. } => {
                (FINGERPRINT_DOMAIN, &[&header[..], encrypted_key, &self.iv, &self.ciphertext, tag][..])
            }
            Content::Field => (FIELD_DOMAIN, &[encrypted_key][..]),
        };
        let lens: Vec<_> = parts.iter().map(|part| (part.len() as u64).to_be_bytes()).collect();
        let domain = [domain];
        let mut input: Vec<&[u8]> = Vec::with_capacity(11);
        input.push(&domain);
        for (len, part) in lens.iter().zip(parts) {
            input.extend([len.as_slice(), part]);
        }
        ClaimKey(provider.sha256(&input).first_chunk().copied().unwrap_or_default())
    }
}

fn check_algorithms(header: &Header, profile: &Profile, message: Message) -> Result<(), Refusal> {
    let side = profile.side(message);
    if !side.algs.contains(&header.alg) {
        return Err(Refusal::quoting(Class::Alg, "the profile does not allow this alg", header.alg.as_str()));
    }
    if !side.encs.contains(&header.enc) {
        return Err(Refusal::quoting(Class::Enc, "the profile does not allow this enc", header.enc.as_str()));
    }
    Ok(())
}

/// Finds the one key that the token may be opened with. Keys are never tried.
fn find<'a>(header: &Header, profile: &Profile, keys: &'a OpeningKeys) -> Result<&'a Arc<OpeningKey>, Refusal> {
    let key = match &header.kid {
        Some(kid) => keys.get(kid).ok_or_else(|| Refusal::quoting(Class::Kid, "no live key has this kid", kid))?,
        None if profile.is_kid_required => return Err(Refusal::new(Class::Kid, "kid is absent")),
        None => {
            keys.sole().ok_or_else(|| Refusal::new(Class::Kid, "kid is absent, and not exactly one key is live"))?
        }
    };
    if key.alg != header.alg {
        return Err(Refusal::quoting(Class::Alg, "the key has another algorithm than alg", header.alg.as_str()));
    }
    if key.enc.is_some_and(|enc| enc != header.enc) {
        return Err(Refusal::quoting(Class::Enc, "the key has another algorithm than enc", header.enc.as_str()));
    }
    if header.x5t_s256.is_some() && header.x5t_s256 != key.certificate_sha256 {
        return Err(Refusal::new(Class::Param, "x5t#S256 is not the hash of the key's certificate"));
    }
    Ok(key)
}

/// Returns the time of the token in milliseconds, if the profile has times and the token has one.
fn check_time(iat: Option<u64>, profile: &Profile, message: Message, now_ms: u64) -> Result<Option<u64>, Refusal> {
    let Some(unit) = profile.iat else { return Ok(None) };
    let iat_ms = match (iat, unit) {
        (None, _) if profile.side(message).is_iat_required => return Err(Refusal::new(Class::Iat, "iat is absent")),
        (None, _) => return Ok(None),
        (Some(iat), IatUnit::Milliseconds) if iat < MILLISECONDS_MIN => {
            return Err(Refusal::new(Class::Iat, "iat is in seconds, and the profile has milliseconds"));
        }
        (Some(iat), IatUnit::Milliseconds) => iat,
        (Some(iat), IatUnit::Seconds) if iat >= MILLISECONDS_MIN => {
            return Err(Refusal::new(Class::Iat, "iat is in milliseconds, and the profile has seconds"));
        }
        (Some(iat), IatUnit::Seconds) => iat.saturating_mul(1000),
    };
    if profile.replay.check_ms(iat_ms, now_ms).is_err() {
        let (offset, side) = if iat_ms < now_ms { (now_ms - iat_ms, "behind") } else { (iat_ms - now_ms, "ahead of") };
        return Err(Refusal::composed(
            Class::Iat,
            format!("iat is {offset} ms {side} the clock, outside of the window"),
        ));
    }
    Ok(Some(iat_ms))
}
