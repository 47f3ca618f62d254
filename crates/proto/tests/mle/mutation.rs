//! A good token with each bit flipped, and each cut of it: none opens.

use sealway_proto::mle::{Alg, Class, Enc, Message, Profile};

use crate::builder::Builder;
use crate::setup::{open, opening_keys};

#[test]
fn no_flipped_bit_of_any_part_opens() {
    let (profile, keys) = (Profile::mastercard_jwe(), opening_keys(Alg::RsaOaep256));
    for enc in [Enc::A256Gcm, Enc::A128CbcHs256] {
        let token = Builder { plaintext: b"{\"a\":1}".to_vec(), ..Builder::new("RSA-OAEP-256", enc, None) }.token();
        assert!(open(token.text().as_bytes(), &profile, Message::Request, &keys).is_ok());
        let mut counts = [0; 5];
        for (part, count) in counts.iter_mut().enumerate() {
            for bit in 0..token.0[part].len() * 8 {
                let text = token.with(part, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
                let refused = open(text.as_bytes(), &profile, Message::Request, &keys).unwrap_err();
                let is_expected = match part {
                    0 => refused.kind() != Class::Unwrap,
                    1 => refused.kind() == Class::Unwrap,
                    _ => refused.kind() == Class::Tag,
                };
                assert!(is_expected, "{enc}, part {part}, bit {bit}: {refused:?}");
                *count += 1;
            }
        }
        assert!(counts[0] > 500 && counts[1] == 2048 && counts[4] == 128, "{counts:?}");
        println!("{enc}: {} flipped bits, 0 accepted", counts.iter().sum::<usize>());
    }
}

#[test]
fn no_cut_of_the_token_or_of_a_part_opens() {
    let (profile, keys) = (Profile::mastercard_jwe(), opening_keys(Alg::RsaOaep256));
    let token = Builder::new("RSA-OAEP-256", Enc::A256Gcm, None).token();
    let text = token.text();
    for len in 0..text.len() {
        assert!(open(&text.as_bytes()[..len], &profile, Message::Request, &keys).is_err(), "{len}");
        assert!(open(&text.as_bytes()[text.len() - len..], &profile, Message::Request, &keys).is_err(), "last {len}");
    }
    for part in 0..5 {
        for len in 0..token.0[part].len() {
            let cut = token.with(part, |bytes| bytes.truncate(len));
            assert!(open(cut.as_bytes(), &profile, Message::Request, &keys).is_err(), "part {part} of {len}");
        }
    }
}

#[test]
fn no_changed_letter_opens_in_the_strict_alphabet() {
    let side = sealway_proto::mle::Side::new(&[Alg::RsaOaep256], &[Enc::A256Gcm], sealway_proto::mle::Wrapper::Bare);
    let (profile, keys) = (Profile::generic(side.clone(), side, None), opening_keys(Alg::RsaOaep256));
    let text = Builder { plaintext: b"1".to_vec(), ..Builder::new("RSA-OAEP-256", Enc::A256Gcm, None) }.text();
    assert!(open(text.as_bytes(), &profile, Message::Request, &keys).is_ok());
    for at in 0..text.len() {
        for letter in *b"A_.+= \0" {
            let mut changed = text.clone().into_bytes();
            if changed[at] != letter {
                changed[at] = letter;
                assert!(open(&changed, &profile, Message::Request, &keys).is_err(), "{at} {letter}");
            }
        }
    }
}
