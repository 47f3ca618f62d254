//! Channels: handshakes of both profiles with a pre-shared key, static and ephemeral keys, and records.

use anyhow::{bail, ensure};
use sealway_proto::channel::{
    ChannelError, ChannelSettings, Content, Handshake, HandshakeRandoms, Pattern, Progress, RecordContent, Suite,
};
use sealway_proto::crypto::agreement::{AgreementProvider, Curve};

use super::{Library, NOW_MS, Path};
use crate::memcheck::{declare, secret, secret_of};

pub(super) const PATHS: &[Path] = &[
    Path::of_each("channel-v1-x25519", |library| talk(library, 1, false)),
    Path::of_each("channel-v1-p256", |library| talk(library, 2, false)),
    Path::of_each("channel-v1-wrong-psk", |library| talk(library, 1, true)),
    Path::of_each("channel-noise-nn-hybrid", |library| talk(library, 0x104, false)),
    Path::of_each("channel-noise-kk-p256-chacha", |library| talk(library, 0x113, false)),
    Path::of_each("channel-noise-xx", |library| talk(library, 0x130, false)),
    Path::of_each("channel-noise-wrong-psk", |library| talk(library, 0x104, true)),
];

const NOW_S: u64 = NOW_MS / 1000;
const TEXT: &[u8] = b"4111111111111111";
const OPENED: &str = "plaintext behind a verified tag: it is the caller's";
const MESSAGE: &str = "message of a handshake: it goes over the wire";

fn public(provider: &dyn AgreementProvider, curve: Curve, private: &[u8; 32]) -> anyhow::Result<Vec<u8>> {
    let key = provider.agreement_from_private(curve, private)?;
    Ok(match (curve, key.public()) {
        (Curve::P256, [_, point @ ..]) if point.len() == 64 => {
            let (x, y) = point.split_at(32);
            [&[2 | (y[31] & 1)], x].concat()
        }
        (_, key) => key.to_vec(),
    })
}

fn settings(library: &Library, suite: Suite) -> anyhow::Result<(ChannelSettings, ChannelSettings)> {
    let mut client = ChannelSettings::new("channel-1", secret([7; 32]), suite, NOW_S + 60);
    client.bind(library.provider, "relay.example", "control.example");
    let mut server = client.clone();
    if let Suite::Native(native) = suite
        && native.pattern != Pattern::NNpsk0
    {
        let [of_client, of_server] = [0x21, 0x42].map(|byte| secret([byte; 32]));
        client.peer_static = Some(public(library.provider, native.curve, &of_server)?);
        server.peer_static = Some(public(library.provider, native.curve, &of_client)?);
        client.local_static = Some(of_client.into());
        server.local_static = Some(of_server.into());
    }
    Ok((client, server))
}

/// Plays a handshake and a record in each direction; with a wrong pre-shared key, until one end rejects.
fn talk(library: &Library, suite: u16, is_wrong: bool) -> anyhow::Result<()> {
    let provider = library.provider;
    let (client, mut server) = settings(library, Suite::from_id(suite)?)?;
    if is_wrong {
        server.psk = secret([8; 32]).into();
    }
    let (client, mut message) = Handshake::client(client, provider, HandshakeRandoms::draw(provider)?, NOW_S)?;
    let mut ends = [Handshake::server(server, provider, HandshakeRandoms::draw(provider)?)?, client];
    for number in 0_usize.. {
        declare(&message, MESSAGE);
        let Some(end) = ends.get_mut(number % 2) else { bail!("two ends") };
        match end.read(&message, NOW_S) {
            Ok(Progress::Send(next) | Progress::SendThenDone(next)) => message = next,
            Ok(Progress::Done) => break,
            Ok(Progress::Wait) => bail!("a message without an answer"),
            Err(ChannelError::HandshakeUnauthentic) if is_wrong => return Ok(()),
            Err(error) if is_wrong => bail!("rejected as {error}"),
            Err(error) => return Err(error.into()),
        }
    }
    ensure!(!is_wrong, "a wrong pre-shared key is accepted");
    let [server, client] = ends.map(Handshake::into_records);
    let (mut server, mut client) = (server?, client?);
    for (sealer, opener) in [(&mut client.0, &mut server.1), (&mut server.0, &mut client.1)] {
        let mut record = Vec::new();
        sealer.seal(Content::Data, &secret_of(TEXT), &mut record, 0)?;
        declare(&record, MESSAGE);
        let RecordContent::Data(opened) = opener.open(&mut record)? else { bail!("no data") };
        declare(opened, OPENED);
        ensure!(opened == TEXT, "another plaintext");
    }
    Ok(())
}
