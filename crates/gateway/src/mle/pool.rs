//! Private operations off the reactor's threads: an RSA-2048 operation takes about as long as hundreds of plain requests, and
//! anybody with a certificate can ask for one.

use std::sync::Arc;
use std::sync::LazyLock;

use sealway_runtime::http::Origin;
use sealway_runtime::http::share::{Share, SharedBudget, Taker};
use tokio::sync::Semaphore;

/// Private operations that may wait for a thread, those at work included.
const WAITING_MAX: u64 = 1024;
/// Private operations of one network of clients that may wait.
const WAITING_PER_NETWORK_MAX: u64 = 256;

/// The threads of this process for private operations: as many as it has cores, whatever the number of routes.
static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Pool { threads: Semaphore::new(threads), waiting: SharedBudget::new(WAITING_MAX) }
});

struct Pool {
    threads: Semaphore,
    waiting: Arc<SharedBudget>,
}

/// No thread is free, and too many messages wait for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overload;

/// Runs work that blocks, of so many `operations`, on a thread of its own, after those that came before. A caller that goes away does
/// not end it: the thread and the places are free when it has ended.
///
/// # Errors
/// [`Overload`], before anything was done.
pub(super) async fn run<T: Send + 'static>(
    origin: Option<&Origin>,
    operations: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Overload> {
    Place::take(origin, operations)?.run(work).await
}

/// The places of one message among those that wait.
pub(super) struct Place {
    _share: Share,
}

impl Place {
    /// Takes as many places as the message has operations.
    ///
    /// # Errors
    /// [`Overload`]: all are taken, or the network of the client has its share.
    pub(super) fn take(origin: Option<&Origin>, operations: usize) -> Result<Place, Overload> {
        let network = Taker::network(origin).map(|network| (network, WAITING_PER_NETWORK_MAX));
        let mut share = POOL.waiting.share([network, None]);
        if share.grow(operations as u64) { Ok(Place { _share: share }) } else { Err(Overload) }
    }

    /// Runs work that blocks when a thread is free. The places are held until it has ended.
    ///
    /// # Errors
    /// [`Overload`]: the work panicked, or the runtime shuts down.
    pub(super) async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Overload> {
        let thread = POOL.threads.acquire().await.map_err(|_| Overload)?;
        let work = move || {
            let _held = (thread, self);
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| Overload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_network_has_its_share_of_the_places_and_no_more() {
        let origin = |client: &str| Origin {
            listener: "a".into(),
            peer: sealway_runtime::http::Peer::Unix,
            client: Some(client.parse().unwrap()),
            is_tls: false,
            certificate: None,
        };
        let one = Arc::new(origin("192.0.2.1"));
        let sleep = || std::thread::sleep(Duration::from_millis(20));
        let calls: Vec<_> = (0..WAITING_PER_NETWORK_MAX + 5)
            .map(|_| {
                let one = one.clone();
                tokio::spawn(async move { run(Some(&one), 1, sleep).await })
            })
            .collect();
        // Another network is served meanwhile.
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(run(Some(&origin("192.0.2.2")), 1, || 7).await, Ok(7));
        let mut refused = 0;
        for call in calls {
            refused += u64::from(call.await.unwrap().is_err());
        }
        assert_eq!(refused, 5);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_caller_that_goes_away_keeps_its_place_until_the_work_has_ended() {
        let before = POOL.waiting.taken();
        let (to, end) = std::sync::mpsc::channel::<()>();
        let call = tokio::spawn(async move { run(None, 3, move || end.recv().is_ok()).await });
        while POOL.waiting.taken() < before + 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // The work has begun before its caller is gone.
        tokio::time::sleep(Duration::from_millis(50)).await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        assert_eq!(POOL.waiting.taken(), before + 3);
        to.send(()).unwrap();
        while POOL.waiting.taken() > before {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
