//! The dependencies of a fleet: PostgreSQL and Redis of its own, each behind a proxy that can cut, hold or slow connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::postgres::Postgres;
use crate::redis::Redis;
use crate::toxiproxy::{Proxy, Toxiproxy};

/// The two servers and the proxies to them.
#[derive(Debug)]
pub struct Ground {
    postgres: Mutex<Postgres>,
    redis: Mutex<Redis>,
    /// The proxy in front of PostgreSQL.
    pub to_postgres: Proxy,
    /// The proxy in front of Redis.
    pub to_redis: Proxy,
    /// Another proxy to Redis, for a gateway whose connection is disturbed while the others' is not.
    pub also_to_redis: Proxy,
    toxiproxy: Toxiproxy,
    postgres_port: u16,
    redis_port: u16,
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Ground {
    /// Starts both servers and the proxies.
    ///
    /// # Errors
    /// If a part is missing or does not start.
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

    /// Returns PostgreSQL, to kill and to start again.
    pub fn postgres(&self) -> MutexGuard<'_, Postgres> {
        self.postgres.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns Redis, to kill and to start again.
    pub fn redis(&self) -> MutexGuard<'_, Redis> {
        self.redis.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the server of the proxies, for more of them.
    pub fn toxiproxy(&self) -> &Toxiproxy {
        &self.toxiproxy
    }

    /// Returns PostgreSQL and Redis through the proxies, as `sessions.store` names them.
    pub fn store(&self) -> String {
        self.store_by(self.to_postgres.address, self.to_redis.address)
    }

    /// Returns the same without proxies.
    pub fn direct_store(&self) -> String {
        self.store_by(local(self.postgres_port), local(self.redis_port))
    }

    /// Returns the same through proxies of the test's choice.
    pub fn store_by(&self, postgres: SocketAddr, redis: SocketAddr) -> String {
        let url = self.postgres().url();
        let url = url.replace(&format!(":{}/", self.postgres_port), &format!(":{}/", postgres.port()));
        format!("{url} + redis://{redis}")
    }

    /// Returns the section `sessions:` of a gateway on `store`, with more of its settings, such as `, on_redis_loss: local`.
    pub fn sections(store: &str, keys: &Path, more: &str) -> String {
        let keys = keys.display();
        format!("\nsessions: {{ store: '{store}', kek_file: '{keys}', postgres: {{ migrate: true }}{more} }}\n")
    }
}
