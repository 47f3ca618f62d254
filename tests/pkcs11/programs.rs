//! Programs that load the module. Each leaves lines in the broker's audit log.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::{Daemon, free_port, program, root};
use sealway_testkit::guide;

use crate::BINARY;
use crate::fixture::{Fixture, SLOTS, done, failed, module, openssl, preload};

/// Keys that several tests use.
const EC: (&str, &str) = ("ec", "ecdsa-p256");
const RSA: (&str, &str) = ("rsa", "rsa-2048");

const GUIDE: &str = include_str!("../../docs/guides/use-broker-keys-from-openssl-and-ssh.md");

/// Mechanisms of OpenSC's tool, with the token and key of each, and OpenSSL's arguments that verify the signature.
const SIGNATURES: [(&str, &str, &str, &[&str]); 6] = [
    ("EC", "ec", "ECDSA-SHA256", &["dgst", "-sha256"]),
    ("EC384", "ec384", "ECDSA-SHA384", &["dgst", "-sha384"]),
    ("RSA", "rsa", "SHA256-RSA-PKCS", &["dgst", "-sha256"]),
    ("PSS", "rsa", "SHA256-RSA-PKCS-PSS", &["dgst", "-sha256", "-sigopt", "rsa_padding_mode:pss"]),
    ("EC", "ec", "ECDSA", &["pkeyutl"]),
    ("Ed", "ed", "EDDSA", &["pkeyutl", "-rawin"]),
];

#[test]
fn signatures_of_opensc_verify_by_openssl_and_by_the_module() {
    let fixture = Fixture::new(&[EC, ("ec384", "ecdsa-p384"), RSA, ("ed", "ed25519")]);
    let file = |name: &str| fixture.path(name).display().to_string();
    std::fs::write(file("message"), "a message").unwrap();
    std::fs::write(file("digest"), openssl(&fixture.path(""), &["dgst", "-sha256", "-binary", "message"])).unwrap();
    for (token, key, mechanism, verifying) in SIGNATURES {
        let input = if mechanism == "ECDSA" { "digest" } else { "message" };
        let before = fixture.audit("SignData", key).len() + fixture.audit("SignDigest", key).len();
        let common = ["--mechanism", mechanism, "--id", &hex(key), "--input-file", input];
        let mut sign = fixture.tool(token);
        sign.args(["--sign", "--signature-format", "openssl", "--output-file", "signature"]).args(common);
        done(&mut sign);
        let after = fixture.audit("SignData", key).len() + fixture.audit("SignDigest", key).len();
        assert_eq!(after, before + 1, "{mechanism}");
        std::fs::write(file("public.pem"), fixture.keys(&["public", key])).unwrap();
        let mut arguments = verifying.to_vec();
        match verifying[0] {
            "dgst" => arguments.extend(["-verify", "public.pem", "-signature", "signature", input]),
            _ => arguments.extend(["-verify", "-pubin", "-inkey", "public.pem", "-sigfile", "signature", "-in", input]),
        }
        openssl(&fixture.path(""), &arguments);
        if mechanism != "EDDSA" {
            let mut verify = fixture.tool(token);
            verify.args(["--verify", "--signature-format", "openssl", "--signature-file", "signature"]).args(common);
            let told = String::from_utf8_lossy(&done(&mut verify)).into_owned();
            assert!(told.contains("Signature is valid"), "{mechanism}: {told}");
        }
    }
}

#[test]
fn opensc_lists_objects_and_passes_its_own_test() {
    let fixture = Fixture::new(&[EC, RSA]);
    let slots = String::from_utf8(done(fixture.tool("EC").arg("--list-slots"))).unwrap();
    assert_eq!(slots.matches("token label").count(), SLOTS.len(), "{slots}");
    let objects = String::from_utf8(done(fixture.tool("RSA").arg("--list-objects"))).unwrap();
    assert!(
        objects.contains("Private Key Object; RSA") && objects.contains("Public Key Object; RSA 2048"),
        "{objects}"
    );
    // Under a profile with `Prehashed` the tool would sign bytes that are no digest, which the module rejects.
    for token in ["EC", "RSA512"] {
        let told = String::from_utf8_lossy(&done(fixture.tool(token).arg("--test"))).into_owned();
        assert!(told.contains("No errors"), "{told}");
    }
}

#[test]
fn a_content_key_is_decrypted_and_a_changed_one_gives_another() {
    let fixture = Fixture::new(&[("unwrap", "rsa-unwrap-2048")]);
    let file = |name: &str| fixture.path(name).display().to_string();
    std::fs::write(file("key"), [7; 32]).unwrap();
    std::fs::write(file("public.pem"), fixture.keys(&["public", "unwrap"])).unwrap();
    let padding =
        ["-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", "rsa_oaep_md:sha256", "-pkeyopt", "rsa_mgf1_md:sha256"];
    let encrypt = ["pkeyutl", "-encrypt", "-pubin", "-inkey", "public.pem", "-in", "key", "-out", "sealed"];
    openssl(&fixture.path(""), &[&encrypt[..], &padding].concat());
    let decrypt = || {
        let mut tool = fixture.tool("Unwrap");
        tool.args(["--decrypt", "--mechanism", "RSA-PKCS-OAEP", "--hash-algorithm", "SHA256", "--id", &hex("unwrap")]);
        done(tool.args(["--input-file", "sealed", "--output-file", "opened"]));
        std::fs::read(file("opened")).unwrap()
    };
    assert_eq!(decrypt(), [7; 32]);
    let mut sealed = std::fs::read(file("sealed")).unwrap();
    sealed[9] ^= 1;
    std::fs::write(file("sealed"), sealed).unwrap();
    let opened = decrypt();
    assert!(opened.len() == 32 && opened != [7; 32], "{opened:?}");
    assert_eq!(fixture.audit("Unwrap", "unwrap").len(), 2);
}

#[test]
fn a_key_that_the_policy_denies_gives_an_error_and_an_audit_line() {
    let fixture = Fixture::new(&[("denied", "ecdsa-p256")]);
    std::fs::write(fixture.path("message"), "a message").unwrap();
    let mut sign = fixture.tool("EC");
    sign.args(["--sign", "--mechanism", "ECDSA-SHA256", "--id", &hex("denied"), "--input-file", "message"]);
    let told = failed(&mut sign);
    assert!(told.contains("CKR_KEY_FUNCTION_NOT_PERMITTED"), "{told}");
    let lines = fixture.audit("SignData", "denied");
    assert!(!lines.is_empty() && lines.iter().all(|line| line.contains("\"code\":7")), "{lines:?}");
    // A profile without `Prehashed` offers no mechanism for digests.
    let offered = String::from_utf8(done(fixture.tool("EC384").arg("--list-mechanisms"))).unwrap();
    assert!(offered.contains("ECDSA-SHA384") && !offered.contains("ECDSA,"), "{offered}");
}

/// Writes an id as the tool reads it.
fn hex(id: &str) -> String {
    id.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Creates a command of `openssl` whose engine uses the module.
fn engine(fixture: &Fixture, name: &str) -> Command {
    let mut command = fixture.command(name);
    command.env("PKCS11_MODULE_PATH", module());
    command
}

const EC_URI: &str = "pkcs11:token=EC;object=ec;type=private";

#[test]
fn openssl_signs_with_keys_of_the_broker() {
    let fixture = Fixture::new(&[EC, RSA]);
    std::fs::write(fixture.path("message"), "a message").unwrap();
    for (key, uri) in [("ec", EC_URI), ("rsa", "pkcs11:token=RSA;object=rsa;type=private")] {
        std::fs::write(fixture.path("public.pem"), fixture.keys(&["public", key])).unwrap();
        let mut sign = engine(&fixture, "openssl");
        sign.args(["dgst", "-sha256", "-engine", "pkcs11", "-keyform", "engine", "-sign", uri]);
        done(sign.args(["-out", "signature", "message"]));
        openssl(&fixture.path(""), &["dgst", "-sha256", "-verify", "public.pem", "-signature", "signature", "message"]);
        let mut sign = engine(&fixture, "openssl");
        sign.args(["pkeyutl", "-sign", "-engine", "pkcs11", "-keyform", "engine", "-inkey", uri, "-rawin", "-digest"]);
        done(sign.args(["sha256", "-in", "message", "-out", "signature"]));
        openssl(&fixture.path(""), &["dgst", "-sha256", "-verify", "public.pem", "-signature", "signature", "message"]);
        assert_eq!(fixture.audit("SignDigest", key).len(), 2, "{key}");
    }
}

/// Lets the authority of some certificates certify the key `ec`, and returns the file.
fn certified(fixture: &Fixture) -> Certificates {
    let certificates = Certificates::make(&fixture.path(""), "DNS:localhost,IP:127.0.0.1", "unused").unwrap();
    let mut request = engine(fixture, "openssl");
    request.args(["req", "-new", "-engine", "pkcs11", "-keyform", "engine", "-key", EC_URI, "-subj", "/CN=ec"]);
    done(request.args(["-out", "ec.csr"]));
    let sign = ["x509", "-req", "-in", "ec.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2", "-out", "ec.pem"];
    openssl(&fixture.path(""), &[&sign[..], &["-CAcreateserial"]].concat());
    fixture.configure("certificates = [\"ec.pem\"]");
    certificates
}

#[test]
fn curl_shows_a_client_certificate_whose_key_is_in_the_broker() {
    let fixture = Fixture::new(&[EC]);
    certified(&fixture);
    let port = free_port().unwrap();
    let mut server = fixture.command("openssl");
    server.args(["s_server", "-accept", &format!("127.0.0.1:{port}"), "-cert", "server.pem", "-key", "server.key"]);
    server.args(["-CAfile", "ca.pem", "-Verify", "1", "-verify_return_error", "-www", "-quiet"]);
    let mut server = Daemon::start(server, &fixture.path("server.log")).unwrap();
    server.wait_for(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    let url = format!("https://localhost:{port}/");
    let without = ["--silent", "--show-error", "--max-time", "20", "--cacert", "ca.pem", &url];
    failed(engine(&fixture, "curl").args(without));
    for version in ["1.3", "1.2"] {
        let before = fixture.audit("SignDigest", "ec").len();
        let mut curl = engine(&fixture, "curl");
        curl.args(["--engine", "pkcs11", "--cert", "ec.pem", "--key-type", "ENG", "--key", EC_URI]);
        curl.args([&format!("--tlsv{version}"), "--tls-max", version]).args(without);
        let page = String::from_utf8_lossy(&done(&mut curl)).into_owned();
        assert!(page.contains("CN = ec") || page.contains("CN=ec"), "{page}");
        assert_eq!(fixture.audit("SignDigest", "ec").len(), before + 1, "TLS {version}");
    }
}

#[test]
fn ssh_logs_in_with_a_key_of_the_broker() {
    let fixture = Fixture::new(&[EC]);
    let keys = String::from_utf8(done(fixture.command("ssh-keygen").arg("-D").arg(module()))).unwrap();
    let public = fixture.path("ec.pem");
    std::fs::write(&public, fixture.keys(&["public", "ec"])).unwrap();
    let converted = done(fixture.command("ssh-keygen").args(["-i", "-m", "PKCS8", "-f"]).arg(&public));
    let line = String::from_utf8(converted).unwrap();
    assert!(keys.contains(line.trim()), "{keys}\nhas no\n{line}");
    std::fs::write(fixture.path("authorized"), line).unwrap();
    done(fixture.command("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", "host"]));

    // A server of root's wants this folder, which the system's service makes at its start.
    if rustix::process::getuid().is_root() {
        std::fs::create_dir_all("/run/sshd").unwrap();
    }
    let port = free_port().unwrap();
    let path = |name: &str| fixture.path(name).display().to_string();
    let text = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {}\nPidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n\
         PermitRootLogin prohibit-password\nAuthorizedKeysFile {}\nLogLevel VERBOSE\n",
        path("host"),
        path("authorized")
    );
    std::fs::write(path("sshd_config"), text).unwrap();
    let mut server = Command::new(program("sshd").unwrap());
    server.args(["-D", "-e", "-f", &path("sshd_config")]);
    let mut server = Daemon::start(server, &fixture.path("sshd.log")).unwrap();
    server.wait_for(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();

    let user = String::from_utf8(done(Command::new("id").arg("-un"))).unwrap();
    let before = fixture.audit("SignDigest", "ec").len();
    let mut ssh = fixture.command("ssh");
    ssh.args(["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=known"]);
    ssh.args(["-o", "IdentitiesOnly=no", "-p", &port.to_string(), "-l", user.trim()]);
    ssh.arg("-I").arg(module()).args(["127.0.0.1", "echo", "logged", "in"]);
    let told = String::from_utf8_lossy(&done(&mut ssh)).into_owned();
    assert_eq!(told.trim(), "logged in", "{}", server.tail());
    assert_eq!(fixture.audit("SignDigest", "ec").len(), before + 1);
}

/// Creates a command of the JDK that the repository's scripts find.
fn of_java(fixture: &Fixture, name: &str) -> Command {
    let script = format!(". {}/sdk/java/jdk.sh && printf %s \"$JAVA_HOME\"", root().display());
    let home = String::from_utf8(done(Command::new("sh").args(["-c", &script]))).unwrap();
    let mut command = Command::new(PathBuf::from(home).join("bin").join(name));
    command.current_dir(fixture.path("")).env("SEALWAY_PKCS11_CONF", fixture.path("pkcs11.toml"));
    preload(&mut command);
    command
}

#[test]
fn java_lists_keys_and_signs_a_jar() {
    let fixture = Fixture::new(&[EC]);
    certified(&fixture);
    let text = format!("name = broker\nlibrary = {}\nslotListIndex = 0\n", module().display());
    std::fs::write(fixture.path("java.cfg"), text).unwrap();
    let store = ["-keystore", "NONE", "-storetype", "PKCS11", "-storepass", "unused"];
    let provider = ["-providerClass", "sun.security.pkcs11.SunPKCS11", "-providerArg", "java.cfg"];
    let mut list = of_java(&fixture, "keytool");
    let told = String::from_utf8_lossy(&done(list.arg("-list").args(store).args(provider))).into_owned();
    assert!(told.contains("ec, PrivateKeyEntry"), "{told}");

    std::fs::write(fixture.path("content.txt"), "content").unwrap();
    done(of_java(&fixture, "jar").args(["--create", "--file", "signed.jar", "content.txt"]));
    let before = fixture.audit("SignData", "ec").len() + fixture.audit("SignDigest", "ec").len();
    let mut sign = of_java(&fixture, "jarsigner");
    done(sign.args(store).args(provider).args(["-sigalg", "SHA256withECDSA", "signed.jar", "ec"]));
    let after = fixture.audit("SignData", "ec").len() + fixture.audit("SignDigest", "ec").len();
    assert_eq!(after, before + 1);
    let told =
        String::from_utf8_lossy(&done(of_java(&fixture, "jarsigner").args(["-verify", "signed.jar"]))).into_owned();
    assert!(told.contains("jar verified"), "{told}");
}

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let guide = GUIDE.replace("/usr/local/lib/libsealway_pkcs11.so", &module().display().to_string());
    guide::play(&guide, BINARY, folder.path(), &[]).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("anna.pub").contains("ecdsa-sha2-nistp256 "), "{}", read("anna.pub"));
    assert!(read("anna.csr").contains("BEGIN CERTIFICATE REQUEST"));
    assert_eq!(guide::missing(GUIDE), Vec::<&str>::new());
}
