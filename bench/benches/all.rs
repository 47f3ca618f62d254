//! `cargo bench` runs the library of this crate.

fn main() -> std::process::ExitCode {
    sealway_bench::main()
}
