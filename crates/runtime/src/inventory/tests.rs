use std::sync::Arc;

use super::*;
use crate::clock::ManualClock;

fn used<'a>(key: &'a str, party: &'a str) -> Use<'a> {
    Use {
        operation: "SignData",
        algorithm: "ed25519",
        size: 0,
        key,
        party: Party::Named("token", party),
        protocol: "v1",
    }
}

fn open(folder: &std::path::Path, clock: &Arc<ManualClock>) -> (Arc<Inventory>, Keeper) {
    let inventory = Arc::new(Inventory::default());
    let keeper = Keeper::open(folder, "broker", inventory.clone(), clock.clone()).unwrap();
    (inventory, keeper)
}

fn read(keeper: &Keeper) -> Document {
    Document::parse(&std::fs::read(keeper.path()).unwrap()).unwrap()
}

#[test]
fn each_combination_has_a_row_and_threads_lose_no_count() {
    let inventory = Inventory::default();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let inventory = &inventory;
            scope.spawn(move || {
                for round in 0..5000_u64 {
                    let key = format!("key-{}", round % 50);
                    inventory.count(&used(&key, "a"), 2, 1000 + thread * 5000 + round);
                }
            });
        }
    });
    let document = inventory.document("test", 50_000);
    assert_eq!(document.rows.len(), 50);
    assert!(document.rows.iter().all(|row| row.count == 800 && row.first_ms < row.last_ms), "{:?}", document.rows);
    assert_eq!(document.overflow, Overflow::default());
}

#[test]
fn a_party_fills_its_share_alone_and_what_has_no_room_is_counted() {
    let inventory = Inventory::default();
    for number in 0..PARTY_ROWS_MAX + 10 {
        inventory.count(&used(&number.to_string(), "greedy"), 1, 5);
    }
    inventory.count(&used("k", "modest"), 1, 6);
    let document = inventory.document("test", 7);
    assert_eq!(document.rows.len(), PARTY_ROWS_MAX + 1);
    assert_eq!(document.overflow, Overflow { count: 10, first_ms: 5, last_ms: 5 });
    // A known combination of a party without room is still counted in its row.
    inventory.count(&used("3", "greedy"), 4, 8);
    assert_eq!(inventory.document("test", 9).overflow.count, 10);
    for party in 0..8 {
        for number in 0..PARTY_ROWS_MAX {
            inventory.count(&used(&number.to_string(), &format!("p{party}")), 1, 9);
        }
    }
    let document = inventory.document("test", 10);
    assert_eq!(document.rows.len(), ROWS_MAX);
    let counted: u64 = document.rows.iter().map(|row| row.count).sum();
    assert_eq!(counted + document.overflow.count, (PARTY_ROWS_MAX + 10 + 1 + 4 + 8 * PARTY_ROWS_MAX) as u64);
}

#[test]
fn hostile_names_are_cut_and_their_document_is_read_again() {
    let inventory = Inventory::default();
    let long = "\u{1}\u{e9}\"\\".repeat(100_000);
    for number in 0..ROWS_MAX {
        let party = format!("{number}{long}");
        inventory.count(&Use { operation: &long, algorithm: &long, protocol: &long, ..used(&long, &party) }, 1, 1);
    }
    let bytes = serde_json::to_vec(&inventory.document("test", 2)).unwrap();
    assert!(bytes.len() as u64 <= DOCUMENT_LEN_MAX, "{}", bytes.len());
    let document = Document::parse(&bytes).unwrap();
    assert_eq!(document.rows.len(), ROWS_MAX);
    assert!(document.rows.iter().all(|row| row.operation.len() <= NAME_LEN_MAX));
}

#[test]
fn a_restart_goes_on_and_an_end_without_a_last_write_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(1000));
    let (inventory, keeper) = open(folder.path(), &clock);
    inventory.count(&used("k", "a"), 3, 1100);
    clock.set(2000);
    keeper.close().unwrap();
    drop(keeper);

    clock.set(3000);
    let (inventory, keeper) = open(folder.path(), &clock);
    inventory.count(&used("k", "a"), 4, 3100);
    inventory.count(&Use { party: Party::Uid(7), ..used("k", "") }, 1, 3100);
    clock.set(4000);
    keeper.write(true).unwrap();
    assert!(read(&keeper).is_open);
    inventory.count(&used("k", "a"), 100, 4100);
    // As a kill does: nothing more is written, and the lock goes.
    drop(keeper);

    clock.set(5000);
    let (inventory, keeper) = open(folder.path(), &clock);
    keeper.close().unwrap();
    let document = read(&keeper);
    assert_eq!(document, Document { is_open: false, interval_ms: 5000, ..inventory.document("broker-1", 5000) });
    assert_eq!((document.since_ms, document.gaps), (1000, Gaps { count: 1, after_ms: 4000 }));
    let counts: Vec<_> = document.rows.iter().map(|row| (row.party.as_str(), row.count, row.first_ms)).collect();
    assert_eq!(counts, [("token:a", 7, 1100), ("uid:7", 1, 3100)]);
}

#[test]
fn processes_at_a_time_have_a_file_each_and_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(1));
    let (first, one) = open(folder.path(), &clock);
    let (second, two) = open(folder.path(), &clock);
    assert_ne!(one.path(), two.path());
    first.count(&used("k", "a"), 3, 10);
    second.count(&used("k", "a"), 4, 5);
    second.count(&used("l", "a"), 1, 6);
    one.close().unwrap();
    two.close().unwrap();
    let merged = Document::merge([read(&two), read(&one)]).unwrap();
    assert_eq!(merged.sources, ["broker-1", "broker-2"]);
    let rows: Vec<_> = merged.rows.iter().map(|row| (row.key.as_str(), row.count, row.first_ms, row.last_ms)).collect();
    assert_eq!(rows, [("k", 7, 5, 10), ("l", 1, 6, 6)]);
    assert_eq!(Document::merge([]), None);
}

#[test]
fn a_damaged_file_is_set_aside_and_a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(1));
    let file = folder.path().join("broker-1.json");
    for damaged in ["", "{}", "{\"format\":", "[1]"] {
        std::fs::write(&file, damaged).unwrap();
        let (_, keeper) = open(folder.path(), &clock);
        assert_eq!(std::fs::read_to_string(folder.path().join("broker-1.damaged")).unwrap(), damaged);
        assert_eq!(read(&keeper).rows, []);
    }
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
    let inventory = Arc::new(Inventory::default());
    let err = Keeper::open(folder.path(), "broker", inventory, clock).unwrap_err().to_string();
    assert!(err.starts_with(file.to_str().unwrap()), "{err}");
}

#[test]
fn names_that_differ_in_one_byte_or_in_their_length_have_rows_of_their_own() {
    let inventory = Inventory::default();
    let mut names = Vec::new();
    for len in 0..=24 {
        let name = "a".repeat(len);
        names.extend((0..len).map(|at| format!("{}b{}", &name[..at], &name[at + 1..])));
        names.push(name);
    }
    for (times, name) in names.iter().enumerate() {
        inventory.count(&used(name, "p"), times as u64 + 1, 1);
        inventory.count(&used("k", name), times as u64 + 1, 1);
    }
    let document = inventory.document("test", 1);
    assert_eq!((document.rows.len(), document.overflow.count), (2 * names.len(), 0));
    for row in &document.rows {
        let name = if row.key == "k" { row.party.strip_prefix("token:").unwrap() } else { &row.key };
        assert_eq!(row.count, names.iter().position(|known| known == name).unwrap() as u64 + 1, "{row:?}");
    }
}
