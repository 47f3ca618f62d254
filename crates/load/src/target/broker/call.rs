//! One call of each broker operation.

use sealway_client::broker::{
    CertificateRequest, Client, DecryptInput, Derivation, Error, Health, Recipient, Refusal, Secret, Verification, open,
};

use super::work::{Artefacts, Work};
use crate::plan::{BrokerOperation, BrokerWire};

impl Work {
    /// Makes one call. Returns `false` if a checkable answer is wrong; an answer that cannot be checked counts as right.
    pub(super) async fn call(&self, client: &Client, made: &Artefacts) -> Result<bool, Error> {
        if self.broker.wire == BrokerWire::Open && self.broker.operation != BrokerOperation::Health {
            return Box::pin(self.call_open(client, made)).await;
        }
        let (profile, key) = (self.broker.profile.as_str(), self.broker.key.as_str());
        match self.broker.operation {
            BrokerOperation::Hash => client.hash(profile, &self.inputs).await.map(|_| true),
            BrokerOperation::Sign => {
                let request = CertificateRequest {
                    profile,
                    csr: self.csr.as_bytes(),
                    ca_key: key,
                    ca_certificate: self.issuer.as_bytes(),
                    ..CertificateRequest::default()
                };
                client.sign_certificate(&request).await.map(|certificate| !certificate.der.is_empty())
            }
            BrokerOperation::Encrypt => {
                let plains: Vec<_> = self.plains().collect();
                client.encrypt(profile, key, &plains).await.map(|_| true)
            }
            BrokerOperation::Decrypt => {
                let opened = client.decrypt(profile, key, &sealed(made)).await?.outputs;
                let is_same = |(opened, input): (&Result<Secret, Refusal>, &Vec<u8>)| {
                    opened.as_ref().is_ok_and(|plain| plain[..] == input[..])
                };
                Ok(opened.iter().zip(&self.inputs).all(is_same))
            }
            BrokerOperation::Rewrap => {
                let rewrapped = client.rewrap(profile, key, &sealed(made)).await?.outputs;
                Ok(rewrapped.iter().all(Result::is_ok))
            }
            BrokerOperation::SignData => client.sign(profile, key, &self.inputs).await.map(|_| true),
            BrokerOperation::Verify => Ok(all(client.verify(profile, key, &self.signed(made)).await?.outputs)),
            BrokerOperation::Mac => client.mac(profile, key, &self.inputs).await.map(|_| true),
            BrokerOperation::VerifyMac => Ok(all(client.verify_mac(profile, key, &self.signed(made)).await?.outputs)),
            BrokerOperation::Derive => {
                let one = |input| Derivation { salt: b"", info: input, length: self.broker.input_len };
                let derivations: Vec<_> = self.inputs.iter().map(|input| one(short(input))).collect();
                client.derive(profile, key, 0, &derivations).await.map(|_| true)
            }
            BrokerOperation::Random => {
                client.random(profile, self.broker.input_len, self.broker.batch).await.map(|_| true)
            }
            BrokerOperation::Encapsulate => {
                client.encapsulate(profile, Recipient::Key(key), self.broker.batch).await.map(|_| true)
            }
            BrokerOperation::Decapsulate => {
                client.decapsulate(profile, key, made.key_version, &made.artefacts).await.map(|_| true)
            }
            BrokerOperation::Unwrap => self.unwraps(client, &made.artefacts, made.key_version).await,
            BrokerOperation::Information => client.information().await.map(|_| true),
            BrokerOperation::Health => client.health().await.map(|health| health == Health::Serving),
        }
    }

    async fn call_open(&self, client: &Client, made: &Artefacts) -> Result<bool, Error> {
        let (profile, key) = (self.broker.profile.as_str(), self.broker.key.as_str());
        let input = self.inputs.first().map_or(&[][..], Vec::as_slice);
        let client = open::Open(client);
        match (self.broker.operation, &made.open_cipher) {
            (BrokerOperation::Sign, _) => {
                let request = open::CertificateRequest {
                    profile,
                    csr: &self.csr,
                    ca_key: std::str::from_utf8(&self.issuer_key).unwrap_or_default(),
                    ca_certificate: &self.issuer,
                };
                client.sign_certificate(&request).await.map(|certificate| !certificate.is_empty())
            }
            (BrokerOperation::Encrypt, _) => client.encrypt_data(profile, key, &[7; 12], input).await.map(|_| true),
            (BrokerOperation::Decrypt, Some(cipher)) => {
                client.decrypt_data(profile, key, cipher).await.map(|plain| plain[..] == *input)
            }
            _ => client.hash_data(profile, input).await.map(|digest| !digest.is_empty()),
        }
    }

    fn signed<'a>(&'a self, made: &'a Artefacts) -> Vec<Verification<'a>> {
        let one = |(input, signature): (&'a Vec<u8>, &'a Vec<u8>)| Verification {
            input,
            signature,
            key_version: made.key_version,
        };
        self.inputs.iter().zip(&made.artefacts).map(one).collect()
    }
}

fn sealed(made: &Artefacts) -> Vec<DecryptInput<'_>> {
    made.ciphers.iter().map(|cipher| DecryptInput { cipher, aad: b"" }).collect()
}

fn all(valid: Vec<bool>) -> bool {
    valid.into_iter().all(|valid| valid)
}

/// Returns the first 32 bytes of an input: the info of a derivation needs no more, however long the derived key is.
fn short(input: &[u8]) -> &[u8] {
    &input[..input.len().min(32)]
}
