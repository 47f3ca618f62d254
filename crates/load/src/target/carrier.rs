//! The connection below a layer that seals: it carries messages that the layer made, and gives their answers back whole.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode};

use super::connect::Lines;
use super::{Connection, Sample};
use crate::record::{Class, Failure};
use crate::request::{CurrentRequest, Program, Raw};

/// Connection that carries outer requests.
pub(super) struct Carrier {
    inner: Connection,
    lines: Rc<Lines>,
    outer: CurrentRequest,
}

impl Carrier {
    pub(super) fn new(inner: Connection, lines: Rc<Lines>, program: &Arc<Program>) -> Self {
        Carrier { inner, lines, outer: CurrentRequest::raw(program) }
    }

    pub(super) fn keeps(&self) -> bool {
        self.inner.keeps()
    }

    pub(super) async fn is_open(&mut self) -> Result<bool, Failure> {
        self.inner.is_open().await
    }

    pub(super) async fn finish(self, wait: Option<Duration>) {
        self.inner.finish(wait).await;
    }

    /// Sends over the current connection, or over a new one if the last answer ended it.
    pub(super) async fn send(
        &mut self,
        raw: Raw,
        sample: &mut Sample,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), Failure> {
        if !self.inner.is_open().await? {
            self.inner = self.lines.open(sample).await?;
        }
        self.outer.carry(raw);
        let (started, server) = (sample.started, sample.server.take());
        // Each message has a first byte of its own; the sample keeps the last one.
        (sample.first_byte, sample.started) = (None, Instant::now());
        let sent = Box::pin(self.inner.exchange(&mut self.outer, sample)).await;
        sample.started = started;
        sample.server = server.into_iter().chain(sample.server).reduce(|before, now| before + now);
        sent?;
        let status = StatusCode::from_u16(sample.status).map_err(|err| Failure::new(Class::Malformed, err))?;
        let (headers, body) = self.outer.take_answer();
        Ok((status, headers, body))
    }
}
