// @generated from spec/broker-w0.proto by `cargo xtask codegen`: change it there.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Metadata {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub created_at: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct HashRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(bytes = "vec", tag = "2")]
    pub input: ::prost::alloc::vec::Vec<u8>,
    #[prost(message, optional, tag = "3")]
    pub metadata: ::core::option::Option<Metadata>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HashResponse {
    /// Lower-case hexadecimal.
    #[prost(string, tag = "1")]
    pub hash_value: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub hash_algorithm: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "3")]
    pub metadata: ::core::option::Option<Metadata>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct SignRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    /// PEM.
    #[prost(string, tag = "2")]
    pub csr: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub ca_private_key: ::prost::alloc::string::String,
    #[prost(string, tag = "4")]
    pub ca_cert: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "5")]
    pub metadata: ::core::option::Option<Metadata>,
    /// Durations as Go writes them, added to the time of the request.
    #[prost(string, optional, tag = "6")]
    pub valid_not_before_offset: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "7")]
    pub valid_not_after_offset: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "8")]
    pub subject: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "9")]
    pub crl_distribution_points: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SignResponse {
    /// Base64 of the certificate's DER.
    #[prost(string, tag = "1")]
    pub signed_certificate: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<Metadata>,
}

impl ::core::fmt::Debug for HashRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("HashRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for SignRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("SignRequest").finish_non_exhaustive()
    }
}

/// Methods of the service `protobuf.CryptoBroker`.
pub mod crypto_broker {
    use super::super::Method;
    pub const HASH: Method<super::HashRequest, super::HashResponse> = Method::new("/protobuf.CryptoBroker/Hash");
    pub const SIGN: Method<super::SignRequest, super::SignResponse> = Method::new("/protobuf.CryptoBroker/Sign");
}
