//! Supervision of a token's host process: its start, its turns, its checks and its restarts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use zeroize::Zeroizing;

use crate::child::Host;
use crate::host::SESSIONS_MAX;
use crate::message::{Open, Operation, Ping};
use crate::queue::{Caller, Full, Queue};
use crate::{Error, Fault, Options, PinSource};

/// Shortest and longest wait before a restart; it doubles with each failure.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Life of a host after which its end counts as the first failure.
const STABLE: Duration = Duration::from_secs(2);
/// Interval of the checks of an idle token.
const CHECK: Duration = Duration::from_secs(2);
/// Shortest deadline of a start: some modules connect to machines.
const START: Duration = Duration::from_secs(15);
/// Deadline of a generation of a key; RSA takes long on a card.
const GENERATION: Duration = Duration::from_secs(120);
/// Shortest and longest wait after a login that failed for another reason than its PIN: some tokens count it as a wrong one.
const LOGIN_BACK_OFF: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

/// State that a token shares with its threads.
pub(crate) struct SharedState {
    pub(crate) options: Options,
    pub(crate) module: PathBuf,
    pub(crate) pin: PinSource,
    pub(crate) name: String,
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Condvar,
}

/// Changing state of a token, under a lock.
pub(crate) struct State {
    pub(crate) host: Option<Arc<Host>>,
    /// Reason why there is no host.
    pub(crate) why: Error,
    /// True until the end of the first start.
    pub(crate) is_starting: bool,
    pub(crate) is_closed: bool,
    /// Number of the last started host: the end of an earlier one changes nothing.
    pub(crate) generation: u64,
    /// Operations in the host, and calls that wait for their turn.
    pub(crate) running: u32,
    pub(crate) waiting: Queue,
    /// PIN that the token rejected, and how.
    pub(crate) rejected: Option<(Zeroizing<String>, Error)>,
    /// PIN of a login that failed for another reason.
    pub(crate) failed_pin: Option<Zeroizing<String>>,
}

impl SharedState {
    /// Creates the state of a token that has not started.
    pub(crate) fn new(options: Options, module: PathBuf, pin: PinSource, name: String) -> SharedState {
        metrics::gauge!("sealway_pkcs11_up", "token" => name.clone()).set(0.0);
        let state = State {
            host: None,
            why: Fault::NotReady.into(),
            is_starting: true,
            is_closed: false,
            generation: 0,
            running: 0,
            waiting: Queue::default(),
            rejected: None,
            failed_pin: None,
        };
        SharedState { options, module, pin, name, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for a host and a session, and runs an operation. Each operation in the host has a session, so that one which
    /// does not end in time hangs.
    pub(crate) fn call(&self, operation: Operation) -> Result<Vec<u8>, Error> {
        let deadline = match operation {
            Operation::Generate(_) => self.options.deadline.max(GENERATION),
            _ => self.options.deadline,
        };
        let host = self.turn(Caller::current())?;
        let done = host.call(operation, deadline);
        let mut state = self.state.lock();
        state.running = state.running.saturating_sub(1);
        self.changed.notify_all();
        done
    }

    /// Waits for a host with a free session, in the rotation of the callers.
    fn turn(&self, caller: Caller) -> Result<Arc<Host>, Error> {
        let end = Instant::now() + self.options.deadline;
        let mut state = self.state.lock();
        let ticket = state.waiting.enter(caller).map_err(|full| match full {
            Full::All => Fault::Busy,
            Full::Share => Fault::Share,
        })?;
        loop {
            match &state.host {
                Some(host)
                    if state.running < self.options.sessions.clamp(1, SESSIONS_MAX)
                        && state.waiting.is_next(ticket) =>
                {
                    let host = host.clone();
                    state.waiting.advance();
                    state.running += 1;
                    // Several sessions may be free.
                    self.changed.notify_all();
                    return Ok(host);
                }
                // A token that is down fails fast, except at the start and shortly after.
                None if !state.is_starting => {
                    state.waiting.leave(ticket);
                    return Err(state.why.clone());
                }
                _ => {}
            }
            if self.changed.wait_until(&mut state, end).timed_out() {
                state.waiting.leave(ticket);
                // The next one may have its turn now.
                self.changed.notify_all();
                return Err(if state.host.is_some() { Fault::Busy.into() } else { state.why.clone() });
            }
        }
    }

    /// Starts a host, and logs in.
    fn start(self: &Arc<Self>) -> Result<Arc<Host>, Error> {
        let pin = self.pin.read()?;
        if let Some((_, err)) = self.state.lock().rejected.as_ref().filter(|(rejected, _)| *rejected == pin) {
            return Err(err.clone());
        }
        metrics::counter!("sealway_pkcs11_starts_total", "token" => self.name.clone()).increment(1);
        let Options { uri, program, arguments, hidden, deadline, sessions } = &self.options;
        let hidden: Vec<String> = hidden.iter().cloned().chain(self.pin.variable().map(str::to_owned)).collect();
        let generation = {
            let mut state = self.state.lock();
            state.generation += 1;
            state.generation
        };
        let weak = Arc::downgrade(self);
        let on_end = move || {
            let Some(shared) = weak.upgrade() else { return };
            let mut state = shared.state.lock();
            if state.generation == generation {
                state.host = None;
                // Not the reason of an earlier failure; a restart begins at once.
                (state.why, state.is_starting) = (ended(), true);
            }
            shared.changed.notify_all();
        };
        let started = Host::start(program, arguments, &hidden, *deadline, on_end);
        let host = started.map_err(|err| Error::new(Fault::HostDied, format!("the process does not start: {err}")))?;
        let open = Open {
            module: self.module.display().to_string(),
            token: uri.token.clone(),
            serial: uri.serial.clone(),
            manufacturer: uri.manufacturer.clone(),
            model: uri.model.clone(),
            pin: pin.as_str().to_owned(),
            sessions: *sessions,
        };
        if let Err(err) = host.call(Operation::Open(open), START.max(*deadline)) {
            host.kill();
            let mut state = self.state.lock();
            // The end of this host says less than its error, and may come later.
            state.generation += 1;
            state.failed_pin = (err.fault == Fault::Login).then(|| pin.clone());
            // A lock that the token's flags show has no detail: the PIN was not tried.
            if err.fault == Fault::PinWrong || (err.fault == Fault::PinLocked && !err.detail.is_empty()) {
                state.rejected = Some((pin, err.clone()));
            }
            return Err(err);
        }
        Ok(host)
    }
}

fn ended() -> Error {
    Error::new(Fault::NotReady, "its host process ended")
}

/// Returns the wait before the next start and the pause of the one after it, if this fault ended the last one.
fn back_off(pause: Duration, fault: Fault) -> (Duration, Duration) {
    let (least, most) = if fault == Fault::Login { LOGIN_BACK_OFF } else { BACK_OFF };
    let wait = pause.clamp(least, most);
    (wait, (wait * 2).min(most))
}

/// Keeps a host running until the token is closed.
pub(crate) fn supervise(shared: &Arc<SharedState>) {
    let gauge = metrics::gauge!("sealway_pkcs11_up", "token" => shared.name.clone());
    let mut pause = BACK_OFF.0;
    let mut logged: Option<Fault> = None;
    while !shared.state.lock().is_closed {
        let begin = Instant::now();
        let why = match shared.start() {
            Ok(host) => {
                tracing::info!(token = %shared.name, "the token is ready");
                logged = None;
                gauge.set(1.0);
                let why = watch(shared, &host);
                gauge.set(0.0);
                if begin.elapsed() >= STABLE {
                    pause = BACK_OFF.0;
                }
                why
            }
            Err(err) => err,
        };
        if logged != Some(why.fault) && !shared.state.lock().is_closed {
            tracing::warn!(token = %shared.name, reason = why.fault.name(), err = %why, "the token is not ready");
            logged = Some(why.fault);
        }
        let fault = why.fault;
        let mut state = shared.state.lock();
        // Calls wait for a restart that probably repairs it at once, and for no other.
        (state.why, state.is_starting) = match why.fault {
            Fault::HostDied => (ended(), pause < BACK_OFF.1 / 4),
            _ => (why, false),
        };
        shared.changed.notify_all();
        let (wait, next) = back_off(pause, fault);
        pause = next;
        let end = Instant::now() + wait;
        while !state.is_closed && Instant::now() < end {
            // A long wait ends early if the operator changes the PIN.
            let look = end.min(Instant::now() + BACK_OFF.1);
            let is_late = shared.changed.wait_until(&mut state, look).timed_out();
            if is_late && state.failed_pin.is_some() {
                let pin = MutexGuard::unlocked(&mut state, || shared.pin.read());
                if pin.is_ok_and(|pin| state.failed_pin.as_ref() != Some(&pin)) {
                    break;
                }
            }
        }
    }
}

/// Serves with a host until it ends; returns why.
fn watch(shared: &Arc<SharedState>, host: &Arc<Host>) -> Error {
    {
        let mut state = shared.state.lock();
        if state.is_closed {
            host.kill();
            return Fault::NotReady.into();
        }
        (state.host, state.is_starting) = (Some(host.clone()), false);
        // The operations of the host before have ended: their calls return at its end.
        shared.changed.notify_all();
    }
    loop {
        {
            let mut state = shared.state.lock();
            let end = Instant::now() + CHECK;
            while state.host.is_some() && !state.is_closed && !shared.changed.wait_until(&mut state, end).timed_out() {}
            if state.host.is_none() {
                return Fault::HostDied.into();
            }
            if state.is_closed {
                return Fault::NotReady.into();
            }
            // Its operations have deadlines of their own, and may keep a module busy that does one thing at a time.
            if state.running > 0 {
                continue;
            }
        }
        let checked = shared.call(Operation::Ping(Ping {}));
        match checked {
            Ok(_) => {}
            // Busy: its sessions work.
            Err(err) if matches!(err.fault, Fault::Busy | Fault::Share | Fault::SessionCount) => {}
            Err(err) => {
                host.kill();
                let mut state = shared.state.lock();
                // As at a failed start, the end of this host must not replace the error.
                state.generation += 1;
                (state.host, state.why) = (None, err.clone());
                return err;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_logins_back_off_up_to_ten_minutes_and_other_failures_up_to_five_seconds() {
        let waits = |fault, count| {
            let mut pause = BACK_OFF.0;
            let mut next = move || {
                let (wait, next) = back_off(pause, fault);
                pause = next;
                wait.as_millis()
            };
            (0..count).map(|_| next()).collect::<Vec<_>>()
        };
        assert_eq!(waits(Fault::Login, 9), [5, 10, 20, 40, 80, 160, 320, 600, 600].map(|seconds| seconds * 1000));
        assert_eq!(waits(Fault::TokenAbsent, 8), [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        // Another failure than of a login is over sooner.
        assert_eq!(back_off(Duration::from_secs(160), Fault::TokenAbsent).0, BACK_OFF.1);
    }
}
