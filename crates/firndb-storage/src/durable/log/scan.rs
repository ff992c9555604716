//! Reading a log from its beginning, and telling a torn tail from damage.

use super::header::GROUP_HEADER;
use super::{GroupHeader, HEADER, LogHeader, Place};
use crate::durable::host::HostFile;
use crate::durable::wire::Decoder;
use crate::{Error, Result};

/// What was found in a log.
#[derive(Debug, Clone, Copy)]
pub(in crate::durable) struct Scanned {
    /// Where the last whole group ends.
    pub(in crate::durable) end: Place,
    /// Bytes of a group behind it that a crash left unfinished.
    pub(in crate::durable) torn: u64,
}

/// Gives every record of the groups after `from` to `take`, in their order.
pub(in crate::durable) fn scan(
    file: &dyn HostFile,
    name: &str,
    header: &LogHeader,
    from: Place,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Scanned> {
    let failed = |error| Error::io(error, &format!("reading {name}"));
    let length = file.length().map_err(failed)?;
    let mut end = from;
    loop {
        let at = HEADER + (end.lsn - header.first);
        let Some((group, payload)) = read_group(file, header, end, at, length).map_err(failed)?
        else {
            let torn = torn_bytes(file, at, length).map_err(failed)?;
            if torn > 0 && is_below_synced(file, header, end.lsn, at, length).map_err(failed)? {
                return Err(Error::Damaged(format!(
                    "{name} is damaged at byte {at}: records that were durable can't be read"
                )));
            }
            return Ok(Scanned { end, torn });
        };
        let mut records = Decoder::new(&payload, "a record of the log");
        while !records.is_empty() {
            let length = records.u32()? as usize;
            take(records.take(length)?)?;
        }
        end = Place {
            lsn: end.lsn + (GROUP_HEADER + payload.len()).next_multiple_of(8) as u64,
            chain: group.checksum,
        };
    }
}

/// The group at a place of the file, if a whole one is there that follows the one before.
fn read_group(
    file: &dyn HostFile,
    header: &LogHeader,
    end: Place,
    at: u64,
    length: u64,
) -> std::io::Result<Option<(GroupHeader, Vec<u8>)>> {
    if at + GROUP_HEADER as u64 > length {
        return Ok(None);
    }
    let mut bytes = [0; GROUP_HEADER];
    file.read_at(&mut bytes, at)?;
    let found = GroupHeader::decode(&bytes, end.lsn, header.salt).filter(|group| {
        group.chain == end.chain && at + (GROUP_HEADER as u64 + u64::from(group.length)) <= length
    });
    let Some(group) = found else {
        return Ok(None);
    };
    let mut payload = vec![0; group.length as usize];
    file.read_at(&mut payload, at + GROUP_HEADER as u64)?;
    Ok((crc32c::crc32c(&payload) == group.payload).then_some((group, payload)))
}

const PIECE: usize = 1 << 20;

/// Bytes from a place on up to the last that is not zero.
fn torn_bytes(file: &dyn HostFile, at: u64, length: u64) -> std::io::Result<u64> {
    let mut last = 0;
    let mut place = at;
    while place < length {
        let mut piece = vec![0; PIECE.min((length - place) as usize)];
        file.read_at(&mut piece, place)?;
        if let Some(found) = piece.iter().rposition(|&byte| byte != 0) {
            last = place + found as u64 + 1 - at;
        }
        place += piece.len() as u64;
    }
    Ok(last)
}

/// Whether a header behind a place says that the log was durable beyond it.
fn is_below_synced(
    file: &dyn HostFile,
    header: &LogHeader,
    lsn: u64,
    at: u64,
    length: u64,
) -> std::io::Result<bool> {
    let mut place = at;
    while place + (GROUP_HEADER as u64) <= length {
        let mut piece = vec![0; (PIECE + GROUP_HEADER).min((length - place) as usize)];
        file.read_at(&mut piece, place)?;
        for offset in (0..PIECE.min(piece.len())).step_by(8) {
            let there = lsn + (place - at) + offset as u64;
            if GroupHeader::decode(&piece[offset..], there, header.salt)
                .is_some_and(|group| group.synced > lsn)
            {
                return Ok(true);
            }
        }
        place += PIECE as u64;
    }
    Ok(false)
}
