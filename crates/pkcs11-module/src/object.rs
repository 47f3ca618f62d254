//! Objects of a slot: a private and a public key for each key of the broker, and the certificates of the configuration.
//! Their attributes are bytes, as the interface has them.

use cryptoki_sys::*;
use sealway_client::broker::UsableKey;

use crate::config::SlotConfig;
use crate::der::{self, Public};
use crate::mechanism::{Algorithm, Offer, Use};

/// Attributes that no private key of the broker shows.
const SENSITIVE: [CK_ATTRIBUTE_TYPE; 7] =
    [CKA_VALUE, CKA_PRIVATE_EXPONENT, CKA_PRIME_1, CKA_PRIME_2, CKA_EXPONENT_1, CKA_EXPONENT_2, CKA_COEFFICIENT];

/// An object of a token. It does not change: a new version of a key is a new object.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    /// Place of its slot in the configuration.
    pub(crate) slot: usize,
    /// Key of the broker; `None` for a certificate.
    pub(crate) key: Option<Key>,
    is_private: bool,
    attributes: Vec<(CK_ATTRIBUTE_TYPE, Vec<u8>)>,
}

/// A key of the broker, as operations need it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Id of the key in the broker's store.
    pub(crate) id: String,
    /// Version whose public half the object has.
    pub(crate) version: u32,
    /// Length of its signatures, in bytes; of an RSA key that of the modulus.
    pub(crate) signature_len: usize,
    /// True for a key that decrypts content keys.
    pub(crate) is_unwrap: bool,
    /// True for the object of the private half.
    pub(crate) is_private: bool,
}

/// Value of an attribute for a caller.
pub(crate) enum Value<'a> {
    Bytes(&'a [u8]),
    Sensitive,
    Absent,
}

impl Object {
    pub(crate) fn value(&self, attribute: CK_ATTRIBUTE_TYPE) -> Value<'_> {
        if self.is_private && SENSITIVE.contains(&attribute) {
            return Value::Sensitive;
        }
        let found = self.attributes.iter().find(|(known, _)| *known == attribute);
        found.map_or(Value::Absent, |(_, value)| Value::Bytes(value))
    }

    /// True if an attribute has this value.
    pub(crate) fn has(&self, attribute: CK_ATTRIBUTE_TYPE, wanted: &[u8]) -> bool {
        matches!(self.value(attribute), Value::Bytes(value) if value == wanted)
    }
}

fn number(value: CK_ULONG) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

fn truth(value: bool) -> Vec<u8> {
    vec![if value { CK_TRUE } else { CK_FALSE }]
}

/// Makes the objects of a slot. `offers` are the mechanisms of its profile.
pub(crate) fn objects(slot: usize, config: &SlotConfig, keys: &[UsableKey], offers: &[Offer]) -> Vec<Object> {
    let mut objects: Vec<_> = keys.iter().filter_map(|key| pair(slot, key, offers)).flatten().collect();
    let certificates = config.certificates.iter().filter_map(|(stem, der)| certificate(slot, stem, der, keys));
    objects.extend(certificates);
    objects
}

/// Attributes that every object of a token has.
fn common(class: CK_OBJECT_CLASS, id: &[u8], label: &str) -> Vec<(CK_ATTRIBUTE_TYPE, Vec<u8>)> {
    vec![
        (CKA_CLASS, number(class)),
        (CKA_TOKEN, truth(true)),
        (CKA_PRIVATE, truth(false)),
        (CKA_MODIFIABLE, truth(false)),
        (CKA_COPYABLE, truth(false)),
        (CKA_DESTROYABLE, truth(false)),
        (CKA_LABEL, label.as_bytes().to_vec()),
        (CKA_ID, id.to_vec()),
    ]
}

/// Makes both halves of a key pair; `None` if no mechanism of the profile uses its kind.
fn pair(slot: usize, key: &UsableKey, offers: &[Offer]) -> Option<[Object; 2]> {
    let public = der::public(&key.public.der)?;
    let is_unwrap = key.algorithm.starts_with("rsa-unwrap");
    let mut mechanisms = Vec::new();
    for offer in offers {
        let fits = match (offer.purpose, &public) {
            (Use::Decrypt { .. }, Public::Rsa { .. }) => is_unwrap,
            (Use::Sign { algorithm, .. }, public) => {
                !is_unwrap
                    && match algorithm {
                        Algorithm::RsaPkcs1(_) | Algorithm::RsaPss(_) => matches!(public, Public::Rsa { .. }),
                        Algorithm::Ecdsa { .. } => matches!(public, Public::Ec { .. }),
                        Algorithm::Ed25519 => matches!(public, Public::Ed25519 { .. }),
                    }
            }
            _ => false,
        };
        if fits {
            mechanisms.extend(offer.mechanism.to_ne_bytes());
        }
    }
    if mechanisms.is_empty() {
        return None;
    }
    let (kind, signature_len, parts) = match public {
        Public::Rsa { modulus, exponent } => {
            let (len, bits) = (modulus.len(), number(8 * modulus.len() as CK_ULONG));
            let parts = vec![(CKA_MODULUS, modulus), (CKA_PUBLIC_EXPONENT, exponent), (CKA_MODULUS_BITS, bits)];
            (CKK_RSA, len, parts)
        }
        // An uncompressed point is a byte and two numbers, which are as long as those of a signature.
        Public::Ec { curve, point } => {
            (CKK_EC, point.len().saturating_sub(1), vec![(CKA_EC_PARAMS, curve), (CKA_EC_POINT, der::octets(&point))])
        }
        Public::Ed25519 { curve, point } => {
            (CKK_EC_EDWARDS, 64, vec![(CKA_EC_PARAMS, curve), (CKA_EC_POINT, der::octets(&point))])
        }
    };
    let half = |is_private: bool| {
        let class = if is_private { CKO_PRIVATE_KEY } else { CKO_PUBLIC_KEY };
        let mut attributes = common(class, key.id.as_bytes(), &key.id);
        attributes.extend([
            (CKA_KEY_TYPE, number(kind)),
            (CKA_LOCAL, truth(!key.is_imported)),
            (CKA_DERIVE, truth(false)),
            (CKA_START_DATE, Vec::new()),
            (CKA_END_DATE, Vec::new()),
            (CKA_SUBJECT, Vec::new()),
            (CKA_ALLOWED_MECHANISMS, mechanisms.clone()),
            (CKA_PUBLIC_KEY_INFO, key.public.der.clone()),
        ]);
        attributes.extend(parts.iter().cloned());
        if is_private {
            attributes.extend([
                (CKA_SIGN, truth(!is_unwrap)),
                (CKA_SIGN_RECOVER, truth(false)),
                (CKA_DECRYPT, truth(is_unwrap)),
                (CKA_UNWRAP, truth(false)),
                (CKA_SENSITIVE, truth(true)),
                (CKA_EXTRACTABLE, truth(false)),
                (CKA_ALWAYS_SENSITIVE, truth(!key.is_imported)),
                (CKA_NEVER_EXTRACTABLE, truth(!key.is_imported)),
                (CKA_ALWAYS_AUTHENTICATE, truth(false)),
                (CKA_WRAP_WITH_TRUSTED, truth(false)),
            ]);
        } else {
            attributes.extend([
                (CKA_VERIFY, truth(!is_unwrap)),
                (CKA_VERIFY_RECOVER, truth(false)),
                (CKA_ENCRYPT, truth(false)),
                (CKA_WRAP, truth(false)),
                (CKA_TRUSTED, truth(false)),
            ]);
        }
        let of = Key { id: key.id.clone(), version: key.public.version, signature_len, is_unwrap, is_private };
        Object { slot, key: Some(of), is_private, attributes }
    };
    Some([half(true), half(false)])
}

/// Makes the object of a certificate. It has the id of the key that it certifies, if that is one of the slot.
fn certificate(slot: usize, stem: &str, value: &[u8], keys: &[UsableKey]) -> Option<Object> {
    let parts = der::certificate(value)?;
    let key = keys.iter().find(|key| key.public.der == parts.spki);
    let id = key.map_or(stem, |key| &key.id);
    let mut attributes = common(CKO_CERTIFICATE, id.as_bytes(), id);
    attributes.extend([
        (CKA_CERTIFICATE_TYPE, number(CKC_X_509)),
        (CKA_CERTIFICATE_CATEGORY, number(CK_CERTIFICATE_CATEGORY_UNSPECIFIED)),
        (CKA_TRUSTED, truth(false)),
        (CKA_SUBJECT, parts.subject),
        (CKA_ISSUER, parts.issuer),
        (CKA_SERIAL_NUMBER, parts.serial),
        (CKA_PUBLIC_KEY_INFO, parts.spki),
        (CKA_VALUE, value.to_vec()),
    ]);
    Some(Object { slot, key: None, is_private: false, attributes })
}
