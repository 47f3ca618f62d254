//! What a fleet stands on: PostgreSQL and Redis of its own, each behind a way that can be cut, held or slowed.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::postgres::Postgres;
use crate::redis::Redis;
use crate::toxiproxy::{Proxy, Toxiproxy};

/// The two servers and the ways to them.
#[derive(Debug)]
pub struct Ground {
    postgres: Mutex<Postgres>,
    redis: Mutex<Redis>,
    /// The way to PostgreSQL.
    pub to_postgres: Proxy,
    /// The way to Redis.
    pub to_redis: Proxy,
    /// Another way to Redis, for a gateway whose way is spoilt while the others' is not.
    pub also_to_redis: Proxy,
    toxiproxy: Toxiproxy,
    postgres_port: u16,
    redis_port: u16,
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Ground {
    /// Starts everything.
    ///
    /// # Errors
    /// When a part is missing or does not start.
    pub fn start() -> anyhow::Result<Self> {
        let (postgres, redis, toxiproxy) = (Postgres::start()?, Redis::start()?, Toxiproxy::start()?);
        Ok(Ground {
            to_postgres: toxiproxy.proxy("postgres", local(postgres.port))?,
            to_redis: toxiproxy.proxy("redis", local(redis.port))?,
            also_to_redis: toxiproxy.proxy("redis2", local(redis.port))?,
            postgres_port: postgres.port,
            redis_port: redis.port,
            postgres: Mutex::new(postgres),
            redis: Mutex::new(redis),
            toxiproxy,
        })
    }

    /// PostgreSQL, to kill and to start again.
    pub fn postgres(&self) -> MutexGuard<'_, Postgres> {
        self.postgres.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Redis, to kill and to start again.
    pub fn redis(&self) -> MutexGuard<'_, Redis> {
        self.redis.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server of the ways, for more of them.
    pub fn toxiproxy(&self) -> &Toxiproxy {
        &self.toxiproxy
    }

    /// PostgreSQL and Redis by the ways that can be spoilt, as `sessions.store` names them.
    pub fn store(&self) -> String {
        self.store_by(self.to_postgres.address, self.to_redis.address)
    }

    /// The same without anything in between.
    pub fn direct_store(&self) -> String {
        self.store_by(local(self.postgres_port), local(self.redis_port))
    }

    /// The same by ways of the test's choice.
    pub fn store_by(&self, postgres: SocketAddr, redis: SocketAddr) -> String {
        let url = self.postgres().url();
        let url = url.replace(&format!(":{}/", self.postgres_port), &format!(":{}/", postgres.port()));
        format!("{url} + redis://{redis}")
    }

    /// The section `sessions:` of a gateway on `store`, with more of its settings, such as `, on_redis_loss: local`.
    pub fn sections(store: &str, keys: &Path, more: &str) -> String {
        let keys = keys.display();
        format!("\nsessions: {{ store: '{store}', kek_file: '{keys}', postgres: {{ migrate: true }}{more} }}\n")
    }
}
