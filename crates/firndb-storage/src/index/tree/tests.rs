use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::protocol::Standard;
use crate::reclaim::Reclaimer;

/// Nodes of four to six entries, so that trees are tall and each few operations split or merge.
const SMALL: usize = 13;

/// Memory that is freed as in the running system, and counted.
struct Counted {
    reclaimer: Reclaimer,
    bytes: AtomicUsize,
}

impl Counted {
    fn new<K: Kind, const N: usize>(_: &Tree<Standard, K, N>) -> Self {
        Self {
            reclaimer: Reclaimer::new(),
            bytes: AtomicUsize::new(Tree::<Standard, K, N>::NODE),
        }
    }
}

impl<K: Kind, const N: usize> Host<Standard, K, N> for Counted {
    type Error = Infallible;

    fn reserve(&self, bytes: usize) -> Result<(), Infallible> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn charge(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn retire(&self, garbage: Garbage<Standard, K, N>, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.reclaimer.retire(Box::new(move || drop(garbage)));
    }
}

/// Numbers as the entries of a kind.
trait Entry: Kind {
    /// What is looked for, kept alive.
    type Owned;
    fn owned(number: u64) -> Self::Owned;
    fn probe_of(owned: &Self::Owned, slot: u64) -> Self::Probe<'_>;
    fn pair(raw: &Self::Raw) -> (u64, u64);
}

impl Entry for Number {
    type Owned = u64;
    fn owned(number: u64) -> u64 {
        number
    }
    fn probe_of(owned: &u64, slot: u64) -> (u64, u64) {
        (*owned, slot)
    }
    fn pair(raw: &[u64; 2]) -> (u64, u64) {
        (raw[0], raw[1])
    }
}

impl Entry for Bytes {
    type Owned = Vec<u8>;
    /// Strings of several lengths with the same beginning, in the numbers' order.
    fn owned(number: u64) -> Vec<u8> {
        let length = 8 - number.trailing_zeros() as usize / 8;
        [b"begin", &number.to_be_bytes()[..length]].concat()
    }
    fn probe_of(owned: &Vec<u8>, slot: u64) -> BytesProbe<'_> {
        BytesProbe::new(owned, slot)
    }
    fn pair(raw: &[u64; 3]) -> (u64, u64) {
        // SAFETY: read under a pin that the test holds.
        let probe = unsafe { <Self as Kind>::probe(raw) };
        let mut number = [0; 8];
        number[..probe.bytes.len() - 5].copy_from_slice(&probe.bytes[5..]);
        (u64::from_be_bytes(number), probe.slot)
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

impl<A: Atomics, K: Kind, const N: usize> Tree<A, K, N> {
    /// Checks order, separators and levels; gives the bytes of nodes and keys.
    fn audit(&self) -> usize {
        let (root, _) = self.root().expect("quiet");
        let mut bytes = 0;
        Self::audit_node(root, None, None, &mut bytes);
        bytes
    }

    fn audit_node(
        node: &Node<A, K, N>,
        low: Option<&K::Raw>,
        high: Option<&K::Raw>,
        bytes: &mut usize,
    ) {
        *bytes += Self::NODE;
        let is_before = |one: &K::Raw, other: &K::Raw| {
            // SAFETY: nobody changes the tree.
            let order = unsafe { K::compare(|word| one.word(word), || true, K::probe(other)) };
            order.expect("valid").is_lt()
        };
        let raws: Vec<K::Raw> = (0..node.count()).map(|at| node.raw(at)).collect();
        assert!(raws.windows(2).all(|pair| is_before(&pair[0], &pair[1])));
        if let (Some(low), Some(first)) = (low, raws.first()) {
            assert!(!is_before(first, low));
        }
        if let (Some(high), Some(last)) = (high, raws.last()) {
            assert!(is_before(last, high));
        }
        for raw in &raws {
            // SAFETY: nobody changes the tree.
            *bytes += K::bytes(unsafe { K::probe(raw) });
        }
        if node.is_leaf() {
            return;
        }
        for child in 0..=raws.len() {
            // SAFETY: nobody changes the tree.
            let below = unsafe { &*node.child(child) };
            assert_eq!(below.level + 1, node.level);
            let low = child.checked_sub(1).map_or(low, |left| Some(&raws[left]));
            Self::audit_node(below, low, raws.get(child).or(high), bytes);
        }
    }
}

fn all<K: Entry, const N: usize>(
    tree: &Tree<Standard, K, N>,
    ends: (Edge<'_, K>, Edge<'_, K>),
    reverse: bool,
    most: usize,
    host: &Counted,
) -> Vec<(u64, u64)> {
    let pin = host.reclaimer.pin();
    let mut found = Vec::new();
    tree.scan(ends, reverse, most, &mut found, &pin);
    found.iter().map(K::pair).collect()
}

fn agrees_with_a_set<K: Entry>(seed: u64, keys: u64, slots: u64) {
    let tree = Tree::<Standard, K, SMALL>::new();
    let host = Counted::new(&tree);
    let mut model = BTreeSet::new();
    let mut random = Random(seed);
    for step in 0..4_000_u64 {
        // Grows, then shrinks to nearly nothing, then grows again.
        let growing = step / 1_000 % 2 == 0;
        let number = (random.next(keys) << 58) | random.next(keys);
        let slot = random.next(slots);
        let owned = K::owned(number);
        let probe = K::probe_of(&owned, slot);
        let pin = host.reclaimer.pin();
        if random.next(10) < if growing { 8 } else { 1 } {
            let added = tree.insert(probe, &host, &pin).expect("memory");
            assert_eq!(added, model.insert((number, slot)));
            let own = if added { K::bytes(probe) } else { 0 };
            host.bytes.fetch_add(own, Ordering::Relaxed);
        } else if let Some(&(number, slot)) = model.range((number, slot)..).next() {
            let owned = K::owned(number);
            let removed = tree.remove(K::probe_of(&owned, slot), &host, &pin);
            assert!(removed && model.remove(&(number, slot)));
        } else {
            assert!(!tree.remove(probe, &host, &pin) || model.remove(&(number, slot)));
        }
        drop(pin);
        host.reclaimer.reclaim();
        if step % 37 != 0 {
            continue;
        }
        let counted = host.bytes.load(Ordering::Relaxed);
        assert_eq!(tree.audit(), counted, "bytes that are counted");
        let [(from, from_slot), (to, to_slot)] = [(); 2].map(|()| {
            (
                (random.next(keys) << 58) | random.next(keys),
                random.next(slots),
            )
        });
        let (one, other) = (K::owned(from), K::owned(to));
        let (start, end) = (K::probe_of(&one, from_slot), K::probe_of(&other, to_slot));
        let most = match random.next(2) {
            0 => usize::MAX,
            _ => random.next(9) as usize,
        };
        for (from_edge, least) in [
            (Edge::Least, None),
            (Edge::Before(start), Some(((from, from_slot), true))),
            (Edge::After(start), Some(((from, from_slot), false))),
        ] {
            for (to_edge, greatest) in [
                (Edge::Greatest, None),
                (Edge::Before(end), Some(((to, to_slot), false))),
                (Edge::After(end), Some(((to, to_slot), true))),
            ] {
                let within = |entry: &&(u64, u64)| {
                    least.is_none_or(|(end, with)| **entry > end || with && **entry == end)
                        && greatest
                            .is_none_or(|(end, with)| **entry < end || with && **entry == end)
                };
                let expected: Vec<_> = model.iter().filter(within).copied().collect();
                let ends = (from_edge, to_edge);
                let forward: Vec<_> = expected.iter().take(most).copied().collect();
                assert_eq!(all(&tree, ends, false, most, &host), forward);
                let backward: Vec<_> = expected.iter().rev().take(most).copied().collect();
                assert_eq!(all(&tree, ends, true, most, &host), backward);
            }
        }
        let mut found = Vec::new();
        let pin = host.reclaimer.pin();
        let ends = (K::probe_of(&one, 0), K::probe_of(&one, u64::MAX));
        if tree
            .slots_in_leaf(ends.0, ends.1, &mut found, &pin)
            .is_some()
        {
            let slots = model.range((from, 0)..=(from, u64::MAX));
            assert_eq!(found, slots.map(|entry| entry.1).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_tree_agrees_with_a_set() {
    for seed in 0..6 {
        agrees_with_a_set::<Number>(seed, 40, 3);
        agrees_with_a_set::<Number>(seed, 2, 100);
        agrees_with_a_set::<Bytes>(seed, 40, 3);
        agrees_with_a_set::<Bytes>(seed, 2, 100);
    }
}

#[test]
fn a_tree_that_is_emptied_gives_its_nodes_back() {
    for step in [1, 7_919] {
        let tree = Tree::<Standard, Number, SMALL>::new();
        let host = Counted::new(&tree);
        let pin = host.reclaimer.pin();
        for number in 0..10_000 {
            tree.insert((number, 0), &host, &pin).expect("memory");
        }
        let full = host.bytes.load(Ordering::Relaxed);
        for number in 0..10_000 {
            assert!(tree.remove((number * step % 10_000, 0), &host, &pin));
        }
        let left = host.bytes.load(Ordering::Relaxed);
        assert!(left < full / 50, "{left} of {full} bytes are left");
        assert_eq!(tree.audit(), left);
    }
}

/// Entries that are there all the time are seen just once, in order, by each scan beside writers that add and remove their neighbours.
fn scans_are_complete<K: Entry>(rounds: usize) {
    const STABLE: u64 = 300;
    const WRITERS: u64 = 3;
    for round in 0..rounds {
        let tree = Tree::<Standard, K, SMALL>::new();
        let host = Counted::new(&tree);
        for number in 0..STABLE {
            let owned = K::owned(number << 8);
            let pin = host.reclaimer.pin();
            tree.insert(K::probe_of(&owned, number % 3), &host, &pin)
                .expect("memory");
        }
        let expected: Vec<(u64, u64)> = (0..STABLE)
            .map(|number| (number << 8, number % 3))
            .collect();
        let done = AtomicBool::new(false);
        let barrier = Barrier::new(WRITERS as usize + 2);
        std::thread::scope(|scope| {
            for reverse in [false, true] {
                let (tree, host, done, barrier, expected) =
                    (&tree, &host, &done, &barrier, &expected);
                scope.spawn(move || {
                    barrier.wait();
                    while !done.load(Ordering::Acquire) {
                        let ends = (Edge::Least, Edge::Greatest);
                        let mut found = all(tree, ends, reverse, usize::MAX, host);
                        if reverse {
                            found.reverse();
                        }
                        assert!(found.is_sorted_by(|one, other| one < other));
                        found.retain(|entry| entry.0 & 0xff == 0);
                        assert_eq!(&found, expected);
                    }
                });
            }
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (tree, host, barrier) = (&tree, &host, &barrier);
                    scope.spawn(move || {
                        let mut random = Random(round as u64 * WRITERS + writer);
                        let mut mine = BTreeSet::new();
                        barrier.wait();
                        for step in 0..1_500 {
                            // Runs of neighbours come and go, so that leaves fill and empty.
                            let place = random.next(STABLE / 8) * 8 + step % 8;
                            let number = (place << 8) + 1 + writer * 50 + random.next(20);
                            let owned = K::owned(number);
                            let probe = K::probe_of(&owned, 0);
                            let pin = host.reclaimer.pin();
                            if step / 200 % 2 == 0 {
                                let added = tree.insert(probe, host, &pin).expect("memory");
                                assert_eq!(added, mine.insert(number));
                            } else {
                                let number = mine.range(number..).next().copied();
                                if let Some(number) = number {
                                    let owned = K::owned(number);
                                    assert!(tree.remove(K::probe_of(&owned, 0), host, &pin));
                                    mine.remove(&number);
                                }
                            }
                            drop(pin);
                            host.reclaimer.reclaim();
                        }
                        mine
                    })
                })
                .collect();
            let mut left: BTreeSet<(u64, u64)> = expected.iter().copied().collect();
            for writer in writers {
                let mine = writer.join().expect("a writer");
                left.extend(mine.into_iter().map(|number| (number, 0)));
            }
            done.store(true, Ordering::Release);
            let ends = (Edge::Least, Edge::Greatest);
            let found = all(&tree, ends, false, usize::MAX, &host);
            assert_eq!(found, left.into_iter().collect::<Vec<_>>());
        });
        tree.audit();
    }
}

/// Rounds of the concurrent tests: `FIRNDB_STRESS` asks for more.
fn rounds() -> usize {
    let wanted = std::env::var("FIRNDB_STRESS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(8)
}

#[test]
fn scans_of_numbers_are_complete_beside_writers() {
    scans_are_complete::<Number>(rounds());
}

#[test]
fn scans_of_bytes_are_complete_beside_writers() {
    scans_are_complete::<Bytes>(rounds());
}

/// The height of a tree of nodes as the indexes have them, for these tests.
const TALL: usize = 5;

#[test]
fn inserting_in_any_order_visits_a_path_an_entry() {
    const ENTRIES: u64 = 200_000;
    let orders: [fn(u64) -> u64; 3] = [
        |number| number,
        |number| ENTRIES - number,
        |number| number * 7_919 % ENTRIES,
    ];
    for order in orders {
        let tree = Tree::<Standard, Number, 125>::new();
        let host = Counted::new(&tree);
        let pin = host.reclaimer.pin();
        let ((), visited) = visits::of(|| {
            for number in 0..ENTRIES {
                tree.insert((order(number), 0), &host, &pin)
                    .expect("memory");
            }
        });
        assert!(visited < ENTRIES as usize * TALL, "{visited} nodes");
        let bytes = host.bytes.load(Ordering::Relaxed) / ENTRIES as usize;
        assert!(bytes < 34, "{bytes} bytes an entry");
    }
}

#[test]
fn a_short_range_visits_few_nodes() {
    const ENTRIES: u64 = 200_000;
    let tree = Tree::<Standard, Number, 125>::new();
    let host = Counted::new(&tree);
    let pin = host.reclaimer.pin();
    for number in 0..ENTRIES {
        tree.insert((1_000 + number, 0), &host, &pin)
            .expect("memory");
    }
    let below: Edge<'_, Number> = Edge::Before((0, 0));
    for (ends, reverse, most, expected) in [
        // Begins before the least key.
        ((below, Edge::Before((1_010, 0))), false, usize::MAX, 10),
        ((below, Edge::Before((1_010, 0))), true, usize::MAX, 10),
        (
            (Edge::Least, Edge::Before((1_010, 0))),
            false,
            usize::MAX,
            10,
        ),
        ((below, Edge::Before((900, 0))), false, usize::MAX, 0),
        ((Edge::Least, Edge::Greatest), false, 10, 10),
        ((Edge::Least, Edge::Greatest), true, 10, 10),
        ((below, Edge::Greatest), true, 10, 10),
        (
            (Edge::After((ENTRIES + 2_000, 0)), Edge::Greatest),
            false,
            10,
            0,
        ),
    ] {
        let (found, visited) = visits::of(|| {
            let mut found = Vec::new();
            tree.scan(ends, reverse, most, &mut found, &pin);
            found.len()
        });
        assert_eq!(found, expected);
        assert!(visited <= 2 * TALL, "{visited} nodes");
    }
    let (found, visited) = visits::of(|| {
        let mut found = Vec::new();
        tree.scan(
            (Edge::Least, Edge::Greatest),
            false,
            usize::MAX,
            &mut found,
            &pin,
        );
        found.len()
    });
    assert_eq!(found, ENTRIES as usize);
    assert!(visited < ENTRIES as usize / 10, "{visited} nodes");
}
