use super::*;
use sealway_runtime::telemetry::{Place, Sampling};

fn read(variables: &[(&str, &str)]) -> Result<Settings, Vec<String>> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::read(Flags { profiles: Some("p.yaml".into()), ..Flags::default() }, Environment::new(variables))
}

#[test]
fn the_defaults_are_those_of_the_original_broker() {
    let settings = read(&[]).unwrap();
    assert_eq!(settings.place.path, Path::new("/tmp/open-crypto-broker/crypto-broker-server.sock"));
    assert_eq!(settings.place.link.as_deref(), Some(Path::new("/tmp/cryptobroker.sock")));
    assert_eq!((settings.limits.streams_max, settings.is_dev, settings.has_earlier_wires), (1024, false, true));
    assert_eq!(settings.service, "crypto-broker-server");
    assert_eq!(settings.log, Slog { level: "info".into(), is_json: true, is_on_stderr: false });
    assert_eq!(settings.exports.traces, []);
    assert!(settings.warnings.is_empty());
}

#[test]
fn every_name_of_the_environment_is_read() {
    let settings = read(&[
        ("CRYPTO_BROKER_LOG_LEVEL", "warn"),
        ("CRYPTO_BROKER_LOG_FORMAT", "text"),
        ("CRYPTO_BROKER_LOG_OUTPUT", "stderr"),
        ("CRYPTO_BROKER_APP_ENV", "dev"),
        ("CRYPTO_BROKER_GRPC_MAX_CONCURRENT_STREAMS", "7"),
        ("CRYPTO_BROKER_PPROF_ADDR", "127.0.0.1:6060"),
        ("CRYPTO_BROKER_KMS_DIR", "/kms"),
        ("CRYPTO_BROKER_BENCHMARKING_SIGNCERTIFICATE_CA_CERT", "/a"),
        ("CRYPTO_BROKER_BENCHMARKING_SIGNCERTIFICATE_PRIVATE_KEY", "/b"),
        ("CRYPTO_BROKER_BENCHMARKING_SIGNCERTIFICATE_CSR", "/c"),
        ("CRYPTO_BROKER_REQUIRE_FIPS", "strict"),
        ("OTEL_SERVICE_NAME", "mine"),
        ("OTEL_SERVICE_VERSION", "1.2"),
        ("OTEL_TRACES_EXPORTER", "console, otlpgrpc,otlphttp,none,zipkin"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ("OTEL_LOGS_EXPORTER", "console,otlphttp"),
        ("OTEL_METRICS_EXPORTER", "console, otlpgrpc"),
        ("OTEL_METRICS_INTERVAL", "1m30s"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
        ("OTEL_EXPORTER_OTLP_HEADERS_AUTHORIZATION", "Api-Token t"),
    ])
    .unwrap();
    assert_eq!(settings.log, Slog { level: "warn".into(), is_json: false, is_on_stderr: true });
    assert_eq!((settings.limits.streams_max, settings.is_dev, settings.fips), (7, true, RequireFips::Strict));
    assert_eq!((settings.service.as_str(), settings.exports.version.as_deref()), ("mine", Some("1.2")));
    let to = [
        Place::Console,
        Place::Grpc("http://collector:4317".into()),
        Place::Http("http://collector:4317/v1/traces".into()),
    ];
    assert_eq!(settings.exports.traces, to);
    assert_eq!(settings.exports.metrics, to[..2]);
    assert_eq!(settings.exports.interval, Duration::from_secs(90));
    assert_eq!(settings.exports.logs, [Place::Http("http://collector:4317/v1/logs".into())]);
    assert_eq!(settings.exports.sampling, Sampling::ParentOrShare(0.25));
    assert_eq!(settings.benchmark.csr.as_deref(), Some("/c"));
    let warned = |name: &str| settings.warnings.iter().any(|warning| warning.starts_with(name));
    for name in ["CRYPTO_BROKER_PPROF_ADDR", "CRYPTO_BROKER_KMS_DIR", "OTEL_TRACES_EXPORTER"] {
        assert!(warned(name), "{name}: {:?}", settings.warnings);
    }
    assert!(!format!("{settings:?}").contains("Api-Token"));
}

#[test]
fn names_without_the_prefix_are_read_and_lose_to_those_with_it() {
    let settings = read(&[
        ("APP_ENV", "dev"),
        ("GRPC_MAX_CONCURRENT_STREAMS", "5"),
        ("OTEL_LOGS_LEVEL", "debug"),
        ("OTEL_LOGS_FORMAT", "text"),
        ("OTEL_LOGS_OUTPUT", "stderr"),
        ("CRYPTO_BROKER_LOG_LEVEL", "ERROR"),
    ])
    .unwrap();
    assert_eq!((settings.is_dev, settings.limits.streams_max, settings.log.level.as_str()), (true, 5, "error"));
    assert!(settings.log.is_on_stderr && !settings.log.is_json);
}

#[test]
fn invalid_variables_are_all_reported_by_name() {
    for (name, value) in [
        ("CRYPTO_BROKER_LOG_LEVEL", "loud"),
        ("OTEL_LOGS_FORMAT", "xml"),
        ("CRYPTO_BROKER_LOG_OUTPUT", "file"),
        ("APP_ENV", "test"),
        ("CRYPTO_BROKER_GRPC_MAX_CONCURRENT_STREAMS", "0"),
        ("GRPC_MAX_CONCURRENT_STREAMS", "-1"),
        ("CRYPTO_BROKER_REQUIRE_FIPS", "yes"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_TRACES_SAMPLER_ARG", "2"),
        ("OTEL_METRICS_EXPORTER", "file"),
        ("OTEL_LOGS_EXPORTER", "none,file"),
        ("OTEL_METRICS_INTERVAL", "30"),
        ("OTEL_METRICS_INTERVAL", "1ms"),
        ("OTEL_METRICS_INTERVAL", "-30s"),
        ("OTEL_METRICS_INTERVAL", "2h"),
    ] {
        let problems = read(&[(name, value)]).unwrap_err();
        assert!(problems.len() == 1 && problems[0].starts_with(&format!("{name}: ")), "{problems:?}");
    }
    let wrong = [("OTEL_TRACES_EXPORTER", "otlphttp"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://h"), ("APP_ENV", "x")];
    assert_eq!(read(&wrong).unwrap_err().len(), 2);
}

#[test]
fn one_endpoint_serves_every_kind_by_its_path() {
    for (endpoint, base) in [
        ("collector:4318", "http://collector:4318"),
        ("http://collector:4318/", "http://collector:4318"),
        ("http://collector:4318/v1/traces", "http://collector:4318"),
        ("http://collector/otlp/", "http://collector/otlp"),
    ] {
        let settings = read(&[
            ("OTEL_TRACES_EXPORTER", "otlphttp"),
            ("OTEL_METRICS_EXPORTER", "otlp"),
            ("OTEL_LOGS_EXPORTER", "auto"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ]);
        let exports = settings.unwrap().exports;
        let at = |path: &str| [Place::Http(format!("{base}{path}"))];
        assert_eq!((&exports.traces[..], &exports.metrics[..]), (&at("/v1/traces")[..], &at("/v1/metrics")[..]));
        assert_eq!(exports.logs, at("/v1/logs"));
    }
    for wrong in ["http://user:secret@collector:4318", "ftp://collector:4318", "http://"] {
        let problems = read(&[("OTEL_LOGS_EXPORTER", "otlphttp"), ("OTEL_EXPORTER_OTLP_ENDPOINT", wrong)]).unwrap_err();
        assert!(problems.len() == 1 && !problems[0].contains("secret"), "{problems:?}");
    }
}

#[test]
fn an_endpoint_of_https_is_one_of_tls_over_http_and_grpc_and_has_its_authorities() {
    let settings = read(&[
        ("OTEL_TRACES_EXPORTER", "otlphttp,otlpgrpc"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4317"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"),
    ]);
    if !sealway_runtime::telemetry::HAS_TLS {
        let problems = settings.unwrap_err();
        assert!(problems.iter().all(|problem| problem.contains("this build has no TLS")), "{problems:?}");
        return;
    }
    let exports = settings.unwrap().exports;
    let [http, grpc] = ["https://collector:4317/v1/traces", "https://collector:4317"].map(str::to_owned);
    assert_eq!(exports.traces, [Place::Http(http), Place::Grpc(grpc)]);
    assert_eq!(exports.ca.as_deref(), Some(Path::new("/etc/ca.pem")));
}

#[test]
fn the_audit_log_waits_for_the_disk_unless_an_interval_is_given() {
    assert_eq!(read(&[]).unwrap().durability, Durability::EachAnswer);
    let interval = read(&[("CRYPTO_BROKER_AUDIT_INTERVAL_MS", "50")]).unwrap().durability;
    assert_eq!(interval, Durability::Interval(Duration::from_millis(50)));
    for wrong in ["0", "60001", "x"] {
        assert!(read(&[("CRYPTO_BROKER_AUDIT_INTERVAL_MS", wrong)]).unwrap_err()[0].contains("from 1 to 60000"));
    }
}

#[test]
fn the_memory_of_calls_has_a_default_and_bounds() {
    const NAME: &str = "CRYPTO_BROKER_CALLS_MEMORY_MIB";
    assert_eq!(read(&[]).unwrap().calls_memory, Options::CALLS_MEMORY);
    assert_eq!(read(&[(NAME, "8")]).unwrap().calls_memory, 8 * 1024 * 1024);
    for wrong in ["7", "65537", "-1", "x"] {
        assert!(read(&[(NAME, wrong)]).unwrap_err()[0].contains("from 8 to 65536"), "{wrong}");
    }
}

#[test]
fn the_number_of_connections_has_a_default_and_bounds() {
    const NAME: &str = "CRYPTO_BROKER_CONNECTIONS_MAX";
    assert_eq!(read(&[]).unwrap().limits.connections_max, 1024);
    assert_eq!(read(&[(NAME, "4096")]).unwrap().limits.connections_max, 4096);
    for wrong in ["15", "65537", "x"] {
        assert_eq!(read(&[(NAME, wrong)]).unwrap_err(), [format!("{NAME}: expected a number from 16 to 65536")]);
    }
}

#[test]
fn no_value_of_a_variable_is_shown() {
    let variables = [("CRYPTO_BROKER_BENCHMARKING_SIGNCERTIFICATE_PRIVATE_KEY".to_owned(), "geheim".to_owned())];
    let shown = format!("{:?}", Environment::new(variables));
    assert!(shown.contains("PRIVATE_KEY") && !shown.contains("geheim"), "{shown}");
}

#[test]
fn flags_win_over_the_environment() {
    let variables =
        [("CRYPTO_BROKER_SOCKET", "/e.sock"), ("CRYPTO_BROKER_AUDIT", "/e"), ("CRYPTO_BROKER_KEYS", "/keys")];
    let flags = Flags {
        socket: Some("/f.sock".into()),
        audit: Some("/f".into()),
        profiles: Some("p.yaml".into()),
        is_dev: true,
        ..Flags::default()
    };
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = Settings::read(flags, Environment::new(variables)).unwrap();
    assert_eq!(settings.place.path, Path::new("/f.sock"));
    assert_eq!(
        (settings.audit.as_deref(), settings.keys.as_deref()),
        (Some(Path::new("/f")), Some(Path::new("/keys")))
    );
    assert!(settings.place.link.is_none() && settings.is_dev);
}

#[test]
fn the_folder_of_profiles_is_absolute_and_holds_the_file() {
    let ground = tempfile::tempdir().unwrap();
    let (folder, outside) = (ground.path().join("profiles"), ground.path().join("outside.yaml"));
    std::fs::create_dir(&folder).unwrap();
    let read = |value: &str| {
        let variables = [("CRYPTO_BROKER_PROFILES_DIR".to_owned(), value.to_owned())];
        Settings::read(Flags::default(), Environment::new(variables)).map_err(|problems| problems.join("\n"))
    };
    assert!(read("").unwrap_err().starts_with("CRYPTO_BROKER_PROFILES_DIR: required"));
    assert!(read("profiles").unwrap_err().contains("absolute"));
    assert!(read(folder.to_str().unwrap()).unwrap_err().contains("Profiles.yaml"));
    std::fs::write(&outside, "[]").unwrap();
    std::os::unix::fs::symlink(&outside, folder.join("Profiles.yaml")).unwrap();
    assert!(read(folder.to_str().unwrap()).unwrap_err().contains("leads out of the folder"));
    // Like a volume of Kubernetes.
    std::fs::remove_file(folder.join("Profiles.yaml")).unwrap();
    std::fs::create_dir(folder.join("..data")).unwrap();
    std::fs::write(folder.join("..data/Profiles.yaml"), "[]").unwrap();
    std::os::unix::fs::symlink("..data/Profiles.yaml", folder.join("Profiles.yaml")).unwrap();
    assert_eq!(read(folder.to_str().unwrap()).unwrap().profiles, folder.join("Profiles.yaml"));
}

#[test]
fn the_transit_api_needs_a_loopback_address_and_tokens() {
    let transit = |variables: &[(&str, &str)]| read(variables).map(|settings| settings.transit);
    assert_eq!(transit(&[]).unwrap(), None);
    let on = [("CRYPTO_BROKER_TRANSIT_ADDR", "[::1]:8200"), ("CRYPTO_BROKER_TRANSIT_TOKENS", "t.yaml")];
    let found = transit(&on).unwrap().unwrap();
    assert_eq!((found.mount.as_str(), found.tokens.as_path()), ("transit", Path::new("t.yaml")));
    for (variables, expected) in [
        (&[("CRYPTO_BROKER_TRANSIT_ADDR", "0.0.0.0:8200"), on[1]][..], "expected a loopback address"),
        (&[("CRYPTO_BROKER_TRANSIT_ADDR", "localhost"), on[1]], "an address and port"),
        (&on[..1], "CRYPTO_BROKER_TRANSIT_TOKENS: required"),
        (&[on[0], on[1], ("CRYPTO_BROKER_TRANSIT_MOUNT", "a/b")], "CRYPTO_BROKER_TRANSIT_MOUNT: expected"),
    ] {
        let problems = transit(variables).unwrap_err().join("\n");
        assert!(problems.contains(expected), "{variables:?}: {problems}");
    }
}

#[test]
fn a_token_is_named_by_a_uri_and_its_host_inherits_no_pin_and_no_key() {
    let one = "pkcs11:token=a?module-path=/a.so&pin-source=env:PIN_OF_A";
    let two = "pkcs11:serial=2?module-path=/b.so&pin-source=file:/pin";
    let settings = read(&[("CRYPTO_BROKER_PKCS11", &format!("{one} {two}")), ("CRYPTO_BROKER_PKCS11_SESSIONS", "7")]);
    let tokens = settings.unwrap().pkcs11;
    assert_eq!((tokens.len(), tokens[0].sessions, tokens[1].deadline), (2, 7, Duration::from_secs(5)));
    assert!(tokens.iter().all(|token| token.hidden == ["PIN_OF_A", "CRYPTO_BROKER_KEK"]));
    for (uri, part) in [
        ("pkcs11:token=a?pin-value=secretword", "CRYPTO_BROKER_PKCS11: pin-value: "),
        ("token=secretword", "CRYPTO_BROKER_PKCS11: expected a URI that begins with pkcs11:"),
        ("pkcs11:token=a;object=k?module-path=/a.so&pin-source=file:/pin", "without object, id and type"),
    ] {
        let problems = read(&[("CRYPTO_BROKER_PKCS11", uri)]).unwrap_err().join("\n");
        assert!(problems.contains(part) && !problems.contains("secretword"), "{uri}: {problems}");
    }
}
