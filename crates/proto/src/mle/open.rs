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
use super::header::{HEADER_LEN_MAX, Header};
use super::keys::{OpeningKey, OpeningKeys};
use super::profile::{IatUnit, Message, Profile};
use super::refusal::{Class, Refusal};
use crate::crypto::Provider;
use crate::error::Error;
use crate::session::{Claim, ClaimKey, NonceGuard};
use crate::wire::ReplayPolicy;

/// The domain of a token's fingerprint among claims; the scopes of sessions have 1 to 4.
const FINGERPRINT_DOMAIN: u8 = 5;
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

    /// Returns the encrypted key, which is as long as its algorithm says; empty for `dir`.
    pub fn encrypted_key(&self) -> &[u8] {
        &self.encrypted_key
    }

    /// Performs the operation with a key in memory; see [`OpeningKey::unwrap_key`]. It blocks.
    pub fn unwrap_here(&self) -> Option<Zeroizing<Vec<u8>>> {
        self.key.unwrap_key(&self.encrypted_key)
    }
}

/// A token that passed every check that needs no secret. It owns its bytes, so that it may move to another thread.
pub struct Opening {
    wants: Wants,
    enc: Enc,
    /// The protected header as received: it is the additional authenticated data, and never encoded anew.
    aad: Vec<u8>,
    header: Vec<u8>,
    iv: Vec<u8>,
    ciphertext: Zeroizing<Vec<u8>>,
    tag: Vec<u8>,
    iat_ms: Option<u64>,
    now_ms: u64,
    replay: ReplayPolicy,
}

/// The plaintext of a token. It is wiped when dropped, and its `Debug` shows its length alone.
pub struct Plaintext {
    bytes: Zeroizing<Vec<u8>>,
    kid: String,
    enc: Enc,
}

impl Plaintext {
    /// Returns the decrypted bytes. They are a body and nothing else: no header, method or path is in them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the decrypted bytes, which are wiped when dropped.
    pub fn into_bytes(self) -> Zeroizing<Vec<u8>> {
        self.bytes
    }

    /// Returns the name of the key that opened the token.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Returns the content encryption algorithm of the token.
    pub fn enc(&self) -> Enc {
        self.enc
    }
}

impl fmt::Debug for Plaintext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Plaintext");
        shown.field("len", &self.bytes.len()).field("kid", &self.kid).field("enc", &self.enc).finish()
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Opening");
        shown.field("kid", &self.wants.kid()).field("alg", &self.wants.alg()).field("enc", &self.enc);
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
            wants: Wants { key: Arc::clone(key), encrypted_key: decode(parts.encrypted_key)? },
            enc: header.enc,
            aad: parts.header.to_vec(),
            header: header_bytes,
            iv: decode(parts.iv)?,
            ciphertext: Zeroizing::new(decode(parts.ciphertext)?),
            tag: decode(parts.tag)?,
            iat_ms,
            now_ms,
            replay: profile.replay,
        };
        opening.check_lengths(profile.is_long_iv_allowed)?;
        Ok(opening)
    }

    /// Returns the private operation that the token needs.
    pub fn wants(&self) -> &Wants {
        &self.wants
    }

    /// Returns the content encryption algorithm that the token names.
    pub fn enc(&self) -> Enc {
        self.enc
    }

    fn check_lengths(&self, is_long_iv_allowed: bool) -> Result<(), Refusal> {
        let due = self.wants.key.encrypted_key_len(self.enc);
        let len = self.wants.encrypted_key.len();
        if len != due {
            let detail = format!("the encrypted key has {len} bytes, and {due} are due");
            return Err(Refusal::composed(Class::Shape, detail));
        }
        let len = self.iv.len();
        if len != self.enc.iv_len() && !(self.enc.is_gcm() && is_long_iv_allowed && len == 16) {
            return Err(Refusal::composed(Class::Iv, format!("the IV has {len} bytes")));
        }
        if self.tag.len() != self.enc.tag_len() {
            let detail = format!("the tag has {} bytes, and {} are due", self.tag.len(), self.enc.tag_len());
            return Err(Refusal::composed(Class::Tag, detail));
        }
        Ok(())
    }

    /// Goes on with the result of the private operation: verifies the tag, decrypts, and makes the claim against replays. `cek` is
    /// `None` if the operation failed; then the same work is done with a random key.
    ///
    /// # Errors
    /// [`Class::Unwrap`] and [`Class::Tag`], which take the same time and must be answered alike.
    // SPEC mle.md#opening
    pub fn unwrapped(
        self,
        cek: Option<&[u8]>,
        randoms: &OpenRandoms,
        provider: &dyn JoseProvider,
    ) -> Result<NonceGuard<Plaintext>, Refusal> {
        // Of the decoded parts, so that another spelling of the same token is the same token.
        let fingerprint = self.fingerprint(provider.base());
        let cek_len = self.enc.cek_len();
        let decoy = randoms.decoy.get(..cek_len).unwrap_or_default();
        let right = cek.filter(|cek| cek.len() == cek_len);
        let mut data = self.ciphertext;
        let cek = right.unwrap_or(decoy);
        let verified = provider.open_content(self.enc, cek, &self.iv, &self.aad, &mut data, &self.tag);
        if right.is_none() {
            return Err(Refusal::new(Class::Unwrap, "the encrypted key did not decrypt to a key of the right length"));
        }
        verified.map_err(|_| Refusal::new(Class::Tag, "the tag does not verify"))?;
        // Without a time in the token, the claim is stamped ahead: no restart's floor covers it, so a store must make it durable. Half of
        // the window is ahead even after the private operation, a queue and a network.
        let stamp_ms = self.iat_ms.unwrap_or_else(|| self.now_ms.saturating_add(self.replay.window_ms() / 2));
        // Anybody can make a token with the public key: its tag verifies, and says nothing of who sent it.
        let claim = Claim::passed_on(fingerprint, false, stamp_ms, self.now_ms, &self.replay)
            .map_err(|_| Refusal::new(Class::Iat, "iat is outside of the window"))?;
        let plaintext = Plaintext { bytes: data, kid: self.wants.key.kid.clone(), enc: self.enc };
        Ok(NonceGuard::new(plaintext, claim))
    }

    /// Computes SHA-256 over the decoded parts, each behind its length, cut to the length of a claim's key.
    fn fingerprint(&self, provider: &dyn Provider) -> ClaimKey {
        let parts: [&[u8]; 5] = [&self.header, &self.wants.encrypted_key, &self.iv, &self.ciphertext, &self.tag];
        let lens = parts.map(|part| (part.len() as u64).to_be_bytes());
        let mut input: Vec<&[u8]> = Vec::with_capacity(11);
        input.push(&[FINGERPRINT_DOMAIN]);
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
