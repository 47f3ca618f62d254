//! The baseline: the same number of bytes in both directions over a Unix socket, with blocking reads and writes and no other
//! work.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::driver::CaseFigures;

/// Serves one connection after another until it is killed.
pub(crate) fn serve(socket: &Path, len: usize) -> anyhow::Result<()> {
    let listener = UnixListener::bind(socket)?;
    let mut bytes = vec![0; len];
    for stream in listener.incoming() {
        let mut stream = stream?;
        while stream.read_exact(&mut bytes).is_ok() && stream.write_all(&bytes).is_ok() {}
    }
    Ok(())
}

/// Sends one message after another for this time.
pub(super) fn drive(socket: &Path, len: usize, time: Duration) -> anyhow::Result<CaseFigures> {
    let mut stream = UnixStream::connect(socket)?;
    let (mut bytes, mut times) = (vec![7; len], Histogram::<u64>::new(3)?);
    let start = Instant::now();
    while start.elapsed() < time {
        let before = Instant::now();
        stream.write_all(&bytes)?;
        stream.read_exact(&mut bytes)?;
        times.record(u64::try_from(before.elapsed().as_nanos())?)?;
    }
    Ok(CaseFigures { calls: times.len(), elapsed: start.elapsed(), times })
}
