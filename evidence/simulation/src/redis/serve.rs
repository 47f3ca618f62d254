//! Connections of clients to servers and Sentinels.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use super::db::text;
use super::resp::{self, Reply};
use super::{Door, Kind, MASTER, Redis, host};
use crate::net::{Host, Serving};

impl Redis {
    async fn serve_client(self: Arc<Self>, index: usize, mut stream: DuplexStream) {
        let (mut input, mut buffer, mut written) = (Vec::new(), vec![0; 16 * 1024], 0);
        let (listening, mut heard) = mpsc::unbounded_channel::<Vec<u8>>();
        loop {
            let len = tokio::select! {
                biased;
                Some(message) = heard.recv() => {
                    if stream.write_all(&message).await.is_err() { return }
                    continue;
                }
                read = stream.read(&mut buffer) => read.unwrap_or(0),
            };
            if len == 0 {
                return;
            }
            input.extend_from_slice(buffer.get(..len).unwrap_or_default());
            while let Some(arguments) = resp::take(&mut input) {
                let name = arguments.first().map(|name| text(name).to_ascii_uppercase()).unwrap_or_default();
                let reply = match (name.as_str(), arguments.get(1..).unwrap_or_default()) {
                    ("WAIT", [needed, ms]) => {
                        let number = |bytes: &[u8]| text(bytes).parse::<u64>().unwrap_or(0);
                        let needed = usize::try_from(number(needed)).unwrap_or(usize::MAX);
                        self.wait(index, written, needed, number(ms)).await
                    }
                    ("SUBSCRIBE", [channel]) => {
                        if let Some(node) = self.state.lock().nodes.get_mut(index) {
                            node.listeners.push((channel.clone(), listening.clone()));
                        }
                        Reply::Array(vec![Reply::text("subscribe"), Reply::text(channel.clone()), Reply::Int(1)])
                    }
                    _ => {
                        let (reply, len) = self.run(index, &arguments);
                        written = len;
                        reply
                    }
                };
                let mut out = Vec::new();
                reply.encode(&mut out);
                if stream.write_all(&out).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn serve_sentinel(self: Arc<Self>, number: usize, mut stream: DuplexStream) {
        let (mut input, mut buffer) = (Vec::new(), vec![0; 4096]);
        while let Ok(len @ 1..) = stream.read(&mut buffer).await {
            input.extend_from_slice(buffer.get(..len).unwrap_or_default());
            while let Some(arguments) = resp::take(&mut input) {
                let name = arguments.first().map(|name| text(name).to_ascii_uppercase()).unwrap_or_default();
                let reply = if name == "SENTINEL" { self.name_master(number) } else { Reply::Simple("PONG") };
                let mut out = Vec::new();
                reply.encode(&mut out);
                if stream.write_all(&out).await.is_err() {
                    return;
                }
            }
        }
    }

    fn name_master(&self, number: usize) -> Reply {
        let state = self.state.lock();
        let Some(view) = state.views.get(number) else { return Reply::Bulk(None) };
        let fields = [
            ("name", MASTER.to_owned()),
            ("ip", host(view.master)),
            ("port", "6379".to_owned()),
            ("config-epoch", view.term.to_string()),
            ("num-slaves", (state.nodes.len() - 1).to_string()),
        ];
        Reply::Array(fields.into_iter().flat_map(|(name, value)| [Reply::text(name), Reply::text(value)]).collect())
    }
}

impl Host for Door {
    fn is_up(&self) -> bool {
        match self.1 {
            Kind::Server(index) => self.0.state.lock().nodes.get(index).is_some_and(|node| node.is_up),
            Kind::Sentinel(_) => true,
        }
    }

    fn serve(&self, stream: DuplexStream) -> Serving {
        match self.1 {
            Kind::Server(index) => Box::pin(self.0.clone().serve_client(index, stream)),
            Kind::Sentinel(number) => Box::pin(self.0.clone().serve_sentinel(number, stream)),
        }
    }
}
