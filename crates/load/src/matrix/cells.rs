//! Cells of a matrix without a file: three targets, each with and without reuse of connections.

use sealway_runtime::config::{ConfigError, Problems};
use sealway_runtime::tls::Secret;

use crate::flags::{Extra, Flags, Job, MatrixFlags, TlsFlags, parse_url, resolve};

/// Cell of a matrix: one combination of settings.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Name of the cell, such as `https-reuse`.
    pub(crate) name: String,
    /// Job of the cell, or the reason for skipping it.
    pub(crate) job: Result<Job, String>,
}

/// All cells of a matrix.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    /// Label of the matrix in reports.
    pub(crate) label: String,
    /// Cells in the order in which they run.
    pub(crate) cells: Vec<Cell>,
}

/// Names of the six cells, and the versions of HTTP that they use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellNames {
    /// Names such as `mtls-reuse`; the version of HTTP comes from the flags.
    Ours,
    /// Names such as `https-mtls-reuse`, as in Lite Gateway's load client; HTTP/2 over TLS with reuse, otherwise HTTP/1.1.
    Old,
}

/// Makes the six cells: http, https and mtls, each with and without reuse of connections.
///
/// # Errors
/// All problems, a line each.
pub(crate) fn usual(matrix: &MatrixFlags, flags: &Flags) -> Result<Cells, ConfigError> {
    six(matrix, flags, CellNames::Ours, None)
}

/// Makes the six cells like [`usual`], with these names and a password of the client's certificate.
///
/// # Errors
/// As [`usual`].
pub(crate) fn six(
    matrix: &MatrixFlags,
    flags: &Flags,
    naming: CellNames,
    password: Option<&Secret>,
) -> Result<Cells, ConfigError> {
    let is_old = naming == CellNames::Old;
    let or = |url: &Option<String>, default: &str| url.clone().unwrap_or_else(|| default.to_owned());
    let targets = [
        ("http", "http-url", or(&matrix.http_url, "http://localhost:8080/")),
        ("https", "https-url", or(&matrix.https_url, "https://localhost:8443/")),
        ("mtls", "mtls-url", or(&matrix.mtls_url, "https://localhost:9443/")),
    ];
    let mut problems = Problems::default();
    if flags.connection.no_reuse {
        problems.add("--no-reuse", "the matrix has cells with and without");
    }
    let mut cells = Vec::new();
    for (target, flag, url) in &targets {
        let word = if is_old && *target == "mtls" { "https-mtls" } else { target };
        let extra = || Extra {
            url_name: Some(if is_old { format!("--matrix-{flag}") } else { format!("--{flag}") }),
            password: password.cloned().filter(|_| *target == "mtls"),
        };
        for reuse in [true, false] {
            let name = format!("{word}-{}", if reuse { "reuse" } else { "no-reuse" });
            let mut flags = flags.clone();
            flags.connection.no_reuse = !reuse;
            flags.output.label = Some(name.clone());
            if is_old {
                let version = if reuse && *target != "http" { "2" } else { "1.1" };
                flags.connection.http_version = Some(version.to_owned());
            }
            if *target == "mtls" && flags.tls.cert.is_none() {
                if reuse && let Some(url_name) = extra().url_name {
                    parse_url(&mut problems, &url_name, url);
                }
                let why =
                    if is_old { "missing client certificate" } else { "no client certificate: add --cert and --key" };
                cells.push(Cell { name, job: Err(why.into()) });
                continue;
            }
            if *target == "https" {
                (flags.tls.cert, flags.tls.key, flags.tls.password_file) = (None, None, None);
            }
            without_tls(&mut flags, url);
            match resolve(Some(url), &flags, extra()) {
                Ok(job) => cells.push(Cell { name, job: Ok(job) }),
                // Both cells of a target have the same problems.
                Err(err) if reuse => err.0.lines().for_each(|line| add(&mut problems, &name, line)),
                Err(_) => {}
            }
        }
    }
    problems.into_result()?;
    Ok(Cells { label: flags.output.label.clone().unwrap_or_else(|| "matrix".into()), cells })
}

fn add(problems: &mut Problems, name: &str, line: &str) {
    match line.split_once(": ") {
        Some((flag, message)) => problems.add(flag, format_args!("{message} (cell {name})")),
        None => problems.add(name, line),
    }
}

/// Removes the TLS flags that hold for all cells if this URL is without TLS; `--tls-resume` stays.
pub(super) fn without_tls(flags: &mut Flags, url: &str) {
    if url.starts_with("http://") || url.starts_with("ws://") {
        flags.tls = TlsFlags { tls_resume: flags.tls.tls_resume.clone(), ..TlsFlags::default() };
    }
}
