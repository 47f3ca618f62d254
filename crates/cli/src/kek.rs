//! `sealway kek`: key-encryption keys of a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use sealway_proto::crypto::default_provider;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_sessions::config::{SessionsConfig, StoreUrl};
use sealway_sessions::kek::{self, BrokerKeys, KekSource, KeyWrap, Moving};
use sealway_sessions::store::Store;
use sealway_sessions::store::postgres::Postgres;

use crate::args::{ConfigFile, KekAction};
use crate::config;
use sealway_runtime::output::out;

/// Sessions rewrapped in one transaction.
const BATCH: usize = 500;
/// Longest wait for another process that rewraps.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn run(action: KekAction) -> anyhow::Result<()> {
    match action {
        KekAction::Status(ConfigFile { config }) => status(&config).await,
        KekAction::Add(ConfigFile { config }) => add(&config),
        KekAction::Rotate { config: ConfigFile { config }, to } => rotate(&config, to.as_deref()).await,
    }
}

/// A plugged-in key wrapping, with the ids of its keys, the wrapping one first.
pub(crate) struct BrokerKeyWrap {
    keys: Arc<dyn KeyWrap>,
    ids: Vec<String>,
}

/// Plugs in the broker if it wraps session keys, or if they move from or to it.
pub(crate) async fn plug_broker(config: &mut SessionsConfig) -> anyhow::Result<Option<BrokerKeyWrap>> {
    let Some(broker) = &config.kek_broker else { return Ok(None) };
    let keys = Arc::new(BrokerKeys::open(broker).await?);
    let mut ids = vec![keys.active_id()];
    let keys: Arc<dyn KeyWrap> = if config.kek_file.is_some() {
        let file = Arc::new(config.key_ring(default_provider())?);
        if broker.wraps {
            ids.extend(file.ids());
            Arc::new(Moving::new(keys, file))
        } else {
            ids.splice(0..0, file.ids());
            Arc::new(Moving::new(file, keys))
        }
    } else {
        keys
    };
    config.wrap_keys_with(keys.clone());
    Ok(Some(BrokerKeyWrap { keys, ids }))
}

/// Loads a configuration in which a key file wraps: only its keys can be changed here.
fn with_key_file(file: &Path) -> anyhow::Result<SessionsConfig> {
    let config = config::load_checked(file)?.sessions;
    if let Some(broker) = config.kek_broker.as_ref().filter(|broker| broker.wraps) {
        bail!(
            "session keys are wrapped by the broker at {}: `sealway broker keys rotate {}` adds a version, which wraps from \
             then on; `sealway kek rotate` then wraps what is stored anew",
            broker.socket.display(),
            broker.key
        );
    }
    Ok(config)
}

fn key_file(config: &SessionsConfig) -> anyhow::Result<PathBuf> {
    match config.kek_source()? {
        KekSource::File(path) => Ok(path),
        KekSource::Env(name) => bail!("the keys are in the environment variable {name}; change it where it is set"),
    }
}

async fn status(file: &Path) -> anyhow::Result<()> {
    let mut config = config::load_checked(file)?.sessions;
    let broker = plug_broker(&mut config).await?;
    let ids = match &broker {
        Some(plugged) => plugged.ids.clone(),
        None => config.key_ring(default_provider())?.ids(),
    };
    let wrapped = match config.store.postgres() {
        Some(_) => Some(config.open_postgres(default_provider(), &clock()).await?.wrapped_under().await?),
        None => None,
    };
    let count = |id: &str| {
        let count = wrapped.as_ref()?.iter().find(|(known, _)| known == id).map_or(0, |(_, count)| *count);
        Some(count)
    };
    for (index, id) in ids.iter().enumerate() {
        let role = if index == 0 { "wraps and unwraps" } else { "unwraps" };
        match count(id) {
            Some(count) => writeln!(out(), "{id}  {role}, {count} live sessions")?,
            None => writeln!(out(), "{id}  {role}")?,
        }
    }
    for (id, count) in wrapped.iter().flatten().filter(|(id, _)| !ids.contains(id)) {
        match &broker {
            Some(BrokerKeyWrap { keys, .. }) => {
                writeln!(out(), "{id}  is no newest version in {}, and {count} live sessions need it", keys.place())?;
            }
            None => writeln!(out(), "{id}  is not in the key file, and {count} live sessions need it")?,
        }
    }
    Ok(())
}

fn add(file: &Path) -> anyhow::Result<()> {
    let config = with_key_file(file)?;
    let path = key_file(&config)?;
    let id = kek::add(default_provider(), &path)?;
    writeln!(out(), "{id} was added to {}, last: it unwraps", path.display())?;
    writeln!(out(), "Give the file to every process of this store; each reads it within ten seconds.")?;
    writeln!(out(), "Then: sealway kek rotate --to {id}")?;
    Ok(())
}

async fn rotate(file: &Path, to: Option<&str>) -> anyhow::Result<()> {
    if let Some(id) = to {
        kek::make_first(default_provider(), &key_file(&with_key_file(file)?)?, id)?;
        writeln!(out(), "{id} is the first key now")?;
    }
    let mut config = config::load_checked(file)?.sessions;
    let first = match plug_broker(&mut config).await? {
        Some(plugged) => plugged.keys.active_id(),
        None => config.key_ring(default_provider())?.active_id(),
    };
    match &config.store {
        StoreUrl::File(path) => match config.open_embedded(default_provider(), &clock()).await {
            Ok(store) => {
                let all = rewrap_all(&store).await?;
                writeln!(out(), "{all} sessions rewrapped; all that live are under {first}")?;
                Ok(())
            }
            Err(err) if err.to_string().contains("another process uses it") => {
                let asks = if config.kek_broker.is_some() { "asks the broker" } else { "reads the key file" };
                writeln!(
                    out(),
                    "{} is in use: the process that has it open {asks} within ten seconds,",
                    path.display()
                )?;
                writeln!(out(), "wraps all its sessions under {first}, and says so in its log.")?;
                Ok(())
            }
            Err(err) => Err(anyhow!(err)),
        },
        url if url.postgres().is_some() => {
            let store = config.open_postgres(default_provider(), &clock()).await?;
            let all = rewrap_all(store.as_ref()).await?;
            let left = left_over(&store, &first).await?;
            match left {
                0 => writeln!(out(), "{all} sessions rewrapped; all that live are under {first}")?,
                _ => {
                    writeln!(out(), "{all} sessions rewrapped; {left} that live are not under {first}: run this again")?
                }
            }
            Ok(())
        }
        StoreUrl::Redis(_) => {
            writeln!(
                out(),
                "Sessions in Redis keep the key that they were wrapped under until they end, within the longest"
            )?;
            writeln!(out(), "of sessions.ttl. Take the old key out of the file after that.")?;
            Ok(())
        }
        _ => bail!("this store keeps no wrapped keys"),
    }
}

/// Number of live sessions that are not under the first key: those that do not unwrap, and those agreed meanwhile.
/// Waits for sessions that another process is rewrapping.
async fn left_over(store: &Postgres, first: &str) -> anyhow::Result<u64> {
    let until = Instant::now() + PATIENCE;
    loop {
        let counts = store.wrapped_under().await?;
        let left = counts.iter().filter(|(id, _)| id != first).map(|(_, count)| count).sum();
        if left == 0 || Instant::now() >= until {
            return Ok(left);
        }
        tokio::time::sleep(PATIENCE / 20).await;
    }
}

/// Rewraps all sessions, and returns their number.
async fn rewrap_all(store: &dyn Store) -> anyhow::Result<usize> {
    let mut all = 0;
    loop {
        match store.rewrap(BATCH).await? {
            0 => break,
            some => all += some,
        }
        if all % (20 * BATCH) == 0 {
            writeln!(out(), "{all} sessions rewrapped")?;
        }
    }
    Ok(all)
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}
