//! `cargo bench`: see the library of this crate.

fn main() -> anyhow::Result<()> {
    sealway_bench::run()
}
