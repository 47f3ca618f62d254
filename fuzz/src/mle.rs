//! `mle-token`: any bytes as a token and as a protected header. `mle-body`: rules for paths and any JSON body. `mle-fields`: any JSON
//! body as a message of the field-level form.
//!
//! Input of the last: a byte that chooses the encoding, then the body. Input of the second: a line `from to name` for opening (the name is not used) and sealing, then the body.

use sealway_proto::mle::body::{EACH_MAX_DEFAULT, find_plain, find_sealed, put_opened, put_sealed};
use sealway_proto::mle::compact::{Alphabet, Parts, decode, encode};
use sealway_proto::mle::header::{HEADER_LEN_MAX, Header, KID_LEN_MAX};
use sealway_proto::mle::{Encoding, FieldRule, Fle, FleNames, Place, Scalars};
use serde_json::Value;

/// The fuzz target for the compact form and the protected header.
pub fn token(data: &[u8]) {
    header(data);
    let Ok(parts) = Parts::split(data) else {
        assert_ne!(data.iter().filter(|byte| **byte == b'.').count(), 4, "five parts are refused");
        return;
    };
    let all = [parts.header, parts.encrypted_key, parts.iv, parts.ciphertext, parts.tag];
    assert_eq!(all.join(&b'.'), data, "the parts are not the token");
    for part in all {
        let (strict, mixed) = (decode(part, Alphabet::Strict), decode(part, Alphabet::Mixed));
        if let Ok(bytes) = &strict {
            assert_eq!(encode(bytes).as_bytes(), part, "two spellings of one part");
            assert_eq!(mixed.as_ref(), Ok(bytes), "the alphabets differ");
        }
        if let Ok(bytes) = mixed {
            let spelt: Vec<u8> = part
                .iter()
                .map(|byte| match byte {
                    b'+' => b'-',
                    b'/' => b'_',
                    other => *other,
                })
                .collect();
            assert_eq!(encode(&bytes).as_bytes(), spelt, "the mixed alphabet reads more than two letters");
        }
    }
    if let Ok(json) = decode(parts.header, Alphabet::Strict) {
        header(&json);
    }
}

fn header(json: &[u8]) {
    let Ok(header) = Header::parse(json) else { return };
    assert!(json.len() <= HEADER_LEN_MAX);
    // Another reader, which takes the last of a repeated member, sees the same values: there is no second one.
    let Some(value) = crate::json::read(json) else { return };
    assert_eq!(value["alg"], header.alg.as_str());
    assert_eq!(value["enc"], header.enc.as_str());
    assert_eq!(value.get("kid").and_then(Value::as_str), header.kid.as_deref());
    assert_eq!(value.get("iat").and_then(Value::as_u64), header.iat);
    assert!(header.kid.is_none_or(|kid| (1..=KID_LEN_MAX).contains(&kid.len())));
    for name in ["crit", "b64", "zip", "jku", "jwk", "x5u", "x5c", "x5t", "p2c"] {
        assert!(value.get(name).is_none(), "{name} is taken");
    }
}

/// The fuzz target for paths and edits of bodies.
pub fn body(data: &[u8]) {
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else { return };
    let (line, body) = (&data[..end], &data[end + 1..]);
    let Ok(line) = std::str::from_utf8(line) else { return };
    let words: Vec<&str> = line.split(' ').collect();
    let [from, to, name] = words[..] else { return };
    let Ok(rule) = FieldRule::new(from, to, Some(name).filter(|name| !name.is_empty())) else { return };
    let rules = [rule];
    let theirs: Option<Value> = serde_json::from_slice(body).ok();

    if let Ok(fields) = find_plain(body, &rules, EACH_MAX_DEFAULT, Scalars::Json) {
        for field in &fields {
            // Numbers beyond another reader's range are JSON all the same.
            if theirs.is_some() {
                serde_json::from_slice::<Value>(field.text()).expect("a value of a body is JSON");
            }
        }
        let sealed: Vec<_> = fields.iter().map(|field| (field.clone(), encode(field.text()).into())).collect();
        if let Ok(out) = put_sealed(body, &rules, &sealed) {
            if theirs.is_some() {
                serde_json::from_slice::<Value>(&out).expect("a body with tokens is JSON");
            }
            if sealed.is_empty() {
                assert_eq!(out, body, "a body without values was changed");
            }
        }
    }
    if let Ok(fields) = find_sealed(body, &rules, EACH_MAX_DEFAULT) {
        let opened: Vec<_> = fields.iter().map(|field| (field.clone(), field.text().to_vec().into())).collect();
        for scalars in [Scalars::Refuse, Scalars::Raw, Scalars::Json] {
            let Ok(out) = put_opened(body, &rules, &opened, scalars) else { continue };
            if opened.is_empty() {
                assert_eq!(out[..], *body, "a body without tokens was changed");
            }
            // Below the bound on nesting, what was put together is JSON.
            let whole = [FieldRule::new("$", "$", None).expect("the root is a path")];
            let is_flat = out.iter().filter(|byte| b"[{".contains(byte)).count() < 60;
            assert!(!is_flat || find_plain(&out, &whole, EACH_MAX_DEFAULT, Scalars::Json).is_ok(), "not JSON");
        }
    }
}

/// The fuzz target for values and metadata of the field-level form.
pub fn fields(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    let encoding = match choice % 3 {
        0 => Encoding::Hex,
        1 => Encoding::Base64,
        _ => Encoding::Base64Url,
    };
    let text = |text: &str| text.to_owned();
    let names = FleNames {
        value: text("v"),
        iv: text("i"),
        encrypted_key: text("k"),
        digest: Some(text("d")),
        key_fingerprint: Some(text("f")),
        certificate_fingerprint: Some(text("c")),
    };
    let fle = Fle::new(Place::Body, encoding, names).expect("the names are distinct");
    let rules = [fle.opening_rule("$", "$").expect("the root is a path")];
    let Ok(found) = find_sealed(body, &rules, EACH_MAX_DEFAULT) else { return };
    let Ok((rest, metadata)) = fle.take(body, &rules, &found) else { return };
    assert_eq!(found.len(), metadata.len());
    let Some(metadata) = metadata.first() else {
        assert_eq!(rest[..], *body, "a body without a value was changed");
        return;
    };
    // Another reader sees the same texts, and the rest without them. Numbers beyond its range are JSON all the same.
    let Ok(Value::Object(mut theirs)) = serde_json::from_slice(body) else { return };
    for (name, bytes) in [("i", metadata.iv()), ("k", metadata.encrypted_key())] {
        let text = theirs[name].as_str().expect("a text that is taken is one for another reader");
        let is_hex = encoding == Encoding::Hex;
        let text = if is_hex { text.to_ascii_lowercase() } else { text.to_owned() };
        assert_eq!(encoding.encode(bytes), text, "two spellings of {name}");
    }
    assert_eq!(theirs.get("f").and_then(Value::as_str), metadata.kid());
    for name in ["i", "k", "d", "f", "c"] {
        theirs.remove(name);
    }
    let rest: Value = serde_json::from_slice(&rest).expect("the rest is JSON");
    assert_eq!(rest, Value::Object(theirs), "another member was changed");
}
