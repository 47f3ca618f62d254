//! The limit on openings: private operations for requests that strangers can make, by the network of their client.

use std::net::{IpAddr, Ipv4Addr};

use sealway_runtime::http::share::network;
use sealway_sessions::Refusal;
use sealway_sessions::limit::PerMinute;

/// Counts openings a minute and network, as inits are counted before their agreement.
#[derive(Debug)]
pub(crate) struct Openings(PerMinute<IpAddr>);

impl Openings {
    /// Creates a limit of `per_minute` openings, with a burst of the same size; 0 means no limit.
    pub(crate) fn new(per_minute: u32) -> Openings {
        Openings(PerMinute::new(per_minute))
    }

    /// Counts an opening for a client, before the private operation. Clients without an address share one.
    ///
    /// # Errors
    /// [`Refusal::RateLimited`].
    pub(crate) fn take(&self, client: Option<IpAddr>) -> Result<(), Refusal> {
        self.0.take(&of(client)).map_err(Refusal::RateLimited)
    }

    /// Gives an opening back whose client has proved a secret of its own.
    pub(crate) fn give_back(&self, client: Option<IpAddr>) {
        self.0.give_back(&of(client));
    }
}

fn of(client: Option<IpAddr>) -> IpAddr {
    network(client.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
}
