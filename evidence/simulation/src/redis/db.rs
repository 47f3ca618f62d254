//! The memory of one server, and the commands on it. It knows the commands that the product sends, and panics at any other.

use std::collections::BTreeMap;

use super::resp::Reply;
use crate::world::Defect;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// Time of expiry by the server's clock, in milliseconds.
    expires_ms: Option<u64>,
}

/// All keys of a server.
pub(super) type Keys = BTreeMap<Vec<u8>, Entry>;

/// A write as replicas get it.
#[derive(Clone, Debug)]
pub(super) enum Write {
    /// The key is this from now on, or is gone.
    Key(Vec<u8>, Option<Entry>),
    Publish(Vec<u8>, Vec<u8>),
}

/// State and environment of one command.
pub(super) struct Context<'a> {
    pub(super) keys: &'a mut Keys,
    pub(super) now_ms: u64,
    pub(super) is_replica: bool,
    pub(super) defect: Option<Defect>,
    pub(super) replication: String,
    /// Writes of the command, for replicas and listeners.
    pub(super) writes: Vec<Write>,
}

const READONLY: &str = "READONLY You can't write against a read only replica.";

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn number(bytes: Option<&Vec<u8>>) -> u64 {
    bytes.and_then(|bytes| text(bytes).parse().ok()).unwrap_or_else(|| panic!("no number: {bytes:?}"))
}

impl Context<'_> {
    fn get(&mut self, key: &[u8]) -> Option<&Entry> {
        let now_ms = self.now_ms;
        let is_over = |entry: &Entry| entry.expires_ms.is_some_and(|end_ms| end_ms <= now_ms);
        if self.keys.get(key).is_some_and(is_over) {
            self.keys.remove(key);
            self.writes.push(Write::Key(key.to_vec(), None));
        }
        self.keys.get(key)
    }

    fn text_of(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        match self.get(key).map(|entry| &entry.value) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }

    fn put(&mut self, key: &[u8], entry: Entry) {
        self.writes.push(Write::Key(key.to_vec(), Some(entry.clone())));
        self.keys.insert(key.to_vec(), entry);
    }

    /// Runs a command that is no script.
    pub(super) fn run(&mut self, arguments: &[Vec<u8>]) -> Reply {
        let [name, rest @ ..] = arguments else { return Reply::Error("ERR empty command".into()) };
        let name = text(name).to_ascii_uppercase();
        let writes = ["SET", "HSET", "PEXPIRE", "DEL"].contains(&name.as_str());
        if writes && self.is_replica {
            return Reply::Error(READONLY.into());
        }
        match (name.as_str(), rest) {
            ("PING", _) => Reply::Simple("PONG"),
            ("SELECT" | "CLIENT", _) => Reply::Simple("OK"),
            ("TIME", _) => {
                let micros = (self.now_ms % 1000 * 1000).to_string();
                Reply::Array(vec![Reply::text((self.now_ms / 1000).to_string()), Reply::text(micros)])
            }
            ("INFO", _) => Reply::text(format!(
                "# Server\r\nredis_version:7.4.0\r\nredis_mode:standalone\r\n# Memory\r\nmaxmemory:0\r\n\
                 maxmemory_policy:noeviction\r\n# Replication\r\n{}",
                self.replication
            )),
            ("GET", [key]) => Reply::Bulk(self.text_of(key)),
            ("SET", [key, value, options @ ..]) => self.set(key, value, options),
            ("EXISTS", [key]) => Reply::Int(i64::from(self.get(key).is_some())),
            ("STRLEN", [key]) => Reply::Int(self.text_of(key).map_or(0, |text| text.len() as i64)),
            ("PTTL", [key]) => self.left(key),
            ("DEL", [key]) => {
                let is_there = self.get(key).is_some();
                if is_there {
                    self.keys.remove(key.as_slice());
                    self.writes.push(Write::Key(key.clone(), None));
                }
                Reply::Int(i64::from(is_there))
            }
            ("PEXPIRE", [key, ms]) => self.expire(key, number(Some(ms))),
            ("HGET", [key, field]) => Reply::Bulk(self.field(key, field)),
            ("HMGET", [key, fields @ ..]) => {
                Reply::Array(fields.iter().map(|field| Reply::Bulk(self.field(key, field))).collect())
            }
            ("HSET", [key, pairs @ ..]) => self.set_fields(key, pairs),
            ("PUBLISH", _) if self.defect == Some(Defect::Mute) => Reply::Int(0),
            ("PUBLISH", [channel, message]) => {
                self.writes.push(Write::Publish(channel.clone(), message.clone()));
                Reply::Int(0)
            }
            _ => panic!("the model of Redis lacks the command {name} with {} arguments", rest.len()),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8], options: &[Vec<u8>]) -> Reply {
        let (mut expires_ms, mut options) = (None, options.iter());
        while let Some(option) = options.next() {
            match text(option).to_ascii_uppercase().as_str() {
                "NX" if self.get(key).is_some() => return Reply::Bulk(None),
                "NX" => {}
                "PX" => expires_ms = Some(self.now_ms + number(options.next())),
                other => panic!("the model of Redis lacks SET with {other}"),
            }
        }
        self.put(key, Entry { value: Value::Text(value.to_vec()), expires_ms });
        Reply::Simple("OK")
    }

    fn left(&mut self, key: &[u8]) -> Reply {
        let now_ms = self.now_ms;
        Reply::Int(match self.get(key) {
            None => -2,
            Some(Entry { expires_ms: None, .. }) => -1,
            Some(Entry { expires_ms: Some(end_ms), .. }) => (end_ms - now_ms) as i64,
        })
    }

    fn expire(&mut self, key: &[u8], ms: u64) -> Reply {
        let Some(mut entry) = self.get(key).cloned() else { return Reply::Int(0) };
        entry.expires_ms = Some(self.now_ms + ms);
        self.put(key, entry);
        Reply::Int(1)
    }

    fn field(&mut self, key: &[u8], field: &[u8]) -> Option<Vec<u8>> {
        match self.get(key).map(|entry| &entry.value) {
            Some(Value::Hash(fields)) => fields.get(field).cloned(),
            _ => None,
        }
    }

    fn set_fields(&mut self, key: &[u8], pairs: &[Vec<u8>]) -> Reply {
        let known = self.get(key).cloned();
        let mut entry = known.unwrap_or(Entry { value: Value::Hash(BTreeMap::new()), expires_ms: None });
        let Value::Hash(fields) = &mut entry.value else {
            return Reply::Error("WRONGTYPE Operation against a key holding the wrong kind of value".into());
        };
        for pair in pairs.chunks_exact(2) {
            if let [field, value] = pair {
                fields.insert(field.clone(), value.clone());
            }
        }
        self.put(key, entry);
        Reply::Int((pairs.len() / 2) as i64)
    }
}
