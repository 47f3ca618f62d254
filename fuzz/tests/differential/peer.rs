//! Programs around other implementations: a question a line, and an answer a line, both in JSON.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use sealway_testkit::daemon::root;
use serde_json::Value;

/// A program that answers line by line.
pub(crate) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a program with a file of the repository as its argument.
    pub(crate) fn start(program: &str, file: &str) -> Peer {
        let mut command = Command::new(if program.contains('/') { root().join(program) } else { program.into() });
        Peer::of(command.arg(root().join(file)))
    }

    pub(crate) fn of(command: &mut Command) -> Peer {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|err| panic!("{command:?}: {err}: run scripts/setup-tests.sh"));
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Peer { child, input, output }
    }

    /// Returns the answers to questions, in their order.
    pub(crate) fn ask(&mut self, questions: &[Value]) -> Vec<Value> {
        let mut input = self.input.take().unwrap();
        let answers = std::thread::scope(|scope| {
            // A program that waits for its reader reads no more.
            let writer = scope.spawn(|| {
                for question in questions {
                    // A program that has ended shows in the missing answer.
                    let _ = writeln!(input, "{question}");
                }
                let _ = input.flush();
            });
            let answers = questions.iter().map(|question| {
                let mut line = String::new();
                self.output.read_line(&mut line).unwrap();
                serde_json::from_str(&line).unwrap_or_else(|err| panic!("{question}: {line:?}: {err}"))
            });
            let answers = answers.collect();
            writer.join().unwrap();
            answers
        });
        self.input = Some(input);
        answers
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.input = None;
        let _ = self.child.wait();
    }
}

/// Builds a program of Go, and returns its path.
pub(crate) fn go(folder: &str) -> PathBuf {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("hpke-peer");
    let mut build = Command::new("go");
    build.args(["build", "-buildvcs=false", "-o"]).arg(&out).arg(".").current_dir(root().join(folder));
    assert!(build.status().unwrap().success(), "{folder} does not build: it needs Go 1.26");
    out
}
