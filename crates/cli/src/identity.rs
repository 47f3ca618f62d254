//! `sealway identity`: identity keys of a service on wire 3, and the root that signs them.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::session::native::{IdentityKey, KeyId, KeySet};
use sealway_proto::wire::base64;
use sealway_runtime::clock::{Clock, SystemClock, iso8601};
use sealway_sessions::identity::{
    BrokerAccess, Condition, Document, KeyFile, KeyListing, Retirement, Root, parse_root_public, parse_span, parse_time,
};

use sealway_runtime::output::out;

use crate::args::parse_signature_algorithm;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum IdentityAction {
    /// Make a key file, or one more key in it
    Generate(Generate),
    /// List the keys of a key file and when each signs
    List {
        /// The key file
        file: PathBuf,
    },
    /// End a key
    Retire {
        /// The key file
        file: PathBuf,
        /// The key's id
        key_id: String,
        /// Time of retirement: in UTC such as 2026-11-21T04:03:00Z or 2026-11-21, "now", or 30d, 12h from now
        #[arg(long, value_name = "TIME", default_value = "now")]
        at: String,
        /// Also if no other key is live then
        #[arg(long)]
        force: bool,
    },
    /// Make a root in a file that is kept away from every service, and print its public half
    Root {
        /// The root's file, new
        file: PathBuf,
        /// Signature algorithm, as of generate --alg
        #[arg(long, value_name = "ALG", default_value = "ES256", value_parser = parse_signature_algorithm)]
        alg: SignatureAlgorithm,
    },
    /// Print the public key set of a key file, to be carried to the root
    Set {
        /// The key file
        file: PathBuf,
    },
    /// Have a root sign the keys of a key file, or a key set that was carried to it
    Sign {
        /// A key file or a key set; it is replaced
        file: PathBuf,
        /// The root's file
        #[arg(long, value_name = "FILE")]
        root: PathBuf,
        /// Validity of the signed set, such as 90d
        #[arg(long, value_name = "SPAN")]
        expires_in: String,
    },
    /// Take a key set that a root signed into the key file that it is of
    Import {
        /// The key file
        file: PathBuf,
        /// The signed key set
        set: PathBuf,
        /// The root's public half, in base64
        #[arg(long, value_name = "BASE64")]
        root_key: String,
    },
    /// Check the root's signature over a key set, or over that of a key file, as clients do
    Verify {
        /// A key set, such as GET /.well-known/sealway-keys gives, or a key file
        file: PathBuf,
        /// The root's public half, in base64
        #[arg(long, value_name = "BASE64")]
        root_key: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Generate {
    /// The key file; it is made if it is not there
    file: PathBuf,
    /// Signature algorithm: ES256, ES384, ML-DSA-65, ML-DSA-87, ES256+ML-DSA-65 or ES384+ML-DSA-87
    #[arg(long, value_name = "ALG", default_value = "ES256", value_parser = parse_signature_algorithm, conflicts_with = "broker_key")]
    alg: SignatureAlgorithm,
    /// From when on it signs, as of retire --at
    #[arg(long, value_name = "TIME", default_value = "now")]
    not_before: String,
    /// Until when it signs; without it, a year from then on
    #[arg(long, value_name = "TIME")]
    not_after: Option<String>,
    /// A P-256 key of a broker's store, instead of one in the file
    #[arg(long, value_name = "ID", requires = "socket")]
    broker_key: Option<String>,
    /// The broker's socket
    #[arg(long, value_name = "PATH", requires = "broker_key")]
    socket: Option<PathBuf>,
}

/// Default signing period of a key, in milliseconds.
const YEAR_MS: u64 = 365 * 86_400_000;

pub(crate) async fn run(action: IdentityAction) -> anyhow::Result<()> {
    let now_ms = SystemClock.now_ms();
    match action {
        IdentityAction::Generate(asked) => generate(asked, now_ms).await,
        IdentityAction::List { file } => list(&file, now_ms),
        IdentityAction::Retire { file, key_id, at, force } => retire(&file, &key_id, &at, force, now_ms),
        IdentityAction::Root { file, alg } => {
            let root = Root::generate(default_provider(), default_identity_library(), alg, &file)?;
            writeln!(out(), "root_key_id      {}", root.id(default_provider()))?;
            writeln!(out(), "root_public_key  {}", base64::encode(root.public()))?;
            writeln!(out(), "Clients pin the public half. Keep {} away from every service.", file.display())?;
            Ok(())
        }
        IdentityAction::Set { file } => {
            // The root decides on the set's expiry.
            writeln!(
                out(),
                "{}",
                read(&file)?.unsigned_set(now_ms, now_ms).context(file.display().to_string())?.encode()
            )?;
            Ok(())
        }
        IdentityAction::Sign { file, root, expires_in } => sign(&file, &root, &expires_in, now_ms),
        IdentityAction::Import { file, set, root_key } => import(&file, &set, &root_key, now_ms),
        IdentityAction::Verify { file, root_key } => verify(&file, &root_key, now_ms),
    }
}

fn read(file: &Path) -> anyhow::Result<KeyFile> {
    Ok(KeyFile::read(default_provider(), default_identity_library(), file)?)
}

async fn generate(asked: Generate, now_ms: u64) -> anyhow::Result<()> {
    let time =
        |name: &'static str, text: &str, from_ms| parse_time(text, from_ms).map_err(|what| anyhow!("--{name}: {what}"));
    let not_before_ms = time("not-before", &asked.not_before, now_ms)?;
    let not_after_ms = match &asked.not_after {
        Some(text) => time("not-after", text, now_ms)?,
        None => not_before_ms.saturating_add(YEAR_MS),
    };
    let (path, is_new) = (&asked.file, !asked.file.exists());
    let mut file = if is_new { KeyFile::default() } else { read(path)? };
    let made = match (asked.broker_key, asked.socket) {
        (Some(name), Some(socket)) => {
            let public = BrokerAccess::new(socket, String::new(), None).public_key(&name).await?;
            let key = IdentityKey::new(default_provider(), &public, not_before_ms, not_after_ms)?;
            file.add_broker_key(key, name, now_ms)
        }
        _ => file.generate(
            default_provider(),
            default_identity_library(),
            asked.alg,
            not_before_ms,
            not_after_ms,
            now_ms,
        ),
    };
    let id = made.context(path.display().to_string())?;
    if is_new {
        file.create(path)?
    } else {
        file.replace(path)?
    }
    writeln!(out(), "{id}  signs from {} until {}", iso8601(not_before_ms), iso8601(not_after_ms))?;
    tell_if_behind(&file, now_ms)
}

fn list(path: &Path, now_ms: u64) -> anyhow::Result<()> {
    let file = read(path)?;
    for KeyListing { key, condition, broker_key } in file.list(now_ms) {
        let condition = match condition {
            Condition::Live => "live",
            Condition::Next => "next",
            Condition::Retired => "retired",
            Condition::Unsigned => "unsigned",
        };
        let (from, to) = (iso8601(key.not_before_ms), iso8601(key.not_after_ms));
        let place = broker_key.map(|name| format!("  in the broker: {name}")).unwrap_or_default();
        // ES256 keys are shown as before there were others.
        let alg = if &*key.alg == SignatureAlgorithm::Es256.name() { String::new() } else { format!("  {}", key.alg) };
        writeln!(out(), "{}  {condition:<8}  {from}  {to}{alg}{place}", key.key_id)?;
    }
    if let Some(set) = file.signed_set() {
        tell_set(set, now_ms)?;
    }
    tell_if_behind(&file, now_ms)
}

fn tell_set(set: &KeySet, now_ms: u64) -> anyhow::Result<()> {
    let root = set.root.as_ref().map(|root| root.key_id.to_string()).unwrap_or_default();
    let expires = if set.expires_ms <= now_ms { "expired" } else { "expires" };
    let (issued, expiry) = (iso8601(set.issued_ms), iso8601(set.expires_ms));
    Ok(writeln!(out(), "signed by root {root}, issued {issued}, {expires} {expiry}")?)
}

fn tell_if_behind(file: &KeyFile, now_ms: u64) -> anyhow::Result<()> {
    if file.is_behind(now_ms) {
        writeln!(out(), "The root signed other keys or times than the file has now: sign the set again.")?;
    }
    Ok(())
}

fn retire(path: &Path, key_id: &str, at: &str, force: bool, now_ms: u64) -> anyhow::Result<()> {
    let id = KeyId::parse(key_id).map_err(|_| anyhow!("\"{key_id}\": a key id has 32 digits of 0-9 a-f"))?;
    let at_ms = parse_time(at, now_ms).map_err(|what| anyhow!("--at: {what}"))?;
    let mut file = read(path)?;
    let retired = file.retire(&id, at_ms, now_ms, force).context(path.display().to_string())?;
    file.replace(path)?;
    match retired {
        Retirement::At(at_ms) => writeln!(out(), "{id} signs until {}", iso8601(at_ms))?,
        Retirement::Removed => writeln!(out(), "{id} was not to be live yet and is in the file no more")?,
    }
    tell_if_behind(&file, now_ms)
}

fn sign(path: &Path, root: &Path, expires_in: &str, now_ms: u64) -> anyhow::Result<()> {
    let expires_in_ms = parse_span(expires_in).map_err(|what| anyhow!("--expires-in: {what}"))?;
    let root = Root::read(default_identity_library(), root)?;
    let document = Document::read(default_provider(), default_identity_library(), path)?;
    let set = document.sign(default_provider(), &root, path, now_ms, now_ms.saturating_add(expires_in_ms))?;
    for key in &set.keys {
        writeln!(out(), "{}  {}  {}", key.key_id, iso8601(key.not_before_ms), iso8601(key.not_after_ms))?;
    }
    tell_set(&set, now_ms)
}

fn import(path: &Path, set: &Path, root_key: &str, now_ms: u64) -> anyhow::Result<()> {
    let root = parse_root_public(default_identity_library(), root_key).context("--root-key")?;
    let signed = Document::read(default_provider(), default_identity_library(), set)?.into_set();
    let signed = signed.with_context(|| format!("{}: it holds no key set", set.display()))?;
    let mut file = read(path)?;
    let taken = file.take_signed(default_provider(), default_identity_library(), signed, &root, now_ms);
    taken.context(set.display().to_string())?;
    file.replace(path)?;
    list(path, now_ms)
}

fn verify(path: &Path, root_key: &str, now_ms: u64) -> anyhow::Result<()> {
    let root = parse_root_public(default_identity_library(), root_key).context("--root-key")?;
    let set = Document::read(default_provider(), default_identity_library(), path)?.into_set();
    let set = set.with_context(|| format!("{}: no root signed its keys", path.display()))?;
    let verified = set.verify(default_provider(), default_identity_library(), &root, now_ms, 0);
    verified.map_err(|err| anyhow!("{}: {err}", path.display()))?;
    for key in &set.keys {
        writeln!(out(), "{}  {}  {}", key.key_id, iso8601(key.not_before_ms), iso8601(key.not_after_ms))?;
    }
    tell_set(&set, now_ms)
}
