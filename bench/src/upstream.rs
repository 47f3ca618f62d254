//! The service behind every proxy: a fixed answer of 128 bytes, as cheap as possible, on kept connections.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const BODY_LEN: usize = 128;

/// Serves until the listener fails. It supports only requests without a body.
pub(crate) async fn run(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let _ = serve(stream).await;
        });
    }
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {BODY_LEN}\r\n\r\n{}",
        "a".repeat(BODY_LEN)
    );
    let mut buffer = vec![0; 16 * 1024];
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Ok(());
        }
        filled += read;
        let mut start = 0;
        while let Some(end) = buffer[start..filled].windows(4).position(|window| window == b"\r\n\r\n") {
            start += end + 4;
            stream.write_all(answer.as_bytes()).await?;
        }
        if start == 0 && filled == buffer.len() {
            return Ok(());
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
    }
}
