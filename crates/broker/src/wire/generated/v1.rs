// @generated from spec/broker.proto by `cargo xtask codegen`: change it there.
/// Generated server implementations.
pub mod broker_server {
    #![allow(unused_variables, dead_code, missing_docs, clippy::wildcard_imports, clippy::let_unit_value)]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with BrokerServer.
    #[async_trait]
    pub trait Broker: std::marker::Send + std::marker::Sync + 'static {
        async fn hash(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::HashRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::HashResponse>, tonic::Status>;
        async fn sign_certificate(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::SignCertificateRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::SignCertificateResponse>, tonic::Status>;
        async fn encrypt(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::EncryptRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::EncryptResponse>, tonic::Status>;
        async fn decrypt(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::DecryptRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::DecryptResponse>, tonic::Status>;
        /// Opens, and seals anew under the key's current version: the plaintext does not leave the broker.
        async fn rewrap(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::RewrapRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::RewrapResponse>, tonic::Status>;
        async fn sign(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::SignRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::SignResponse>, tonic::Status>;
        async fn verify(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::VerifyRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::VerifyResponse>, tonic::Status>;
        async fn mac(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::MacRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::MacResponse>, tonic::Status>;
        async fn verify_mac(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::VerifyMacRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::VerifyMacResponse>, tonic::Status>;
        async fn derive(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::DeriveRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::DeriveResponse>, tonic::Status>;
        async fn random(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::RandomRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::RandomResponse>, tonic::Status>;
        async fn encapsulate(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::EncapsulateRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::EncapsulateResponse>, tonic::Status>;
        async fn decapsulate(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::DecapsulateRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::DecapsulateResponse>, tonic::Status>;
        async fn information(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::InformationRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::InformationResponse>, tonic::Status>;
    }
    #[derive(Debug)]
    pub struct BrokerServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> BrokerServer<T> {
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
    impl<T, B> tonic::codegen::Service<http::Request<B>> for BrokerServer<T>
    where
        T: Broker,
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
                "/sealway.broker.v1.Broker/Hash" => {
                    #[allow(non_camel_case_types)]
                    struct HashSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::HashRequest> for HashSvc<T> {
                        type Response = ::sealway_proto::broker::v1::HashResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::HashRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::hash(&inner, request).await };
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
                "/sealway.broker.v1.Broker/SignCertificate" => {
                    #[allow(non_camel_case_types)]
                    struct SignCertificateSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::SignCertificateRequest>
                        for SignCertificateSvc<T>
                    {
                        type Response = ::sealway_proto::broker::v1::SignCertificateResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::SignCertificateRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::sign_certificate(&inner, request).await };
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
                "/sealway.broker.v1.Broker/Encrypt" => {
                    #[allow(non_camel_case_types)]
                    struct EncryptSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::EncryptRequest> for EncryptSvc<T> {
                        type Response = ::sealway_proto::broker::v1::EncryptResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::EncryptRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::encrypt(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = EncryptSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Broker/Decrypt" => {
                    #[allow(non_camel_case_types)]
                    struct DecryptSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::DecryptRequest> for DecryptSvc<T> {
                        type Response = ::sealway_proto::broker::v1::DecryptResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::DecryptRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::decrypt(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = DecryptSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Broker/Rewrap" => {
                    #[allow(non_camel_case_types)]
                    struct RewrapSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::RewrapRequest> for RewrapSvc<T> {
                        type Response = ::sealway_proto::broker::v1::RewrapResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::RewrapRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::rewrap(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = RewrapSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Broker/Sign" => {
                    #[allow(non_camel_case_types)]
                    struct SignSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::SignRequest> for SignSvc<T> {
                        type Response = ::sealway_proto::broker::v1::SignResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::SignRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::sign(&inner, request).await };
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
                "/sealway.broker.v1.Broker/Verify" => {
                    #[allow(non_camel_case_types)]
                    struct VerifySvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::VerifyRequest> for VerifySvc<T> {
                        type Response = ::sealway_proto::broker::v1::VerifyResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::VerifyRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::verify(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = VerifySvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Broker/Mac" => {
                    #[allow(non_camel_case_types)]
                    struct MacSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::MacRequest> for MacSvc<T> {
                        type Response = ::sealway_proto::broker::v1::MacResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::MacRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::mac(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = MacSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Broker/VerifyMac" => {
                    #[allow(non_camel_case_types)]
                    struct VerifyMacSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::VerifyMacRequest> for VerifyMacSvc<T> {
                        type Response = ::sealway_proto::broker::v1::VerifyMacResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::VerifyMacRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::verify_mac(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = VerifyMacSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Broker/Derive" => {
                    #[allow(non_camel_case_types)]
                    struct DeriveSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::DeriveRequest> for DeriveSvc<T> {
                        type Response = ::sealway_proto::broker::v1::DeriveResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::DeriveRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::derive(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = DeriveSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Broker/Random" => {
                    #[allow(non_camel_case_types)]
                    struct RandomSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::RandomRequest> for RandomSvc<T> {
                        type Response = ::sealway_proto::broker::v1::RandomResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::RandomRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::random(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = RandomSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Broker/Encapsulate" => {
                    #[allow(non_camel_case_types)]
                    struct EncapsulateSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::EncapsulateRequest> for EncapsulateSvc<T> {
                        type Response = ::sealway_proto::broker::v1::EncapsulateResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::EncapsulateRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::encapsulate(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = EncapsulateSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Broker/Decapsulate" => {
                    #[allow(non_camel_case_types)]
                    struct DecapsulateSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::DecapsulateRequest> for DecapsulateSvc<T> {
                        type Response = ::sealway_proto::broker::v1::DecapsulateResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::DecapsulateRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::decapsulate(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = DecapsulateSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Broker/Information" => {
                    #[allow(non_camel_case_types)]
                    struct InformationSvc<T: Broker>(pub Arc<T>);
                    impl<T: Broker> tonic::server::UnaryService<::sealway_proto::broker::v1::InformationRequest> for InformationSvc<T> {
                        type Response = ::sealway_proto::broker::v1::InformationResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::InformationRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Broker>::information(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = InformationSvc(inner);
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
    impl<T> Clone for BrokerServer<T> {
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
    pub const SERVICE_NAME: &str = "sealway.broker.v1.Broker";
    impl<T> tonic::server::NamedService for BrokerServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Generated server implementations.
pub mod keys_server {
    #![allow(unused_variables, dead_code, missing_docs, clippy::wildcard_imports, clippy::let_unit_value)]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with KeysServer.
    #[async_trait]
    pub trait Keys: std::marker::Send + std::marker::Sync + 'static {
        async fn generate(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::GenerateRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::KeyResponse>, tonic::Status>;
        async fn import(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::ImportRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::KeyResponse>, tonic::Status>;
        async fn list(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::ListRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::ListResponse>, tonic::Status>;
        /// Adds a version, which from then on is the one that seals and signs; the earlier ones still open and verify.
        async fn rotate(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::RotateRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::KeyResponse>, tonic::Status>;
        async fn disable(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::DisableRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::KeyResponse>, tonic::Status>;
        async fn enable(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::EnableRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::KeyResponse>, tonic::Status>;
        async fn public_key(
            &self,
            request: tonic::Request<::sealway_proto::broker::v1::PublicKeyRequest>,
        ) -> std::result::Result<tonic::Response<::sealway_proto::broker::v1::PublicKeyResponse>, tonic::Status>;
    }
    #[derive(Debug)]
    pub struct KeysServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> KeysServer<T> {
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
    impl<T, B> tonic::codegen::Service<http::Request<B>> for KeysServer<T>
    where
        T: Keys,
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
                "/sealway.broker.v1.Keys/Generate" => {
                    #[allow(non_camel_case_types)]
                    struct GenerateSvc<T: Keys>(pub Arc<T>);
                    impl<T: Keys> tonic::server::UnaryService<::sealway_proto::broker::v1::GenerateRequest> for GenerateSvc<T> {
                        type Response = ::sealway_proto::broker::v1::KeyResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::GenerateRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Keys>::generate(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GenerateSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Keys/Import" => {
                    #[allow(non_camel_case_types)]
                    struct ImportSvc<T: Keys>(pub Arc<T>);
                    impl<T: Keys> tonic::server::UnaryService<::sealway_proto::broker::v1::ImportRequest> for ImportSvc<T> {
                        type Response = ::sealway_proto::broker::v1::KeyResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::ImportRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Keys>::import(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ImportSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Keys/List" => {
                    #[allow(non_camel_case_types)]
                    struct ListSvc<T: Keys>(pub Arc<T>);
                    impl<T: Keys> tonic::server::UnaryService<::sealway_proto::broker::v1::ListRequest> for ListSvc<T> {
                        type Response = ::sealway_proto::broker::v1::ListResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::ListRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Keys>::list(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ListSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Keys/Rotate" => {
                    #[allow(non_camel_case_types)]
                    struct RotateSvc<T: Keys>(pub Arc<T>);
                    impl<T: Keys> tonic::server::UnaryService<::sealway_proto::broker::v1::RotateRequest> for RotateSvc<T> {
                        type Response = ::sealway_proto::broker::v1::KeyResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::RotateRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Keys>::rotate(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = RotateSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Keys/Disable" => {
                    #[allow(non_camel_case_types)]
                    struct DisableSvc<T: Keys>(pub Arc<T>);
                    impl<T: Keys> tonic::server::UnaryService<::sealway_proto::broker::v1::DisableRequest> for DisableSvc<T> {
                        type Response = ::sealway_proto::broker::v1::KeyResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::DisableRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Keys>::disable(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = DisableSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Keys/Enable" => {
                    #[allow(non_camel_case_types)]
                    struct EnableSvc<T: Keys>(pub Arc<T>);
                    impl<T: Keys> tonic::server::UnaryService<::sealway_proto::broker::v1::EnableRequest> for EnableSvc<T> {
                        type Response = ::sealway_proto::broker::v1::KeyResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::EnableRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Keys>::enable(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = EnableSvc(inner);
                        let codec = crate::wire::codec::Bounded::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(accept_compression_encodings, send_compression_encodings)
                            .apply_max_message_size_config(max_decoding_message_size, max_encoding_message_size);
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/sealway.broker.v1.Keys/PublicKey" => {
                    #[allow(non_camel_case_types)]
                    struct PublicKeySvc<T: Keys>(pub Arc<T>);
                    impl<T: Keys> tonic::server::UnaryService<::sealway_proto::broker::v1::PublicKeyRequest> for PublicKeySvc<T> {
                        type Response = ::sealway_proto::broker::v1::PublicKeyResponse;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<::sealway_proto::broker::v1::PublicKeyRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move { <T as Keys>::public_key(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = PublicKeySvc(inner);
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
    impl<T> Clone for KeysServer<T> {
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
    pub const SERVICE_NAME: &str = "sealway.broker.v1.Keys";
    impl<T> tonic::server::NamedService for KeysServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
