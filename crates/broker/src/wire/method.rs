//! Every call that there is, by its path.

/// A call of a service.
#[derive(Debug, PartialEq, Eq)]
pub struct Method {
    /// As it is asked for: `/package.Service/Name`.
    pub path: &'static str,
    /// `package.Service`.
    pub service: &'static str,
    /// `Name`.
    pub name: &'static str,
    /// It answers with a stream.
    pub is_stream: bool,
}

impl Method {
    /// What stands for a path that no call has: it is counted and logged too, under no name of the caller's.
    pub const UNKNOWN: Method = Method { path: "/unknown", service: "unknown", name: "unknown", is_stream: false };

    /// Whether it is of our own wire.
    pub fn is_ours(&self) -> bool {
        self.service.starts_with("sealway.")
    }

    /// As Go's gRPC calls its kind.
    pub fn kind(&self) -> &'static str {
        if self.is_stream { "server_stream" } else { "unary" }
    }

    /// The call of a path.
    pub fn find(path: &str) -> Option<&'static Method> {
        METHODS.iter().find(|method| method.path == path)
    }
}

macro_rules! methods {
    ($($service:literal { $($name:literal $($stream:ident)?),* $(,)? })*) => {
        /// All calls of all services.
        pub const METHODS: &[Method] = &[$($(Method {
            path: concat!("/", $service, "/", $name),
            service: $service,
            name: $name,
            is_stream: false $(|| stringify!($stream).len() > 0)?,
        },)*)*];
    };
}

// The busiest first.
methods! {
    "CryptoBroker.CryptoGrpc" {
        "HashData", "SignCertificate", "EncryptData", "DecryptData", "SignData", "VerifyData", "Hash", "Sign", "Benchmark",
        "FakeEndpoint",
    }
    "sealway.broker.v1.Broker" {
        "Hash", "SignCertificate", "Encrypt", "Decrypt", "Rewrap", "Sign", "Verify", "Mac", "VerifyMac", "Derive", "Random",
        "Encapsulate", "Decapsulate", "Information",
    }
    "grpc.health.v1.Health" { "Check", "List", "Watch" stream }
    "sealway.broker.v1.Keys" { "Generate", "Import", "List", "Rotate", "Disable", "Enable", "PublicKey" }
    "protobuf.CryptoBroker" { "Hash", "Sign" }
    "CryptoBroker.CryptoGrpcDev" { "Benchmark", "FakeEndpoint" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_of_the_specification_is_listed() {
        let specification = [
            include_str!("../../../../spec/broker-w0.proto"),
            include_str!("../../../../spec/broker-open.proto"),
            include_str!("../../../../spec/broker.proto"),
            include_str!("../../../../spec/broker-health.proto"),
        ];
        let mut listed = 0;
        for file in specification {
            let (mut package, mut service) = ("", "");
            for line in file.lines() {
                let mut words = line.split([' ', '(', ';']).filter(|word| !word.is_empty());
                match (words.next(), words.next()) {
                    (Some("package"), Some(name)) => package = name,
                    (Some("service"), Some(name)) => service = name,
                    (Some("rpc"), Some(name)) => {
                        let path = format!("/{package}.{service}/{name}");
                        let method = Method::find(&path).unwrap_or_else(|| panic!("{path}"));
                        assert_eq!((method.name, method.is_stream), (name, line.contains("returns (stream")), "{path}");
                        assert_eq!(method.service, format!("{package}.{service}"));
                        listed += 1;
                    }
                    _ => {}
                }
            }
        }
        assert_eq!(listed, METHODS.len());
    }
}
