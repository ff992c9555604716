//! The programs of a session, by the text of their statements.
//!
//! All of them belong to one version of the catalog and one state of the session's own names; when either has changed, all go.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::program::Program;
use crate::catalog::SchemaEntry;

/// Texts that are kept, and the bytes of the longest.
const KEPT: usize = 512;
const LONGEST: usize = 4 << 10;

/// What programs are compiled under.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// The catalog's version.
    pub version: u64,
    /// The session's own objects.
    pub temporary: Arc<SchemaEntry>,
}

impl Stamp {
    fn is(&self, other: &Stamp) -> bool {
        self.version == other.version && Arc::ptr_eq(&self.temporary, &other.temporary)
    }
}

/// A session's programs.
#[derive(Debug)]
pub struct Cache {
    enabled: bool,
    stamp: Option<Stamp>,
    programs: HashMap<Box<str>, Entry, ahash::RandomState>,
    /// Hashes of texts without parameters that have run once.
    seen: HashSet<u64, ahash::RandomState>,
}

#[derive(Debug)]
enum Entry {
    Program(Arc<Program>),
    /// It always takes the general way.
    General,
}

impl Default for Cache {
    fn default() -> Self {
        Cache {
            enabled: true,
            stamp: None,
            programs: HashMap::default(),
            seen: HashSet::default(),
        }
    }
}

impl Cache {
    /// Whether statements are compiled.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Says whether statements are compiled.
    pub fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
        self.clear();
    }

    /// Whether there is no program.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// Whether a text without parameters has run before: most such texts run once.
    pub fn is_seen(&mut self, text: &str) -> bool {
        let hash = self.programs.hasher().hash_one(text);
        if self.seen.len() >= KEPT {
            self.seen.clear();
        }
        !self.seen.insert(hash)
    }

    /// Forgets the programs of another version of the catalog, which keep its tables.
    pub fn keep_version(&mut self, version: u64) {
        if self
            .stamp
            .as_ref()
            .is_some_and(|stamp| stamp.version != version)
        {
            self.clear();
        }
    }

    /// Forgets all programs.
    pub fn clear(&mut self) {
        self.programs.clear();
        self.stamp = None;
    }

    /// The program of a text, if it has one under the session's own objects, and the catalog's version that it is of.
    pub fn find(
        &mut self,
        text: &str,
        temporary: &Arc<SchemaEntry>,
    ) -> Option<(Arc<Program>, u64)> {
        let stamp = self.stamp.as_ref()?;
        if !Arc::ptr_eq(&stamp.temporary, temporary) {
            self.clear();
            return None;
        }
        match self.programs.get(text)? {
            Entry::Program(program) => Some((Arc::clone(program), stamp.version)),
            Entry::General => None,
        }
    }

    /// Whether a text, which has no program under a stamp, should be compiled.
    pub fn wants(&self, text: &str, stamp: &Stamp) -> bool {
        let known = self.stamp.as_ref().is_some_and(|own| own.is(stamp));
        self.enabled && text.len() <= LONGEST && !(known && self.programs.contains_key(text))
    }

    /// Keeps what became of compiling a text.
    pub fn put(&mut self, text: &str, stamp: Stamp, program: Option<Program>) {
        if !self.stamp.as_ref().is_some_and(|own| own.is(&stamp)) {
            self.clear();
            self.stamp = Some(stamp);
        }
        if self.programs.len() >= KEPT {
            self.programs.clear();
        }
        let entry = program.map_or(Entry::General, |program| Entry::Program(Arc::new(program)));
        self.programs.insert(text.into(), entry);
    }
}
