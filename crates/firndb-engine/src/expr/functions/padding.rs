//! Functions whose texts may be longer than all that they are given: LPAD, RPAD, REPEAT.
//!
//! Lengths are known before a byte is written, so a text beyond [`MAX_TEXT`] is refused with 54000 and a batch beyond [`MAX_BATCH`]
//! with 53200, instead of the process running out of memory.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;

use super::kernel::{Kernel, Takes};
use crate::{Error, SqlState};

/// Bytes of one text, as in PostgreSQL.
const MAX_TEXT: usize = (1 << 30) - 1;
/// Bytes of the texts of one batch.
const MAX_BATCH: usize = 2 << 30;

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    use Takes::{Integer, Text};
    let text = |_: &[DataType]| Some(DataType::Utf8View);
    vec![
        Kernel {
            name: "lpad",
            aliases: &[],
            takes: &[Text, Integer, Text],
            arguments: (2, 3),
            yields: text,
            run: |args| padded(args, true),
        },
        Kernel {
            name: "rpad",
            aliases: &[],
            takes: &[Text, Integer, Text],
            arguments: (2, 3),
            yields: text,
            run: |args| padded(args, false),
        },
        Kernel {
            name: "repeat",
            aliases: &[],
            takes: &[Text, Integer],
            arguments: (2, 2),
            yields: text,
            run: repeated,
        },
    ]
}

/// The bytes of a batch's texts so far.
#[derive(Default)]
struct Written(usize);

impl Written {
    /// Makes room for one more text.
    fn add(&mut self, bytes: usize) -> Result<()> {
        if bytes > MAX_TEXT {
            return Err(Error::new(
                SqlState::ProgramLimitExceeded,
                format!("requested length too large: a text has at most {MAX_TEXT} bytes"),
            )
            .into());
        }
        self.0 += bytes;
        if self.0 > MAX_BATCH {
            return Err(Error::new(
                SqlState::OutOfMemory,
                format!("the texts of one batch of rows need more than {MAX_BATCH} bytes"),
            )
            .into());
        }
        Ok(())
    }
}

fn repeated(args: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, counts) = (
        args[0].as_string_view(),
        args[1].as_primitive::<Int64Type>(),
    );
    let mut builder = StringViewBuilder::with_capacity(texts.len());
    let mut written = Written::default();
    for (text, count) in texts.iter().zip(counts) {
        let (Some(text), Some(count)) = (text, count) else {
            builder.append_null();
            continue;
        };
        let count = match text.is_empty() {
            true => 0,
            false => usize::try_from(count).unwrap_or(0),
        };
        written.add(text.len().saturating_mul(count))?;
        builder.append_value(text.repeat(count));
    }
    Ok(Arc::new(builder.finish()))
}

/// Texts of so many characters: cut at their end, or filled before or behind.
fn padded(args: &[ArrayRef], before: bool) -> Result<ArrayRef> {
    let (texts, lengths) = (
        args[0].as_string_view(),
        args[1].as_primitive::<Int64Type>(),
    );
    let fills = args.get(2).map(|fills| fills.as_string_view());
    let mut builder = StringViewBuilder::with_capacity(texts.len());
    let mut written = Written::default();
    for (row, (text, length)) in texts.iter().zip(lengths).enumerate() {
        let fill = match fills {
            Some(fills) => fills.is_valid(row).then(|| fills.value(row)),
            None => Some(" "),
        };
        let (Some(text), Some(length), Some(fill)) = (text, length, fill) else {
            builder.append_null();
            continue;
        };
        let length = usize::try_from(length).unwrap_or(0);
        let characters = text.chars().count();
        if length <= characters || fill.is_empty() {
            let end = text
                .char_indices()
                .nth(length)
                .map_or(text.len(), |(end, _)| end);
            written.add(end)?;
            builder.append_value(&text[..end]);
            continue;
        }
        let missing = length - characters;
        let of_fill = fill.chars().count();
        let whole = missing / of_fill;
        let rest = fill
            .char_indices()
            .nth(missing % of_fill)
            .map_or(fill.len(), |(end, _)| end);
        let bytes = fill.len().saturating_mul(whole).saturating_add(rest);
        written.add(bytes.saturating_add(text.len()))?;
        let mut made = String::with_capacity(bytes + text.len());
        if !before {
            made.push_str(text);
        }
        for _ in 0..whole {
            made.push_str(fill);
        }
        made.push_str(&fill[..rest]);
        if before {
            made.push_str(text);
        }
        builder.append_value(made);
    }
    Ok(Arc::new(builder.finish()))
}
