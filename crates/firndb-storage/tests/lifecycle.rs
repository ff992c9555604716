//! Opening, closing and being idle. In a binary of its own: these tests look at the whole process, one at a time.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use common::*;

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Processor time of the process.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to `time` only.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn an_idle_database_uses_no_processor() {
    let _alone = alone();
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1], &["a"]);
    let held = begin(&storage);
    for _ in 0..1000 {
        let transaction = begin(&storage);
        table
            .update(&transaction, &slots, &[1], &strings(&[LONG]))
            .unwrap();
        transaction.commit().unwrap();
    }
    // What the transactions left is cleared away first, however long that takes on a busy machine; who spins never comes to rest.
    let is_idle = || {
        let before = processor_time();
        std::thread::sleep(Duration::from_millis(500));
        processor_time() - before < Duration::from_millis(5)
    };
    assert!((0..20).any(|_| is_idle()));
    drop(held);
}

#[cfg(target_os = "linux")]
#[test]
fn a_thousand_databases_leave_no_thread_and_no_descriptor() {
    let _alone = alone();
    let count = |what: &str| {
        std::fs::read_dir(format!("/proc/self/{what}"))
            .unwrap()
            .count()
    };
    let run = || {
        let storage = storage();
        let (table, slots) = table_with(&storage, &[1], &["a"]);
        let transaction = begin(&storage);
        let ids: Vec<i64> = (0..table.block_rows() as i64).collect();
        let mut load = table.bulk_insert(&transaction).unwrap();
        load.append(rows(&ids, &vec!["n"; ids.len()])).unwrap();
        load.finish().unwrap();
        table.delete(&transaction, &slots).unwrap();
        transaction.commit().unwrap();
    };
    run();
    let before = (count("task"), count("fd"));
    for _ in 0..1000 {
        run();
    }
    assert_eq!((count("task"), count("fd")), before);
}

#[test]
fn tables_and_snapshots_outlive_their_storage() {
    let _alone = alone();
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1], &["a"]);
    let old = begin(&storage).snapshot();
    let transaction = begin(&storage);
    table
        .update(&transaction, &slots, &[1], &strings(&[LONG]))
        .unwrap();
    transaction.commit().unwrap();
    let open = begin(&storage);
    table.insert(&open, &rows(&[2], &["b"])).unwrap();
    drop(storage);
    assert_eq!(scan(&table, &old)[0].2.as_deref(), Some("a"));
    assert_eq!(seen(&table, &open), pairs(&[(1, LONG), (2, "b")]));
    open.commit().unwrap();
}
