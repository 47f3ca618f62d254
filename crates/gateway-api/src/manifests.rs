//! Reading of manifests: YAML files, or folders of them.

use std::path::{Path, PathBuf};

use sealway_runtime::config::{load_yaml, read_bounded};
use serde_json::Value;

use crate::objects::{Defect, Resources};

/// Largest file of manifests, in bytes.
const FILE_LEN_MAX: u64 = 16 * 1024 * 1024;
/// Largest number of files that are read from folders.
const FILES_MAX: usize = 4096;

/// Reads the objects of files, and of the `.yaml`, `.yml` and `.json` files in folders.
///
/// # Errors
/// [`Defect`], naming the file and the line where the object begins.
pub fn read(sources: &[PathBuf]) -> Result<Resources, Defect> {
    let mut files = Vec::new();
    for source in sources {
        match source.is_dir() {
            true => files.extend(files_of(source)?),
            false => files.push(source.clone()),
        }
    }
    let mut resources = Resources::default();
    for file in files {
        let text = read_bounded(&file, FILE_LEN_MAX).map_err(|err| Defect(err.0))?;
        for (line, document) in documents(&text) {
            add(&mut resources, &document)
                .map_err(|err| Defect(format!("{}, object at line {line}: {err}", file.display())))?;
        }
    }
    Ok(resources)
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Defect> {
    let failed = |err: std::io::Error| Defect(format!("cannot read {}: {err}", folder.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_manifest =
            path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known));
        if is_manifest && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() || files.len() > FILES_MAX {
        return Err(Defect(format!(
            "{}: {} files that end in .yaml, .yml or .json; expected 1 to {FILES_MAX}",
            folder.display(),
            files.len()
        )));
    }
    files.sort();
    Ok(files)
}

/// Splits YAML into its documents, each with the line of its first one that is no comment. Lines before a document are kept
/// empty, so that errors count from the start of the file.
fn documents(text: &str) -> Vec<(usize, String)> {
    let is_marker = |line: &str| {
        line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r']))
    };
    let is_content = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut start = 0;
    for end in 0..=lines.len() {
        if end < lines.len() && !is_marker(lines[end]) {
            continue;
        }
        if let Some(first) = lines[start..end].iter().position(&is_content) {
            let document = format!("{}{}", "\n".repeat(start), lines[start..end].join("\n"));
            found.push((start + first + 1, document));
        }
        start = end + 1;
    }
    found
}

fn add(resources: &mut Resources, document: &str) -> Result<(), Defect> {
    let object: Value = load_yaml(document).map_err(|err| Defect(err.0))?;
    let is_list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match &object["items"] {
        Value::Array(items) if is_list => {
            for (index, item) in items.iter().enumerate() {
                resources.add(item.clone()).map_err(|err| Defect(format!("items[{index}]: {err}")))?;
            }
            Ok(())
        }
        _ => resources.add(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_split_at_their_markers_and_keep_their_lines() {
        let text = "# head\n---\na: |\n  ---\nb: 1\n--- # next\n\n# only a comment\n---\nc: 2\n";
        let found = documents(text);
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 10]);
        assert_eq!(found[1].1.lines().nth(9), Some("c: 2"));
    }

    #[test]
    fn a_defect_names_file_line_object_and_field() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("routes.yaml");
        let route = |rest: &str| {
            format!(
                "# head\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: shop }}\nspec: {rest}\n"
            )
        };
        for (text, wants) in [
            (route("{ rules: [{ backendRefs: [{ name: a, port: x }] }] }"), &["line 3", "HTTPRoute shop", "spec.rules[0].backendRefs[0].port: "][..]),
            (route("{ rules: [ }"), &["line 3", "line 6"]),
            (format!("{0}---\n{0}", route("{}")), &["line 10", "HTTPRoute default/shop stands twice"]),
            ("a: 1".into(), &["line 1", "`apiVersion` and `kind`"]),
            ("apiVersion: sealway.dev/v1alpha1\nkind: SealPolice".into(), &["SealPolice: unknown kind"]),
            ("apiVersion: sealway.dev/v1alpha1\nkind: SealPolicy\nmetadata: { name: p }\nspec: { targetRefs: [], sealed: on }".into(), &["SealPolicy p", "spec.sealed", "`required`"]),
            ("apiVersion: v1\nkind: List\nitems: [{ apiVersion: v1, kind: Pod }, { kind: Pod }]".into(), &["items[1]: "]),
        ] {
            std::fs::write(&file, &text).unwrap();
            let err = read(&[folder.path().to_owned()]).unwrap_err().to_string();
            for want in wants.iter().chain(&["routes.yaml, object at "]) {
                assert!(err.contains(want), "{want} is not in: {err}");
            }
        }
        assert!(read(&[folder.path().join("none.yaml")]).unwrap_err().to_string().contains("none.yaml"));
        std::fs::remove_file(&file).unwrap();
        assert!(read(&[folder.path().to_owned()]).unwrap_err().to_string().contains("0 files"));
    }
}
