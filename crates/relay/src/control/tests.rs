//! Tests of tokens, and of the grants that requests get.

use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{IssuerKey, Minting, Role};
use sealway_runtime::clock::ManualClock;

use super::*;

/// Time of the tests, in Unix seconds.
const NOW_S: i64 = 1_800_000_000;

pub(super) fn issuer() -> Issuer {
    let key = IssuerKey::from_seed("k1", &[1; 32], default_signatures()).unwrap();
    Issuer::new(key, Minting::native("ws://relay/ws", "a", ""), default_provider()).unwrap()
}

fn control() -> Control {
    let clock = ManualClock::new(u64::try_from(NOW_S).unwrap() * 1000);
    Control::new(issuer(), Tokens::default(), None, Arc::new(clock))
}

fn status_and_text<T>(result: Result<T, Refusal>) -> (u16, String) {
    let Refusal(status, text) = result.err().unwrap();
    (status.as_u16(), text)
}

#[test]
fn each_line_is_a_token_that_admits_its_holder() {
    let tokens = Tokens::parse("# people\n0123456789abcdef\n\n  fedcba9876543210  \n").unwrap();
    let shows = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        tokens.lets_in(&headers)
    };
    assert_eq!((shows("Bearer 0123456789abcdef"), shows("bearer fedcba9876543210")), (Some(0), Some(1)));
    for wrong in ["Bearer 0123456789abcdeg", "Bearer ", "Bearer", "Basic 0123456789abcdef", "0123456789abcdef", ""] {
        assert_eq!(shows(wrong), None, "{wrong}");
    }
    assert_eq!(tokens.lets_in(&HeaderMap::new()), None);
    assert_eq!(Tokens::parse("0123456789abcdef\nshort").unwrap_err(), 2);
    assert_eq!(format!("{tokens:?}"), "Tokens(2)");
    assert!(!tokens.is_empty() && Tokens::parse("# nobody yet\n\n").unwrap().is_empty());
}

#[test]
fn a_pair_has_both_ends_of_one_channel_named_or_random() {
    let control = control();
    let pair = |asked: Value| {
        let text = control.pair(&asked).map_err(|Refusal(status, text)| (status.as_u16(), text))?;
        let both: Value = serde_json::from_str(&text).unwrap();
        let grant = |end: &str| Grant::parse(both[end].to_string().as_bytes()).unwrap();
        Ok::<_, (u16, String)>([grant("grant_client"), grant("grant_server")])
    };
    let [client, server] = pair(json!({"channel_id": "room"})).unwrap();
    assert_eq!((client.role, server.role), (Role::Client, Role::Server));
    assert_eq!([&client.channel_id, &server.channel_id], ["room", "room"]);
    assert!(client.psk == server.psk && client.token != server.token);
    assert_eq!([client.init_exp_s, server.init_exp_s], [NOW_S + 120; 2]);
    for unnamed in [json!({}), json!({"channel_id": null}), json!({"channel_id": ""})] {
        let [one, two] = [(); 2].map(|()| pair(unnamed.clone()).unwrap()[0].channel_id.clone());
        assert!(one != two && one.len() == 32, "{unnamed}: {one}");
    }
    assert_eq!(pair(json!({"channel_id": 7})), Err((400, "channel_id is no text".into())));
    let long = pair(json!({"channel_id": "x".repeat(257)}));
    assert_eq!(long, Err((400, "a channel's name has 1 to 256 bytes".into())));
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_of_the_end_that_is_asked_for() {
    let control = control();
    let grant = async |asked: Value| {
        let text = control.grant(&asked, None).await?;
        Ok::<_, Refusal>(text.map(|text| Grant::parse(text.as_bytes()).unwrap()))
    };
    // A listener that does not wait leaves the other end for a client.
    let server = grant(json!({"name": "n", "role": "server"})).await.ok().flatten().unwrap();
    let client = grant(json!({"name": "n", "role": "client", "wait_s": 1})).await.ok().flatten().unwrap();
    assert_eq!((server.role, client.role), (Role::Server, Role::Client));
    assert!(server.channel_id == client.channel_id && server.psk == client.psk);
    assert_eq!([server.init_exp_s, client.init_exp_s], [NOW_S + 120; 2]);
    // A listener that waits is granted with the client, or not at all.
    let (server, client) = tokio::join!(
        grant(json!({"name": "n", "role": "server", "wait_s": 30})),
        grant(json!({"name": "n", "role": "client"}))
    );
    let (server, client) = (server.ok().flatten().unwrap(), client.ok().flatten().unwrap());
    assert_eq!((server.role, &server.channel_id), (Role::Server, &client.channel_id));
    let begun = tokio::time::Instant::now();
    assert!(matches!(grant(json!({"name": "n", "role": "server", "wait_s": 3})).await, Ok(None)));
    assert_eq!(begun.elapsed().as_secs(), 3);

    let wrong_role = (400, "role is neither \"client\" nor \"server\"".to_owned());
    let wrong_wait = (400, "wait_s is no number from 1 to 30".to_owned());
    for (asked, expected) in [
        (json!({"role": "server"}), (400, "name is no text".to_owned())),
        (json!({"name": 1, "role": "server"}), (400, "name is no text".to_owned())),
        (json!({"name": "n"}), wrong_role.clone()),
        (json!({"name": "n", "role": "Server"}), wrong_role),
        (json!({"name": "n", "role": "server", "wait_s": 31}), wrong_wait),
        (json!({"name": "", "role": "server"}), (400, "a name has 1 to 128 bytes".to_owned())),
        (json!({"name": "n", "role": "client"}), (404, "nobody listens under this name".to_owned())),
    ] {
        assert_eq!(status_and_text(grant(asked.clone()).await), expected, "{asked}");
    }
}

#[test]
fn a_listener_waits_1_to_30_seconds_or_not_at_all() {
    for (asked, expected) in [
        (json!({}), None),
        (json!({"wait_s": null}), None),
        (json!({"wait_s": 1}), Some(Duration::from_secs(1))),
        (json!({"wait_s": 30}), Some(Duration::from_secs(30))),
    ] {
        assert_eq!(wait(&asked).ok(), Some(expected), "{asked}");
    }
    for wrong in [json!(0), json!(31), json!(-1), json!(1.5), json!("5"), json!(true)] {
        let refused = status_and_text(wait(&json!({"wait_s": wrong})));
        assert_eq!(refused, (400, "wait_s is no number from 1 to 30".into()), "{wrong}");
    }
}
