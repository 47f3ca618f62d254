//! The demo shop, a page that seals calls in the browser: the files of the build of `apps/react-spa` in `dist`.

/// A file of the page.
pub(super) struct PageFile {
    pub(super) content_type: &'static str,
    pub(super) bytes: &'static [u8],
}

/// Defines the table of the files in `dist`: path, type, bytes.
macro_rules! files {
    ($($path:literal, $content_type:literal;)*) => {
        const FILES: &[(&str, PageFile)] = &[$((
            concat!("/", $path),
            PageFile {
                content_type: $content_type,
                bytes: include_bytes!(concat!("../../../../apps/react-spa/dist/", $path)),
            },
        )),*];
    };
}

files! {
    "index.html", "text/html; charset=utf-8";
    "icon.svg", "image/svg+xml";
    "licenses.md", "text/markdown; charset=utf-8";
    "config.json", "application/json";
    "assets/index.css", "text/css; charset=utf-8";
    "assets/index.js", "text/javascript; charset=utf-8";
    "assets/compat.js", "text/javascript; charset=utf-8";
    "assets/ed25519.js", "text/javascript; charset=utf-8";
    "assets/kem.js", "text/javascript; charset=utf-8";
    "assets/lattices.js", "text/javascript; charset=utf-8";
    "assets/ml-dsa.js", "text/javascript; charset=utf-8";
    "assets/ml-kem.js", "text/javascript; charset=utf-8";
    "assets/noble.js", "text/javascript; charset=utf-8";
    "assets/node.js", "text/javascript; charset=utf-8";
}

/// Content security policy: the page runs only its own files and calls only its own service.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the file at a path.
pub(super) fn find(path: &str) -> Option<&'static PageFile> {
    let path = if path == "/" { "/index.html" } else { path };
    FILES.iter().find(|(known, _)| *known == path).map(|(_, file)| file)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn list(folder: &Path, before: &str, paths: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{before}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                list(&entry.path(), &path, paths);
            } else {
                paths.insert(path);
            }
        }
    }

    #[test]
    fn every_file_of_the_build_is_served_and_no_other() {
        let mut built = BTreeSet::new();
        list(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/react-spa/dist"), "", &mut built);
        assert_eq!(FILES.iter().map(|(path, _)| (*path).to_owned()).collect::<BTreeSet<_>>(), built);
        assert!(find("/").unwrap().bytes.starts_with(b"<!doctype html>"));
        assert!(find("/assets/../index.html").is_none() && find("/assets").is_none());
    }
}
