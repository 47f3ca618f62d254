//! Headers that a client may not say of itself: what a server removes of a request before the service behind receives it.
//! `spec/session-3.md#sealed-requests`; `stripped_headers` of the registry has the same names.

/// Names of headers that say where a request came from, or whose certificate it was.
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
/// Beginnings of further names of that kind.
pub const ORIGIN_PREFIXES: &[&str] = &["x-forwarded-", "x-client-cert", "x-ssl-client-", "ssl-client-", "x-amzn-mtls-"];
/// Names of headers that say which way a request took.
pub const WAY: &[&str] = &["via", "traceparent", "tracestate"];
/// Beginnings of the names under which a server says who its client is.
pub const CLAIMED_PREFIXES: &[&str] = &["x-sealway-"];
/// Names that a service receives from outside a seal, where the seal has none of them.
const FROM_OUTSIDE: &[&str] = &["host", "user-agent", "accept-language"];

/// Whether a service may take one name for the other, both in lower case: many pass headers on as variables, in which a hyphen
/// is an underscore.
pub fn is_alike(one: &str, other: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    one.len() == other.len() && one.bytes().zip(other.bytes()).all(|(one, other)| plain(one) == plain(other))
}

fn begins(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.get(..prefix.len()).is_some_and(|begin| is_alike(begin, prefix)))
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| is_alike(known, name))
}

/// Whether a header, its name in lower case, says where a request came from, or whose certificate it was.
pub fn is_of_origin(name: &str) -> bool {
    is_one_of(name, ORIGIN) || begins(name, ORIGIN_PREFIXES)
}

/// Whether a header, its name in lower case, says which way a request took.
pub fn is_of_way(name: &str) -> bool {
    is_one_of(name, WAY)
}

/// Whether only the server may use a name, in lower case.
pub fn is_claimed(name: &str) -> bool {
    begins(name, CLAIMED_PREFIXES)
}

/// Whether a peer says by a header where a request came from, and may not. One that is trusted says it in the registry's spelling:
/// what looks like it, a proxy passes on as a stranger wrote it.
pub fn is_forged(name: &str, is_trusted: bool) -> bool {
    is_of_origin(name) && (!is_trusted || name.contains('_'))
}

/// Whether a header within a seal reaches the service.
pub fn crosses_from_within(name: &str) -> bool {
    !is_of_origin(name) && !is_of_way(name) && !is_claimed(name)
}

/// Whether a header outside a seal reaches the service, where the seal has none of the name.
pub fn crosses_from_outside(name: &str, is_trusted: bool) -> bool {
    let is_told = is_trusted && !name.contains('_') && (is_of_origin(name) || is_of_way(name));
    is_told || FROM_OUTSIDE.contains(&name)
}
