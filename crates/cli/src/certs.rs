//! `sealway certs`: certificates in a folder.

use std::path::{Path, PathBuf};

use anyhow::Context;
use sealway_runtime::certs::{self, Leaf, Making};
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::config::read_secret;
use sealway_runtime::tls::{CertificateStatus, Secret};

use crate::args::{Certs, CertsAction, LeafChoice};
use sealway_runtime::output::out;

/// Environment variable with the password, as in the script that this command replaces, and the default password.
const PASSWORD_VARIABLE: &str = "MTLS_PFX_PASSWORD";
const PASSWORD_DEFAULT: &str = "changeit";

pub(crate) fn run(args: Certs) -> anyhow::Result<()> {
    let now_ms = SystemClock.now_ms();
    match args.action {
        None => make(args, now_ms),
        Some(CertsAction::Rotate { folder, leaf, ca, finish, pfx_password_file }) => {
            let password = password(pfx_password_file.as_deref())?;
            if finish {
                certs::finish_authority(&folder, password.as_ref(), now_ms)?;
                writeln!(out(), "{} is the one authority from now on", folder.join(certs::CA_CERT).display())?;
                return Ok(());
            }
            let renewed = if ca {
                certs::rotate_authority(&folder, password.as_ref(), now_ms)?
            } else {
                certs::rotate_leaf(&folder, leaves(leaf), password.as_ref(), now_ms)?
            };
            print_table(&renewed, now_ms)?;
            if ca {
                writeln!(
                    out(),
                    "Give {} to everybody who trusts the authority.",
                    folder.join(certs::CA_CERT).display()
                )?;
                writeln!(out(), "Then: sealway certs rotate {} --finish", folder.display())?;
            }
            Ok(())
        }
        Some(CertsAction::Revoke { folder, what }) => {
            let revoked = certs::revoke(&folder, &what, now_ms)?;
            let when = if revoked.was_revoked { "was revoked before" } else { "is revoked" };
            writeln!(out(), "{} {when}: {}", revoked.serial, folder.join(certs::CA_CRL).display())?;
            Ok(())
        }
        Some(CertsAction::Show { folder }) => print_table(&certs::show(&folder)?, now_ms),
    }
}

fn make(args: Certs, now_ms: u64) -> anyhow::Result<()> {
    let folder = args.folder.context("name a folder")?;
    let given = password(args.pfx_password_file.as_deref())?;
    let password = given.unwrap_or_else(|| {
        let word = std::env::var(PASSWORD_VARIABLE).ok().filter(|word| !word.is_empty());
        Secret::from(word.unwrap_or_else(|| PASSWORD_DEFAULT.to_owned()))
    });
    let making =
        Making { names: args.names, client_name: args.client_name, days: args.days, password, force: args.force };
    for file in certs::make(&folder, &making, now_ms)? {
        writeln!(out(), "{}", file.display())?;
    }
    Ok(())
}

fn password(file: Option<&Path>) -> anyhow::Result<Option<Secret>> {
    Ok(file.map(read_secret).transpose()?.map(Secret::from))
}

fn leaves(choice: LeafChoice) -> &'static [Leaf] {
    match choice {
        LeafChoice::Server => &[Leaf::Server],
        LeafChoice::Client => &[Leaf::Client],
        LeafChoice::All => &Leaf::ALL,
    }
}

/// Prints one line for each certificate, in columns.
fn print_table(statuses: &[CertificateStatus], now_ms: u64) -> anyhow::Result<()> {
    let mut rows = vec![["FILE", "SUBJECT", "NAMES", "SERIAL", "DAYS LEFT"].map(str::to_owned)];
    for status in statuses {
        let file = PathBuf::from(&status.file);
        let names = match status.revoked {
            Some(count) => format!("{count} revoked"),
            None => status.names.join(" "),
        };
        let file = file.file_name().map(|name| name.to_string_lossy().into_owned());
        let days = status.days_left(now_ms).to_string();
        rows.push([file.unwrap_or_default(), status.subject.clone(), names, status.serial.clone(), days]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 5] = std::array::from_fn(width);
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        writeln!(out(), "{}", line.trim_end())?;
    }
    Ok(())
}
