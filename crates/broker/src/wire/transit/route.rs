//! Paths of the transit API below its mount.

use http::Method as HttpMethod;

use super::answer::Answer;
use super::{Fields, Request, SERVICE, data, keys, sign};
use crate::Result;
use crate::wire::Method;

/// Endpoints of the API below its mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    List,
    Read,
    Create,
    Rotate,
    Configure,
    Delete,
    Encrypt,
    Decrypt,
    Rewrap,
    DataKey,
    Sign,
    Verify,
    Hmac,
    Hash,
    Random,
}

/// An endpoint with the parts of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route<'a> {
    pub(super) action: Action,
    /// Id of the key; empty for operations without a key.
    pub(super) name: &'a str,
    pub(super) option: Option<&'a str>,
}

/// Reason why a request has no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoute {
    Path,
    Method,
}

impl<'a> Route<'a> {
    /// Finds the endpoint of a path below the mount. POST and PUT are the same, and so are LIST and GET with `list=true`.
    pub(super) fn find(method: &HttpMethod, path: &'a str, query: Option<&str>) -> Result<Route<'a>, NoRoute> {
        use Action::*;
        let is_write = matches!(*method, HttpMethod::POST | HttpMethod::PUT);
        let is_read = *method == HttpMethod::GET;
        let asks_list = query.is_some_and(|query| query.split('&').any(|part| part == "list=true"));
        let is_list = method.as_str() == "LIST" || (is_read && asks_list);
        let mut parts = [""; 4];
        let mut count = 0;
        for part in path.trim_end_matches('/').split('/') {
            *parts.get_mut(count).ok_or(NoRoute::Path)? = part;
            count += 1;
        }
        let route = |action, name, option| Route { action, name, option };
        let (allowed, found) = match parts.get(..count).unwrap_or_default() {
            ["keys"] => (is_list, route(List, "", None)),
            ["keys", name] if is_write => (true, route(Create, name, None)),
            ["keys", name] if *method == HttpMethod::DELETE => (true, route(Delete, name, None)),
            ["keys", name] => (is_read, route(Read, name, None)),
            ["keys", name, "rotate"] => (is_write, route(Rotate, name, None)),
            ["keys", name, "config"] => (is_write, route(Configure, name, None)),
            ["encrypt", name] => (is_write, route(Encrypt, name, None)),
            ["decrypt", name] => (is_write, route(Decrypt, name, None)),
            ["rewrap", name] => (is_write, route(Rewrap, name, None)),
            ["datakey", kind @ ("plaintext" | "wrapped"), name] => (is_write, route(DataKey, name, Some(*kind))),
            ["sign", name] => (is_write, route(Sign, name, None)),
            ["sign", name, hash] => (is_write, route(Sign, name, Some(*hash))),
            ["verify", name] => (is_write, route(Verify, name, None)),
            ["verify", name, hash] => (is_write, route(Verify, name, Some(*hash))),
            ["hmac", name] => (is_write, route(Hmac, name, None)),
            ["hmac", name, hash] => (is_write, route(Hmac, name, Some(*hash))),
            ["hash"] => (is_write, route(Hash, "", None)),
            ["hash", hash] => (is_write, route(Hash, "", Some(*hash))),
            ["random"] | ["random", "platform"] => (is_write, route(Random, "", None)),
            ["random", bytes] | ["random", "platform", bytes] => (is_write, route(Random, "", Some(*bytes))),
            _ => return Err(NoRoute::Path),
        };
        let needs_name = !matches!(found.action, List | Hash | Random);
        match (needs_name && found.name.is_empty(), allowed) {
            (true, _) => Err(NoRoute::Path),
            (false, false) => Err(NoRoute::Method),
            (false, true) => Ok(found),
        }
    }

    /// True for endpoints that look, where a missing key is a missing page.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.action, Action::List | Action::Read)
    }

    /// Method of the endpoint in telemetry: named by its operation.
    pub(super) fn method(&self) -> &'static Method {
        macro_rules! method {
            ($name:literal) => {
                &Method { path: concat!("/v1/transit/", $name), service: SERVICE, name: $name, is_stream: false }
            };
        }
        match self.action {
            Action::List => method!("ListKeys"),
            Action::Read => method!("PublicKey"),
            Action::Create => method!("GenerateKey"),
            Action::Rotate => method!("RotateKey"),
            Action::Configure => method!("ConfigureKey"),
            Action::Delete => method!("DeleteKey"),
            Action::Encrypt | Action::DataKey => method!("EncryptData"),
            Action::Decrypt => method!("DecryptData"),
            Action::Rewrap => method!("Rewrap"),
            Action::Sign => method!("SignData"),
            Action::Verify => method!("VerifyData"),
            Action::Hmac => method!("Mac"),
            Action::Hash => method!("HashData"),
            Action::Random => method!("Random"),
        }
    }

    /// Runs the endpoint on the fields of a request.
    pub(super) async fn run(&self, request: &Request<'_>, fields: Fields) -> Result<Answer> {
        match self.action {
            Action::List => keys::list(request, fields).await,
            Action::Read => keys::read(request, fields).await,
            Action::Create => keys::create(request, fields).await,
            Action::Rotate => keys::rotate(request, fields).await,
            Action::Configure => keys::configure(request, fields).await,
            Action::Delete => keys::delete(request, fields).await,
            Action::Encrypt => data::encrypt(request, fields).await,
            Action::Decrypt => data::decrypt(request, fields).await,
            Action::Rewrap => data::rewrap(request, fields).await,
            Action::DataKey => data::data_key(request, fields).await,
            Action::Sign => sign::sign(request, fields).await,
            Action::Verify => sign::verify(request, fields).await,
            Action::Hmac => sign::hmac(request, fields).await,
            Action::Hash => data::hash(request, fields).await,
            Action::Random => data::random(request, fields).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_their_endpoints_and_others_to_none() {
        let find = |method: &str, path, query| {
            Route::find(&HttpMethod::from_bytes(method.as_bytes()).unwrap(), path, query).map(|route| route.action)
        };
        for (method, path, query, action) in [
            ("LIST", "keys", None, Action::List),
            ("GET", "keys/", Some("a=b&list=true"), Action::List),
            ("GET", "keys/a", None, Action::Read),
            ("PUT", "keys/a", None, Action::Create),
            ("DELETE", "keys/a", None, Action::Delete),
            ("POST", "keys/a/rotate", None, Action::Rotate),
            ("POST", "datakey/wrapped/a", None, Action::DataKey),
            ("POST", "verify/a/sha2-256", None, Action::Verify),
            ("POST", "random/platform/32", None, Action::Random),
        ] {
            assert_eq!(find(method, path, query), Ok(action), "{method} {path}");
        }
        for (method, path, expected) in [
            ("GET", "keys", NoRoute::Method),
            ("PATCH", "keys/a", NoRoute::Method),
            ("GET", "encrypt/a", NoRoute::Method),
            ("DELETE", "keys/a/rotate", NoRoute::Method),
            ("POST", "encrypt", NoRoute::Path),
            ("POST", "encrypt//", NoRoute::Path),
            ("POST", "keys//rotate", NoRoute::Path),
            ("GET", "export/encryption-key/a", NoRoute::Path),
            ("POST", "datakey/both/a", NoRoute::Path),
            ("POST", "a/b/c/d/e", NoRoute::Path),
            ("POST", "", NoRoute::Path),
        ] {
            assert_eq!(find(method, path, None), Err(expected), "{method} {path}");
        }
    }
}
