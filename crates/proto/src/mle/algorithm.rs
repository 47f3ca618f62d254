//! The closed lists of algorithms (RFC 7518 sections 3 to 5). What is not here does not exist in this crate: RSA1_5, PBES2,
//! A128GCMKW and its sisters, and `none`. SPEC mle.md#algorithms

use core::fmt;

/// Declares an enumeration of registered names.
macro_rules! registered {
    ($(#[$doc:meta])* $type:ident { $($(#[$row_doc:meta])* $row:ident = $name:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type {
            $($(#[$row_doc])* $row,)*
        }

        impl $type {
            /// One of each, in the order of the specification.
            pub const ALL: &'static [$type] = &[$($type::$row),*];

            /// Returns the name in the IANA registry.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($type::$row => $name,)*
                }
            }

            /// Returns the algorithm of exactly this name, letter case included.
            pub fn parse(name: &str) -> Option<$type> {
                $type::ALL.iter().copied().find(|row| row.as_str() == name)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

registered! {
    /// The key management algorithm, which encrypts the content key to the recipient (`alg`).
    Alg {
        /// RSAES-OAEP with SHA-256 and MGF1 with SHA-256 (RFC 7518 section 4.3).
        RsaOaep256 = "RSA-OAEP-256";
        /// RSAES-OAEP with SHA-1 and MGF1 with SHA-1 (RFC 7518 section 4.3).
        RsaOaep = "RSA-OAEP";
        /// RSAES-OAEP with SHA-512 and MGF1 with SHA-512 (IANA's registry of JOSE; no profile of JWE has it by default).
        RsaOaep512 = "RSA-OAEP-512";
        /// Ephemeral-static ECDH on P-256, whose result is the content key (RFC 7518 section 4.6).
        EcdhEs = "ECDH-ES";
        /// The shared key is the content key (RFC 7518 section 4.5).
        Dir = "dir";
        /// AES key wrap with a shared key of 128 bits (RFC 7518 section 4.4).
        A128Kw = "A128KW";
        /// AES key wrap with a shared key of 256 bits (RFC 7518 section 4.4).
        A256Kw = "A256KW";
    }
}

registered! {
    /// The content encryption algorithm (`enc`).
    Enc {
        /// AES-128-GCM (RFC 7518 section 5.3).
        A128Gcm = "A128GCM";
        /// AES-192-GCM (RFC 7518 section 5.3).
        A192Gcm = "A192GCM";
        /// AES-256-GCM (RFC 7518 section 5.3).
        A256Gcm = "A256GCM";
        /// AES-128-CBC with HMAC-SHA-256 (RFC 7518 section 5.2.3).
        A128CbcHs256 = "A128CBC-HS256";
        /// AES-192-CBC with HMAC-SHA-384 (RFC 7518 section 5.2.4).
        A192CbcHs384 = "A192CBC-HS384";
        /// AES-256-CBC with HMAC-SHA-512 (RFC 7518 section 5.2.5).
        A256CbcHs512 = "A256CBC-HS512";
    }
}

registered! {
    /// The algorithm of a signature (RFC 7518 section 3).
    JwsAlg {
        /// RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518 section 3.3).
        Rs256 = "RS256";
        /// RSASSA-PSS with SHA-256 and a salt of 32 bytes (RFC 7518 section 3.5).
        Ps256 = "PS256";
        /// ECDSA on P-256 with SHA-256 (RFC 7518 section 3.4).
        Es256 = "ES256";
    }
}

/// Longest content encryption key of all algorithms, in bytes.
pub const CEK_LEN_MAX: usize = 64;

impl Alg {
    /// Returns whether the encrypted key is made with an RSA public key.
    pub fn is_rsa(self) -> bool {
        matches!(self, Alg::RsaOaep256 | Alg::RsaOaep | Alg::RsaOaep512)
    }

    /// Returns whether the encrypted key of a token must be empty (RFC 7516 section 5.2 step 10).
    pub fn is_direct(self) -> bool {
        matches!(self, Alg::Dir | Alg::EcdhEs)
    }
}

impl Enc {
    /// Returns whether it is AES-GCM.
    pub fn is_gcm(self) -> bool {
        matches!(self, Enc::A128Gcm | Enc::A192Gcm | Enc::A256Gcm)
    }

    /// Returns the length of the content encryption key, in bytes.
    pub fn cek_len(self) -> usize {
        match self {
            Enc::A128Gcm => 16,
            Enc::A192Gcm => 24,
            Enc::A256Gcm | Enc::A128CbcHs256 => 32,
            Enc::A192CbcHs384 => 48,
            Enc::A256CbcHs512 => CEK_LEN_MAX,
        }
    }

    /// Returns the length of the tag, in bytes.
    pub fn tag_len(self) -> usize {
        match self {
            Enc::A192CbcHs384 => 24,
            Enc::A256CbcHs512 => 32,
            _ => 16,
        }
    }

    /// Returns the length of the initialisation vector that is sent, in bytes.
    pub fn iv_len(self) -> usize {
        if self.is_gcm() { 12 } else { 16 }
    }
}
