//! The scripted server as a program, to be driven by hand: `scripted '{"latency":{"constant":{"us":5000}}}' [PORT [CERT KEY]]`.
//! It prints its address; each line on standard input is answered by the record so far, as JSON, and `forget` begins a new
//! one. It ends with its input.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::io::BufRead;

use anyhow::Context;
use sealway_testkit::scripted::{Script, ScriptedServer, ServerTls};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let script: Script = match arguments.next() {
        Some(text) => serde_json::from_str(&text).context("the script is not one")?,
        None => Script::default(),
    };
    let port = arguments.next().map(|port| port.parse()).transpose().context("not a port")?.unwrap_or_default();
    let tls = match (arguments.next(), arguments.next()) {
        (Some(certificate), Some(key)) => {
            Some(ServerTls { certificate: (certificate.into(), key.into()), client_ca: None, resumes: true })
        }
        _ => None,
    };
    let server = ScriptedServer::start(script, tls.as_ref(), port)?;
    println!("{}", server.address());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        println!("{}", server.record().json());
        if line.trim() == "forget" {
            server.forget();
        }
    }
    Ok(())
}
