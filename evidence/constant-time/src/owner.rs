//! The owner of a place that memcheck reports: a crate of Sealway, or a library.

/// A frame of a stack, as valgrind names it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) function: String,
    pub(crate) folder: String,
    pub(crate) file: String,
    pub(crate) object: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The language's own library, the C library, or glue that adds no decision: the caller is looked at.
    Runtime,
    /// A crate of Sealway: the file from the root, and the function's own name.
    Ours {
        file: String,
        function: String,
    },
    Library {
        name: String,
        function: String,
    },
}

/// Crates that forward a comparison to the language's own.
const GLUE: &[&str] = &["bytes", "secrecy", "zeroize"];

/// Names of functions of C and assembler by their prefix, with their library.
const PREFIXES: &[(&str, &str)] = &[("aws_lc_", "aws-lc-sys"), ("ring_core_", "ring")];

impl Frame {
    pub(crate) fn owner(&self) -> Owner {
        let path = format!("{}/{}", self.folder, self.file);
        if let Some((_, rest)) = path.split_once("/registry/src/") {
            let package = rest.split('/').nth(1).unwrap_or_default();
            let name = package.rsplit_once('-').map_or(package, |(name, _)| name);
            return self.library(name);
        }
        // The path of AWS-LC's C code, which its build cuts.
        if path.starts_with("/aws-lc/") {
            return self.library("aws-lc-sys");
        }
        if let Some((_, library)) = PREFIXES.iter().find(|(prefix, _)| self.function.starts_with(prefix)) {
            return self.library(library);
        }
        if let Some(file) = ["crates/", "evidence/"].into_iter().find_map(|folder| below_root(&path, folder)) {
            return Owner::Ours { file: file.to_owned(), function: self.short() };
        }
        let is_language =
            ["/library/", "/rustc/", "vg_replace", "compiler_builtins"].iter().any(|part| path.contains(part));
        let is_c =
            ["libc.so", "libm.so", "libgcc_s", "ld-linux", "vgpreload"].iter().any(|part| self.object.contains(part));
        if is_language || is_c {
            return Owner::Runtime;
        }
        // A frame without a file has only its name: one of the language's own, or it counts as Sealway's.
        if self.file.is_empty()
            && ["core::", "alloc::", "std::", "<core::", "<alloc::", "__rustc::", "mem"]
                .iter()
                .any(|start| self.function.starts_with(start))
        {
            return Owner::Runtime;
        }
        Owner::Ours { file: path, function: self.short() }
    }

    fn library(&self, name: &str) -> Owner {
        if GLUE.contains(&name) {
            return Owner::Runtime;
        }
        Owner::Library { name: name.to_owned(), function: self.short() }
    }

    /// Returns the last part of the function's name, without the hash and the versions of symbols.
    fn short(&self) -> String {
        let is_hash = |hash: &str| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let name = self.function.as_str();
        let name = name.rsplit_once("::h").filter(|(_, hash)| is_hash(hash)).map_or(name, |(name, _)| name);
        let name = name.strip_suffix("::{{closure}}").unwrap_or(name);
        let without_generics = name.split('<').next().filter(|head| !head.is_empty()).unwrap_or(name);
        let last = without_generics.trim_end_matches(':').rsplit("::").next().unwrap_or_default();
        // `aws_lc_0_47_0_NAME` and `ring_core_0_17_14__NAME`: versions come and go.
        let is_version = |part: &&str| part.is_empty() || part.bytes().all(|byte| byte.is_ascii_digit());
        match PREFIXES.iter().find_map(|(prefix, _)| last.strip_prefix(prefix)) {
            Some(rest) => rest.split('_').skip_while(is_version).collect::<Vec<_>>().join("_"),
            None => last.to_owned(),
        }
    }
}

/// Returns the part of the path from this folder of the repository on.
fn below_root<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    if path.starts_with(folder) {
        return Some(path);
    }
    let at = path.find(&format!("/{folder}"))?;
    path.get(at + 1..)
}

fn is_named(function: &str) -> bool {
    !function.starts_with('{') && function != "UnknownInlinedFun"
}

/// Returns the owner of a stack: that of its first frame outside of the language's own library. The second is the nearest function
/// of Sealway.
pub(crate) fn owner(stack: &[Frame]) -> (Owner, Option<String>) {
    let owners: Vec<Owner> = stack.iter().map(Frame::owner).collect();
    let first = owners.iter().position(|owner| *owner != Owner::Runtime);
    let nearest = owners.iter().find_map(|owner| match owner {
        Owner::Ours { file, function } => Some(format!("{file} {function}")),
        _ => None,
    });
    let first = first.and_then(|at| owners.get(at..)).and_then(|rest| {
        let (first, callers) = rest.split_first()?;
        let Owner::Ours { file: own, .. } = first else { return Some(first.clone()) };
        // A closure has no name of its own, and valgrind does not find that of a function which another unit of code inlines:
        // the place belongs to the function around it.
        let named = std::iter::once(first)
            .chain(callers)
            .find(|owner| matches!(owner, Owner::Ours { file, function } if file == own && is_named(function)));
        Some(named.unwrap_or(first).clone())
    });
    // A stack of the language's own frames alone is one that nobody has looked at.
    (first.unwrap_or(Owner::Ours { file: String::new(), function: "unknown".into() }), nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, folder: &str, file: &str, object: &str) -> Frame {
        let [function, folder, file, object] = [function, folder, file, object].map(str::to_owned);
        Frame { function, folder, file, object }
    }

    #[test]
    fn a_comparison_of_the_language_belongs_to_its_caller() {
        let stack = [
            frame("bcmp", "./shared", "vg_replace_strmem.c", "/usr/libexec/valgrind/vgpreload_memcheck-amd64-linux.so"),
            frame("eq", "/rustc/1/library/core/src/slice", "cmp.rs", "/a"),
            frame("eq", "/c/registry/src/index-1/zeroize-1.8.1/src", "lib.rs", "/a"),
            frame("sealway_gateway::psk::is_psk_accepted", "/a/crates/gateway/src", "psk.rs", "/a"),
        ];
        let ours = Owner::Ours { file: "crates/gateway/src/psk.rs".into(), function: "is_psk_accepted".into() };
        assert_eq!(owner(&stack), (ours, Some("crates/gateway/src/psk.rs is_psk_accepted".into())));
    }

    #[test]
    fn a_place_in_a_library_is_named_without_its_version() {
        for (name, folder, library, function) in [
            ("aws_lc_0_47_0_BN_mod_inverse", "", "aws-lc-sys", "BN_mod_inverse"),
            ("ring_core_0_17_14__x25519_NEON", "", "ring", "x25519_NEON"),
            ("ct_eq", "/c/registry/src/i-1/subtle-2.6.1/src", "subtle", "ct_eq"),
        ] {
            let owner = frame(name, folder, "lib.rs", "/a").owner();
            assert_eq!(owner, Owner::Library { name: library.into(), function: function.into() });
        }
    }

    #[test]
    fn a_closure_belongs_to_the_function_around_it() {
        let folder = "/a/crates/proto/src";
        let stack = [
            frame("{closure#0}", folder, "a.rs", "/a"),
            frame("map<u8>", "/rustc/1/library/core/src", "option.rs", "/a"),
            frame("<sealway_proto::a::A as sealway_proto::Read>::hkdf", folder, "a.rs", "/a"),
        ];
        assert_eq!(owner(&stack).0, Owner::Ours { file: "crates/proto/src/a.rs".into(), function: "hkdf".into() });
    }

    #[test]
    fn a_frame_that_nothing_explains_counts_as_ours() {
        assert!(matches!(frame("strange", "", "", "/a").owner(), Owner::Ours { .. }));
        assert!(matches!(owner(&[frame("memcpy", "", "", "/lib/libc.so.6")]).0, Owner::Ours { .. }));
    }
}
