// @generated from spec/broker-health.proto by `cargo xtask codegen`: change it there.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HealthCheckRequest {
    /// Empty for the whole process.
    #[prost(string, tag = "1")]
    pub service: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HealthCheckResponse {
    #[prost(enumeration = "health_check_response::ServingStatus", tag = "1")]
    pub status: i32,
}
/// Nested message and enum types in `HealthCheckResponse`.
pub mod health_check_response {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
    #[repr(i32)]
    pub enum ServingStatus {
        Unknown = 0,
        Serving = 1,
        NotServing = 2,
        /// Of Watch alone.
        ServiceUnknown = 3,
    }
    impl ServingStatus {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Unknown => "UNKNOWN",
                Self::Serving => "SERVING",
                Self::NotServing => "NOT_SERVING",
                Self::ServiceUnknown => "SERVICE_UNKNOWN",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
            match value {
                "UNKNOWN" => Some(Self::Unknown),
                "SERVING" => Some(Self::Serving),
                "NOT_SERVING" => Some(Self::NotServing),
                "SERVICE_UNKNOWN" => Some(Self::ServiceUnknown),
                _ => None,
            }
        }
    }
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HealthListRequest {}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct HealthListResponse {
    #[prost(btree_map = "string, message", tag = "1")]
    pub statuses: ::prost::alloc::collections::BTreeMap<::prost::alloc::string::String, HealthCheckResponse>,
}

/// Methods of the service `grpc.health.v1.Health`.
pub mod health {
    use super::super::Method;
    pub const CHECK: Method<super::HealthCheckRequest, super::HealthCheckResponse> =
        Method::new("/grpc.health.v1.Health/Check");
    pub const LIST: Method<super::HealthListRequest, super::HealthListResponse> =
        Method::new("/grpc.health.v1.Health/List");
    pub const WATCH: Method<super::HealthCheckRequest, super::HealthCheckResponse> =
        Method::new("/grpc.health.v1.Health/Watch");
}
