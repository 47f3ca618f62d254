//! Two comparisons for each provider. First, a request of one frame, sealed at the client and opened at the server, is compared
//! with bare AES-256-GCM over as many bytes under an expanded key; and with the other operations of the wire: two HMACs, the
//! expansion of a key for each message, and a hash of its context. Second, the server's side of a P-256 init without the
//! signature is compared with a bare key pair, ECDH and HKDF. The bare operations go through the provider trait, which adds a
//! call.

use std::hint::black_box;
use std::sync::Arc;

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::aws_lc::AwsLc;
use sealway_proto::crypto::identity::{IdentityLibrary, SignatureAlgorithm};
use sealway_proto::crypto::ring::Ring;
use sealway_proto::crypto::rust_crypto::RustCrypto;
use sealway_proto::crypto::{AeadKey, MacKey};
use sealway_proto::session::Auth;
use sealway_proto::session::Session;
use sealway_proto::session::native::{
    ClientInit, ClientOffer, ClientSession, FrameSealer, InitRequest, KeyId, Read, RequestLine, SealedRequest,
    ServerRandoms, ShareKey, Suite, Terms, agree,
};
use sealway_proto::wire::ReplayPolicy;

use super::{NOW, compare, headers, stream};
use crate::table::us;

const LINE: RequestLine<'static> = RequestLine { method: "POST", target: "/transaction/purchase" };
const OCTETS: &str = "application/octet-stream";
const LENGTHS: [(&str, usize, usize); 3] = [("256 B", 256, 2000), ("1 KiB", 1024, 2000), ("64 KiB", 65_000, 100)];

#[derive(Clone, Copy)]
struct ProviderSet {
    agreement: &'static dyn AgreementProvider,
    library: &'static dyn IdentityLibrary,
}

const PROVIDER_SETS: [ProviderSet; 3] = [
    ProviderSet { agreement: &AwsLc, library: &AwsLc },
    ProviderSet { agreement: &Ring, library: &Ring },
    ProviderSet { agreement: &RustCrypto, library: &RustCrypto },
];

pub(super) fn run() -> anyhow::Result<()> {
    println!("## Each provider beside its own bare operations (CPU, median of rounds that take turns)\n");
    println!("| provider | | bare µs | with a key of its own µs | ours µs | to bare | to that with a key |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for built in PROVIDER_SETS {
        let name = built.agreement.name();
        let row = |what: &str, [bare, keyed, ours]: [f64; 3]| {
            let (to_bare, to_keyed) = (ours / bare, ours / keyed);
            println!(
                "| {name} | {what} | {} | {} | {} | {to_bare:.2} | {to_keyed:.2} |",
                us(bare),
                us(keyed),
                us(ours)
            );
        };
        let (client, session) = agreed(built)?;
        for (len_name, len, count) in LENGTHS {
            row(&format!("seal {len_name}"), seal(built, &client, len, count)?);
            row(&format!("open {len_name}"), open(built, &client, &session, len, count)?);
        }
        let (bare, ours) = init(built)?;
        println!("| {name} | init P256 | {} | | {} | {:.2} | |", us(bare), us(ours), ours / bare);
    }
    println!();
    Ok(())
}

fn client_init(built: ProviderSet) -> anyhow::Result<ClientInit> {
    let offer = ClientOffer {
        suites: vec![Suite::P256],
        client_id: "bench".into(),
        ttl_sec: None,
        pinned_key_ids: Vec::new(),
        signature_algorithms: Vec::new(),
        credential: None,
    };
    Ok(ClientInit::new(offer, ShareKey::generate(built.agreement, Suite::P256)?, None)?)
}

fn terms(key_id: KeyId) -> Terms<'static> {
    Terms {
        suites: vec![Suite::P256],
        expires_in_sec: 600,
        key_id,
        key_ids: vec![key_id],
        auth: Auth::None,
        subject: None,
        tenant: None,
        credential: None,
    }
}

fn agreed(built: ProviderSet) -> anyhow::Result<(ClientSession, Arc<Session>)> {
    let ProviderSet { agreement, library } = built;
    let (_, key) = library.generate(SignatureAlgorithm::Es256)?;
    let init = client_init(built)?;
    let request = InitRequest::parse(init.body().as_bytes())?;
    let terms = terms(KeyId::of(agreement, key.public()));
    let agreed = agree(agreement, &request, terms, None, &[9; 16], ServerRandoms::Draw, NOW, &mut |_| ())?;
    let signature = key.sign(&agreed.message())?;
    let (answer, session) = agreed.signed(agreement, signature)?;
    let public = library.public(key.public())?;
    Ok((init.finish(agreement, Some(&public), answer.as_bytes())?, Arc::new(session)))
}

/// Derives a message key for a context of typical length.
fn keyed(provider: &dyn AgreementProvider, mac: &dyn MacKey) -> (Box<dyn AeadKey>, [u8; 32]) {
    let info = [5; 75];
    let first = mac.mac(&[&info, &[1]]);
    black_box(mac.mac(&[first.as_slice(), &info, &[2]]));
    let context = provider.sha256(&[&[5; 190]]);
    (provider.aes256_gcm(&first).unwrap(), context)
}

fn seal(built: ProviderSet, client: &ClientSession, len: usize, count: usize) -> anyhow::Result<[f64; 3]> {
    let (provider, plaintext, inner) = (built.agreement, vec![0x61_u8; len], headers());
    let key = provider.aes256_gcm(&[9; 32])?;
    let (mut buffer, mut other, mac) =
        (Vec::with_capacity(len + 64), Vec::with_capacity(len + 64), provider.mac_key(&[3; 32]));
    let mut keyed = || {
        let (key, context) = keyed(provider, mac.as_ref());
        other.clear();
        other.extend_from_slice(&plaintext);
        black_box(key.seal_in_place(&[7; 12], &context, &mut other).unwrap());
    };
    let mut bare = || {
        buffer.clear();
        buffer.extend_from_slice(&plaintext);
        black_box(key.seal_in_place(&[7; 12], &[0; 32], &mut buffer).unwrap());
    };
    let mut ours = || {
        let call = client.seal(provider, LINE, OCTETS, NOW, &[7; 16]).unwrap();
        black_box(call.headers);
        black_box(stream(call.sealer, &inner, &plaintext));
    };
    Ok(compare(count, [&mut bare, &mut keyed, &mut ours]).0)
}

fn open(
    built: ProviderSet,
    client: &ClientSession,
    session: &Arc<Session>,
    len: usize,
    count: usize,
) -> anyhow::Result<[f64; 3]> {
    let (provider, plaintext, policy) = (built.agreement, vec![0x61_u8; len], ReplayPolicy::default());
    let key = provider.aes256_gcm(&[9; 32])?;
    let mut ciphertext = plaintext.clone();
    let tag = key.seal_in_place(&[7; 12], &[0; 32], &mut ciphertext)?;
    ciphertext.extend_from_slice(&tag);
    let call = client.seal(provider, LINE, OCTETS, NOW, &[7; 16])?;
    let mut outer: Vec<(String, String)> =
        call.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    outer.push(("content-type".into(), OCTETS.into()));
    let sealed = stream(call.sealer, &headers(), &plaintext);
    anyhow::ensure!(sealed.len() as u64 <= FrameSealer::stream_len(65_536), "more than one frame");
    let (mut buffer, mut other, mac) =
        (Vec::with_capacity(len + 64), Vec::with_capacity(len + 64), provider.mac_key(&[3; 32]));
    let mut keyed = || {
        black_box(keyed(provider, mac.as_ref()));
        other.clear();
        other.extend_from_slice(&ciphertext);
        key.open_in_place(&[7; 12], &[0; 32], &mut other).unwrap();
        black_box(&other);
    };
    let mut bare = || {
        buffer.clear();
        buffer.extend_from_slice(&ciphertext);
        key.open_in_place(&[7; 12], &[0; 32], &mut buffer).unwrap();
        black_box(&buffer);
    };
    let mut ours = || {
        let request = SealedRequest::parse(&outer, LINE).unwrap();
        let (mut opener, opening) = request.open(provider, session.clone(), NOW, &policy).unwrap();
        let (mut input, mut frame) = (sealed.as_slice(), Vec::new());
        assert!(opener.read(&mut input, &mut frame).unwrap() == Read::Last);
        black_box(opening.first(frame).unwrap());
    };
    Ok(compare(count, [&mut bare, &mut keyed, &mut ours]).0)
}

fn init(built: ProviderSet) -> anyhow::Result<(f64, f64)> {
    let ProviderSet { agreement, library } = built;
    let (_, key) = library.generate(SignatureAlgorithm::Es256)?;
    let key_id = KeyId::of(agreement, key.public());
    let body = client_init(built)?.body();
    let peer = *agreement.p256_generate()?.public();
    let mut bare = || {
        let own = agreement.p256_generate().unwrap();
        black_box(own.public());
        let secret = own.agree(agreement.p256_public(&peer).unwrap()).unwrap();
        black_box(agreement.hkdf_sha256(secret.as_slice(), &[7; 32], &[b"info"]).unwrap());
    };
    let mut ours = || {
        let request = InitRequest::parse(body.as_bytes()).unwrap();
        let randoms = ServerRandoms::Draw;
        let agreed = agree(agreement, &request, terms(key_id), None, &[9; 16], randoms, NOW, &mut |_| ()).unwrap();
        black_box(agreed.message());
    };
    let ([bare, ours], _) = compare(50, [&mut bare, &mut ours]);
    Ok((bare, ours))
}
