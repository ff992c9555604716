use std::sync::Arc;

use arrow::buffer::Buffer;

use super::{Arena, Budget, PrivateMemory};

const PAGE: usize = 4096;

fn arena() -> (Arc<Budget>, Arc<Arena>) {
    let budget = Budget::new(None);
    let arena = Arena::new(&budget).expect("an arena");
    (budget, arena)
}

/// Frozen bytes that count up from `first`.
fn frozen(arena: &Arc<Arena>, len: usize, first: usize) -> Buffer {
    let range = arena.allocate(len, 0).expect("memory");
    range.write_at(0, &counted(len, first)).expect("a write");
    range.freeze().buffer(0, len).expect("a buffer")
}

fn counted(len: usize, first: usize) -> Vec<u8> {
    (first..first + len).map(|i| (i % 251) as u8).collect()
}

fn joined(pieces: &[Buffer]) -> (PrivateMemory, Vec<u8>) {
    let memory = PrivateMemory::joined(pieces, 2).expect("memory");
    let expected = pieces
        .iter()
        .flat_map(|piece| piece.iter().copied())
        .collect();
    (memory, expected)
}

#[test]
fn whole_pages_of_several_extents_are_mapped_into_one_range() {
    let (_, arena) = arena();
    // A page between the extents keeps them from being neighbours.
    let pieces: Vec<Buffer> = (0..5)
        .map(|i| {
            let piece = frozen(&arena, 64 * PAGE, i * 7);
            std::mem::forget(arena.allocate(PAGE, 0).expect("memory"));
            piece
        })
        .collect();
    let (mut memory, expected) = joined(&pieces);
    assert_eq!(memory.mappings(), if cfg!(miri) { 0 } else { 5 });
    assert_eq!(memory.values_mut::<u8>(), expected);
}

#[test]
fn neighbours_are_one_mapping() {
    let (_, arena) = arena();
    let whole = frozen(&arena, 200 * PAGE, 3);
    let pieces: Vec<Buffer> = (0..20)
        .map(|i| whole.slice_with_length(i * 10 * PAGE, 10 * PAGE))
        .collect();
    let (mut memory, expected) = joined(&pieces);
    assert_eq!(memory.mappings(), usize::from(!cfg!(miri)));
    assert_eq!(memory.values_mut::<u8>(), expected);
}

#[test]
fn pieces_that_lie_differently_in_their_pages_are_copied() {
    let (_, arena) = arena();
    let extent = frozen(&arena, 300 * PAGE, 0);
    let other = frozen(&arena, 100 * PAGE, 11);
    let hot = Buffer::from_vec(counted(1000, 5));
    for pieces in [
        vec![hot.clone(), extent.clone(), hot.clone(), other.clone()],
        vec![extent.slice(8), hot.clone(), other.slice(16)],
        vec![other.slice_with_length(0, 90 * PAGE + 24), extent.clone()],
        vec![
            hot.clone(),
            Buffer::from_vec(counted(3 << 20, 1)),
            hot.clone(),
        ],
        vec![
            extent.clone(),
            extent.clone(),
            hot.clone(),
            extent.slice(2 * PAGE),
        ],
        vec![
            Buffer::default(),
            other.clone(),
            Buffer::default(),
            hot.clone(),
        ],
    ] {
        let (mut memory, expected) = joined(&pieces);
        assert!(memory.values_mut::<u8>() == expected, "{pieces:?}");
    }
}

#[test]
fn small_memory_is_copied_and_no_memory_is_none() {
    let (_, arena) = arena();
    let (mut memory, expected) = joined(&[frozen(&arena, 1000, 0), frozen(&arena, 5000, 3)]);
    assert_eq!(memory.mappings(), 0);
    assert_eq!(memory.values_mut::<u8>(), expected);
    let mut none = PrivateMemory::joined(&[], 2).expect("no memory");
    assert!(none.is_empty() && none.values_mut::<u64>().is_empty());
}

#[test]
fn writing_changes_only_the_memory() {
    let (_, arena) = arena();
    let extent = frozen(&arena, 100 * PAGE, 0);
    let (mut memory, expected) = joined(std::slice::from_ref(&extent));
    memory.values_mut::<u64>().fill(u64::MAX);
    assert_eq!(extent.as_slice(), expected);
    let (mut again, _) = joined(&[extent]);
    assert_eq!(again.values_mut::<u8>(), expected);
    assert!(
        memory
            .values_mut::<u64>()
            .iter()
            .all(|&value| value == u64::MAX)
    );
}

#[test]
fn what_is_mapped_is_not_recycled_and_outlives_the_arena() {
    let (budget, arena) = arena();
    let extent = frozen(&arena, 100 * PAGE, 0);
    let (mut memory, expected) = joined(&[extent]);
    // Were the pages free, these would take them.
    let others: Vec<Buffer> = (0..10).map(|_| frozen(&arena, 100 * PAGE, 99)).collect();
    assert_eq!(memory.values_mut::<u8>(), expected);
    drop((others, arena));
    assert_eq!(memory.values_mut::<u8>(), expected);
    assert_eq!(budget.usage().frozen, 100 * PAGE);
    drop(memory);
    assert_eq!(budget.usage().frozen, 0);
}

#[test]
fn zeroed_memory_is_zero() {
    for len in [0, 8, 1 << 16, 5 << 20] {
        let mut memory = PrivateMemory::zeroed(len).expect("memory");
        assert_eq!(memory.len(), len);
        let values = memory.values_mut::<u64>();
        assert!(values.len() == len / 8 && values.iter().all(|&value| value == 0));
        values.fill(1);
    }
}
