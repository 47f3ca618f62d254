//! One end of a channel: the client calls and the server answers.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealway_client::channel::rpc::{CallError, Handlers, Rpc};
use sealway_client::channel::{self, Grant, Hello, Stage, Step};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{Attaching, Channel, Marks, NewChannel, OpenEnd, times};
use crate::channel::{ChannelFailure, FailureStage, TimedStage};
use crate::plan::ChannelMode;
use crate::target::Sample;

/// Call type that a client sends.
const CALL: u32 = 1;
/// Type of the notification that a server sends first.
const NOTIFICATION: u32 = 2;

impl Channel {
    /// Runs the client's end, as far as the mode goes.
    pub(super) async fn client(
        &self,
        grant: &Grant,
        sample: &mut Sample,
        marks: &Cell<Marks>,
    ) -> Result<NewChannel, ChannelFailure> {
        let attached = self.attach(grant, sample, marks, |_| ()).await;
        let (channel, open) = attached.map_err(|why| client_failure(why, marks.get()))?;
        let mut times = times(marks.get(), None);
        let rpc = match self.lines.channels.mode {
            ChannelMode::Full => Some(self.call(&channel, &mut times).await?),
            ChannelMode::Attach | ChannelMode::Handshake => None,
        };
        Ok((vec![OpenEnd { channel, _rpc: rpc, _open: open }], times))
    }

    /// Opens a stream, makes one call on it and waits for the server's notification.
    async fn call(
        &self,
        channel: &channel::Channel,
        times: &mut Vec<(TimedStage, Duration)>,
    ) -> Result<Rpc, ChannelFailure> {
        let limit = self.lines.channels.rpc_timeout;
        let late = |at, what: &str| ChannelFailure::new(at, "rpc_timeout", format!("{what} within {limit:?}"));
        if channel.is_over() {
            let why = channel.over().await;
            return Err(ChannelFailure::of(FailureStage::YamuxClient, &why));
        }
        let shown = Arc::new(Notify::new());
        let hears = shown.clone();
        let handlers = Handlers::none().on_notification(NOTIFICATION, move |_| hears.notify_one());
        let opening = Instant::now();
        let opened = timeout(limit, Rpc::open(channel, handlers)).await;
        let opened = opened.map_err(|_| late(FailureStage::YamuxOpen, "no stream"))?;
        let rpc = opened.map_err(|err| {
            let at = if err.code == "hello_invalid" { FailureStage::RpcHello } else { FailureStage::YamuxOpen };
            ChannelFailure::of(at, &err)
        })?;
        let calling = Instant::now();
        rpc.call_within(CALL, json!({"ask": 1}), limit).await.map_err(|err| call_failure(&err))?;
        let answered = Instant::now();
        let heard = timeout(limit, shown.notified()).await;
        heard.map_err(|_| {
            ChannelFailure::new(
                FailureStage::RpcCall,
                "notification_missing",
                "the server's notification did not arrive",
            )
        })?;
        times.push((TimedStage::RpcOpen, calling - opening));
        times.push((TimedStage::RpcCall, answered - calling));
        Ok(rpc)
    }

    /// Runs the server's end, as far as the mode goes. Notifies `heard` when the client's first message arrives.
    pub(super) async fn server(
        &self,
        grant: &Grant,
        sample: &mut Sample,
        marks: &Cell<Marks>,
        heard: &Notify,
    ) -> Result<OpenEnd, ChannelFailure> {
        let shown = |step| {
            if step == Step::Heard {
                heard.notify_one();
            }
        };
        let attached = self.attach(grant, sample, marks, shown).await;
        let (channel, open) = attached.map_err(|why| server_failure(why, marks.get()))?;
        let rpc = match self.lines.channels.mode {
            ChannelMode::Full => Some(self.answer(&channel).await?),
            ChannelMode::Attach | ChannelMode::Handshake => None,
        };
        Ok(OpenEnd { channel, _rpc: rpc, _open: open })
    }

    /// Accepts the client's stream, sends it one notification, and answers its calls from then on.
    async fn answer(&self, channel: &channel::Channel) -> Result<Rpc, ChannelFailure> {
        let limit = self.lines.channels.rpc_timeout;
        let late = || {
            ChannelFailure::new(
                FailureStage::RpcHello,
                "timeout",
                format!("the client opened no stream within {limit:?}"),
            )
        };
        let Some(incoming) = timeout(limit, channel.accept()).await.map_err(|_| late())? else {
            let why = channel.over().await;
            return Err(ChannelFailure::of(FailureStage::RpcHello, &why));
        };
        if incoming.hello.kind != Hello::RPC {
            return Err(ChannelFailure::new(
                FailureStage::RpcHello,
                "hello_invalid",
                "the client's stream is not a stream for calls",
            ));
        }
        let rpc = Rpc::over(incoming.stream, Handlers::none().on(CALL, |_| async { Ok(json!({"ok": true})) }));
        let shown = rpc.notify(NOTIFICATION, json!({"hello": "world"})).await;
        shown.map_err(|err| call_failure(&err))?;
        Ok(rpc)
    }
}

fn call_failure(err: &CallError) -> ChannelFailure {
    ChannelFailure::new(FailureStage::RpcCall, err.code(), err.to_string())
}

fn client_failure(why: Attaching, marks: Marks) -> ChannelFailure {
    let reached = |marks: Marks| match marks {
        Marks { attached: Some(_), .. } => FailureStage::Handshake,
        Marks { open: Some(_), .. } => FailureStage::AttachSend,
        _ => FailureStage::WsOpen,
    };
    match why {
        Attaching::Connecting(failure) => ChannelFailure::connecting(FailureStage::WsOpen, failure),
        Attaching::Refused(err) => {
            let at = match err.stage {
                Stage::Grant => FailureStage::ChannelInit,
                Stage::Connect => FailureStage::WsOpen,
                Stage::Attach if err.code == "send_failed" => FailureStage::AttachSend,
                Stage::Attach => FailureStage::ClientAttach,
                _ => FailureStage::Handshake,
            };
            ChannelFailure::of(at, &err)
        }
        Attaching::Late(limit) => late(reached(marks), marks, limit),
    }
}

fn server_failure(why: Attaching, marks: Marks) -> ChannelFailure {
    match why {
        Attaching::Connecting(failure) => ChannelFailure::connecting(FailureStage::ServerAttach, failure),
        Attaching::Refused(err) => {
            let at = match err.stage {
                Stage::Grant => FailureStage::ChannelInit,
                Stage::Connect | Stage::Attach => FailureStage::ServerAttach,
                _ => FailureStage::ServerReady,
            };
            ChannelFailure::of(at, &err)
        }
        Attaching::Late(limit) => {
            let at = if marks.attached.is_some() { FailureStage::ServerReady } else { FailureStage::ServerAttach };
            late(at, marks, limit)
        }
    }
}

fn late(at: FailureStage, marks: Marks, limit: Duration) -> ChannelFailure {
    if marks.attached.is_some() && marks.heard.is_none() {
        return ChannelFailure::new(at, "peer_absent", format!("nothing arrived from the peer within {limit:?}"));
    }
    ChannelFailure::new(at, "timeout", format!("not finished within {limit:?}"))
}
