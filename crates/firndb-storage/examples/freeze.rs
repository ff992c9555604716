//! What freezing costs: gathering against copying the same bytes, and writers with freezing on against off.
//!
//! `cargo run --release -p firndb-storage --example freeze [seconds [what]]`

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use firndb_storage::{Isolation, Result, Slot, Storage, StorageConfig, Table};

fn storage() -> Result<Arc<Storage>> {
    Storage::open(StorageConfig {
        memory_limit: None,
        threads: 2,
    })
}

/// Columns of one kind, and a batch of values for them.
fn batch(fields: &[(&str, ArrayRef)]) -> Result<RecordBatch> {
    let schema = Schema::new(
        fields
            .iter()
            .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
            .collect::<Vec<_>>(),
    );
    let columns = fields.iter().map(|(_, array)| Arc::clone(array)).collect();
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

fn integers(rows: usize) -> ArrayRef {
    let mut seed = 88172645463325252_u64;
    let next = |_| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as i64
    };
    Arc::new(Int64Array::from((0..rows).map(next).collect::<Vec<_>>()))
}

fn texts(rows: usize) -> ArrayRef {
    let text = |row: usize| format!("the text of row {row}, as long as texts are");
    Arc::new(StringArray::from(
        (0..rows).map(text).collect::<Vec<String>>(),
    ))
}

/// Random lower-case texts of `from` to `to` bytes.
fn random_texts(rows: usize, from: usize, to: usize) -> ArrayRef {
    let mut seed = 88172645463325252_u64;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) as usize % below
    };
    let texts = (0..rows).map(|_| {
        let length = from + next(to - from + 1);
        (0..length)
            .map(|_| char::from(b'a' + next(26) as u8))
            .collect::<String>()
    });
    Arc::new(StringArray::from(texts.collect::<Vec<String>>()))
}

fn short_texts(rows: usize) -> ArrayRef {
    random_texts(rows, 4, 12)
}

fn long_texts(rows: usize) -> ArrayRef {
    random_texts(rows, 20, 60)
}

fn insert(storage: &Arc<Storage>, table: &Table, rows: &RecordBatch) -> Result<Vec<Slot>> {
    let transaction = storage.begin(Isolation::Snapshot);
    transaction.begin_statement();
    let slots = table.insert(&transaction, rows)?;
    transaction.commit()?;
    Ok(slots)
}

/// The best time of copying `bytes` bytes.
fn copying(bytes: usize) -> Duration {
    let from = vec![1_u8; bytes];
    let mut to = vec![0_u8; bytes];
    let mut best = Duration::MAX;
    for _ in 0..20 {
        let begun = Instant::now();
        to.copy_from_slice(black_box(&from));
        black_box(&to);
        best = best.min(begun.elapsed());
    }
    best
}

/// Gathers a table of 16 blocks again and again, into recycled memory.
fn gathering(what: &str, column: fn(usize) -> ArrayRef, update: usize) -> Result<()> {
    // The second argument: only what has these words.
    if std::env::args()
        .nth(2)
        .is_some_and(|wanted| !what.contains(&wanted))
    {
        return Ok(());
    }
    let storage = storage()?;
    let probe = batch(&[("a", column(1)), ("b", column(1)), ("c", column(1))])?;
    let table = storage.create_table("t", probe.schema())?;
    table.set_freeze_after(None);
    let rows = table.block_rows();
    let blocks = 16;
    let all = column(rows * blocks);
    let values = batch(&[
        ("a", Arc::clone(&all)),
        ("b", Arc::clone(&all)),
        ("c", Arc::clone(&all)),
    ])?;
    let mut slots = Vec::new();
    for block in 0..blocks {
        slots.extend(insert(&storage, &table, &values.slice(block * rows, rows))?);
    }
    let one = batch(&[("a", column(1)), ("b", column(1)), ("c", column(1))])?;
    let mut best = Duration::MAX;
    let mut sketches = Duration::MAX;
    let mut bytes = 0;
    for round in 0..24 {
        // One row of each block thaws all of it.
        let transaction = storage.begin(Isolation::Snapshot);
        transaction.begin_statement();
        for block in 0..blocks {
            let slot = [slots[block * rows + round * update]];
            table.update(&transaction, &slot, &[0, 1, 2], &one)?;
        }
        transaction.commit()?;
        storage.collect();
        let before = table.freeze_counts();
        let done = table.freeze();
        let after = table.freeze_counts();
        assert_eq!(done.hot, 0);
        bytes = table.blocks().iter().map(|block| block.bytes).sum();
        storage.collect();
        if round > 1 {
            let sketching = after.sketching - before.sketching;
            best = best.min(after.gathering - before.gathering - sketching);
            sketches = sketches.min(sketching);
        }
    }
    let copy = copying(bytes);
    println!(
        "{what}: {:.1} MiB gathered in {:.2} ms, sketches in {:.2} ms, copied in {:.2} ms: {:.2} times without sketches, {:.2} with",
        bytes as f64 / (1 << 20) as f64,
        best.as_secs_f64() * 1e3,
        sketches.as_secs_f64() * 1e3,
        copy.as_secs_f64() * 1e3,
        best.as_secs_f64() / copy.as_secs_f64(),
        (best + sketches).as_secs_f64() / copy.as_secs_f64(),
    );
    Ok(())
}

/// Transactions a second of one client, updating rows of which few are hot and inserting one.
fn throughput(freeze: bool, seconds: f64) -> Result<f64> {
    let storage = storage()?;
    let values = batch(&[("a", integers(20_000)), ("b", texts(20_000))])?;
    let table = storage.create_table("t", values.schema())?;
    if !freeze {
        table.set_freeze_after(None);
    }
    let mut slots = Vec::new();
    for _ in 0..20 {
        slots.extend(insert(&storage, &table, &values)?);
    }
    let one = values.slice(0, 1);
    let column = one.project(&[0])?;
    let mut seed = 88172645463325252_u64;
    let mut done = 0;
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < seconds {
        for _ in 0..100 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            // Nine of ten go to the newest tenth.
            let recent = slots.len() / 10;
            let at = if !seed.is_multiple_of(10) {
                slots.len() - 1 - (seed >> 11) as usize % recent
            } else {
                (seed >> 11) as usize % slots.len()
            };
            let transaction = storage.begin(Isolation::Snapshot);
            transaction.begin_statement();
            table.update(&transaction, &[slots[at]], &[0], &column)?;
            transaction.begin_statement();
            slots.extend(table.insert(&transaction, &one)?);
            transaction.commit()?;
            done += 1;
        }
    }
    let rate = f64::from(done) / begun.elapsed().as_secs_f64();
    if freeze {
        println!(
            "    {:?}, after {:?}",
            table.freeze_counts(),
            table.freeze_after()
        );
    }
    Ok(rate)
}

fn main() -> Result<()> {
    gathering("integers", integers, 7)?;
    gathering("texts of an equal prefix", texts, 7)?;
    gathering("random texts of 4 to 12 bytes", short_texts, 7)?;
    gathering("random texts of 20 to 60 bytes", long_texts, 7)?;
    let seconds = std::env::args()
        .nth(1)
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(2.0);
    if seconds <= 0.0 {
        return Ok(());
    }
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let (off, on) = (throughput(false, seconds)?, throughput(true, seconds)?);
        println!("{off:.0} transactions a second without freezing, {on:.0} with");
        ratios.push(on / off);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.3}", ratios[ratios.len() / 2]);
    Ok(())
}
