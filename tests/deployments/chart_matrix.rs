//! deploy/helm/sealway over many combinations of values: an API server's own rules, kube-score, `sealway config check` and the
//! parsers of every command accept what it renders, and the probes that it renders are answered.

use std::fs;
use std::io::BufRead;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use sealway_testkit::raw_http::Request;
use serde_json::Value;

use crate::chart::{documents, helm, pod, render};
use crate::{sealway, succeeds, tool};

/// Examples and values, each a release of its own.
const COMBINATIONS: &[(&[&str], &[&str])] = &[
    (&["demo"], &[]),
    (&["demo"], &["bind=[::]", "gateway.config.listeners[0].address=[::]:3000", "imagePullSecrets[0].name=registry"]),
    (
        &["demo"],
        &["gateway.readinessPath=/health", "gateway.networkPolicy.enabled=false", "gateway.topologySpread=none"],
    ),
    (&["demo"], &["gateway.metricsToken.secret=sealway-metrics", "gateway.serviceMonitor.enabled=true"]),
    (&["demo"], &["gateway.broker=true"]),
    (&["demo"], &["gateway.broker=true", "broker.telemetry.enabled=true", "gateway.metricsToken.secret=m"]),
    (
        &["demo"],
        &[
            "gateway.config.sessions.store=file:/var/lib/sealway/sessions.redb",
            "gateway.config.sessions.allow_generated_kek=true",
            "gateway.strategy.type=Recreate",
            "gateway.volumes[0].name=data",
            "gateway.volumes[0].persistentVolumeClaim.claimName=sealway",
            "gateway.volumeMounts[0].name=data",
            "gateway.volumeMounts[0].mountPath=/var/lib/sealway",
        ],
    ),
    (
        &["demo"],
        &[
            "gateway.serviceAccountName=sealway",
            "gateway.priorityClassName=high",
            "gateway.nodeSelector.disk=fast",
            "gateway.tolerations[0].key=only",
            "gateway.tolerations[0].operator=Exists",
            "gateway.podAnnotations.a=b",
            "gateway.podLabels.c=d",
            "gateway.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=kubernetes.io/hostname",
            "gateway.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels.x=y",
        ],
    ),
    (
        &["demo"],
        &[
            "gateway.volumes[0].name=keys",
            "gateway.volumes[0].csi.driver=secrets-store.csi.k8s.io",
            "gateway.volumes[0].csi.readOnly=true",
            "gateway.volumes[0].csi.volumeAttributes.secretProviderClass=sealway",
            "gateway.volumeMounts[0].name=keys",
            "gateway.volumeMounts[0].mountPath=/etc/sealway/secrets/keys",
        ],
    ),
    (&["demo"], &["gateway.replicas=0"]),
    (
        &["demo"],
        &["gateway.service.type=NodePort", "gateway.service.ports.public=80", "gateway.service.annotations.a=b"],
    ),
    (
        &["demo"],
        &["gateway.config.limits.buffered_bytes_max=268435456", "gateway.config.limits.connections_max=1000000"],
    ),
    (&["fleet"], &[]),
    (&["fleet"], &["gateway.autoscaling.enabled=false", "gateway.podDisruptionBudget.maxUnavailable=34%"]),
    (&["fleet"], &["gateway.autoscaling.behavior.scaleDown.stabilizationWindowSeconds=600"]),
    (&["fleet"], &["gateway.podDisruptionBudget.enabled=false", "gateway.serviceMonitor.labels.release=prometheus"]),
    (
        &["fleet"],
        &[
            "gateway.networkPolicy.from[0].namespaceSelector.matchLabels.a=b",
            "gateway.networkPolicy.egress[0].to[0].ipBlock.cidr=10.0.0.0/8",
            "gateway.networkPolicy.egress[0].ports[0].port=5432",
        ],
    ),
    (
        &["fleet"],
        &[
            "gateway.config.metrics.tls.cert=/etc/sealway/secrets/tls/tls.crt",
            "gateway.config.metrics.tls.key=/etc/sealway/secrets/tls/tls.key",
            "gateway.serviceMonitor.tlsConfig.serverName=sealway.example",
        ],
    ),
    (
        &["fleet"],
        &[
            "gateway.metricsToken.secret=",
            "gateway.config.admin.address=127.0.0.1:9901",
            "gateway.config.admin.token_file=/etc/sealway/metrics/token",
        ],
    ),
    (&["authority"], &[]),
    (
        &["authority"],
        &["authority.metricsToken.secret=m", "gateway.metricsToken.secret=m", "authority.serviceMonitor.enabled=true"],
    ),
    (&["relay"], &[]),
    (&["relay"], &["relay.autoscaling.enabled=true", "relay.networkPolicy.egress[0].to[0].ipBlock.cidr=10.0.0.0/8"]),
    (&["relay"], &["relay.replicas=1", "relay.redisUrl.secret=", "relay.nodeTls.secret=", "relay.tls.secret="]),
    (
        &["relay"],
        &[
            "relay.serviceMonitor.enabled=false",
            "relay.iss[0]=alice",
            "relay.port=9000",
            "relay.env[0].name=TZ",
            "relay.env[0].value=UTC",
        ],
    ),
    (&["application"], &[]),
    (
        &["application"],
        &["broker.telemetry.enabled=true", "broker.image=sealway-broker-fips:0.1.0", "broker.requireFips=true"],
    ),
    (
        &[],
        &[
            "application.enabled=true",
            "application.image=shop:1.0.0",
            "application.replicas=3",
            "application.command={/bin/run}",
            "application.args={a,b}",
        ],
    ),
    (
        &["application"],
        &[
            "broker.telemetry.enabled=true",
            "broker.telemetry.endpoint=http://collector:4318",
            "broker.callers=- Uid: 1000\n  Profiles: [Default]\n",
        ],
    ),
    (&["load"], &[]),
    (
        &["load"],
        &[
            "load.parallelism=1",
            "load.volumes[0].name=body",
            "load.volumes[0].configMap.name=body",
            "load.volumeMounts[0].name=body",
            "load.volumeMounts[0].mountPath=/body",
        ],
    ),
    (&["fleet", "relay", "application", "load"], &["broker.enabled=true"]),
];

/// Findings of kube-score about what this chart does on purpose.
const IGNORED_SCORES: &[&str] = &[
    // Images are named by version.
    "container-image-pull-policy",
    // The relay and the broker have one health endpoint each.
    "pod-probes-identical",
    // An application and its broker are user 1000, as the broker's released clients expect.
    "container-security-context-user-group-id",
];

/// The files that configurations of the examples name, below a folder in the place of /etc/sealway.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        let files = Files(tempfile::tempdir().unwrap());
        let at = |path: &str| files.0.path().join(path);
        for folder in ["keys", "postgres", "redis", "ca", "tls"] {
            fs::create_dir_all(at(&format!("secrets/{folder}"))).unwrap();
        }
        fs::create_dir_all(at("metrics")).unwrap();
        let certs = at("certs");
        succeeds(sealway(&[]).arg("certs").arg(&certs));
        for (from, to) in [
            ("ca.cert.pem", "ca/ca.crt"),
            ("ca.cert.pem", "tls/ca.crt"),
            ("server.cert.pem", "tls/tls.crt"),
            ("server.key.pem", "tls/tls.key"),
        ] {
            fs::copy(certs.join(from), at("secrets").join(to)).unwrap();
        }
        succeeds(sealway(&[]).args(["identity", "generate"]).arg(at("secrets/keys/sessions.identity")));
        for (path, text) in [
            ("secrets/keys/sessions.kek", "kek-1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"),
            ("secrets/keys/peers.secret", "a-secret-of-the-peers\n"),
            ("secrets/postgres/password", "a password\n"),
            ("secrets/redis/password", "a password\n"),
            ("metrics/token", "a-token-of-metrics\n"),
        ] {
            fs::write(at(path), text).unwrap();
            fs::set_permissions(at(path), fs::Permissions::from_mode(0o600)).unwrap();
        }
        files
    }

    /// Writes a rendered configuration with paths into this folder.
    fn config(&self, text: &str) -> PathBuf {
        let file = self.0.path().join("sealway.yaml");
        let here = text.replace("/etc/sealway/", &format!("{}/", self.0.path().display()));
        fs::write(&file, here.replace("/var/lib/sealway/", &format!("{}/", self.0.path().display()))).unwrap();
        file
    }
}

#[test]
fn every_combination_is_valid_for_an_api_server_and_for_sealway() {
    let (folder, files) = (tempfile::tempdir().unwrap(), Files::new());
    let mut rendered = Vec::new();
    for (number, (examples, values)) in COMBINATIONS.iter().enumerate() {
        // Each is a release of its own, or kube-score would see objects of one at those of another.
        let output = succeeds(&mut helm(&["template", &format!("r{number:02}")], examples, values));
        let file = folder.path().join(format!("{number:02}.yaml"));
        fs::write(&file, &output.stdout).unwrap();
        rendered.push(file);
        for document in documents(&String::from_utf8(output.stdout).unwrap()) {
            let label = format!("{examples:?} {values:?}: {} {}", document["kind"], document["metadata"]["name"]);
            check_config(&document, &files, &label);
            let pod = &document["spec"]["template"]["spec"];
            for container in
                ["initContainers", "containers"].iter().flat_map(|kind| pod[kind].as_array().into_iter().flatten())
            {
                check_command(container, &label);
            }
        }
    }
    assert!(rendered.len() >= 24);
    succeeds(tool("check-kubernetes").args(&rendered));
    let mut score = tool("kube-score");
    // A limit on processor time delays requests on an idle node; on a busy one the requests share it out.
    score.args(["score", "--output-format", "ci", "--kubernetes-version", "v1.35", "--ignore-container-cpu-limit"]);
    score.args(IGNORED_SCORES.iter().flat_map(|test| ["--ignore-test", test]));
    let scores = String::from_utf8(score.args(&rendered).output().unwrap().stdout).unwrap();
    let critical: Vec<_> = scores.lines().filter(|line| line.starts_with("[CRITICAL]")).collect();
    // Two combinations turn off what it wants.
    let wanted = ["The pod does not have a matching NetworkPolicy", "No matching PodDisruptionBudget was found"];
    let is_wanted = |(line, wanted): (&&str, &&str)| line.contains("-sealway-gateway") && line.ends_with(*wanted);
    assert!(critical.len() == 2 && critical.iter().zip(&wanted).all(is_wanted), "{critical:#?}");
    assert!(scores.contains("[OK] r31-"), "{scores}");
}

/// Has `sealway` check the files of a ConfigMap.
fn check_config(document: &Value, files: &Files, label: &str) {
    let Some(data) = document["data"].as_object() else { return };
    for (name, text) in data {
        let text = text.as_str().unwrap();
        // As a Secret sets it in the container.
        let store = "postgres://sealway:password@db.internal/sealway";
        let environment: &[_] =
            if label.contains("sealway-authority") { &[("SEALWAY_SESSIONS__STORE", store)] } else { &[] };
        let output = match name.as_str() {
            "sealway.yaml" => {
                let mut check = sealway(environment);
                check.args(["config", "check"]).arg(files.config(text)).output()
            }
            "Profiles.yaml" => {
                let file = files.0.path().join(name);
                fs::write(&file, text).unwrap();
                sealway(&[]).args(["broker", "profiles", "check"]).arg(file).output()
            }
            _ => continue,
        };
        let output = output.unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert!(output.status.success(), "{label}: {said}\n{text}");
    }
}

/// Has the parser of a container's command read its arguments: with `--help` at their end nothing else happens.
fn check_command(container: &Value, label: &str) {
    if container["command"][0] != "/usr/bin/sealway" {
        return;
    }
    let arguments = container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
    let output =
        sealway(&[("SEALWAY_RELAY_REDIS_URL", "redis://redis")]).args(arguments).arg("--help").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{label}: {}: {said}", container["args"]);
}

/// A process that is ended with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until each probe of a container is answered at this port.
fn assert_probes(container: &Value, port: u16, name: &str) {
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let get = &container[probe]["httpGet"];
        assert_eq!(get["port"], name, "{probe}");
        let url = format!("http://127.0.0.1:{port}{}", get["path"].as_str().unwrap());
        let end = Instant::now() + Duration::from_secs(30);
        while !sealway(&[]).args(["health", &url]).output().unwrap().status.success() {
            assert!(Instant::now() < end, "{probe}: {url} is not answered");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_gateway_of_the_chart_answers_its_probes() {
    let documents = render(&["demo"], &[]);
    let config = crate::chart::named(&documents, "ConfigMap", "try-sealway-gateway")["data"]["sealway.yaml"].clone();
    let port = free_port();
    let text = config.as_str().unwrap().replace("0.0.0.0:9903", &format!("127.0.0.1:{port}"));
    let files = Files::new();
    let file = files.config(&text.replace("0.0.0.0:3000", "127.0.0.1:0"));
    let mut command = sealway(&[]);
    command.args(["serve", "--config"]).arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    let _served = Process(command.spawn().unwrap());
    assert_probes(&pod(&documents, "try-sealway-gateway")["containers"][0], port, "probes");
    // A port without TLS that every pod may reach leads nowhere else.
    for path in ["/.well-known/sealway-keys", "/transaction/purchase"] {
        let answer = Request::get(path).send(([127, 0, 0, 1], port).into()).unwrap();
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
}

#[test]
fn a_relay_of_the_chart_answers_its_probes() {
    let alone = [
        "relay.replicas=1",
        "relay.redisUrl.secret=",
        "relay.nodeTls.secret=",
        "relay.tls.secret=",
        "json:relay.args=[]",
    ];
    let documents = render(&["relay"], &alone);
    let container = &pod(&documents, "try-sealway-relay")["containers"][0];
    let folder = tempfile::tempdir().unwrap();
    let keys = |name: &str| folder.path().join(name).display().to_string();
    let (key, keyset) = (keys("issuer-key.json"), keys("issuer-keys.json"));
    succeeds(sealway(&[]).args([
        "relay",
        "keys",
        "--kid",
        "k1",
        "--issuer-key-file",
        &key,
        "--issuer-keys-file",
        &keyset,
    ]));
    let arguments = container["args"].as_array().unwrap().iter().map(|argument| {
        let argument = argument.as_str().unwrap().replace("0.0.0.0:8080", "127.0.0.1:0");
        argument.replace("/etc/sealway/issuer-keys/issuer-keys.json", &keyset)
    });
    let mut command = sealway(&[]);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut served = Process(command.spawn().unwrap());
    let mut line = String::new();
    std::io::BufReader::new(served.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let listen: Value = serde_json::from_str(&line).unwrap();
    let port = listen["listen"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    assert_probes(container, port, "relay");
}

#[test]
fn a_broker_of_the_chart_starts_on_its_volume_and_answers_its_probe() {
    let documents = render(&["application"], &[]);
    let container = &pod(&documents, "try-sealway-application")["initContainers"][0];
    let profiles = crate::chart::named(&documents, "ConfigMap", "try-sealway-broker")["data"]["Profiles.yaml"].clone();
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    // As Kubernetes mounts them: a ConfigMap, and a claim that the pod's group may write.
    fs::create_dir_all(at("config")).unwrap();
    fs::create_dir_all(at("data")).unwrap();
    fs::write(at("config/Profiles.yaml"), profiles.as_str().unwrap()).unwrap();
    fs::set_permissions(at("data"), fs::Permissions::from_mode(0o2775)).unwrap();
    let socket = at("run/broker.sock");
    let environment: Vec<(String, String)> = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|env| {
            let value = match env["name"].as_str().unwrap() {
                "CRYPTO_BROKER_PROFILES_DIR" => at("config").display().to_string(),
                "CRYPTO_BROKER_KEK" => "kek-1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".into(),
                _ => env["value"].as_str().unwrap().into(),
            };
            (env["name"].as_str().unwrap().into(), value)
        })
        .collect();
    let arguments = container["args"].as_array().unwrap().iter().map(|argument| {
        argument.as_str().unwrap().replace("/var/lib/sealway-broker", &at("data").display().to_string())
    });
    let mut command = sealway(&[]);
    command.args(arguments).arg("--socket").arg(&socket).envs(environment).stdout(Stdio::null()).stderr(Stdio::null());
    let _served = Process(command.spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(30);
    let command = container["readinessProbe"]["exec"]["command"].as_array().unwrap();
    let probe: Vec<_> = command[1..].iter().map(|word| word.as_str().unwrap()).collect();
    while !sealway(&[]).args(&probe).arg("--socket").arg(&socket).output().unwrap().status.success() {
        assert!(Instant::now() < end, "the broker does not serve");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(at("data/audit.jsonl").is_file() && is_folder_of_its_owner(&at("data/keys")));
}

fn is_folder_of_its_owner(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_dir() && metadata.permissions().mode() & 0o077 == 0)
}
