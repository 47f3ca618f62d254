//! Digests by the profile's algorithm: `broker_hash SOCKET PROFILE TEXT…`.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use sealway_client::broker::{Client, Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, profile, texts @ ..] = arguments.as_slice() else {
        return Err("usage: broker_hash SOCKET PROFILE TEXT…".into());
    };
    // The client connects with the first call, and reconnects after the broker was away.
    let broker = Client::new(Options::new(socket));
    let hashed = broker.within(Duration::from_secs(1)).hash(profile, texts).await?;
    println!("{}", hashed.descriptor.algorithm);
    for (text, digest) in texts.iter().zip(&hashed.outputs) {
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{hex}  {text}");
    }
    Ok(())
}
