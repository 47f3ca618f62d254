//! The authority and its stores: in process, and over real PostgreSQL and Redis.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod at_rest;
mod desk;
mod endpoints;
mod endpoints_authority;
mod endpoints_v1;
mod far;
mod faults;
mod introspection;
mod key_and_admin;
mod key_set;
mod key_wrap;
mod place;
mod postgres;
mod postgres_faults;
mod postgres_place;
mod postgres_promotion;
mod postgres_setup;
mod proofs;
mod redis;
mod redis_cluster;
mod redis_desk;
mod redis_failover;
mod redis_faults;
mod redis_reach;
mod redis_storm;
mod remote;
mod remote_faults;
mod remote_secrecy;
mod remote_tls;
mod restart;
mod store;
mod tiered;
mod tokens;
mod wires_and_policies;
mod writers;
