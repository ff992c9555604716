//! What snapshot isolation excludes, one history a test. In the comments, T1 and T2 are transactions, x and y rows.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::*;
use firndb_storage::{Error, Slot, Storage, Table, Transaction};

/// A table of x = 50 and y = 50.
struct Accounts {
    storage: Arc<Storage>,
    table: Table,
    x: Slot,
    y: Slot,
}

fn accounts() -> Accounts {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[50, 50], &["x", "y"]);
    Accounts {
        storage,
        table,
        x: slots[0],
        y: slots[1],
    }
}

impl Accounts {
    fn begin(&self) -> Transaction {
        begin(&self.storage)
    }

    fn write(&self, transaction: &Transaction, row: Slot, value: i64) -> Result<(), Error> {
        transaction.begin_statement();
        self.table
            .update(transaction, &[row], &[0], &integers(&[value]))
    }

    /// x and y, as a new statement of the transaction sees them.
    fn read(&self, transaction: &Transaction) -> (i64, i64) {
        let rows = seen(&self.table, transaction);
        (rows[0].0, rows[1].0)
    }

    fn committed(&self) -> (i64, i64) {
        self.read(&self.begin())
    }
}

fn assert_conflict(result: Result<(), Error>) {
    assert!(matches!(result, Err(Error::Conflict { .. })), "{result:?}");
}

/// T1 and T2 write x and y, crossing: the result would mix both.
#[test]
fn no_dirty_write() {
    let accounts = accounts();
    let (one, two) = (accounts.begin(), accounts.begin());
    accounts.write(&one, accounts.x, 1).unwrap();
    assert_conflict(accounts.write(&two, accounts.x, 2));
    two.rollback();
    accounts.write(&one, accounts.y, 1).unwrap();
    one.commit().unwrap();
    assert_eq!(accounts.committed(), (1, 1));
}

/// T2 reads what T1 has written and not committed.
#[test]
fn no_dirty_read() {
    let accounts = accounts();
    let one = accounts.begin();
    accounts.write(&one, accounts.x, 1).unwrap();
    let two = accounts.begin();
    assert_eq!(accounts.read(&two), (50, 50));
    one.commit().unwrap();
    assert_eq!(accounts.read(&two), (50, 50));
}

/// T2 reads what T1 wrote and rolls back.
#[test]
fn no_aborted_read() {
    let accounts = accounts();
    let one = accounts.begin();
    accounts.write(&one, accounts.x, 1).unwrap();
    let two = accounts.begin();
    assert_eq!(accounts.read(&two), (50, 50));
    one.rollback();
    assert_eq!(accounts.read(&two), (50, 50));
    assert_eq!(accounts.committed(), (50, 50));
}

/// T2 reads a value that T1 overwrote before it committed.
#[test]
fn no_intermediate_read() {
    let accounts = accounts();
    let one = accounts.begin();
    accounts.write(&one, accounts.x, 1).unwrap();
    let early = accounts.begin();
    accounts.write(&one, accounts.x, 2).unwrap();
    assert_eq!(accounts.read(&early), (50, 50));
    one.commit().unwrap();
    assert_eq!(accounts.read(&early), (50, 50));
    assert_eq!(accounts.committed(), (2, 50));
}

/// T1 and T2 read x and each adds to what it read.
#[test]
fn no_lost_update() {
    let accounts = accounts();
    let (one, two) = (accounts.begin(), accounts.begin());
    let (before_one, before_two) = (accounts.read(&one).0, accounts.read(&two).0);
    accounts.write(&one, accounts.x, before_one + 1).unwrap();
    one.commit().unwrap();
    assert_conflict(accounts.write(&two, accounts.x, before_two + 1));
    two.rollback();
    assert_eq!(accounts.committed(), (51, 50));
}

/// T1 reads x twice; T2 changes it in between.
#[test]
fn no_fuzzy_read() {
    let accounts = accounts();
    let one = accounts.begin();
    assert_eq!(accounts.read(&one).0, 50);
    let two = accounts.begin();
    accounts.write(&two, accounts.x, 9).unwrap();
    two.commit().unwrap();
    accounts.storage.collect();
    assert_eq!(accounts.read(&one).0, 50);
}

/// T1 reads x before and y after T2 moved 40 from one to the other.
#[test]
fn no_read_skew() {
    let accounts = accounts();
    let one = accounts.begin();
    let snapshot = one.snapshot();
    let read = |slot: Slot| {
        let batch = accounts
            .table
            .read(&snapshot, &[slot], &[0], firndb_storage::Form::Compute)
            .unwrap();
        let column =
            arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(batch.column(0));
        column.value(0)
    };
    let x = read(accounts.x);
    let two = accounts.begin();
    accounts.write(&two, accounts.x, 10).unwrap();
    accounts.write(&two, accounts.y, 90).unwrap();
    two.commit().unwrap();
    let y = read(accounts.y);
    assert_eq!(x + y, 100);
}

/// T1 reads all rows twice; T2 inserts one and deletes another in between.
#[test]
fn no_phantom() {
    let accounts = accounts();
    let one = accounts.begin();
    assert_eq!(seen(&accounts.table, &one).len(), 2);
    let two = accounts.begin();
    accounts.table.insert(&two, &rows(&[7], &["z"])).unwrap();
    accounts.table.delete(&two, &[accounts.y]).unwrap();
    two.commit().unwrap();
    assert_eq!(seen(&accounts.table, &one), pairs(&[(50, "x"), (50, "y")]));
    assert_eq!(
        seen(&accounts.table, &accounts.begin()),
        pairs(&[(50, "x"), (7, "z")])
    );
}
