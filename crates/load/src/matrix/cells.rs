//! What the cells are.

use sealway_runtime::config::{ConfigError, Problems};

use crate::flags::{Extra, Flags, Job, MatrixFlags, TlsFlags, resolve};

/// One combination.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name, such as `https-reuse`.
    pub name: String,
    /// What is run, or why it is not.
    pub job: Result<Job, String>,
}

/// All combinations.
#[derive(Clone, Debug)]
pub struct Cells {
    /// What they are called together.
    pub label: String,
    /// In order; at least one can run.
    pub cells: Vec<Cell>,
}

/// Over http, https and mtls, each with and without reuse of connections.
///
/// # Errors
/// Everything that is wrong, a line each.
pub fn usual(matrix: &MatrixFlags, flags: &Flags) -> Result<Cells, ConfigError> {
    let or = |url: &Option<String>, default: &str| url.clone().unwrap_or_else(|| default.to_owned());
    let targets = [
        ("http", "--http-url", or(&matrix.http_url, "http://localhost:8080/")),
        ("https", "--https-url", or(&matrix.https_url, "https://localhost:8443/")),
        ("mtls", "--mtls-url", or(&matrix.mtls_url, "https://localhost:9443/")),
    ];
    let mut problems = Problems::default();
    if flags.connection.no_reuse {
        problems.add("--no-reuse", "the matrix has cells with and without");
    }
    let mut cells = Vec::new();
    for (name, url_flag, url) in &targets {
        for (reuse, word) in [(true, "reuse"), (false, "no-reuse")] {
            let mut flags = flags.clone();
            flags.connection.no_reuse = !reuse;
            let name = format!("{name}-{word}");
            flags.output.label = Some(name.clone());
            if name.starts_with("mtls") && flags.tls.cert.is_none() {
                cells.push(Cell { name, job: Err("no client certificate: give --cert".into()) });
                continue;
            }
            if name.starts_with("https") {
                (flags.tls.cert, flags.tls.key, flags.tls.password_file) = (None, None, None);
            }
            without_tls(&mut flags, url);
            let extra = Extra { url_name: Some((*url_flag).to_owned()), ..Extra::default() };
            match resolve(Some(url), &flags, extra) {
                Ok(job) => cells.push(Cell { name, job: Ok(job) }),
                // Both cells of a target say the same.
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

/// What is said of TLS for all cells holds for those that have it.
pub(super) fn without_tls(flags: &mut Flags, url: &str) {
    if url.starts_with("http://") || url.starts_with("ws://") {
        flags.tls = TlsFlags { tls_resume: flags.tls.tls_resume.clone(), ..TlsFlags::default() };
    }
}
