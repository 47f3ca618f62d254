//! `pkcs11-uri`: any text as a URI of a token or a key (RFC 7512).

use sealway_pkcs11::{PinSource, Uri};

/// The fuzz target for URIs of PKCS#11.
pub fn pkcs11_uri(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let uri = match Uri::parse(text) {
        Ok(uri) => uri,
        Err(err) => {
            let shown = err.to_string();
            assert!(shown.len() <= 256 && !shown.contains(char::is_control), "an error that is not a short line");
            // No value is shown: each that is longer than any word of the messages, and than a name that is shown.
            let values = text.split([';', '&', '?']).filter_map(|part| Some(part.split_once('=')?.1));
            for value in values.filter(|value| value.len() > 32 && !value.contains(' ')) {
                assert!(!shown.contains(value), "a value is shown");
            }
            return;
        }
    };
    let (path, query) = text.strip_prefix("pkcs11:").expect("the scheme").split_once('?').unwrap_or((&text[7..], ""));
    // A plain statement of it: each attribute stands once, with its value decoded.
    let mut names = Vec::new();
    for attribute in path.split(';').chain(query.split('&')).filter(|attribute| !attribute.is_empty()) {
        let (name, value) = attribute.split_once('=').expect("an attribute has a value");
        assert!(!names.contains(&name), "{name} stands twice");
        names.push(name);
        let decoded = decoded(value);
        let text = || String::from_utf8(decoded.clone()).ok();
        match name {
            "token" => assert_eq!(uri.token, text()),
            "serial" => assert_eq!(uri.serial, text()),
            "manufacturer" => assert_eq!(uri.manufacturer, text()),
            "model" => assert_eq!(uri.model, text()),
            "object" => assert_eq!(uri.object, text()),
            "id" => assert_eq!(uri.id.as_ref(), Some(&decoded)),
            "type" => assert!(uri.kind.is_some()),
            "module-path" => assert_eq!(uri.module_path.as_ref().and_then(|path| path.to_str()), text().as_deref()),
            "pin-source" => match uri.pin_source.as_ref().expect("it was given") {
                PinSource::File(path) => assert!(path.is_absolute()),
                PinSource::Environment(name) => {
                    assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
                }
            },
            _ => panic!("{name} was passed over"),
        }
    }
    // The written form is the URI without its query, and names the same token.
    let again = Uri::parse(&uri.to_string()).expect("what was written is read");
    assert_eq!(again.to_string(), uri.to_string());
    assert_eq!(again, Uri { module_path: None, pin_source: None, ..uri.clone() });
    assert!(!again.has_query());
    let token = Uri::parse(&uri.token_name()).expect("the token's name is a URI");
    assert!(uri.is_on(&token) && token.key().is_none());
    assert_eq!(uri.key().is_some(), uri.object.is_some() || uri.id.is_some());
}

/// Decodes percent-encoding that was accepted.
fn decoded(value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        (rest, _) = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("hexadecimal digits");
                (after, out.push(u8::from_str_radix(digits, 16).expect("hexadecimal digits")))
            }
            _ => (after, out.push(*first)),
        };
    }
    out
}
