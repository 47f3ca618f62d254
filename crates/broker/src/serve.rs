//! Runs a broker: from settings to serving, and to an orderly end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, geteuid};
use sealway_runtime::clock::SystemClock;
use sealway_runtime::inventory::{self, Keeper};
use sealway_runtime::shutdown::{Shutdown, StopSignals};
use sealway_runtime::telemetry as runtime_telemetry;

use crate::audit::Audit;
use crate::benchmark::Inputs;
use crate::callers::Callers;
use crate::keys::{self, Kek, Store, Wrap};
use crate::module::{self, module};
use crate::profile::approval;
use crate::profile::{Leniency, Live, LiveFile, Profiles, lines};
use crate::server::Server;
use crate::service::{Service, Turns};
use crate::settings::{self, Settings};
use crate::wire::transit::{self, Tokens, Transit};
use crate::wire::{Options, Wires};
use crate::{Code, scrape, socket};

/// Time for calls in flight at a stop.
const DRAIN: Duration = Duration::from_secs(30);
/// Exit code for wrong settings or profiles, that of the broker that this one replaces.
const WRONG: u8 = 2;

/// Reason why a broker does not serve.
#[derive(Debug)]
pub struct Failure {
    /// Exit code of the process.
    pub code: u8,
    /// Text for standard error; may have several lines.
    pub text: String,
}

impl Failure {
    /// Creates the failure for wrong settings or profiles, one line each.
    pub fn wrong(text: impl Into<String>) -> Failure {
        Failure { code: WRONG, text: text.into() }
    }

    fn other(text: impl ToString) -> Failure {
        Failure { code: 1, text: text.to_string() }
    }
}

/// Serves until SIGTERM or SIGINT. Must run inside a multi-threaded tokio runtime, once per process. Other users cannot
/// access the files that this process creates from now on.
///
/// # Errors
/// [`Failure`]: the broker did not serve.
pub async fn run(settings: Settings) -> Result<(), Failure> {
    socket::keep_others_out();
    let is_shut = shut_memory();
    let mut signals = StopSignals::install().map_err(Failure::other)?;
    let telemetry =
        runtime_telemetry::init_slog(&settings.log, &settings.service, &settings.exports).map_err(Failure::wrong)?;
    telemetry.probe();
    if let Err(err) = is_shut {
        tracing::warn!(%err, "other processes of this user can read this process's memory");
    }
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    // Always on: metrics without a reader must not be a special case. Before the files: their counters begin at 0.
    let metrics = telemetry.metrics().map_err(Failure::other)?;
    runtime_telemetry::describe(crate::METRICS);
    runtime_telemetry::describe(sealway_pkcs11::METRICS);
    let shutdown = Shutdown::new();
    let inventory = keep_inventory(&settings)?;
    let tokens_of_keys = tokens_of_keys(&settings)?;
    let service = Arc::new(service(&settings, &tokens_of_keys)?);
    let socket = socket::bind(&settings.place).map_err(Failure::other)?;
    if let Some(address) = settings.metrics {
        scrape::serve(address, scrape::render(metrics.clone()), tokens_of_keys.clone(), &shutdown)
            .map_err(Failure::other)?;
    }
    scrape::keep(metrics, &shutdown);
    if let Some(keeper) = &inventory {
        shutdown.spawn(keeper.clone().run(shutdown.clone()));
    }
    let tokens = tokens(&settings)?;
    watch(&service, tokens.as_ref(), &shutdown);
    wrap_anew(&service);
    let dev = settings.is_dev.then(|| Inputs::load(&settings.benchmark)).transpose().map_err(Failure::wrong)?;
    let calls_memory = settings.calls_memory;
    let options = Options { has_earlier_wires: settings.has_earlier_wires, dev, calls_memory };
    let wires = Arc::new(Wires::new(service.clone(), options));
    if let Some((transit, tokens)) = settings.transit.zip(tokens.clone()) {
        let api = Transit::new(wires.clone(), tokens, transit.mount);
        transit::serve(api, transit.address, &shutdown).map_err(Failure::other)?;
    }
    let path = socket.path().to_owned();
    let server = Server::start(socket, wires, settings.limits, shutdown).map_err(Failure::other)?;
    let module = module();
    tracing::info!(
        socket = %path.display(),
        version = env!("CARGO_PKG_VERSION"),
        module = module.version,
        certificate = module.certificate.unwrap_or("none"),
        fips = module.is_fips,
        "serving"
    );
    let why = until_stopped(&mut signals, &service, tokens.as_ref()).await;
    tracing::info!(why, "stopping: answering the requests in flight");
    let dropped = server.stop(DRAIN).await;
    if dropped > 0 {
        tracing::warn!(dropped, "calls exceeded their deadline and were dropped");
    }
    if let Some(Err(err)) = inventory.map(|keeper| keeper.close()) {
        tracing::error!(%err, "the last counts of the inventory were not written");
    }
    // Closed explicitly, as tasks may still hold the service when this process ends.
    if let Some(keys) = &service.keys {
        keys.close();
    }
    Ok(())
}

/// Begins to count, and takes a file of the inventory's folder.
fn keep_inventory(settings: &Settings) -> Result<Option<Arc<Keeper>>, Failure> {
    let inventory = inventory::install();
    let Some(folder) = &settings.inventory else { return Ok(None) };
    let keeper = Keeper::open(folder, "broker", inventory, Arc::new(SystemClock));
    keeper.map(|keeper| Some(Arc::new(keeper))).map_err(|err| Failure::other(format!("--inventory: {err}")))
}

/// Protects the keys in this process's memory: it leaves no core dump, and other processes of its user cannot read its
/// memory or the environment of its start.
fn shut_memory() -> rustix::io::Result<()> {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, none)?;
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Loads all dependencies of the operations; nothing listens yet.
fn service(settings: &Settings, tokens_of_keys: &keys::Tokens) -> Result<Service, Failure> {
    let leniency = if settings.is_lenient { Leniency::Lenient } else { Leniency::Strict };
    let wrong = |file: &Path, problems: &[_]| Failure::wrong(format!("{}:\n{}", file.display(), lines(problems)));
    let profiles = Live::load(&settings.profiles, leniency).map_err(|problems| wrong(&settings.profiles, &problems))?;
    let (demanded, is_fips) = (settings.fips, module().is_fips);
    module::require(demanded.max(profiles.current().require_fips()))
        .map_err(|text| Failure { code: module::EXIT_CODE, text })?;
    let check = move |profiles: &Profiles| {
        for problem in approval::problems(profiles).iter().filter(|_| is_fips) {
            tracing::warn!(%problem, "disabled in the FIPS build");
        }
        approval::check(profiles, demanded, is_fips)
    };
    check(&profiles.current()).map_err(|problems| Failure { code: module::EXIT_CODE, text: lines(&problems) })?;
    let profiles = profiles.held_to(check);
    let callers = settings
        .callers
        .as_deref()
        .map(|path| LiveFile::<Callers>::load(path, leniency).map(Arc::new).map_err(|problems| wrong(path, &problems)));
    let audit = settings.audit.as_deref().map(|path| {
        Audit::open_with(path, settings.durability, Arc::new(SystemClock))
            .map_err(|err| Failure::other(format!("--audit: {}: {err}", path.display())))
    });
    Ok(Service {
        profiles: Arc::new(profiles),
        callers: callers.transpose()?,
        audit: audit.transpose()?,
        keys: keys(settings, tokens_of_keys)?,
        clock: Arc::new(SystemClock),
        owner: Callers::only(geteuid().as_raw()),
        is_fips,
        turns: Turns::default(),
    })
}

/// Loads the tokens of the transit API.
fn tokens(settings: &Settings) -> Result<Option<Arc<LiveFile<Tokens>>>, Failure> {
    let Some(transit) = &settings.transit else { return Ok(None) };
    let leniency = if settings.is_lenient { Leniency::Lenient } else { Leniency::Strict };
    let loaded = LiveFile::load(&transit.tokens, leniency).map(|tokens| Some(Arc::new(tokens)));
    loaded.map_err(|problems| Failure::wrong(format!("{}:\n{}", transit.tokens.display(), lines(&problems))))
}

/// Starts the host processes of the tokens.
fn tokens_of_keys(settings: &Settings) -> Result<keys::Tokens, Failure> {
    if module().is_fips && !settings.pkcs11.is_empty() {
        let text = "--pkcs11: a token's module is not the validated module of this build";
        return Err(Failure { code: module::EXIT_CODE, text: text.into() });
    }
    let start = |token: &sealway_pkcs11::Options| sealway_pkcs11::Token::start(token.clone());
    let tokens: Result<Vec<_>, _> = settings.pkcs11.iter().map(start).collect();
    let tokens = keys::Tokens::new(tokens.map_err(|err| Failure::wrong(format!("--pkcs11: {err}")))?);
    let Some(uri) = &settings.pkcs11_generate else { return Ok(tokens) };
    tokens.generating_on(uri).map_err(|err| {
        let text = err.text.replace("material: ", "");
        Failure::wrong(format!("--pkcs11-generate: {text}"))
    })
}

fn keys(settings: &Settings, tokens: &keys::Tokens) -> Result<Option<Store>, Failure> {
    let Some(folder) = &settings.keys else { return Ok(None) };
    let file = |path| Kek::from_file(path).map_err(|err| Failure::wrong(format!("--kek-file: {err}")));
    let wrap: Box<dyn Wrap> = match (&settings.kek_pkcs11, &settings.kek) {
        (Some(uri), earlier) => {
            let kek = tokens.kek(uri).map_err(|err| Failure {
                // A restart that does not help must not try the PIN again: a few tries lock it.
                code: if err.code == Code::FailedPrecondition { module::EXIT_CODE } else { 1 },
                text: format!("--kek-pkcs11: {err}"),
            })?;
            match earlier {
                Some(path) => Box::new(kek.with_earlier(file(path)?)),
                None => Box::new(kek),
            }
        }
        (None, Some(path)) => Box::new(file(path)?),
        (None, None) => {
            Box::new(Kek::from_env(settings::KEK).map_err(|err| Failure::wrong(format!("--kek-file: {err}")))?)
        }
    };
    let opened = Store::open_with(folder, settings.place.is_folder_shared, wrap, tokens.clone());
    opened.map(Some).map_err(|err| Failure::other(format!("--keys: {err}")))
}

/// Starts to rewrap keys that are wrapped under another key-encryption key than the first, in the background.
fn wrap_anew(service: &Arc<Service>) {
    let service = service.clone();
    tokio::task::spawn_blocking(move || match service.keys.as_ref().map(Store::rewrap) {
        None | Some(Ok(0)) => {}
        Some(Ok(keys)) => {
            tracing::info!(keys, "keys rewrapped: only the first key-encryption key is needed from now on");
        }
        Some(Err(refusal)) => tracing::error!(%refusal, "not all keys were rewrapped; the next start retries"),
    });
}

/// Reloads files when they change.
fn watch(service: &Service, tokens: Option<&Arc<LiveFile<Tokens>>>, shutdown: &Shutdown) {
    shutdown.spawn(service.profiles.clone().watch(shutdown.clone()));
    if let Some(callers) = &service.callers {
        shutdown.spawn(callers.clone().watch(shutdown.clone()));
    }
    if let Some(tokens) = tokens {
        shutdown.spawn(tokens.clone().watch(shutdown.clone()));
    }
}

/// Waits for a signal to stop, and returns its name; reloads files on other signals.
async fn until_stopped(
    signals: &mut StopSignals,
    service: &Arc<Service>,
    tokens: Option<&Arc<LiveFile<Tokens>>>,
) -> &'static str {
    loop {
        let (stops, why) = signals.next().await;
        if stops {
            return why;
        }
        let (service, tokens) = (service.clone(), tokens.cloned());
        let reload = move || {
            // The log has the outcome of each reload.
            let _ = service.profiles.reload();
            let _ = service.callers.as_ref().map(|callers| callers.reload());
            let _ = tokens.map(|tokens| tokens.reload());
            let _ = service.audit.as_ref().map(|audit| audit.reopen());
        };
        if tokio::task::spawn_blocking(reload).await.is_err() {
            tracing::error!("reloading files failed");
        }
    }
}
