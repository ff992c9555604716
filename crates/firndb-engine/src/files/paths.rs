//! Paths, globs, and compression by extension.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use datafusion::datasource::file_format::file_compression_type::FileCompressionType;

use super::options::Compression;
use crate::{Error, Result, SqlState};

/// An error about a file, worded as PostgreSQL words it.
pub fn file_error(path: &Path, doing: &str, error: &std::io::Error) -> Error {
    let state = match error.kind() {
        std::io::ErrorKind::NotFound => SqlState::UndefinedFile,
        std::io::ErrorKind::StorageFull
        | std::io::ErrorKind::QuotaExceeded
        | std::io::ErrorKind::FileTooLarge => SqlState::DiskFull,
        _ => SqlState::IoError,
    };
    Error::new(
        state,
        format!("could not {doing} file \"{}\": {error}", path.display()),
    )
}

/// The files that paths and globs name: each glob's in the order of their names. At least one for each.
pub fn expand(patterns: &[String]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for pattern in patterns {
        let plain = PathBuf::from(pattern.strip_prefix("file://").unwrap_or(pattern));
        if plain.exists() || !pattern.contains(['*', '?', '[']) {
            let metadata = std::fs::metadata(&plain).map_err(|e| file_error(&plain, "open", &e))?;
            if metadata.is_dir() {
                return Err(Error::new(
                    SqlState::WrongObjectType,
                    format!("\"{}\" is a directory", plain.display()),
                )
                .with_hint("Name its files with a pattern such as 'folder/*.parquet'."));
            }
            files.push(plain);
            continue;
        }
        let found = glob::glob(pattern).map_err(|e| {
            Error::new(
                SqlState::InvalidParameterValue,
                format!("\"{pattern}\" is no file pattern: {e}"),
            )
        })?;
        let before = files.len();
        for path in found {
            let path = path.map_err(|e| file_error(e.path(), "read", e.error()))?;
            if path.is_file() {
                files.push(path);
            }
        }
        if files.len() == before {
            return Err(Error::new(
                SqlState::UndefinedFile,
                format!("no files match the pattern \"{pattern}\""),
            ));
        }
    }
    if files.is_empty() {
        return Err(Error::new(
            SqlState::InvalidParameterValue,
            "no file is named",
        ));
    }
    Ok(files)
}

/// Opens a file to be read, decompressed.
pub fn open(path: &Path, compression: Option<Compression>) -> Result<Box<dyn Read + Send>> {
    let file = File::open(path).map_err(|e| file_error(path, "open", &e))?;
    let compression = compression.unwrap_or_else(|| Compression::of_path(path));
    let kind = match compression {
        Compression::None => return Ok(Box::new(file)),
        Compression::Gzip => FileCompressionType::GZIP,
        Compression::Bzip2 => FileCompressionType::BZIP2,
        Compression::Xz => FileCompressionType::XZ,
        Compression::Zstd => FileCompressionType::ZSTD,
        other => {
            return Err(Error::new(
                SqlState::InvalidParameterValue,
                format!("text files can't be compressed with {}", other.name()),
            ));
        }
    };
    Ok(kind.convert_read(BufReader::with_capacity(1 << 18, file))?)
}

/// A file that is not what it should be.
pub fn malformed(path: &Path, format: &str, error: &dyn std::error::Error) -> Error {
    Error::new(
        SqlState::BadCopyFileFormat,
        format!("file \"{}\" is not valid {format}: {error}", path.display()),
    )
}
