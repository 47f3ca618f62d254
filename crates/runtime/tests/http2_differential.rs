//! Random conversations over HTTP/2 between this engine and hyper, nghttp2, and this engine itself: the same messages arrive, with
//! the same ends.
//!
//! `SEALWAY_H2_CONVERSATIONS` sets the number of conversations of each pair, `SEALWAY_H2_SEED` the first seed. A failure names its
//! seed.

#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod http2;

use std::sync::Arc;
use std::time::Duration;

use http2::client::{Caller, converse};
use http2::nghttp2;
use http2::plan::Plan;
use http2::server::{Listener, hyper_server};
use http2::transport::{Cut, pair};
use http2::verdict::{Record, check};

/// Longest time of one conversation. None takes a hundredth of it on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn seeds(default: u64) -> impl Iterator<Item = u64> {
    let first = setting("SEALWAY_H2_SEED", 1);
    first..first + setting("SEALWAY_H2_CONVERSATIONS", default)
}

async fn within<T>(seed: u64, what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.unwrap_or_else(|_| panic!("seed {seed}: no end in time"))
}

#[tokio::test]
async fn our_client_and_the_server_of_hyper_exchange_the_same_messages() {
    for seed in seeds(120) {
        let plan = Arc::new(Plan::for_hyper_server(seed));
        let seen = Arc::new(Record::default());
        let (near, far) = pair(&plan);
        let serving = tokio::spawn(hyper_server(far, plan.clone(), seen.clone()));
        let answers = within(seed, converse(Caller::ours(near, &plan), &plan)).await;
        within(seed, serving).await.unwrap_or_else(|err| panic!("seed {seed}: {err}"));
        check(&plan, &answers, &seen);
    }
}

#[tokio::test]
async fn the_client_of_hyper_and_our_listener_exchange_the_same_messages() {
    let listener = Listener::start();
    for seed in seeds(120) {
        let plan = Arc::new(Plan::for_hyper_client(seed));
        let seen = listener.expect(&plan);
        let near = Cut::new(listener.open().await, &plan);
        let answers = within(seed, async { converse(Caller::hyper(near, &plan).await, &plan).await }).await;
        within(seed, listener.settled()).await;
        check(&plan, &answers, &seen);
    }
}

#[tokio::test]
async fn our_client_and_our_listener_exchange_the_same_messages() {
    let listener = Listener::start();
    for seed in seeds(120) {
        let plan = Arc::new(Plan::with_interim(seed));
        let seen = listener.expect(&plan);
        let near = Cut::new(listener.open().await, &plan);
        let answers = within(seed, converse(Caller::ours(near, &plan), &plan)).await;
        within(seed, listener.settled()).await;
        check(&plan, &answers, &seen);
    }
}

#[tokio::test]
async fn our_client_and_a_server_of_nghttp2_exchange_the_same_messages() {
    for seed in seeds(120) {
        let plan = Plan::with_interim(seed);
        let (server, near) = nghttp2::server(&plan);
        let near = Cut::new(near, &plan);
        let answers = within(seed, converse(Caller::ours(near, &plan), &plan)).await;
        let seen = within(seed, server.requests(&plan)).await;
        check(&plan, &answers, &seen);
    }
}

#[tokio::test]
async fn a_client_of_nghttp2_and_our_listener_exchange_the_same_messages() {
    let listener = Listener::start();
    for seed in seeds(120) {
        let plan = Arc::new(Plan::with_interim(seed));
        let seen = listener.expect(&plan);
        let (client, near) = nghttp2::client(&plan);
        let (mut near, mut far) = (Cut::new(near, &plan), listener.open().await);
        let between = tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        let answers = within(seed, client.answers(&plan)).await;
        within(seed, listener.settled()).await;
        between.abort();
        check(&plan, &answers, &seen);
    }
}
