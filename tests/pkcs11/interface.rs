//! The interface as a C program calls it: pointers, lengths, threads, `fork`, and a broker that goes and comes.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use sealway_testkit::daemon::program;

use crate::fixture::{Fixture, done, module, preload, run};

const CALLER: &str = include_str!("caller.c");

/// The C program, after its checks.
struct Caller {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Caller {
    fn start(fixture: &Fixture) -> Caller {
        let (source, binary) = (fixture.path("caller.c"), fixture.path("caller"));
        std::fs::write(&source, CALLER).unwrap();
        let mut compiler = Command::new(program("cc").unwrap());
        done(
            compiler
                .args(["-std=gnu11", "-Wall", "-Werror", "-o"])
                .arg(&binary)
                .arg(&source)
                .args(["-ldl", "-lpthread"]),
        );
        let mut command = Command::new(&binary);
        command.arg(module()).env("SEALWAY_PKCS11_CONF", fixture.path("pkcs11.toml"));
        preload(&mut command);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
        let mut caller = Caller { child, input, output };
        assert_eq!(caller.line(), "checked");
        caller
    }

    fn line(&mut self) -> String {
        self.output.next().expect("the caller has ended").unwrap()
    }

    fn ask(&mut self, what: &str) -> String {
        writeln!(self.input, "{what}").unwrap();
        self.line()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn pointers_lengths_threads_and_children_are_handled_as_the_standard_says() {
    let fixture = Fixture::new(&[("ec", "ecdsa-p256")]);
    let mut caller = Caller::start(&fixture);
    for what in ["sign", "threads", "fork", "sign"] {
        assert_eq!(caller.ask(what), "0", "{what}");
    }
}

#[test]
fn a_broker_that_was_killed_gives_an_error_and_works_again_after_its_restart() {
    let mut fixture = Fixture::new(&[("ec", "ecdsa-p256")]);
    let mut caller = Caller::start(&fixture);
    for turn in 0..3 {
        assert_eq!(caller.ask("sign"), "0", "turn {turn}");
        fixture.broker.kill().unwrap();
        let gone = caller.ask("sign");
        assert!(["30", "e0"].contains(&&*gone), "CKR_DEVICE_ERROR or CKR_TOKEN_NOT_PRESENT, and not {gone}");
        fixture.broker.start_again().unwrap();
        assert_eq!(caller.ask("sign"), "0", "after the restart of turn {turn}");
    }
}

#[test]
fn a_wrong_configuration_is_told_once_with_file_and_line() {
    let fixture = Fixture::new(&[]);
    let text = format!("socket = {:?}\n\n[[slots]]\nprofil = 'EC'\n", fixture.broker.socket());
    std::fs::write(fixture.path("pkcs11.toml"), text).unwrap();
    let (output, told) = run(fixture.tool("EC").arg("--list-slots"));
    assert!(!output.status.success(), "{told}");
    let wanted = format!("sealway-pkcs11: {}:4: unknown field `profil`", fixture.path("pkcs11.toml").display());
    assert_eq!(told.matches(&wanted).count(), 1, "{told}");
}
