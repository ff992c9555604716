//! Durability on a simulated disk: crashes after every prefix of what was written, flipped bits, failing operations.
//!
//! `FIRNDB_CRASHES=10000 cargo test --release -p firndb-storage --test durable` simulates that many crashes instead of two thousand.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use firndb_storage::durable::host::Host;
use firndb_storage::durable::simulated::{Fault, Random, Simulated};
use firndb_storage::{
    Definitions, Error, FileOptions, Form, Isolation, Result, Slot, Storage, StorageConfig, Table,
    Transaction,
};

type Rows = BTreeMap<i64, Option<String>>;
/// The rows of each table by its name.
type Model = BTreeMap<String, Rows>;

fn path() -> PathBuf {
    PathBuf::from("/db/shop.firn")
}

fn log() -> PathBuf {
    PathBuf::from("/db/shop.firn.wal")
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
    ]))
}

fn batch(rows: impl IntoIterator<Item = (i64, Option<String>)>) -> RecordBatch {
    let (ids, names): (Vec<i64>, Vec<Option<String>>) = rows.into_iter().unzip();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids)),
        Arc::new(StringArray::from(names)),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// A database with a catalog that knows the names of tables alone.
struct Database {
    storage: Arc<Storage>,
    tables: BTreeMap<String, Table>,
}

impl Database {
    fn open(disk: &Simulated, options: &FileOptions) -> Result<Self> {
        let config = StorageConfig {
            memory_limit: None,
            threads: 1,
        };
        let host: Arc<dyn Host> = Arc::new(disk.clone());
        let (storage, recovered) = Storage::open_file(config, &host, &path(), options)?;
        let mut tables = BTreeMap::new();
        for (name, id) in &recovered.objects {
            let id = u64::from_le_bytes(id.as_slice().try_into().unwrap());
            tables.insert(name.clone(), recovered.tables[&id].clone());
        }
        assert_eq!(
            tables.len(),
            recovered.tables.len(),
            "every table has a name"
        );
        let database = Self { storage, tables };
        if !options.read_only {
            database.checkpoint(false)?;
        }
        Ok(database)
    }

    fn checkpoint(&self, clean: bool) -> Result<()> {
        let checkpoint = self.storage.begin_checkpoint()?;
        let objects: Vec<_> = self
            .tables
            .iter()
            .map(|(name, table)| (name.clone(), table.durable_id().to_le_bytes().to_vec()))
            .collect();
        let tables: Vec<Table> = self.tables.values().cloned().collect();
        checkpoint.finish(&objects, &tables, clean)
    }

    fn begin(&self) -> Transaction {
        let transaction = self.storage.begin(Isolation::Snapshot);
        transaction.begin_statement();
        transaction
    }

    fn create(&mut self, name: &str) -> Result<()> {
        let table = self.storage.create_table(name, schema())?;
        let definitions = Definitions {
            objects: vec![(
                name.to_owned(),
                Some(table.durable_id().to_le_bytes().to_vec()),
            )],
            tables: vec![table.clone()],
            dropped: Vec::new(),
        };
        self.begin().commit_with(Some(&definitions))?;
        self.tables.insert(name.to_owned(), table);
        Ok(())
    }

    fn drop(&mut self, name: &str) -> Result<()> {
        let definitions = Definitions {
            objects: vec![(name.to_owned(), None)],
            tables: Vec::new(),
            dropped: vec![self.tables[name].durable_id()],
        };
        self.begin().commit_with(Some(&definitions))?;
        self.tables.remove(name);
        Ok(())
    }

    fn rows(&self, name: &str) -> (Rows, BTreeMap<i64, Slot>) {
        let transaction = self.begin();
        let table = &self.tables[name];
        let scan = table.scan(&transaction.snapshot()).unwrap();
        let (mut rows, mut slots) = (Rows::new(), BTreeMap::new());
        for morsel in 0..scan.morsels() {
            let batch = scan.read(morsel, &[0, 1], Form::Consumer, true).unwrap().0;
            let ids = batch.column(0).as_primitive::<Int64Type>();
            let names = batch.column(1).as_string::<i32>();
            let places = batch
                .column(2)
                .as_primitive::<arrow::datatypes::UInt64Type>();
            for row in 0..batch.num_rows() {
                let name = names.is_valid(row).then(|| names.value(row).to_owned());
                let before = rows.insert(ids.value(row), name);
                assert!(before.is_none(), "a row is there twice");
                slots.insert(ids.value(row), Slot(places.value(row)));
            }
        }
        (rows, slots)
    }

    fn model(&self) -> Model {
        self.tables
            .keys()
            .map(|name| (name.clone(), self.rows(name).0))
            .collect()
    }

    /// Inserts, updates and deletes some rows in one transaction, at random.
    fn work(
        &self,
        name: &str,
        model: &mut Rows,
        random: &mut Random,
        next: &mut i64,
    ) -> Result<()> {
        let table = &self.tables[name];
        let (_, slots) = self.rows(name);
        let transaction = self.begin();
        let mut after = model.clone();
        for _ in 0..1 + random.below(3) {
            transaction.begin_statement();
            match random.below(5) {
                0 | 1 => {
                    let most = if random.below(20) == 0 { 3000 } else { 4 };
                    let count = 1 + random.below(most);
                    let rows: Vec<_> = (0..count)
                        .map(|_| {
                            *next += 1;
                            (*next, text(random))
                        })
                        .collect();
                    table.insert(&transaction, &batch(rows.clone()))?;
                    after.extend(rows);
                }
                2 => {
                    if let Some((&id, &slot)) = pick(&slots, random)
                        && after.contains_key(&id)
                    {
                        let value = text(random);
                        let values = batch([(id, value.clone())]).project(&[1]).unwrap();
                        table.update(&transaction, &[slot], &[1], &values)?;
                        after.insert(id, value);
                    }
                }
                3 => {
                    if let Some((&id, &slot)) = pick(&slots, random)
                        && after.contains_key(&id)
                    {
                        table.delete(&transaction, &[slot])?;
                        after.remove(&id);
                    }
                }
                _ => {
                    // Undone: nothing of it may come back.
                    let place = transaction.begin_statement();
                    table.insert(&transaction, &batch([(-1, None)]))?;
                    transaction.rollback_to(&place);
                }
            }
        }
        if random.below(8) == 0 {
            transaction.rollback();
            return Ok(());
        }
        transaction.commit()?;
        *model = after;
        Ok(())
    }
}

fn pick<'a>(slots: &'a BTreeMap<i64, Slot>, random: &mut Random) -> Option<(&'a i64, &'a Slot)> {
    if slots.is_empty() {
        return None;
    }
    slots.iter().nth(random.below(slots.len() as u64) as usize)
}

fn text(random: &mut Random) -> Option<String> {
    match random.below(4) {
        0 => None,
        1 => Some("short".into()),
        _ => Some("a longer text that is in a heap ".repeat(1 + random.below(4) as usize)),
    }
}

/// What a run left: the states of the database, and how much was recorded when each was acknowledged.
struct Run {
    disk: Simulated,
    states: Vec<(usize, Model)>,
}

/// A program of random transactions, definitions, checkpoints, closings and openings.
fn run(seed: u64, options: &FileOptions) -> Run {
    let mut random = Random::new(seed);
    let disk = Simulated::recording();
    let mut states = vec![(0, Model::new())];
    let mut model = Model::new();
    let mut next = 0;
    let mut database = Database::open(&disk, options).unwrap();
    for step in 0..40 {
        let name = format!("t{}", random.below(3));
        match random.below(24) {
            0 => database.checkpoint(false).unwrap(),
            1 => {
                // Closed, or just left.
                if random.below(2) == 0 {
                    database.checkpoint(true).unwrap();
                }
                drop(database);
                database = Database::open(&disk, options).unwrap();
                assert_eq!(database.model(), model, "step {step} of seed {seed}");
            }
            2 if model.contains_key(&name) => {
                database.drop(&name).unwrap();
                model.remove(&name);
            }
            3 => {
                for table in database.tables.values() {
                    table.freeze();
                }
            }
            _ => {
                if !model.contains_key(&name) {
                    database.create(&name).unwrap();
                    model.insert(name.clone(), Rows::new());
                } else {
                    let rows = model.get_mut(&name).unwrap();
                    database.work(&name, rows, &mut random, &mut next).unwrap();
                }
            }
        }
        states.push((disk.recorded(), model.clone()));
    }
    Run { disk, states }
}

/// What is wrong after a crash at a place of a run, if anything.
fn violation(run: &Run, operations: usize, disk: &Simulated) -> Option<String> {
    let acknowledged = run.states.partition_point(|&(at, _)| at <= operations);
    let database = match Database::open(disk, &FileOptions::default()) {
        Ok(database) => database,
        Err(error) => return Some(format!("it does not open: {error}")),
    };
    let found = database.model();
    // The last acknowledged state, or the one that was being made.
    let allowed =
        &run.states[acknowledged.saturating_sub(1)..run.states.len().min(acknowledged + 1)];
    if allowed.iter().any(|(_, model)| *model == found) {
        return None;
    }
    Some(format!(
        "after {operations} operations it is in no state that it may be in"
    ))
}

/// Crashes runs of programs until so many crashes are done, and gives what was found wrong.
fn crash(count: usize, options: &FileOptions, first_seed: u64) -> Option<String> {
    let (mut done, mut seed) = (0, first_seed);
    while done < count {
        let run = run(seed, options);
        let mut random = Random::new(seed ^ 0xC0FFEE);
        let mut crashes = run.disk.crashes();
        for operations in 0..=crashes.len() {
            crashes.advance(operations);
            let disk = crashes.disk(&mut random);
            let again = (random.below(8) == 0).then(|| disk.copy());
            if let Some(wrong) = violation(&run, operations, &disk) {
                return Some(format!("seed {seed}: {wrong}"));
            }
            done += 1;
            if let Some(disk) = again {
                // Another crash, while the database is being recovered from the first one.
                disk.record();
                drop(Database::open(&disk, options));
                let mut crashes = disk.crashes();
                crashes.advance(random.below(crashes.len() as u64 + 1) as usize);
                let disk = crashes.disk(&mut random);
                if let Some(wrong) = violation(&run, operations, &disk) {
                    return Some(format!("seed {seed}, crashed twice: {wrong}"));
                }
                done += 1;
            }
        }
        seed += 1;
    }
    None
}

/// Loads, and statements over what they loaded: large blocks go to the file before their transaction is in the log.
fn run_loads(seed: u64) -> Run {
    let mut random = Random::new(seed);
    let disk = Simulated::recording();
    let options = FileOptions::default();
    let mut database = Database::open(&disk, &options).unwrap();
    let mut states = vec![(0, Model::new()), (disk.recorded(), Model::new())];
    database.create("t").unwrap();
    let mut rows = Rows::new();
    let mut next = 0;
    states.push((disk.recorded(), Model::from([("t".into(), rows.clone())])));
    for _ in 0..7 {
        match random.below(6) {
            0..=2 => {
                let transaction = database.begin();
                let table = &database.tables["t"];
                let loaded: Vec<_> = (next + 1..next + 33_000 + random.below(9_000) as i64)
                    .map(|id| (id, (id % 5 == 0).then(|| format!("row {id}"))))
                    .collect();
                next += 50_000;
                let mut load = table.bulk_insert(&transaction).unwrap();
                load.append(batch(loaded.clone())).unwrap();
                load.finish().unwrap();
                transaction.begin_statement();
                // Some of it goes again before it was there for others.
                let scan = table.scan(&transaction.snapshot()).unwrap();
                let last = scan
                    .read(scan.morsels() - 1, &[0], Form::Consumer, true)
                    .unwrap()
                    .0;
                let ids = last.column(0).as_primitive::<Int64Type>();
                let slots = last
                    .column(1)
                    .as_primitive::<arrow::datatypes::UInt64Type>();
                table.delete(&transaction, &[Slot(slots.value(0))]).unwrap();
                if random.below(4) == 0 {
                    transaction.rollback();
                } else {
                    transaction.commit().unwrap();
                    rows.extend(loaded);
                    rows.remove(&ids.value(0));
                }
            }
            3 => database.checkpoint(false).unwrap(),
            4 => {
                drop(database);
                database = Database::open(&disk, &options).unwrap();
            }
            _ => {
                database
                    .work("t", &mut rows, &mut random, &mut next)
                    .unwrap();
            }
        }
        let model = Model::from([("t".into(), rows.clone())]);
        assert_eq!(database.model(), model, "seed {seed}");
        states.push((disk.recorded(), model));
    }
    Run { disk, states }
}

#[test]
fn no_crash_loses_a_load() {
    for seed in 1..=(wanted_crashes() as u64 / 500) {
        let run = run_loads(seed);
        let mut random = Random::new(seed);
        let mut crashes = run.disk.crashes();
        for operations in 0..=crashes.len() {
            crashes.advance(operations);
            let disk = crashes.disk(&mut random);
            assert_eq!(violation(&run, operations, &disk), None, "seed {seed}");
        }
    }
}

#[test]
fn a_load_that_does_not_fit_leaves_no_trace() {
    let disk = Simulated::default();
    let mut database = Database::open(&disk, &FileOptions::default()).unwrap();
    database.create("t").unwrap();
    database.checkpoint(false).unwrap();
    let used = disk.used();
    disk.set_capacity(Some(used + 200_000));
    for _ in 0..3 {
        let transaction = database.begin();
        let rows = batch((0..100_000).map(|id| (id, Some(format!("row number {id}")))));
        let mut load = database.tables["t"].bulk_insert(&transaction).unwrap();
        load.append(rows).unwrap();
        load.finish().unwrap();
        assert!(matches!(transaction.commit(), Err(Error::DiskFull(_))));
    }
    assert!(disk.used() < used + 100_000, "{used} {}", disk.used());
    database.checkpoint(true).unwrap();
    drop(database);
    let database = Database::open(&disk, &FileOptions::default()).unwrap();
    assert_eq!(database.model()["t"], Rows::new());
}

fn wanted_crashes() -> usize {
    std::env::var("FIRNDB_CRASHES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(2_000)
}

#[test]
fn no_crash_loses_or_invents_anything() {
    assert_eq!(crash(wanted_crashes(), &FileOptions::default(), 1), None);
}

#[test]
fn a_missing_sync_of_the_log_is_found() {
    let options = FileOptions {
        omit_log_sync: true,
        ..FileOptions::default()
    };
    assert!(crash(5_000, &options, 1).is_some());
}

#[test]
fn a_missing_sync_before_the_root_is_found() {
    let options = FileOptions {
        omit_checkpoint_sync: true,
        ..FileOptions::default()
    };
    assert!(crash(5_000, &options, 1).is_some());
}

/// A closed database, and what is in it.
fn closed(seed: u64) -> (Simulated, Model) {
    let run = run(seed, &FileOptions::default());
    let database = Database::open(&run.disk, &FileOptions::default()).unwrap();
    database.checkpoint(true).unwrap();
    let model = database.model();
    (run.disk.copy(), model)
}

/// A database that was left without being closed.
fn left(seed: u64) -> (Simulated, Model) {
    let (disk, _) = closed(seed);
    let mut database = Database::open(&disk, &FileOptions::default()).unwrap();
    let mut random = Random::new(seed);
    let mut next = 1_000_000;
    database.create("last").unwrap();
    let mut rows = Rows::new();
    for _ in 0..12 {
        database
            .work("last", &mut rows, &mut random, &mut next)
            .unwrap();
    }
    let model = database.model();
    (disk.copy(), model)
}

/// Opens a disk with a bit flipped; whether that was found. What opens must be right.
fn flip(disk: &Simulated, file: &Path, bit: usize, allowed: &[Model]) -> bool {
    let disk = disk.copy();
    let mut bytes = disk.contents(file).unwrap();
    bytes[bit / 8] ^= 1 << (bit % 8);
    disk.place(file, bytes);
    let options = FileOptions {
        read_only: true,
        ..FileOptions::default()
    };
    match Database::open(&disk, &options) {
        Ok(database) => {
            let found = database.model();
            assert!(allowed.contains(&found), "bit {bit} of {}", file.display());
            false
        }
        Err(Error::Damaged(_) | Error::NotADatabase(_) | Error::Newer(_)) => true,
        Err(error) => panic!("bit {bit} of {}: {error}", file.display()),
    }
}

#[test]
fn a_flipped_bit_of_the_file_is_found_or_without_effect() {
    let (disk, model) = closed(7);
    let bits = 8 * disk.contents(&path()).unwrap().len();
    let mut random = Random::new(3);
    let mut found = 0;
    for _ in 0..1_500 {
        let bit = random.below(bits as u64) as usize;
        found += usize::from(flip(&disk, &path(), bit, std::slice::from_ref(&model)));
    }
    assert!(found > 100, "{found} of the flips were found");
}

#[test]
fn a_flipped_bit_of_the_log_is_found_or_cuts_its_end() {
    let (disk, model) = left(7);
    // The last commit can't be told from one that a crash tore. So its loss is the only one that is not reported as damage.
    let mut states = vec![model];
    let mut shorter = disk.copy();
    if let Some(state) = without_last_group(&mut shorter) {
        states.push(state);
    }
    let length = 8 * disk
        .contents(&log())
        .unwrap()
        .iter()
        .rposition(|&byte| byte != 0)
        .unwrap();
    let mut random = Random::new(5);
    let mut found = 0;
    for _ in 0..1_500 {
        let bit = random.below(length as u64) as usize;
        found += usize::from(flip(&disk, &log(), bit, &states));
    }
    assert!(found > 700, "{found} of the flips were found");
}

#[test]
fn damage_of_a_log_that_was_closed_is_never_taken_for_a_torn_tail() {
    let (disk, _) = closed(7);
    let options = FileOptions::default();
    let mut database = Database::open(&disk, &options).unwrap();
    let (mut random, mut next, mut rows) = (Random::new(7), 1_000_000, Rows::new());
    database.create("last").unwrap();
    for _ in 0..5 {
        database
            .work("last", &mut rows, &mut random, &mut next)
            .unwrap();
    }
    let model = database.model();
    // As after a checkpoint for which there was no room.
    database.storage.close_file();
    let disk = disk.copy();
    let bytes = disk.contents(&log()).unwrap();
    let groups: Vec<usize> = (0..bytes.len() - 4)
        .filter(|&at| &bytes[at..at + 4] == b"FGRP")
        .collect();
    let (&mark, &last) = match groups.as_slice() {
        [.., last, mark] => (mark, last),
        _ => panic!("two groups at least"),
    };
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    assert!(end < mark + 48, "the mark has no records");
    let length = u32::from_le_bytes(bytes[last + 32..last + 36].try_into().unwrap()) as usize;
    for byte in last..last + 48 + length {
        let bit = 8 * byte + random.below(8) as usize;
        assert!(
            flip(&disk, &log(), bit, &[]),
            "byte {byte} of the last group"
        );
    }
    for byte in mark..=end {
        // Nothing is lost with the mark.
        let bit = 8 * byte + random.below(8) as usize;
        flip(&disk, &log(), bit, std::slice::from_ref(&model));
    }
    // Work goes on behind the mark.
    let mut database = Database::open(&disk, &options).unwrap();
    assert_eq!(database.model(), model);
    database.create("more").unwrap();
    let model = database.model();
    assert_eq!(
        Database::open(&disk.copy(), &options).unwrap().model(),
        model
    );
}

/// The state before the last group of the log.
fn without_last_group(disk: &mut Simulated) -> Option<Model> {
    let mut bytes = disk.contents(&log()).unwrap();
    let last = bytes.windows(4).rposition(|four| four == b"FGRP")?;
    bytes.truncate(last);
    disk.place(&log(), bytes);
    let options = FileOptions {
        read_only: true,
        ..FileOptions::default()
    };
    Some(Database::open(disk, &options).ok()?.model())
}

#[test]
fn writes_that_went_elsewhere_or_nowhere_are_found_when_the_file_is_read() {
    for (fault, seed) in [
        (Fault::LoseWrite { nth: 0 }, 1),
        (Fault::MisdirectWrite { nth: 0, by: 4096 }, 2),
        (Fault::LoseWrite { nth: 1 }, 3),
        (Fault::MisdirectWrite { nth: 2, by: 512 }, 4),
    ] {
        let (disk, _) = closed(seed + 10);
        let mut database = Database::open(&disk, &FileOptions::default()).unwrap();
        database.create("x").unwrap();
        let transaction = database.begin();
        let rows = (0..2000).map(|id| (id, Some(format!("row {id}"))));
        database.tables["x"]
            .insert(&transaction, &batch(rows))
            .unwrap();
        transaction.commit().unwrap();
        let model = database.model();
        disk.inject(fault);
        let closed = database.checkpoint(true);
        disk.heal();
        drop(database);
        match Database::open(&disk, &FileOptions::default()) {
            Ok(database) => assert_eq!(database.model(), model, "{fault:?}"),
            Err(Error::Damaged(_)) => assert!(closed.is_ok()),
            Err(error) => panic!("{fault:?}: {error}"),
        }
    }
}

#[test]
fn a_sync_that_fails_fails_the_commit_and_all_after_it() {
    let disk = Simulated::default();
    let mut database = Database::open(&disk, &FileOptions::default()).unwrap();
    database.create("t").unwrap();
    let before = database.model();
    let insert = |database: &Database, id| {
        let transaction = database.begin();
        database.tables["t"].insert(&transaction, &batch([(id, None)]))?;
        transaction.commit()
    };
    disk.inject(Fault::FailSync { nth: 0 });
    assert!(matches!(insert(&database, 1), Err(Error::Broken(_))));
    assert_eq!(database.model(), before, "it was rolled back");
    assert!(matches!(insert(&database, 2), Err(Error::Broken(_))));
    assert!(database.storage.check().is_err());
    assert!(database.checkpoint(false).is_err());
    drop(database);
    let database = Database::open(&disk, &FileOptions::default()).unwrap();
    insert(&database, 3).unwrap();
    let found = &database.model()["t"];
    assert!(found.contains_key(&3) && !found.contains_key(&2));
}

#[test]
fn a_full_disk_fails_the_commit_and_nothing_else() {
    let disk = Simulated::default();
    let mut database = Database::open(&disk, &FileOptions::default()).unwrap();
    database.create("t").unwrap();
    let mut acknowledged = Rows::new();
    let mut failures = 0;
    for round in 0..60 {
        // The disk has room for a while, then it has not, then it has again.
        let full = round % 20 >= 10;
        disk.set_capacity(full.then(|| disk.used()));
        for part in 0..20 {
            let id = 100 * round + part;
            let transaction = database.begin();
            let name = Some("x".repeat(2_000));
            database.tables["t"]
                .insert(&transaction, &batch([(id, name.clone())]))
                .unwrap();
            match transaction.commit() {
                Ok(()) => {
                    acknowledged.insert(id, name);
                }
                Err(Error::DiskFull(_)) => failures += 1,
                Err(error) => panic!("{error}"),
            }
        }
        match database.checkpoint(false) {
            Ok(()) => {}
            Err(Error::DiskFull(_)) => assert!(full),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(failures > 0);
    assert_eq!(database.model()["t"], acknowledged);
    disk.set_capacity(None);
    drop(database);
    let database = Database::open(&disk, &FileOptions::default()).unwrap();
    assert_eq!(database.model()["t"], acknowledged);
}

#[test]
fn a_torn_write_that_is_reported_leaves_no_trace() {
    let disk = Simulated::default();
    let mut database = Database::open(&disk, &FileOptions::default()).unwrap();
    database.create("t").unwrap();
    for written in [0, 1, 47, 48, 60, 200] {
        let transaction = database.begin();
        database.tables["t"]
            .insert(&transaction, &batch([(-1, None)]))
            .unwrap();
        for nth in [0, 0] {
            disk.inject(Fault::FailWrite {
                nth,
                written,
                kind: ErrorKind::StorageFull,
            });
        }
        assert!(matches!(transaction.commit(), Err(Error::DiskFull(_))));
        disk.heal();
    }
    let transaction = database.begin();
    database.tables["t"]
        .insert(&transaction, &batch([(1, None)]))
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    let database = Database::open(&disk, &FileOptions::default()).unwrap();
    assert_eq!(database.model()["t"], Rows::from([(1, None)]));
}

#[test]
fn a_read_that_fails_or_lies_is_an_error_of_opening() {
    let (disk, model) = left(3);
    let options = FileOptions {
        read_only: true,
        ..FileOptions::default()
    };
    for nth in 0..12 {
        let failing = disk.copy();
        failing.inject(Fault::FailRead { nth });
        match Database::open(&failing, &options) {
            Ok(database) => assert_eq!(database.model(), model),
            Err(error) => assert!(matches!(error, Error::Io(_)), "{error}"),
        }
    }
}

#[test]
fn what_did_not_change_is_not_written_again() {
    let disk = Simulated::recording();
    let mut database = Database::open(&disk, &FileOptions::default()).unwrap();
    database.create("large").unwrap();
    let transaction = database.begin();
    let rows = batch((0..200_000).map(|id| (id, Some(format!("row number {id}")))));
    let mut load = database.tables["large"].bulk_insert(&transaction).unwrap();
    load.append(rows).unwrap();
    load.finish().unwrap();
    transaction.commit().unwrap();
    database.checkpoint(false).unwrap();
    let large = disk.used();
    database.create("small").unwrap();
    for _ in 0..20 {
        database.checkpoint(false).unwrap();
    }
    assert!(disk.used() < large + (1 << 20), "{large} {}", disk.used());
    let model = database.model();
    drop(database);
    assert_eq!(
        Database::open(&disk, &FileOptions::default())
            .unwrap()
            .model(),
        model
    );
}

#[test]
fn what_a_dropped_table_had_is_not_overwritten_before_the_next_root() {
    let disk = Simulated::recording();
    let mut database = Database::open(&disk, &FileOptions::default()).unwrap();
    database.create("t").unwrap();
    let mut rows = Rows::new();
    let (mut random, mut next) = (Random::new(1), 0);
    for _ in 0..9 {
        database
            .work("t", &mut rows, &mut random, &mut next)
            .unwrap();
    }
    database.checkpoint(false).unwrap();
    database.drop("t").unwrap();
    drop(database);
    let left = disk.recorded();
    drop(Database::open(&disk, &FileOptions::default()).unwrap());
    // Whatever of the next checkpoint is done: the old root can still be read, and the log drops the table.
    let mut crashes = disk.crashes();
    for operations in left..=crashes.len() {
        crashes.advance(operations);
        for _ in 0..20 {
            let disk = crashes.disk(&mut random);
            let database = Database::open(&disk, &FileOptions::default()).unwrap();
            assert_eq!(database.model(), Model::new());
        }
    }
}

/// What a thread was told: after so many operations, that a row is there or is gone.
type Told = Vec<(usize, i64, bool)>;

/// Writers, checkpoints and compactions at a time.
fn run_threads(seed: u64) -> (Simulated, Vec<Told>) {
    let disk = Simulated::recording();
    let mut database = Database::open(&disk, &FileOptions::default()).unwrap();
    database.create("t").unwrap();
    let database = database;
    // Commits stand between the log and their publication for a while.
    disk.set_latency(std::time::Duration::from_micros(200));
    let running = std::sync::atomic::AtomicUsize::new(4);
    let told = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4_i64)
            .map(|worker| {
                let (database, disk, running) = (&database, &disk, &running);
                scope.spawn(move || {
                    let mut random = Random::new(seed * 7 + worker as u64);
                    let mut told = Told::new();
                    for round in 0..40 {
                        let first = worker * 1_000_000 + round * 1_000;
                        let count = 1 + random.below(60) as i64;
                        let transaction = database.begin();
                        let rows = batch((first..first + count).map(|id| (id, text(&mut random))));
                        let table = &database.tables["t"];
                        let slots = table.insert(&transaction, &rows).unwrap();
                        transaction.begin_statement();
                        // Half of them go again at once, the others in a transaction of their own.
                        table
                            .delete(&transaction, &slots[..slots.len() / 2])
                            .unwrap();
                        transaction.commit().unwrap();
                        let at = disk.recorded();
                        told.extend((first + count / 2..first + count).map(|id| (at, id, true)));
                        let (_, slots) = database.rows("t");
                        let transaction = database.begin();
                        let (_, newest) = database.rows("t");
                        let gone = first + count - 1;
                        let slot = newest.get(&gone).or(slots.get(&gone));
                        // A conflict with rows that move is possible between reading and writing: then they stay.
                        if let Some(&slot) = slot
                            && table.delete(&transaction, &[slot]).is_ok()
                        {
                            transaction.commit().unwrap();
                            told.push((disk.recorded(), gone, false));
                        }
                    }
                    running.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    told
                })
            })
            .collect();
        while running.load(std::sync::atomic::Ordering::SeqCst) > 0 {
            database.checkpoint(false).unwrap();
            database.tables["t"].freeze();
            std::thread::yield_now();
        }
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect()
    });
    (disk, told)
}

#[test]
fn no_crash_loses_what_threads_were_told() {
    for seed in 0..(wanted_crashes() as u64 / 1_000) {
        let (disk, told) = run_threads(seed);
        let mut random = Random::new(seed);
        let mut crashes = disk.crashes();
        let mut operations = 0;
        while operations < crashes.len() {
            operations += 1 + random.below(crashes.len() as u64 / 30 + 1) as usize;
            crashes.advance(operations);
            let disk = crashes.disk(&mut random);
            let database = Database::open(&disk, &FileOptions::default())
                .unwrap_or_else(|error| panic!("seed {seed}, {operations} operations: {error}"));
            let rows = match database.tables.contains_key("t") {
                true => database.rows("t").0,
                false => Rows::new(),
            };
            for told in &told {
                let mut last = BTreeMap::new();
                for &(at, id, there) in told {
                    if at <= operations {
                        last.insert(id, there);
                    }
                }
                // What was being done when it crashed may be there or not.
                let begun: Vec<i64> = told
                    .iter()
                    .filter(|(at, ..)| *at > operations)
                    .map(|&(_, id, _)| id)
                    .collect();
                for (id, there) in last {
                    if !begun.contains(&id) {
                        assert_eq!(
                            rows.contains_key(&id),
                            there,
                            "row {id}, seed {seed}, {operations} operations"
                        );
                    }
                }
            }
        }
    }
}

/// Changes bytes of the log's last group, and makes its checksums right again.
fn forge(bytes: &mut [u8], random: &mut Random) {
    let group = bytes.windows(4).rposition(|four| four == b"FGRP").unwrap();
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let length = word(bytes, group + 32) as usize;
    let payload = group + 48;
    for _ in 0..1 + random.below(4) {
        let at = payload + random.below(length as u64) as usize;
        bytes[at] = match random.below(3) {
            0 => bytes[at] ^ 1 << random.below(8),
            1 => 0xFF,
            _ => random.below(256) as u8,
        };
    }
    let checksum = crc32c::crc32c(&bytes[payload..payload + length]);
    bytes[group + 36..group + 40].copy_from_slice(&checksum.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[group + 8..payload]);
    bytes[group + 4..group + 8].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn a_forged_record_is_an_error_or_a_record() {
    let (disk, _) = left(5);
    let options = FileOptions {
        read_only: true,
        ..FileOptions::default()
    };
    let mut random = Random::new(9);
    let mut refused = 0;
    for round in 0..3_000 {
        let forged = disk.copy();
        let mut bytes = forged.contents(&log()).unwrap();
        forge(&mut bytes, &mut random);
        forged.place(&log(), bytes);
        let opened = std::panic::catch_unwind(|| {
            let host: Arc<dyn Host> = Arc::new(forged.clone());
            let config = StorageConfig {
                memory_limit: None,
                threads: 1,
            };
            Storage::open_file(config, &host, &path(), &options).is_err()
        });
        refused += usize::from(opened.unwrap_or_else(|_| panic!("round {round}")));
    }
    assert!(refused > 1_000, "{refused} were refused");
}

#[test]
fn rows_that_moved_are_found_by_the_log() {
    let disk = Simulated::default();
    let mut database = Database::open(&disk, &FileOptions::default()).unwrap();
    database.create("t").unwrap();
    let name = |id: i64| Some(format!("the name of row number {id}"));
    let transaction = database.begin();
    // Small pieces fill small blocks: only blocks that are full take part.
    for first in (0..6_000).step_by(200) {
        let rows = batch((first..first + 200).map(|id| (id, name(id))));
        database.tables["t"].insert(&transaction, &rows).unwrap();
    }
    transaction.commit().unwrap();
    // The names in the log of what follows are those that this checkpoint wrote down.
    database.checkpoint(false).unwrap();
    let (_, before) = database.rows("t");
    let transaction = database.begin();
    let gone: Vec<Slot> = (0..6_000)
        .filter(|id| id % 3 > 0)
        .map(|id| before[&id])
        .collect();
    database.tables["t"].delete(&transaction, &gone).unwrap();
    transaction.commit().unwrap();
    let has_moved = || {
        let (_, now) = database.rows("t");
        (0..6_000).any(|id| id % 3 == 0 && now[&id] != before[&id])
    };
    for _ in 0..200 {
        database.storage.collect();
        database.tables["t"].freeze();
        if has_moved() {
            break;
        }
    }
    assert!(has_moved(), "nothing was compacted");
    let (_, now) = database.rows("t");
    let transaction = database.begin();
    for id in (0..6_000).step_by(30) {
        let value = batch([(id, Some("changed".into()))]).project(&[1]).unwrap();
        database.tables["t"]
            .update(&transaction, &[now[&id]], &[1], &value)
            .unwrap();
    }
    let deleted: Vec<Slot> = (3..6_000).step_by(30).map(|id| now[&id]).collect();
    database.tables["t"].delete(&transaction, &deleted).unwrap();
    transaction.commit().unwrap();
    let model = database.model();
    // Left as it is: the log is all that tells.
    let left = disk.copy();
    assert_eq!(
        Database::open(&left, &FileOptions::default())
            .unwrap()
            .model(),
        model
    );
    // And what a checkpoint makes of it.
    database.checkpoint(false).unwrap();
    drop(database);
    assert_eq!(
        Database::open(&disk, &FileOptions::default())
            .unwrap()
            .model(),
        model
    );
}
