//! Times of claims, sessions and tokens: `crates/proto/src/session/replay.rs`, `crates/proto/src/wire/stamp.rs`,
//! `crates/proto/src/relay/token.rs`.

use sealway_proto::crypto::no_security::NoSecurity;
use sealway_proto::crypto::signature::{Signatures, SigningKey, VerifyKey};
use sealway_proto::error::Error;
use sealway_proto::relay::{Claims, IssuerKey, Keyset, Requirements, SKEW_S, TokenInvalid, verify};
use sealway_proto::session::{Claim, ClaimKey};
use sealway_proto::wire::ReplayPolicy;

use crate::{Counterexample, Outcome, ensure};

/// The name of the harness of claims.
pub(crate) const CLAIMS: &str = "claim-times";
/// The property that it checks.
pub(crate) const CLAIMS_PROPERTY: &str = "At every combination of boundary values: no operation overflows; a stamp is accepted if and only if it \
     is within the window; a claim is remembered for as long as its stamp, or its key, can be accepted; a later clock never shortens it.";
/// The name of the harness of tokens.
pub(crate) const TOKENS: &str = "token-times";
/// The property that it checks.
pub(crate) const TOKENS_PROPERTY: &str = "At every combination of boundary values, a signed token is accepted if and only if its times are those \
     that the specification allows, with the first defect named.";

/// The windows and lifetimes of policies, in milliseconds.
const SPANS: [u64; 9] = [0, 1, 999, 1000, 300_000, 86_400_000, 1 << 62, u64::MAX / 2 + 1, u64::MAX];

/// Makes a claim under a policy, of a stamp and a clock.
pub(crate) type Admit<'a> = &'a dyn Fn(&ReplayPolicy, u64, u64) -> Result<Claim, Error>;

/// Makes a claim as a store does for another process.
pub(crate) fn admit(policy: &ReplayPolicy, stamp_ms: u64, now_ms: u64) -> Result<Claim, Error> {
    Claim::passed_on(ClaimKey([7; 16]), true, stamp_ms, now_ms, policy)
}

/// Checks every policy of [`SPANS`] with clocks and stamps around every bound.
pub(crate) fn check_claims(admit: Admit<'_>) -> Outcome {
    let mut cases = 0;
    for window_ms in SPANS {
        for ttl_ms in SPANS {
            let policy = ReplayPolicy::new(window_ms, ttl_ms);
            let kept = u128::from(ttl_ms).max(2 * u128::from(window_ms)).min(u128::from(u64::MAX));
            let (window, ttl) = (policy.window_ms(), policy.nonce_ttl_ms());
            ensure!(window == window_ms && u128::from(ttl) == kept, "policy of {window_ms} and {ttl_ms}: keeps {ttl}");
            for narrow_ms in SPANS {
                let narrow = policy.within(narrow_ms);
                ensure!(
                    narrow.window_ms() == window_ms.min(narrow_ms) && narrow.nonce_ttl_ms() == ttl,
                    "policy of {window_ms} and {ttl_ms} within {narrow_ms}: {narrow:?}"
                );
            }
            let clocks = around(&[0, window_ms, window_ms.saturating_mul(2), ttl, u64::MAX - ttl, u64::MAX]);
            for now_ms in &clocks {
                let edges = [0, *now_ms, now_ms.saturating_sub(window_ms), now_ms.saturating_add(window_ms), u64::MAX];
                for stamp_ms in around(&edges) {
                    cases += check_claim(admit, &policy, stamp_ms, *now_ms, &clocks)?;
                }
            }
        }
    }
    Ok(cases + check_keys()?)
}

fn check_claim(admit: Admit<'_>, policy: &ReplayPolicy, stamp_ms: u64, now_ms: u64, clocks: &[u64]) -> Outcome {
    let shown = format!("{policy:?}, stamp {stamp_ms}, clock {now_ms}");
    let claim = admit(policy, stamp_ms, now_ms);
    let window = u128::from(policy.window_ms());
    let is_within = u128::from(stamp_ms.max(now_ms)) - u128::from(stamp_ms.min(now_ms)) <= window;
    ensure!(claim.is_ok() == is_within, "{shown}: accepted is {}", claim.is_ok());
    let Ok(claim) = claim else { return Ok(1) };
    ensure!(claim.is_stamped_ahead() == (stamp_ms > now_ms), "{shown}: ahead is {}", claim.is_stamped_ahead());
    ensure!(claim.earliest_ms() == stamp_ms, "{shown}: earliest is {}", claim.earliest_ms());
    let expires = u128::from(now_ms) + u128::from(policy.nonce_ttl_ms()) + 1;
    let expires = expires.min(u128::from(u64::MAX));
    ensure!(u128::from(claim.expires_ms()) == expires, "{shown}: expires at {}", claim.expires_ms());
    // The last clock that accepts the stamp, unless the clock cannot reach it.
    let last = (u128::from(stamp_ms) + window).min(u128::from(u64::MAX) - 1);
    ensure!(expires > last, "{shown}: forgotten at {expires}, accepted until {last}");
    for later_ms in clocks.iter().filter(|later_ms| **later_ms >= now_ms) {
        let later = claim.at(*later_ms, policy);
        let anew = admit(policy, stamp_ms, *later_ms);
        ensure!(later == anew, "{shown}: at {later_ms} {later:?}, made anew {anew:?}");
        ensure!(
            later.is_err() || later.is_ok_and(|later| later.expires_ms() >= claim.expires_ms()),
            "{shown}: at {later_ms} it expires sooner"
        );
    }
    Ok(1)
}

/// Checks claims that live as long as a key.
fn check_keys() -> Outcome {
    let mut cases = 0;
    let times = around(&[0, 1000, u64::MAX / 2, u64::MAX]);
    for since_ms in &times {
        for until_ms in &times {
            for now_ms in &times {
                let claim = Claim::of_key(&NoSecurity, &[1; 32], b"enc", (*since_ms, *until_ms), *now_ms);
                let shown = format!("key from {since_ms} until {until_ms}, clock {now_ms}");
                ensure!(claim.is_ok() == (now_ms < until_ms), "{shown}: {claim:?}");
                cases += 1;
                let Ok(claim) = claim else { continue };
                let is_kept = claim.expires_ms() > *until_ms || *until_ms == u64::MAX;
                ensure!(is_kept && claim.is_stamped_ahead() && claim.earliest_ms() == *since_ms, "{shown}: {claim:?}");
                for later_ms in &times {
                    let later = claim.at(*later_ms, &ReplayPolicy::default());
                    ensure!(later.is_ok() == (later_ms < until_ms), "{shown}: at {later_ms} {later:?}");
                }
            }
        }
    }
    Ok(cases)
}

/// Returns times and their neighbours, each once, in order.
fn around(times: &[u64]) -> Vec<u64> {
    let mut all: Vec<u64> =
        times.iter().flat_map(|time| [time.saturating_sub(1), *time, time.saturating_add(1)]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Signatures of no security, so that a token costs no time.
#[derive(Debug)]
struct AnySignature;

impl Signatures for AnySignature {
    fn ed25519_public(&self, _: &[u8; 32]) -> Result<Box<dyn VerifyKey>, Error> {
        Ok(Box::new(AnySignature))
    }

    fn ed25519_from_seed(&self, _: &[u8; 32]) -> Result<Box<dyn SigningKey>, Error> {
        Ok(Box::new(AnySignature))
    }
}

impl VerifyKey for AnySignature {
    fn verify(&self, _: &[u8], _: &[u8; 64]) -> bool {
        true
    }
}

impl SigningKey for AnySignature {
    fn public(&self) -> [u8; 32] {
        [0; 32]
    }

    fn sign(&self, _: &[u8]) -> [u8; 64] {
        [0; 64]
    }
}

/// An issuer and the relay that has its key.
pub(crate) struct Relay {
    issuer: IssuerKey,
    keys: Keyset,
}

impl Relay {
    pub(crate) fn new() -> Result<Self, Counterexample> {
        let failed = |err: sealway_proto::relay::KeyFileInvalid| Counterexample(err.to_string());
        let issuer = IssuerKey::from_seed("k", &[1; 32], &AnySignature).map_err(failed)?;
        let keys = Keyset::parse(issuer.keyset_text().as_bytes(), &AnySignature).map_err(failed)?;
        Ok(Relay { issuer, keys })
    }

    /// Verifies a token with these times.
    pub(crate) fn verify(&self, times: [i64; 3], lifetime_max_s: i64, now_s: i64) -> Result<(), TokenInvalid> {
        let [iat, exp, init_exp] = times;
        let claims = Claims { kid: "k".into(), role: 1, token_id: "t".into(), iat, exp, init_exp, ..Claims::default() };
        let expected = Requirements { lifetime_max_s, ..Requirements::default() };
        verify(&claims.sign(&self.issuer), &self.keys, &expected, now_s).map(|_| ())
    }
}

/// Verifies a token of a relay, by `iat`, `exp` and `init_exp`, with the longest lifetime and the clock.
pub(crate) type VerifyToken<'a> = &'a dyn Fn(&Relay, [i64; 3], i64, i64) -> Result<(), TokenInvalid>;

/// Checks all combinations of times around a clock, and at the ends of their type.
pub(crate) fn check_tokens(verify: VerifyToken<'_>, clocks: &[i64]) -> Outcome {
    let relay = Relay::new()?;
    let mut cases = 0;
    for now_s in clocks {
        let near = [-SKEW_S - 1, -SKEW_S, 0, SKEW_S, SKEW_S + 1].map(|by| now_s.saturating_add(by));
        let times: Vec<i64> = near.into_iter().chain([i64::MIN, i64::MAX]).collect();
        for (iat, exp) in times.iter().flat_map(|iat| times.iter().map(move |exp| (*iat, *exp))) {
            for init_exp in &times {
                for lifetime_max_s in [0, SKEW_S, i64::MAX] {
                    let found = verify(&relay, [iat, exp, *init_exp], lifetime_max_s, *now_s);
                    let expected = token_reference([iat, exp, *init_exp], lifetime_max_s, *now_s);
                    ensure!(
                        found == expected,
                        "iat {iat}, exp {exp}, init_exp {init_exp}, at most {lifetime_max_s} s, clock {now_s}: {found:?}, expected \
                         {expected:?}"
                    );
                    cases += 1;
                }
            }
        }
    }
    Ok(cases)
}

/// Judges times by `spec/relay.md`, in wide numbers.
fn token_reference(times: [i64; 3], lifetime_max_s: i64, now_s: i64) -> Result<(), TokenInvalid> {
    let [iat, exp, init_exp] = times.map(i128::from);
    let (now, skew, max) = (i128::from(now_s), i128::from(SKEW_S), i128::from(lifetime_max_s));
    // A clock is a number of 64 bits: what lies beyond one is compared with its end.
    let (oldest, newest) = ((now - skew).max(i128::from(i64::MIN)), (now + skew).min(i128::from(i64::MAX)));
    if iat > newest {
        Err(TokenInvalid::Early)
    } else if exp < oldest {
        Err(TokenInvalid::Expired)
    } else if init_exp < oldest {
        Err(TokenInvalid::InitExpired)
    } else if exp > init_exp || (max > 0 && exp - iat > max && lifetime_max_s < i64::MAX) {
        Err(TokenInvalid::Lifetime)
    } else {
        Ok(())
    }
}

/// Clocks of the checks: the epoch, today, and both ends of the type.
pub(crate) const CLOCKS: [i64; 5] = [0, 1_700_000_000, SKEW_S - 1, i64::MAX - SKEW_S, i64::MIN + SKEW_S];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{finds, holds};

    #[test]
    fn claims_hold_their_property() {
        let bounds = "9 windows, 9 lifetimes, up to 18 clocks and 15 stamps around their bounds; 4 times of a key with neighbours";
        holds(CLAIMS, CLAIMS_PROPERTY, bounds, || check_claims(&admit));
    }

    #[test]
    fn a_window_without_its_edge_is_found() {
        finds(CLAIMS, "a stamp at the edge of the window is rejected", || {
            check_claims(&|policy, stamp_ms, now_ms| match admit(policy, stamp_ms, now_ms) {
                Ok(_) if policy.window_ms() > 0 && stamp_ms.abs_diff(now_ms) == policy.window_ms() => {
                    Err(Error::TimestampOutsideWindow)
                }
                claim => claim,
            })
        });
    }

    #[test]
    fn a_lifetime_of_one_window_is_found() {
        let short = |policy: &ReplayPolicy, stamp_ms, now_ms| {
            let once = ReplayPolicy::new(policy.window_ms() / 2, policy.window_ms());
            admit(policy, stamp_ms, now_ms).and_then(|claim| admit(&once, claim.now_ms(), now_ms))
        };
        finds(CLAIMS, "a claim is remembered for one window", || check_claims(&short));
    }

    #[test]
    fn tokens_hold_their_property() {
        let bounds = "5 clocks, 7 values of each of 3 times around them, 3 longest lifetimes";
        holds(TOKENS, TOKENS_PROPERTY, bounds, || check_tokens(&Relay::verify, &CLOCKS));
    }

    #[test]
    fn a_skew_that_is_granted_twice_is_found() {
        finds(TOKENS, "a token is accepted for twice the skew after its end", || {
            check_tokens(
                &|relay, times, max, now_s| match relay.verify(times, max, now_s) {
                    Err(TokenInvalid::Expired) => relay.verify(times, max, now_s.saturating_sub(SKEW_S)),
                    verdict => verdict,
                },
                &CLOCKS,
            )
        });
    }
}
