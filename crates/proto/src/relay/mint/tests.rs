use alloc::vec;

use super::*;
use crate::crypto::default_provider;
use crate::crypto::signature::default_signatures;

const NOW_S: i64 = 1_000;

fn issuer(minting: Minting) -> Result<Issuer, MintInvalid> {
    let key = IssuerKey::from_seed("k1", &[7; 32], default_signatures()).unwrap();
    Issuer::new(key, minting, default_provider())
}

fn native() -> Minting {
    Minting::native("wss://relay", "relay", "issuer")
}

fn claims(grant: &Grant) -> Claims {
    Claims::read_unverified(&grant.token).unwrap()
}

#[test]
fn the_grants_of_a_native_channel_share_a_key_and_each_has_the_other_ends_public_key() {
    let statics = [Some(vec![1; 32]), Some(vec![2; 32])];
    let pair = issuer(Minting { statics, ..native() }).unwrap().pair(Some("c"), NOW_S).unwrap();
    for (grant, role, peer) in [(&pair[0], Role::Client, 2), (&pair[1], Role::Server, 1)] {
        let expected = Grant {
            tunnel_url: "wss://relay".into(),
            channel_id: "c".into(),
            init_exp_s: 1_120,
            idle_timeout_s: 60,
            role,
            token: grant.token.clone(),
            psk: pair[0].psk.clone(),
            allowed_suites: vec![DEFAULT_NATIVE_SUITE],
            default_suite: DEFAULT_NATIVE_SUITE,
            noise_pattern: Some("NNpsk0".into()),
            peer_static: Some(vec![peer; 32]),
        };
        assert_eq!(*grant, expected);
        let expected = Claims {
            form: TokenForm::Fst1,
            kid: "k1".into(),
            aud: "relay".into(),
            iss: "issuer".into(),
            channel_id: "c".into(),
            role: i64::from(role.number()),
            token_id: claims(grant).token_id,
            init_exp: 1_120,
            iat: NOW_S,
            exp: 1_060,
            idle_timeout_s: Some(60),
        };
        assert_eq!(claims(grant), expected);
    }
    assert_ne!(claims(&pair[0]).token_id, claims(&pair[1]).token_id);
    let again = issuer(native()).unwrap().pair(Some("c"), NOW_S).unwrap();
    assert!(again[0].psk != pair[0].psk && again[0].peer_static.is_none());
}

#[test]
fn a_grant_of_v1_has_nothing_of_the_native_profile() {
    let minting = Minting { statics: [Some(vec![1; 32]), None], ..Minting::flowersec_v1("wss://relay", "relay", "") };
    let [client, server] = issuer(minting.clone()).unwrap().pair(None, NOW_S).unwrap();
    assert_eq!((client.allowed_suites.as_slice(), client.default_suite), (&[1][..], 1));
    assert_eq!((&client.noise_pattern, &server.peer_static), (&None, &None));
    assert_eq!(claims(&client).idle_timeout_s, None);
    let later = Minting { token_form: TokenForm::Fst2, ..minting };
    let grant = &issuer(later).unwrap().pair(None, NOW_S).unwrap()[0];
    assert_eq!((claims(grant).form, claims(grant).idle_timeout_s), (TokenForm::Fst2, Some(60)));
}

#[test]
fn a_channel_has_a_name_of_1_to_256_bytes_or_a_random_one() {
    let issuer = issuer(native()).unwrap();
    let name = |name: Option<&str>| issuer.pair(name, NOW_S).map(|pair| pair[1].channel_id.clone());
    for wrong in ["", &"a".repeat(257)] {
        assert_eq!(name(Some(wrong)), Err(MintInvalid::ChannelName));
    }
    let longest = "a".repeat(256);
    assert_eq!(name(Some(longest.as_str())), Ok(longest));
    let (one, other) = (name(None).unwrap(), name(None).unwrap());
    assert!(one.len() == 32 && one != other, "{one} {other}");
}

#[test]
fn suites_are_1_to_64_of_one_profile() {
    let with = |suites: &[u16]| issuer(Minting { suites: suites.to_vec(), ..native() }).map(|_| ());
    for good in [&[1][..], &[NATIVE_SUITE_MIN - 1], &[NATIVE_SUITE_MIN, 0x101], &[1; 64]] {
        assert_eq!(with(good), Ok(()), "{good:?}");
    }
    for bad in [&[][..], &[1; 65], &[NATIVE_SUITE_MIN, 1], &[NATIVE_SUITE_MIN - 1, NATIVE_SUITE_MIN]] {
        assert_eq!(with(bad), Err(MintInvalid::Suites), "{bad:?}");
    }
}

#[test]
fn a_fresh_token_ends_with_the_channels_time_to_begin_at_the_latest() {
    let issuer = issuer(native()).unwrap();
    let [client, _] = issuer.pair(Some("c"), NOW_S).unwrap();
    for (now_s, exp) in [(1_010, 1_070), (1_060, 1_120), (1_061, 1_120), (1_119, 1_120)] {
        let fresh = issuer.reissue(&client, now_s).unwrap();
        let (was, is) = (claims(&client), claims(&fresh));
        assert_eq!((is.iat, is.exp, is.init_exp, is.role), (now_s, exp, was.init_exp, was.role));
        assert_ne!(is.token_id, was.token_id);
        assert_eq!(Grant { token: client.token.clone(), ..fresh }, client);
    }
    assert_eq!(issuer.reissue(&client, 1_120), Err(MintInvalid::InitOver));
}
