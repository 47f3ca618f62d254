//! Chunked Oblivious HTTP, by a sender that may break each rule of the draft.

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::default_provider;
use sealway_proto::hpke::{Context, Sender, setup_sender};
use sealway_proto::one_shot::KeyConfig;
use sealway_testkit::process::Launch;
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::upstream::{RequestHead, Upstream};

use crate::BINARY;
use crate::ohttp::{Setup, config, make_keys, message};

/// A chunk: plaintext, and whether it is sealed and written as the last one.
type Chunk<'a> = (&'a [u8], bool, bool);

/// A client with one request in chunks.
struct Client {
    context: Context<Sender>,
    enc: Vec<u8>,
    parts: Vec<Vec<u8>>,
}

fn provider() -> &'static dyn AgreementProvider {
    default_provider()
}

impl Client {
    fn new(list: &[u8], chunks: &[Chunk<'_>]) -> Client {
        let config = KeyConfig::decode_list(provider(), list).unwrap().remove(0);
        let suite = config.suites().next().unwrap();
        let ids = [suite.kem.id(), 1, suite.aead.id()].map(u16::to_be_bytes).concat();
        let header = [&[config.key_id()][..], &ids].concat();
        let info = [b"message/bhttp chunked request", &[0][..], &header].concat();
        let (enc, mut context) = setup_sender(provider(), suite, config.public_key(), &info, None).unwrap();
        let mut parts = vec![[&header[..], &enc].concat()];
        for (plaintext, is_sealed_last, is_written_last) in chunks {
            let sealed = context.seal(if *is_sealed_last { b"final" } else { b"" }, plaintext).unwrap();
            let len = if *is_written_last { 0 } else { sealed.len() as u32 };
            parts.push([&(0x8000_0000 | len).to_be_bytes()[..], &sealed].concat());
        }
        Client { context, enc, parts }
    }

    fn post(&self, setup: &Setup, parts: &[Vec<u8>]) -> Answer {
        let request = Request::post("/gateway", parts.concat()).set("Content-Type", "message/ohttp-chunked-req");
        request.send(setup.server.address()).unwrap()
    }

    /// Opens the chunks of an answer, and says whether the last one was among them.
    fn open(&self, sealed: &[u8]) -> (Vec<u8>, bool) {
        let (nonce, mut rest) = sealed.split_at(16);
        let mut secret = [0; 16];
        self.context.export(provider(), b"message/bhttp chunked response", &mut secret).unwrap();
        let salt = [&self.enc, nonce].concat();
        let prk = provider().mac_key(provider().hmac_sha256(&salt, &[&secret]).as_slice());
        let key = provider().aes128_gcm(prk.mac(&[b"key", &[1]]).first_chunk().unwrap()).unwrap();
        let base: [u8; 12] = *prk.mac(&[b"nonce", &[1]]).first_chunk().unwrap();
        let mut opened = Vec::new();
        for number in 0_u8.. {
            let [first, tail @ ..] = rest else { return (opened, false) };
            let (len, tail) = match first >> 6 {
                0 => (usize::from(*first), tail),
                1 => (usize::from(first & 0x3f) << 8 | usize::from(tail[0]), &tail[1..]),
                _ => {
                    let bytes = [first & 0x3f, tail[0], tail[1], tail[2]];
                    (u32::from_be_bytes(bytes) as usize, &tail[3..])
                }
            };
            let is_last = len == 0;
            let (chunk, tail) = tail.split_at(if is_last { tail.len() } else { len });
            let (mut iv, mut chunk) = (base, chunk.to_vec());
            iv[11] ^= number;
            key.open_in_place(&iv, if is_last { b"final" } else { b"" }, &mut chunk).unwrap();
            opened.extend_from_slice(&chunk[..chunk.len() - 16]);
            rest = tail;
            if is_last {
                return (opened, true);
            }
        }
        unreachable!("an answer has fewer chunks");
    }

    /// Opens a whole answer and returns its message.
    fn message(&self, answer: &Answer) -> bhttp::Message {
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("message/ohttp-chunked-res")));
        let (opened, is_whole) = self.open(&answer.body);
        assert!(is_whole, "the last chunk is missing");
        bhttp::Message::read_bhttp(&mut std::io::Cursor::new(opened)).unwrap()
    }
}

fn status(message: &bhttp::Message) -> u16 {
    message.control().status().unwrap().code()
}

const POST: [&str; 4] = ["POST", "https", "api.example", "/pay"];

#[test]
fn chunks_are_opened_as_they_come_and_answered_so() {
    let setup = Setup::new(&["x25519"], ", padding: 256");
    let list = setup.keys();
    let whole = message(POST, &[("content-length", b"7")], b"content");
    for cut in [1, 5, whole.len() / 2, whole.len()] {
        let (first, second) = whole.split_at(cut);
        for chunks in [&[(first, false, false), (second, true, true)][..], &[(&whole[..], true, true)]] {
            let client = Client::new(&list, chunks);
            let answer = client.post(&setup, &client.parts);
            assert_eq!(answer.header("incremental"), Some("?1"));
            let inner = client.message(&answer);
            assert_eq!((status(&inner), inner.content()), (201, &b"content"[..]));
            assert_eq!(client.open(&answer.body).0.len() % 256, 0, "answers are filled up");
            let (head, body) = setup.service.next().unwrap();
            assert_eq!((&body[..], head.header("host")), (&b"content"[..], Some("api.example")));
            // The same bytes again, by another way too.
            let again = client.message(&client.post(&setup, &client.parts));
            assert_eq!(status(&again), 409);
        }
    }
    assert!(setup.service.is_untouched(), "a replay reached the service");
}

#[test]
fn a_stream_that_breaks_a_rule_is_never_a_whole_request_for_the_service() {
    let setup = Setup::new(&["x25519"], "");
    let list = setup.keys();
    let whole = message(POST, &[], b"content");
    let (head, rest) = whole.split_at(whole.len() - 8);
    let long = vec![7; (1 << 14) + 1];
    // Trailers end a request as HTTP frames it.
    let trailed = [&whole[..whole.len() - 1], b"\x04\x01a\x01b"].concat();
    let mut cases: Vec<(Client, Vec<usize>)> = Vec::new();
    for chunks in [
        &[(head, false, false), (rest, false, false)][..],
        &[(head, false, false), (rest, false, true)],
        &[(head, false, false), (rest, true, false)],
        &[(head, false, false), (b"", false, false), (rest, true, true)],
        &[(head, false, false), (&long, false, false), (rest, true, true)],
        &[(head, false, false), (&rest[..3], true, true)],
        &[(b"", false, false), (&whole, true, true)],
        &[(&whole, true, false)],
        &[(&trailed, false, false)],
        &[(&trailed, false, false), (b"", false, true)],
    ] {
        let client = Client::new(&list, chunks);
        let all = (0..client.parts.len()).collect();
        cases.push((client, all));
    }
    for order in [&[0, 1, 2][..], &[0, 1, 1, 2, 3], &[0, 1, 3], &[0, 2, 1, 3], &[0, 3], &[0]] {
        let chunks = [(head, false, false), (&rest[..3], false, false), (&rest[3..], true, true)];
        cases.push((Client::new(&list, &chunks), order.to_vec()));
    }
    for (number, (client, order)) in cases.iter().enumerate() {
        let parts: Vec<Vec<u8>> = order.iter().map(|at| client.parts[*at].clone()).collect();
        let answer = client.post(&setup, &parts);
        match answer.header("content-type") {
            Some("message/ohttp-chunked-res") => assert!(status(&client.message(&answer)) >= 400, "case {number}"),
            _ => assert!((400..500).contains(&answer.status), "case {number}: {}", answer.text()),
        }
    }
    let client = Client::new(&list, &[(head, false, false), (rest, true, true)]);
    let behind = [&client.parts[..], &[b"more".to_vec()]].concat();
    assert!(status(&client.message(&client.post(&setup, &behind))) >= 400);
    assert!(setup.service.is_untouched(), "a broken request was whole for the service");
    let good = Client::new(&list, &[(head, false, false), (rest, true, true)]);
    assert_eq!(status(&good.message(&good.post(&setup, &good.parts))), 201);
    let good = Client::new(&list, &[(&trailed, false, false), (b"", true, true)]);
    assert_eq!(status(&good.message(&good.post(&setup, &good.parts))), 201);
}

#[test]
fn an_answer_that_the_service_breaks_off_has_no_last_chunk() {
    for answer in ["Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "Connection: close\r\n\r\nhalf"] {
        assert_broken_off(answer);
    }
}

fn assert_broken_off(answer: &'static str) {
    let folder = tempfile::tempdir().unwrap();
    make_keys(folder.path(), &["x25519"]);
    let service =
        Upstream::answering(move |_: &RequestHead, _: &[u8]| format!("HTTP/1.1 200 OK\r\n{answer}").into_bytes());
    let service = service.unwrap();
    let server = Launch::new(BINARY, &config(&service, "")).folder(folder.path()).start().unwrap();
    let list = Request::get("/ohttp-keys").send(server.address()).unwrap().body;
    let whole = message(POST, &[], b"content");
    let client = Client::new(&list, &[(&whole, true, true)]);
    let request = Request::post("/gateway", client.parts.concat()).set("Content-Type", "message/ohttp-chunked-req");
    let mut connection = sealway_testkit::raw_http::Connection::open(server.address()).unwrap();
    connection.write(&request.bytes()).unwrap();
    let (_, headers) = connection.read_head().unwrap();
    assert_eq!(sealway_testkit::raw_http::find(&headers, "content-type"), Some("message/ohttp-chunked-res"));
    assert!(connection.read_body(&headers, false).is_err(), "an answer that was broken off ended well");
}
