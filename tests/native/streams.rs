//! Streams of wire 3 that an attacker cuts, splices and continues. A service gets a prefix of the sent body, and never a complete
//! body of a broken stream; the same holds for a caller and its answer. `spec/session-3.md#sealed-requests`.

use sealway_proto::session::native::{InnerHeaders, PendingAnswer, Suite};
use sealway_testkit::native_client::{NativeSession, code, open, read_frames};
use sealway_testkit::raw_http::{Answer, Connection, Request};
use sealway_testkit::wire_client::random;

use crate::BINARY;
use crate::ground::recorder::{CHUNKS, FRAMES};
use crate::ground::{Ground, Lane, Summary};

const TARGET: &str = "/upload";
const PARTS: [&[u8]; 5] = [&[b'1'; 500], &[b'2'; 900], &[b'3'; 1], &[b'4'; 1300], &[b'5'; 64]];
/// The number of random places at which each direction is cut.
const CUTS: usize = 2_000;

/// Returns the position at which each frame of a stream begins, and the stream's end.
fn edges(stream: &[u8]) -> Vec<usize> {
    let mut edges = vec![16];
    loop {
        let at = *edges.last().unwrap();
        let head = u32::from_be_bytes(stream[at..at + 4].try_into().unwrap());
        edges.push(at + 4 + (head & 0x7fff_ffff) as usize);
        if head >> 31 == 1 {
            assert_eq!(edges.last(), Some(&stream.len()));
            return edges;
        }
    }
}

/// Returns a random position within a stream.
fn place(len: usize) -> usize {
    usize::from(u16::from_be_bytes(random())) % len
}

/// Returns a stream composed of these frames.
fn splice(stream: &[u8], frames: &[usize]) -> Vec<u8> {
    let edges = edges(stream);
    let mut spliced = stream[..16].to_vec();
    frames.iter().for_each(|frame| spliced.extend_from_slice(&stream[edges[*frame]..edges[frame + 1]]));
    spliced
}

/// Returns all attacks on a stream of five or more frames except random cuts. `other` is another stream of the session.
fn changes(stream: &[u8], other: &[u8]) -> Vec<(String, Vec<u8>)> {
    let (ends, others) = (edges(stream), edges(other));
    let count = ends.len() - 1;
    let mut all = Vec::new();
    for end in [0].iter().chain(&ends[..count]) {
        for at in [*end, end + 1, end + 4] {
            all.push((format!("cut at {at}, by an edge"), stream[..at].to_vec()));
        }
    }
    all.push(("cut by its last byte".into(), stream[..stream.len() - 1].to_vec()));
    for frame in 0..count {
        let without: Vec<_> = (0..count).filter(|other| *other != frame).collect();
        all.push((format!("without frame {frame}"), splice(stream, &without)));
        let twice: Vec<_> = (0..count).flat_map(|other| vec![other; 1 + usize::from(other == frame)]).collect();
        all.push((format!("frame {frame} twice"), splice(stream, &twice)));
        for with in frame + 1..count {
            let mut swapped: Vec<_> = (0..count).collect();
            swapped.swap(frame, with);
            all.push((format!("frames {frame} and {with} swapped"), splice(stream, &swapped)));
        }
        if frame < others.len() - 1 {
            let foreign = &other[others[frame]..others[frame + 1]];
            let spliced = [&stream[..ends[frame]], foreign, &stream[ends[frame + 1]..]].concat();
            all.push((format!("frame {frame} of another message"), spliced));
            let rest = [&stream[..ends[frame]], &other[others[frame]..]].concat();
            all.push((format!("from frame {frame} on another message"), rest));
        }
        let mut marked = stream.to_vec();
        marked[ends[frame]] ^= 0x80;
        all.push((format!("the last bit of frame {frame} changed"), marked.clone()));
        marked.truncate(ends[frame + 1]);
        if frame + 1 < count {
            all.push((format!("frame {frame} made the last"), marked));
        }
        for len in [0_u32, 15, 16, 65_553, 0x7fff_ffff] {
            let mut changed = stream.to_vec();
            changed[ends[frame]..ends[frame] + 4].copy_from_slice(&len.to_be_bytes());
            all.push((format!("frame {frame} of length {len}"), changed));
        }
    }
    all.push(("a byte behind it".into(), [stream, &[0]].concat()));
    all.push(("itself behind it".into(), [stream, stream].concat()));
    all.push(("its last frame behind it".into(), [stream, &stream[ends[count - 1]..]].concat()));
    all
}

fn attack(
    lane: &mut Lane<'_>,
    agreed: &NativeSession,
    what: &str,
    change: impl FnOnce(Vec<u8>) -> Vec<u8> + Send + 'static,
) {
    let request = lane.seal(agreed, "PUT", TARGET, &PARTS, 0).0;
    let change = move |request: Request| {
        let body = change(request.body_bytes().to_vec());
        request.body(body)
    };
    lane.attack(("a request's stream", &what), &request, change, &["unsealable"]);
}

fn cut_requests(lane: &mut Lane<'_>, count: usize) {
    let agreed = lane.agree(Suite::P256);
    for _ in 0..count {
        attack(lane, &agreed, "cut anywhere", |stream| stream[..place(stream.len())].to_vec());
    }
}

fn spliced_requests(lane: &mut Lane<'_>) {
    let agreed = lane.agree(Suite::X25519MlKem768);
    let whole = lane.seal(&agreed, "PUT", TARGET, &PARTS, 1);
    assert_eq!(open(&whole.1, &lane.link.send(&whole.0).unwrap()).unwrap().body, PARTS.concat());
    // Each attack has a stream of its own, because a nonce is valid once; the change is the same for all.
    let count = changes(whole.0.body_bytes(), whole.0.body_bytes()).len();
    for index in 0..count {
        let other = agreed.seal("PUT", TARGET, &PARTS).0.body_bytes().to_vec();
        let request = lane.seal(&agreed, "PUT", TARGET, &PARTS, 0).0;
        let (what, changed) = changes(request.body_bytes(), &other).swap_remove(index);
        lane.attack(("a request's stream", &what), &request, move |r| r.body(changed), &["unsealable"]);
    }
    // In chunks, and broken off without an end: the service receives the beginning, and no complete body.
    for part in 1..5 {
        let request = lane.seal(&agreed, "PUT", TARGET, &PARTS, 0).0;
        let at = edges(request.body_bytes())[part];
        let cut = request.body_bytes()[..at].to_vec();
        lane.attack(
            ("a request's stream in chunks", &part),
            &request,
            move |r| r.body(cut).chunked(97),
            &["unsealable"],
        );
    }
}

/// Requests an answer in frames through the gateway.
fn framed<'s>(lane: &mut Lane<'_>, agreed: &'s NativeSession) -> (PendingAnswer<'s>, Answer) {
    let (request, pending) = lane.seal(agreed, "GET", FRAMES, &[b""], 1);
    let answer = lane.link.send(&request).unwrap();
    let opened = open(&pending, &answer).unwrap();
    assert_eq!(opened.body, CHUNKS.concat());
    assert!(opened.frames >= 3, "the answer came in {} frames", opened.frames);
    (pending, answer)
}

/// Asserts that the caller of a changed answer gets a prefix of the original, then an error.
fn refused(lane: &Lane<'_>, pending: &PendingAnswer<'_>, what: &str, answer: &Answer) {
    let (frames, fault) = read_frames(pending, answer);
    let plain = frames.concat();
    if !plain.is_empty() {
        let (_, at) = InnerHeaders::parse(&plain).unwrap();
        assert!(CHUNKS.concat().starts_with(&plain[at..]), "{what}: the caller got what nobody sent");
    }
    let how = format!("{:?}", fault.unwrap_or_else(|| panic!("{what}: the answer was taken")));
    lane.ground.refused("an answer's stream", what, &how, &["StreamTruncated", "Unsealable", "FrameInvalid"]);
}

fn answers(lane: &mut Lane<'_>) {
    for suite in Suite::DEFAULT {
        let agreed = lane.agree(suite);
        let ((pending, answer), (_, other)) = (framed(lane, &agreed), framed(lane, &agreed));
        for (what, body) in changes(&answer.body, &other.body) {
            refused(lane, &pending, &what, &Answer { body, ..answer.clone() });
        }
        for _ in 0..CUTS / Suite::DEFAULT.len() + 1 {
            let body = answer.body[..place(answer.body.len())].to_vec();
            refused(lane, &pending, "cut anywhere", &Answer { body, ..answer.clone() });
        }
    }
}

#[test]
fn a_stream_cut_or_spliced_anywhere_is_refused_behind_a_prefix_of_the_truth() {
    let ground = Ground::start(BINARY);
    std::thread::scope(|scope| {
        let ground = &ground;
        for _ in 0..2 {
            scope.spawn(|| cut_requests(&mut ground.lane(), CUTS / 2));
        }
        scope.spawn(|| {
            spliced_requests(&mut ground.lane());
            answers(&mut ground.lane());
        });
    });
    assert!(ground.end().attacks > 2 * CUTS);
}

/// Attacks on a stream whose beginning the service already has.
#[test]
fn a_service_that_has_the_beginning_of_a_stream_never_gets_a_whole_of_one_that_breaks() {
    let ground = Ground::start(BINARY);
    let mut lane = ground.lane();
    let agreed = lane.agree(Suite::X25519MlKem768);
    type Rest = fn(&[u8], &[usize], &[u8]) -> Vec<u8>;
    let rests: [(&str, Rest); 9] = [
        ("nothing more", |_, _, _| Vec::new()),
        ("half a frame", |stream, ends, _| stream[ends[2]..ends[2] + 10].to_vec()),
        ("all but the last frame", |stream, ends, _| stream[ends[2]..ends[4]].to_vec()),
        ("all but the last byte", |stream, ends, _| stream[ends[2]..stream.len() - 1].to_vec()),
        ("a frame left out", |stream, ends, _| stream[ends[3]..].to_vec()),
        ("a frame again", |stream, ends, _| stream[ends[1]..].to_vec()),
        ("frames of another stream", |_, ends, other| other[ends[2]..].to_vec()),
        ("a frame made the last", |stream, ends, _| {
            let mut frame = stream[ends[2]..ends[3]].to_vec();
            frame[0] |= 0x80;
            frame
        }),
        ("a byte behind the last", |stream, ends, _| [&stream[ends[2]..], &[0]].concat()),
    ];
    for (index, (what, rest)) in rests.into_iter().enumerate() {
        let other = agreed.seal("PUT", TARGET, &PARTS).0.body_bytes().to_vec();
        let request = lane.seal(&agreed, "PUT", TARGET, &PARTS, 0).0;
        let stream = request.body_bytes().to_vec();
        let ends = edges(&stream);
        let mut connection = Connection::open(ground.gateway).unwrap();
        connection.write(&request.chunked(1).head_bytes()).unwrap();
        connection.write_chunk(&stream[..ends[2]]).unwrap();
        ground.recorder.wait_for(index + 1);
        let rest = rest(&stream, &ends, &other);
        if !rest.is_empty() {
            connection.write_chunk(&rest).unwrap();
        }
        connection.write(b"0\r\n\r\n").unwrap();
        let answer = connection.read_answer("PUT").unwrap();
        ground.refused("a stream that was under way", what, &code(&answer), &["unsealable"]);
    }
    // The same for a client that disconnects.
    let request = lane.seal(&agreed, "PUT", TARGET, &PARTS, 0).0;
    let mut connection = Connection::open(ground.gateway).unwrap();
    let bytes = request.bytes();
    connection.write(&bytes[..bytes.len() - 100]).unwrap();
    ground.recorder.wait_for(10);
    drop((connection, lane));
    assert_eq!(ground.end(), Summary { attacks: 9, whole: 0, parts: 10 });
}
