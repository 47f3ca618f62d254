//! Encrypts several texts in one call, decrypts them, and re-encrypts them after a rotation of the key: `broker_encrypt
//! SOCKET PROFILE KEY TEXT…`.
#![allow(clippy::print_stdout, reason = "an example prints")]

use sealway_client::broker::{Client, DecryptInput, Options, Plain};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, profile, key, texts @ ..] = arguments.as_slice() else {
        return Err("usage: broker_encrypt SOCKET PROFILE KEY TEXT…".into());
    };
    let broker = Client::new(Options::new(socket));
    let aad = b"example";
    let plains: Vec<_> =
        texts.iter().map(|text| Plain { plaintext: text.as_bytes(), aad, ..Plain::default() }).collect();
    let sealed = broker.encrypt(profile, key, &plains).await?;

    // Additional authenticated data is not part of the ciphertext: the caller passes it again.
    let to_open: Vec<_> = sealed.outputs.iter().map(|cipher| DecryptInput { cipher, aad }).collect();
    for (text, opened) in texts.iter().zip(broker.decrypt(profile, key, &to_open).await?.outputs) {
        // Each ciphertext has its own result.
        let opened = opened?;
        println!(
            "{} bytes came back {}",
            opened.len(),
            if &*opened == text.as_bytes() { "as they were" } else { "wrong" }
        );
    }

    let version = broker.rotate_key(key, b"").await?.versions.len();
    let renewed = broker.rewrap(profile, key, &to_open).await?;
    println!("{} texts are under version {version} of {key} now", renewed.outputs.iter().flatten().count());
    Ok(())
}
