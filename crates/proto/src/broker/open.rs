// @generated from spec/broker-open.proto by `cargo xtask codegen`: change it there.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TraceContext {
    #[prost(string, tag = "1")]
    pub trace_id: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub span_id: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub trace_flags: ::prost::alloc::string::String,
    #[prost(string, tag = "4")]
    pub trace_state: ::prost::alloc::string::String,
    #[prost(string, tag = "5")]
    pub correlation_id: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Deprecation {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, optional, tag = "2")]
    pub replaced_by: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "3")]
    pub deprecated_since: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "4")]
    pub remove_after: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "5")]
    pub reason: ::core::option::Option<::prost::alloc::string::String>,
}
/// W3 and W4.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Metadata {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub deprecation: ::core::option::Option<Deprecation>,
    #[prost(message, optional, tag = "3")]
    pub trace_context: ::core::option::Option<TraceContext>,
}
/// W1 and W2, and the development service on every wire: W1 alone sends the second field.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MetadataW1 {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub created_at: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "3")]
    pub trace_context: ::core::option::Option<TraceContext>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CryptoDescriptor {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub operation: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub algorithm: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct HashDataRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(bytes = "vec", tag = "2")]
    pub input: ::prost::alloc::vec::Vec<u8>,
    #[prost(message, optional, tag = "3")]
    pub metadata: ::core::option::Option<Metadata>,
    #[prost(enumeration = "HashOutputFormat", tag = "4")]
    pub output_format: i32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct HashDataResponse {
    #[prost(string, tag = "2")]
    pub hash_algorithm: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "3")]
    pub metadata: ::core::option::Option<Metadata>,
    #[prost(message, optional, tag = "6")]
    pub descriptor: ::core::option::Option<CryptoDescriptor>,
    #[prost(oneof = "hash_data_response::HashValue", tags = "4, 5")]
    pub hash_value: ::core::option::Option<hash_data_response::HashValue>,
}
/// Nested message and enum types in `HashDataResponse`.
pub mod hash_data_response {
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    #[prost(skip_debug)]
    pub enum HashValue {
        #[prost(string, tag = "4")]
        HashValueHex(::prost::alloc::string::String),
        #[prost(bytes, tag = "5")]
        HashValueRaw(::prost::alloc::vec::Vec<u8>),
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct SignCertificateRequest {
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
    /// Unix seconds.
    #[prost(uint64, optional, tag = "6")]
    pub valid_not_before: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    pub valid_not_after: ::core::option::Option<u64>,
    #[prost(string, optional, tag = "8")]
    pub subject: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "9")]
    pub crl_distribution_points: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(enumeration = "SignOutputFormat", tag = "10")]
    pub output_format: i32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct SignCertificateResponse {
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<Metadata>,
    #[prost(message, optional, tag = "5")]
    pub descriptor: ::core::option::Option<CryptoDescriptor>,
    #[prost(oneof = "sign_certificate_response::SignedCertificate", tags = "3, 4")]
    pub signed_certificate: ::core::option::Option<sign_certificate_response::SignedCertificate>,
}
/// Nested message and enum types in `SignCertificateResponse`.
pub mod sign_certificate_response {
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    #[prost(skip_debug)]
    pub enum SignedCertificate {
        #[prost(string, tag = "3")]
        Pem(::prost::alloc::string::String),
        #[prost(bytes, tag = "4")]
        Der(::prost::alloc::vec::Vec<u8>),
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct KeySource {
    #[prost(oneof = "key_source::Source", tags = "1, 2")]
    pub source: ::core::option::Option<key_source::Source>,
}
/// Nested message and enum types in `KeySource`.
pub mod key_source {
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    #[prost(skip_debug)]
    pub enum Source {
        #[prost(string, tag = "1")]
        KeyId(::prost::alloc::string::String),
        #[prost(bytes, tag = "2")]
        RawKey(::prost::alloc::vec::Vec<u8>),
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct EncryptMetadata {
    #[prost(bytes = "vec", tag = "1")]
    pub nonce: ::prost::alloc::vec::Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub aad: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct CipherMetadata {
    #[prost(string, optional, tag = "1")]
    pub key_id: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bytes = "vec", tag = "2")]
    pub nonce: ::prost::alloc::vec::Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub aad: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub tag: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct DecryptMetadata {
    #[prost(bytes = "vec", tag = "1")]
    pub nonce: ::prost::alloc::vec::Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub aad: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub tag: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct EncryptDataRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub key_source: ::core::option::Option<KeySource>,
    #[prost(bytes = "vec", tag = "3")]
    pub plaintext: ::prost::alloc::vec::Vec<u8>,
    #[prost(message, optional, tag = "4")]
    pub encrypt_metadata: ::core::option::Option<EncryptMetadata>,
    #[prost(message, optional, tag = "5")]
    pub metadata: ::core::option::Option<Metadata>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct EncryptDataResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: ::prost::alloc::vec::Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub cipher_metadata: ::core::option::Option<CipherMetadata>,
    #[prost(message, optional, tag = "3")]
    pub metadata: ::core::option::Option<Metadata>,
    #[prost(message, optional, tag = "4")]
    pub descriptor: ::core::option::Option<CryptoDescriptor>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct DecryptDataRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub key_source: ::core::option::Option<KeySource>,
    #[prost(bytes = "vec", tag = "3")]
    pub ciphertext: ::prost::alloc::vec::Vec<u8>,
    #[prost(message, optional, tag = "4")]
    pub decrypt_metadata: ::core::option::Option<DecryptMetadata>,
    #[prost(message, optional, tag = "5")]
    pub metadata: ::core::option::Option<Metadata>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct DecryptDataResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: ::prost::alloc::vec::Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<Metadata>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ComponentKeys {
    #[prost(message, repeated, tag = "1")]
    pub keys: ::prost::alloc::vec::Vec<KeySource>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SignKeySource {
    #[prost(oneof = "sign_key_source::Source", tags = "1, 2")]
    pub source: ::core::option::Option<sign_key_source::Source>,
}
/// Nested message and enum types in `SignKeySource`.
pub mod sign_key_source {
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Source {
        #[prost(message, tag = "1")]
        Single(super::KeySource),
        /// The keys of a composite signature.
        #[prost(message, tag = "2")]
        ComponentKeys(super::ComponentKeys),
    }
}
#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct SignDataRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub key_source: ::core::option::Option<SignKeySource>,
    #[prost(bytes = "vec", tag = "3")]
    pub input: ::prost::alloc::vec::Vec<u8>,
    #[prost(enumeration = "SignatureFormat", tag = "4")]
    pub signature_format: i32,
    #[prost(message, optional, tag = "5")]
    pub metadata: ::core::option::Option<Metadata>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct SignDataResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub signature: ::prost::alloc::vec::Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub descriptor: ::core::option::Option<CryptoDescriptor>,
    #[prost(message, optional, tag = "3")]
    pub metadata: ::core::option::Option<Metadata>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct VerifyDataRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub key_source: ::core::option::Option<SignKeySource>,
    #[prost(bytes = "vec", tag = "3")]
    pub input: ::prost::alloc::vec::Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub signature: ::prost::alloc::vec::Vec<u8>,
    #[prost(enumeration = "SignatureFormat", tag = "5")]
    pub signature_format: i32,
    #[prost(message, optional, tag = "6")]
    pub metadata: ::core::option::Option<Metadata>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct VerifyDataResponse {
    #[prost(bool, tag = "1")]
    pub valid: bool,
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<Metadata>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct HashRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(bytes = "vec", tag = "2")]
    pub input: ::prost::alloc::vec::Vec<u8>,
    #[prost(message, optional, tag = "3")]
    pub metadata: ::core::option::Option<MetadataW1>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HashResponse {
    /// Lower-case hexadecimal.
    #[prost(string, tag = "1")]
    pub hash_value: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub hash_algorithm: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "3")]
    pub metadata: ::core::option::Option<MetadataW1>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct SignRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub csr: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub ca_private_key: ::prost::alloc::string::String,
    #[prost(string, tag = "4")]
    pub ca_cert: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "5")]
    pub metadata: ::core::option::Option<MetadataW1>,
    #[prost(uint64, optional, tag = "6")]
    pub valid_not_before: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    pub valid_not_after: ::core::option::Option<u64>,
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
    pub metadata: ::core::option::Option<MetadataW1>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct BenchmarkRequest {
    #[prost(message, optional, tag = "1")]
    pub metadata: ::core::option::Option<MetadataW1>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct BenchmarkResponse {
    /// JSON.
    #[prost(string, tag = "1")]
    pub benchmark_results: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<MetadataW1>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FakeEndpointRequest {
    #[prost(message, optional, tag = "1")]
    pub metadata: ::core::option::Option<MetadataW1>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FakeEndpointResponse {
    #[prost(string, tag = "1")]
    pub message: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<MetadataW1>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum HashOutputFormat {
    Hex = 0,
    Raw = 1,
}
impl HashOutputFormat {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Hex => "HEX",
            Self::Raw => "RAW",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "HEX" => Some(Self::Hex),
            "RAW" => Some(Self::Raw),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum SignOutputFormat {
    Der = 0,
    Pem = 1,
}
impl SignOutputFormat {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Der => "DER",
            Self::Pem => "PEM",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "DER" => Some(Self::Der),
            "PEM" => Some(Self::Pem),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum SignatureFormat {
    SignatureRaw = 0,
    SignatureDer = 1,
    SignaturePem = 2,
    SignatureCms = 3,
}
impl SignatureFormat {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::SignatureRaw => "SIGNATURE_RAW",
            Self::SignatureDer => "SIGNATURE_DER",
            Self::SignaturePem => "SIGNATURE_PEM",
            Self::SignatureCms => "SIGNATURE_CMS",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "SIGNATURE_RAW" => Some(Self::SignatureRaw),
            "SIGNATURE_DER" => Some(Self::SignatureDer),
            "SIGNATURE_PEM" => Some(Self::SignaturePem),
            "SIGNATURE_CMS" => Some(Self::SignatureCms),
            _ => None,
        }
    }
}

impl ::core::fmt::Debug for HashDataRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("HashDataRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for HashDataResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("HashDataResponse").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for hash_data_response::HashValue {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("HashValue").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for SignCertificateRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("SignCertificateRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for SignCertificateResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("SignCertificateResponse").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for sign_certificate_response::SignedCertificate {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("SignedCertificate").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("KeySource").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for key_source::Source {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for EncryptMetadata {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("EncryptMetadata").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for CipherMetadata {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("CipherMetadata").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for DecryptMetadata {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("DecryptMetadata").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for EncryptDataRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("EncryptDataRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for EncryptDataResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("EncryptDataResponse").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for DecryptDataRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("DecryptDataRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for DecryptDataResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("DecryptDataResponse").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for SignDataRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("SignDataRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for SignDataResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("SignDataResponse").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for VerifyDataRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("VerifyDataRequest").finish_non_exhaustive()
    }
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

/// Methods of the service `CryptoBroker.CryptoGrpc`.
pub mod crypto_grpc {
    use super::super::Method;
    pub const HASH_DATA: Method<super::HashDataRequest, super::HashDataResponse> =
        Method::new("/CryptoBroker.CryptoGrpc/HashData");
    pub const SIGN_CERTIFICATE: Method<super::SignCertificateRequest, super::SignCertificateResponse> =
        Method::new("/CryptoBroker.CryptoGrpc/SignCertificate");
    pub const ENCRYPT_DATA: Method<super::EncryptDataRequest, super::EncryptDataResponse> =
        Method::new("/CryptoBroker.CryptoGrpc/EncryptData");
    pub const DECRYPT_DATA: Method<super::DecryptDataRequest, super::DecryptDataResponse> =
        Method::new("/CryptoBroker.CryptoGrpc/DecryptData");
    pub const SIGN_DATA: Method<super::SignDataRequest, super::SignDataResponse> =
        Method::new("/CryptoBroker.CryptoGrpc/SignData");
    pub const VERIFY_DATA: Method<super::VerifyDataRequest, super::VerifyDataResponse> =
        Method::new("/CryptoBroker.CryptoGrpc/VerifyData");
    pub const HASH: Method<super::HashRequest, super::HashResponse> = Method::new("/CryptoBroker.CryptoGrpc/Hash");
    pub const SIGN: Method<super::SignRequest, super::SignResponse> = Method::new("/CryptoBroker.CryptoGrpc/Sign");
    pub const BENCHMARK: Method<super::BenchmarkRequest, super::BenchmarkResponse> =
        Method::new("/CryptoBroker.CryptoGrpc/Benchmark");
    pub const FAKE_ENDPOINT: Method<super::FakeEndpointRequest, super::FakeEndpointResponse> =
        Method::new("/CryptoBroker.CryptoGrpc/FakeEndpoint");
}

/// Methods of the service `CryptoBroker.CryptoGrpcDev`.
pub mod crypto_grpc_dev {
    use super::super::Method;
    pub const BENCHMARK: Method<super::BenchmarkRequest, super::BenchmarkResponse> =
        Method::new("/CryptoBroker.CryptoGrpcDev/Benchmark");
    pub const FAKE_ENDPOINT: Method<super::FakeEndpointRequest, super::FakeEndpointResponse> =
        Method::new("/CryptoBroker.CryptoGrpcDev/FakeEndpoint");
}
