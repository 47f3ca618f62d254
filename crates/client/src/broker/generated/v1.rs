// @generated from spec/broker.proto by `cargo xtask codegen`: change it there.
/// Generated client implementations.
pub mod broker_client {
    #![allow(unused_variables, dead_code, missing_docs, clippy::wildcard_imports, clippy::let_unit_value)]
    use tonic::codegen::http::Uri;
    use tonic::codegen::*;
    #[derive(Debug, Clone)]
    pub struct BrokerClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl<T> BrokerClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(inner: T, interceptor: F) -> BrokerClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                    http::Request<tonic::body::Body>,
                    Response = http::Response<<T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody>,
                >,
            <T as tonic::codegen::Service<http::Request<tonic::body::Body>>>::Error:
                Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            BrokerClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        pub async fn hash(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::HashRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::HashResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/Hash");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "Hash"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn sign_certificate(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::SignCertificateRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::SignCertificateResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/SignCertificate");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "SignCertificate"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn encrypt(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::EncryptRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::EncryptResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/Encrypt");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "Encrypt"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn decrypt(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::DecryptRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::DecryptResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/Decrypt");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "Decrypt"));
            self.inner.unary(req, path, codec).await
        }
        /// Opens, and seals anew under the key's current version: the plaintext does not leave the broker.
        pub async fn rewrap(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::RewrapRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::RewrapResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/Rewrap");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "Rewrap"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn sign(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::SignRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::SignResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/Sign");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "Sign"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn verify(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::VerifyRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::VerifyResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/Verify");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "Verify"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn mac(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::MacRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::MacResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/Mac");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "Mac"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn verify_mac(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::VerifyMacRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::VerifyMacResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/VerifyMac");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "VerifyMac"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn derive(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::DeriveRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::DeriveResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/Derive");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "Derive"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn random(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::RandomRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::RandomResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/Random");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "Random"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn encapsulate(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::EncapsulateRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::EncapsulateResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/Encapsulate");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "Encapsulate"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn decapsulate(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::DecapsulateRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::DecapsulateResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/Decapsulate");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "Decapsulate"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn information(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::InformationRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::InformationResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Broker/Information");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Broker", "Information"));
            self.inner.unary(req, path, codec).await
        }
    }
}
/// Generated client implementations.
pub mod keys_client {
    #![allow(unused_variables, dead_code, missing_docs, clippy::wildcard_imports, clippy::let_unit_value)]
    use tonic::codegen::http::Uri;
    use tonic::codegen::*;
    #[derive(Debug, Clone)]
    pub struct KeysClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl<T> KeysClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(inner: T, interceptor: F) -> KeysClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                    http::Request<tonic::body::Body>,
                    Response = http::Response<<T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody>,
                >,
            <T as tonic::codegen::Service<http::Request<tonic::body::Body>>>::Error:
                Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            KeysClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        pub async fn generate(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::GenerateRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::KeyResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Keys/Generate");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Keys", "Generate"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn import(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::ImportRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::KeyResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Keys/Import");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Keys", "Import"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn list(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::ListRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::ListResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Keys/List");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Keys", "List"));
            self.inner.unary(req, path, codec).await
        }
        /// Adds a version, which from then on is the one that seals and signs; the earlier ones still open and verify.
        pub async fn rotate(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::RotateRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::KeyResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Keys/Rotate");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Keys", "Rotate"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn disable(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::DisableRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::KeyResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Keys/Disable");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Keys", "Disable"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn enable(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::EnableRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::KeyResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Keys/Enable");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Keys", "Enable"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn public_key(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::v1::PublicKeyRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::PublicKeyResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/sealway.broker.v1.Keys/PublicKey");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("sealway.broker.v1.Keys", "PublicKey"));
            self.inner.unary(req, path, codec).await
        }
    }
}
