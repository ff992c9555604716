//! How long it takes to recover a log: small transactions that insert, update and delete rows, and no checkpoint.
//!
//! `cargo run --release -p firndb-storage --example recovery [megabytes [rows per transaction [directory]]]`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use firndb_storage::durable::host::{Host, RealHost};
use firndb_storage::{
    Definitions, FileOptions, Isolation, Result, Storage, StorageConfig, Synchronous, Table,
};

fn config() -> StorageConfig {
    StorageConfig {
        memory_limit: None,
        threads: 2,
    }
}

fn rows(first: i64, count: i64) -> Result<RecordBatch> {
    let ids = first..first + count;
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        (
            "group",
            Arc::new(Int64Array::from_iter_values(
                ids.clone().map(|id| id % 1000),
            )),
        ),
        (
            "price",
            Arc::new(Float64Array::from_iter_values(
                ids.clone().map(|id| id as f64 / 4.0),
            )),
        ),
        (
            "text",
            Arc::new(StringArray::from_iter_values(ids.map(|id| {
                format!("this is the text of row {id}, as long as such texts are")
            }))),
        ),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn checkpoint(storage: &Arc<Storage>, tables: &[Table]) -> Result<()> {
    storage.begin_checkpoint()?.finish(&[], tables, false)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |or: i64| {
        arguments
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(or)
    };
    let (bytes, batch) = (number(1000) as u64 * 1_000_000, number(100));
    let directory = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join(format!("recovery-{}.firn", std::process::id()));
    let host: Arc<dyn Host> = Arc::new(RealHost);
    let options = FileOptions {
        synchronous: Synchronous::Off,
        ..FileOptions::default()
    };
    let (storage, _) = Storage::open_file(config(), &host, &path, &options)?;
    checkpoint(&storage, &[])?;
    let fields = rows(0, 0)?.schema();
    let fields = fields.fields().iter().map(|field| {
        let nullable: Field = field.as_ref().clone().with_nullable(true);
        nullable
    });
    let table = storage.create_table("t", Arc::new(Schema::new(fields.collect::<Vec<_>>())))?;
    let definitions = Definitions {
        tables: vec![table.clone()],
        ..Definitions::default()
    };
    storage
        .begin(Isolation::Snapshot)
        .commit_with(Some(&definitions))?;
    let began = Instant::now();
    let (mut count, mut transactions) = (0, 0);
    while storage.log_bytes() < bytes {
        let transaction = storage.begin(Isolation::Snapshot);
        transaction.begin_statement();
        let slots = table.insert(&transaction, &rows(count, batch)?)?;
        transaction.commit()?;
        let transaction = storage.begin(Isolation::Snapshot);
        transaction.begin_statement();
        let some = slots.len().min(10);
        let values = rows(count + 7, some as i64)?.project(&[1, 3])?;
        table.update(&transaction, &slots[..some], &[1, 3], &values)?;
        transaction.begin_statement();
        table.delete(
            &transaction,
            &slots[some.min(slots.len() - 1)..(some + 1).min(slots.len())],
        )?;
        transaction.commit()?;
        count += batch;
        transactions += 2;
    }
    println!(
        "{} MB of log in {:.2?}: {transactions} transactions, {count} rows",
        storage.log_bytes() / 1_000_000,
        began.elapsed()
    );
    storage.close_file();
    drop((table, storage));
    let began = Instant::now();
    let (storage, found) = Storage::open_file(config(), &host, &path, &options)?;
    println!(
        "recovered {} MB in {:.2?}",
        found.replayed / 1_000_000,
        began.elapsed()
    );
    let tables: Vec<Table> = found.tables.into_values().collect();
    let began = Instant::now();
    checkpoint(&storage, &tables)?;
    println!("first checkpoint in {:.2?}", began.elapsed());
    storage.close_file();
    for name in [path.clone(), path.with_extension("firn.wal")] {
        std::fs::remove_file(name).map_err(|error| firndb_storage::Error::Io(error.to_string()))?;
    }
    Ok(())
}
