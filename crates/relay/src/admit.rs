//! Selection of the node on which an endpoint attaches, for several nodes with shared channels. SPEC relay.md#several-nodes

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sealway_proto::relay::{Claims, CloseCause};
use sealway_runtime::http::Raw;
use tokio::time::timeout;

use crate::channel::AttachRequest;
use crate::nodes::ChannelNode;
use crate::relay::Relay;
use crate::replay::TokenKey;

/// Longest time for Redis and the other node together.
const TIME: Duration = Duration::from_secs(10);

/// The node on which an endpoint may attach.
pub(crate) enum Admission {
    Here(AttachRequest),
    There(Box<dyn Raw>),
}

/// Asks the nodes for an endpoint's place, and connects to it.
pub(crate) async fn ask(
    relay: Arc<Relay>,
    request: AttachRequest,
    claims: Claims,
    address: Option<IpAddr>,
) -> Result<Admission, CloseCause> {
    let Some(nodes) = &relay.nodes else { return Err(CloseCause::NodeUnavailable) };
    let asking = async {
        match nodes.admit(TokenKey::of(&claims), &claims, &request.key, relay.now_s()).await? {
            ChannelNode::Here => Ok(None),
            ChannelNode::There(place) => match nodes.cross(&place, &request, address).await {
                Some(stream) => Ok(Some(stream)),
                None => Err(CloseCause::NodeUnavailable),
            },
        }
    };
    let stream = timeout(TIME, asking).await.unwrap_or(Err(CloseCause::NodeUnavailable))?;
    Ok(stream.map_or(Admission::Here(request), Admission::There))
}
