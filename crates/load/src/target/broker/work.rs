//! Inputs of a broker run, read or drawn once, and the artefacts that an operation needs before its first request.

use std::sync::Arc;

use sealway_client::broker::{Cipher, Client, Error, Plain, PublicKey, Recipient, WrappedKey, open};
use sealway_client::mle::{Alg, provider};
use sealway_runtime::config::read_bounded;
use tokio::sync::OnceCell;

use crate::plan::{self, BrokerOperation, BrokerWire};
use crate::request::Random;

/// Maximum size of a certificate file, in bytes.
const FILE_LEN_MAX: u64 = 64 * 1024;

/// Work of a broker run, shared by all shards.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) broker: plan::Broker,
    pub(super) inputs: Vec<Vec<u8>>,
    pub(super) csr: String,
    pub(super) issuer: String,
    pub(super) issuer_key: sealway_client::broker::Secret,
    /// Artefacts, made over the first connection before its first request is measured.
    made: OnceCell<Artefacts>,
}

/// Artefacts that the measured operation consumes.
#[derive(Debug, Default)]
pub(crate) struct Artefacts {
    pub(super) ciphers: Vec<Cipher>,
    pub(super) open_cipher: Option<open::Cipher>,
    /// Signatures, MAC tags or encapsulated keys, all made with `key_version`.
    pub(super) artefacts: Vec<Vec<u8>>,
    pub(super) key_version: u32,
}

impl Work {
    /// Reads the plan's files and draws its inputs from `seed`.
    ///
    /// # Errors
    /// A one-line message if a file cannot be read.
    pub(crate) fn new(broker: &plan::Broker, seed: u64) -> Result<Arc<Self>, String> {
        let read = |file: &std::path::Path| read_bounded(file, FILE_LEN_MAX).map_err(|err| err.to_string());
        let (mut csr, mut issuer, mut issuer_key) = (String::new(), String::new(), Vec::new());
        if let Some(files) = &broker.certificate {
            (csr, issuer) = (read(&files.csr)?, read(&files.issuer)?);
            if let Some(key) = &files.issuer_key {
                issuer_key = read(key)?.into_bytes();
            }
        }
        let mut random = Random::new(seed);
        let mut input = || (0..broker.input_len).map(|_| random.number().to_le_bytes()[0]).collect();
        let inputs = (0..broker.batch).map(|_| input()).collect();
        Ok(Arc::new(Work {
            broker: broker.clone(),
            inputs,
            csr,
            issuer,
            issuer_key: issuer_key.into(),
            made: OnceCell::new(),
        }))
    }

    /// Returns the artefacts, and whether this call had to make or await them.
    pub(crate) async fn ready(&self, client: &Client) -> Result<(&Artefacts, bool), Error> {
        if let Some(made) = self.made.get() {
            return Ok((made, false));
        }
        let made = self.made.get_or_try_init(|| self.make(client)).await?;
        Ok((made, true))
    }

    async fn make(&self, client: &Client) -> Result<Artefacts, Error> {
        let (profile, key) = (&self.broker.profile, &self.broker.key);
        let mut made = Artefacts::default();
        match (self.broker.operation, self.broker.wire) {
            (BrokerOperation::Decrypt, BrokerWire::Open) => {
                let input = self.inputs.first().map_or(&[][..], Vec::as_slice);
                made.open_cipher = Some(open::Open(client).encrypt_data(profile, key, &[7; 12], input).await?);
            }
            (BrokerOperation::Decrypt | BrokerOperation::Rewrap, BrokerWire::V1) => {
                let plains: Vec<_> = self.plains().collect();
                made.ciphers = client.encrypt(profile, key, &plains).await?.outputs;
            }
            (BrokerOperation::Verify, _) => {
                let signed = client.sign(profile, key, &self.inputs).await?;
                (made.artefacts, made.key_version) = (signed.outputs, signed.descriptor.key_version);
            }
            (BrokerOperation::VerifyMac, _) => {
                let tagged = client.mac(profile, key, &self.inputs).await?;
                (made.artefacts, made.key_version) = (tagged.outputs, tagged.descriptor.key_version);
            }
            (BrokerOperation::Decapsulate, _) => {
                let sent = client.encapsulate(profile, Recipient::Key(key), self.broker.batch).await?;
                made.key_version = sent.descriptor.key_version;
                made.artefacts = sent.outputs.into_iter().map(|one| one.ciphertext).collect();
            }
            (BrokerOperation::Unwrap, _) => {
                let public = client.public_key(key, 0).await?;
                made.key_version = public.version;
                made.artefacts = self.wrapped(client, &public).await?;
            }
            _ => {}
        }
        Ok(made)
    }

    /// Encrypts the inputs, which are content keys, to a key of the broker by the profile's algorithm: the one whose result the
    /// broker decrypts. It answers another key, and no error, where the algorithm is wrong.
    async fn wrapped(&self, client: &Client, public: &PublicKey) -> Result<Vec<Vec<u8>>, Error> {
        let mut encrypted = Vec::new();
        for alg in [Alg::RsaOaep256, Alg::RsaOaep] {
            let wrap = provider()
                .rsa_public(alg, &public.der)
                .and_then(|wrap| self.inputs.iter().map(|input| wrap.wrap_key(input)).collect::<Result<Vec<_>, _>>());
            // A key of another kind: the broker says what is wrong with it.
            encrypted = wrap.unwrap_or_else(|_| self.inputs.clone());
            if self.unwraps(client, &encrypted, public.version).await? {
                break;
            }
        }
        Ok(encrypted)
    }

    /// Returns whether a version of the broker's key decrypts the inputs.
    pub(super) async fn unwraps(&self, client: &Client, encrypted: &[Vec<u8>], version: u32) -> Result<bool, Error> {
        let length = self.broker.input_len;
        let wrapped: Vec<_> = encrypted.iter().map(|key| WrappedKey { encrypted_key: key, length }).collect();
        let keys = client.unwrap(&self.broker.profile, &self.broker.key, version, &wrapped).await?.outputs;
        Ok(keys.iter().zip(&self.inputs).all(|(key, input)| key[..] == input[..]))
    }

    pub(super) fn plains(&self) -> impl Iterator<Item = Plain<'_>> {
        self.inputs.iter().map(|input| Plain { plaintext: input, ..Plain::default() })
    }
}
