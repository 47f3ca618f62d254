//! Backups of a server: a dump of a database, and a copy of the server's files.

use std::fs;

use anyhow::Context;

use super::{Postgres, copy, give, owner};

/// Name of the folder with a copy of the files, beside them.
const COPY: &str = "copy";

impl Postgres {
    /// Returns a database as `pg_dump` writes it, given by its name or its URL.
    ///
    /// # Errors
    /// The error of `pg_dump`.
    pub fn dump(&self, database: &str) -> anyhow::Result<String> {
        self.client("pg_dump", database, &[])
    }

    /// Replaces the schema `sealway` of a database, given by its name or its URL, by that of a dump, in one transaction.
    ///
    /// # Errors
    /// The error of the server.
    pub fn restore(&self, database: &str, dump: &str) -> anyhow::Result<()> {
        let file = self.folder.path().join("restore.sql");
        fs::write(&file, format!("DROP SCHEMA IF EXISTS sealway CASCADE;\n{dump}\n"))?;
        let file = file.to_str().context("the folder of temporary files is not UTF-8")?;
        self.client("psql", database, &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-1", "-f", file]).map(drop)
    }

    /// Stops the server, copies its files, and starts it again.
    ///
    /// # Errors
    /// If it does not stop or start.
    pub fn back_up_files(&mut self) -> anyhow::Result<()> {
        self.stop()?;
        copy(&self.folder.path().join("data"), &self.folder.path().join(COPY))?;
        self.start_again()
    }

    /// Kills the server, puts the copy of [`Postgres::back_up_files`] in the place of its files, and starts it again.
    ///
    /// # Errors
    /// If there is no copy, or the server does not start.
    pub fn restore_files(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        let data = self.folder.path().join("data");
        fs::remove_dir_all(&data)?;
        fs::rename(self.folder.path().join(COPY), &data)?;
        if let Some((uid, gid)) = owner()? {
            give(&data, uid, gid)?;
        }
        self.start_again()
    }
}
