//! Acceptance of TCP connections, for the listeners of metrics and of the transit API.

use std::sync::Arc;
use std::time::Duration;

use sealway_runtime::shutdown::Shutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Pause after a failed accept, as when the process is out of file descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Runs `serve` on each connection until shutdown begins, on at most `connections_max` at once; further ones wait. `of` names the
/// listener in the log.
pub(crate) async fn each<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    (of, connections_max): (&'static str, usize),
    shutdown: Shutdown,
    serve: impl Fn(TcpStream) -> F + Send,
) {
    let room = Arc::new(Semaphore::new(connections_max));
    loop {
        let accepted = async {
            let permit = room.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = shutdown.begun() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let served = serve(stream);
                shutdown.spawn(async move {
                    let _permit = permit;
                    served.await;
                });
            }
            Err(err) => {
                tracing::warn!(%err, listener = of, "accepting a connection failed");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}
