//! Two ends of one channel, with their settings.

use sealway_proto::channel::{
    ChannelError, ChannelSettings, Content, Handshake, HandshakeRandoms, Opener, Progress, Sealer, Suite,
};
use sealway_proto::crypto::agreement::{AgreementProvider, Curve, default_agreement_provider};

pub(crate) const NOW_S: u64 = 1_700_000_000;

pub(crate) fn provider() -> &'static dyn AgreementProvider {
    default_agreement_provider()
}

pub(crate) fn draw() -> HandshakeRandoms {
    HandshakeRandoms::draw(provider()).unwrap()
}

/// Returns settings of both ends, with static keys if the suite has them.
pub(crate) fn settings(suite: Suite) -> (ChannelSettings, ChannelSettings) {
    let mut client = ChannelSettings::new("channel-1", [7; 32], suite, NOW_S + 60);
    client.bind(provider(), "relay.example", "control.example");
    let mut server = client.clone();
    if let Suite::Native(native) = suite
        && native.pattern.has_static_keys()
    {
        client.local_static = Some([0x21; 32].into());
        server.local_static = Some([0x42; 32].into());
        client.peer_static = Some(public(native.curve, &[0x42; 32]));
        server.peer_static = Some(public(native.curve, &[0x21; 32]));
    }
    (client, server)
}

/// Returns the public half of a static key as it stands in a grant.
pub(crate) fn public(curve: Curve, private: &[u8; 32]) -> Vec<u8> {
    let key = provider().agreement_from_private(curve, private).unwrap();
    match curve {
        Curve::X25519 => key.public().to_vec(),
        Curve::P256 => {
            let mut point = vec![2 | (key.public()[64] & 1)];
            point.extend_from_slice(&key.public()[1..33]);
            point
        }
    }
}

/// The messages of a whole handshake in order, each with its sender: `true` for the client.
pub(crate) struct Talk {
    pub(crate) client: Handshake,
    pub(crate) server: Handshake,
    pub(crate) messages: Vec<(bool, Vec<u8>)>,
    pub(crate) client_done: bool,
    pub(crate) server_done: bool,
}

/// Exchanges messages of two ends until both are quiet. `middle` sees each message with its number, and may change it.
pub(crate) fn talk(
    (client, server): (ChannelSettings, ChannelSettings),
    mut middle: impl FnMut(usize, &mut Vec<u8>),
) -> Result<Talk, ChannelError> {
    let (client, first) = Handshake::client(client, provider(), draw(), NOW_S)?;
    let server = Handshake::server(server, provider(), draw())?;
    let mut talk = Talk { client, server, messages: Vec::new(), client_done: false, server_done: false };
    let mut next = Some((true, first));
    while let Some((by_client, mut message)) = next.take() {
        middle(talk.messages.len(), &mut message);
        talk.messages.push((by_client, message.clone()));
        let (reader, done) = match by_client {
            true => (&mut talk.server, &mut talk.server_done),
            false => (&mut talk.client, &mut talk.client_done),
        };
        let progress = reader.read(&message, NOW_S)?;
        *done |= matches!(progress, Progress::Done | Progress::SendThenDone(_));
        if let Progress::Send(message) | Progress::SendThenDone(message) = progress {
            next = Some((!by_client, message));
        }
    }
    Ok(talk)
}

/// The two directions of one end.
pub(crate) struct End {
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
}

/// Two ends that have completed the handshake.
pub(crate) fn connected_with(settings: (ChannelSettings, ChannelSettings)) -> (End, End) {
    let talk = talk(settings, |_, _| {}).unwrap();
    assert!(talk.client_done && talk.server_done);
    let (sealer, opener) = talk.client.into_records().unwrap();
    let client = End { sealer, opener };
    let (sealer, opener) = talk.server.into_records().unwrap();
    (client, End { sealer, opener })
}

pub(crate) fn connected(suite: Suite) -> (End, End) {
    connected_with(settings(suite))
}

impl End {
    pub(crate) fn seal(&mut self, content: Content, plaintext: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.sealer.seal(content, plaintext, &mut out, 0).unwrap();
        out
    }

    pub(crate) fn data(&mut self, plaintext: &[u8]) -> Vec<u8> {
        self.seal(Content::Data, plaintext)
    }
}
