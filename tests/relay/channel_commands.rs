//! `sealway channel` and `sealway relay` as users run them: ports and bytes end to end, over relays that stop and start.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use sealway_client::channel::keep::Connector;
use sealway_client::channel::reconnect::Backoff;
use sealway_client::channel::{self, Control, Curve, Grant, Grants, Hello, Identity, Instance, Options, Role};
use sealway_proto::crypto::default_provider;
use sealway_proto::relay::{Attach, Issuer, Minting, Profile, b64u_decode};
use sealway_relay::key_file::read_issuer_key;
use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::{Daemon, free_port, root};
use sealway_testkit::raw_http::Request;
use sealway_testkit::relay as raw_relay;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::commands::sealway;

const LONG: Duration = Duration::from_secs(60);
const TOKEN: &str = "a-token-of-the-tests-0123456789";

fn run(folder: &Path, arguments: &[&str]) -> Output {
    sealway(folder, arguments).stdin(Stdio::null()).output().unwrap()
}

fn start(folder: &Path, name: &str, arguments: &[&str]) -> Daemon {
    Daemon::start(sealway(folder, arguments), &folder.join(name)).unwrap()
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Answers each connection with its input reversed, after the end of the input.
fn reverser() -> SocketAddr {
    let listener = TcpListener::bind(local(0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).unwrap();
                all.reverse();
                let _ = stream.write_all(&all);
            });
        }
    });
    address
}

/// Sends a text to a port and returns the answer. `None` if the connection breaks off.
fn reversed(address: SocketAddr, text: &[u8]) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(text).ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    let mut back = Vec::new();
    stream.read_to_end(&mut back).ok()?;
    back.reverse();
    (!back.is_empty()).then_some(back)
}

/// A relay and a control plane, on known ports.
struct Middle {
    folder: tempfile::TempDir,
    relay_port: u16,
    control_port: u16,
    relay: Daemon,
    _control: Daemon,
}

impl Middle {
    fn start(control: &[&str]) -> Middle {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), TOKEN).unwrap();
        assert!(run(folder.path(), &["relay", "keys"]).status.success());
        let (relay_port, control_port) = (free_port().unwrap(), free_port().unwrap());
        let relay = relay(folder.path(), relay_port);
        let (listen, url) = (local(control_port).to_string(), format!("ws://{}/ws", local(relay_port)));
        let mut arguments = vec!["relay", "control", "--listen", &listen, "--tunnel-url", &url, "--aud", "tests"];
        arguments.extend(["--issuer-key-file", "issuer-key.json"]);
        arguments.extend(control);
        let mut control = start(folder.path(), "control.log", &arguments);
        control.wait_for(local(control_port)).unwrap();
        Middle { folder, relay_port, control_port, relay, _control: control }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn relay(folder: &Path, port: u16) -> Daemon {
    let listen = local(port).to_string();
    let arguments = ["relay", "serve", "--listen", &listen, "--issuer-keys-file", "issuer-keys.json", "--aud", "tests"];
    let mut relay = start(folder, "relay.log", &arguments);
    relay.wait_for(local(port)).unwrap();
    relay
}

#[test]
fn two_terminals_and_a_command_each_carry_a_port_as_the_guide_says() {
    let guide = std::fs::read_to_string(root().join("docs/guides/relay.md")).unwrap();
    let shown = guide.lines().find(|line| line.contains("sealway channel listen")).expect("the guide shows the demo");
    let words: Vec<_> = shown.split_whitespace().skip_while(|word| *word != "channel").map(String::from).collect();
    let target = reverser();
    let words: Vec<_> = words.iter().map(|word| word.replace("127.0.0.1:8000", &target.to_string())).collect();
    assert!(words.iter().any(|word| word.contains(&target.to_string())), "{words:?}");
    let folder = tempfile::tempdir().unwrap();
    let listening = start(folder.path(), "listen.log", &words.iter().map(String::as_str).collect::<Vec<_>>());
    let command = eventually("the other terminal's command is printed", || {
        let told = listening.tail();
        told.lines().find(|line| line.contains("sealway channel connect")).map(str::to_owned)
    });
    let port = free_port().unwrap();
    let command = command.replace("127.0.0.1:9001", &local(port).to_string());
    let words: Vec<_> = command.split_whitespace().skip_while(|word| *word != "channel").collect();
    let mut connecting = start(folder.path(), "connect.log", &words);
    connecting.wait_for(local(port)).unwrap();
    let text = vec![b'x'; 500_000];
    assert!(reversed(local(port), &text).as_deref() == Some(&text), "{}", connecting.tail());
}

#[test]
fn a_port_is_carried_again_after_the_relay_and_the_listener_were_killed() {
    let mut middle = Middle::start(&["--token-file", "token"]);
    let control = format!("http://{}", local(middle.control_port));
    let common = ["--control", &control, "--token-file", "token", "--name", "db", "--ping-every", "1"];
    let (target, port) = (format!("tcp://{}", reverser()), free_port().unwrap());
    let mut listen = vec!["channel", "listen", "--forward", &target];
    listen.extend(common);
    let mut listening = start(middle.path(), "listen.log", &listen);
    let address = local(port).to_string();
    let mut connect = vec!["channel", "connect", "--listen", &address];
    connect.extend(common);
    let connecting = start(middle.path(), "connect.log", &connect);
    let carried = |what: &str| eventually(what, || reversed(local(port), b"there and back"));
    assert_eq!(carried("at first"), b"there and back");

    middle.relay.signal(rustix::process::Signal::KILL).unwrap();
    middle.relay.wait().unwrap();
    middle.relay = relay(middle.path(), middle.relay_port);
    assert_eq!(carried("after the relay was killed"), b"there and back");

    listening.signal(rustix::process::Signal::KILL).unwrap();
    listening.wait().unwrap();
    let _listening = start(middle.path(), "listen-2.log", &listen);
    assert_eq!(carried("after the listener was killed"), b"there and back");
    let log = connecting.tail();
    assert!(!log.contains(TOKEN) && !middle.relay.tail().contains(TOKEN), "a token is in a log");
}

#[test]
fn a_wrong_token_ends_it_with_a_reason() {
    let middle = Middle::start(&["--token-file", "token"]);
    std::fs::write(middle.path().join("wrong"), "another-token-0123456789").unwrap();
    let control = format!("http://{}", local(middle.control_port));
    let arguments =
        ["channel", "listen", "--forward", "tcp://127.0.0.1:1", "--control", &control, "--token-file", "wrong"];
    let ended = run(middle.path(), &arguments);
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success() && told.contains("unauthorized") && !told.contains("another-token"), "{told}");
    let unguarded = run(
        middle.path(),
        &["relay", "control", "--tunnel-url", "ws://a/ws", "--aud", "a", "--issuer-key-file", "issuer-key.json"],
    );
    let told = String::from_utf8(unguarded.stderr).unwrap();
    assert!(!unguarded.status.success() && told.contains("--token-file or --tls-client-ca"), "{told}");
}

#[test]
fn a_control_plane_may_ask_for_certificates_instead() {
    let ground = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(ground.path(), "DNS:localhost,IP:127.0.0.1", "sealway tests").unwrap();
    let text = |path: &Path| path.display().to_string();
    let (ca, cert, key) = (text(&certificates.ca), text(&certificates.server.0), text(&certificates.server.1));
    let middle = Middle::start(&["--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &ca]);
    let control = format!("https://localhost:{}", middle.control_port);
    let (client, client_key) = (text(&certificates.client.0), text(&certificates.client.1));
    let shown = ["--control", &control, "--ca", &ca, "--cert", &client, "--key", &client_key];
    let (target, port) = (format!("tcp://{}", reverser()), free_port().unwrap());
    let mut listen = vec!["channel", "listen", "--forward", &target];
    listen.extend(shown);
    let _listening = start(middle.path(), "listen.log", &listen);
    let address = local(port).to_string();
    let mut connect = vec!["channel", "connect", "--listen", &address];
    connect.extend(shown);
    let _connecting = start(middle.path(), "connect.log", &connect);
    assert_eq!(eventually("over mTLS", || reversed(local(port), b"there and back")), b"there and back");
    let other = ["channel", "cat", "--listen", "--control", &control, "--ca", &ca];
    let nobody = start(middle.path(), "nobody.log", &other);
    eventually("a client without a certificate is rejected", || {
        nobody.tail().contains("control_unreachable").then_some(())
    });
}

/// Mints grants with the command, and writes a file for each end.
fn grants(middle: &Middle, more: &[&str]) {
    let url = format!("ws://{}/ws", local(middle.relay_port));
    let mut arguments = vec!["relay", "mint", "--issuer-key-file", "issuer-key.json", "--aud", "tests"];
    arguments.extend(["--tunnel-url", &url]);
    arguments.extend(more);
    let minted = run(middle.path(), &arguments);
    let pair: serde_json::Value = serde_json::from_slice(&minted.stdout).unwrap();
    for end in ["client", "server"] {
        std::fs::write(middle.path().join(end), pair[format!("grant_{end}")].to_string()).unwrap();
    }
}

fn cat(middle: &Middle, grant: &str, input: &[u8]) -> std::thread::JoinHandle<Output> {
    let mut command = sealway(middle.path(), &["channel", "cat", "--grant", grant]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut to, input) = (child.stdin.take().unwrap(), input.to_owned());
    std::thread::spawn(move || {
        let writing = std::thread::spawn(move || drop(to.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap();
        output
    })
}

#[test]
fn cat_joins_two_programs_on_either_wire_and_a_grant_works_once() {
    let middle = Middle::start(&["--token-file", "token"]);
    let (from_client, from_server) = (vec![b'c'; 3_000_000], vec![b's'; 1_000_000]);
    for profile in ["native", "flowersec-v1"] {
        grants(&middle, &["--profile", profile]);
        let server = cat(&middle, "server", &from_server);
        let client = cat(&middle, "client", &from_client).join().unwrap();
        let server = server.join().unwrap();
        let told = format!("{}{}", String::from_utf8_lossy(&client.stderr), String::from_utf8_lossy(&server.stderr));
        assert!(client.status.success() && server.status.success(), "{profile}: {told}");
        assert!(client.stdout == from_server && server.stdout == from_client, "{profile}: {told}");
    }
    let again = cat(&middle, "client", b"").join().unwrap();
    let told = String::from_utf8(again.stderr).unwrap();
    assert!(!again.status.success() && told.contains("token_replay"), "{told}");
}

/// Opens both ends of a grant's channel from this process.
async fn ends(grants: [Grant; 2], identities: [&Identity; 2]) -> [Result<channel::Channel, channel::Error>; 2] {
    let me = Instance::draw().unwrap();
    let options = identities.map(|identity| Options { identity: Some(identity.clone()), ..Options::default() });
    let (client, server) = tokio::join!(
        channel::attach(&grants[0], &me, &options[0], |_| ()),
        channel::attach(&grants[1], &me, &options[1], |_| ())
    );
    [client, server]
}

#[tokio::test]
async fn keys_that_a_grant_pins_reject_holders_of_other_keys() {
    let middle = Middle::start(&["--token-file", "token"]);
    let url = format!("ws://{}/ws", local(middle.relay_port));
    // KKpsk0, IKpsk1 and XXpsk3 on both curves, each with and without ML-KEM-768.
    for (pattern, name) in [(1_u16, "KKpsk0"), (2, "IKpsk1"), (3, "XXpsk3")] {
        for variant in [0, 2, 4, 6] {
            let suite = 0x100 + 16 * pattern + variant;
            let curve = if variant & 2 == 0 { Curve::X25519 } else { Curve::P256 };
            let [client, server, stranger] = std::array::from_fn(|_| Identity::draw(curve).unwrap());
            let public = |identity: &Identity| b64u_decode(&identity.public(curve).unwrap());
            let minting = Minting {
                suites: vec![suite],
                noise_pattern: name.into(),
                statics: [public(&client), public(&server)],
                ..Minting::native(&url, "tests", "")
            };
            let issuer = Issuer::new(
                read_issuer_key(&middle.path().join("issuer-key.json")).unwrap(),
                minting,
                default_provider(),
            )
            .unwrap();
            let now = channel_now();
            let [good, served] = ends(issuer.pair(None, now).unwrap(), [&client, &server]).await;
            let (good, served) = (good.unwrap(), served.unwrap());
            let mut stream = good.open(&Hello::new("x").unwrap()).await.unwrap();
            stream.write_all(b"!").await.unwrap();
            let mut other = served.accept().await.unwrap().stream;
            assert_eq!(other.read_u8().await.unwrap(), b'!', "{name} {variant}");
            for (at, identities) in [(0, [&stranger, &server]), (1, [&client, &stranger])] {
                let trying = ends(issuer.pair(None, now).unwrap(), identities);
                let both = tokio::time::timeout(LONG, trying).await.unwrap();
                let opened = both.iter().filter(|end| end.is_ok()).count();
                assert!(opened < 2, "{name} {variant}: a stranger at {at} was let in");
            }
        }
    }
}

fn channel_now() -> i64 {
    use sealway_runtime::clock::{Clock, SystemClock};
    i64::try_from(SystemClock.now_ms() / 1000).unwrap()
}

/// Runs `cat` on the end of a grant, with an open standard input.
fn open_cat(middle: &Middle, grant: &str) -> std::process::Child {
    let mut command = sealway(middle.path(), &["channel", "cat", "--grant", grant]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: &std::process::Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Returns the exit code and the standard error of a process. Its standard input stays open until the exit, because an end of
/// input would close the channel cleanly.
fn said(mut child: std::process::Child) -> (Option<i32>, String) {
    let _stdin = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn cat_reports_incomplete_data_when_peer_relay_or_itself_is_killed() {
    use rustix::process::Signal;
    let mut middle = Middle::start(&["--token-file", "token"]);
    for (profile, killed) in
        [("native", "sender"), ("native", "relay"), ("flowersec-v1", "sender"), ("flowersec-v1", "relay")]
    {
        grants(&middle, &["--profile", profile]);
        let (mut receiver, mut sender) = (open_cat(&middle, "server"), open_cat(&middle, "client"));
        sender.stdin.as_mut().unwrap().write_all(b"the first half").unwrap();
        receiver.stdout.as_mut().unwrap().read_exact(&mut [0; 14]).unwrap();
        let mut ended = vec![("receiver", receiver)];
        if killed == "sender" {
            end(&sender, Signal::KILL);
            let _ = sender.wait();
        } else {
            middle.relay.signal(Signal::KILL).unwrap();
            middle.relay.wait().unwrap();
            ended.push(("sender", sender));
        }
        for (who, child) in ended {
            let (code, told) = said(child);
            assert!(
                code == Some(1) && told.contains("broken off"),
                "{profile}, {killed} killed, {who}: {code:?} {told}"
            );
        }
        if killed == "relay" {
            middle.relay = relay(middle.path(), middle.relay_port);
        }
    }
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        grants(&middle, &[]);
        let (mut receiver, mut sender) = (open_cat(&middle, "server"), open_cat(&middle, "client"));
        sender.stdin.as_mut().unwrap().write_all(b"the first half").unwrap();
        receiver.stdout.as_mut().unwrap().read_exact(&mut [0; 14]).unwrap();
        end(&sender, signal);
        let (sent, told) = said(sender);
        assert!(sent == Some(code) && told.contains("interrupted"), "an interrupted sender: {sent:?} {told}");
        let (received, told) = said(receiver);
        assert!(received == Some(1) && told.contains("broken off"), "its receiver: {received:?} {told}");
    }
}

/// A server whose connections send one text and stay open.
fn greeter() -> SocketAddr {
    let listener = TcpListener::bind(local(0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.write_all(b"the first half").unwrap();
            open.push(stream);
        }
    });
    address
}

#[test]
fn a_forwarded_connection_is_reset_and_not_ended_when_its_channel_is_lost() {
    for killed in ["listener", "relay"] {
        let mut middle = Middle::start(&["--token-file", "token"]);
        let control = format!("http://{}", local(middle.control_port));
        let common = ["--control", &control, "--token-file", "token"];
        let (target, port) = (format!("tcp://{}", greeter()), free_port().unwrap());
        let mut listen = vec!["channel", "listen", "--forward", &target];
        listen.extend(common);
        let mut listening = start(middle.path(), "listen.log", &listen);
        let address = local(port).to_string();
        let mut connect = vec!["channel", "connect", "--listen", &address];
        connect.extend(common);
        let mut connecting = start(middle.path(), "connect.log", &connect);
        connecting.wait_for(local(port)).unwrap();
        let mut stream = TcpStream::connect(local(port)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.read_exact(&mut [0; 14]).unwrap();
        let process = if killed == "relay" { &mut middle.relay } else { &mut listening };
        process.signal(rustix::process::Signal::KILL).unwrap();
        process.wait().unwrap();
        let read = stream.read(&mut [0; 1]);
        let kind = read.as_ref().map_err(std::io::Error::kind);
        assert_eq!(kind, Err(std::io::ErrorKind::ConnectionReset), "{killed} killed: {}", connecting.tail());
    }
}

/// Measures the time to reach the listener over a new channel and to get its answer.
async fn reached(middle: &Middle) -> Duration {
    let begun = Instant::now();
    let control = format!("http://{}", local(middle.control_port));
    let grants = Grants::Control(Box::new(Control::new(&control, "db", Role::Client, Some(TOKEN), None).unwrap()));
    let connector = Connector::new(grants, Options::default(), Backoff::default()).unwrap();
    let channel = tokio::time::timeout(LONG, connector.channel(|_, _| {})).await.unwrap().unwrap();
    let mut stream = channel.open(&Hello::new("forward").unwrap()).await.unwrap();
    stream.write_all(b"there").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await.unwrap();
    assert_eq!(back, b"ereht");
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_reachable_again_at_once_after_unused_grants_silent_peers_and_deaths() {
    let mut middle = Middle::start(&["--token-file", "token"]);
    let control = format!("http://{}", local(middle.control_port));
    let target = format!("tcp://{}", reverser());
    let listen =
        ["channel", "listen", "--forward", &target, "--control", &control, "--token-file", "token", "--name", "db"];
    let mut listening = start(middle.path(), "listen.log", &listen);
    let mut measured = vec![("at first", reached(&middle).await)];
    let ask = |middle: &Middle| {
        let request = Request::post("/v1/grant", br#"{"name":"db","role":"client"}"#);
        let answer = request.header("Authorization", format!("Bearer {TOKEN}")).send(local(middle.control_port));
        Grant::parse(&answer.unwrap().body).unwrap()
    };
    (0..5).for_each(|_| drop(ask(&middle)));
    measured.push(("after 5 grants that nobody used", reached(&middle).await));
    let silent: Vec<_> = (0..5)
        .map(|_| {
            let Grant { channel_id, role, token, .. } = ask(&middle);
            let profile = Profile::Native;
            let mut ws = raw_relay::connect(local(middle.relay_port), None);
            ws.text(
                &Attach { channel_id, role, token, endpoint_instance_id: raw_relay::instance(1), profile }.encode(),
            );
            ws
        })
        .collect();
    measured.push(("beside 5 peers that attach and say nothing", reached(&middle).await));
    drop(silent);
    middle.relay.signal(rustix::process::Signal::KILL).unwrap();
    middle.relay.wait().unwrap();
    middle.relay = relay(middle.path(), middle.relay_port);
    measured.push(("after the death of the relay", reached(&middle).await));
    listening.signal(rustix::process::Signal::KILL).unwrap();
    listening.wait().unwrap();
    let listening = start(middle.path(), "listen-2.log", &listen);
    measured.push(("after the death of the listener", reached(&middle).await));
    println!("{measured:#?}");
    // Well below the lifetime of a grant, an idle channel and a silent peer, which are 60 s each. Without other load it is 3 s.
    let slow = measured.iter().find(|(_, took)| *took > Duration::from_secs(15));
    assert!(slow.is_none(), "{slow:?}: {}", listening.tail());
}

#[test]
fn a_used_grant_in_a_file_ends_the_command_with_a_remedy() {
    let middle = Middle::start(&["--token-file", "token"]);
    grants(&middle, &[]);
    let (client, server) = (cat(&middle, "client", b"once"), cat(&middle, "server", b""));
    assert!(client.join().unwrap().status.success() && server.join().unwrap().status.success());
    let port = free_port().unwrap();
    let address = local(port).to_string();
    let mut connecting =
        start(middle.path(), "connect.log", &["channel", "connect", "--listen", &address, "--grant", "client"]);
    connecting.wait_for(local(port)).unwrap();
    assert_eq!(reversed(local(port), b"again"), None);
    let ended = eventually("it ends", || connecting.ended().unwrap());
    assert!(!ended.success() && connecting.tail().contains("a grant works once"), "{}", connecting.tail());
}
