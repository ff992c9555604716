//! Frozen memory and `fork`: the child can read what was exported and harms nothing, the parent goes on.
#![cfg(target_os = "linux")]

use std::io::{PipeReader, Read, Write};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use firndb_storage::Error;
use firndb_storage::frozen::{Extent, build_extents};
use firndb_storage::memory::{Arena, Budget};
use parking_lot::Mutex;

/// One fork at a time: another test's fork would pin this one's memory.
static ALONE: Mutex<()> = Mutex::new(());

const ROWS: usize = 100_000;

fn build(arena: &Arc<Arena>, value: i64) -> Result<Arc<Extent>, Error> {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
    let column: ArrayRef = Arc::new(Int64Array::from(vec![value; ROWS]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column])?;
    Ok(build_extents(arena, &schema, &[batch], &[ROWS], 1)?.remove(0))
}

fn array(arena: &Arc<Arena>, value: i64) -> ArrayRef {
    Arc::clone(build(arena, value).expect("an extent").column(0).array())
}

fn holds(array: &dyn Array, value: i64) -> bool {
    array
        .as_primitive::<Int64Type>()
        .values()
        .iter()
        .all(|&found| found == value)
}

/// Runs `child` in a forked child and `parent` here, which no longer has what `child` held; gives whether `child` gave true.
/// The child can read from a pipe until `parent` is done.
fn forked(child: impl FnOnce(PipeReader) -> bool, parent: impl FnOnce()) -> bool {
    let (child_waits, mut parent_says) = std::io::pipe().expect("a pipe");
    // SAFETY: the child runs `child`, which takes no lock that another thread of this process can hold (the tests here run
    // one at a time), and leaves by _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let run = std::panic::AssertUnwindSafe(|| child(child_waits));
        let good = std::panic::catch_unwind(run).unwrap_or(false);
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    drop(child);
    parent();
    parent_says.write_all(&[1]).expect("the child waits");
    let mut status = 0;
    // SAFETY: waits for the child that was just forked.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    drop(child_waits);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

fn wait(mut pipe: PipeReader) {
    pipe.read_exact(&mut [0]).expect("the parent says");
}

#[test]
fn a_child_can_not_allocate() {
    let _alone = ALONE.lock();
    let arena = Arena::new(&Budget::new(None)).expect("an arena");
    let held = array(&arena, 1);
    assert!(forked(
        |_| matches!(build(&arena, 2), Err(Error::System(_))),
        || ()
    ));
    assert!(holds(&held, 1));
}

#[test]
fn what_a_child_drops_stays_in_the_parent() {
    let _alone = ALONE.lock();
    let arena = Mutex::new(Some(Arena::new(&Budget::new(None)).expect("an arena")));
    let held = Mutex::new(arena.lock().as_ref().map(|arena| array(arena, 1)));
    let child = |_| {
        held.lock().take();
        arena.lock().take();
        true
    };
    assert!(forked(child, || ()));
    let arena = arena.into_inner().expect("the parent's arena");
    let refilled: Vec<_> = (0..8).map(|_| array(&arena, 2)).collect();
    assert!(refilled.iter().all(|array| holds(array, 2)));
    assert!(holds(&held.into_inner().expect("the parent's array"), 1));
}

#[test]
fn a_child_keeps_reading_what_the_parent_frees_and_fills_again() {
    let _alone = ALONE.lock();
    let arena = Arena::new(&Budget::new(None)).expect("an arena");
    let held = array(&arena, 1);
    let child = move |pipe| {
        wait(pipe);
        holds(&held, 1)
    };
    // The parent's copy of `child`, and the last reference with it, is gone when this runs.
    let parent = || {
        let refilled: Vec<_> = (0..8).map(|_| array(&arena, 2)).collect();
        assert!(refilled.iter().all(|array| holds(array, 2)));
    };
    assert!(forked(child, parent));
}

#[test]
fn memory_shown_after_a_fork_is_recycled() {
    let _alone = ALONE.lock();
    let budget = Budget::new(None);
    let arena = Arena::new(&budget).expect("an arena");
    assert!(forked(|_| true, || ()));
    drop(array(&arena, 1));
    assert!(budget.idle() > 0);
    assert_eq!(budget.usage().frozen, 0);
}

#[test]
fn a_thousand_arenas_leave_nothing_behind() {
    let _alone = ALONE.lock();
    let descriptors = || {
        std::fs::read_dir("/proc/self/fd")
            .expect("the descriptors")
            .count()
    };
    let mappings = || {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the mappings");
        maps.lines().filter(|line| line.contains("firndb")).count()
    };
    let before = (descriptors(), mappings());
    for value in 0..1_000 {
        let arena = Arena::new(&Budget::new(None)).expect("an arena");
        let held = array(&arena, value);
        drop(arena);
        assert!(holds(&held, value));
    }
    assert_eq!((descriptors(), mappings()), before);
}
