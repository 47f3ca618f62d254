//! Checks every certificate of the matrix, and some more, with `openssl verify`, zlint and pkilint. All findings must
//! be listed in tests/data/accepted-findings.txt, by name and profile.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::ground::{CAS, NOW, RequestParts, data, policy, read};
use crate::matrix;

/// Path of a tool that scripts/setup-tests.sh installs in the repository's `.venv`.
pub(crate) fn tool(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin").join(name);
    assert!(path.exists(), "{} is missing: run scripts/setup-tests.sh", path.display());
    path
}

pub(crate) fn output(command: &mut Command, input: &str) -> String {
    let program = command.get_program().to_owned();
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|err| panic!("{program:?}: {err}: run scripts/setup-tests.sh"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program:?}: {said}\n{wrong}");
    said.into_owned()
}

/// Checks signature, dates and chain of certificates with `openssl verify`.
pub(crate) fn verify_with_openssl(ca: &str, certificates: &[String]) {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (index, pem) in certificates.iter().enumerate() {
        files.push(folder.path().join(format!("{index}.pem")));
        std::fs::write(&files[index], pem).unwrap();
    }
    let mut command = Command::new("openssl");
    command.args(["verify", "-x509_strict", "-attime", &NOW.to_string(), "-CAfile"]);
    command.arg(data(&format!("ca/{ca}.pem"))).args(&files);
    let said = output(&mut command, "");
    assert_eq!(said.lines().filter(|line| line.ends_with(": OK")).count(), files.len(), "{said}");
}

struct Certificate {
    profile: &'static str,
    ca: &'static str,
    name: String,
    pem: String,
}

/// Certificates of the matrix, and some with everything that a request may ask for.
fn certificates() -> Vec<Certificate> {
    let mut certificates: Vec<Certificate> = matrix::walk()
        .into_iter()
        .map(|cell| Certificate {
            profile: cell.profile,
            ca: cell.ca,
            name: format!("{} {} {}", cell.profile, cell.ca, cell.request),
            pem: cell.pem,
        })
        .collect();
    let mut asked = RequestParts::new("san", "p384");
    asked.subject = Some("C=DE,ST=Berlin,L=Berlin,O=Zürich & Söhne,OU=x,CN=www.example.com");
    asked.crl_points = ["list1", "list2"].map(|name| format!("http://example.com/crls/{name}.crl")).to_vec();
    let mut copying = policy("Default");
    copying.copies_san = true;
    let mut authority = policy("Default");
    (authority.is_ca, authority.path_length) = (true, Some(0));
    // Bits of keyCertSign and cRLSign.
    authority.key_usage.0 = 0b110_0000;
    authority.purposes.clear();
    #[cfg(not(feature = "fips"))]
    for (ca, csr, pem) in crate::ml_dsa::certificates() {
        let (profile, name) = ("ML-DSA", format!("ML-DSA {ca} {csr}"));
        certificates.push(Certificate { profile, ca: "of its own", name, pem });
    }
    for (name, policy) in [("everything", copying), ("authority", authority)] {
        let pem = asked.issue(&policy).unwrap().pem();
        certificates.push(Certificate { profile: "Default", ca: "p384", name: name.to_owned(), pem });
    }
    certificates
}

#[test]
fn openssl_verifies_every_issued_certificate() {
    let certificates = certificates();
    for ca in CAS {
        let pems: Vec<String> =
            certificates.iter().filter(|certificate| certificate.ca == ca).map(|it| it.pem.clone()).collect();
        if !pems.is_empty() {
            verify_with_openssl(ca, &pems);
        }
    }
}

/// Accepted findings: linter, finding and profile, each with a reason in the file.
fn accepted() -> BTreeSet<(String, String, String)> {
    let text = String::from_utf8(read("accepted-findings.txt")).unwrap();
    let mut accepted = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut fields = line.splitn(4, ' ').map(str::to_owned);
        let mut next =
            || fields.next().filter(|field| !field.is_empty()).unwrap_or_else(|| panic!("{line}: too short"));
        let entry = (next(), next(), next());
        next();
        assert!(accepted.insert(entry), "{line}: twice");
    }
    accepted
}

#[test]
fn zlint_and_pkilint_report_exactly_the_accepted_findings() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = certificates();
    let mut paths = Vec::new();
    for (index, certificate) in certificates.iter().enumerate() {
        paths.push(folder.path().join(format!("{index}.pem")));
        std::fs::write(&paths[index], &certificate.pem).unwrap();
    }
    let mut found: BTreeMap<(String, String, String), String> = BTreeMap::new();
    let mut note = |judge: &str, finding: &str, index: usize| {
        let certificate = &certificates[index];
        let entry = (judge.to_owned(), finding.to_owned(), certificate.profile.to_owned());
        found.entry(entry).or_insert_with(|| certificate.name.clone());
    };
    let said = output(Command::new(tool("zlint")).arg("-format=pem").args(&paths), "");
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(lines.len(), paths.len(), "zlint: {said}");
    for (index, line) in lines.into_iter().enumerate() {
        let verdicts: BTreeMap<String, serde_json::Value> = serde_json::from_str(line).expect("JSON of zlint");
        assert!(verdicts.len() > 300, "zlint looked at {} things", verdicts.len());
        for (finding, verdict) in &verdicts {
            if !matches!(verdict["result"].as_str(), Some("pass" | "NA" | "NE")) {
                note("zlint", finding, index);
            }
        }
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint.py");
    let list: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let said = output(Command::new(tool("python")).arg(script), &list.join("\n"));
    assert_eq!(said.lines().count(), paths.len(), "pkilint: {said}");
    for (index, line) in said.lines().enumerate() {
        let verdict: serde_json::Value = serde_json::from_str(line).expect("JSON of lint.py");
        for finding in verdict["findings"].as_array().expect("findings") {
            note("pkilint", finding.as_str().expect("a name"), index);
        }
    }
    let accepted = accepted();
    let fresh: Vec<_> = found.iter().filter(|(entry, _)| !accepted.contains(*entry)).collect();
    assert!(fresh.is_empty(), "not in accepted-findings.txt: {fresh:#?}");
    let gone: Vec<_> = accepted.iter().filter(|entry| !found.contains_key(*entry)).collect();
    assert!(gone.is_empty(), "in accepted-findings.txt, but not found any more: {gone:#?}");
}
