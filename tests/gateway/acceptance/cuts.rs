//! Requests and answers of every mode that are cut, or have a byte flipped, on the way. HTTP's own framing is right in all of them.

use std::sync::atomic::{AtomicU64, Ordering};

use sealway_testkit::fleet::is_full;
use sealway_testkit::wire_client::now_ms;

use super::modes::{Keys, Message, Mode, PublishedKeys};
use super::{Fleet, Store, exchange};

/// The modes, once each: neither a stamp nor a pre-shared key changes a frame, but both forms of wire 4 begin in their own way.
const MODES: [Mode; 5] = [Mode::Base, Mode::Psk, Mode::Ehbp, Mode::Whole, Mode::Chunks];
const PART: &[u8] = b"part";
/// Connections over which requests are sent.
const LANES: usize = 2;

struct Setup {
    fleet: Fleet,
    keys: Keys,
}

impl Setup {
    fn new() -> Setup {
        let fleet = Fleet::start(1, Store::Embedded);
        let keys = PublishedKeys::fetch(fleet.address(0)).choose(now_ms(), 0);
        Setup { fleet, keys }
    }

    fn seal(&self, mode: Mode, frames: usize) -> Message {
        self.keys.seal(mode, &vec![PART; frames], now_ms())
    }

    /// Sends a fresh request for each place, changed there, and returns how many of them were served: by the answers and by the service,
    /// which must agree.
    fn served(&self, places: &[usize], changed: impl Fn(usize) -> Message + Sync) -> u64 {
        let (before, served) = (self.fleet.service.total(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for lane in places.chunks(places.len().div_ceil(LANES).max(1)) {
                let (changed, served) = (&changed, &served);
                scope.spawn(move || {
                    let messages: Vec<Message> = lane.iter().map(|place| changed(*place)).collect();
                    let requests: Vec<Vec<u8>> = messages.iter().map(Message::bytes).collect();
                    exchange(self.fleet.address(0), &requests, |index, answer| {
                        let message = &messages[index];
                        let status = message.status(&answer);
                        let (mode, place) = (message.mode, lane[index]);
                        assert!([200, 400, 409, 413, 422].contains(&status), "{mode:?} at {place}: {status}");
                        served.fetch_add(u64::from(status == 200), Ordering::SeqCst);
                    });
                });
            }
        });
        let served = served.into_inner();
        assert_eq!(self.fleet.service.total() - before, served, "the service received what was rejected, or another's");
        served
    }
}

fn counts() -> &'static [usize] {
    if is_full() { &[0, 1, 3, 20] } else { &[0, 1, 3] }
}

#[test]
fn a_request_that_is_cut_is_never_served_but_between_two_frames_of_ehbp() {
    let setup = Setup::new();
    for (mode, path) in MODES.map(|mode| (mode, None)).into_iter().chain([(Mode::Ehbp, Some("/stream/echo"))]) {
        for frames in counts() {
            let seal = || {
                let mut message = setup.seal(mode, *frames);
                message.path = path.unwrap_or(message.path);
                message
            };
            let places: Vec<usize> = (0..seal().body.len()).collect();
            let served = setup.served(&places, |len| {
                let mut message = seal();
                message.body.truncate(len);
                message
            });
            // The protocol has no mark of the last frame. A request without a frame is one without a body, which is refused.
            let unnoticed = if mode == Mode::Ehbp { frames.saturating_sub(1) } else { 0 };
            assert_eq!(served, unnoticed as u64, "{mode:?} of {frames} frames");
            let whole = setup.served(&[0], |_| seal());
            assert_eq!(whole, u64::from((mode, *frames) != (Mode::Ehbp, 0)), "{mode:?} of {frames} frames");
        }
    }
}

#[test]
fn a_request_with_a_flipped_byte_is_never_served() {
    let setup = Setup::new();
    for mode in MODES {
        for (frames, each) in [(1, 300), (20, if is_full() { 300 } else { 0 })] {
            let len = setup.seal(mode, frames).body.len();
            let places: Vec<usize> = (0..len).filter(|at| *at < each || at % 7 == 0).collect();
            let served = setup.served(&places, |at| {
                let mut message = setup.seal(mode, frames);
                message.body[at] ^= 1 << (at % 8);
                message
            });
            assert_eq!(served, 0, "{mode:?} of {frames} frames");
        }
    }
    // The encapsulated secret of EHBP is in a header.
    let served = setup.served(&(0..64).collect::<Vec<_>>(), |at| {
        let mut message = setup.seal(Mode::Ehbp, 1);
        let other = if message.headers[0].1.as_bytes()[at] == b'0' { "1" } else { "0" };
        message.headers[0].1.replace_range(at..=at, other);
        message
    });
    assert_eq!(served, 0, "the secret of EHBP");
}

#[test]
fn an_answer_that_is_cut_is_never_taken_for_whole_but_between_two_frames_of_ehbp() {
    let setup = Setup::new();
    for mode in MODES {
        for frames in [0, 1, 3, 40] {
            if (mode, frames) == (Mode::Ehbp, 0) {
                continue;
            }
            let message = setup.seal(mode, frames);
            exchange(setup.fleet.address(0), &[message.bytes()], |_, whole| {
                let opened = message.open(&whole).unwrap_or_else(|| panic!("{mode:?}: {}", whole.text()));
                assert_eq!((opened.status, opened.content), (200, PART.repeat(frames)), "{mode:?}");
                let unnoticed = (0..whole.body.len()).filter(|len| {
                    let mut cut = whole.clone();
                    cut.body.truncate(*len);
                    message.open(&cut).is_some()
                });
                // The service answers in chunks, and the gateway seals what it reads: the answer says how many frames these are.
                let expected = if mode == Mode::Ehbp { opened.frames } else { 0 };
                assert_eq!(unnoticed.count(), expected, "{mode:?}, {} frames", opened.frames);
                for at in 0..whole.body.len() {
                    let mut flipped = whole.clone();
                    flipped.body[at] ^= 1 << (at % 8);
                    assert!(message.open(&flipped).is_none(), "{mode:?}: byte {at}");
                }
            });
        }
    }
}
