//! Measures frozen memory: building extents, against a plain copy by the same threads, and reading them.
//!
//! ```text
//! cargo run --release -p firndb-storage --example build_extents [scale] [threads]
//! ```
//!
//! The table has the shape of TPC-H's lineitem (6,001,215 rows at scale 1): four decimal128(15,2), four integers,
//! three dates, five strings with 32-bit offsets; values are made here, with its value ranges.

use std::error::Error;
use std::fmt::{Debug, Formatter};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray,
    StringBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use firndb_storage::frozen::{Extent, Form, build_extents, plan_extents};
use firndb_storage::memory::{Arena, Budget};

type Outcome<T> = Result<T, Box<dyn Error>>;

const BLOCK_ROWS: usize = 8192;
const BLOCKS: usize = 64;
const RUNS: usize = 5;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let scale: f64 = arguments.next().map_or(Ok(1.0), |text| text.parse())?;
    let threads: usize = arguments.next().map_or(Ok(2), |text| text.parse())?;
    lineitem(scale, threads)?;
    fixed_width(threads)
}

/// Lineitem from Arrow batches into extents, into fresh and into recycled memory.
fn lineitem(scale: f64, threads: usize) -> Outcome<()> {
    let rows = (6_001_215.0 * scale) as usize;
    let batches = lineitem_batches(rows)?;
    let schema = stored_schema(&batches[0]);
    let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    println!(
        "lineitem: {rows} rows, {} MB of Arrow, {threads} threads",
        bytes / 1_000_000
    );
    let plan = plan_extents(&schema, &batches, BLOCK_ROWS, BLOCKS)?;
    let arena = Arena::new(&Budget::new(None))?;
    for run in 0..RUNS {
        let kind = if run == 0 { "fresh" } else { "recycled" };
        let (extents, time) = timed(|| build_extents(&arena, &schema, &batches, &plan, threads));
        println!("  build, {kind} memory: {time:?}");
        if run + 1 == RUNS {
            read(&extents?)?;
        }
    }
    for position in 0..schema.fields().len() {
        let one: Vec<_> = batches
            .iter()
            .map(|batch| batch.project(&[position]))
            .collect::<Result<_, _>>()?;
        let schema = Arc::new(schema.project(&[position])?);
        let (_, time) = timed(|| build_extents(&arena, &schema, &one, &plan, 1));
        let field = schema.field(0);
        println!(
            "  {:16} {:16} {time:?}, one thread",
            field.name(),
            field.data_type().to_string()
        );
    }
    Ok(())
}

/// What a scan does with extents.
fn read(extents: &[Arc<Extent>]) -> Outcome<()> {
    let frozen: usize = extents.iter().map(|extent| extent.bytes()).sum();
    println!(
        "  {} extents, {} MB of frozen memory",
        extents.len(),
        frozen / 1_000_000
    );
    for pass in ["first", "second"] {
        for (name, form) in [
            ("consumer", Form::Consumer),
            ("native", Form::Native),
            ("compute", Form::Compute),
        ] {
            let (read, time) = timed(|| -> Outcome<usize> {
                let mut slices = 0;
                for extent in extents {
                    for first in (0..extent.rows()).step_by(4 * BLOCK_ROWS) {
                        let len = (4 * BLOCK_ROWS).min(extent.rows() - first);
                        for column in extent.columns() {
                            black_box(column.slice(first, len, form)?);
                            slices += 1;
                        }
                    }
                }
                Ok(slices)
            });
            println!(
                "  {pass} slicing into morsels, {name} form: {} slices in {time:?}",
                read?
            );
        }
    }
    for column in [0, 5, 13] {
        let column = extents[0].column(column);
        let first = 0..4 * BLOCK_ROWS;
        let (zones, time) = timed(|| column.zones(std::slice::from_ref(&first)));
        let distinct = column.distinct().map(|sketch| sketch.estimate());
        println!(
            "  {}: zone of a morsel in {time:?} ({:?}), distinct {distinct:?}",
            column.data_type(),
            zones?.nulls
        );
    }
    Ok(())
}

/// A gibibyte of 64-bit integers: extents against a memcpy into new anonymous memory.
fn fixed_width(threads: usize) -> Outcome<()> {
    const COLUMNS: usize = 16;
    const ROWS: usize = (1 << 30) / 8 / COLUMNS;
    let column = |seed: usize| {
        Arc::new(Int64Array::from_iter_values(
            (0..ROWS).map(|i| (i * seed) as i64),
        )) as ArrayRef
    };
    let fields: Vec<_> = (0..COLUMNS)
        .map(|i| Field::new(format!("c{i}"), DataType::Int64, false))
        .collect();
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), (1..=COLUMNS).map(column).collect())?;
    let plan = plan_extents(&schema, std::slice::from_ref(&batch), BLOCK_ROWS, BLOCKS)?;
    println!("1 GiB of int64, {COLUMNS} columns, {threads} threads");
    for _ in 0..RUNS {
        let (_, copied) = timed(|| copy_anonymous(&batch, threads));
        // A new arena: all its memory is new.
        let arena = Arena::new(&Budget::new(None))?;
        let (fresh, built) = timed(|| {
            build_extents(
                &arena,
                &schema,
                std::slice::from_ref(&batch),
                &plan,
                threads,
            )
        });
        drop(fresh?);
        let (recycled, again) = timed(|| {
            build_extents(
                &arena,
                &schema,
                std::slice::from_ref(&batch),
                &plan,
                threads,
            )
        });
        recycled?;
        let ratio = |time: &Time| time.elapsed.as_secs_f64() / copied.elapsed.as_secs_f64();
        println!(
            "  memcpy to anonymous memory {copied:?}; extents {built:?} ({:.2}), recycled {again:?} ({:.2})",
            ratio(&built),
            ratio(&again)
        );
    }
    Ok(())
}

/// Copies the columns into new anonymous memory, a part of the columns on each thread.
fn copy_anonymous(batch: &RecordBatch, threads: usize) {
    let columns: Vec<ArrayRef> = batch.columns().to_vec();
    std::thread::scope(|scope| {
        for part in columns.chunks(columns.len().div_ceil(threads)) {
            scope.spawn(move || {
                for column in part {
                    // Large vectors come from mmap and go back to it.
                    black_box(column.to_data().buffers()[0].to_vec());
                }
            });
        }
    });
}

/// The result, and the time it took: elapsed, and of all processors.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Time) {
    let (start, processors) = (Instant::now(), processor_time());
    let result = work();
    (
        result,
        Time {
            elapsed: start.elapsed(),
            processors: processor_time().saturating_sub(processors),
        },
    )
}

struct Time {
    elapsed: Duration,
    processors: Duration,
}

impl Debug for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} (processors {:?})", self.elapsed, self.processors)
    }
}

/// Processor time of the process so far.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes the time to a local.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Decimals of up to 18 digits are stored in 64 bits.
fn stored_schema(batch: &RecordBatch) -> SchemaRef {
    let stored = |field: &Arc<Field>| {
        let data_type = match field.data_type() {
            DataType::Decimal128(precision, scale) => DataType::Decimal64(*precision, *scale),
            other => other.clone(),
        };
        Field::new(field.name(), data_type, field.is_nullable())
    };
    Arc::new(Schema::new(
        batch
            .schema()
            .fields()
            .iter()
            .map(stored)
            .collect::<Vec<_>>(),
    ))
}

fn lineitem_batches(rows: usize) -> Outcome<Vec<RecordBatch>> {
    const BATCH_ROWS: usize = 122_880;
    let mut random = Random(42);
    (0..rows)
        .step_by(BATCH_ROWS)
        .map(|first| lineitem_batch(first, BATCH_ROWS.min(rows - first), &mut random))
        .collect()
}

fn lineitem_batch(first: usize, rows: usize, random: &mut Random) -> Outcome<RecordBatch> {
    let mut integers =
        |low: i64, high: i64| -> Vec<i64> { (0..rows).map(|_| random.within(low, high)).collect() };
    let decimal = |values: Vec<i64>| -> Outcome<ArrayRef> {
        let array = Decimal128Array::from_iter_values(values.into_iter().map(i128::from));
        Ok(Arc::new(array.with_precision_and_scale(15, 2)?))
    };
    let date = |values: Vec<i64>| {
        Arc::new(Date32Array::from_iter_values(
            values.into_iter().map(|day| day as i32),
        ))
    };
    let order = Int64Array::from_iter_values(
        (first..first + rows).map(|row| (row / 4 * 4 + row / 4 % 8) as i64),
    );
    let line = Int32Array::from_iter_values((first..first + rows).map(|row| (row % 4 + 1) as i32));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("l_orderkey", Arc::new(order)),
        (
            "l_partkey",
            Arc::new(Int64Array::from(integers(1, 200_000))),
        ),
        ("l_suppkey", Arc::new(Int64Array::from(integers(1, 10_000)))),
        ("l_linenumber", Arc::new(line)),
        (
            "l_quantity",
            decimal(
                integers(1, 50)
                    .into_iter()
                    .map(|quantity| quantity * 100)
                    .collect(),
            )?,
        ),
        ("l_extendedprice", decimal(integers(90_000, 10_494_950))?),
        ("l_discount", decimal(integers(0, 10))?),
        ("l_tax", decimal(integers(0, 8))?),
        ("l_shipdate", date(integers(8_036, 10_561))),
        ("l_commitdate", date(integers(8_065, 10_531))),
        ("l_receiptdate", date(integers(8_038, 10_591))),
        ("l_returnflag", words(&["A", "N", "R"], rows, random)),
        ("l_linestatus", words(&["F", "O"], rows, random)),
        (
            "l_shipinstruct",
            words(
                &[
                    "DELIVER IN PERSON",
                    "COLLECT COD",
                    "NONE",
                    "TAKE BACK RETURN",
                ],
                rows,
                random,
            ),
        ),
        (
            "l_shipmode",
            words(
                &["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"],
                rows,
                random,
            ),
        ),
        ("l_comment", comments(rows, random)),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn words(vocabulary: &[&str], rows: usize, random: &mut Random) -> ArrayRef {
    let word = |_| vocabulary[random.within(0, vocabulary.len() as i64 - 1) as usize];
    Arc::new(StringArray::from_iter_values((0..rows).map(word)))
}

/// Texts of 10 to 43 bytes.
fn comments(rows: usize, random: &mut Random) -> ArrayRef {
    const TEXT: &str = "carefully final deposits haggle quickly above the slyly bold accounts; furiously even \
        packages sleep blithely along the pending, express theodolites; ironic requests wake across the regular ideas";
    let mut builder = StringBuilder::with_capacity(rows, 27 * rows);
    for _ in 0..rows {
        let length = random.within(10, 43) as usize;
        let start = random.within(0, (TEXT.len() - length) as i64) as usize;
        builder.append_value(&TEXT[start..start + length]);
    }
    Arc::new(builder.finish())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn within(&mut self, low: i64, high: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        low + ((word ^ (word >> 31)) % (high - low + 1) as u64) as i64
    }
}
