//! JWE against jwcrypto and jose: what one seals the others open, and a token that both reject ours rejects too.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealway_proto::mle::aws_lc::AwsLcJose;
use sealway_proto::mle::seal::seal;
use sealway_proto::mle::{
    Alg, Class, Enc, JoseProvider, KidSource, Message, OpenRandoms, Opening, OpeningKey, OpeningKeys, Profile,
    SealRandoms, SealingKey, Side, Wrapper,
};
use sealway_proto::session::Fresh;
use serde_json::{Value, json};

use crate::peer::Peer;
use crate::{Random, cases, hex, report, unhex};

const NOW_MS: u64 = 1_790_000_000_123;
const KID: &str = "a";
const RSA: &str = include_str!("../../data/rfc7516-a1.pem");
const P256: &str = include_str!("../../data/rfc7517-a2-p256.pem");
/// The algorithms that all three have.
const ALGS: [Alg; 6] = [Alg::RsaOaep256, Alg::RsaOaep, Alg::EcdhEs, Alg::Dir, Alg::A128Kw, Alg::A256Kw];
const BASE64URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Classes for which ours rejects what both others accept, each with the reason.
const STRICTER: &[(Class, &str)] = &[
    (Class::Base64, "a part has one spelling: no padding, no white space, no unused bits"),
    (Class::Header, "a name stands twice, or the text is not JSON as RFC 8259 has it"),
    (Class::Param, "a parameter that names key material, or `apu` and `apv` beyond their bounds"),
    (Class::Kid, "it names no key, which the libraries do not look at"),
    (Class::Crit, "an extension"),
    (Class::Zip, "compression before encryption"),
];

fn provider() -> AwsLcJose {
    AwsLcJose::new(|key, nonce, aad, data, tag| sealway_awslc::aes_gcm_open(key, nonce, aad, data, tag).is_ok())
}

fn profile() -> Profile {
    let side = Side::new(Alg::ALL, Enc::ALL, Wrapper::Bare);
    Profile::generic(side.clone(), side, None)
}

/// A recipient's key, for ours and for the others.
struct Key {
    alg: Alg,
    enc: Enc,
    /// As the others take it.
    text: String,
    sealing: SealingKey,
    opening: OpeningKeys,
}

impl Key {
    fn new(alg: Alg, enc: Enc, public: &[Vec<u8>; 2], provider: &dyn JoseProvider) -> Key {
        let kid = KidSource::Fixed(KID.to_owned());
        let secret_len = match (alg, enc) {
            (Alg::A128Kw, _) | (Alg::Dir, Enc::A128Gcm) => 16,
            (Alg::Dir, Enc::A192Gcm) => 24,
            (Alg::Dir, Enc::A192CbcHs384) => 48,
            (Alg::Dir, Enc::A256CbcHs512) => 64,
            _ => 32,
        };
        let secret: Vec<u8> = (0..secret_len).collect();
        let (text, sealing, opening) = match alg {
            Alg::EcdhEs => (
                P256.to_owned(),
                SealingKey::p256(enc, &public[1], &kid, provider),
                OpeningKey::p256(P256.as_bytes(), None, &kid, provider),
            ),
            Alg::Dir | Alg::A128Kw | Alg::A256Kw => (
                format!("hex:{}", hex(&secret)),
                SealingKey::secret(alg, enc, &secret, KID, provider),
                OpeningKey::secret(alg, enc, &secret, KID, provider),
            ),
            _ => (
                RSA.to_owned(),
                SealingKey::rsa(alg, enc, &public[0], &kid, provider),
                OpeningKey::rsa(alg, RSA.as_bytes(), None, &kid, provider),
            ),
        };
        Key {
            alg,
            enc,
            text,
            sealing: sealing.unwrap(),
            opening: OpeningKeys::new([Arc::new(opening.unwrap())]).unwrap(),
        }
    }

    fn seal(&self, plaintext: &[u8], provider: &dyn JoseProvider) -> String {
        let randoms = SealRandoms::draw(provider.base()).unwrap();
        seal(plaintext, &profile(), Message::Request, &self.sealing, NOW_MS, randoms, provider).unwrap()
    }

    fn open(&self, token: &str, provider: &dyn JoseProvider) -> Result<Vec<u8>, Class> {
        let opening = Opening::begin(token.as_bytes(), &profile(), Message::Request, &self.opening, NOW_MS);
        let opening = opening.map_err(|refusal| refusal.kind())?;
        let cek = opening.wants().unwrap_here();
        let randoms = OpenRandoms::draw(provider.base()).unwrap();
        let opened = opening.unwrapped(cek.as_ref().map(|cek| cek.as_slice()), &randoms, provider);
        let opened = opened.map_err(|refusal| refusal.kind())?;
        let fresh = Fresh::reserved(opened.claim());
        Ok(opened.release(fresh).unwrap().bytes().unwrap().to_vec())
    }

    fn to_open(&self, token: &str) -> Value {
        json!({"key": self.text, "token": token})
    }

    fn to_seal(&self, plaintext: &[u8]) -> Value {
        let (alg, enc) = (self.alg.as_str(), self.enc.as_str());
        json!({"key": self.text, "alg": alg, "enc": enc, "kid": KID, "plaintext": hex(plaintext)})
    }
}

fn plaintext(answer: &Value) -> Option<Vec<u8>> {
    answer["plaintext"].as_str().map(unhex)
}

/// Changes a token: a letter, a part, or its header.
fn mutated(random: &mut Random, token: &str) -> String {
    let mut parts: Vec<Vec<u8>> = token.split('.').map(|part| part.as_bytes().to_vec()).collect();
    let at = random.below(parts.len());
    match random.below(8) {
        0..3 if !parts[at].is_empty() => {
            let (index, letter) = (random.below(parts[at].len()), random.below(BASE64URL.len()));
            parts[at][index] = BASE64URL[letter];
        }
        3 => random.mutate(&mut parts[at], b"=+/-_ .\n\0A"),
        4 => {
            let len = random.below(parts[at].len() + 1);
            parts[at].truncate(len);
        }
        5 => parts[at].extend_from_slice(random.pick(&["A", "AAAA", "=", "==", ".", "\n", " "]).as_bytes()),
        6 => {
            let other = random.below(parts.len());
            parts.swap(at, other);
        }
        _ => {
            let json =
                sealway_proto::mle::compact::decode(&parts[0], sealway_proto::mle::compact::Alphabet::Strict).unwrap();
            let mut text = String::from_utf8(json).unwrap();
            let member = random.pick(&[
                r#""alg":"dir","#,
                r#""enc":"A256GCM","#,
                r#""zip":"DEF","#,
                r#""crit":["x"],"x":1,"#,
                r#""kid":"b","#,
                r#""b64":false,"#,
                r#""apu":"AA","#,
                r#""p2c":1,"#,
                r#""jwk":{},"#,
                r#""x":1e400,"#,
                r#""x":"\ud800","#,
                " ",
                r#""cty":"x","#,
            ]);
            text.insert_str(1, member);
            parts[0] = sealway_proto::mle::compact::encode(text.as_bytes()).into_bytes();
        }
    }
    String::from_utf8_lossy(&parts.join(&b'.')).into_owned()
}

#[test]
fn tokens_of_jwcrypto_and_jose_open_and_open_for_them() {
    let mut random = Random::new(5);
    let provider = provider();
    let mut peers = [
        Peer::start(".venv/mle/bin/python", "tests/mle_clients/python/oracle.py"),
        Peer::start("node", "tests/mle_clients/node/oracle.mjs"),
    ];
    let public = [RSA, P256].map(public_of);
    let keys: Vec<Key> = ALGS
        .iter()
        .flat_map(|alg| Enc::ALL.iter().map(|enc| (*alg, *enc)))
        .map(|(alg, enc)| Key::new(alg, enc, &public, &provider))
        .collect();
    let (mut exchanged, mut both_reject, mut one_rejects) = (0, 0, 0);
    let mut stricter: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..(cases(360) / keys.len()).max(1) {
        let texts: Vec<Vec<u8>> = keys
            .iter()
            .map(|_| {
                // jwcrypto takes an empty plaintext for a token that does not open.
                let len = 1 + random.below(600);
                random.bytes(len)
            })
            .collect();
        let tokens: Vec<String> = keys.iter().zip(&texts).map(|(key, text)| key.seal(text, &provider)).collect();
        // Ours to each of the others, and theirs to ours.
        let mut all = tokens.clone();
        for peer in &mut peers {
            let mut questions: Vec<Value> = keys.iter().zip(&tokens).map(|(key, token)| key.to_open(token)).collect();
            questions.extend(keys.iter().zip(&texts).map(|(key, text)| key.to_seal(text)));
            let answers = peer.ask(&questions);
            let (opened, sealed) = answers.split_at(keys.len());
            for (((key, text), opened), sealed) in keys.iter().zip(&texts).zip(opened).zip(sealed) {
                assert_eq!(plaintext(opened).as_ref(), Some(text), "{} {}: {opened}", key.alg, key.enc);
                let token = sealed["token"].as_str().unwrap_or_else(|| panic!("{} {}: {sealed}", key.alg, key.enc));
                assert_eq!(key.open(token, &provider).as_ref(), Ok(text), "{} {}: {token}", key.alg, key.enc);
                all.push(token.to_owned());
                exchanged += 2;
            }
        }
        // Changed tokens of all three.
        let changed: Vec<(&Key, &Vec<u8>, String)> = all
            .iter()
            .enumerate()
            .map(|(at, token)| (&keys[at % keys.len()], &texts[at % keys.len()], mutated(&mut random, token)))
            .collect();
        let questions: Vec<Value> = changed.iter().map(|(key, _, token)| key.to_open(token)).collect();
        let answers = peers.each_mut().map(|peer| peer.ask(&questions));
        for (at, (key, text, token)) in changed.iter().enumerate() {
            let ours = key.open(token, &provider);
            let theirs = [&answers[0][at], &answers[1][at]].map(plaintext);
            match (&ours, theirs.iter().flatten().count()) {
                (Ok(found), 1..) => {
                    // It was not changed in what is authenticated: an equal letter, or unused white space that is none here.
                    assert!(theirs.iter().flatten().all(|theirs| theirs == found) && found == *text, "{token}");
                }
                (Ok(_), 0) => {
                    panic!("ours alone opens {} {}: {token}: {} {}", key.alg, key.enc, answers[0][at], answers[1][at])
                }
                (Err(_), 0) => both_reject += 1,
                (Err(_), 1) => one_rejects += 1,
                (Err(class), _) => {
                    assert!(STRICTER.iter().any(|(known, _)| known == class), "ours alone rejects, {class:?}: {token}");
                    *stricter.entry(class.as_str()).or_default() += 1;
                }
            }
        }
    }
    assert!(both_reject > exchanged / 8, "{both_reject}");
    let classes: Vec<String> = stricter.iter().map(|(class, count)| format!("{count} {class}")).collect();
    let classes = if classes.is_empty() { "none".to_owned() } else { classes.join(", ") };
    let result = format!(
        "{exchanged} tokens open on the other side; of changed ones all three reject {both_reject}, ours and one other {one_rejects}, ours alone: {classes}; ours opens none that both reject",
    );
    report(
        "JWE, 6 algorithms by 6",
        "jwcrypto, jose",
        exchanged + both_reject + one_rejects + stricter.values().sum::<usize>(),
        &result,
    );
}

/// Returns the public half of a private key in PEM.
fn public_of(private: &str) -> Vec<u8> {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    let mut command = Command::new("openssl");
    command.args(["pkey", "-pubout"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("openssl runs: scripts/setup-tests.sh installs it");
    child.stdin.take().unwrap().write_all(private.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}
