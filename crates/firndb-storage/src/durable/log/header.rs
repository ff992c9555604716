//! The headers of a log and of its groups, byte by byte.

use super::Place;
use crate::durable::wire::{Decoder, Encoder};
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"FIRNWAL\x01";
const GROUP: u32 = u32::from_le_bytes(*b"FGRP");
/// The version of the log's format.
const VERSION: u32 = 1;

/// What a log begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::durable) struct LogHeader {
    /// The database's own number.
    pub(in crate::durable) salt: u64,
    /// LSN of the first byte after the header.
    pub(in crate::durable) first: u64,
    /// Sequence number of the root that it was begun for: of an older root it may say nothing.
    pub(in crate::durable) root: u64,
    /// What the first group names as its predecessor.
    pub(in crate::durable) chain: u32,
}

impl LogHeader {
    pub(in crate::durable) fn encode(&self) -> [u8; 64] {
        let mut out = Encoder(MAGIC.to_vec());
        out.u32(VERSION);
        out.u32(self.chain);
        out.u64(self.salt);
        out.u64(self.first);
        out.u64(self.root);
        out.0.resize(60, 0);
        out.u32(crc32c::crc32c(&out.0));
        let mut bytes = [0; 64];
        bytes.copy_from_slice(&out.0);
        bytes
    }

    pub(in crate::durable) fn decode(bytes: &[u8; 64], name: &str) -> Result<Self> {
        let mut input = Decoder::new(bytes, "a log's header");
        let magic = input.take(8)?;
        let version = input.u32()?;
        let header = Self {
            chain: input.u32()?,
            salt: input.u64()?,
            first: input.u64()?,
            root: input.u64()?,
        };
        let is_whole = crc32c::crc32c(&bytes[..60]).to_le_bytes() == bytes[60..];
        match magic == MAGIC && is_whole {
            true if version > VERSION => Err(Error::Newer(format!(
                "{name} has version {version} of the log's format; this program reads up to {VERSION}"
            ))),
            true => Ok(header),
            false => Err(Error::Damaged(format!(
                "{name} is damaged: its header is not valid"
            ))),
        }
    }
}

/// Bytes of a group's header.
pub(in crate::durable) const GROUP_HEADER: usize = 48;

/// What a group begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::durable) struct GroupHeader {
    pub(in crate::durable) checksum: u32,
    pub(in crate::durable) lsn: u64,
    pub(in crate::durable) synced: u64,
    pub(in crate::durable) salt: u64,
    pub(in crate::durable) length: u32,
    pub(in crate::durable) payload: u32,
    pub(in crate::durable) chain: u32,
}

impl GroupHeader {
    /// The header of a payload that comes after `end`.
    pub(in crate::durable) fn of(payload: &[u8], end: Place, synced: u64, salt: u64) -> Self {
        let mut header = Self {
            checksum: 0,
            lsn: end.lsn,
            synced,
            salt,
            length: payload.len() as u32,
            payload: crc32c::crc32c(payload),
            chain: end.chain,
        };
        header.checksum = crc32c::crc32c(&header.encode()[8..]);
        header
    }

    pub(in crate::durable) fn encode(&self) -> [u8; GROUP_HEADER] {
        let mut out = Encoder::default();
        out.u32(GROUP);
        out.u32(self.checksum);
        out.u64(self.lsn);
        out.u64(self.synced);
        out.u64(self.salt);
        out.u32(self.length);
        out.u32(self.payload);
        out.u32(self.chain);
        out.u32(0);
        let mut bytes = [0; GROUP_HEADER];
        bytes.copy_from_slice(&out.0);
        bytes
    }

    /// A valid header at an LSN of this log.
    pub(in crate::durable) fn decode(bytes: &[u8], lsn: u64, salt: u64) -> Option<Self> {
        let bytes = bytes.get(..GROUP_HEADER)?;
        let mut input = Decoder::new(bytes, "a group's header");
        let magic = input.u32().ok()?;
        let header = Self {
            checksum: input.u32().ok()?,
            lsn: input.u64().ok()?,
            synced: input.u64().ok()?,
            salt: input.u64().ok()?,
            length: input.u32().ok()?,
            payload: input.u32().ok()?,
            chain: input.u32().ok()?,
        };
        let is_ours = magic == GROUP && header.lsn == lsn && header.salt == salt;
        (is_ours && crc32c::crc32c(&bytes[8..]) == header.checksum).then_some(header)
    }
}
