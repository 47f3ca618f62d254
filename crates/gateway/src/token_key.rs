//! Keys of listeners on PKCS#11 tokens. Listeners of one token share its host process and its turns, also across reloads.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sealway_awslc::{Hash as Digest, PublicKey, Scheme};
use sealway_pkcs11::{Error, Fault, Hash, KeyName, Options, Signing, Token, Uri};
use sealway_runtime::tls::{ExternalKey, KeyFault, KeyScheme, Turns};

/// Arguments that make this program the host of a token's module.
const HOST: [&str; 1] = ["pkcs11-host"];
/// Time after which a key that was there is looked for again.
const CHECKED_FOR: Duration = Duration::from_secs(30);
/// Variables with secrets of this process, besides those that begin with `SEALWAY_`: a module does not get them.
const HIDDEN: [&str; 5] = ["DATABASE_URL", "DATABASE_PASSWORD", "POSTGRES_PASSWORD", "REDIS_URL", "REDIS_PASSWORD"];

/// Settings of a token from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenSettings {
    pub(crate) uri: Uri,
    pub(crate) sessions: u32,
    pub(crate) timeout: Duration,
    /// Variables of the PINs of all tokens.
    pub(crate) pin_variables: Vec<String>,
}

/// A running token, with the turns of all its listeners.
struct SharedToken {
    token: Token,
    turns: Arc<Turns>,
}

/// Tokens that run in this process, and their settings.
static RUNNING: Mutex<Vec<(Arc<TokenSettings>, Weak<SharedToken>)>> = Mutex::new(Vec::new());

/// The private key of a listener's certificate, on a token. The token starts at the first use.
pub(crate) struct TokenKey {
    settings: Arc<TokenSettings>,
    key: KeyName,
    /// URI of the key, for errors.
    name: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    token: Option<Arc<SharedToken>>,
    /// Public halves that were found to be the key's, by the host process that said so, and when.
    checked: HashMap<Vec<u8>, (Option<u32>, Instant)>,
}

/// Shows the settings alone: keys of the same settings are the same.
impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").field("name", &self.name).field("token", &self.settings).finish()
    }
}

impl TokenKey {
    /// Creates a key of a token, without a look at it.
    pub(crate) fn new(settings: Arc<TokenSettings>, key: KeyName, name: String) -> TokenKey {
        TokenKey { settings, key, name, state: Mutex::default() }
    }

    fn token(&self) -> Result<Arc<SharedToken>, KeyFault> {
        let mut state = self.state.lock();
        if let Some(token) = &state.token {
            return Ok(token.clone());
        }
        let token = running(&self.settings).map_err(|text| KeyFault {
            reason: "module",
            text: format!("{}: {text}", self.name),
            is_final: true,
        })?;
        Ok(state.token.insert(token).clone())
    }

    fn fault(&self, err: &Error) -> KeyFault {
        let is_final = !err.fault.is_unavailable() && err.fault != Fault::Data;
        KeyFault { reason: err.fault.name(), text: format!("{}: {err}", self.name), is_final }
    }

    fn other(&self) -> KeyFault {
        let text = format!("{}: the key on the token is not that of the certificate", self.name);
        KeyFault { reason: "other_key", text, is_final: true }
    }

    /// True if this host process has shown the key a short time ago.
    fn was_checked(&self, public: &[u8], host: Option<u32>) -> bool {
        let state = self.state.lock();
        state.checked.get(public).is_some_and(|(by, at)| *by == host && at.elapsed() < CHECKED_FOR)
    }
}

impl ExternalKey for TokenKey {
    fn check(&self, public: &[u8], wait: Duration) -> Result<(), KeyFault> {
        let shared = self.token()?;
        let ready = if wait.is_zero() { shared.token.health() } else { shared.token.wait_started(wait) };
        ready.map_err(|err| self.fault(&err))?;
        let host = shared.token.host_id();
        if self.was_checked(public, host) {
            return Ok(());
        }
        match shared.token.public_key(&self.key) {
            Ok(found) if is_same(&found, public) => {
                let mut state = self.state.lock();
                state.checked.clear();
                state.checked.insert(public.to_vec(), (host, Instant::now()));
                Ok(())
            }
            Ok(_) => Err(self.other()),
            Err(err) => Err(self.fault(&err)),
        }
    }

    fn sign(&self, public: &[u8], scheme: KeyScheme, message: &[u8]) -> Result<Vec<u8>, KeyFault> {
        let (signing, verified) = match scheme {
            KeyScheme::EcdsaP256 => (Signing::Ecdsa(Hash::Sha256, 32), Scheme::Ecdsa(Digest::Sha256)),
            KeyScheme::EcdsaP384 => (Signing::Ecdsa(Hash::Sha384, 48), Scheme::Ecdsa(Digest::Sha384)),
            KeyScheme::RsaPss256 => (Signing::RsaPss(Hash::Sha256), Scheme::RsaPss(Digest::Sha256)),
            KeyScheme::RsaPss384 => (Signing::RsaPss(Hash::Sha384), Scheme::RsaPss(Digest::Sha384)),
            KeyScheme::RsaPss512 => (Signing::RsaPss(Hash::Sha512), Scheme::RsaPss(Digest::Sha512)),
            KeyScheme::RsaPkcs1Sha256 => (Signing::RsaPkcs1(Hash::Sha256), Scheme::RsaPkcs1(Digest::Sha256)),
            KeyScheme::RsaPkcs1Sha384 => (Signing::RsaPkcs1(Hash::Sha384), Scheme::RsaPkcs1(Digest::Sha384)),
            KeyScheme::RsaPkcs1Sha512 => (Signing::RsaPkcs1(Hash::Sha512), Scheme::RsaPkcs1(Digest::Sha512)),
        };
        let signed = self.token()?.token.sign(&self.key, signing, message).map_err(|err| self.fault(&err));
        let signed = signed.and_then(|signature| {
            let verified = PublicKey::from_spki(public).and_then(|key| key.verify(verified, message, &signature));
            verified.map(|()| signature).map_err(|_| self.other())
        });
        if signed.as_ref().is_err_and(|fault| fault.is_final) {
            // The next check asks the token.
            self.state.lock().checked.clear();
        }
        signed
    }

    fn turns(&self) -> Arc<Turns> {
        let fresh = || Arc::new(Turns::new(self.settings.sessions as usize));
        self.token().map_or_else(|_| fresh(), |shared| shared.turns.clone())
    }
}

/// Compares keys and not their bytes: a point may be encoded with more or fewer parameters.
fn is_same(found: &[u8], public: &[u8]) -> bool {
    let encoded = |spki| PublicKey::from_spki(spki).and_then(|key| key.spki()).ok();
    encoded(found).is_some_and(|found| encoded(public) == Some(found))
}

/// Returns the running token of the same settings, or starts it.
fn running(settings: &Arc<TokenSettings>) -> Result<Arc<SharedToken>, String> {
    let mut running = RUNNING.lock();
    running.retain(|(_, token)| token.strong_count() > 0);
    let same = running.iter().find(|(other, _)| other == settings);
    if let Some(token) = same.and_then(|(_, token)| token.upgrade()) {
        return Ok(token);
    }
    let is_hidden = |name: &String| name.starts_with("SEALWAY_") || HIDDEN.contains(&name.as_str());
    let names = std::env::vars_os().map(|(name, _)| name).map(OsString::into_string);
    let hidden = names.filter_map(Result::ok).filter(is_hidden).chain(settings.pin_variables.clone());
    // The program of this process, also after its file was replaced.
    let program = match cfg!(target_os = "linux") {
        true => PathBuf::from("/proc/self/exe"),
        false => std::env::current_exe().map_err(|err| format!("the path of this program: {err}"))?,
    };
    let options = Options {
        uri: settings.uri.clone(),
        program,
        arguments: HOST.map(str::to_owned).into(),
        hidden: hidden.collect(),
        deadline: settings.timeout,
        sessions: settings.sessions,
    };
    let token = Token::start(options).map_err(|err| err.to_string())?;
    let turns = Arc::new(Turns::new(settings.sessions as usize));
    let token = Arc::new(SharedToken { token, turns });
    running.push((settings.clone(), Arc::downgrade(&token)));
    Ok(token)
}
