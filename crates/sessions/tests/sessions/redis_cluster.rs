//! A Redis Cluster of three masters and three replicas.

use std::time::{Duration, Instant};

use crate::redis_desk::{Desk, claim, grant, nonce, now, reserve, until, until_up};
use sealway_runtime::redis::TlsFiles;
use sealway_sessions::store::{ReserveError, Store};
use sealway_testkit::redis::{Redis, RedisCluster};
use sealway_testkit::store_contract::claims::agree;
use sealway_testkit::store_contract::race;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_keeps_nonces_and_sessions_and_announces_revocations() {
    let rights = "+ping +info +select +eval +evalsha +script|load +time +get +set +exists +strlen +pttl +hget +hset +hmget \
                  +publish +subscribe +cluster|slots";
    let user = format!("user sealway on >secret ~sealway:* ~{{sealway:* resetchannels &sealway:revoked -@all {rights}");
    let cluster = RedisCluster::start_with(3, 1, &Redis::options().acl(&user)).unwrap();
    let desk = Desk::new(&cluster.url().replace("://", "://sealway:secret@")).window_ms(60_000).patient();
    // Many processes find it new, or half begun by another.
    let desk = &desk;
    let opening = (0..12).map(|n| async move {
        tokio::time::sleep(Duration::from_millis(n * 3)).await;
        desk.try_open().await.unwrap()
    });
    let stores = futures_util::future::join_all(opening).await;
    // The stores must be up soon: a process that took another's start for a loss would wait for a window.
    for (store, _) in &stores {
        until_up(store).await;
    }
    let [(one, _), (other, cache), ..] = stores.as_slice() else { panic!("no stores") };
    for _ in 0..40 {
        race(&[one, other], 8, claim(&nonce(), now())).await;
    }
    for _ in 0..20 {
        let session = agree(Some("web"), 600, now()).server;
        let id = *session.id();
        Store::put(one.as_ref(), session).await.unwrap();
        assert!(Store::get(other.as_ref(), &id).await.unwrap().is_some());
        assert_eq!(Store::delete(one.as_ref(), &id).await, Ok(true));
        until("the revocation", Duration::from_secs(1), async || cache.get(&id).is_none()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_is_reached_by_tls() {
    let cluster = RedisCluster::start_with(3, 0, &Redis::options().tls(true)).unwrap();
    let mut desk = Desk::new(&cluster.url());
    let made = cluster.certificates.as_ref().unwrap();
    let client = Some(made.client.clone());
    desk.config.server.tls = Some(TlsFiles { ca: Some(made.ca.clone()), client });
    let (store, cache) = desk.try_open().await.unwrap();
    until_up(&store).await;
    let other = desk.open().await;
    until_up(&other).await;
    for _ in 0..20 {
        let (nonce, stamp_ms) = grant(&store, now).await;
        assert_eq!(reserve(&other, &claim(&nonce, stamp_ms)).await, Err(ReserveError::Replayed));
    }
    let session = agree(Some("web"), 600, now()).server;
    let id = *session.id();
    Store::put(store.as_ref(), session).await.unwrap();
    assert_eq!(Store::delete(other.as_ref(), &id).await, Ok(true));
    until("the revocation", Duration::from_secs(1), async || cache.get(&id).is_none()).await;
    desk.config.server.tls = Some(TlsFiles::default());
    let stranger = desk.open().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!stranger.is_up(), "the system's roots did not sign it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_readmits_nothing() {
    let mut cluster = RedisCluster::start(3, 1).unwrap();
    let desk = Desk::new(&cluster.url()).durable();
    let old = desk.open().await;
    until_up(&old).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    let victim = cluster.master_of("{sealway:0}:epoch").unwrap();
    // Its replica misses these: it comes back with its earlier data.
    let follows = format!("slave\n127.0.0.1\n{}\n", cluster.nodes[victim].port);
    let replica = cluster.nodes.iter().position(|node| node.cli(&["ROLE"]).unwrap().starts_with(&follows)).unwrap();
    cluster.nodes[replica].save().unwrap();
    cluster.nodes[replica].kill().unwrap();
    let mut granted = Vec::new();
    for n in 0..300 {
        granted.push(grant(&old, || now() - 100 + n % 5 * 200).await);
    }
    cluster.nodes[victim].kill().unwrap();
    cluster.nodes[replica].start_again().unwrap();
    cluster.wait_for_masters(3).unwrap();
    let new = desk.open().await;
    let start = Instant::now();
    let (mut lost, mut is_settled) = (0, false);
    while !is_settled {
        assert!(start.elapsed() < Duration::from_secs(20), "not up");
        // One more pass after it is up.
        is_settled = old.is_up() && new.is_up();
        for (nonce, stamp_ms) in &granted {
            let done = reserve(&new, &claim(nonce, *stamp_ms)).await;
            assert!(done.is_err(), "a replay was granted");
            lost += usize::from(done == Err(ReserveError::Replayed));
        }
    }
    assert!(lost > 0);
    grant(&new, now).await;
    grant(&old, now).await;
}
