//! Every scenario of `vectors/native`, in both directions: this crate produces the scenario's bytes, accepts its messages,
//! and rejects with the scenario's code. The generator of the vectors shares nothing with this crate but `spec/session-3.md`.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod calls;
mod inits;
mod keys;
#[path = "../providers/mod.rs"]
mod providers;
mod sizes;
#[cfg(target_os = "linux")]
mod wiped;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use providers::{library, provider};
use sealway_proto::Error;
use sealway_testkit::native_vectors::{NativeScenario, load_native};

/// Checks that a rejection has this code, and names this member if one is given.
fn assert_refused(refused: Result<(), Error>, code: &str, field: Option<&str>) {
    let error = refused.expect_err("it is accepted");
    assert_eq!(error.code(), code);
    if let (Error::FieldInvalid(named), Some(field)) = (error, field) {
        assert_eq!(named, field);
    }
}

fn play(scenario: &NativeScenario) {
    match scenario {
        NativeScenario::Init(v) => inits::init(v, None),
        NativeScenario::Renew(v) => inits::init(&v.init, Some(&v.old)),
        NativeScenario::InitRefused(v) => assert_refused(inits::answered(v), &v.code, None),
        NativeScenario::InitRequestRefused(v) => assert_refused(inits::asked(v), &v.code, v.field.as_deref()),
        NativeScenario::Request(v) => calls::request(v),
        NativeScenario::RequestRefused(v) => assert_refused(calls::request_refused(v), &v.code, None),
        NativeScenario::Answer(v) => calls::answer(v),
        NativeScenario::AnswerRefused(v) => assert_refused(calls::answer_refused(v), &v.code, None),
        NativeScenario::KeySet(v) => keys::key_set(v),
        NativeScenario::KeySetRefused(v) => assert_eq!(keys::key_set_refused(v), v.code),
        NativeScenario::Problem(v) => keys::problem(v),
        NativeScenario::Headers(v) => keys::headers(v),
    }
}

fn kind(scenario: &NativeScenario) -> &'static str {
    match scenario {
        NativeScenario::Init(_) => "init3",
        NativeScenario::Renew(_) => "renew3",
        NativeScenario::InitRefused(_) => "init3-refused",
        NativeScenario::InitRequestRefused(_) => "init3-request-refused",
        NativeScenario::Request(_) => "request3",
        NativeScenario::RequestRefused(_) => "request3-refused",
        NativeScenario::Answer(_) => "answer3",
        NativeScenario::AnswerRefused(_) => "answer3-refused",
        NativeScenario::KeySet(_) => "key-set3",
        NativeScenario::KeySetRefused(_) => "key-set3-refused",
        NativeScenario::Problem(_) => "problem3",
        NativeScenario::Headers(_) => "headers3",
    }
}

/// Runs every scenario of these types, at least so many of each, and reports all that fail.
fn play_all(least: &[(&str, usize)]) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let failed = RefCell::new(Vec::new());
    for vector in load_native().unwrap() {
        let kind = kind(&vector.scenario);
        if !least.iter().any(|(wanted, _)| *wanted == kind) {
            continue;
        }
        *counts.entry(kind).or_default() += 1;
        providers::with_each(|provider| {
            if catch_unwind(AssertUnwindSafe(|| play(&vector.scenario))).is_err() {
                failed.borrow_mut().push(format!("{} by {provider}: {}", vector.name, vector.comment));
            }
        });
    }
    let failed = failed.into_inner();
    for (kind, least) in least {
        let count = counts.get(kind).copied().unwrap_or_default();
        assert!(count >= *least, "{count} scenarios of {kind}, and there were {least}");
    }
    assert!(failed.is_empty(), "{} fail:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn both_sides_of_every_init_and_renewal_make_its_bytes_and_its_keys() {
    play_all(&[("init3", 29), ("renew3", 4)]);
}

#[test]
fn a_client_refuses_every_faulty_answer_to_its_init_with_its_code() {
    play_all(&[("init3-refused", 130)]);
}

#[test]
fn a_server_refuses_every_faulty_init_with_its_code() {
    play_all(&[("init3-request-refused", 110)]);
}

#[test]
fn both_sides_of_every_sealed_request_make_its_bytes() {
    play_all(&[("request3", 41)]);
}

#[test]
fn a_server_refuses_every_faulty_request_with_its_code() {
    play_all(&[("request3-refused", 163)]);
}

#[test]
fn both_sides_of_every_sealed_answer_make_its_bytes() {
    play_all(&[("answer3", 22)]);
}

#[test]
fn a_client_refuses_every_faulty_answer_with_its_code() {
    play_all(&[("answer3-refused", 100)]);
}

#[test]
fn a_key_set_is_taken_from_its_root_alone_and_a_problem_proves_what_it_says() {
    play_all(&[("key-set3", 12), ("key-set3-refused", 28), ("problem3", 16)]);
}

#[test]
fn a_service_receives_no_header_that_its_client_may_not_say_of_itself() {
    play_all(&[("headers3", 100)]);
}
