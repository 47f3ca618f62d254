//! Key material from PEM or DER: private keys, public keys and certificates of RSA and of P-256, and shared keys. SPEC mle.md#keys

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::der::{BIT_STRING, Der, INTEGER, OCTET_STRING, OID, SEQUENCE, SET, unsigned};
use super::ec::{self, EC_PUBLIC_KEY, POINT_LEN};
use super::key_error::KeyError;

/// Largest input of a key, in bytes.
pub const KEY_FILE_LEN_MAX: usize = 64 * 1024;
/// Fewest bits of an RSA modulus.
pub const RSA_BITS_MIN: usize = 2048;
/// Most bits of an RSA modulus.
pub const RSA_BITS_MAX: usize = 8192;

/// A public key and what its certificate says, if it came in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Public {
    pub(super) spki: Vec<u8>,
    pub(super) numbers: Numbers,
    pub(super) certificate: Option<Certificate>,
}

/// The numbers of a public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point on P-256, not yet checked to be on the curve.
    P256([u8; POINT_LEN]),
}

/// The facts of a certificate that this crate uses. Whether it is trusted is decided elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    pub(super) der: Vec<u8>,
    pub(super) serial_numbers: Vec<String>,
    not_before_s: i64,
    not_after_s: i64,
}

impl Certificate {
    /// Returns the first second at which it is valid, since the epoch.
    pub fn not_before_s(&self) -> i64 {
        self.not_before_s
    }

    /// Returns the last second at which it is valid, since the epoch.
    pub fn not_after_s(&self) -> i64 {
        self.not_after_s
    }

    /// Returns the whole certificate in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }
}

impl Public {
    /// Loads a certificate or a SubjectPublicKeyInfo, in PEM or DER.
    ///
    /// # Errors
    /// [`KeyError`]: another form, a private key, or an RSA key that is not fit for use.
    pub fn load(bytes: &[u8]) -> Result<Public, KeyError> {
        let blocks = blocks(bytes)?;
        if blocks.iter().any(|block| block.label.is_some_and(|label| label.ends_with("PRIVATE KEY"))) {
            return Err(KeyError::PrivateInPlaceOfPublic);
        }
        for label in ["CERTIFICATE", "PUBLIC KEY"] {
            if let Some(der) = sole(&blocks, label)? {
                return if label == "CERTIFICATE" { Public::certificate(der) } else { Public::spki(der) };
            }
        }
        match &blocks[..] {
            [Block { label: None, der }] if is_private(der) => Err(KeyError::PrivateInPlaceOfPublic),
            [Block { label: None, der }] => Public::certificate(der).or_else(|err| match err {
                KeyError::Der => Public::spki(der),
                err => Err(err),
            }),
            _ => Err(KeyError::Absent),
        }
    }

    /// Reads a certificate (RFC 5280 section 4.1) up to its key. The extensions and the signature are not read.
    fn certificate(der: &[u8]) -> Result<Public, KeyError> {
        let (facts, spki) = certificate(der).ok_or(KeyError::Der)?;
        Ok(Public { certificate: Some(facts), ..Public::spki(spki)? })
    }

    /// Reads and checks a SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7).
    pub(super) fn spki(der: &[u8]) -> Result<Public, KeyError> {
        let (mut algorithm, key) = spki(der).ok_or(KeyError::Der)?;
        let numbers = match algorithm.take(OID) {
            // Not RSASSA-PSS keys (1.2.840.113549.1.1.10): those sign.
            Some(RSA_ENCRYPTION) => {
                let (modulus, exponent) = rsa_public(key).ok_or(KeyError::Der)?;
                check_rsa(modulus, exponent)?;
                Numbers::Rsa { modulus: modulus.to_vec(), exponent: exponent.to_vec() }
            }
            Some(EC_PUBLIC_KEY) => Numbers::P256(ec::point(algorithm, key)?),
            _ => return Err(KeyError::Kind),
        };
        Ok(Public { spki: der.to_vec(), numbers, certificate: None })
    }

    /// Returns the key with its certificate, if there is one.
    ///
    /// # Errors
    /// [`KeyError::Mismatch`] if the certificate is another key's; what is wrong with it.
    pub(super) fn with_certificate(self, certificate: Option<&[u8]>) -> Result<Public, KeyError> {
        let Some(certificate) = certificate else { return Ok(self) };
        let from = Public::load(certificate)?;
        if from.numbers == self.numbers { Ok(from) } else { Err(KeyError::Mismatch) }
    }

    /// Returns the SubjectPublicKeyInfo in DER.
    pub fn der(&self) -> &[u8] {
        &self.spki
    }

    /// Returns the length of the modulus in bytes, which is that of an encrypted key; 0 for a key on P-256.
    pub fn modulus_len(&self) -> usize {
        match &self.numbers {
            Numbers::Rsa { modulus, .. } => modulus.len(),
            Numbers::P256(_) => 0,
        }
    }

    /// Returns the kind of the key, for people.
    pub fn kind(&self) -> String {
        match &self.numbers {
            Numbers::Rsa { modulus, .. } => format!("RSA, {} bits", modulus.len() * 8),
            Numbers::P256(_) => "EC, P-256".to_owned(),
        }
    }

    /// Returns the certificate that the key came in.
    pub fn x509(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }
}

/// The content of the object identifier rsaEncryption, 1.2.840.113549.1.1.1.
const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
/// The content of the object identifier of the attribute serialNumber, 2.5.4.5.
const SERIAL_NUMBER: &[u8] = &[0x55, 4, 5];
/// The tag of a certificate's version.
const VERSION: u8 = 0xa0;

/// Returns the facts of a certificate, and its SubjectPublicKeyInfo.
fn certificate(der: &[u8]) -> Option<(Certificate, &[u8])> {
    let mut outer = Der::sequence(der)?;
    let mut tbs = Der(outer.take(SEQUENCE)?);
    outer.take(SEQUENCE)?;
    outer.take(BIT_STRING)?;
    if !outer.is_empty() {
        return None;
    }
    if tbs.0.first() == Some(&VERSION) {
        tbs.next()?;
    }
    tbs.take(INTEGER)?;
    tbs.take(SEQUENCE)?;
    tbs.take(SEQUENCE)?;
    let mut validity = Der(tbs.take(SEQUENCE)?);
    let (not_before_s, not_after_s) = (validity.time()?, validity.time()?);
    let serial_numbers = serial_numbers(Der(tbs.take(SEQUENCE)?))?;
    let spki = tbs.take_whole(SEQUENCE)?;
    Some((Certificate { der: der.to_vec(), serial_numbers, not_before_s, not_after_s }, spki))
}

/// Returns the values of the serialNumber attributes in a name.
fn serial_numbers(mut name: Der<'_>) -> Option<Vec<String>> {
    let mut found = Vec::new();
    while !name.is_empty() {
        let mut attributes = Der(name.take(SET)?);
        while !attributes.is_empty() {
            let mut attribute = Der(attributes.take(SEQUENCE)?);
            if attribute.take(OID)? == SERIAL_NUMBER {
                found.push(attribute.text()?.to_owned());
            }
        }
    }
    Some(found)
}

/// Returns the algorithm of a SubjectPublicKeyInfo with its parameters, and the bytes of its key.
fn spki(der: &[u8]) -> Option<(Der<'_>, &[u8])> {
    let mut info = Der::sequence(der)?;
    let algorithm = Der(info.take(SEQUENCE)?);
    // The first byte counts the bits that are not used: none.
    let key = info.take(BIT_STRING)?.strip_prefix(&[0])?;
    info.is_empty().then_some((algorithm, key))
}

/// Returns the modulus and the exponent of an RSAPublicKey (RFC 8017 appendix A.1.1).
fn rsa_public(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut key = Der::sequence(der)?;
    let (modulus, exponent) = (key.unsigned()?, key.unsigned()?);
    key.is_empty().then_some((modulus, exponent))
}

fn check_rsa(modulus: &[u8], exponent: &[u8]) -> Result<(), KeyError> {
    let bits = modulus.first().map_or(0, |first| modulus.len() * 8 - first.leading_zeros() as usize);
    if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
        return Err(KeyError::Bits(bits));
    }
    let is_odd = exponent.last().is_some_and(|last| last & 1 == 1);
    if !is_odd || exponent == [1] || exponent.len() > 4 {
        return Err(KeyError::Exponent);
    }
    if is_roca(modulus) { Err(KeyError::Roca) } else { Ok(()) }
}

/// The odd primes below 168. Moduli of the flawed library are powers of 65537 modulo each of them.
const ROCA_PRIMES: [u32; 38] = [
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109,
    113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
];

/// Returns whether a modulus has the fingerprint of CVE-2017-15361 (Nemec et al., "The Return of Coppersmith's Attack", section
/// 2.2). An honest modulus has it with a probability below 2⁻²⁷.
fn is_roca(modulus: &[u8]) -> bool {
    ROCA_PRIMES.iter().all(|prime| {
        let rest = modulus.iter().fold(0, |rest, byte| (rest * 256 + u32::from(*byte)) % prime);
        let (mut power, mut steps) = (1, 0);
        while power != rest && steps < *prime {
            power = power * (65537 % prime) % prime;
            steps += 1;
        }
        power == rest
    })
}

/// Reads a shared key: base64 with padding, and white space around it at most.
///
/// # Errors
/// [`KeyError::Length`] and [`KeyError::SharedText`].
pub fn shared(text: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    if text.is_empty() || text.len() > KEY_FILE_LEN_MAX {
        return Err(KeyError::Length);
    }
    STANDARD.decode(text.trim_ascii()).map(Zeroizing::new).map_err(|_| KeyError::SharedText)
}

/// Returns a private key in its PKCS#8 form. A PKCS#1 key is put into one.
pub(super) fn private_pkcs8(bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let blocks = blocks(bytes)?;
    if sole(&blocks, "ENCRYPTED PRIVATE KEY")?.is_some() {
        return Err(KeyError::Encrypted);
    }
    if blocks
        .iter()
        .any(|block| matches!(block.label, Some("EC PRIVATE KEY" | "DSA PRIVATE KEY" | "OPENSSH PRIVATE KEY")))
    {
        return Err(KeyError::Kind);
    }
    let (pkcs8, pkcs1) = (sole(&blocks, "PRIVATE KEY")?, sole(&blocks, "RSA PRIVATE KEY")?);
    match (pkcs8, pkcs1, &blocks[..]) {
        (Some(_), Some(_), _) => Err(KeyError::Ambiguous("PRIVATE KEY")),
        (Some(der), None, _) => Ok(Zeroizing::new(der.to_vec())),
        (None, Some(der), _) => Ok(wrap_pkcs1(der)),
        (None, None, [Block { label: None, der }]) if is_pkcs1(der) => Ok(wrap_pkcs1(der)),
        (None, None, [Block { label: None, der }]) if is_private(der) => Ok(der.clone()),
        (None, None, [Block { label: None, der }]) if Public::load(der).is_err_and(|err| err == KeyError::Der) => {
            Err(KeyError::Der)
        }
        (None, None, [Block { label: None, .. }]) => Err(KeyError::PublicInPlaceOfPrivate),
        (None, None, []) => Err(KeyError::Absent),
        (None, None, _) => Err(KeyError::PublicInPlaceOfPrivate),
    }
}

/// Finds the defect of a PKCS#8 private key that the library rejected, by its modulus and public exponent.
pub(super) fn rsa_defect(pkcs8: &[u8]) -> Option<KeyError> {
    let (algorithm, mut key) = private_info(pkcs8)?;
    if algorithm != RSA_ENCRYPTION {
        return Some(KeyError::Kind);
    }
    check_rsa(key.unsigned()?, key.unsigned()?).err()
}

/// Returns the modulus of an RSA private key, PKCS#8 or PKCS#1, PEM or DER, by which it is known in whatever form; `None` for another key.
pub fn rsa_modulus(private: &[u8]) -> Option<Vec<u8>> {
    let pkcs8 = private_pkcs8(private).ok()?;
    let (algorithm, mut key) = private_info(&pkcs8)?;
    if algorithm == RSA_ENCRYPTION { key.unsigned().map(<[u8]>::to_vec) } else { None }
}

/// Returns the algorithm of a PKCS#8 private key, and the integers of its key behind the version.
fn private_info(pkcs8: &[u8]) -> Option<(&[u8], Der<'_>)> {
    let mut outer = Der::sequence(pkcs8)?;
    outer.unsigned()?;
    let algorithm = Der(outer.take(SEQUENCE)?).take(OID)?;
    let mut key = Der::sequence(outer.take(OCTET_STRING)?)?;
    key.unsigned()?;
    Some((algorithm, key))
}

/// Returns whether DER begins like a PKCS#8 or PKCS#1 private key: a sequence that begins with the integer 0.
fn is_private(der: &[u8]) -> bool {
    Der::sequence(der).is_some_and(|content| content.0.starts_with(&[INTEGER, 1, 0]))
}

/// Returns whether it is PKCS#1: an integer follows the version, where PKCS#8 has a sequence.
fn is_pkcs1(der: &[u8]) -> bool {
    Der::sequence(der).is_some_and(|content| content.0.starts_with(&[INTEGER, 1, 0, INTEGER]))
}

/// Puts a PKCS#1 RSAPrivateKey into a PKCS#8 PrivateKeyInfo (RFC 5208 section 5).
fn wrap_pkcs1(pkcs1: &[u8]) -> Zeroizing<Vec<u8>> {
    const VERSION_AND_ALGORITHM: [u8; 18] =
        [0x02, 1, 0, 0x30, 13, 0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 0x05, 0];
    let octets = head(0x04, pkcs1.len());
    let inner_len = VERSION_AND_ALGORITHM.len() + octets.len() + pkcs1.len();
    let outer = head(0x30, inner_len);
    let mut out = Zeroizing::new(Vec::with_capacity(outer.len() + inner_len));
    for part in [&outer[..], &VERSION_AND_ALGORITHM, &octets, pkcs1] {
        out.extend_from_slice(part);
    }
    out
}

/// Encodes a tag and a length of DER, of at most 2³² - 1.
fn head(tag: u8, len: usize) -> Vec<u8> {
    let bytes = (len as u64).to_be_bytes();
    let bytes = unsigned(&bytes);
    match bytes {
        [] => Vec::from([tag, 0]),
        [short] if *short < 0x80 => Vec::from([tag, *short]),
        long => [&[tag, 0x80 | long.len() as u8], long].concat(),
    }
}

/// A block of a PEM text, or the whole input if it is DER. Its bytes are wiped.
pub(super) struct Block<'a> {
    pub(super) label: Option<&'a str>,
    pub(super) der: Zeroizing<Vec<u8>>,
}

pub(super) fn sole<'a>(blocks: &'a [Block<'_>], label: &'static str) -> Result<Option<&'a [u8]>, KeyError> {
    let mut found = blocks.iter().filter(|block| block.label == Some(label));
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => Err(KeyError::Ambiguous(label)),
        (first, _) => Ok(first.map(|block| block.der.as_slice())),
    }
}

/// Reads every block of a PEM text (RFC 7468), with any text around them; or takes the input as DER.
pub(super) fn blocks(bytes: &[u8]) -> Result<Vec<Block<'_>>, KeyError> {
    if bytes.is_empty() || bytes.len() > KEY_FILE_LEN_MAX {
        return Err(KeyError::Length);
    }
    let text = match core::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with('0') || text.contains("-----BEGIN ") => text,
        _ => return Ok(Vec::from([Block { label: None, der: Zeroizing::new(bytes.to_vec()) }])),
    };
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|line| line.strip_suffix("-----")) else {
            continue;
        };
        let mut base64 = Zeroizing::new(String::with_capacity(bytes.len()));
        loop {
            match lines.next() {
                // The old form of an encrypted key has headers (RFC 1421).
                Some(line) if line.starts_with("Proc-Type:") => return Err(KeyError::Encrypted),
                Some(line)
                    if line.strip_prefix("-----END ").and_then(|line| line.strip_suffix("-----")) == Some(label) =>
                {
                    break;
                }
                Some(line) => base64.push_str(line.trim()),
                None => return Err(KeyError::Pem),
            }
        }
        let der = Zeroizing::new(STANDARD.decode(base64.as_bytes()).map_err(|_| KeyError::Pem)?);
        blocks.push(Block { label: Some(label), der });
    }
    if blocks.is_empty() { Err(KeyError::Absent) } else { Ok(blocks) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modulus_of_the_flawed_library_is_recognised() {
        // Powers of 65537 have the fingerprint by construction; one more than a power has not.
        let mut number = Vec::from([1_u8]);
        for _ in 0..128 {
            // Multiplication by 2^16 + 1.
            let mut product = number.clone();
            product.extend([0, 0]);
            let mut carry = 0;
            for at in 0..product.len() {
                let (low, high) = (product.len() - 1 - at, number.len().checked_sub(1 + at));
                let sum = u16::from(product[low]) + high.map_or(0, |high| u16::from(number[high])) + carry;
                product[low] = sum as u8;
                carry = sum >> 8;
            }
            if carry > 0 {
                product.insert(0, carry as u8);
            }
            number = product;
        }
        assert_eq!(number.len(), 257);
        assert!(is_roca(&number));
        assert_eq!(check_rsa(&number, &[1, 0, 1]), Err(KeyError::Roca));
        *number.last_mut().unwrap() += 1;
        assert!(!is_roca(&number));
    }

    #[test]
    fn lengths_of_der_are_minimal() {
        assert_eq!(head(4, 0), [4, 0]);
        assert_eq!(head(4, 127), [4, 127]);
        assert_eq!(head(4, 128), [4, 0x81, 128]);
        assert_eq!(head(0x30, 1200), [0x30, 0x82, 4, 0xb0]);
    }

    #[test]
    fn sizes_and_exponents_have_bounds() {
        let modulus = |bits: usize| {
            let mut bytes = alloc::vec![0xa7; bits.div_ceil(8)];
            bytes[0] = 0xff >> ((8 - bits % 8) % 8);
            bytes
        };
        for (bits, expected) in [
            (1024, Err(KeyError::Bits(1024))),
            (2047, Err(KeyError::Bits(2047))),
            (2048, Ok(())),
            (8192, Ok(())),
            (8193, Err(KeyError::Bits(8193))),
        ] {
            assert_eq!(check_rsa(&modulus(bits), &[1, 0, 1]), expected, "{bits}");
        }
        assert_eq!(check_rsa(&[], &[3]), Err(KeyError::Bits(0)));
        for (exponent, is_taken) in [
            (&[][..], false),
            (&[1], false),
            (&[2], false),
            (&[3], true),
            (&[1, 0, 0], false),
            (&[1, 0, 0, 0, 1], false),
        ] {
            assert_eq!(check_rsa(&modulus(2048), exponent).is_ok(), is_taken, "{exponent:?}");
        }
    }
}
