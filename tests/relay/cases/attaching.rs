//! The close table: the close codes and reasons for invalid attachments, and the order of the checks.

use sealway_proto::relay::{Claims, Role, TokenForm};
use sealway_testkit::raw_ws::{Got, RawWs};
use sealway_testkit::relay::Issuer;

use super::{Case, Ground, again, closed, now_s};

pub(crate) const CASES: &[Case] = &[
    ("a first message over 8192 bytes is too big, and nothing is said", too_big),
    ("a first message of 8192 bytes is looked at", just_fits),
    ("a fragmented first message over 8192 bytes is too big", too_big_in_fragments),
    ("a binary first message is no attach", binary_first),
    ("no first message in time is no attach", late),
    ("bad JSON is no attach message", bad_json),
    ("members that are wrong make no attach message", bad_members),
    ("an opening of the v2 wire is refused by name", v2_opening),
    ("tokens of the later form are taken", later_form),
    ("a forged token is invalid", forged),
    ("a token of an unknown key is invalid", unknown_key),
    ("a token for another audience or of another issuer is invalid", other_relay),
    ("a token outside its times is invalid, with 30 seconds of skew", times),
    ("a token for another channel is a mismatch", other_channel),
    ("a token for the other role is a mismatch", other_role),
    ("a channel mismatch is reported before a role mismatch", order),
    ("a token is taken once", replayed),
    ("a token without an id is a replay", no_token_id),
    ("a token is burned by an attach that fails after it", burned),
    ("a token that is refused for its channel is not burned", not_burned),
    ("an attach message in fragments, with pings between, attaches", fragments),
    ("another init_exp than the first endpoint's fails", other_init_exp),
    ("another idle time than the first endpoint's fails", other_idle),
    ("late v1's reasons are tokens where that is asked for", tokens),
    ("a token that was used up to its end and the skew is a replay then too", replay_in_the_skew),
];

fn said(ground: &Ground, claims: &Claims) -> Got {
    ground.attach(ground.shared.near(), claims).got()
}

fn first(ground: &Ground, send: impl FnOnce(&mut RawWs)) -> Got {
    let mut ws = ground.shared.near();
    send(&mut ws);
    ws.got()
}

fn too_big(ground: &Ground) {
    assert_eq!(first(ground, |ws| ws.text(&"x".repeat(8193))), closed(1009, ""));
    assert_eq!(first(ground, |ws| ws.binary(&[0; 8193])), closed(1009, ""), "its length is looked at first");
}

fn just_fits(ground: &Ground) {
    assert_eq!(first(ground, |ws| ws.text(&"x".repeat(8192))), closed(1002, "invalid attach"));
    let mut text = ground.message(&ground.pair()[0]).encode();
    text.push_str(&" ".repeat(8192 - text.len()));
    let mut ws = ground.shared.near();
    ws.text(&text);
    ws.send(0x89, b"there?").unwrap();
    ws.answers = false;
    assert_eq!(ws.got(), Got::Frame(0x8a, b"there?".to_vec()));
}

fn too_big_in_fragments(ground: &Ground) {
    let got = first(ground, |ws| {
        ws.send(0x01, &[b'x'; 8000]).unwrap();
        ws.send(0x80, &[b'x'; 193]).unwrap();
    });
    assert_eq!(got, closed(1009, ""));
}

fn binary_first(ground: &Ground) {
    let text = ground.message(&ground.pair()[0]).encode();
    assert_eq!(first(ground, |ws| ws.binary(text.as_bytes())), closed(1002, "expected attach"));
}

fn late(ground: &Ground) {
    let fleet = ground.fleet(&["--attach-timeout-ms", "300", "--tick-ms", "50"]);
    assert_eq!(fleet.near().got(), closed(1002, "expected attach"));
    let mut half = fleet.near();
    half.send(0x01, b"{").unwrap();
    assert_eq!(half.got(), closed(1002, "expected attach"));
}

fn bad_json(ground: &Ground) {
    for text in ["", "{", "7", "null", "[]", "{}", "{\"v\":1}{}"] {
        assert_eq!(first(ground, |ws| ws.text(text)), closed(1002, "invalid attach"), "{text}");
    }
    assert_eq!(first(ground, |ws| ws.send(0x81, b"\xff{}").unwrap()), closed(1002, "invalid attach"));
}

fn bad_members(ground: &Ground) {
    let good = ground.message(&ground.pair()[0]).encode();
    let eid = sealway_testkit::relay::instance(1);
    for (from, to) in [
        ("\"v\":1", "\"v\":2"),
        ("\"v\":1", "\"w\":1"),
        ("\"role\":1", "\"role\":3"),
        ("\"role\":1", "\"role\":0"),
        ("\"role\":1", "\"role\":\"1\""),
        (eid.as_str(), ""),
        (eid.as_str(), "AAECAwQFBgcICQoLDA0O"),
        (eid.as_str(), "AAECAwQFBgcICQoLDA0ODw=="),
        (eid.as_str(), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"),
        (eid.as_str(), "AAECAwQFBgcICQoLDA0O+/"),
        ("\"channel_id\":\"", "\"channel_id\":\"\",\"x\":\""),
        ("\"token\":\"", "\"token\":\"\",\"x\":\""),
        ("\"v\":1", "\"v\":1,\"caps\":{\"a\":1}"),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good);
        assert_eq!(first(ground, |ws| ws.text(&text)), closed(1002, "invalid attach"), "{from} {to}");
    }
}

fn v2_opening(ground: &Ground) {
    let opening = [&b"FSB2\x02\x02\0\0\0\0\x40\0"[..], &[b'x'; 0x4000]].concat();
    let refused = closed(1002, "flowersec/2 is not supported here: use v1 or the native profile");
    assert_eq!(first(ground, |ws| ws.binary(&opening)), refused);
}

fn later_form(ground: &Ground) {
    let form = TokenForm::Fst2;
    let claims = ground.pair().map(|claims| Claims { form, idle_timeout_s: Some(60), ..claims });
    ground.paired_as(&ground.shared, &claims);
    let without = Claims { idle_timeout_s: None, ..again(&claims[0]) };
    assert_eq!(said(ground, &without), closed(1008, "invalid token"));
}

fn forged(ground: &Ground) {
    let stranger = Issuer::named("k1", 9).unwrap();
    let claims = &ground.pair()[0];
    let mut message = ground.message(claims);
    message.token = stranger.sign(claims);
    assert_eq!(first(ground, |ws| ws.text(&message.encode())), closed(1008, "invalid token"));
    let good = ground.message(claims);
    for token in ["FST1", "x", "FST1.e30.e30", &good.token[1..], &good.token.replace("FST1", "FST2")] {
        message.token = token.into();
        assert_eq!(first(ground, |ws| ws.text(&message.encode())), closed(1008, "invalid token"), "{token}");
    }
}

fn unknown_key(ground: &Ground) {
    let stranger = Issuer::named("k2", 1).unwrap();
    let claims = &ground.pair()[0];
    let mut message = ground.message(claims);
    message.token = stranger.sign(claims);
    assert_eq!(first(ground, |ws| ws.text(&message.encode())), closed(1008, "invalid token"));
}

fn other_relay(ground: &Ground) {
    let claims = &ground.pair()[0];
    let other = [
        Claims { aud: "another".into(), ..claims.clone() },
        Claims { aud: String::new(), ..claims.clone() },
        Claims { iss: "another".into(), ..claims.clone() },
        Claims { iss: String::new(), ..claims.clone() },
    ];
    for claims in other {
        assert_eq!(said(ground, &claims), closed(1008, "invalid token"), "{} {}", claims.aud, claims.iss);
    }
}

fn times(ground: &Ground) {
    let (good, now) = (&ground.pair()[0], now_s());
    // A second or two may pass before the check, so these times are 5 seconds from the edge.
    for claims in [
        Claims { iat: now + 45, ..good.clone() },
        Claims { exp: now - 40, ..good.clone() },
        Claims { exp: now - 40, init_exp: now - 35, ..good.clone() },
        Claims { exp: good.init_exp + 1, ..good.clone() },
        Claims { exp: now + 3605, iat: now, init_exp: now + 9999, ..good.clone() },
    ] {
        assert_eq!(said(ground, &again(&claims)), closed(1008, "invalid token"), "{}", claims.exp);
    }
    for claims in [
        Claims { iat: now + 25, exp: now + 60, ..ground.pair()[0].clone() },
        Claims { iat: now - 100, exp: now - 20, ..ground.pair()[0].clone() },
    ] {
        let mut ws = ground.attach(ground.shared.near(), &claims);
        ws.answers = false;
        ws.send(0x89, b"").unwrap();
        assert_eq!(ws.got(), Got::Frame(0x8a, Vec::new()), "within the skew");
    }
}

fn other_channel(ground: &Ground) {
    let mut message = ground.message(&ground.pair()[0]);
    message.channel_id = "another".into();
    assert_eq!(first(ground, |ws| ws.text(&message.encode())), closed(1008, "channel mismatch"));
}

fn other_role(ground: &Ground) {
    let mut message = ground.message(&ground.pair()[0]);
    message.role = Role::Server;
    assert_eq!(first(ground, |ws| ws.text(&message.encode())), closed(1008, "role mismatch"));
    let neither = Claims { role: 3, ..ground.pair()[0].clone() };
    assert_eq!(said(ground, &neither), closed(1008, "role mismatch"));
}

fn order(ground: &Ground) {
    let mut message = ground.message(&ground.pair()[0]);
    (message.channel_id, message.role) = ("another".into(), Role::Server);
    assert_eq!(first(ground, |ws| ws.text(&message.encode())), closed(1008, "channel mismatch"));
}

fn replayed(ground: &Ground) {
    let claims = ground.pair();
    let _pair = ground.paired_as(&ground.shared, &claims);
    for fleet_end in [ground.shared.near(), ground.shared.far()] {
        assert_eq!(ground.attach(fleet_end, &claims[0]).got(), closed(1008, "token replay"));
    }
}

fn no_token_id(ground: &Ground) {
    let claims = Claims { token_id: String::new(), ..ground.pair()[0].clone() };
    assert_eq!(said(ground, &claims), closed(1008, "token replay"));
}

fn burned(ground: &Ground) {
    let [client, server] = ground.pair();
    let _client = ground.waiting(&client);
    let wrong = Claims { init_exp: server.init_exp + 1, ..server };
    assert_eq!(said(ground, &wrong), closed(1011, "attach failed"));
    assert_eq!(said(ground, &wrong), closed(1008, "token replay"));
}

fn not_burned(ground: &Ground) {
    let [client, server] = ground.pair();
    let mut message = ground.message(&client);
    message.channel_id = "another".into();
    assert_eq!(first(ground, |ws| ws.text(&message.encode())), closed(1008, "channel mismatch"));
    ground.paired_as(&ground.shared, &[client, server]);
}

fn fragments(ground: &Ground) {
    let [client, server] = ground.pair();
    let text = ground.message(&client).encode();
    let (head, tail) = text.as_bytes().split_at(100);
    let mut ws = ground.shared.near();
    ws.send(0x01, head).unwrap();
    ws.send(0x89, b"between").unwrap();
    ws.send(0x80, tail).unwrap();
    ws.binary(b"over");
    let mut other = ground.attach(ground.shared.far(), &server);
    assert_eq!(other.message().unwrap(), b"over");
}

fn other_init_exp(ground: &Ground) {
    let [client, server] = ground.pair();
    let mut first = ground.waiting(&client);
    for by in [-1, 1] {
        let wrong = again(&Claims { init_exp: server.init_exp + by, ..server.clone() });
        assert_eq!(said(ground, &wrong), closed(1011, "attach failed"));
    }
    let mut right = ground.attach(ground.shared.far(), &server);
    first.binary(b"still here");
    assert_eq!(right.message().unwrap(), b"still here");
}

fn other_idle(ground: &Ground) {
    let [client, server] = ground.pair();
    let _first = ground.waiting(&Claims { idle_timeout_s: Some(50), ..client });
    assert_eq!(said(ground, &Claims { idle_timeout_s: Some(51), ..server }), closed(1011, "attach failed"));
}

fn tokens(ground: &Ground) {
    let fleet = ground.fleet(&["--close-reasons", "tokens"]);
    let mut ws = fleet.near();
    ws.text("{}");
    assert_eq!(ws.got(), closed(1002, "invalid_attach"));
    let [client, server] = ground.pair();
    let _first = ground.attached(fleet.near(), &client);
    let wrong = Claims { init_exp: server.init_exp + 1, ..server };
    assert_eq!(ground.attach(fleet.far(), &wrong).got(), closed(1011, "init_exp_mismatch"));
    assert_eq!(ground.attach(fleet.far(), &wrong).got(), closed(1008, "token_replay"));
}

fn replay_in_the_skew(ground: &Ground) {
    // The token has expired, but is within the skew: the relay accepts it once.
    let now = now_s();
    let claims = Claims { iat: now - 60, exp: now - 10, ..ground.pair()[0].clone() };
    let _first = ground.waiting(&claims);
    // A tick later it would be forgotten, if the relay forgot it at its expiry.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert_eq!(said(ground, &claims), closed(1008, "token replay"));
}
