//! Messages of card schemes in this process: an opened and answered request beside its two RSA operations alone, and the time of a
//! rejection by its class.
//!
//! The steps are those of the gateway between the body it received and the body it sends, without HTTP, threads and the store.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey, OaepPublicEncryptingKey, PrivateDecryptingKey,
};
use sealway_proto::mle::aws_lc::AwsLcJose;
use sealway_proto::mle::compact::{Alphabet, Parts, decode, encode};
use sealway_proto::mle::{
    Alg, Class, Enc, JoseProvider, KidSource, Message, OpenRandoms, Opening, OpeningKey, OpeningKeys, Profile,
    SealRandoms, SealingKey, body, seal,
};
use sealway_proto::session::Fresh;

use crate::crypto::compare;
use crate::table::{us, verdict};
use crate::welch::{self, GOAL, Kind};

const NOW: u64 = 1_800_000_000_000;
const LEN: usize = 1024;
/// Tokens of each class, so that no figure is that of one ciphertext.
const TOKENS: usize = 64;
/// Most microseconds beside the two RSA operations.
const GOAL_US: f64 = 30.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Rejections in all, a third of each class
    #[arg(long, default_value_t = 100_000)]
    pub(crate) rejections: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { rejections: 100_000 }
    }
}

/// A server with one key, and the keys of the same pair for the bare operations.
struct Setup {
    provider: AwsLcJose,
    profile: Profile,
    opening: OpeningKeys,
    sealing: SealingKey,
    private: OaepPrivateDecryptingKey,
    public: OaepPublicEncryptingKey,
}

impl Setup {
    fn new() -> anyhow::Result<Setup> {
        let provider = AwsLcJose::new(|_, _, _, _, _| false);
        let key = PrivateDecryptingKey::generate(KeySize::Rsa2048)?;
        let pkcs8 = AsDer::<Pkcs8V1Der<'_>>::as_der(&key)?;
        let kid = KidSource::SpkiSha256Hex;
        let own = OpeningKey::rsa(Alg::RsaOaep256, pkcs8.as_ref(), None, &kid, &provider)?;
        let spki = AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(&key.public_key())?;
        Ok(Setup {
            opening: OpeningKeys::new([Arc::new(own)])?,
            sealing: SealingKey::rsa(Alg::RsaOaep256, Enc::A256Gcm, spki.as_ref(), &kid, &provider)?,
            public: OaepPublicEncryptingKey::new(key.public_key())?,
            private: OaepPrivateDecryptingKey::new(key)?,
            profile: Profile::visa(),
            provider,
        })
    }

    fn seal(&self, plaintext: &[u8], message: Message) -> String {
        let randoms = SealRandoms::draw(self.provider.base()).unwrap();
        seal::seal(plaintext, &self.profile, message, &self.sealing, NOW, randoms, &self.provider).unwrap()
    }

    /// Opens the body of a request, takes the plaintext for the service's answer, and seals that.
    fn answer(&self, request: &[u8]) -> Vec<u8> {
        let token = body::unwrap(request, self.profile.wrapper(Message::Request)).unwrap();
        let opening = Opening::begin(&token, &self.profile, Message::Request, &self.opening, NOW).unwrap();
        let cek = opening.wants().unwrap_here();
        let randoms = OpenRandoms::draw(self.provider.base()).unwrap();
        let opened = opening.unwrapped(cek.as_ref().map(|cek| cek.as_slice()), &randoms, &self.provider).unwrap();
        let fresh = Fresh::reserved(opened.claim());
        let plaintext = opened.release(fresh).unwrap();
        let token = self.seal(plaintext.bytes().unwrap(), Message::Answer);
        body::wrap(&token, self.profile.wrapper(Message::Answer))
    }

    /// Performs one private and one public operation with keys that are loaded.
    fn bare(&self, encrypted_key: &[u8], out: &mut [u8]) {
        let cek = self.private.decrypt(&OAEP_SHA256_MGF1SHA256, encrypted_key, out, None).unwrap();
        let mut cek_copy = [0; 32];
        cek_copy.copy_from_slice(cek);
        black_box(self.public.encrypt(&OAEP_SHA256_MGF1SHA256, &cek_copy, out, None).unwrap());
    }

    /// Rejects a token, and returns the nanoseconds and the class.
    fn reject(&self, token: &[u8]) -> (f64, Class) {
        let start = Instant::now();
        let opening = Opening::begin(token, &self.profile, Message::Request, &self.opening, NOW).unwrap();
        let cek = opening.wants().unwrap_here();
        let randoms = OpenRandoms::draw(self.provider.base()).unwrap();
        let opened = opening.unwrapped(cek.as_ref().map(|cek| cek.as_slice()), &randoms, &self.provider);
        let nanos = start.elapsed().as_nanos() as f64;
        (nanos, opened.unwrap_err().kind())
    }

    /// Returns tokens that are right but for one part, which `change` makes wrong.
    fn tokens(&self, part: usize, change: impl Fn(&mut Vec<u8>)) -> Vec<Vec<u8>> {
        let wrong = |_| {
            let token = self.seal(&[0x61; LEN], Message::Request);
            let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
            let mut raw = decode(parts[part].as_bytes(), Alphabet::Strict).unwrap();
            change(&mut raw);
            parts[part] = encode(&raw);
            parts.join(".").into_bytes()
        };
        (0..TOKENS).map(wrong).collect()
    }

    /// Encrypts a content key of this length to the server.
    fn wrapped(&self, len: usize) -> Vec<u8> {
        let mut out = vec![0; self.public.ciphertext_size()];
        self.public.encrypt(&OAEP_SHA256_MGF1SHA256, &vec![7; len], &mut out, None).unwrap().to_vec()
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let setup = Setup::new()?;
    cost(&setup);
    rejections(&setup, options.rejections / 3);
    Ok(())
}

fn cost(setup: &Setup) {
    let token = setup.seal(&[0x61; LEN], Message::Request);
    let encrypted_key = decode(Parts::split(token.as_bytes()).unwrap().encrypted_key, Alphabet::Strict).unwrap();
    let request = body::wrap(&token, setup.profile.wrapper(Message::Request));
    let mut out = vec![0; 512];
    let (floor, ours) =
        compare(50, || setup.bare(&encrypted_key, &mut out), || drop(black_box(setup.answer(black_box(&request)))));
    println!(
        "## Messages of card schemes: a request of 1 KiB opened and answered (CPU, median of rounds that take turns)\n"
    );
    println!("| operation | RSA-2048 private + public µs | ours µs | more µs | goal | |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    let more = (ours - floor) / 1000.0;
    println!(
        "| open, RSA-OAEP-256 with A256GCM, and seal the answer | {} | {} | {more:.2} | {GOAL_US} | {} |\n",
        us(floor),
        us(ours),
        verdict(more, GOAL_US)
    );
}

fn rejections(setup: &Setup, samples: usize) {
    let wrong_len = setup.wrapped(31);
    let mut kinds = [
        ("encrypted key does not decrypt", setup.tokens(1, |key| key[255] ^= 1), Class::Unwrap),
        ("tag does not verify", setup.tokens(4, |tag| tag[15] ^= 1), Class::Tag),
        ("content key of 31 bytes", setup.tokens(1, |key| key.clone_from(&wrong_len)), Class::Unwrap),
    ]
    .map(|(name, tokens, class)| {
        assert!(tokens.iter().all(|token| setup.reject(token).1 == class), "{name}");
        Kind::new(name, tokens)
    });
    println!("## Rejected tokens of 1 KiB, {samples} of each class (time, Welch's t; goal below {GOAL})\n");
    println!("All three take turns at random, {TOKENS} tokens of each; beside \"{}\":\n", kinds[0].name);
    welch::print_head();
    let [first, tag, len] = &mut kinds;
    welch::take_turns(samples, &mut [first, tag, len], |token| setup.reject(token).0);
    welch::print(first, tag);
    welch::print(first, len);
    println!();
}
