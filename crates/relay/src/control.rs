//! The control plane (`sealway relay control`) is being written by the owner on branch `channel`, together with
//! `rendezvous.rs`: do not write it here, leave this file out of commits, go on with nodes, then spec/relay.md and guides.
