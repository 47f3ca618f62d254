// @generated from spec/broker.proto by `cargo xtask codegen`: change it there.
/// What an artefact was made by, so that a rotation can find it.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Descriptor {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub operation: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub algorithm: ::prost::alloc::string::String,
    /// Empty where no key of the store took part.
    #[prost(string, tag = "4")]
    pub key_id: ::prost::alloc::string::String,
    #[prost(uint32, tag = "5")]
    pub key_version: u32,
    /// Set when the profile is to go away.
    #[prost(message, optional, tag = "6")]
    pub deprecation: ::core::option::Option<Deprecation>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Deprecation {
    #[prost(string, tag = "1")]
    pub replaced_by: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub deprecated_since: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub remove_after: ::prost::alloc::string::String,
    #[prost(string, tag = "4")]
    pub reason: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct HashRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub inputs: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct HashResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub digests: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct SignCertificateRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    /// PKCS#10, PEM or DER.
    #[prost(bytes = "vec", tag = "2")]
    pub csr: ::prost::alloc::vec::Vec<u8>,
    /// A key of the store.
    #[prost(string, tag = "3")]
    pub ca_key_ref: ::prost::alloc::string::String,
    /// X.509, PEM or DER.
    #[prost(bytes = "vec", tag = "4")]
    pub ca_certificate: ::prost::alloc::vec::Vec<u8>,
    /// Unix seconds.
    #[prost(int64, optional, tag = "5")]
    pub not_before: ::core::option::Option<i64>,
    #[prost(int64, optional, tag = "6")]
    pub not_after: ::core::option::Option<i64>,
    #[prost(string, optional, tag = "7")]
    pub subject: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "8")]
    pub crl_distribution_points: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct SignCertificateResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(bytes = "vec", tag = "2")]
    pub der: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct Plain {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: ::prost::alloc::vec::Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub aad: ::prost::alloc::vec::Vec<u8>,
    /// Only where the profile leaves the nonce to the caller.
    #[prost(bytes = "vec", tag = "3")]
    pub nonce: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct Cipher {
    #[prost(uint32, tag = "1")]
    pub key_version: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub nonce: ::prost::alloc::vec::Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub ciphertext: ::prost::alloc::vec::Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub tag: ::prost::alloc::vec::Vec<u8>,
    /// Not stored by the broker: the caller gives it again.
    #[prost(bytes = "vec", tag = "5")]
    pub aad: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct EncryptRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub key_id: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "3")]
    pub plains: ::prost::alloc::vec::Vec<Plain>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct EncryptResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    /// Without the aad.
    #[prost(message, repeated, tag = "2")]
    pub ciphers: ::prost::alloc::vec::Vec<Cipher>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DecryptRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub key_id: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "3")]
    pub ciphers: ::prost::alloc::vec::Vec<Cipher>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DecryptResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(message, repeated, tag = "2")]
    pub opened: ::prost::alloc::vec::Vec<Opened>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct Opened {
    #[prost(oneof = "opened::Result", tags = "1, 2")]
    pub result: ::core::option::Option<opened::Result>,
}
/// Nested message and enum types in `Opened`.
pub mod opened {
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    #[prost(skip_debug)]
    pub enum Result {
        #[prost(bytes, tag = "1")]
        Plaintext(::prost::alloc::vec::Vec<u8>),
        #[prost(message, tag = "2")]
        Refusal(super::Refusal),
    }
}
/// Why one of a batch failed while others went on. Every ciphertext that does not open has the same one.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Refusal {
    /// A code of gRPC.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    #[prost(string, tag = "2")]
    pub message: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RewrapRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub key_id: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "3")]
    pub ciphers: ::prost::alloc::vec::Vec<Cipher>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RewrapResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(message, repeated, tag = "2")]
    pub rewrapped: ::prost::alloc::vec::Vec<Rewrapped>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Rewrapped {
    #[prost(oneof = "rewrapped::Result", tags = "1, 2")]
    pub result: ::core::option::Option<rewrapped::Result>,
}
/// Nested message and enum types in `Rewrapped`.
pub mod rewrapped {
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Result {
        #[prost(message, tag = "1")]
        Cipher(super::Cipher),
        #[prost(message, tag = "2")]
        Refusal(super::Refusal),
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct SignRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub key_id: ::prost::alloc::string::String,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub inputs: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
    /// The inputs are digests by the profile's HashAlg. Only where the profile says Prehashed.
    #[prost(bool, tag = "4")]
    pub prehashed: bool,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct SignResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub signatures: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct Signed {
    #[prost(bytes = "vec", tag = "1")]
    pub input: ::prost::alloc::vec::Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub signature: ::prost::alloc::vec::Vec<u8>,
    /// 0 tries the current version.
    #[prost(uint32, tag = "3")]
    pub key_version: u32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct VerifyRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub key_id: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "3")]
    pub signed: ::prost::alloc::vec::Vec<Signed>,
    /// The inputs are digests by the profile's HashAlg.
    #[prost(bool, tag = "4")]
    pub prehashed: bool,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct VerifyResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(bool, repeated, tag = "2")]
    pub valid: ::prost::alloc::vec::Vec<bool>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct MacRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub key_id: ::prost::alloc::string::String,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub inputs: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct MacResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub tags: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct VerifyMacRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub key_id: ::prost::alloc::string::String,
    /// With the tag for a signature.
    #[prost(message, repeated, tag = "3")]
    pub signed: ::prost::alloc::vec::Vec<Signed>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct VerifyMacResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(bool, repeated, tag = "2")]
    pub valid: ::prost::alloc::vec::Vec<bool>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct Derivation {
    #[prost(bytes = "vec", tag = "1")]
    pub salt: ::prost::alloc::vec::Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub info: ::prost::alloc::vec::Vec<u8>,
    /// In bytes.
    #[prost(uint32, tag = "3")]
    pub length: u32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DeriveRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub key_id: ::prost::alloc::string::String,
    /// 0 takes the current version.
    #[prost(uint32, tag = "3")]
    pub key_version: u32,
    #[prost(message, repeated, tag = "4")]
    pub derivations: ::prost::alloc::vec::Vec<Derivation>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct DeriveResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub outputs: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RandomRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    /// In bytes, each.
    #[prost(uint32, tag = "2")]
    pub length: u32,
    /// 0 is 1.
    #[prost(uint32, tag = "3")]
    pub count: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct RandomResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub outputs: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct EncapsulateRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    /// 0 is 1.
    #[prost(uint32, tag = "4")]
    pub count: u32,
    #[prost(oneof = "encapsulate_request::To", tags = "2, 3")]
    pub to: ::core::option::Option<encapsulate_request::To>,
}
/// Nested message and enum types in `EncapsulateRequest`.
pub mod encapsulate_request {
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    #[prost(skip_debug)]
    pub enum To {
        #[prost(string, tag = "2")]
        KeyId(::prost::alloc::string::String),
        #[prost(bytes, tag = "3")]
        PublicKey(::prost::alloc::vec::Vec<u8>),
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct Encapsulated {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: ::prost::alloc::vec::Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub shared_secret: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct EncapsulateResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(message, repeated, tag = "2")]
    pub encapsulated: ::prost::alloc::vec::Vec<Encapsulated>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct DecapsulateRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub key_id: ::prost::alloc::string::String,
    /// 0 takes the current version.
    #[prost(uint32, tag = "3")]
    pub key_version: u32,
    #[prost(bytes = "vec", repeated, tag = "4")]
    pub ciphertexts: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct DecapsulateResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub shared_secrets: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct WrappedKey {
    /// As long as the modulus.
    #[prost(bytes = "vec", tag = "1")]
    pub encrypted_key: ::prost::alloc::vec::Vec<u8>,
    /// Of the content key, in bytes: 16, 24, 32, 48 or 64.
    #[prost(uint32, tag = "2")]
    pub length: u32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct UnwrapRequest {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub key_id: ::prost::alloc::string::String,
    /// 0 takes the current version.
    #[prost(uint32, tag = "3")]
    pub key_version: u32,
    #[prost(message, repeated, tag = "4")]
    pub wrapped: ::prost::alloc::vec::Vec<WrappedKey>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct UnwrapResponse {
    #[prost(message, optional, tag = "1")]
    pub descriptor: ::core::option::Option<Descriptor>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub content_keys: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct InformationRequest {}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InformationResponse {
    /// Of Sealway.
    #[prost(string, tag = "1")]
    pub version: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub module: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub module_version: ::prost::alloc::string::String,
    /// Of the module's validation, or "none".
    #[prost(string, tag = "4")]
    pub certificate: ::prost::alloc::string::String,
    #[prost(bool, tag = "5")]
    pub is_fips: bool,
    /// Those that the caller may use.
    #[prost(string, repeated, tag = "6")]
    pub profiles: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// The same, with what they do.
    #[prost(message, repeated, tag = "7")]
    pub operations: ::prost::alloc::vec::Vec<ProfileOperations>,
}
/// Algorithms of a profile, by the names of descriptors; empty where the operation is off.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ProfileOperations {
    #[prost(string, tag = "1")]
    pub profile: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub hash_data: ::prost::alloc::string::String,
    #[prost(string, tag = "3")]
    pub sign_data: ::prost::alloc::string::String,
    /// Digests can be signed.
    #[prost(bool, tag = "4")]
    pub signs_digests: bool,
    #[prost(string, tag = "5")]
    pub unwrap: ::prost::alloc::string::String,
    #[prost(bool, tag = "6")]
    pub random: bool,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct KeyVersion {
    #[prost(uint32, tag = "1")]
    pub version: u32,
    #[prost(enumeration = "KeyState", tag = "2")]
    pub state: i32,
    /// Unix milliseconds.
    #[prost(uint64, tag = "3")]
    pub created_ms: u64,
}
#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct Key {
    #[prost(string, tag = "1")]
    pub key_id: ::prost::alloc::string::String,
    /// Such as "aes-256-gcm", "ecdsa-p384", "ml-kem-768".
    #[prost(string, tag = "2")]
    pub algorithm: ::prost::alloc::string::String,
    /// The last enabled one is current.
    #[prost(message, repeated, tag = "3")]
    pub versions: ::prost::alloc::vec::Vec<KeyVersion>,
    #[prost(bool, tag = "4")]
    pub is_imported: bool,
    /// In the answer of a List for a profile: the current version, and its SubjectPublicKeyInfo.
    #[prost(uint32, tag = "5")]
    pub current_version: u32,
    #[prost(bytes = "vec", tag = "6")]
    pub public_key: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct KeyResponse {
    #[prost(message, optional, tag = "1")]
    pub key: ::core::option::Option<Key>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GenerateRequest {
    #[prost(string, tag = "1")]
    pub key_id: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub algorithm: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct ImportRequest {
    #[prost(string, tag = "1")]
    pub key_id: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub algorithm: ::prost::alloc::string::String,
    /// PKCS#8 DER or PEM for asymmetric keys, raw bytes for secret ones. PEM of a CA's key may have its certificate behind it.
    #[prost(bytes = "vec", tag = "3")]
    pub material: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListRequest {
    /// Empty from the first; else after this one.
    #[prost(string, tag = "1")]
    pub after: ::prost::alloc::string::String,
    /// 0 is as many as the bound allows.
    #[prost(uint32, tag = "2")]
    pub limit: u32,
    /// Only enabled keys with which the caller may sign, verify or unwrap under this profile. Empty: all keys.
    #[prost(string, tag = "3")]
    pub profile: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListResponse {
    #[prost(message, repeated, tag = "1")]
    pub keys: ::prost::alloc::vec::Vec<Key>,
    #[prost(bool, tag = "2")]
    pub has_more: bool,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct RotateRequest {
    #[prost(string, tag = "1")]
    pub key_id: ::prost::alloc::string::String,
    /// Generated when empty.
    #[prost(bytes = "vec", tag = "2")]
    pub material: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DisableRequest {
    #[prost(string, tag = "1")]
    pub key_id: ::prost::alloc::string::String,
    /// 0 is all versions.
    #[prost(uint32, tag = "2")]
    pub version: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct EnableRequest {
    #[prost(string, tag = "1")]
    pub key_id: ::prost::alloc::string::String,
    #[prost(uint32, tag = "2")]
    pub version: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PublicKeyRequest {
    #[prost(string, tag = "1")]
    pub key_id: ::prost::alloc::string::String,
    /// 0 takes the current version.
    #[prost(uint32, tag = "2")]
    pub version: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
#[prost(skip_debug)]
pub struct PublicKeyResponse {
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// SubjectPublicKeyInfo.
    #[prost(bytes = "vec", tag = "2")]
    pub der: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum KeyState {
    Unspecified = 0,
    Enabled = 1,
    Disabled = 2,
}
impl KeyState {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "KEY_STATE_UNSPECIFIED",
            Self::Enabled => "KEY_STATE_ENABLED",
            Self::Disabled => "KEY_STATE_DISABLED",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "KEY_STATE_UNSPECIFIED" => Some(Self::Unspecified),
            "KEY_STATE_ENABLED" => Some(Self::Enabled),
            "KEY_STATE_DISABLED" => Some(Self::Disabled),
            _ => None,
        }
    }
}

impl ::core::fmt::Debug for HashRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("HashRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for HashResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("HashResponse").finish_non_exhaustive()
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

impl ::core::fmt::Debug for Plain {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("Plain").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("Cipher").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for Opened {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for opened::Result {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("Result").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for SignRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("SignRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for SignResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("SignResponse").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for Signed {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("Signed").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for MacRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("MacRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for MacResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("MacResponse").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for Derivation {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("Derivation").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for DeriveResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("DeriveResponse").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for RandomResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("RandomResponse").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for EncapsulateRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("EncapsulateRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for encapsulate_request::To {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("To").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for Encapsulated {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("Encapsulated").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for DecapsulateRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("DecapsulateRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for DecapsulateResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("DecapsulateResponse").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for WrappedKey {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("WrappedKey").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for UnwrapResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("UnwrapResponse").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for Key {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for ImportRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("ImportRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for RotateRequest {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("RotateRequest").finish_non_exhaustive()
    }
}

impl ::core::fmt::Debug for PublicKeyResponse {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("PublicKeyResponse").finish_non_exhaustive()
    }
}

/// Methods of the service `sealway.broker.v1.Broker`.
pub mod broker {
    use super::super::Method;
    pub const HASH: Method<super::HashRequest, super::HashResponse> = Method::new("/sealway.broker.v1.Broker/Hash");
    pub const SIGN_CERTIFICATE: Method<super::SignCertificateRequest, super::SignCertificateResponse> =
        Method::new("/sealway.broker.v1.Broker/SignCertificate");
    pub const ENCRYPT: Method<super::EncryptRequest, super::EncryptResponse> =
        Method::new("/sealway.broker.v1.Broker/Encrypt");
    pub const DECRYPT: Method<super::DecryptRequest, super::DecryptResponse> =
        Method::new("/sealway.broker.v1.Broker/Decrypt");
    pub const REWRAP: Method<super::RewrapRequest, super::RewrapResponse> =
        Method::new("/sealway.broker.v1.Broker/Rewrap");
    pub const SIGN: Method<super::SignRequest, super::SignResponse> = Method::new("/sealway.broker.v1.Broker/Sign");
    pub const VERIFY: Method<super::VerifyRequest, super::VerifyResponse> =
        Method::new("/sealway.broker.v1.Broker/Verify");
    pub const MAC: Method<super::MacRequest, super::MacResponse> = Method::new("/sealway.broker.v1.Broker/Mac");
    pub const VERIFY_MAC: Method<super::VerifyMacRequest, super::VerifyMacResponse> =
        Method::new("/sealway.broker.v1.Broker/VerifyMac");
    pub const DERIVE: Method<super::DeriveRequest, super::DeriveResponse> =
        Method::new("/sealway.broker.v1.Broker/Derive");
    pub const RANDOM: Method<super::RandomRequest, super::RandomResponse> =
        Method::new("/sealway.broker.v1.Broker/Random");
    pub const ENCAPSULATE: Method<super::EncapsulateRequest, super::EncapsulateResponse> =
        Method::new("/sealway.broker.v1.Broker/Encapsulate");
    pub const DECAPSULATE: Method<super::DecapsulateRequest, super::DecapsulateResponse> =
        Method::new("/sealway.broker.v1.Broker/Decapsulate");
    pub const UNWRAP: Method<super::UnwrapRequest, super::UnwrapResponse> =
        Method::new("/sealway.broker.v1.Broker/Unwrap");
    pub const INFORMATION: Method<super::InformationRequest, super::InformationResponse> =
        Method::new("/sealway.broker.v1.Broker/Information");
}

/// Methods of the service `sealway.broker.v1.Keys`.
pub mod keys {
    use super::super::Method;
    pub const GENERATE: Method<super::GenerateRequest, super::KeyResponse> =
        Method::new("/sealway.broker.v1.Keys/Generate");
    pub const IMPORT: Method<super::ImportRequest, super::KeyResponse> = Method::new("/sealway.broker.v1.Keys/Import");
    pub const LIST: Method<super::ListRequest, super::ListResponse> = Method::new("/sealway.broker.v1.Keys/List");
    pub const ROTATE: Method<super::RotateRequest, super::KeyResponse> = Method::new("/sealway.broker.v1.Keys/Rotate");
    pub const DISABLE: Method<super::DisableRequest, super::KeyResponse> =
        Method::new("/sealway.broker.v1.Keys/Disable");
    pub const ENABLE: Method<super::EnableRequest, super::KeyResponse> = Method::new("/sealway.broker.v1.Keys/Enable");
    pub const PUBLIC_KEY: Method<super::PublicKeyRequest, super::PublicKeyResponse> =
        Method::new("/sealway.broker.v1.Keys/PublicKey");
}
