//! `read_text`, `read_blob` and `glob`: files as values, and the names of files.

use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow::array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{Field, Schema};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::DataFusionError;

use super::arguments::{constant, texts};
use super::paths::{expand, file_error};
use crate::scan::frame_provider;
use crate::session::Frame;
use crate::types::UTC;
use crate::{Error, Result, SqlState};

/// Bytes that the files of one call may have together.
const MOST_BYTES: usize = 1 << 30;

/// The functions of this module, by name.
pub(super) fn all() -> [(&'static str, Arc<dyn TableFunctionImpl>); 3] {
    [
        ("read_text", Kind::Text),
        ("read_blob", Kind::Bytes),
        ("glob", Kind::Names),
    ]
    .map(|(name, kind)| {
        let function: Arc<dyn TableFunctionImpl> = Arc::new(Contents { name, kind });
        (name, function)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Bytes,
    /// The names alone; of no files if a pattern fits none.
    Names,
}

#[derive(Debug)]
struct Contents {
    name: &'static str,
    kind: Kind,
}

impl TableFunctionImpl for Contents {
    fn call_with_args(
        &self,
        args: TableFunctionArgs,
    ) -> std::result::Result<Arc<dyn TableProvider>, DataFusionError> {
        let patterns = match args.exprs() {
            [argument] => texts(&constant(argument, &args)?),
            _ => None,
        };
        let Some(patterns) = patterns else {
            return Err(Error::new(
                SqlState::UndefinedFunction,
                format!("{} takes a path, a pattern or a list of them", self.name),
            )
            .into());
        };
        Ok(frame_provider(&self.rows(&patterns)?)?)
    }
}

impl Contents {
    fn rows(&self, patterns: &[String]) -> Result<Frame> {
        let files = match expand(patterns) {
            Err(error) if self.kind == Kind::Names && error.state == SqlState::UndefinedFile => {
                Vec::new()
            }
            found => found?,
        };
        let names: Vec<String> = files
            .iter()
            .map(|file| file.to_string_lossy().into_owned())
            .collect();
        let names: ArrayRef = Arc::new(StringViewArray::from_iter_values(&names));
        if self.kind == Kind::Names {
            return frame(vec![("file", names)]);
        }
        let (mut text, mut bytes) = (StringViewBuilder::new(), BinaryViewBuilder::new());
        let (mut sizes, mut changed) = (Vec::new(), Vec::new());
        let mut total = 0_usize;
        for file in &files {
            let content = std::fs::read(file).map_err(|e| file_error(file, "read", &e))?;
            total = total.saturating_add(content.len());
            if total > MOST_BYTES {
                return Err(Error::new(
                    SqlState::ProgramLimitExceeded,
                    format!("{}: the files have more than {MOST_BYTES} bytes", self.name),
                ));
            }
            sizes.push(i64::try_from(content.len()).ok());
            changed.push(last_change(file)?);
            match self.kind {
                Kind::Text => text.append_value(valid_text(file, &content)?),
                _ => bytes.append_value(content),
            }
        }
        let content: ArrayRef = match self.kind {
            Kind::Text => Arc::new(text.finish()),
            _ => Arc::new(bytes.finish()),
        };
        let changed = TimestampMicrosecondArray::from(changed).with_timezone(UTC);
        frame(vec![
            ("filename", names),
            ("content", content),
            ("size", Arc::new(Int64Array::from(sizes))),
            ("last_modified", Arc::new(changed)),
        ])
    }
}

fn valid_text<'c>(file: &Path, content: &'c [u8]) -> Result<&'c str> {
    std::str::from_utf8(content).map_err(|error| {
        Error::new(
            SqlState::CharacterNotInRepertoire,
            format!(
                "invalid byte sequence for encoding \"UTF8\": 0x{:02x}",
                content[error.valid_up_to()]
            ),
        )
        .with_detail(format!("File \"{}\".", file.display()))
        .with_hint("read_blob reads the bytes.")
    })
}

/// Microseconds since 1970.
fn last_change(file: &Path) -> Result<Option<i64>> {
    let metadata = std::fs::metadata(file).map_err(|e| file_error(file, "read", &e))?;
    let since = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(since.and_then(|since| i64::try_from(since.as_micros()).ok()))
}

fn frame(columns: Vec<(&str, ArrayRef)>) -> Result<Frame> {
    let field =
        |(name, values): &(&str, ArrayRef)| Field::new(*name, values.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, values)| values).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    Ok(Frame {
        schema,
        batches: vec![batch],
    })
}
