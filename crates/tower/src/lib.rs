//! The server side of the Rust SDK: a [`tower`](https://docs.rs/tower) layer that opens sealed requests in front of an
//! ordinary service, and seals its answers. `spec/session.md`, `spec/session-3.md`.
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use sealway_tower::{Authority, Routes, SealLayer, SealMode, Settings};
//!
//! let secret = std::fs::read_to_string("authority.secret")?;
//! let store = Arc::new(Authority::new("http://localhost:3000", secret.trim())?);
//! let routes = Routes::all(SealMode::Required).exact("/health", SealMode::Off)?;
//! let app = axum::Router::new()
//!     .route("/health", axum::routing::get(|| async { "well" }))
//!     .route("/echo", axum::routing::post(|body: String| async { body }))
//!     .layer(SealLayer::new(store, Settings { routes, ..Settings::default() }));
//! axum::serve(tokio::net::TcpListener::bind("127.0.0.1:3100").await?, app).await?;
//! # Ok(())
//! # }
//! ```
//!
//! * [`SealLayer`] — the layer; [`Settings`] — bounds, windows, wires; [`Routes`] — the paths that are sealed.
//! * [`store`] — sources of sessions and claims: an authority ([`Authority`]), its Redis (`Redis`, behind a feature of
//!   that name), or this process's memory ([`Memory`]).
//!
//! It may not know the agreement of sessions, the HTTP server, or a byte of a wire (which belongs to `sealway_proto`).
#![warn(missing_docs)]
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod body;
mod clock;
mod layer;
mod routes;
pub mod store;

pub use clock::{Clock, SystemClock};
pub use layer::{SealLayer, SealService, Settings};
pub use routes::{RouteInvalid, Routes, SealMode};
pub use sealway_exchange::body::{Body, BoxError};
#[cfg(feature = "authority")]
pub use store::Authority;
#[cfg(feature = "redis")]
pub use store::{KeySource, Redis, RedisSettings};
pub use store::{Memory, ReserveError, Store, StoreError};
