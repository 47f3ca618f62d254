//! Properties that hold for all inputs, searched with proptest.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::fmt::Debug;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;
use sealway_proto::Error;
use sealway_proto::crypto::{Provider, default_provider};
use sealway_proto::session::{
    ClaimKey, ClientInit, ClientSession, Family, Fresh, InitCall, InitRandoms, Laps, NonceGuard, PlainRequest,
    SealBuffer, SealRandoms, SealedCall, SealedMessage, Session, TtlPolicy,
};
use sealway_proto::wire::{ReplayPolicy, Wire};

const NOW: u64 = 1_750_000_000_000;
const PATH: &str = "/transaction/purchase";
const CLIENT: &str = "demo-client";

type HeaderList = Vec<(&'static str, String)>;

fn provider() -> &'static dyn Provider {
    default_provider()
}

/// A kind of init: its wire and its endpoint.
#[derive(Clone, Copy, Debug)]
struct Kind(Wire, Family);

const KINDS: [Kind; 4] = [
    Kind(Wire::V1, Family::Session),
    Kind(Wire::V1, Family::Anonymous),
    Kind(Wire::V2, Family::Session),
    Kind(Wire::V2, Family::V1),
];

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(KINDS.as_slice())
}

fn randoms() -> impl Strategy<Value = SealParts> {
    (any::<[u8; 12]>(), any::<[u8; 16]>()).prop_map(|(iv, nonce)| SealParts { iv, nonce })
}

#[derive(Clone, Debug)]
struct SealParts {
    iv: [u8; 12],
    nonce: [u8; 16],
}

impl SealParts {
    fn randoms(&self) -> SealRandoms {
        SealRandoms { iv: self.iv, nonce: self.nonce }
    }
}

/// Agrees a session, whose server side is of `client_id`.
fn agree(Kind(wire, family): Kind, client_id: &str) -> (ClientSession, Arc<Session>) {
    let p = provider();
    let ephemeral = p.p256_generate().unwrap();
    let anonymous = family == Family::Anonymous;
    let (init, request) = ClientInit::new(wire, anonymous, client_id, None, ephemeral, &[7; 16], NOW).unwrap();
    let policy = ReplayPolicy::default();
    let call = InitCall::parse(p, family, &request.headers, request.body.as_bytes(), NOW, &policy).unwrap();
    let draw = |laps: Laps<'_>| InitRandoms::draw(p, laps);
    let (answer, session) =
        release(call).accept(p, &TtlPolicy::default(), false, None, draw, NOW, &mut |_| ()).unwrap();
    let client = init.finish(p, answer.encode().as_bytes(), NOW, &mut |_| ()).unwrap();
    (client, Arc::new(session))
}

fn release<T>(unreplayed: NonceGuard<T>) -> T {
    let fresh = Fresh::reserved(unreplayed.claim());
    unreplayed.release(fresh).unwrap()
}

fn open(session: &Arc<Session>, headers: &HeaderList, body: &[u8]) -> Result<NonceGuard<PlainRequest>, Error> {
    let call = SealedCall::parse(headers, PATH, NOW, &ReplayPolicy::default())?;
    call.open(provider(), session.clone(), body.to_vec(), &mut |_| ())
}

fn buffer(plaintext: &[u8]) -> SealBuffer {
    SealBuffer::from(plaintext)
}

/// Flips one bit of `message`, in a header's value or in the body.
fn flip(message: &SealedMessage, bit: usize) -> (HeaderList, Vec<u8>) {
    let (mut headers, mut body) = (message.headers.clone(), message.body.clone());
    let total: usize = headers.iter().map(|(_, value)| value.len()).sum::<usize>() + body.len();
    let (mut at, mask) = (bit / 8 % total, 1 << (bit % 8));
    for (_, value) in &mut headers {
        if at < value.len() {
            // A byte of 128 or more becomes another character, which no header of the wires may contain.
            let changed = value.bytes().enumerate().map(|(n, b)| char::from(if n == at { b ^ mask } else { b }));
            *value = changed.collect();
            return (headers, body);
        }
        at -= value.len();
    }
    body[at] ^= mask;
    (headers, body)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sealed_opens_on_the_other_side(
        kind in kinds(), request in prop::collection::vec(any::<u8>(), 0..600),
        answer in prop::collection::vec(any::<u8>(), 0..600), status in 200_u16..600, there in randoms(), back in randoms(),
    ) {
        let (client, server) = agree(kind, CLIENT);
        let (sealed, pending) = client.seal(PATH, buffer(&request), NOW, &there.randoms(), &mut |_| ()).unwrap();
        let opened = release(open(&server, &sealed.headers, &sealed.body).unwrap());
        prop_assert_eq!(opened.plaintext.as_slice(), &request);
        let sealed = opened.reply.seal(status, buffer(&answer), NOW, &back.randoms(), &mut |_| ()).unwrap();
        let policy = ReplayPolicy::default();
        let opened = pending.open(&sealed.headers, status, sealed.body, NOW, &policy, &mut |_| ()).unwrap();
        prop_assert_eq!(opened.as_slice(), &answer);
    }

    #[test]
    fn no_single_bit_of_a_request_can_change(
        kind in kinds(), plaintext in prop::collection::vec(any::<u8>(), 0..64), parts in randoms(), bit in any::<usize>(),
    ) {
        let (client, server) = agree(kind, CLIENT);
        let (sealed, _) = client.seal(PATH, buffer(&plaintext), NOW, &parts.randoms(), &mut |_| ()).unwrap();
        let (headers, body) = flip(&sealed, bit);
        prop_assert!(open(&server, &headers, &body).is_err());
    }

    #[test]
    fn no_single_bit_of_an_answer_can_change(
        kind in kinds(), plaintext in prop::collection::vec(any::<u8>(), 0..64), parts in randoms(), bit in any::<usize>(),
    ) {
        let (client, server) = agree(kind, CLIENT);
        let (sealed, pending) = client.seal(PATH, buffer(b"{}"), NOW, &parts.randoms(), &mut |_| ()).unwrap();
        let reply = release(open(&server, &sealed.headers, &sealed.body).unwrap()).reply;
        let sealed = reply.seal(200, buffer(&plaintext), NOW, &parts.randoms(), &mut |_| ()).unwrap();
        let (headers, body) = flip(&sealed, bit);
        prop_assert!(pending.open(&headers, 200, body, NOW, &ReplayPolicy::default(), &mut |_| ()).is_err());
    }

    #[test]
    fn an_answer_sent_back_as_a_request_is_refused(kind in kinds(), parts in randoms(), upper in any::<bool>()) {
        let (client, server) = agree(kind, CLIENT);
        let (sealed, _) = client.seal(PATH, buffer(b"{}"), NOW, &parts.randoms(), &mut |_| ()).unwrap();
        let reply = release(open(&server, &sealed.headers, &sealed.body).unwrap()).reply;
        let mut answer = reply.seal(200, buffer(b"{}"), NOW, &parts.randoms(), &mut |_| ()).unwrap();
        answer.headers.push(("x-clientid", CLIENT.into()));
        if upper {
            for (_, value) in &mut answer.headers {
                *value = value.replace("r-", "R-");
            }
        }
        prop_assert_eq!(open(&server, &answer.headers, &answer.body).map(|_| ()), Err(Error::NonceReserved));
    }

    #[test]
    fn a_request_sent_back_as_its_answer_is_refused(kind in kinds(), parts in randoms(), status in 200_u16..600) {
        let (client, _) = agree(kind, CLIENT);
        let (sealed, pending) = client.seal(PATH, buffer(b"{}"), NOW, &parts.randoms(), &mut |_| ()).unwrap();
        let opened =
            pending.open(&sealed.headers, status, sealed.body, NOW, &ReplayPolicy::default(), &mut |_| ()).map(|_| ());
        let want = if kind.0 == Wire::V1 { Error::AadMismatch } else { Error::AnswerMismatch };
        prop_assert_eq!(opened, Err(want));
    }

    #[test]
    fn claims_of_inits_are_equal_only_for_equal_clients_and_nonces(
        client in "[a-c]{1,3}", other_client in "[a-c]{1,3}", nonce in "[a-c]{1,3}", other_nonce in "[a-c]{1,3}",
    ) {
        let same = client == other_client && nonce == other_nonce;
        prop_assert_eq!(init_claim(&client, &nonce) == init_claim(&other_client, &other_nonce), same);
        prop_assert_ne!(init_claim(&client, &nonce), wire1_init_claim(&nonce));
    }

    #[test]
    fn claims_of_calls_are_equal_only_for_equal_sessions_and_nonces(
        kind in kinds(), nonce in "[a-c]{1,3}", other in "[a-c]{1,3}",
    ) {
        let (one, two) = (agree(kind, CLIENT), agree(kind, CLIENT));
        let claim = |(client, server): &(ClientSession, Arc<Session>), nonce: &str| {
            let stamp = NOW.to_string();
            let (sealed, _) = client.seal_as(PATH, buffer(b""), &stamp, nonce, &[0; 12], &mut |_| ()).unwrap();
            let opened = open(server, &sealed.headers, &sealed.body).unwrap();
            assert!(opened.claim().is_sealed());
            opened.claim().key()
        };
        prop_assert_eq!(claim(&one, &nonce) == claim(&one, &other), nonce == other);
        prop_assert_ne!(claim(&one, &nonce), claim(&two, &nonce));
        prop_assert_ne!(claim(&one, &nonce), init_claim(one.1.id().as_str(), &nonce));
    }

    #[test]
    fn a_reservation_releases_its_own_message_alone(kind in kinds(), parts in prop::array::uniform2(randoms())) {
        prop_assume!(parts[0].nonce != parts[1].nonce);
        let (client, server) = agree(kind, CLIENT);
        let [one, two] = parts.map(|parts| {
            let (sealed, _) = client.seal(PATH, buffer(b"{}"), NOW, &parts.randoms(), &mut |_| ()).unwrap();
            open(&server, &sealed.headers, &sealed.body).unwrap()
        });
        let fresh = Fresh::reserved(one.claim());
        prop_assert_eq!(two.release(fresh).map(|_| ()), Err(Error::ReservationMismatch));
    }

    #[test]
    fn the_window_is_inclusive_and_no_claim_ends_before_its_stamp_does(
        window in 1_u64..86_400_000, lifetime in 0_u64..200_000_000, offset in -90_000_000_i64..90_000_000,
    ) {
        let policy = ReplayPolicy::new(window, lifetime);
        let stamp = NOW.saturating_add_signed(offset);
        let headers = vec![("X-Nonce", "n".to_owned()), ("X-Timestamp", stamp.to_string())];
        let body = INIT_BODY;
        let call = InitCall::parse(provider(), Family::Session, &headers, body, NOW, &policy);
        prop_assert_eq!(call.is_ok(), offset.unsigned_abs() <= window);
        if let Ok(call) = call {
            // The last moment at which the same request would pass the window again.
            prop_assert!(call.claim().expires_ms() > stamp + window);
            prop_assert!(call.claim().expires_ms() > NOW + lifetime);
            prop_assert_eq!(call.claim().is_stamped_ahead(), stamp > NOW);
        }
    }

    #[test]
    fn no_debug_output_holds_a_key_or_a_plaintext(kind in kinds(), secret in any::<[u8; 32]>(), parts in randoms()) {
        let (client, server) = agree(kind, CLIENT);
        let key = *server.record().key.expose();
        let (sealed, _) = client.seal(PATH, buffer(&secret), NOW, &parts.randoms(), &mut |_| ()).unwrap();
        let unreplayed = open(&server, &sealed.headers, &sealed.body).unwrap();
        let mut shown = vec![show(&unreplayed)];
        let opened = release(unreplayed);
        shown.extend([
            show(&server.record().key), show(server.record()), show(&*server), show(&client), show(&opened),
            show(&opened.plaintext), show(&opened.reply), show(&buffer(&secret)), show(&sealed),
        ]);
        for text in shown {
            for bytes in [key.as_slice(), secret.as_slice()] {
                prop_assert!(!holds(&text, bytes), "{}", text);
            }
        }
    }
}

/// The body of any client's init, on wire 1 or 2.
const INIT_BODY: &[u8] = br#"{"clientPublicKey":"BFaDVDQyf8e9gCX4YdGR+FvlvpFrbqOUVGKlzJdzsz2HhhuN3vpOx35vF0q9jIrPVsEqKpSkR26PO7rINxlfV40=","keyAgreement":"ECDH_P256"}"#;

fn init_claim(client: &str, nonce: &str) -> ClaimKey {
    let headers = vec![("X-Idempotency-Key", format!("{NOW}.{nonce}")), ("X-ClientId", client.to_owned())];
    let body = INIT_BODY;
    let policy = ReplayPolicy::default();
    let call = InitCall::parse(provider(), Family::Session, &headers, body, NOW, &policy).unwrap();
    assert!(!call.claim().is_sealed());
    call.claim().key()
}

fn wire1_init_claim(nonce: &str) -> ClaimKey {
    let headers = vec![("X-Nonce", nonce.to_owned()), ("X-Timestamp", NOW.to_string())];
    let body = INIT_BODY;
    let policy = ReplayPolicy::default();
    let call = InitCall::parse(provider(), Family::Session, &headers, body, NOW, &policy).unwrap();
    call.claim().key()
}

fn show(value: &impl Debug) -> String {
    format!("{value:?}\n{value:#?}")
}

/// Returns whether `text` contains the first 4 bytes of `bytes`, or more, in a form that can be read back.
fn holds(text: &str, bytes: &[u8]) -> bool {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let hex = |upper: bool| -> String {
        bytes[..4].iter().map(|b| if upper { format!("{b:02X}") } else { format!("{b:02x}") }).collect()
    };
    let decimal: String = bytes[..4].iter().map(|b| format!("{b},")).collect();
    let hex_list: String = bytes[..4].iter().map(|b| format!("{b:x},")).collect();
    // Six bytes are eight whole characters of base64, so that they look the same whatever follows.
    let (standard, url_safe) = (STANDARD.encode(&bytes[..6]), URL_SAFE.encode(&bytes[..6]));
    let escaped: String = bytes[..4].escape_ascii().map(char::from).filter(|c| !c.is_whitespace()).collect();
    [hex(false), hex(true), decimal, hex_list, standard, url_safe].iter().any(|form| text.contains(form.as_str()))
        || escaped.len() > 7 && text.contains(&escaped)
}

#[test]
fn the_search_for_secrets_finds_them() {
    let secret = [0xab, 0xcd, 0x01, 0xef, 0x77, 0x99, 0x10, 0x42];
    for leak in [
        show(&secret),
        show(&secret.to_vec()),
        format!("{secret:x?}"),
        "abcd01ef77991042".into(),
        STANDARD.encode(secret),
        format!("key: {}", URL_SAFE.encode(secret)),
        format!("b\"{}\"", secret.escape_ascii()),
    ] {
        assert!(holds(&leak, &secret), "{leak}");
    }
}
