//! Headers that a client may not set for itself: a server removes them from a request before the service behind receives it.
//! `spec/session-3.md#sealed-requests`; `stripped_headers` of the registry has the same names.

/// Names of headers that state a request's origin, or its client certificate.
pub const ORIGIN: &[&str] = &[
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
    "client-cert",
    "client-cert-chain",
    "x-arr-clientcert",
];
/// Prefixes of further names of that kind.
pub const ORIGIN_PREFIXES: &[&str] = &["x-forwarded-", "x-client-cert", "x-ssl-client-", "ssl-client-", "x-amzn-mtls-"];
/// Names of headers that state the path of a request through proxies.
pub const WAY: &[&str] = &["via", "traceparent", "tracestate"];
/// Prefixes of the names by which a server describes its client.
pub const CLAIMED_PREFIXES: &[&str] = &["x-sealway-"];
/// Names that a service receives from outside a seal, if the seal has none of them.
const FROM_OUTSIDE: &[&str] = &["host", "user-agent", "accept-language"];

/// Returns whether a service may confuse two names, both in lower case: many pass headers on as variables, in which a hyphen is
/// an underscore.
pub fn is_alike(one: &str, other: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    one.len() == other.len() && one.bytes().zip(other.bytes()).all(|(one, other)| plain(one) == plain(other))
}

/// Returns whether a name, in lower case, may be one that [`is_of_origin`], [`is_of_way`] or [`is_claimed`] knows: a quick check
/// by the first byte, which is never wrongly false.
pub fn may_be_reserved(name: &str) -> bool {
    matches!(name.as_bytes(), [b'c' | b'f' | b's' | b't' | b'v' | b'x', ..])
}

fn begins(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.get(..prefix.len()).is_some_and(|begin| is_alike(begin, prefix)))
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| is_alike(known, name))
}

/// Returns whether a header, its name in lower case, states a request's origin, or its client certificate.
pub fn is_of_origin(name: &str) -> bool {
    is_one_of(name, ORIGIN) || begins(name, ORIGIN_PREFIXES)
}

/// Returns whether a header, its name in lower case, states the path of a request through proxies.
pub fn is_of_way(name: &str) -> bool {
    is_one_of(name, WAY)
}

/// Returns whether a name, in lower case, is reserved for the server.
pub fn is_claimed(name: &str) -> bool {
    begins(name, CLAIMED_PREFIXES)
}

/// Returns whether a header states a request's origin that the peer may not state. A trusted proxy states it in the registry's
/// spelling: a proxy passes lookalikes on as a client wrote them.
pub fn is_forged(name: &str, is_trusted: bool) -> bool {
    is_of_origin(name) && (!is_trusted || name.contains('_'))
}

/// Returns whether a header within a seal reaches the service.
pub fn crosses_from_within(name: &str) -> bool {
    !is_of_origin(name) && !is_of_way(name) && !is_claimed(name)
}

/// Returns whether a header outside a seal reaches the service, if the seal has none of the name.
pub fn crosses_from_outside(name: &str, is_trusted: bool) -> bool {
    let is_told = is_trusted && !name.contains('_') && (is_of_origin(name) || is_of_way(name));
    is_told || FROM_OUTSIDE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_check_misses_no_name_and_passes_the_usual_ones() {
        for names in [ORIGIN, ORIGIN_PREFIXES, WAY, CLAIMED_PREFIXES] {
            for name in names {
                assert!(may_be_reserved(name) && may_be_reserved(&name.replace('-', "_")), "{name}");
            }
        }
        for name in ["", "host", "accept", "user-agent", "authorization"] {
            assert!(!may_be_reserved(name), "{name}");
        }
    }

    #[test]
    fn names_are_alike_with_either_character_and_of_one_length() {
        assert!(is_alike("x-real-ip", "x_real_ip") && is_alike("a", "a"));
        assert!(!is_alike("x-real-ip", "x-real-i") && !is_alike("x-real", "x-real-ip") && !is_alike("a", "b"));
    }

    #[test]
    fn a_name_is_of_one_kind() {
        for (name, kinds) in [
            ("forwarded", [true, false, false]),
            ("x_forwarded_for", [true, false, false]),
            ("x-forwarded-", [true, false, false]),
            ("x-forwarded", [false, false, false]),
            ("via", [false, true, false]),
            ("traceparents", [false, false, false]),
            ("x-sealway-subject", [false, false, true]),
            ("x_sealway_auth", [false, false, true]),
            ("x-sealway", [false, false, false]),
            ("accept", [false, false, false]),
        ] {
            assert_eq!([is_of_origin(name), is_of_way(name), is_claimed(name)], kinds, "{name}");
            assert_eq!(crosses_from_within(name), kinds == [false; 3], "{name}");
        }
    }

    #[test]
    fn only_a_trusted_proxy_states_the_origin_and_only_in_the_registrys_spelling() {
        for (name, [untrusted, trusted]) in [
            ("x-forwarded-for", [true, false]),
            ("x_forwarded_for", [true, true]),
            ("accept", [false, false]),
            ("accept_language", [false, false]),
        ] {
            assert_eq!([is_forged(name, false), is_forged(name, true)], [untrusted, trusted], "{name}");
        }
        for (name, [untrusted, trusted]) in [
            ("host", [true, true]),
            ("user-agent", [true, true]),
            ("x-forwarded-for", [false, true]),
            ("x_forwarded_for", [false, false]),
            ("via", [false, true]),
            ("x-sealway-auth", [false, false]),
            ("accept", [false, false]),
        ] {
            let crosses = [crosses_from_outside(name, false), crosses_from_outside(name, true)];
            assert_eq!(crosses, [untrusted, trusted], "{name}");
        }
    }
}
