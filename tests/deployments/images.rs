//! deploy/docker. No image is built: that needs a container engine and the bases' registries.

use std::path::Path;

use crate::{read, root, succeeds, tool};

/// Instructions of a Dockerfile, with continued lines joined.
fn instructions(text: &str) -> Vec<(String, String)> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').map(|(name, rest)| (name.to_owned(), rest.to_owned())).unwrap()).collect()
}

const FILES: [&str; 2] = ["deploy/docker/Dockerfile", "deploy/docker/broker-fips.Dockerfile"];

#[test]
fn hadolint_finds_nothing() {
    succeeds(tool("hadolint").args(["--no-color"]).args(FILES.map(|file| root().join(file))));
}

#[test]
fn the_images_run_without_root_from_named_releases() {
    let rust: toml::Table = read("Cargo.toml").parse().unwrap();
    let rust = rust["workspace"]["package"]["rust-version"].as_str().unwrap().to_owned();
    for file in FILES {
        let instructions = instructions(&read(file));
        let of = |name: &str| {
            let of_name = instructions.iter().filter(|(known, _)| known == name);
            of_name.map(|(_, rest)| rest.as_str()).collect::<Vec<_>>()
        };
        let bases = of("ARG").into_iter().filter(|argument| argument.contains(':')).collect::<Vec<_>>();
        assert_eq!(bases.len(), 2, "{file}: {bases:?}");
        assert_eq!(bases[0], format!("RUST=rust:{rust}-bookworm"), "{file}");
        assert!(bases[1].starts_with("BASE=gcr.io/distroless/") && bases[1].ends_with("-debian12:nonroot"), "{file}");
        for from in of("FROM") {
            assert!(
                from.starts_with("${") || !from.contains([':', '/']),
                "{file}: {from} cannot be pinned by an argument"
            );
        }
        assert!(of("USER").iter().all(|user| ["1000:1000", "65532:65532"].contains(user)), "{file}");
        assert_eq!(of("ADD").len(), 0, "{file}");
        assert_eq!(of("ENTRYPOINT"), [r#"["/usr/bin/sealway"]"#], "{file}");
    }
}

#[test]
fn each_role_has_a_target_with_its_features_a_command_and_a_health_check() {
    let text = read(FILES[0]);
    let cli: toml::Table = read("crates/cli/Cargo.toml").parse().unwrap();
    let features = cli["features"].as_table().unwrap();
    for (target, feature, check) in [
        ("gateway", "sessions", r#"CMD ["/usr/bin/sealway", "health"]"#),
        ("broker", "broker", r#"CMD ["/usr/bin/sealway", "broker", "health"]"#),
        ("relay", "relay", r#"CMD ["/usr/bin/sealway", "health"]"#),
        ("load", "load", "NONE"),
    ] {
        assert!(features.contains_key(feature), "{feature}");
        let stage = |name: &str| {
            let rest = text.split(&format!(" AS {name}\n")).nth(1).unwrap_or_else(|| panic!("no stage {name}"));
            rest.split("\nFROM ").next().unwrap().to_owned()
        };
        assert!(stage(&format!("build-{target}")).contains(&format!("--features {feature} ")), "{target}");
        let image = stage(target);
        assert!(image.contains(&format!("COPY --from=build-{target} /sealway /usr/bin/sealway")), "{target}");
        assert!(
            image.contains("HEALTHCHECK ") && image.contains(check) && image.contains("\nCMD ["),
            "{target}: {image}"
        );
    }
}

/// True if a .dockerignore, which excludes all and then names exceptions, lets a path in.
fn is_let_in(ignored: &str, path: &Path) -> bool {
    ignored.lines().any(|line| line.strip_prefix('!').is_some_and(|kept| path.starts_with(kept)))
}

#[test]
fn the_build_context_has_every_file_that_the_build_reads() {
    let root = root();
    for (file, members) in [(FILES[0], vec!["crates"]), (FILES[1], vec!["crates/broker", "crates/broker-cli", "fips"])]
    {
        let ignored = read(&format!("{file}.dockerignore"));
        assert!(ignored.starts_with("*\n"), "{file}");
        for (_, copied) in instructions(&read(file)).iter().filter(|(name, _)| name == "COPY") {
            if !copied.starts_with("--from") && *copied != ". ." {
                let source = copied.split(' ').next().unwrap();
                assert!(root.join(source).exists() && is_let_in(&ignored, Path::new(source)), "{file}: {source}");
            }
        }
        for part in ["Cargo.toml", "Cargo.lock", "crates/cli", "bench", "fuzz", ".cargo/config.toml"] {
            assert!(is_let_in(&ignored, Path::new(part)), "{file}: {part}");
        }
        let mut found = 0;
        for member in members {
            for (source, included) in included(&root.join(member)) {
                found += 1;
                let path = included.strip_prefix(&root).unwrap();
                assert!(is_let_in(&ignored, path), "{file}: {} includes {}", source.display(), path.display());
            }
        }
        assert!(found > 5, "{file}: {found}");
    }
}

/// Files that code outside of tests includes: the file that includes, and the file or folder that is included.
fn included(folder: &Path) -> Vec<(std::path::PathBuf, std::path::PathBuf)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let is_code = !["tests", "target", "examples", "benches"].iter().any(|name| path.ends_with(name));
            found.extend(if is_code { included(&path) } else { Vec::new() });
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for macro_name in ["include_str!(", "include_bytes!("] {
                for rest in code.split(macro_name).skip(1) {
                    let name = rest.trim_start_matches("concat!(").split('"').nth(1).unwrap_or_default();
                    let target = path.parent().unwrap().join(name);
                    if let Ok(target) = target.canonicalize() {
                        found.push((path.clone(), target));
                    }
                }
            }
        }
    }
    found
}
