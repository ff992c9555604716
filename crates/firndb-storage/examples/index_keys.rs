//! Measures the ordered index: adding, finding and taking away keys of one integer, and of a short text.
//!
//! ```text
//! cargo run --release -p firndb-storage --example index_keys [entries] [threads]
//! ```

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use firndb_storage::Slot;
use firndb_storage::index::{Key, KeyEncoder, UniqueIndex};
use firndb_storage::memory::Budget;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let entries: usize = arguments
        .next()
        .map_or(Ok(1_000_000), |text| text.parse())?;
    let threads: usize = arguments.next().map_or(Ok(1), |text| text.parse())?;
    for data_type in [DataType::Int64, DataType::Utf8] {
        for shuffled in [false, true] {
            measure(&data_type, entries, threads, shuffled)?;
        }
    }
    Ok(())
}

fn measure(
    data_type: &DataType,
    entries: usize,
    threads: usize,
    shuffled: bool,
) -> Result<(), Box<dyn Error>> {
    // An odd factor visits every number once in no order.
    let factor = if shuffled { 0x9e37_79b1 } else { 1 };
    let numbers = Int64Array::from_iter_values(
        (0..entries).map(|i| (i * factor % entries.next_power_of_two()) as i64),
    );
    let column: ArrayRef = cast(&numbers, data_type)?;
    let encoder = KeyEncoder::new(std::slice::from_ref(data_type))?;
    let index = UniqueIndex::new(&encoder, &Budget::new(None));
    println!(
        "{data_type}, {entries} entries, {threads} threads, {}",
        if shuffled { "shuffled" } else { "ascending" }
    );

    let start = Instant::now();
    let keys: Vec<Key> = encoder
        .encode(std::slice::from_ref(&column))?
        .into_iter()
        .flatten()
        .collect();
    report("encode a batch", start, entries);
    let start = Instant::now();
    for row in 0..entries.min(100_000) {
        black_box(encoder.encode(&[column.slice(row, 1)])?);
    }
    report("encode one row", start, entries.min(100_000));

    let start = Instant::now();
    in_parallel(&keys, threads, |key, row| {
        index.insert(key, Slot(row as u64), &index.pin()).is_ok()
    });
    report("insert", start, entries);
    let start = Instant::now();
    in_parallel(&keys, threads, |key, _| {
        index.slots(black_box(key), &index.pin()).len() == 1
    });
    report("find", start, entries);
    let start = Instant::now();
    in_parallel(&keys, threads, |key, row| {
        index.remove(key, Slot(row as u64), &index.pin())
    });
    report("remove", start, entries);
    if !index.is_empty() {
        return Err("entries are left".into());
    }
    Ok(())
}

fn in_parallel(keys: &[Key], threads: usize, work: impl Fn(&Key, usize) -> bool + Sync) {
    let part = keys.len().div_ceil(threads);
    std::thread::scope(|scope| {
        for (thread, keys) in keys.chunks(part).enumerate() {
            let work = &work;
            scope.spawn(move || {
                let done = keys
                    .iter()
                    .enumerate()
                    .filter(|(row, key)| work(key, thread * part + row))
                    .count();
                assert_eq!(done, keys.len());
            });
        }
    });
}

fn report(what: &str, start: Instant, count: usize) {
    println!(
        "  {what:16} {:6.0} ns",
        start.elapsed().as_nanos() as f64 / count as f64
    );
}
