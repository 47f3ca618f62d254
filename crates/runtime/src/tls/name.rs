//! Names of certificates as text: RFC 4514, the last part first, with ambiguous characters escaped.

use x509_parser::der_parser::asn1_rs::oid;
use x509_parser::der_parser::oid::Oid;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Formats a name, such as `CN=instrument-7,O=Plant`.
pub(super) fn rfc4514(name: &X509Name<'_>) -> String {
    let mut parts: Vec<String> =
        name.iter_rdn().map(|rdn| rdn.iter().map(attribute).collect::<Vec<_>>().join("+")).collect();
    parts.reverse();
    parts.join(",")
}

/// Returns the common name, if there is exactly one that is text: two would be ambiguous.
pub(super) fn common_name(name: &X509Name<'_>) -> Option<String> {
    let mut names = name.iter_common_name();
    match (names.next(), names.next()) {
        (Some(name), None) => name.as_str().ok().map(str::to_owned),
        _ => None,
    }
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    match (short(attribute.attr_type()), attribute.as_str()) {
        (Some(short), Ok(text)) => format!("{short}={}", escape(text)),
        // An attribute without a short name, or that is not text, is shown as the bytes of its value.
        (short, _) => {
            let kind = short.map_or_else(|| attribute.attr_type().to_id_string(), str::to_owned);
            format!("{kind}=#{}", hex(attribute.attr_value().data))
        }
    }
}

fn short(oid: &Oid<'_>) -> Option<&'static str> {
    let known = [
        (oid!(2.5.4.3), "CN"),
        (oid!(2.5.4.6), "C"),
        (oid!(2.5.4.7), "L"),
        (oid!(2.5.4.8), "ST"),
        (oid!(2.5.4.9), "STREET"),
        (oid!(2.5.4.10), "O"),
        (oid!(2.5.4.11), "OU"),
        (oid!(0.9.2342.19200300.100.1.1), "UID"),
        (oid!(0.9.2342.19200300.100.1.25), "DC"),
    ];
    known.iter().find(|(known, _)| known == oid).map(|(_, short)| *short)
}

/// Escapes a text, control characters too: a name goes into logs and headers.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let last = text.chars().count().saturating_sub(1);
    for (at, c) in text.chars().enumerate() {
        match c {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => out.extend(['\\', c]),
            '#' if at == 0 => out.push_str("\\#"),
            ' ' if at == 0 || at == last => out.push_str("\\ "),
            c if c.is_control() => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    out.push_str(&format!("\\{byte:02X}"));
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// Encodes bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats a serial number as OpenSSL prints it: upper-case hexadecimal without leading zero bytes.
pub(crate) fn serial(bytes: &[u8]) -> String {
    let at = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len().saturating_sub(1));
    hex(&bytes[at..]).to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_characters_of_a_name_are_escaped() {
        for (text, want) in [
            ("instrument-7", "instrument-7"),
            ("a,CN=b", "a\\,CN=b"),
            (" a ", "\\ a\\ "),
            ("#1", "\\#1"),
            ("a\r\nX: y", "a\\0D\\0AX: y"),
            ("", ""),
        ] {
            assert_eq!(escape(text), want);
        }
    }

    #[test]
    fn a_serial_number_is_printed_as_openssl_does() {
        assert_eq!(serial(&[0, 0xa1, 0x0b]), "A10B");
        assert_eq!(serial(&[0]), "00");
        assert_eq!(serial(&[]), "");
    }
}
