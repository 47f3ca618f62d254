// @generated from spec/broker-open.proto by `cargo xtask codegen`: change it there.
/// Generated server implementations.
pub mod crypto_grpc_server {
    #![allow(unused_variables, dead_code, missing_docs, clippy::wildcard_imports, clippy::let_unit_value)]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with CryptoGrpcServer.
    #[async_trait]
    pub trait CryptoGrpc: std::marker::Send + std::marker::Sync + 'static {
        async fn hash_data(
            &self,
            request: tonic::Request<::sealway_proto::broker::open::HashDataRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::HashDataResponse>, tonic::Status>;
        async fn sign_certificate(
            &self,
            request: tonic::Request<::sealway_proto::broker::open::SignCertificateRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::SignCertificateResponse>, tonic::Status>;
        async fn encrypt_data(
            &self,
            request: tonic::Request<::sealway_proto::broker::open::EncryptDataRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::EncryptDataResponse>, tonic::Status>;
        async fn decrypt_data(
            &self,
            request: tonic::Request<::sealway_proto::broker::open::DecryptDataRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::DecryptDataResponse>, tonic::Status>;
        /// W5.
        async fn sign_data(
            &self,
            request: tonic::Request<::sealway_proto::broker::open::SignDataRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::SignDataResponse>, tonic::Status>;
        async fn verify_data(
            &self,
            request: tonic::Request<::sealway_proto::broker::open::VerifyDataRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::VerifyDataResponse>, tonic::Status>;
        /// W1 and W2.
        async fn hash(
            &self,
            request: tonic::Request<::sealway_proto::broker::open::HashRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::HashResponse>, tonic::Status>;
        async fn sign(
            &self,
            request: tonic::Request<::sealway_proto::broker::open::SignRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::SignResponse>, tonic::Status>;
        /// W1 has these two here, later wires under CryptoGrpcDev.
        async fn benchmark(
            &self,
            request: tonic::Request<::sealway_proto::broker::open::BenchmarkRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::BenchmarkResponse>, tonic::Status>;
        async fn fake_endpoint(
            &self,
            request: tonic::Request<::sealway_proto::broker::open::FakeEndpointRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::FakeEndpointResponse>, tonic::Status>;
    }
    #[derive(Debug)]
    pub struct CryptoGrpcServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> CryptoGrpcServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(inner: T, interceptor: F) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for CryptoGrpcServer<T>
    where
        T: CryptoGrpc,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/CryptoBroker.CryptoGrpc/HashData" => {
                    #[allow(non_camel_case_types)]
                    struct HashDataSvc<T: CryptoGrpc>(pub Arc<T>);
                    impl<T: CryptoGrpc> tonic::server::UnaryService<::sealway_proto::broker::open::HashDataRequest> for HashDataSvc<T> {
                        type Response = ::sealway_proto::broker::open::HashDataResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::open::HashDataRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as CryptoGrpc>::hash_data(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = HashDataSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/CryptoBroker.CryptoGrpc/SignCertificate" => {
                    #[allow(non_camel_case_types)]
                    struct SignCertificateSvc<T: CryptoGrpc>(pub Arc<T>);
                    impl<T: CryptoGrpc>
                        tonic::server::UnaryService<::sealway_proto::broker::open::SignCertificateRequest>
                        for SignCertificateSvc<T>
                    {
                        type Response = ::sealway_proto::broker::open::SignCertificateResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::open::SignCertificateRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as CryptoGrpc>::sign_certificate(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = SignCertificateSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/CryptoBroker.CryptoGrpc/EncryptData" => {
                    #[allow(non_camel_case_types)]
                    struct EncryptDataSvc<T: CryptoGrpc>(pub Arc<T>);
                    impl<T: CryptoGrpc> tonic::server::UnaryService<::sealway_proto::broker::open::EncryptDataRequest>
                        for EncryptDataSvc<T>
                    {
                        type Response = ::sealway_proto::broker::open::EncryptDataResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::open::EncryptDataRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as CryptoGrpc>::encrypt_data(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = EncryptDataSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/CryptoBroker.CryptoGrpc/DecryptData" => {
                    #[allow(non_camel_case_types)]
                    struct DecryptDataSvc<T: CryptoGrpc>(pub Arc<T>);
                    impl<T: CryptoGrpc> tonic::server::UnaryService<::sealway_proto::broker::open::DecryptDataRequest>
                        for DecryptDataSvc<T>
                    {
                        type Response = ::sealway_proto::broker::open::DecryptDataResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::open::DecryptDataRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as CryptoGrpc>::decrypt_data(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = DecryptDataSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/CryptoBroker.CryptoGrpc/SignData" => {
                    #[allow(non_camel_case_types)]
                    struct SignDataSvc<T: CryptoGrpc>(pub Arc<T>);
                    impl<T: CryptoGrpc> tonic::server::UnaryService<::sealway_proto::broker::open::SignDataRequest> for SignDataSvc<T> {
                        type Response = ::sealway_proto::broker::open::SignDataResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::open::SignDataRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as CryptoGrpc>::sign_data(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = SignDataSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/CryptoBroker.CryptoGrpc/VerifyData" => {
                    #[allow(non_camel_case_types)]
                    struct VerifyDataSvc<T: CryptoGrpc>(pub Arc<T>);
                    impl<T: CryptoGrpc> tonic::server::UnaryService<::sealway_proto::broker::open::VerifyDataRequest> for VerifyDataSvc<T> {
                        type Response = ::sealway_proto::broker::open::VerifyDataResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::open::VerifyDataRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as CryptoGrpc>::verify_data(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = VerifyDataSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/CryptoBroker.CryptoGrpc/Hash" => {
                    #[allow(non_camel_case_types)]
                    struct HashSvc<T: CryptoGrpc>(pub Arc<T>);
                    impl<T: CryptoGrpc> tonic::server::UnaryService<::sealway_proto::broker::open::HashRequest> for HashSvc<T> {
                        type Response = ::sealway_proto::broker::open::HashResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::open::HashRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as CryptoGrpc>::hash(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = HashSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/CryptoBroker.CryptoGrpc/Sign" => {
                    #[allow(non_camel_case_types)]
                    struct SignSvc<T: CryptoGrpc>(pub Arc<T>);
                    impl<T: CryptoGrpc> tonic::server::UnaryService<::sealway_proto::broker::open::SignRequest> for SignSvc<T> {
                        type Response = ::sealway_proto::broker::open::SignResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::open::SignRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as CryptoGrpc>::sign(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = SignSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/CryptoBroker.CryptoGrpc/Benchmark" => {
                    #[allow(non_camel_case_types)]
                    struct BenchmarkSvc<T: CryptoGrpc>(pub Arc<T>);
                    impl<T: CryptoGrpc> tonic::server::UnaryService<::sealway_proto::broker::open::BenchmarkRequest> for BenchmarkSvc<T> {
                        type Response = ::sealway_proto::broker::open::BenchmarkResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::open::BenchmarkRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as CryptoGrpc>::benchmark(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = BenchmarkSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/CryptoBroker.CryptoGrpc/FakeEndpoint" => {
                    #[allow(non_camel_case_types)]
                    struct FakeEndpointSvc<T: CryptoGrpc>(pub Arc<T>);
                    impl<T: CryptoGrpc> tonic::server::UnaryService<::sealway_proto::broker::open::FakeEndpointRequest>
                        for FakeEndpointSvc<T>
                    {
                        type Response = ::sealway_proto::broker::open::FakeEndpointResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::open::FakeEndpointRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as CryptoGrpc>::fake_endpoint(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = FakeEndpointSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                _ => Box::pin(async move {
                    let mut response = http::Response::new(tonic::body::Body::default());
                    let headers = response.headers_mut();
                    headers.insert(tonic::Status::GRPC_STATUS, (tonic::Code::Unimplemented as i32).into());
                    headers.insert(http::header::CONTENT_TYPE, tonic::metadata::GRPC_CONTENT_TYPE);
                    Ok(response)
                }),
            }
        }
    }
    impl<T> Clone for CryptoGrpcServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "CryptoBroker.CryptoGrpc";
    impl<T> tonic::server::NamedService for CryptoGrpcServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Generated server implementations.
pub mod crypto_grpc_dev_server {
    #![allow(unused_variables, dead_code, missing_docs, clippy::wildcard_imports, clippy::let_unit_value)]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with CryptoGrpcDevServer.
    #[async_trait]
    pub trait CryptoGrpcDev: std::marker::Send + std::marker::Sync + 'static {
        async fn benchmark(
            &self,
            request: tonic::Request<::sealway_proto::broker::open::BenchmarkRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::BenchmarkResponse>, tonic::Status>;
        async fn fake_endpoint(
            &self,
            request: tonic::Request<::sealway_proto::broker::open::FakeEndpointRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::open::FakeEndpointResponse>, tonic::Status>;
    }
    #[derive(Debug)]
    pub struct CryptoGrpcDevServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> CryptoGrpcDevServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(inner: T, interceptor: F) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for CryptoGrpcDevServer<T>
    where
        T: CryptoGrpcDev,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/CryptoBroker.CryptoGrpcDev/Benchmark" => {
                    #[allow(non_camel_case_types)]
                    struct BenchmarkSvc<T: CryptoGrpcDev>(pub Arc<T>);
                    impl<T: CryptoGrpcDev> tonic::server::UnaryService<::sealway_proto::broker::open::BenchmarkRequest>
                        for BenchmarkSvc<T>
                    {
                        type Response = ::sealway_proto::broker::open::BenchmarkResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::open::BenchmarkRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as CryptoGrpcDev>::benchmark(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = BenchmarkSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/CryptoBroker.CryptoGrpcDev/FakeEndpoint" => {
                    #[allow(non_camel_case_types)]
                    struct FakeEndpointSvc<T: CryptoGrpcDev>(pub Arc<T>);
                    impl<T: CryptoGrpcDev>
                        tonic::server::UnaryService<::sealway_proto::broker::open::FakeEndpointRequest>
                        for FakeEndpointSvc<T>
                    {
                        type Response = ::sealway_proto::broker::open::FakeEndpointResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::open::FakeEndpointRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as CryptoGrpcDev>::fake_endpoint(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = FakeEndpointSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                _ => Box::pin(async move {
                    let mut response = http::Response::new(tonic::body::Body::default());
                    let headers = response.headers_mut();
                    headers.insert(tonic::Status::GRPC_STATUS, (tonic::Code::Unimplemented as i32).into());
                    headers.insert(http::header::CONTENT_TYPE, tonic::metadata::GRPC_CONTENT_TYPE);
                    Ok(response)
                }),
            }
        }
    }
    impl<T> Clone for CryptoGrpcDevServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "CryptoBroker.CryptoGrpcDev";
    impl<T> tonic::server::NamedService for CryptoGrpcDevServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
