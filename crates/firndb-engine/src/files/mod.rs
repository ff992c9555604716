//! Files, in and out: CSV, Parquet, JSON and Arrow.
//!
//! ```text
//!   read_csv('…'), FROM '….csv' ─▶ FileTable ─▶ scan ─▶ batches in file order
//!   COPY table FROM '…'         ─▶ the same readers ─▶ `dml::load`, all or nothing
//!   COPY … TO '…'               ─▶ query ─▶ writer ─▶ temporary name ─▶ rename
//! ```
//!
//! Parquet is read by DataFusion, which skips row groups and pages by their statistics. Text formats are read here: a file is cut into
//! pieces of a few megabytes at ends of records ([`chunks`]), the pieces are parsed in parallel and handed out in order ([`reader`]). So a
//! quoted empty field differs from a missing one, as in PostgreSQL, and an error names the file and the line.
//!
//! | module | holds |
//! | --- | --- |
//! | [`options`] | formats and their options, by the names that PostgreSQL and DuckDB use |
//! | [`paths`] | paths, globs, compression by extension |
//! | [`chunks`] | text files cut at ends of records |
//! | [`csv`] | records and fields of CSV |
//! | [`infer`] | the columns of a file |
//! | [`reader`] | the batches of files |
//! | [`table`] | files as a DataFusion source |
//! | `arguments` | arguments of such functions, which no row decides |
//! | [`functions`] | `read_csv`, `read_parquet`, `read_json`, `read_arrow` |
//! | [`writer`] | batches to a file |
//! | [`copy`](mod@copy) | the COPY statement |

use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::{TableFunctionImpl, TableProvider};

use crate::Result;

pub(crate) mod arguments;
pub mod chunks;
mod contents;
mod copy;
pub mod csv;
pub mod functions;
pub mod infer;
mod kinds;
pub mod options;
pub mod paths;
pub mod reader;
pub mod table;
mod target;
mod values;
pub mod writer;

pub use copy::copy;

use options::{FileOptions, Format};

/// `read_parquet`, `read_csv`, `read_json`, `read_arrow` (paths, globs, lists; named options as pairs of a name and a value after the path).
pub fn table_functions() -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    functions::all()
}

/// The relation that `FROM 'path'` means: files with an extension that tells their format. `None` when the extension tells none.
pub fn file_relation(path: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(format) = Format::of_path(Path::new(path)) else {
        return Ok(None);
    };
    let options = FileOptions::new(format);
    let table = table::FileTable::open(&[path.to_owned()], options)?;
    Ok(Some(Arc::new(table)))
}
