//! `sealway certs`, judged by OpenSSL.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::BINARY;
use crate::command_line::text;

/// A folder that `sealway certs` created.
struct Ground {
    root: tempfile::TempDir,
}

impl Ground {
    fn new(more: &[&str]) -> Self {
        let ground = Ground { root: tempfile::tempdir().unwrap() };
        let mut arguments = vec![ground.path()];
        arguments.extend(more.iter().map(|text| (*text).to_owned()));
        ground.certs(&arguments);
        ground
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("a folder/certs")
    }

    fn path(&self) -> String {
        self.folder().to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str) -> String {
        self.folder().join(name).to_str().unwrap().to_owned()
    }

    fn certs<S: AsRef<str>>(&self, arguments: &[S]) -> String {
        let done = sealway(arguments);
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    }

    fn refused<S: AsRef<str>>(&self, arguments: &[S]) -> String {
        let before = self.contents();
        let done = sealway(arguments);
        assert!(!done.status.success(), "{}", text(&done.stdout));
        assert_eq!(self.contents(), before, "a refusal changed something");
        text(&done.stderr)
    }

    fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap());
        entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
    }
}

fn sealway<S: AsRef<str>>(arguments: &[S]) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("certs").args(arguments.iter().map(AsRef::as_ref)).env_clear().stdin(Stdio::null());
    command.output().unwrap()
}

/// Runs an openssl command. Returns its success and its output.
fn asked(arguments: &[&str]) -> (bool, String) {
    let done = Command::new("openssl").args(arguments).stdin(Stdio::null()).output();
    let done = done.expect("cannot run openssl; install the package openssl");
    (done.status.success(), text(&done.stdout) + &text(&done.stderr))
}

fn openssl(arguments: &[&str]) -> String {
    let (is_content, said) = asked(arguments);
    assert!(is_content, "openssl {}: {said}", arguments.join(" "));
    said
}

#[test]
fn openssl_accepts_the_certificates_for_authority_server_and_client() {
    let ground = Ground::new(&["--name", "gw.plant.example", "--name", "192.0.2.7", "--days", "90"]);
    let (ca, server, client) =
        (ground.file("ca.cert.pem"), ground.file("server.cert.pem"), ground.file("client.cert.pem"));
    let strict = ["verify", "-x509_strict", "-CAfile", &ca];
    for (purpose, cert) in [("sslserver", &server), ("sslclient", &client)] {
        openssl(&[&strict[..], &["-purpose", purpose, cert]].concat());
    }
    for (purpose, cert) in [("sslclient", &server), ("sslserver", &client)] {
        assert!(!asked(&[&strict[..], &["-purpose", purpose, cert]].concat()).0, "{cert} is good for {purpose}");
    }
    for name in [
        ["-verify_hostname", "localhost"],
        ["-verify_hostname", "gw.plant.example"],
        ["-verify_ip", "127.0.0.1"],
        ["-verify_ip", "::1"],
        ["-verify_ip", "192.0.2.7"],
    ] {
        openssl(&[&strict[..], &name, &[&server]].concat());
    }
    let authority = openssl(&["x509", "-in", &ca, "-noout", "-text"]);
    for part in
        ["CA:TRUE", "Certificate Sign, CRL Sign", "Basic Constraints: critical", "prime256v1", "ecdsa-with-SHA256"]
    {
        assert!(authority.contains(part), "{part}: {authority}");
    }
    let days =
        |cert: &str, days: u64| asked(&["x509", "-in", cert, "-noout", "-checkend", &(days * 86_400).to_string()]).0;
    assert!(days(&server, 89) && !days(&server, 90) && days(&ca, 3649) && !days(&ca, 3650));
}

#[test]
fn the_folder_has_the_files_of_the_script_and_keys_are_for_their_owner_alone() {
    let ground = Ground::new(&[]);
    let names: Vec<String> = ground.contents().into_keys().collect();
    let expected = "ca.cert.pem ca.cert.srl ca.crl.pem ca.key.pem client.cert.pem client.key.pem client.pfx mtls.env server.cert.pem server.key.pem server.pfx";
    assert_eq!(names.join(" "), expected);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&ground.folder()), 0o700);
    for name in &names {
        let is_secret = name.contains("key") || name.ends_with("pfx") || name == "mtls.env";
        assert_eq!(mode(&ground.folder().join(name)), if is_secret { 0o600 } else { 0o644 }, "{name}");
    }
    // OpenSSL continues after the serial number.
    openssl(&[
        "req",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=x",
        "-keyout",
        &ground.file("x.key"),
        "-out",
        &ground.file("x.csr"),
    ]);
    openssl(&[
        "x509",
        "-req",
        "-in",
        &ground.file("x.csr"),
        "-CA",
        &ground.file("ca.cert.pem"),
        "-CAkey",
        &ground.file("ca.key.pem"),
        "-CAserial",
        &ground.file("ca.cert.srl"),
        "-out",
        &ground.file("x.pem"),
    ]);
    openssl(&["verify", "-CAfile", &ground.file("ca.cert.pem"), &ground.file("x.pem")]);
}

#[test]
fn pkcs12_files_open_with_their_password_and_hold_the_authority() {
    let ground = Ground { root: tempfile::tempdir().unwrap() };
    let file = ground.root.path().join("password");
    std::fs::write(&file, "pa$$ \"wörd\"\n").unwrap();
    ground.certs(&[ground.path(), "--pfx-password-file".into(), file.to_str().unwrap().to_owned()]);
    for name in ["server", "client"] {
        let pfx = ground.file(&format!("{name}.pfx"));
        let given = format!("file:{}", file.to_str().unwrap());
        let said = openssl(&["pkcs12", "-in", &pfx, "-passin", &given, "-nodes", "-info"]);
        for part in
            ["PBES2, PBKDF2, AES-256-CBC", "hmacWithSHA256", "MAC: sha256", "BEGIN PRIVATE KEY", "CN = Sealway CA"]
        {
            assert!(said.contains(part), "{name} {part}: {said}");
        }
        assert_eq!(said.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(!asked(&["pkcs12", "-in", &pfx, "-passin", "pass:changeit", "-nodes"]).0);
    }
    // The settings quote the password so that a shell reads it unchanged.
    let script = ". \"$1\" && printf '%s' \"$CLIENT_PFX_PASSWORD|$LITEGATEWAY_Proxy__UpstreamUrl|$LITEGATEWAY_Proxy__SleepDurationMs|$CLIENT_PFX\"";
    let done = Command::new("sh").args(["-c", script, "sh", &ground.file("mtls.env")]).output().unwrap();
    assert_eq!(text(&done.stdout), format!("pa$$ \"wörd\"||5000|{}", ground.file("client.pfx")));
}

#[test]
fn the_password_may_come_from_the_variable_of_the_script() {
    let ground = Ground { root: tempfile::tempdir().unwrap() };
    let mut command = Command::new(BINARY);
    command.args(["certs", &ground.path()]).env_clear().env("MTLS_PFX_PASSWORD", "of the variable");
    assert!(command.output().unwrap().status.success());
    openssl(&["pkcs12", "-in", &ground.file("server.pfx"), "-passin", "pass:of the variable", "-nodes"]);
    let other = Ground::new(&[]);
    openssl(&["pkcs12", "-in", &other.file("server.pfx"), "-passin", "pass:changeit", "-nodes"]);
}

#[test]
fn existing_files_are_replaced_only_with_force() {
    let ground = Ground::new(&[]);
    let said = ground.refused(&[ground.path()]);
    assert!(said.contains("--force") && said.contains("ca.key.pem"), "{said}");
    for name in ground.contents().keys().filter(|name| !name.contains("client.key")) {
        std::fs::remove_file(ground.folder().join(name)).unwrap();
    }
    let said = ground.refused(&[ground.path()]);
    assert!(said.contains("client.key.pem"), "one key is enough: {said}");
    ground.certs(&[ground.path(), "--force".into()]);
    openssl(&["verify", "-CAfile", &ground.file("ca.cert.pem"), &ground.file("client.cert.pem")]);
}

#[test]
fn errors_are_reported_before_anything_is_written() {
    let ground = Ground { root: tempfile::tempdir().unwrap() };
    for (more, part) in [
        (["--name", "a b"], "neither a DNS name"),
        (["--days", "367"], "367"),
        (["--days", "0"], "0"),
        (["--client-name", ""], "1 to 64"),
    ] {
        let done = sealway(&[&ground.path(), more[0], more[1]]);
        assert!(!done.status.success() && text(&done.stderr).contains(part), "{part}: {}", text(&done.stderr));
        assert!(!ground.folder().exists());
    }
}

#[test]
fn rotation_keeps_names_and_password_and_the_authority() {
    let ground = Ground::new(&["--name", "gw.plant.example", "--client-name", "instrument-7"]);
    let before = ground.contents();
    ground.certs(&["rotate", &ground.path(), "--leaf", "server"]);
    let after = ground.contents();
    let changed: Vec<&str> =
        after.iter().filter(|(name, content)| before[*name] != **content).map(|(name, _)| name.as_str()).collect();
    assert_eq!(changed, ["ca.cert.srl", "ca.crl.pem", "server.cert.pem", "server.key.pem", "server.pfx"]);
    ground.certs(&["rotate", &ground.path()]);
    let (ca, server) = (ground.file("ca.cert.pem"), ground.file("server.cert.pem"));
    openssl(&[
        "verify",
        "-x509_strict",
        "-CAfile",
        &ca,
        "-verify_hostname",
        "gw.plant.example",
        "-purpose",
        "sslserver",
        &server,
    ]);
    openssl(&["verify", "-CAfile", &ca, "-purpose", "sslclient", &ground.file("client.cert.pem")]);
    assert!(openssl(&["x509", "-in", &ground.file("client.cert.pem"), "-noout", "-subject"]).contains("instrument-7"));
    let of = |arguments: &[&str]| openssl(arguments);
    assert_eq!(
        of(&["pkey", "-in", &ground.file("server.key.pem"), "-pubout"]),
        of(&["x509", "-in", &server, "-noout", "-pubkey"])
    );
    openssl(&["pkcs12", "-in", &ground.file("client.pfx"), "-passin", "pass:changeit", "-nodes"]);
    assert!(std::fs::metadata(ground.file("server.key.pem")).unwrap().permissions().mode() & 0o77 == 0);
}

#[test]
fn rotation_that_cannot_be_done_changes_nothing() {
    let ground = Ground::new(&[]);
    let other = Ground::new(&[]);
    std::fs::write(ground.file("mtls.env"), "").unwrap();
    let said = ground.refused(&["rotate", &ground.path()]);
    assert!(said.contains("--pfx-password-file"), "{said}");
    let file = ground.root.path().join("password");
    std::fs::write(&file, "wrong").unwrap();
    ground.refused(&["rotate", &ground.path(), "--pfx-password-file", file.to_str().unwrap()]);
    std::fs::write(&file, "changeit").unwrap();
    ground.certs(&["rotate", &ground.path(), "--pfx-password-file", file.to_str().unwrap()]);

    std::fs::copy(other.file("server.cert.pem"), ground.file("server.cert.pem")).unwrap();
    let said = ground.refused(&["rotate", &ground.path(), "--pfx-password-file", file.to_str().unwrap()]);
    assert!(said.contains("not issued by the authority"), "{said}");
    std::fs::copy(other.file("ca.key.pem"), ground.file("ca.key.pem")).unwrap();
    let said = ground.refused(&["rotate", &ground.path()]);
    assert!(said.contains("another's"), "{said}");
    let said = ground.refused(&["rotate", &ground.path(), "--finish"]);
    assert!(said.contains("another's"), "{said}");
}

#[test]
fn a_new_authority_is_believed_by_those_who_know_only_the_old_one() {
    let ground = Ground::new(&[]);
    let old = ground.root.path().join("old.pem");
    std::fs::copy(ground.file("ca.cert.pem"), &old).unwrap();
    let old = old.to_str().unwrap();
    let client_before = ground.root.path().join("client.pem");
    std::fs::copy(ground.file("client.cert.pem"), &client_before).unwrap();
    let said = ground.refused(&["rotate", &ground.path(), "--finish"]);
    assert!(said.contains("no earlier authority"), "{said}");

    ground.certs(&["rotate", &ground.path(), "--ca"]);
    let (ca, crl) = (ground.file("ca.cert.pem"), ground.file("ca.crl.pem"));
    for (name, purpose) in [("server", "sslserver"), ("client", "sslclient")] {
        let cert = ground.file(&format!("{name}.cert.pem"));
        openssl(&["verify", "-x509_strict", "-purpose", purpose, "-CAfile", old, "-untrusted", &cert, &cert]);
        openssl(&["verify", "-purpose", purpose, "-CAfile", &ca, "-CRLfile", &crl, "-crl_check", &cert]);
        let said =
            openssl(&["pkcs12", "-in", &ground.file(&format!("{name}.pfx")), "-passin", "pass:changeit", "-nodes"]);
        assert_eq!(said.matches("BEGIN CERTIFICATE").count(), 3);
    }
    openssl(&["verify", "-CAfile", &ca, client_before.to_str().unwrap()]);
    let said = ground.refused(&["rotate", &ground.path(), "--ca"]);
    assert!(said.contains("--finish"), "{said}");
    // The previous authority can still revoke the certificates that it issued.
    ground.certs(&["revoke", &ground.path(), client_before.to_str().unwrap()]);
    assert!(!asked(&["verify", "-CAfile", &ca, "-CRLfile", &crl, "-crl_check", client_before.to_str().unwrap()]).0);
    ground.certs(&["rotate", &ground.path()]);

    ground.certs(&["rotate", &ground.path(), "--finish"]);
    let names: Vec<String> = ground.contents().into_keys().collect();
    assert!(!names.iter().any(|name| name.contains("before") || name.contains("cross")), "{names:?}");
    let cert = ground.file("server.cert.pem");
    openssl(&["verify", "-x509_strict", "-CAfile", &ca, "-CRLfile", &crl, "-crl_check", &cert]);
    assert!(!asked(&["verify", "-CAfile", old, "-untrusted", &cert, &cert]).0);
    assert_eq!(openssl(&["crl", "-in", &crl, "-noout", "-text"]).matches("Version 2").count(), 1);
    let said = openssl(&["pkcs12", "-in", &ground.file("server.pfx"), "-passin", "pass:changeit", "-nodes"]);
    assert_eq!(said.matches("BEGIN CERTIFICATE").count(), 2);
    ground.certs(&["rotate", &ground.path(), "--ca"]);
}

#[test]
fn revocation_adds_and_forgets_nothing() {
    let ground = Ground::new(&[]);
    let (ca, crl, client, server) = (
        ground.file("ca.cert.pem"),
        ground.file("ca.crl.pem"),
        ground.file("client.cert.pem"),
        ground.file("server.cert.pem"),
    );
    let check = |cert: &str| asked(&["verify", "-CAfile", &ca, "-CRLfile", &crl, "-crl_check", cert]);
    let number = || openssl(&["crl", "-in", &crl, "-noout", "-crlnumber"]).trim().to_owned();
    assert!(check(&client).0 && check(&server).0);
    assert_eq!(number(), "crlNumber=0x01");
    ground.certs(&["revoke", &ground.path(), &client]);
    assert_eq!(number(), "crlNumber=0x02");
    assert!(check(&client).1.contains("revoked") && check(&server).0);
    let serial = openssl(&["x509", "-in", &server, "-noout", "-serial"]);
    let serial = serial.trim().strip_prefix("serial=").unwrap();
    ground.certs(&["revoke", &ground.path(), &serial.to_lowercase()]);
    assert!(check(&client).1.contains("revoked") && check(&server).1.contains("revoked"));
    let said = ground.certs(&["revoke", &ground.path(), &client]);
    assert!(said.contains("before"), "{said}");
    assert_eq!(openssl(&["crl", "-in", &crl, "-noout", "-text"]).matches("Serial Number").count(), 2);
    assert_eq!(number(), "crlNumber=0x04");
    ground.certs(&["rotate", &ground.path()]);
    assert!(check(&client).0, "the new one is not revoked");
    assert_eq!(openssl(&["crl", "-in", &crl, "-noout", "-text"]).matches("Serial Number").count(), 2);

    let other = Ground::new(&[]);
    for (what, part) in [
        (other.file("client.cert.pem"), "not issued by"),
        (ca.clone(), "is an authority"),
        ("xyz".into(), "neither a file"),
        (ground.file("client.key.pem"), "no certificate"),
    ] {
        let said = ground.refused(&["revoke", &ground.path(), &what]);
        assert!(said.contains(part), "{part}: {said}");
    }
    std::fs::write(&crl, "-----BEGIN X509 CRL-----\nbroken").unwrap();
    ground.refused(&["revoke", &ground.path(), &client]);
}

#[test]
fn show_lists_names_and_days() {
    let ground = Ground::new(&["--name", "gw.plant.example", "--days", "90"]);
    let said = ground.certs(&["show", &ground.path()]);
    let line =
        |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {said}"));
    assert!(line("server.cert.pem").contains("gw.plant.example") && line("server.cert.pem").ends_with(" 89"));
    assert!(line("ca.cert.pem").ends_with(" 3649"));
    assert!(line("client.cert.pem").contains("CN=sealway-client"));
    assert!(line("ca.crl.pem").contains("0 revoked"));
}

#[test]
fn no_output_holds_a_key_or_a_password() {
    let ground = Ground::new(&[]);
    let mut said = ground.certs(&["rotate", &ground.path(), "--ca"]);
    said += &ground.certs(&["rotate", &ground.path(), "--finish"]);
    said += &ground.certs(&["show", &ground.path()]);
    said += &ground.refused(&[ground.path()]);
    let key = String::from_utf8(ground.contents().remove("ca.key.pem").unwrap()).unwrap();
    assert!(!said.contains("changeit") && !said.contains(key.lines().nth(1).unwrap()));
}
