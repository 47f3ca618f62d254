//! A certificate by a key that never leaves the broker: `broker_sign_certificate SOCKET PROFILE KEY CA.pem CSR.pem OUT.der`.
#![allow(clippy::print_stdout, reason = "an example prints")]

use sealway_client::broker::{CertificateRequest, Client, Delivery, Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, profile, ca_key, ca, csr, out] = arguments.as_slice() else {
        return Err("usage: broker_sign_certificate SOCKET PROFILE KEY CA.pem CSR.pem OUT.der".into());
    };
    let (ca_certificate, csr) = (std::fs::read(ca)?, std::fs::read(csr)?);
    let broker = Client::new(Options::new(socket));
    let request = CertificateRequest {
        profile,
        csr: &csr,
        ca_key,
        ca_certificate: &ca_certificate,
        crl_points: &["http://example.com/ca.crl"],
        ..CertificateRequest::default()
    };
    match broker.sign_certificate(&request).await {
        Ok(certificate) => {
            std::fs::write(out, &certificate.der)?;
            println!("signed by {} with {}", ca_key, certificate.descriptor.algorithm);
            Ok(())
        }
        // The broker rejected the request: the same request would fail again.
        Err(err) if err.sent == Delivery::Answered => Err(format!("refused: {}", err.text).into()),
        Err(err) => Err(err.into()),
    }
}
