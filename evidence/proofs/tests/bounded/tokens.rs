//! The relay's memory of used tokens: `crates/relay/src/replay.rs`.

use sealway_proto::relay::SKEW_S;

use crate::cases::sequences;
use crate::production::replay::{Replays, TokenKey, TokenUse};
use crate::{Outcome, ensure};

/// The name of the harness.
pub(crate) const NAME: &str = "relay-tokens";
/// The property that it checks.
pub(crate) const PROPERTY: &str = "For every sequence of uses, sweeps and steps of the clock, ahead and back, a token that verifies is accepted \
     once. Fresh tokens are rejected only while the memory is full, or after a step back of the clock.";

/// An event in the life of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A token is presented, by its number in [`TOKENS`].
    Use(usize),
    Sweep,
    /// The clock moves by seconds, ahead or back.
    Clock(i64),
}

/// The clock at the beginning, in seconds.
const START_S: i64 = 100;
/// Ends of tokens, in seconds.
const TOKENS: [i64; 3] = [100, 100, 160];
/// Number of tokens that the memory holds.
const PLACES: usize = 2;

pub(crate) const EVENTS: &[Event] = &[
    Event::Use(0),
    Event::Use(1),
    Event::Use(2),
    Event::Sweep,
    Event::Clock(1),
    Event::Clock(SKEW_S),
    Event::Clock(-SKEW_S - 1),
    Event::Clock(61),
];

/// Uses a token by key, end and clock.
pub(crate) type Burn<'a> = &'a dyn Fn(&Replays, TokenKey, i64, i64) -> TokenUse;

/// Checks every sequence of up to `len_max` events.
pub(crate) fn check(burn: Burn<'_>, len_max: usize) -> Outcome {
    sequences(EVENTS, len_max, |events| {
        let replays = Replays::new(PLACES);
        let (mut now_s, mut latest_s) = (START_S, START_S);
        let mut accepted = [false; TOKENS.len()];
        for (at, event) in events.iter().enumerate() {
            let shown = || format!("{:?}", events.get(..=at).unwrap_or_default());
            match event {
                Event::Clock(by) => {
                    now_s += by;
                    latest_s = latest_s.max(now_s);
                }
                Event::Sweep => replays.sweep(now_s),
                Event::Use(token) => {
                    let (Some(exp_s), Some(accepted)) = (TOKENS.get(*token), accepted.get_mut(*token)) else {
                        continue;
                    };
                    // The verifier rejects it before the memory is asked.
                    if *exp_s < now_s - SKEW_S {
                        continue;
                    }
                    // All tokens are in one part of the memory.
                    let mut key = [0; 16];
                    if let Some(last) = key.last_mut() {
                        *last = *token as u8;
                    }
                    let used = burn(&replays, TokenKey(key), *exp_s, now_s);
                    ensure!(used != TokenUse::Fresh || !*accepted, "{}: token {token} is accepted twice", shown());
                    let may_be_rejected = *accepted || latest_s > now_s;
                    ensure!(
                        used != TokenUse::Replayed || may_be_rejected,
                        "{}: token {token} is rejected at its first use",
                        shown()
                    );
                    *accepted |= used == TokenUse::Fresh;
                }
            }
            ensure!(replays.len() <= PLACES, "{}: {} tokens in {PLACES} places", shown(), replays.len());
        }
        Ok(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound;
    use crate::report::{finds, holds};

    #[test]
    fn used_tokens_hold_their_property() {
        let bounds = format!("sequences of up to {} of {} events, 3 tokens, 2 places", bound(5, 6), EVENTS.len());
        holds(NAME, PROPERTY, &bounds, || check(&Replays::burn, bound(5, 6)));
    }

    #[test]
    fn a_memory_without_the_skew_is_found() {
        finds(NAME, "a token is remembered until its end alone", || {
            check(&|replays, key, exp_s, now_s| replays.burn(key, exp_s - SKEW_S, now_s), 4)
        });
    }
}
