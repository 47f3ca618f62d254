//! `cargo xtask codegen`: Rust from spec/*.proto, checked in. Messages go into proto, without I/O; what serves goes into
//! broker, what calls into client. And the reference of the configuration ([`crate::settings`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use prost_types::field_descriptor_proto::Type;
use prost_types::{FieldDescriptorProto, FileDescriptorSet};

use crate::{settings, shell};

/// A wire: its file in spec/, its package, and the name of its modules.
struct Wire {
    proto: &'static str,
    package: &'static str,
    module: &'static str,
    /// Whether client calls it.
    is_called: bool,
}

const WIRES: &[Wire] = &[
    Wire { proto: "broker-w0.proto", package: "protobuf", module: "w0", is_called: false },
    Wire { proto: "broker-open.proto", package: "CryptoBroker", module: "open", is_called: true },
    Wire { proto: "broker.proto", package: "sealway.broker.v1", module: "v1", is_called: true },
    Wire { proto: "broker-health.proto", package: "grpc.health.v1", module: "health", is_called: true },
];

const MESSAGES: &str = "crates/proto/src/broker";
const SERVER: &str = "crates/broker/src/wire/generated";
const CLIENT: &str = "crates/client/src/broker/generated";

/// Strings that are secrets or inputs. A field of bytes always counts as one.
const SECRET_STRINGS: &[&str] = &["caPrivateKey"];

/// Writes the files, or with `check` compares.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let scratch = shell::target_dir().join("codegen");
    let mut stale = Vec::new();
    for (path, text) in generate(&scratch)?.into_iter().chain(settings::generate()?) {
        let file = shell::root().join(&path);
        if std::fs::read_to_string(&file).is_ok_and(|there| there == text) {
            continue;
        }
        if check {
            stale.push(path);
        } else {
            std::fs::create_dir_all(file.parent().context("a file without a folder")?)?;
            std::fs::write(&file, text).with_context(|| format!("cannot write {path}"))?;
            println!("{path}");
        }
    }
    ensure!(stale.is_empty(), "{} differ from their sources: run `cargo xtask codegen`", stale.join(", "));
    Ok(())
}

/// Every generated file by its path from the root.
fn generate(scratch: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for wire in WIRES {
        let set = protox::compile([wire.proto], [shell::root().join("spec")])
            .with_context(|| format!("spec/{} is wrong", wire.proto))?;
        let messages = messages(wire, &set, scratch)?;
        files.insert(format!("{MESSAGES}/{}.rs", wire.module), messages);
        files.insert(format!("{SERVER}/{}.rs", wire.module), stubs(wire, &set, scratch, true)?);
        if wire.is_called {
            files.insert(format!("{CLIENT}/{}.rs", wire.module), stubs(wire, &set, scratch, false)?);
        }
    }
    Ok(files)
}

fn messages(wire: &Wire, set: &FileDescriptorSet, scratch: &Path) -> anyhow::Result<String> {
    let (paths, types) = secrets(wire, set);
    let mut redacted = String::new();
    for rust in &types {
        let name = rust.rsplit("::").next().unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(
            redacted,
            "\nimpl ::core::fmt::Debug for {rust} {{\n    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result \
             {{\n        f.debug_struct(\"{name}\").finish_non_exhaustive()\n    }}\n}}\n"
        );
    }
    let folder = fresh(scratch)?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        // The other kind needs std.
        .btree_map(".")
        .skip_debug(paths)
        .emit_rerun_if_changed(false)
        .out_dir(&folder)
        .compile_fds(set.clone())?;
    finish(wire, &folder, &redacted)
}

fn stubs(wire: &Wire, set: &FileDescriptorSet, scratch: &Path, serves: bool) -> anyhow::Result<String> {
    let folder = fresh(scratch)?;
    // What a broker reads is a stranger's: the number of its parts is bounded too.
    let codec = if serves { "crate::wire::codec::Bounded" } else { "tonic_prost::ProstCodec" };
    tonic_prost_build::configure()
        .codec_path(codec)
        .build_client(!serves)
        .build_server(serves)
        // The client brings its own connections: a Unix socket is none of tonic's transports.
        .build_transport(false)
        .extern_path(format!(".{}", wire.package), format!("::sealway_proto::broker::{}", wire.module))
        .emit_rerun_if_changed(false)
        .out_dir(&folder)
        .compile_fds(set.clone())?;
    finish(wire, &folder, "")
}

fn fresh(scratch: &Path) -> anyhow::Result<PathBuf> {
    if scratch.exists() {
        std::fs::remove_dir_all(scratch)?;
    }
    std::fs::create_dir_all(scratch)?;
    Ok(scratch.to_owned())
}

/// What was written for the wire's package, with `more` behind it, formatted as the rest of the code is.
fn finish(wire: &Wire, folder: &Path, more: &str) -> anyhow::Result<String> {
    let mut written = std::fs::read_dir(folder)?;
    let file = written.next().with_context(|| format!("nothing was made for {}", wire.package))??.path();
    ensure!(written.next().is_none(), "{} has messages of another package", wire.proto);
    let code = std::fs::read_to_string(&file)?;
    let code = code.replace("// This file is @generated by prost-build.\n", "");
    let head = format!("// @generated from spec/{} by `cargo xtask codegen`: change it there.\n", wire.proto);
    std::fs::write(&file, format!("{head}{code}{more}"))?;
    let mut rustfmt = shell::command("rustfmt");
    shell::run(rustfmt.args(["--edition", "2024", "--config-path", "rustfmt.toml"]).arg(&file))?;
    Ok(std::fs::read_to_string(&file)?)
}

/// The messages whose `Debug` must not show what they hold, by their path in the proto; and what in Rust is to have another
/// one for that, which is a message and each of its choices.
fn secrets(wire: &Wire, set: &FileDescriptorSet) -> (Vec<String>, Vec<String>) {
    let (mut paths, mut types) = (Vec::new(), Vec::new());
    for message in set.file.iter().flat_map(|file| &file.message_type) {
        let is_secret =
            |field: &FieldDescriptorProto| field.r#type() == Type::Bytes || SECRET_STRINGS.contains(&field.name());
        if !message.field.iter().any(is_secret) {
            continue;
        }
        paths.push(format!(".{}.{}", wire.package, message.name()));
        types.push(message.name().to_owned());
        // The compiler of protos adds a choice named with an underscore for each optional field; it is none in Rust.
        let choices = message.oneof_decl.iter().map(|choice| choice.name()).filter(|name| !name.starts_with('_'));
        types.extend(choices.map(|choice| format!("{}::{}", snake(message.name()), upper(choice))));
    }
    (paths, types)
}

pub(crate) fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn upper(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_checked_in_is_what_the_specification_says() {
        run(true).unwrap();
    }

    #[test]
    fn a_message_with_bytes_or_a_private_key_does_not_print_them() {
        let wire = &WIRES[1];
        let set = protox::compile([wire.proto], [shell::root().join("spec")]).unwrap();
        let (_, types) = secrets(wire, &set);
        for name in ["SignRequest", "KeySource", "key_source::Source", "CipherMetadata", "HashDataRequest"] {
            assert!(types.iter().any(|there| there == name), "{name} in {types:?}");
        }
        assert!(!types.iter().any(|name| name == "TraceContext"), "{types:?}");
    }
}
