//! The operations by the names that policies, audit lines and descriptors have for them.

/// Every operation that a policy can speak of.
pub const OPERATIONS: [&str; 23] = [
    "HashData",
    "SignCertificate",
    "EncryptData",
    "DecryptData",
    "Rewrap",
    "SignData",
    "VerifyData",
    "Mac",
    "VerifyMac",
    "Derive",
    "Random",
    "Encapsulate",
    "Decapsulate",
    "Information",
    "GenerateKey",
    "ImportKey",
    "ListKeys",
    "RotateKey",
    "DisableKey",
    "EnableKey",
    "PublicKey",
    "Benchmark",
    "FakeEndpoint",
];

/// The name of an operation, whatever our own wire calls it: what a policy allows must not hang on how it is asked for.
pub fn operation_name(method: &str) -> &str {
    match method {
        "Hash" => "HashData",
        "Encrypt" => "EncryptData",
        "Decrypt" => "DecryptData",
        "Sign" => "SignData",
        "Verify" => "VerifyData",
        "Generate" => "GenerateKey",
        "Import" => "ImportKey",
        "List" => "ListKeys",
        "Rotate" => "RotateKey",
        "Disable" => "DisableKey",
        "Enable" => "EnableKey",
        name => name,
    }
}
