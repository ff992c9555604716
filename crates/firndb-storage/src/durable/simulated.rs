//! A simulated disk: files in memory that lose, tear and mix up what was not synced, and fail on demand.
//!
//! Every operation is recorded. [`Crashes`] replays the record and makes, for any of its prefixes, the disk that a crash at that moment may leave: what was
//! synced is there; of each later write all, nothing, or some of its sectors; of operations on names a prefix. A write that overlaps an earlier one comes
//! after it. [`Fault`]s happen while the program runs.

use std::collections::{BTreeMap, HashMap};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::host::{Access, Holder, Host, HostFile, Lock};

/// The least that a disk writes as a whole.
const SECTOR: usize = 512;

/// What goes wrong, at the `nth` operation of its kind from now on (the next one is 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A write fails after some of its bytes.
    FailWrite {
        /// Which one.
        nth: usize,
        /// Bytes that are written.
        written: usize,
        /// How it fails.
        kind: ErrorKind,
    },
    /// A write is reported as done and is not.
    LoseWrite {
        /// Which one.
        nth: usize,
    },
    /// A write goes elsewhere, that many bytes further.
    MisdirectWrite {
        /// Which one.
        nth: usize,
        /// How much further.
        by: u64,
    },
    /// A sync fails.
    FailSync {
        /// Which one.
        nth: usize,
    },
    /// A read gives a flipped bit.
    FlipRead {
        /// Which one.
        nth: usize,
        /// Which bit of what is read, modulo its length.
        bit: usize,
    },
    /// A read fails.
    FailRead {
        /// Which one.
        nth: usize,
    },
}

#[derive(Debug, Clone)]
enum Event {
    Write(u64, u64, Arc<[u8]>),
    Length(u64, u64),
    Sync(u64),
    Name(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncNames,
}

#[derive(Debug, Default)]
struct World {
    files: HashMap<u64, Vec<u8>>,
    names: BTreeMap<PathBuf, u64>,
    next: u64,
    trace: Vec<Event>,
    traced: bool,
    /// What was there, durable, when recording began.
    base: (HashMap<u64, Vec<u8>>, BTreeMap<PathBuf, u64>),
    faults: Vec<Fault>,
    /// Bytes that fit on the disk.
    capacity: Option<u64>,
    /// How long a sync takes.
    latency: Duration,
}

/// A simulated disk. Cheap to clone; clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct Simulated(Arc<Mutex<World>>);

#[derive(Debug)]
struct SimulatedFile {
    disk: Simulated,
    number: u64,
}

/// A small generator of numbers (xorshift), so that a run can be repeated.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    /// A number below `below`, which is not 0.
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

impl Simulated {
    /// An empty disk that records what is done.
    pub fn recording() -> Self {
        let disk = Self::default();
        disk.record();
        disk
    }

    /// Records what is done from now on. What is there now is durable.
    pub fn record(&self) {
        let mut world = self.world();
        world.base = (world.files.clone(), world.names.clone());
        world.trace.clear();
        world.traced = true;
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fault.
    pub fn inject(&self, fault: Fault) {
        self.world().faults.push(fault);
    }

    /// Takes all faults away.
    pub fn heal(&self) {
        self.world().faults.clear();
    }

    /// Sets how many bytes fit, all files together.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world().capacity = bytes;
    }

    /// Sets how long a sync takes.
    pub fn set_latency(&self, latency: Duration) {
        self.world().latency = latency;
    }

    /// Bytes in all files.
    pub fn used(&self) -> u64 {
        self.world().used()
    }

    /// Operations recorded so far.
    pub fn recorded(&self) -> usize {
        self.world().trace.len()
    }

    /// What is in a file, if there is one.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let world = self.world();
        world.files.get(world.names.get(path)?).cloned()
    }

    /// Puts a file there.
    pub fn place(&self, path: &Path, bytes: Vec<u8>) {
        let mut world = self.world();
        let number = world.number(path);
        world.files.insert(number, bytes);
    }

    /// A copy of the disk as it is, without its record.
    pub fn copy(&self) -> Self {
        let world = self.world();
        Self(Arc::new(Mutex::new(World {
            files: world.files.clone(),
            names: world.names.clone(),
            next: world.next,
            ..World::default()
        })))
    }

    /// The crashes that the record allows.
    pub fn crashes(&self) -> Crashes {
        let world = self.world();
        Crashes {
            trace: world.trace.clone(),
            done: 0,
            durable: world.base.0.clone(),
            names: world.base.1.clone(),
            pending: Vec::new(),
            pending_names: Vec::new(),
        }
    }
}

impl World {
    fn used(&self) -> u64 {
        self.names
            .values()
            .filter_map(|number| self.files.get(number))
            .map(|bytes| bytes.len() as u64)
            .sum()
    }

    fn record(&mut self, event: Event) {
        if self.traced {
            self.trace.push(event);
        }
    }

    /// The file of a name, made if there is none.
    fn number(&mut self, path: &Path) -> u64 {
        if let Some(&number) = self.names.get(path) {
            return number;
        }
        self.next += 1;
        let number = self.next;
        self.names.insert(path.to_owned(), number);
        self.files.insert(number, Vec::new());
        self.record(Event::Name(path.to_owned(), number));
        number
    }

    /// The fault of the next operation of a kind, if it is due.
    fn fault(&mut self, count: impl Fn(&mut Fault) -> Option<&mut usize>) -> Option<Fault> {
        let mut due = None;
        for (at, fault) in self.faults.iter_mut().enumerate() {
            if let Some(nth) = count(fault) {
                match *nth {
                    0 if due.is_none() => due = Some(at),
                    0 => {}
                    _ => *nth -= 1,
                }
            }
        }
        due.map(|at| self.faults.remove(at))
    }
}

fn put(bytes: &mut Vec<u8>, at: u64, new: &[u8]) {
    let end = at as usize + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at as usize..end].copy_from_slice(new);
}

impl Host for Simulated {
    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn HostFile>> {
        let mut world = self.world();
        let exists = world.names.contains_key(path);
        if !exists && matches!(access, Access::Read | Access::Write) {
            return Err(Error::new(ErrorKind::NotFound, "no such file"));
        }
        let number = world.number(path);
        if access == Access::Truncate && exists {
            world.files.insert(number, Vec::new());
            world.record(Event::Length(number, 0));
        }
        Ok(Arc::new(SimulatedFile {
            disk: self.clone(),
            number,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut world = self.world();
        let number = world
            .names
            .remove(from)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "no such file"))?;
        world.names.insert(to.to_owned(), number);
        world.record(Event::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut world = self.world();
        world
            .names
            .remove(path)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "no such file"))?;
        world.record(Event::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_directory(&self, _of: &Path) -> Result<()> {
        self.world().record(Event::SyncNames);
        Ok(())
    }

    fn exists(&self, path: &Path) -> bool {
        self.world().names.contains_key(path)
    }
}

impl HostFile for SimulatedFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        let mut world = self.disk.world();
        let fault = world.fault(|fault| match fault {
            Fault::FlipRead { nth, .. } | Fault::FailRead { nth } => Some(nth),
            _ => None,
        });
        let file = world.files.get(&self.number).map_or(&[][..], Vec::as_slice);
        let found = file
            .get(at as usize..)
            .and_then(|rest| rest.get(..bytes.len()))
            .ok_or_else(|| Error::new(ErrorKind::UnexpectedEof, "the file ends before"))?;
        bytes.copy_from_slice(found);
        match fault {
            Some(Fault::FlipRead { bit, .. }) if !bytes.is_empty() => {
                let bit = bit % (8 * bytes.len());
                bytes[bit / 8] ^= 1 << (bit % 8);
                Ok(())
            }
            Some(Fault::FailRead { .. }) => Err(Error::from_raw_os_error(libc::EIO)),
            _ => Ok(()),
        }
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        let mut world = self.disk.world();
        let fault = world.fault(|fault| match fault {
            Fault::FailWrite { nth, .. }
            | Fault::LoseWrite { nth }
            | Fault::MisdirectWrite { nth, .. } => Some(nth),
            _ => None,
        });
        let (mut done, mut place, mut result) = (bytes.len(), at, Ok(()));
        match fault {
            Some(Fault::FailWrite { written, kind, .. }) => {
                done = written.min(done);
                result = Err(Error::from(kind));
            }
            Some(Fault::LoseWrite { .. }) => done = 0,
            Some(Fault::MisdirectWrite { by, .. }) => place += by,
            _ => {}
        }
        let length = world.files.get(&self.number).map_or(0, Vec::len) as u64;
        if let Some(capacity) = world.capacity {
            let room = capacity.saturating_sub(world.used());
            let most = (length + room).saturating_sub(place) as usize;
            if done > most {
                done = most;
                result = Err(Error::from(ErrorKind::StorageFull));
            }
        }
        if done > 0 {
            put(
                world.files.entry(self.number).or_default(),
                place,
                &bytes[..done],
            );
            world.record(Event::Write(self.number, place, bytes[..done].into()));
        }
        result
    }

    fn sync(&self) -> Result<()> {
        let latency = self.disk.world().latency;
        if !latency.is_zero() {
            std::thread::sleep(latency);
        }
        let mut world = self.disk.world();
        let fault = world.fault(|fault| match fault {
            Fault::FailSync { nth } => Some(nth),
            _ => None,
        });
        if fault.is_some() {
            return Err(Error::from_raw_os_error(libc::EIO));
        }
        world.record(Event::Sync(self.number));
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        Ok(self
            .disk
            .world()
            .files
            .get(&self.number)
            .map_or(0, Vec::len) as u64)
    }

    fn set_length(&self, length: u64) -> Result<()> {
        let mut world = self.disk.world();
        world
            .files
            .entry(self.number)
            .or_default()
            .resize(length as usize, 0);
        world.record(Event::Length(self.number, length));
        Ok(())
    }

    fn lock(&self, _lock: Lock) -> Result<std::result::Result<(), Holder>> {
        Ok(Ok(()))
    }
}

/// The disks that crashes may leave, prefix by prefix of what was done.
#[derive(Debug)]
pub struct Crashes {
    trace: Vec<Event>,
    done: usize,
    durable: HashMap<u64, Vec<u8>>,
    names: BTreeMap<PathBuf, u64>,
    pending: Vec<Event>,
    pending_names: Vec<Event>,
}

impl Crashes {
    /// Operations in the record.
    pub fn len(&self) -> usize {
        self.trace.len()
    }

    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.trace.is_empty()
    }

    /// Goes on to a crash after that many operations. They only grow.
    pub fn advance(&mut self, operations: usize) {
        while self.done < operations.min(self.trace.len()) {
            let event = self.trace[self.done].clone();
            self.done += 1;
            match event {
                Event::Write(..) | Event::Length(..) => self.pending.push(event),
                Event::Sync(number) => {
                    let (synced, rest) = std::mem::take(&mut self.pending)
                        .into_iter()
                        .partition(|event| of(event) == Some(number));
                    self.pending = rest;
                    let synced: Vec<Event> = synced;
                    for event in &synced {
                        apply(&mut self.durable, event, None);
                    }
                }
                Event::Name(..) | Event::Rename(..) | Event::Remove(..) => {
                    self.pending_names.push(event);
                }
                Event::SyncNames => {
                    for event in std::mem::take(&mut self.pending_names) {
                        rename(&mut self.names, &event);
                    }
                }
            }
        }
    }

    /// A disk that a crash may leave now.
    pub fn disk(&self, random: &mut Random) -> Simulated {
        let mut files = self.durable.clone();
        // Some crashes lose everything that they may, some nothing, most a mixture.
        let mood = random.below(4);
        for event in &self.pending {
            match if mood < 2 { mood } else { random.below(3) } {
                0 => {}
                1 => apply(&mut files, event, None),
                _ => apply(&mut files, event, Some(random)),
            }
        }
        let mut names = self.names.clone();
        let kept = match mood {
            0 => 0,
            1 => self.pending_names.len(),
            _ => random.below(self.pending_names.len() as u64 + 1) as usize,
        };
        for event in &self.pending_names[..kept] {
            rename(&mut names, event);
        }
        for number in names.values() {
            files.entry(*number).or_default();
        }
        let next = files.keys().copied().max().unwrap_or(0);
        Simulated(Arc::new(Mutex::new(World {
            files,
            names,
            next,
            ..World::default()
        })))
    }
}

fn of(event: &Event) -> Option<u64> {
    match event {
        Event::Write(number, ..) | Event::Length(number, _) => Some(*number),
        _ => None,
    }
}

/// Applies a write; with `torn` only some of its sectors, or bytes of its end, come through.
fn apply(files: &mut HashMap<u64, Vec<u8>>, event: &Event, torn: Option<&mut Random>) {
    match event {
        Event::Length(number, length) => {
            files
                .entry(*number)
                .or_default()
                .resize(*length as usize, 0);
        }
        Event::Write(number, at, bytes) => {
            let file = files.entry(*number).or_default();
            let Some(random) = torn else {
                put(file, *at, bytes);
                return;
            };
            if random.below(2) == 0 {
                let written = random.below(bytes.len() as u64 + 1) as usize;
                put(file, *at, &bytes[..written]);
                return;
            }
            for (sector, bytes) in bytes.chunks(SECTOR).enumerate() {
                if random.below(2) == 0 {
                    put(file, at + (sector * SECTOR) as u64, bytes);
                }
            }
        }
        _ => {}
    }
}

fn rename(names: &mut BTreeMap<PathBuf, u64>, event: &Event) {
    match event {
        Event::Name(path, number) => {
            names.insert(path.clone(), *number);
        }
        Event::Rename(from, to) => {
            if let Some(number) = names.remove(from) {
                names.insert(to.clone(), number);
            }
        }
        Event::Remove(path) => {
            names.remove(path);
        }
        _ => {}
    }
}
