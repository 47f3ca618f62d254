//! Epochs: as long as an epoch is in force, Redis has kept every nonce of its bucket. Anything that may have lost one
//! ends the epoch, and the next one begins with a floor above every stamp that may have been granted without a durable
//! record.
//!
//! This module checks epochs; the module `begin` starts them.

use redis::{Cmd, FromRedisValue, ParsingError, Value};
use sealway_proto::store::script::reserve;
use sealway_runtime::redis::{Link, Trouble, field};

use super::{Inner, Live, script};

/// An epoch in force, with its script call.
#[derive(Debug)]
pub(super) struct Epoch {
    pub(super) generation: String,
    /// Call of the epoch's script, up to the nonce's key.
    call: Cmd,
}

impl Epoch {
    pub(super) fn new(generation: String, prefix: &str, bucket: usize) -> Self {
        let script = redis::Script::new(&reserve(&generation));
        let mut call = redis::cmd("EVALSHA");
        call.arg(script.get_hash()).arg(3).arg(epoch_key(prefix, bucket)).arg(canary_key(prefix, bucket));
        Epoch { generation, call }
    }

    /// Builds the call of the epoch's script, up to its arguments.
    pub(super) fn cmd(&self, nonce_key: &[u8]) -> Cmd {
        let mut cmd = self.call.clone();
        cmd.arg(nonce_key);
        cmd
    }
}

pub(super) fn epoch_key(prefix: &str, bucket: usize) -> String {
    format!("{{{prefix}:{bucket}}}:epoch")
}

pub(super) fn canary_key(prefix: &str, bucket: usize) -> String {
    format!("{{{prefix}:{bucket}}}:canary")
}

/// State in the script's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ok,
    Fresh,
    Ahead,
    Replayed,
    Floor,
    Forgotten,
    /// The epoch is not in force.
    Lost,
}

/// Answer of the epoch's script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) state: State,
    pub(super) time_ms: u64,
    pub(super) floor_ms: u64,
}

impl Answer {
    pub(super) const LOST: Answer = Answer { state: State::Lost, time_ms: 0, floor_ms: 0 };
}

impl FromRedisValue for Answer {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (state, time_ms, floor_ms) = redis::from_redis_value::<(String, u64, u64)>(value)?;
        let state = match state.as_str() {
            "OK" => State::Ok,
            "FRESH" => State::Fresh,
            "AHEAD" => State::Ahead,
            "REPLAYED" => State::Replayed,
            "FLOOR" => State::Floor,
            "FORGOTTEN" => State::Forgotten,
            _ => State::Lost,
        };
        Ok(Answer { state, time_ms, floor_ms })
    }
}

/// Stored state of an epoch, as found on the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    pub(super) time_ms: u64,
    pub(super) generation: String,
    pub(super) floor_ms: u64,
    /// Time at which a process last had it checked, to about a second.
    pub(super) checked_ms: u64,
    pub(super) made_ms: u64,
    /// Replication id of the server on which the epoch began.
    pub(super) node: String,
    /// Replication id of the server now.
    pub(super) node_now: String,
    /// Number of the fail-over after which the epoch began, as Sentinel counts them; 0 without Sentinel.
    pub(super) term: u64,
    /// Number of the last fail-over; without Sentinel that of the epoch.
    pub(super) term_now: u64,
}

impl Look {
    /// True if the server is the one on which the epoch began, and no other was master since: a former master may come
    /// back with its old memory.
    pub(super) fn is_same_server(&self) -> bool {
        self.node == self.node_now && self.term == self.term_now
    }
}

impl Inner {
    /// Returns the state of an epoch, by its own script.
    pub(super) async fn verify(&self, live: &Live, bucket: usize, epoch: &Epoch) -> Result<Answer, Trouble> {
        self.verify_on(&live.link, bucket, epoch).await
    }

    pub(super) async fn verify_on(&self, link: &Link, bucket: usize, epoch: &Epoch) -> Result<Answer, Trouble> {
        let mut cmd = epoch.cmd(epoch_key(&self.config.prefix, bucket).as_bytes());
        cmd.arg("").arg(0).arg(0).arg(0);
        match self.within(link.get::<Answer>(&cmd)).await {
            Err(Trouble::Lost) => Ok(Answer::LOST),
            Ok(answer) => {
                self.saw(answer.time_ms);
                Ok(answer)
            }
            err => err,
        }
    }

    /// Awaits an operation within the deadline.
    pub(super) async fn within<T>(&self, work: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
        tokio::time::timeout(self.config.server.deadline, work).await.unwrap_or(Err(Trouble::Slow))
    }

    /// Returns the replication id of the server that has a bucket. The id changes when a replica becomes master, so a
    /// script left behind from an earlier time as master does not pass for the memory with which it was loaded.
    async fn node(&self, link: &Link, bucket: usize) -> Result<String, Trouble> {
        let mut info = redis::cmd("INFO");
        info.arg("replication");
        let key = epoch_key(&self.config.prefix, bucket);
        let info: String = self.within(link.get_at(&key, info)).await?;
        match field(&info, "role") {
            Some("master") => Ok(field(&info, "master_replid").unwrap_or_default().to_owned()),
            _ => Err(Trouble::Refused("it is a replica".into())),
        }
    }

    /// Checks that a bucket is still on the server where its epoch began, and returns the epoch's state.
    pub(super) async fn tend(&self, link: &Link, bucket: usize, epoch: &Epoch) -> Result<Answer, Trouble> {
        let look = self.look(link, bucket).await?;
        if look.generation != epoch.generation || !look.is_same_server() {
            return Ok(Answer::LOST);
        }
        self.verify_on(link, bucket, epoch).await
    }

    pub(super) async fn look(&self, link: &Link, bucket: usize) -> Result<Look, Trouble> {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(script::LOOK).arg(1).arg(epoch_key(&self.config.prefix, bucket));
        let looked = self.within(link.get::<(u64, String, String, String, String, String, String)>(&cmd));
        let (looked, node_now) = futures_util::future::try_join(looked, self.node(link, bucket)).await?;
        let (time_ms, generation, floor, hw, made, node, term) = looked;
        let number = |text: String| text.parse().unwrap_or_default();
        let [floor_ms, checked_ms, made_ms, term] = [floor, hw, made, term].map(number);
        let term_now = link.master().map_or(term, |master| master.term);
        Ok(Look { time_ms, generation, floor_ms, checked_ms, made_ms, node, node_now, term, term_now })
    }
}
