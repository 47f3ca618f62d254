//! Handshakes: what agrees, and what is refused by which name.

use sealway_proto::channel::{ChannelError, Content, Handshake, Opened, Progress, Suite};

use crate::ends::{NOW_S, connected, draw, provider, settings, talk};

#[test]
fn both_ends_of_every_suite_agree_and_talk() {
    for suite in Suite::all() {
        let (mut client, mut server) = connected(suite);
        for _ in 0..3 {
            assert_eq!(server.opener.open(&mut client.data(b"to the server")), Ok(Opened::Data(b"to the server")));
            assert_eq!(client.opener.open(&mut server.data(b"to the client")), Ok(Opened::Data(b"to the client")));
            assert_eq!(server.opener.open(&mut client.seal(Content::Ping(0), b"")), Ok(Opened::Ping(0)));
            assert_eq!(client.opener.open(&mut server.seal(Content::Rekey, b"")), Ok(Opened::Rekeyed));
        }
    }
}
