//! A relay and a control plane in this process, for a demonstration in two terminals.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use sealway_client::channel::{Control, Grants, Role};
use sealway_proto::crypto::default_provider;
use sealway_proto::relay::{Binding, Issuer, Minting, random_name};
use sealway_relay::control::{ControlServer, ControlSettings, Tokens};
use sealway_relay::key_file;
use sealway_relay::server::Server;
use sealway_relay::settings::Settings;
use sealway_runtime::clock::SystemClock;
use sealway_runtime::config::write_secret;
use sealway_runtime::listener::parse_address;

const AUDIENCE: &str = "demo";
const LOOPBACK: &str = "127.0.0.1:0";

/// Relay and control plane on loopback, with a folder of their keys and their token; dropping it removes all of them.
pub(super) struct Demo {
    folder: tempfile::TempDir,
    token: String,
    url: String,
    _relay: Server,
    _control: ControlServer,
}

impl Demo {
    pub(super) async fn start() -> anyhow::Result<Demo> {
        let folder = tempfile::Builder::new().prefix("sealway-channel-").tempdir()?;
        let (key, keyset) = (folder.path().join("issuer-key.json"), folder.path().join("issuer-keys.json"));
        key_file::make_keys("demo", &Binding::default(), &key, &keyset)?;
        let listen = parse_address(LOOPBACK).map_err(anyhow::Error::msg)?;
        let settings = Settings { aud: vec![AUDIENCE.into()], ..Settings::new(listen.clone(), &keyset) };
        let relay = Server::start(settings, Arc::new(SystemClock), String::new).await?;
        let address = relay.addresses().first().context("the relay has no address")?;
        let minting = Minting::native(&format!("ws://{address}{}", relay.ws_path()), AUDIENCE, "");
        let token = random_name(default_provider())?;
        let tokens = Tokens::parse(&token).map_err(|_| anyhow::anyhow!("the token is none"))?;
        let issuer = Issuer::new(key_file::read_issuer_key(&key)?, minting, default_provider())?;
        let control = ControlSettings { listen, tls: None, tokens, issuer, names_per_client_max: None };
        let control = ControlServer::start(control, Arc::new(SystemClock))?;
        let url = format!("http://{}", control.addresses().first().context("the control plane has no address")?);
        write_secret(&folder.path().join("token"), &token)?;
        Ok(Demo { folder, token, url, _relay: relay, _control: control })
    }

    /// Source of this process's grants.
    pub(super) fn grants(&self, name: &str) -> anyhow::Result<Grants> {
        Ok(Grants::Control(Box::new(Control::new(&self.url, name, Role::Server, Some(&self.token), None)?)))
    }

    /// Command for the other terminal.
    pub(super) fn command(&self, name: &str) -> String {
        let token: PathBuf = self.folder.path().join("token");
        format!(
            "sealway channel connect --listen 127.0.0.1:9001 --control {} --token-file {} --name {name}",
            self.url,
            token.display()
        )
    }
}
