use std::sync::Arc;

use arrow::buffer::Buffer;

use super::{Arena, Budget, Kind, RangeWriter};
use crate::Error;

fn arena(limit: Option<usize>) -> (Arc<Budget>, Arc<Arena>) {
    let budget = Budget::new(limit);
    let arena = Arena::new(&budget).expect("an arena");
    (budget, arena)
}

fn filled(arena: &Arc<Arena>, len: usize, byte: u8) -> Buffer {
    let range = arena.allocate(len, 0).expect("memory");
    range.write_at(0, &vec![byte; len]).expect("a write");
    range.freeze().buffer(0, len).expect("a buffer")
}

#[test]
fn a_range_shows_what_was_written() {
    let (_, arena) = arena(None);
    let range = arena.allocate(10_000, 0).expect("memory");
    let bytes: Vec<u8> = (0..10_000).map(|i| i as u8).collect();
    range.write_at(0, &bytes[..5_000]).expect("a write");
    range.write_at(5_000, &bytes[5_000..]).expect("a write");
    let frozen = range.freeze();
    assert_eq!(
        frozen.buffer(0, 10_000).expect("a buffer").as_slice(),
        bytes
    );
    assert_eq!(
        frozen.buffer(4_999, 2).expect("a buffer").as_slice(),
        &bytes[4_999..5_001]
    );
}

#[test]
fn ranges_are_page_aligned_and_disjoint() {
    let (_, arena) = arena(None);
    let buffers: Vec<_> = (0..100)
        .map(|i| filled(&arena, 1 + 777 * i, i as u8))
        .collect();
    for (i, buffer) in buffers.iter().enumerate() {
        assert_eq!(buffer.as_ptr() as usize % 4096, 0);
        assert!(buffer.iter().all(|&byte| byte == i as u8));
    }
}

#[test]
fn writes_and_buffers_beyond_a_range_are_refused() {
    let (_, arena) = arena(None);
    let range = arena.allocate(4096, 0).expect("memory");
    let len = range.len();
    assert!(matches!(range.write_at(len, &[1]), Err(Error::Internal(_))));
    assert!(matches!(
        range.write_at(usize::MAX, &[1]),
        Err(Error::Internal(_))
    ));
    assert!(matches!(
        range.freeze().buffer(1, len),
        Err(Error::Internal(_))
    ));
}

#[test]
fn a_writer_fills_its_section_and_no_more() {
    let (_, arena) = arena(None);
    let range = arena.allocate(1 << 20, 0).expect("memory");
    let mut writer = RangeWriter::new(&range, 64, 300_000 * 2 + 5);
    writer.write(&[7; 5]).expect("a write");
    for value in 0..300_000_u32 {
        writer
            .write(&(value as u16).to_le_bytes())
            .expect("a write");
    }
    writer.finish().expect("a full section");
    let short = RangeWriter::new(&range, 0, 8);
    assert!(matches!(short.finish(), Err(Error::Internal(_))));
    let mut long = RangeWriter::new(&range, 0, 8);
    long.write(&[0; 9]).expect("it is buffered");
    assert!(matches!(long.finish(), Err(Error::Internal(_))));
    let bytes = range.freeze().buffer(64, 600_005).expect("a buffer");
    assert_eq!(&bytes[..5], [7; 5]);
    let values = bytes[5..]
        .chunks(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    assert!(values.eq((0..300_000_u32).map(|value| value as u16)));
}

#[test]
fn memory_is_counted_until_the_last_holder_is_gone() {
    let (budget, arena) = arena(None);
    let buffer = filled(&arena, 8192, 1);
    let other = buffer.slice(100);
    assert_eq!(budget.usage().frozen, 8192);
    drop(buffer);
    assert_eq!(budget.usage().frozen, 8192);
    drop(other);
    assert_eq!(budget.usage().frozen, 0);
}

#[test]
fn a_range_that_was_never_frozen_is_given_back() {
    let (budget, arena) = arena(None);
    drop(arena.allocate(8192, 0).expect("memory"));
    assert_eq!(budget.usage().frozen, 0);
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn freed_memory_is_recycled() {
    let (budget, arena) = arena(None);
    let first = filled(&arena, 100_000, 1);
    let address = first.as_ptr();
    let held = filled(&arena, 100_000, 3);
    drop(first);
    assert_eq!(budget.idle(), 102_400);
    let second = filled(&arena, 100_000, 2);
    assert_eq!(second.as_ptr(), address);
    assert_eq!(budget.idle(), 0);
    assert!(second.iter().all(|&byte| byte == 2));
    assert!(held.iter().all(|&byte| byte == 3));
}

#[test]
fn a_range_beyond_the_budget_is_refused() {
    let (budget, arena) = arena(Some(1 << 20));
    let held = filled(&arena, 800_000, 1);
    let refused = arena.allocate(400_000, 0).map(|range| range.len());
    assert!(
        matches!(refused, Err(Error::OutOfMemory { limit, .. }) if limit == 1 << 20),
        "{refused:?}"
    );
    assert_eq!(budget.usage().frozen, held.len().next_multiple_of(4096));
    drop(held);
    assert!(arena.allocate(400_000, 0).is_ok());
}

#[test]
fn idle_memory_is_given_back_before_anything_is_refused() {
    let (budget, arena) = arena(Some(1 << 20));
    for len in [300_000, 500_000, 900_000] {
        drop(filled(&arena, len, 1));
    }
    // Too large for what is idle, and with it beyond the limit.
    drop(filled(&arena, 1_000_000, 1));
    let hot = budget
        .reserve(Kind::Hot, 1 << 20)
        .expect("nothing else is in use");
    assert_eq!(budget.idle(), 0);
    assert!(matches!(
        arena.allocate(1, 0),
        Err(Error::OutOfMemory { .. })
    ));
    drop(hot);
    assert!(arena.allocate(1, 0).is_ok());
}

#[test]
fn memory_that_was_given_back_is_usable_again() {
    let (budget, arena) = arena(Some(1 << 20));
    drop(filled(&arena, 900_000, 1));
    drop(
        budget
            .reserve(Kind::Hot, 1 << 20)
            .expect("idle memory makes room"),
    );
    let buffer = filled(&arena, 900_000, 2);
    assert!(buffer.iter().all(|&byte| byte == 2));
}

#[test]
fn exports_outlive_their_arena() {
    let (budget, arena) = arena(None);
    let buffer = filled(&arena, 50_000, 9);
    drop(filled(&arena, 50_000, 8));
    drop(arena);
    assert_eq!(budget.idle(), 0);
    assert!(buffer.iter().all(|&byte| byte == 9));
    drop(buffer);
    assert_eq!(budget.usage().frozen, 0);
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn frozen_memory_has_no_writable_mapping() {
    let (_, arena) = arena(None);
    let buffer = filled(&arena, 50_000, 9);
    let address = buffer.as_ptr() as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the mappings");
    let mapping = maps.lines().find(|line| {
        let (range, _) = line.split_once(' ').expect("a range");
        let (start, end) = range.split_once('-').expect("two addresses");
        let bound = |text| usize::from_str_radix(text, 16).expect("an address");
        (bound(start)..bound(end)).contains(&address)
    });
    let mapping = mapping.expect("the buffer is mapped");
    assert!(mapping.contains(" r--s "), "{mapping}");
}

#[test]
fn many_threads_fill_many_ranges() {
    let (budget, arena) = arena(None);
    std::thread::scope(|scope| {
        for lane in 0..4 {
            let arena = &arena;
            scope.spawn(move || {
                let mut held = Vec::new();
                for round in 0..200_usize {
                    let len = 1 + round * 9_973 % 150_000;
                    let range = arena.allocate(len, lane).expect("memory");
                    let byte = (round * 4 + lane) as u8;
                    range.write_at(0, &vec![byte; len]).expect("a write");
                    held.push((range.freeze().buffer(0, len).expect("a buffer"), byte));
                    if round % 3 == 0 {
                        let (buffer, byte) = held.swap_remove(round % held.len());
                        assert!(buffer.iter().all(|&found| found == byte));
                    }
                }
                assert!(
                    held.iter()
                        .all(|(buffer, byte)| buffer.iter().all(|found| found == byte))
                );
            });
        }
    });
    assert_eq!(budget.usage().frozen, 0);
}

#[test]
fn a_reservation_is_given_back_once() {
    let budget = Budget::new(Some(100));
    let mut reservation = budget.reserve(Kind::Undo, 60).expect("room");
    assert!(matches!(
        reservation.grow(41),
        Err(Error::OutOfMemory {
            requested: 41,
            used: 60,
            limit: 100
        })
    ));
    reservation.grow(40).expect("room");
    let part = reservation.split(30);
    reservation.shrink(20);
    assert_eq!(
        (reservation.bytes(), part.bytes(), budget.usage().undo),
        (50, 30, 80)
    );
    drop(reservation);
    assert_eq!(budget.usage().undo, 30);
    drop(part);
    assert_eq!(budget.usage().undo, 0);
}

#[test]
fn a_lowered_limit_refuses_until_enough_is_given_back() {
    let budget = Budget::new(None);
    let first = budget.reserve(Kind::Hot, 60).expect("room");
    budget.set_limit(Some(50));
    assert!(budget.is_exceeded());
    assert!(budget.reserve(Kind::Hot, 0).is_err());
    drop(first);
    assert!(budget.reserve(Kind::Hot, 50).is_ok());
    budget.set_limit(None);
    assert_eq!(budget.limit(), None);
}

#[test]
fn charges_beyond_the_limit_are_counted_and_block_reservations() {
    let budget = Budget::new(Some(10));
    budget.charge(Kind::Index, 15);
    assert_eq!(budget.usage().index, 15);
    assert!(budget.reserve(Kind::Index, 1).is_err());
    budget.release(Kind::Index, 15);
    assert!(budget.reserve(Kind::Index, 10).is_ok());
}

#[test]
fn reservations_of_many_threads_never_exceed_the_limit() {
    let budget = Budget::new(Some(1_000));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..10_000 {
                    if let Ok(held) = budget.reserve(Kind::Hot, 100 + i % 300) {
                        assert!(budget.usage().hot <= 1_000);
                        drop(held);
                    }
                }
            });
        }
    });
    assert_eq!(budget.usage().hot, 0);
}

#[test]
fn a_range_is_filled_in_place() {
    let (budget, arena) = arena(None);
    let mut range = arena.open(300_000, 0).expect("memory");
    let bytes = range.bytes_mut();
    assert!(bytes.len() >= 300_000);
    bytes
        .iter_mut()
        .zip(0..)
        .for_each(|(byte, at)| *byte = at as u8);
    let frozen = range.freeze().expect("frozen");
    let buffer = frozen.buffer(0, 300_000).expect("a buffer");
    assert!(buffer.iter().zip(0..).all(|(&byte, at)| byte == at as u8));
    drop((frozen, buffer));
    assert_eq!(budget.usage().frozen, 0);
    // One that is given up, and the same pages filled in both ways and after they were returned.
    drop(arena.open(300_000, 0).expect("memory"));
    assert!(filled(&arena, 300_000, 7).iter().all(|&byte| byte == 7));
    budget.return_all_idle();
    for value in [8, 9] {
        let mut range = arena.open(300_000, 0).expect("memory");
        range.bytes_mut().fill(value);
        let frozen = range.freeze().expect("frozen");
        let buffer = frozen.buffer(299_999, 1).expect("a buffer");
        assert_eq!(buffer.as_slice(), [value]);
    }
    assert_eq!(budget.usage().frozen, 0);
}

/// The permissions of the mapping that holds an address, as `/proc/self/maps` writes them.
#[cfg(all(target_os = "linux", not(miri)))]
fn permissions(address: *const u8) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
    maps.lines()
        .find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            let holds = (number(from)?..number(to)?).contains(&(address as usize));
            holds.then(|| rest[..4].to_owned())
        })
        .expect("mapped")
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn nothing_that_is_shown_is_writable() {
    let (_, arena) = arena(None);
    let shown = filled(&arena, 100_000, 1);
    let mut range = arena.open(100_000, 0).expect("memory");
    let inside = range.bytes_mut().as_ptr();
    assert_eq!(permissions(inside), "rw-s");
    assert_eq!(permissions(shown.as_ptr()), "r--s");
    let frozen = range.freeze().expect("frozen");
    assert_eq!(frozen.buffer(0, 1).expect("a buffer").as_ptr(), inside);
    assert_eq!(permissions(inside), "r--s");
    let mut given_up = arena.open(100_000, 0).expect("memory");
    let inside = given_up.bytes_mut().as_ptr();
    drop(given_up);
    assert_eq!(permissions(inside), "r--s");
}
