//! `sealway one-shot-keys`: keys of requests that are sealed without a session.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use sealway_gateway::one_shot::{Condition, Form, Key, KeyFile, Lifetime, Purpose, issue_psk, parse_kem};
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::default_identity_library;
use sealway_proto::hpke::Kem;
use sealway_runtime::clock::{Clock, SystemClock, iso8601};
use sealway_runtime::output::{out, tell};
use sealway_sessions::identity::{Root, parse_span, parse_time};

const DAY_MS: u64 = 86_400_000;

#[derive(Debug, Subcommand)]
pub(crate) enum OneShotKeysAction {
    /// Make a key file, or one more key in it
    Add {
        /// The key file; it is made if it is not there
        file: PathBuf,
        #[command(flatten)]
        form: KeyForm,
        #[command(flatten)]
        life: Life,
    },
    /// List the keys of a key file with their names and times
    List {
        /// The key file of one-shot modes
        file: PathBuf,
    },
    /// End the publication of a key, and then its acceptance
    Retire {
        /// The key file of one-shot modes
        file: PathBuf,
        /// The key's name, as list prints it
        name: String,
        /// End of its publication: in UTC such as 2026-11-28T04:03:00Z or 2026-11-28, "now", or 30d, 12h from now
        #[arg(long, value_name = "TIME", default_value = "now")]
        at: String,
        /// Time for which it is accepted afterwards
        #[arg(long, value_name = "SPAN", default_value = "24h", conflicts_with = "now")]
        grace: String,
        /// Accept it no longer from now on
        #[arg(long, conflicts_with = "at")]
        now: bool,
        /// Also if no other key of its use is published then
        #[arg(long)]
        force: bool,
    },
    /// Take over the key of another server
    Import {
        /// The key file; it is made if it is not there
        file: PathBuf,
        /// The kind of the source: ehbp, the identity file of a server of that protocol; or seed, hexadecimal digits that a server derives its
        /// key of
        #[arg(long, value_enum)]
        from: Origin,
        /// A file with it; a seed on a command line would be seen by others
        source: PathBuf,
        /// The mode, for a seed
        #[arg(long = "use", value_enum, required_if_eq("from", "seed"))]
        purpose: Option<Use>,
        /// The KEM, for a seed
        #[arg(long, value_parser = parse_kem, required_if_eq("from", "seed"))]
        kem: Option<Kem>,
        /// The id of one byte, for a seed
        #[arg(long)]
        key_id: Option<u8>,
        #[command(flatten)]
        life: Life,
    },
    /// Print the pre-shared key of a client, in base64
    Psk {
        /// The file of one_shot.psk.master; it is made if it is not there
        master: PathBuf,
        /// The client's public name: 1 to 64 visible ASCII characters
        id: String,
    },
    /// Have a root sign the keys of wire 4
    Sign {
        /// The key file; it is replaced
        file: PathBuf,
        /// The root's file, which sealway identity root makes
        #[arg(long, value_name = "FILE")]
        root: PathBuf,
        /// Validity of the signed document, such as 90d
        #[arg(long, value_name = "SPAN")]
        expires_in: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct KeyForm {
    /// The mode that the key is for
    #[arg(long = "use", value_enum)]
    purpose: Use,
    /// The KEM: x25519, p256, x-wing, mlkem768-p256 or mlkem768; by default x25519, and x-wing of use hpke
    #[arg(long, value_parser = parse_kem)]
    kem: Option<Kem>,
    /// The id of one byte; by default the lowest that is free
    #[arg(long)]
    key_id: Option<u8>,
}

#[derive(Debug, Args)]
pub(crate) struct Life {
    /// Days for which new messages are sealed to the key
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=398))]
    days: u64,
    /// Begin of its publication, as of retire --at
    #[arg(long, value_name = "TIME", default_value = "now")]
    publish: String,
    /// Time for which it is accepted after its publication has ended
    #[arg(long, value_name = "SPAN", default_value = "24h")]
    grace: String,
    /// one_shot.max_age_sec of the configuration: a key that follows others is published as long before it is preferred
    #[arg(long, value_name = "SPAN", default_value = "1h")]
    max_age: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Use {
    Hpke,
    Ohttp,
    Ehbp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Origin {
    Ehbp,
    Seed,
}

impl From<Use> for Purpose {
    fn from(purpose: Use) -> Purpose {
        match purpose {
            Use::Hpke => Purpose::Hpke,
            Use::Ohttp => Purpose::Ohttp,
            Use::Ehbp => Purpose::Ehbp,
        }
    }
}

impl KeyForm {
    fn form(&self) -> Form {
        let purpose = Purpose::from(self.purpose);
        let default = if purpose == Purpose::Hpke { Kem::XWing } else { Kem::X25519 };
        Form { purpose, kem: self.kem.unwrap_or(default), key_id: self.key_id }
    }
}

impl Life {
    fn lifetime(&self, now_ms: u64) -> anyhow::Result<Lifetime> {
        let span = |name: &str, text: &str| parse_span(text).map_err(|what| anyhow!("--{name}: {what}"));
        Ok(Lifetime {
            now_ms,
            from_ms: parse_time(&self.publish, now_ms).map_err(|what| anyhow!("--publish: {what}"))?,
            days_ms: self.days * DAY_MS,
            max_age_ms: span("max-age", &self.max_age)?,
            grace_ms: span("grace", &self.grace)?,
        })
    }
}

pub(crate) fn run(action: OneShotKeysAction) -> anyhow::Result<()> {
    let now_ms = SystemClock.now_ms();
    match action {
        OneShotKeysAction::Add { file, form, life } => {
            let life = life.lifetime(now_ms)?;
            change(&file, now_ms, |keys| keys.generate(default_provider(), form.form(), life))
        }
        OneShotKeysAction::List { file } => list(&read(&file)?, now_ms),
        OneShotKeysAction::Retire { file, name, at, grace, now, force } => {
            let at_ms = parse_time(&at, now_ms).map_err(|what| anyhow!("--at: {what}"))?;
            let grace_ms = if now { 0 } else { parse_span(&grace).map_err(|what| anyhow!("--grace: {what}"))? };
            retire(&file, &name, (at_ms, grace_ms), now_ms, force)
        }
        OneShotKeysAction::Import { file, from, source, purpose, kem, key_id, life } => {
            let life = life.lifetime(now_ms)?;
            if from == Origin::Ehbp && (purpose.is_some() || kem.is_some() || key_id.is_some()) {
                bail!(
                    "--use, --kem, --key-id: only --from seed takes them; a key of EHBP has use ehbp, x25519 and id 0"
                );
            }
            change(&file, now_ms, |keys| match (from, purpose, kem) {
                (Origin::Seed, Some(purpose), Some(kem)) => {
                    let form = Form { purpose: purpose.into(), kem, key_id };
                    keys.import_seed(default_provider(), &source, form, life)
                }
                _ => keys.import_ehbp(default_provider(), &source, life),
            })
        }
        OneShotKeysAction::Psk { master, id } => {
            writeln!(out(), "{}", *issue_psk(default_provider(), &master, &id)?)?;
            Ok(())
        }
        OneShotKeysAction::Sign { file, root, expires_in } => sign(&file, &root, &expires_in, now_ms),
    }
}

fn read(file: &Path) -> anyhow::Result<KeyFile> {
    Ok(KeyFile::read(default_provider(), file)?)
}

/// Adds a key to a file, which is made if it is not there, and prints the key.
fn change<E>(
    file: &Path,
    now_ms: u64,
    add: impl FnOnce(&mut KeyFile) -> Result<std::sync::Arc<Key>, E>,
) -> anyhow::Result<()>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let is_new = !file.exists();
    let mut keys = if is_new { KeyFile::default() } else { read(file)? };
    let key = add(&mut keys).with_context(|| file.display().to_string())?;
    if is_new {
        keys.create(file)?;
    } else {
        keys.replace(file)?;
    }
    print(&key, now_ms)?;
    warn_if_behind(&keys, now_ms);
    Ok(())
}

fn list(keys: &KeyFile, now_ms: u64) -> anyhow::Result<()> {
    keys.keys().try_for_each(|key| print(key, now_ms))?;
    if let Some(document) = keys.signed_document() {
        let (issued, expires) = (iso8601(document.issued_ms), iso8601(document.expires_ms));
        writeln!(out(), "signed by a root, issued {issued}, expires {expires}")?;
    }
    warn_if_behind(keys, now_ms);
    Ok(())
}

fn print(key: &Key, now_ms: u64) -> anyhow::Result<()> {
    let condition = match key.times().condition(now_ms) {
        Condition::Future => "future",
        Condition::Published => "published",
        Condition::Preferred => "preferred",
        Condition::Accepted => "accepted",
        Condition::Over => "over",
    };
    let times = key.times();
    let kem = sealway_gateway::one_shot::kem_name(key.config().public_key().kem());
    writeln!(
        out(),
        "{}  {:<5}  {kem:<13}  id {:<3}  {condition:<9}  preferred {}  published until {}  accepted until {}",
        key.name(),
        key.purpose().name(),
        key.config().key_id(),
        iso8601(times.preferred_ms),
        iso8601(times.published_until_ms),
        iso8601(times.accepted_until_ms)
    )?;
    Ok(())
}

fn warn_if_behind(keys: &KeyFile, now_ms: u64) {
    if keys.is_behind(now_ms) {
        tell(format_args!("The root signed other keys or times than the file has now: sign it again."));
    }
}

fn retire(file: &Path, name: &str, times: (u64, u64), now_ms: u64, force: bool) -> anyhow::Result<()> {
    let mut keys = read(file)?;
    let retired = keys.retire(default_provider(), name, times, now_ms, force);
    let retired = retired.with_context(|| file.display().to_string())?;
    keys.replace(file)?;
    match retired {
        Some(key) => print(&key, now_ms)?,
        None => writeln!(out(), "{name} was not published yet and is in the file no more")?,
    }
    warn_if_behind(&keys, now_ms);
    Ok(())
}

fn sign(file: &Path, root: &Path, expires_in: &str, now_ms: u64) -> anyhow::Result<()> {
    let expires_in_ms = parse_span(expires_in).map_err(|what| anyhow!("--expires-in: {what}"))?;
    let root = Root::read(default_identity_library(), root)?;
    let mut keys = read(file)?;
    let signed = keys.sign(default_provider(), &root, now_ms, now_ms.saturating_add(expires_in_ms));
    signed.with_context(|| file.display().to_string())?;
    keys.replace(file)?;
    list(&keys, now_ms)
}
