//! What the messages of these wires have in common.

use sealway_proto::broker::open::{self, Metadata, MetadataW1, TraceContext};

use super::super::bounds;
use crate::Refusal;
use crate::certificate::Bound;
use crate::profile::policy::Deprecation;
use crate::telemetry::Trace;

pub(super) fn check_metadata(metadata: Option<&Metadata>) -> Result<(), Refusal> {
    metadata.map_or(Ok(()), |metadata| bounds::metadata(&metadata.id, metadata.trace_context.as_ref()))
}

pub(in super::super) fn check_metadata_w1(metadata: Option<&MetadataW1>) -> Result<(), Refusal> {
    let Some(metadata) = metadata else { return Ok(()) };
    bounds::metadata(&metadata.id, metadata.trace_context.as_ref())?;
    bounds::at_most("metadata.createdAt", metadata.created_at.len(), bounds::CREATED_AT_MAX)
}

/// The parent that the message names; of one that is refused nothing is told on.
pub(super) fn trace<'a>(metadata: Option<&'a Metadata>, fits: &Result<(), Refusal>) -> Trace<'a> {
    of(metadata.and_then(|metadata| metadata.trace_context.as_ref()), fits)
}

pub(in super::super) fn trace_w1<'a>(metadata: Option<&'a MetadataW1>, fits: &Result<(), Refusal>) -> Trace<'a> {
    of(metadata.and_then(|metadata| metadata.trace_context.as_ref()), fits)
}

fn of<'a>(context: Option<&'a TraceContext>, fits: &Result<(), Refusal>) -> Trace<'a> {
    let Some(context) = context.filter(|_| fits.is_ok()) else { return Trace::default() };
    Trace { trace_id: &context.trace_id, span_id: &context.span_id, correlation: &context.correlation_id }
}

/// An end of validity in Unix seconds.
pub(super) fn unix(seconds: Option<u64>) -> Bound {
    seconds.map_or(Bound::Profile, Bound::At)
}

/// The metadata as they came, and that the profile is to go away.
pub(super) fn deprecate(
    metadata: Option<Metadata>,
    profile: &str,
    deprecation: Option<Deprecation>,
) -> Option<Metadata> {
    let Some(found) = deprecation else { return metadata };
    let deprecation = open::Deprecation {
        profile: profile.to_owned(),
        replaced_by: found.replaced_by,
        deprecated_since: found.deprecated_since,
        remove_after: found.remove_after,
        reason: found.reason,
    };
    Some(Metadata { deprecation: Some(deprecation), ..metadata.unwrap_or_default() })
}
