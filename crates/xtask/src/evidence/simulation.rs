use super::record::Record;

pub(super) fn run() -> anyhow::Result<Record> {
    anyhow::bail!("not built yet")
}
