//! Every client against every server, on bytes that they generate themselves: `sdk/conformance/README.md`. On wire 4 the server
//! of all is a real gateway.
//!
//! The driver of Rust is the reference for wrong messages: every other driver must reject with the same code. Valid messages
//! must arrive unchanged.

mod agreed;
mod calls;
mod driver;
mod message;
mod one_shot;
mod wrong;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::sdk;
use agreed::{Family, families};
use driver::Driver;

/// The codes of the reference's rejections, by the name of the case: the same for every client.
type Codes = BTreeMap<String, String>;

/// The results of one pair of languages.
#[derive(Default)]
struct Tally {
    cells: usize,
    faults: Vec<String>,
}

impl Tally {
    /// Adds one cell of the table: a success or a failure.
    fn cell(&mut self, name: &str, held: anyhow::Result<()>) {
        self.cells += 1;
        if let Err(err) = held {
            self.faults.push(format!("{name}: {err:#}"));
        }
    }

    /// Adds the results of a pair, and its column of the table.
    fn add(&mut self, row: &mut String, client: &str, server: &str, of: Tally) {
        let _ = write!(row, " {:>12}", of.cells - of.faults.len());
        self.cells += of.cells;
        self.faults.extend(of.faults.into_iter().map(|fault| format!("{client} -> {server}: {fault}")));
    }
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// These languages alone; the reference answers for wrong messages all the same
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

impl Arguments {
    /// Selects all languages of the table.
    pub(crate) fn all() -> Self {
        Self { only: Vec::new() }
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut sdks = sdk::all("debug");
    ensure!(sdks.first().is_some_and(|sdk| sdk.name == "rust"), "the reference comes first");
    // Answers the questions about the code of a wrong message.
    let mut reference = Driver::start("rust", sdks[0].program("driver")?)?;
    if let Some(unknown) = arguments.only.iter().find(|name| !sdks.iter().any(|sdk| sdk.name == **name)) {
        bail!("--only: there is no SDK `{unknown}`");
    }
    sdks.retain(|sdk| arguments.only.is_empty() || arguments.only.iter().any(|name| sdk.name == *name));
    let mut clients = Vec::new();
    let mut servers = Vec::new();
    for sdk in &sdks {
        clients.push(Driver::start(sdk.name, sdk.program("driver")?)?);
        servers.push(Driver::start(sdk.name, sdk.program("driver")?)?);
    }
    println!("cells that hold, a client a row, a server a column:");
    let names = servers.iter().map(|server| server.name).chain(["gateway"]);
    println!("{:>12}{}", "", names.map(|name| format!(" {name:>12}")).collect::<String>());
    let mut codes = Codes::new();
    let gateway = one_shot::Gateway::start(&mut reference)?;
    // The reference with itself defines the code of a wrong answer; otherwise the first client of the table would.
    if !arguments.only.is_empty() {
        let mut server = Driver::start("rust", sdk::all("debug")[0].program("driver")?)?;
        let mut client = Driver::start("rust", sdk::all("debug")[0].program("driver")?)?;
        pair(&mut client, &mut server, &mut reference, &mut codes)?;
        one_shot::play(&mut client, &gateway, &mut codes)?;
    }
    let mut total = Tally::default();
    for client in &mut clients {
        let mut row = format!("{:>12}", client.name);
        for server in &mut servers {
            let tally = pair(client, server, &mut reference, &mut codes)
                .with_context(|| format!("{} as client of {}", client.name, server.name))?;
            total.add(&mut row, client.name, server.name, tally);
        }
        let tally = one_shot::play(client, &gateway, &mut codes);
        total.add(&mut row, client.name, "gateway", tally.with_context(|| format!("{} at the gateway", client.name))?);
        println!("{row}");
    }
    let Tally { cells, faults } = total;
    for fault in &faults {
        println!("conformance: {fault}");
    }
    println!(
        "conformance: {cells} cells, {} pairs of languages and {} clients of the gateway, {} faults",
        clients.len() * servers.len(),
        clients.len(),
        faults.len()
    );
    if !faults.is_empty() {
        bail!("{} of {cells} cells do not hold", faults.len());
    }
    Ok(())
}

fn pair(client: &mut Driver, server: &mut Driver, reference: &mut Driver, codes: &mut Codes) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    for family in families(&client.suites, &server.suites) {
        play(client, server, reference, codes, &family, &mut tally).with_context(|| family.name.clone())?;
        client.must("reset", serde_json::json!({}))?;
        server.must("reset", serde_json::json!({}))?;
        reference.must("reset", serde_json::json!({}))?;
    }
    Ok(tally)
}

fn play(
    client: &mut Driver,
    server: &mut Driver,
    reference: &mut Driver,
    codes: &mut Codes,
    family: &Family,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    wrong::inits(client, server, reference, codes, family, tally)?;
    let session = agreed::agree(client, server, family)?;
    tally.cell(&format!("{}: init", family.name), Ok(()));
    calls::right(client, server, reference, family, &session, tally)?;
    let other = agreed::agree(client, server, family)?;
    wrong::requests(client, server, reference, family, [&session, &other], tally)?;
    wrong::answers_of_session(client, server, codes, family, &session, tally)?;
    if family.wire == 3 {
        let renewed = agreed::renew(client, server, family, &session)?;
        tally.cell(&format!("{}: renew", family.name), Ok(()));
        calls::right(client, server, reference, family, &renewed, tally)?;
    }
    Ok(())
}
