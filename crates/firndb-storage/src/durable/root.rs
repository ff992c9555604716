//! The head of the database file: what it is, and the two roots.
//!
//! ```text
//!       0  head     magic, format version, salt, checksum          written once
//!    4096  root 0   ┐ the one with the greater sequence number and a right checksum holds;
//!    8192  root 1   ┘ a checkpoint overwrites the other
//!   12288  segments, each at a multiple of 4096
//! ```

use super::wire::{Decoder, Encoder};
use crate::{Error, Result};

/// Everything in the file begins at a multiple of it.
pub(super) const PAGE: u64 = 4096;
/// Where segments begin.
pub(super) const SEGMENTS: u64 = 3 * PAGE;
/// The version of the format that this program writes.
pub(super) const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"FIRNDB\x00\x01";
const ROOT: &[u8; 8] = b"FIRNROOT";
const HEAD_BYTES: usize = 32;
const ROOT_BYTES: usize = 160;

/// The first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// A random number: the database's own, also in its log.
    pub(super) salt: u64,
}

impl Head {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut out = Encoder(MAGIC.to_vec());
        out.u32(VERSION);
        out.u32(PAGE as u32);
        out.u64(self.salt);
        out.u32(0);
        out.u32(crc32c::crc32c(&out.0));
        out.0
    }

    /// Reads the first page of the file called `name`.
    pub(super) fn decode(page: &[u8], name: &str) -> Result<Self> {
        let bytes = page.get(..HEAD_BYTES).unwrap_or_default();
        if bytes.get(..8) != Some(MAGIC) {
            return Err(Error::NotADatabase(format!(
                "{name} is not a FirnDB database"
            )));
        }
        let mut input = Decoder::new(&bytes[8..], "the head of the file");
        let version = input.u32()?;
        input.u32()?;
        let salt = input.u64()?;
        if crc32c::crc32c(&bytes[..28]).to_le_bytes() != bytes[28..32] {
            return Err(Error::Damaged(format!(
                "{name} is damaged: the checksum of its first page is wrong"
            )));
        }
        if version > VERSION {
            return Err(Error::Newer(format!(
                "{name} has version {version} of the file format; this program reads up to {VERSION}"
            )));
        }
        Ok(Self { salt })
    }
}

/// A part of the file with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Segment {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// XXH3 of its bytes.
    pub(super) checksum: u64,
}

impl Segment {
    fn encode(self, out: &mut Encoder) {
        out.u64(self.offset);
        out.u64(self.length);
        out.u64(self.checksum);
    }
    fn decode(input: &mut Decoder<'_>) -> Result<Self> {
        Ok(Self {
            offset: input.u64()?,
            length: input.u64()?,
            checksum: input.u64()?,
        })
    }
}

/// A state of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Root {
    pub(super) sequence: u64,
    /// Where in the log the changes begin that are not in this state.
    pub(super) lsn: u64,
    /// The checksum of the group before that place.
    pub(super) chain: u32,
    /// Whether there are none, and the log may be missing.
    pub(super) clean: bool,
    /// The next number of a table.
    pub(super) next_table: u64,
    pub(super) tables: Segment,
    pub(super) extents: Segment,
    pub(super) objects: Segment,
}

impl Root {
    pub(super) fn encode(&self, salt: u64) -> Vec<u8> {
        let mut out = Encoder(ROOT.to_vec());
        out.u64(salt);
        out.u64(self.sequence);
        out.u64(self.lsn);
        out.u32(self.chain);
        out.u32(u32::from(self.clean));
        out.u64(self.next_table);
        self.tables.encode(&mut out);
        self.extents.encode(&mut out);
        self.objects.encode(&mut out);
        out.0.resize(ROOT_BYTES - 4, 0);
        out.u32(crc32c::crc32c(&out.0));
        out.0
    }

    /// A valid root of this database.
    pub(super) fn decode(page: &[u8], salt: u64) -> Option<Self> {
        let bytes = page.get(..ROOT_BYTES)?;
        let is_whole =
            crc32c::crc32c(&bytes[..ROOT_BYTES - 4]).to_le_bytes() == bytes[ROOT_BYTES - 4..];
        if !is_whole || &bytes[..8] != ROOT {
            return None;
        }
        let mut input = Decoder::new(&bytes[8..], "a root");
        if input.u64().ok()? != salt {
            return None;
        }
        Some(Self {
            sequence: input.u64().ok()?,
            lsn: input.u64().ok()?,
            chain: input.u32().ok()?,
            clean: input.u32().ok()? != 0,
            next_table: input.u64().ok()?,
            tables: Segment::decode(&mut input).ok()?,
            extents: Segment::decode(&mut input).ok()?,
            objects: Segment::decode(&mut input).ok()?,
        })
    }

    /// Where a root of a sequence number is kept.
    pub(super) fn place(sequence: u64) -> u64 {
        PAGE * (1 + sequence % 2)
    }
}
