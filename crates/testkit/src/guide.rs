//! Tutorials and guides of `docs/`, to be run as they are written: their fenced blocks, a shell for these, and broken links.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::daemon::{free_port, root};

/// Most lines of a shell's output in an error.
const TOLD: usize = 60;

/// A fenced block of a guide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The text after the opening fence.
    pub info: String,
    /// The content. The indentation of a block in a list is removed.
    pub text: String,
    /// The line at which it begins, from 1.
    pub line: usize,
    /// The name in backticks on the line before it, as in "`serve.yaml`:".
    pub file: Option<String>,
}

/// Returns the fenced blocks of a guide, in their order.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut open, mut before): (Option<(Block, &str)>, &str) = (None, "");
    for (index, line) in text.lines().enumerate() {
        match open.take() {
            None => {
                let indent = &line[..line.len() - line.trim_start().len()];
                if let Some(info) = line.trim_start().strip_prefix("```") {
                    let file = before.trim_start().strip_prefix('`').and_then(|rest| rest.strip_suffix("`:"));
                    let (info, file) = (info.to_owned(), file.map(str::to_owned));
                    open = Some((Block { info, text: String::new(), line: index + 1, file }, indent));
                    before = "";
                } else if !line.is_empty() {
                    before = line;
                }
            }
            Some((mut block, indent)) => {
                let line = line.strip_prefix(indent).unwrap_or(line);
                if line.starts_with("```") {
                    blocks.push(block);
                } else {
                    block.text.push_str(line);
                    block.text.push('\n');
                    open = Some((block, indent));
                }
            }
        }
    }
    blocks
}

/// Creates a shell that runs this script in a folder, with nothing of this environment but the programs, `binary` among them as
/// `sealway`.
///
/// # Errors
/// The folder accepts no files.
pub fn shell(binary: &str, folder: &Path, script: &str) -> anyhow::Result<Command> {
    let programs = folder.join("programs");
    std::fs::create_dir(&programs)?;
    std::os::unix::fs::symlink(binary, programs.join("sealway"))?;
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").context("no PATH")?);
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).current_dir(folder).env_clear().env("PATH", path).env("HOME", folder);
    shell.stdin(Stdio::null());
    Ok(shell)
}

/// Runs it to its end.
///
/// # Errors
/// It fails: the text has its last line `### …` on standard error, which names the place, and `log`, a file of its folder.
pub fn run(shell: &mut Command, log: &Path) -> anyhow::Result<()> {
    let done = shell.output().context("no bash")?;
    if done.status.success() {
        return Ok(());
    }
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let at = err.lines().rev().find(|line| line.starts_with("### ")).unwrap_or_default();
    let log = std::fs::read_to_string(log).unwrap_or_default();
    bail!("the block at {at}: {}\n{}\n{}\n{log}", done.status, last(&out), last(&err))
}

fn last(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TOLD)..].join("\n")
}

/// Plays a guide in a folder: writes the files that it shows, and runs its `sh` blocks as one script, so that what it starts in the
/// background goes on. The ports that it names are replaced by free ones of this machine.
///
/// # Errors
/// As [`run`], and a folder that accepts no files.
pub fn play(guide: &str, binary: &str, folder: &Path, ports: &[u16]) -> anyhow::Result<()> {
    let ports = ports.iter().map(|written| Ok((written.to_string(), free_port()?.to_string())));
    let ports = ports.collect::<anyhow::Result<Vec<_>>>()?;
    let on_ports =
        |text: &str| ports.iter().fold(text.to_owned(), |text, (written, taken)| text.replace(written, taken));
    let mut script = String::from("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n");
    for block in blocks(guide) {
        if let Some(file) = &block.file {
            std::fs::write(folder.join(file), on_ports(&block.text))?;
        }
        if block.info == "sh" {
            // Processes that it starts must not hold this process's output open.
            let text = on_ports(&block.text).replace(" &\n", " >>background.log 2>&1 &\n");
            script.push_str(&format!("echo '### line {}' >&2\n{text}", block.line));
        }
    }
    run(&mut shell(binary, folder, &script)?, &folder.join("background.log"))
}

/// Returns the links of a page of `docs/guides`, or of a folder beside it, to files that do not exist.
pub fn missing(guide: &str) -> Vec<&str> {
    let folder = root().join("docs/guides");
    let targets = guide.split("](").skip(1).filter_map(|part| part.split([')', '#']).next());
    targets.filter(|to| !to.is_empty() && !to.starts_with("http") && !folder.join(to).exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_with_their_marks_names_and_indents() {
        let text = "Write\n\n`serve.yaml`:\n\n```yaml\na: 1\n\n  b: 2\n```\n\n1. Then:\n   ```sh wait\n   run `x`\n     on\n   ```\n";
        let block = |info: &str, text: &str, line, file: Option<&str>| Block {
            info: info.into(),
            text: text.into(),
            line,
            file: file.map(str::to_owned),
        };
        let expected =
            [block("yaml", "a: 1\n\n  b: 2\n", 5, Some("serve.yaml")), block("sh wait", "run `x`\n  on\n", 12, None)];
        assert_eq!(blocks(text), expected);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_named() {
        let guide = "[a](broker.md#x) [b](https://b.example/) [c](#d) [e](none.md#f)";
        assert_eq!(missing(guide), ["none.md"]);
    }
}
