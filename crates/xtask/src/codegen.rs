//! `cargo xtask codegen` generates checked-in Rust from spec/*.proto. Messages and methods go into the crate proto, which has no
//! I/O; clients and brokers are generic over them. It also writes the references of the configuration ([`crate::settings`]) and
//! of errors ([`crate::errors`]), the tables that compare the SDKs ([`crate::alike`]), and those of the broker's standards
//! ([`crate::standards`]), the pages of the evidence ([`crate::evidence`]), and the exemptions from review ([`crate::vet`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use prost_types::field_descriptor_proto::Type;
use prost_types::{FieldDescriptorProto, FileDescriptorSet};

use crate::{alike, errors, evidence, settings, shell, standards, vet};

/// A wire: its file in spec/, its package, and the name of its modules.
struct Wire {
    proto: &'static str,
    package: &'static str,
    module: &'static str,
}

const WIRES: &[Wire] = &[
    Wire { proto: "broker-w0.proto", package: "protobuf", module: "w0" },
    Wire { proto: "broker-open.proto", package: "CryptoBroker", module: "open" },
    Wire { proto: "broker.proto", package: "sealway.broker.v1", module: "v1" },
    Wire { proto: "broker-health.proto", package: "grpc.health.v1", module: "health" },
];

const MESSAGES: &str = "crates/proto/src/broker";

/// Strings that are secrets or inputs. A field of bytes always counts as one.
const SECRET_STRINGS: &[&str] = &["caPrivateKey"];

/// Writes the files; with `check`, compares them instead.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let scratch = shell::target_dir().join("codegen");
    let mut stale = Vec::new();
    for (path, text) in generate(&scratch)?
        .into_iter()
        .chain(settings::generate()?)
        .chain(errors::generate()?)
        .chain(evidence::generate()?)
        .chain([alike::generate()?, standards::generate()?, vet::generate()?])
    {
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

/// Returns every generated file by its path from the root.
fn generate(scratch: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for wire in WIRES {
        let set = protox::compile([wire.proto], [shell::root().join("spec")])
            .with_context(|| format!("spec/{} is wrong", wire.proto))?;
        let messages = messages(wire, &set, scratch)?;
        files.insert(format!("{MESSAGES}/{}.rs", wire.module), messages);
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
    redacted.push_str(&methods(set));
    let folder = fresh(scratch)?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        // Maps become `BTreeMap`s: a `HashMap` needs std.
        .btree_map(".")
        .skip_debug(paths)
        .emit_rerun_if_changed(false)
        .out_dir(&folder)
        .compile_fds(set.clone())?;
    finish(wire, &folder, &redacted)
}

/// Generates a module for each service, with a constant for each method.
fn methods(set: &FileDescriptorSet) -> String {
    let mut modules = String::new();
    for (file, service) in set.file.iter().flat_map(|file| file.service.iter().map(move |service| (file, service))) {
        let full = format!("{}.{}", file.package(), service.name());
        let _ = write!(modules, "\n/// Methods of the service `{full}`.\npub mod {} {{\n", snake(service.name()));
        modules.push_str("use super::super::Method;\n");
        for method in &service.method {
            let [request, answer] = [method.input_type(), method.output_type()]
                .map(|name| format!("super::{}", name.rsplit('.').next().unwrap_or_default()));
            let name = snake(method.name()).to_uppercase();
            let path = format!("/{full}/{}", method.name());
            let _ = writeln!(modules, "pub const {name}: Method<{request}, {answer}> = Method::new(\"{path}\");");
        }
        modules.push_str("}\n");
    }
    modules
}

fn fresh(scratch: &Path) -> anyhow::Result<PathBuf> {
    if scratch.exists() {
        std::fs::remove_dir_all(scratch)?;
    }
    std::fs::create_dir_all(scratch)?;
    Ok(scratch.to_owned())
}

/// Returns the generated code of the wire's package with `more` appended, formatted with the style of the repository.
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

/// Returns the messages whose `Debug` must hide their contents: their paths in the proto, and the names of the Rust types that
/// get a `Debug` of their own, which are the message and each of its oneofs.
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
        // protoc adds a oneof named with an underscore for each optional field; Rust has no type for it.
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
    fn the_generated_code_matches_the_specification() {
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
