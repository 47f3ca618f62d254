// @generated from spec/broker-open.proto by `cargo xtask codegen`: change it there.
/// Generated client implementations.
pub mod crypto_grpc_client {
    #![allow(unused_variables, dead_code, missing_docs, clippy::wildcard_imports, clippy::let_unit_value)]
    use tonic::codegen::http::Uri;
    use tonic::codegen::*;
    #[derive(Debug, Clone)]
    pub struct CryptoGrpcClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl<T> CryptoGrpcClient<T>
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
        pub fn with_interceptor<F>(inner: T, interceptor: F) -> CryptoGrpcClient<InterceptedService<T, F>>
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
            CryptoGrpcClient::new(InterceptedService::new(inner, interceptor))
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
        pub async fn hash_data(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::open::HashDataRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::HashDataResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/CryptoBroker.CryptoGrpc/HashData");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("CryptoBroker.CryptoGrpc", "HashData"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn sign_certificate(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::open::SignCertificateRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::SignCertificateResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/CryptoBroker.CryptoGrpc/SignCertificate");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("CryptoBroker.CryptoGrpc", "SignCertificate"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn encrypt_data(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::open::EncryptDataRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::EncryptDataResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/CryptoBroker.CryptoGrpc/EncryptData");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("CryptoBroker.CryptoGrpc", "EncryptData"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn decrypt_data(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::open::DecryptDataRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::DecryptDataResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/CryptoBroker.CryptoGrpc/DecryptData");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("CryptoBroker.CryptoGrpc", "DecryptData"));
            self.inner.unary(req, path, codec).await
        }
        /// W5.
        pub async fn sign_data(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::open::SignDataRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::SignDataResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/CryptoBroker.CryptoGrpc/SignData");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("CryptoBroker.CryptoGrpc", "SignData"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn verify_data(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::open::VerifyDataRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::VerifyDataResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/CryptoBroker.CryptoGrpc/VerifyData");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("CryptoBroker.CryptoGrpc", "VerifyData"));
            self.inner.unary(req, path, codec).await
        }
        /// W1 and W2.
        pub async fn hash(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::open::HashRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::HashResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/CryptoBroker.CryptoGrpc/Hash");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("CryptoBroker.CryptoGrpc", "Hash"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn sign(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::open::SignRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::SignResponse>, tonic::Status> {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/CryptoBroker.CryptoGrpc/Sign");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("CryptoBroker.CryptoGrpc", "Sign"));
            self.inner.unary(req, path, codec).await
        }
        /// W1 has these two here, later wires under CryptoGrpcDev.
        pub async fn benchmark(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::open::BenchmarkRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::BenchmarkResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/CryptoBroker.CryptoGrpc/Benchmark");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("CryptoBroker.CryptoGrpc", "Benchmark"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn fake_endpoint(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::open::FakeEndpointRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::FakeEndpointResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/CryptoBroker.CryptoGrpc/FakeEndpoint");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("CryptoBroker.CryptoGrpc", "FakeEndpoint"));
            self.inner.unary(req, path, codec).await
        }
    }
}
/// Generated client implementations.
pub mod crypto_grpc_dev_client {
    #![allow(unused_variables, dead_code, missing_docs, clippy::wildcard_imports, clippy::let_unit_value)]
    use tonic::codegen::http::Uri;
    use tonic::codegen::*;
    #[derive(Debug, Clone)]
    pub struct CryptoGrpcDevClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl<T> CryptoGrpcDevClient<T>
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
        pub fn with_interceptor<F>(inner: T, interceptor: F) -> CryptoGrpcDevClient<InterceptedService<T, F>>
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
            CryptoGrpcDevClient::new(InterceptedService::new(inner, interceptor))
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
        pub async fn benchmark(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::open::BenchmarkRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::BenchmarkResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/CryptoBroker.CryptoGrpcDev/Benchmark");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("CryptoBroker.CryptoGrpcDev", "Benchmark"));
            self.inner.unary(req, path, codec).await
        }
        pub async fn fake_endpoint(
            &mut self,
            request: impl tonic::IntoRequest<::sealway_proto::broker::open::FakeEndpointRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::FakeEndpointResponse>, tonic::Status>
        {
            self.inner
                .ready()
                .await
                .map_err(|e| tonic::Status::unknown(format!("Service was not ready: {}", e.into())))?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/CryptoBroker.CryptoGrpcDev/FakeEndpoint");
            let mut req = request.into_request();
            req.extensions_mut().insert(GrpcMethod::new("CryptoBroker.CryptoGrpcDev", "FakeEndpoint"));
            self.inner.unary(req, path, codec).await
        }
    }
}
