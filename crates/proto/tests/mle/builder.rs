//! A builder of tokens that can lie: each part can be made wrong while the others stay right.

use aes_gcm::AesGcm;
use aes_gcm::aead::consts::U16;
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::aes::{Aes128, Aes192, Aes256};
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepAlgorithm, OaepPublicEncryptingKey, Pkcs1PublicEncryptingKey,
    PublicEncryptingKey,
};
use sealway_proto::mle::compact::encode;
use sealway_proto::mle::{Enc, JoseProvider};

use crate::setup::{KID, NOW_MS, OWN, provider};

/// Encryption of the content key, apart from what the header says.
#[derive(Clone, Copy)]
pub(crate) enum Wrapping {
    Oaep256,
    OaepSha1,
    Pkcs1,
}

/// A token in the making.
#[derive(Clone)]
pub(crate) struct Builder {
    /// The members of the header, without braces.
    pub(crate) header: String,
    pub(crate) enc: Enc,
    pub(crate) cek: Vec<u8>,
    pub(crate) iv: Vec<u8>,
    pub(crate) plaintext: Vec<u8>,
    pub(crate) wrapping: Wrapping,
    /// The public key that the content key is encrypted to.
    pub(crate) recipient: &'static [u8],
}

/// The five parts of a token, decoded.
#[derive(Clone)]
pub(crate) struct Token(pub(crate) [Vec<u8>; 5]);

impl Token {
    pub(crate) fn text(&self) -> String {
        self.0.each_ref().map(|part| encode(part)).join(".")
    }

    /// Returns the token with one decoded part changed.
    pub(crate) fn with(&self, part: usize, change: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut token = self.clone();
        change(&mut token.0[part]);
        token.text()
    }

    /// Returns the token with the text of one part changed.
    pub(crate) fn with_text(&self, part: usize, change: impl FnOnce(&mut String)) -> String {
        let mut parts = self.0.each_ref().map(|part| encode(part));
        change(&mut parts[part]);
        parts.join(".")
    }
}

impl Builder {
    pub(crate) fn new(alg: &str, enc: Enc, iat: Option<&str>) -> Builder {
        let iat = iat.map(|iat| format!(r#","iat":{iat}"#)).unwrap_or_default();
        Builder {
            header: format!(r#""alg":"{alg}","enc":"{enc}","kid":"{KID}"{iat}"#),
            enc,
            cek: (0..enc.cek_len()).map(|at| at as u8).collect(),
            iv: vec![9; enc.iv_len()],
            plaintext: br#"{"pan":"4111111111111111","amount":12345678901234567890.10}"#.to_vec(),
            wrapping: if alg == "RSA-OAEP" { Wrapping::OaepSha1 } else { Wrapping::Oaep256 },
            recipient: &OWN.spki,
        }
    }

    /// Returns the token with members added to its header.
    pub(crate) fn adding(&self, members: &str) -> String {
        Builder { header: format!("{},{members}", self.header), ..self.clone() }.text()
    }

    /// Returns the token with a text of its header replaced, which must be there.
    pub(crate) fn replacing(&self, from: &str, to: &str) -> String {
        assert!(self.header.contains(from), "{from}");
        Builder { header: self.header.replace(from, to), ..self.clone() }.text()
    }

    pub(crate) fn text(&self) -> String {
        self.token().text()
    }

    pub(crate) fn token(&self) -> Token {
        self.token_of_header(format!("{{{}}}", self.header).as_bytes())
    }

    /// Builds the token over these bytes as its header.
    pub(crate) fn token_of_header(&self, header: &[u8]) -> Token {
        self.token_over(header, encode(header).as_bytes())
    }

    /// Builds the token with another additional authenticated data than the header.
    pub(crate) fn token_over(&self, header: &[u8], aad: &[u8]) -> Token {
        let (ciphertext, tag) = self.content(aad);
        Token([header.to_vec(), self.wrapped(), self.iv.clone(), ciphertext, tag])
    }

    fn content(&self, aad: &[u8]) -> (Vec<u8>, Vec<u8>) {
        if self.enc.is_gcm() && self.iv.len() == 16 {
            return match self.enc {
                Enc::A128Gcm => self.long::<Aes128>(aad),
                Enc::A192Gcm => self.long::<Aes192>(aad),
                _ => self.long::<Aes256>(aad),
            };
        }
        // With a lie about the IV or the key the content is that of the right lengths.
        let mut cek = self.cek.clone();
        cek.resize(self.enc.cek_len(), 0);
        let mut iv = self.iv.clone();
        iv.resize(self.enc.iv_len(), 0);
        let mut data = self.plaintext.clone();
        let tag = provider().seal_content(self.enc, &cek, &iv, aad, &mut data).unwrap();
        (data, tag)
    }

    /// Seals AES-GCM with a nonce of 16 bytes, which no provider of ours does.
    fn long<A>(&self, aad: &[u8]) -> (Vec<u8>, Vec<u8>)
    where
        AesGcm<A, U16>: KeyInit + AeadInOut<NonceSize = U16>,
    {
        let cipher = AesGcm::<A, U16>::new_from_slice(&self.cek).unwrap();
        let mut data = self.plaintext.clone();
        let nonce = self.iv.as_slice().try_into().unwrap();
        let tag = cipher.encrypt_inout_detached(nonce, aad, data.as_mut_slice().into()).unwrap();
        (data, tag.to_vec())
    }

    fn wrapped(&self) -> Vec<u8> {
        let key = PublicEncryptingKey::from_der(self.recipient).unwrap();
        let mut out = vec![0; key.key_size_bytes()];
        let oaep: &OaepAlgorithm = match self.wrapping {
            Wrapping::Oaep256 => &OAEP_SHA256_MGF1SHA256,
            Wrapping::OaepSha1 => &OAEP_SHA1_MGF1SHA1,
            Wrapping::Pkcs1 => {
                let key = Pkcs1PublicEncryptingKey::new(key).unwrap();
                return key.encrypt(&self.cek, &mut out).unwrap().to_vec();
            }
        };
        OaepPublicEncryptingKey::new(key).unwrap().encrypt(oaep, &self.cek, &mut out, None).unwrap().to_vec()
    }
}

/// Returns the time of now as a profile writes it.
pub(crate) fn iat_now(unit: Option<sealway_proto::mle::IatUnit>) -> Option<String> {
    unit.map(|unit| match unit {
        sealway_proto::mle::IatUnit::Seconds => (NOW_MS / 1000).to_string(),
        sealway_proto::mle::IatUnit::Milliseconds => NOW_MS.to_string(),
    })
}
