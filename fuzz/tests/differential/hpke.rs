//! HPKE against Go's `crypto/hpke`: what one seals the other opens, for each suite, and a changed message opens for neither.

use std::process::Command;

use sealway_proto::crypto::aws_lc::AwsLc;
use sealway_proto::hpke::{
    Aead, KDF_HKDF_SHA256, Kem, PrivateKey, PublicKey, Suite, setup_receiver, setup_sender_with,
};
use serde_json::{Value, json};

use crate::peer::{Peer, go};
use crate::{Random, cases, hex, report, unhex};

/// A random exchange: a key pair, and messages of a context.
struct Exchange {
    suite: Suite,
    private: Vec<u8>,
    key: PrivateKey,
    info: Vec<u8>,
    exporter: Vec<u8>,
    /// Each with its associated data.
    messages: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Exchange {
    fn new(random: &mut Random, suite: Suite) -> Exchange {
        let ikm = random.bytes(suite.kem.private_len().max(64));
        let (private, key) = PrivateKey::derive(&AwsLc, suite.kem, &ikm).unwrap();
        let mut bytes = |most: usize| {
            let len = random.below(most);
            random.bytes(len)
        };
        let (info, exporter) = (bytes(80), bytes(80));
        let messages = (0..3).map(|_| (bytes(40), bytes(2000))).collect();
        let messages = if suite.aead == Aead::ExportOnly { Vec::new() } else { messages };
        Exchange { suite, private: private.to_vec(), key, info, exporter, messages }
    }

    fn question(&self, texts: &[Vec<u8>]) -> Value {
        let messages =
            self.messages.iter().zip(texts).map(|((aad, _), text)| json!({"aad": hex(aad), "text": hex(text)}));
        json!({
            "kem": self.suite.kem.id(), "kdf": KDF_HKDF_SHA256, "aead": self.suite.aead.id(),
            "info": hex(&self.info), "exporter": hex(&self.exporter), "messages": messages.collect::<Vec<_>>(),
        })
    }

    /// Seals all messages with ours.
    fn seal(&self, random: &mut Random) -> SenderOutput {
        let len = if matches!(self.suite.kem, Kem::MlKem768P256 | Kem::XWing) { 64 } else { 32 };
        let public = PublicKey::from_bytes(&AwsLc, self.suite.kem, self.key.public_key().as_bytes()).unwrap();
        let randomness = random.bytes(len);
        let (enc, mut sender) = setup_sender_with(&AwsLc, self.suite, &public, &self.info, None, &randomness).unwrap();
        let messages = self.messages.iter().map(|(aad, text)| sender.seal(aad, text).unwrap()).collect();
        let mut exported = [0; 32];
        sender.export(&AwsLc, &self.exporter, &mut exported).unwrap();
        SenderOutput { enc, messages, exported: exported.to_vec() }
    }

    /// Opens with ours; `None` if something does not open.
    fn open(&self, enc: &[u8], sealed: &[Vec<u8>]) -> Option<(Vec<Vec<u8>>, Vec<u8>)> {
        let mut receiver = setup_receiver(&AwsLc, self.suite, &self.key, enc, &self.info, None).ok()?;
        let mut texts = Vec::new();
        for ((aad, _), sealed) in self.messages.iter().zip(sealed) {
            texts.push(receiver.open(aad, sealed).ok()?);
        }
        let mut exported = [0; 32];
        receiver.export(&AwsLc, &self.exporter, &mut exported).ok()?;
        Some((texts, exported.to_vec()))
    }

    fn texts(&self) -> Vec<Vec<u8>> {
        self.messages.iter().map(|(_, text)| text.clone()).collect()
    }
}

/// Output of a sender, and the secret that it exports.
#[derive(Clone)]
struct SenderOutput {
    enc: Vec<u8>,
    messages: Vec<Vec<u8>>,
    exported: Vec<u8>,
}

struct Case {
    exchange: Exchange,
    sealed: SenderOutput,
    /// The same with a bit changed in the encapsulated secret or in a message.
    changed: SenderOutput,
}

impl Case {
    fn new(random: &mut Random, suite: Suite) -> Case {
        let exchange = Exchange::new(random, suite);
        let sealed = exchange.seal(random);
        let mut changed = sealed.clone();
        let bytes = match changed.messages.first_mut() {
            Some(first) if random.one_in(2) => first,
            _ => &mut changed.enc,
        };
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
        Case { exchange, sealed, changed }
    }

    /// Asks Go to seal, to open what ours sealed, and to open what was changed.
    fn questions(&self) -> [Value; 3] {
        let (exchange, public) = (&self.exchange, self.exchange.key.public_key().as_bytes());
        let open = |sealed: &SenderOutput| {
            with(exchange.question(&sealed.messages), &[("open", &exchange.private), ("enc", &sealed.enc)])
        };
        [with(exchange.question(&exchange.texts()), &[("seal", public)]), open(&self.sealed), open(&self.changed)]
    }
}

fn with(mut question: Value, members: &[(&str, &[u8])]) -> Value {
    for (name, bytes) in members {
        question[*name] = hex(bytes).into();
    }
    question
}

fn texts(answer: &Value) -> Vec<Vec<u8>> {
    let texts = answer["texts"].as_array().into_iter().flatten();
    texts.map(|text| unhex(text.as_str().unwrap())).collect()
}

#[test]
fn each_suite_of_hpke_understands_go_and_is_understood() {
    let mut random = Random::new(4);
    let mut peer = Peer::of(&mut Command::new(go("fuzz/peers/hpke")));
    let suites: Vec<Suite> =
        Kem::ALL.iter().flat_map(|kem| Aead::ALL.iter().map(|aead| Suite { kem: *kem, aead: *aead })).collect();
    let rounds = (cases(100) / suites.len()).max(1);
    let exchanges: Vec<Case> =
        suites.iter().cycle().take(rounds * suites.len()).map(|suite| Case::new(&mut random, *suite)).collect();
    let answers = peer.ask(&exchanges.iter().flat_map(Case::questions).collect::<Vec<_>>());
    let (mut opened, mut rejected) = (0, 0);
    for (case, answers) in exchanges.iter().zip(answers.chunks(3)) {
        let Case { exchange, sealed: SenderOutput { exported, .. }, changed } = case;
        let suite = exchange.suite;
        let [by_go, of_ours, of_changed] = answers else { panic!("{answers:?}") };
        assert!(by_go["error"].is_null() && of_ours["error"].is_null(), "{suite:?}: {answers:?}");

        // Go opens what ours seals.
        assert_eq!(texts(of_ours), exchange.texts(), "{suite:?}");
        assert_eq!(of_ours["exported"], hex(exported), "{suite:?}");
        // Ours opens what Go seals.
        let theirs = exchange.open(&unhex(by_go["enc"].as_str().unwrap()), &texts(by_go));
        let (found, exported_by_go) = theirs.unwrap_or_else(|| panic!("{suite:?}: a message of Go does not open"));
        assert_eq!(found, exchange.texts(), "{suite:?}");
        assert_eq!(by_go["exported"], hex(&exported_by_go), "{suite:?}");
        // Neither opens what was changed. Without messages, the exported secrets are others, and the same for both.
        let ours = exchange.open(&changed.enc, &changed.messages);
        match (&ours, of_changed["error"].is_null()) {
            (Some((texts, other)), true) if texts.is_empty() => {
                assert_eq!(of_changed["exported"], hex(other), "{suite:?}: of a changed secret");
                assert_ne!(other, exported, "{suite:?}: a changed secret exports the same");
            }
            (None, false) => rejected += 1,
            other => panic!("{suite:?}: a changed message: {other:?}, {of_changed}"),
        }
        opened += 2;
    }
    assert!(rejected > rounds, "{rejected}");
    let result = format!("all {opened} exchanges open on both sides; {rejected} changed ones on neither");
    report("HPKE, 20 suites", "Go crypto/hpke", opened + rounds * suites.len(), &result);
}
