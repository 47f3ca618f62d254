//! The time of refusals, by the method of dudect: two kinds of wrong input take turns at random, and Welch's t tells whether their
//! times differ. A planted comparison that ends at the first difference must be told.

use std::time::Instant;

use anyhow::{Context, ensure};
use sealway_proto::crypto::is_equal;
use sealway_proto::session::SealedCall;
use sealway_proto::session::native::SealedRequest;
use sealway_proto::wire::ReplayPolicy;
use serde_json::json;

use crate::cases::{LIBRARIES, Library, NOW_MS, native, session};
use crate::welch::{self, GOAL, Kind};

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

/// Measures each comparison with `samples` rejections of each kind, and prints the results as JSON.
///
/// # Errors
/// A comparison accepts a wrong input.
pub(crate) fn run(samples: usize) -> anyhow::Result<()> {
    // The bounds of dudect: close to the fastest samples, and denser towards the slowest.
    let shares: Vec<f64> =
        (0..CROPS).map(|number| 1.0 - 0.5_f64.powf(10.0 * f64::from(number + 1) / f64::from(CROPS))).collect();
    let mut rows = Vec::new();
    for comparison in comparisons()? {
        let Comparison { name, kinds: [mut first, mut other], mut reject, is_planted } = comparison;
        let mut is_wrong = false;
        welch::take_turns(samples, &mut [&mut first, &mut other], |input| {
            let start = Instant::now();
            let rejected = std::hint::black_box(reject(std::hint::black_box(input)));
            let nanos = start.elapsed().as_nanos() as f64;
            is_wrong |= !rejected;
            nanos
        });
        ensure!(!is_wrong, "{name}: a wrong input is accepted");
        let (whole, cropped) = welch::differences(&first, &other, &shares);
        // A bound below the resolution of the clock leaves samples without any variance.
        let largest = cropped
            .iter()
            .copied()
            .filter(|t| t.is_finite())
            .fold(whole, |one, t| if t.abs() > one.abs() { t } else { one });
        eprintln!("{name}: t {whole:.2}, largest cropped {largest:.2}");
        rows.push(json!({
            "name": name, "kinds": [first.name, other.name], "samples": samples, "is_planted": is_planted,
            "median_ns": [first.median(), other.median()], "t": whole, "t_cropped": largest, "is_met": largest.abs() < GOAL,
        }));
    }
    println!("{:#}", json!({ "comparisons": rows }));
    Ok(())
}

/// Returns both kinds: the input with its first byte changed from an offset on, and with its last one before an end.
fn kinds(right: &[u8], at: [usize; 2], names: [&'static str; 2]) -> anyhow::Result<[Kind; 2]> {
    let change = |at: usize| -> anyhow::Result<Vec<u8>> {
        let mut input = right.to_vec();
        *input.get_mut(at).context("the input is too short")? ^= 1;
        Ok(input)
    };
    Ok([Kind::new(names[0], vec![change(at[0])?]), Kind::new(names[1], vec![change(at[1])?])])
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
