//! The time of refusals, by the method of dudect: two kinds of wrong input take turns at random, and Welch's t tells whether their
//! times differ. A planted comparison that ends at the first difference must be told. Beside each t stands that of the first kind
//! against itself.

use anyhow::Context;
use sealway_proto::crypto::is_equal;
use sealway_proto::session::SealedCall;
use sealway_proto::session::native::SealedRequest;
use sealway_proto::wire::ReplayPolicy;
use serde_json::json;

use crate::cases::{LIBRARIES, Library, NOW_MS, native, session};
use crate::sampling::{self, Samples};
use crate::table::median;
use crate::welch::{self, GOAL};

/// Number of bounds above which samples are left out.
const CROPS: i32 = 100;

/// Returns whether an input is rejected.
type Reject = Box<dyn FnMut(&[u8]) -> bool>;

/// A comparison: two kinds of wrong input, and the function that rejects one.
struct Comparison {
    name: String,
    kinds: [Kind; 2],
    reject: Reject,
    is_planted: bool,
}

/// A kind of wrong input.
struct Kind {
    name: &'static str,
    input: Vec<u8>,
}

/// Measures each comparison with `samples` rejections of each kind, and prints the results as JSON.
///
/// # Errors
/// A comparison accepts a wrong input.
pub(crate) fn run(samples: usize) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for comparison in comparisons()? {
        let Comparison { name, kinds: [one, other], reject, is_planted } = comparison;
        let names = [one.name, other.name];
        let classes = [one.input.clone(), other.input, one.input];
        let Samples { nanos: [mut one, mut other, control], discarded } =
            sampling::take(samples, &classes, reject).with_context(|| name.clone())?;
        let (whole, largest) = t(&one, &other);
        // A leak grows with the square root of the number of samples: twice this one.
        let (_, of_quarter) = t(quarter(&one), quarter(&other));
        let (_, of_control) = t(&one, &control);
        eprintln!(
            "{name}: t {whole:.2}, largest cropped {largest:.2}, of the first quarter {of_quarter:.2}, of the control {of_control:.2}, \
             discarded {discarded}"
        );
        rows.push(json!({
            "name": name, "kinds": names, "samples": one.len().min(other.len()), "is_planted": is_planted,
            "median_ns": [median(&mut one), median(&mut other)], "t": whole, "t_cropped": largest, "t_quarter": of_quarter,
            "t_control": of_control, "discarded": discarded, "is_met": largest.abs() < GOAL,
        }));
    }
    println!("{:#}", json!({ "comparisons": rows }));
    Ok(())
}

/// Returns t of all samples, and the largest t of all and of those below each bound.
fn t(one: &[f64], other: &[f64]) -> (f64, f64) {
    // The bounds of dudect: close to the fastest samples, and denser towards the slowest.
    let shares: Vec<f64> =
        (0..CROPS).map(|number| 1.0 - 0.5_f64.powf(10.0 * f64::from(number + 1) / f64::from(CROPS))).collect();
    let (whole, cropped) = welch::differences_of(one, other, &shares);
    // A bound below the resolution of the clock leaves samples without any variance.
    let finite = cropped.into_iter().filter(|t| t.is_finite());
    (whole, finite.fold(whole, |one, t| if t.abs() > one.abs() { t } else { one }))
}

fn quarter(nanos: &[f64]) -> &[f64] {
    nanos.get(..nanos.len() / 4).unwrap_or_default()
}

/// Returns both kinds: the input with a changed byte at each of two places.
fn kinds(right: &[u8], at: [usize; 2], names: [&'static str; 2]) -> anyhow::Result<[Kind; 2]> {
    let kind = |number: usize| -> anyhow::Result<Kind> {
        let mut input = right.to_vec();
        *input.get_mut(at[number]).context("the input is too short")? ^= 1;
        Ok(Kind { name: names[number], input })
    };
    Ok([kind(0)?, kind(1)?])
}

const ENDS: [&str; 2] = ["first byte", "last byte"];

fn comparisons() -> anyhow::Result<Vec<Comparison>> {
    let mut all = Vec::new();
    let mut add = |name: &str, kinds, reject, is_planted| {
        all.push(Comparison { name: name.to_owned(), kinds, reject, is_planted })
    };
    let secret = [0x61_u8; 32];
    add(
        "planted: ends at the first difference",
        kinds(&secret, [0, 31], ENDS)?,
        Box::new(move |input: &[u8]| ends_early(&secret, input)),
        true,
    );
    add(
        "secrets of 32 bytes",
        kinds(&secret, [0, 31], ENDS)?,
        Box::new(move |input: &[u8]| !is_equal(&secret, input)),
        false,
    );

    for library in &LIBRARIES {
        let name = library.name;
        let (body, reject) = v2_call(library)?;
        let tag = body.len() - 16;
        add(
            &format!("v2 call by {name}"),
            kinds(&body, [tag, body.len() - 1], ["first byte of the tag", "last byte of the tag"])?,
            reject,
            false,
        );
        let (stream, reject) = native_call(library)?;
        let last = stream.len() - 1;
        add(
            &format!("native call by {name}"),
            kinds(&stream, [0, last], ["first byte of the commitment", "last byte of the tag"])?,
            reject,
            false,
        );
    }
    Ok(all)
}

/// The leak that must be told.
#[inline(never)]
fn ends_early(secret: &[u8; 32], input: &[u8]) -> bool {
    secret.iter().zip(input).any(|(one, other)| std::hint::black_box(*one) != *other)
}

type Rejection = (Vec<u8>, Reject);

fn v2_call(library: &'static Library) -> anyhow::Result<Rejection> {
    let (headers, body, session) = session::sealed_request(library)?;
    let (policy, provider) = (ReplayPolicy::default(), library.provider);
    let reject = move |input: &[u8]| {
        let Ok(call) = SealedCall::parse(&headers, session::PATH, NOW_MS, &policy) else { return false };
        call.open(provider, session.clone(), input.to_vec(), &mut |_| ()).is_err()
    };
    Ok((body, Box::new(reject)))
}

fn native_call(library: &'static Library) -> anyhow::Result<Rejection> {
    let (headers, stream, session) = native::sealed_request(library)?;
    let (policy, provider) = (ReplayPolicy::default(), library.provider);
    let mut frame = Vec::with_capacity(4096);
    let reject = move |mut input: &[u8]| {
        frame.clear();
        let Ok(request) = SealedRequest::parse(&headers, native::LINE) else { return false };
        let Ok((mut opener, _)) = request.open(provider, session.clone(), NOW_MS, &policy) else { return false };
        opener.read(&mut input, &mut frame).is_err()
    };
    Ok((stream, Box::new(reject)))
}
