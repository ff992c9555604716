//! Zone information: bounds of the values in each run of 4,096 rows.
//!
//! Bounds are sound, not always reached: strings are cut, float zeros and NaNs widened (see `value`), and
//! a range of rows that does not end with its zones gets the bounds of the whole zones. Null counts are not here:
//! they come exactly from the validity bitmap.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayData, ArrayRef, BinaryViewBuilder, BooleanArray, FixedSizeBinaryBuilder,
    StringViewBuilder, make_array,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;

use super::form::Form;
use super::value::Fixed;
use crate::Result;

/// Rows of a zone.
pub(super) const ZONE_ROWS: usize = 4096;
/// Bytes of a string bound.
const BOUND_BYTES: usize = 32;

/// What is known about a range of rows.
#[derive(Debug, Clone)]
pub struct Zone {
    /// Nulls, exact.
    pub nulls: usize,
    /// A lower bound of the values (one row, `Form::Compute` type); `None` when unknown or all null. Strings may be cut.
    pub min: Option<ArrayRef>,
    /// An upper bound.
    pub max: Option<ArrayRef>,
}

/// What is known about several ranges of rows; concatenate over extents.
#[derive(Debug, Clone)]
pub struct Zones {
    /// Nulls of each range, exact.
    pub nulls: Vec<usize>,
    /// Lower bounds (`Form::Compute` type), null where unknown or all null; `None` when the type has no order.
    pub min: Option<ArrayRef>,
    /// Upper bounds.
    pub max: Option<ArrayRef>,
}

/// The bounds of a column by zone.
pub(super) trait Bounds: Debug + Send + Sync {
    /// Lower and upper bounds over ranges of zones, in the `Form::Compute` type; null where there is no value or no bound.
    fn over(&self, ranges: &[Range<usize>]) -> Result<(ArrayRef, ArrayRef)>;
}

/// The zones that hold rows of a range.
pub(super) fn zones_of(rows: &Range<usize>) -> Range<usize> {
    if rows.is_empty() {
        return 0..0;
    }
    rows.start / ZONE_ROWS..(rows.end - 1) / ZONE_ROWS + 1
}

/// Bounds of values of fixed width. A zone without values has its least key above its greatest.
#[derive(Debug)]
pub(super) struct FixedBounds<N: Fixed> {
    pub(super) stored: DataType,
    pub(super) least: Vec<N::Key>,
    pub(super) greatest: Vec<N::Key>,
}

impl<N: Fixed> Bounds for FixedBounds<N> {
    fn over(&self, ranges: &[Range<usize>]) -> Result<(ArrayRef, ArrayRef)> {
        let (mut lower, mut upper) = (
            Vec::with_capacity(ranges.len()),
            Vec::with_capacity(ranges.len()),
        );
        let mut valid = Vec::with_capacity(ranges.len());
        for range in ranges {
            let least = self.least[range.clone()]
                .iter()
                .copied()
                .min()
                .unwrap_or(N::GREATEST);
            let greatest = self.greatest[range.clone()]
                .iter()
                .copied()
                .max()
                .unwrap_or(N::LEAST);
            let known = !range.is_empty() && least <= greatest;
            let (least, greatest) = if known {
                N::bounds(least, greatest)
            } else {
                (least, greatest)
            };
            lower.push(N::from_key(least));
            upper.push(N::from_key(greatest));
            valid.push(known);
        }
        let nulls = NullBuffer::from(valid);
        Ok((
            fixed_array(&self.stored, lower, Some(&nulls))?,
            fixed_array(&self.stored, upper, Some(&nulls))?,
        ))
    }
}

/// An array of values of a stored type, in its `Form::Compute` type.
pub(super) fn fixed_array<N: Fixed>(
    stored: &DataType,
    values: Vec<N>,
    nulls: Option<&NullBuffer>,
) -> Result<ArrayRef> {
    let data = ArrayData::builder(stored.clone())
        .len(values.len())
        .add_buffer(Buffer::from_vec(values))
        .nulls(nulls.cloned())
        .build()?;
    Form::Compute.apply(&make_array(data))
}

/// Bounds of booleans: which values a zone has.
#[derive(Debug, Default)]
pub(super) struct BooleanBounds {
    pub(super) has_false: Vec<bool>,
    pub(super) has_true: Vec<bool>,
}

impl Bounds for BooleanBounds {
    fn over(&self, ranges: &[Range<usize>]) -> Result<(ArrayRef, ArrayRef)> {
        let any = |flags: &[bool], range: &Range<usize>| flags[range.clone()].contains(&true);
        let (mut lower, mut upper) = (
            Vec::with_capacity(ranges.len()),
            Vec::with_capacity(ranges.len()),
        );
        for range in ranges {
            let (no, yes) = (any(&self.has_false, range), any(&self.has_true, range));
            lower.push((no || yes).then_some(!no));
            upper.push((no || yes).then_some(yes));
        }
        Ok((
            Arc::new(BooleanArray::from(lower)),
            Arc::new(BooleanArray::from(upper)),
        ))
    }
}

/// Bounds of strings and bytes, cut to 32 bytes.
#[derive(Debug)]
pub(super) struct BytesBounds {
    stored: DataType,
    /// `None` for a zone without values.
    lower: Vec<Option<Box<[u8]>>>,
    /// `None` for a zone without values, and where no cut bound exists.
    upper: Vec<Option<Box<[u8]>>>,
}

impl BytesBounds {
    pub(super) fn new(stored: &DataType) -> Self {
        Self {
            stored: stored.clone(),
            lower: Vec::new(),
            upper: Vec::new(),
        }
    }

    /// Adds a zone with its least and greatest value.
    pub(super) fn push(&mut self, extremes: Option<(&[u8], &[u8])>) {
        let Some((least, greatest)) = extremes else {
            self.lower.push(None);
            self.upper.push(None);
            return;
        };
        // Values of fixed size can't be cut; they have bounds only when they are short (see `bytes`).
        let whole = matches!(self.stored, DataType::FixedSizeBinary(_));
        if whole || least.len() <= BOUND_BYTES {
            self.lower.push(Some(least.into()));
        } else {
            self.lower.push(Some(cut(least, self.is_text()).into()));
        }
        if whole || greatest.len() <= BOUND_BYTES {
            self.upper.push(Some(greatest.into()));
        } else {
            self.upper
                .push(above(cut(greatest, self.is_text()), self.is_text()));
        }
    }

    fn is_text(&self) -> bool {
        self.stored == DataType::Utf8
    }

    fn array(&self, values: &[Option<&[u8]>]) -> Result<ArrayRef> {
        match &self.stored {
            DataType::Utf8 => {
                let mut builder = StringViewBuilder::with_capacity(values.len());
                for value in values {
                    // Bounds of text are text by construction; were one not, it would be unknown.
                    builder.append_option(value.and_then(|bytes| std::str::from_utf8(bytes).ok()));
                }
                Ok(Arc::new(builder.finish()))
            }
            DataType::FixedSizeBinary(width) => {
                let mut builder = FixedSizeBinaryBuilder::with_capacity(values.len(), *width);
                for value in values {
                    match value {
                        Some(bytes) => builder.append_value(bytes)?,
                        None => builder.append_null(),
                    }
                }
                Ok(Arc::new(builder.finish()))
            }
            _ => {
                let mut builder = BinaryViewBuilder::with_capacity(values.len());
                values
                    .iter()
                    .for_each(|value| builder.append_option(*value));
                Ok(Arc::new(builder.finish()))
            }
        }
    }
}

impl Bounds for BytesBounds {
    fn over(&self, ranges: &[Range<usize>]) -> Result<(ArrayRef, ArrayRef)> {
        let (mut lower, mut upper) = (
            Vec::with_capacity(ranges.len()),
            Vec::with_capacity(ranges.len()),
        );
        for range in ranges {
            let zones = || range.clone().filter(|&zone| self.lower[zone].is_some());
            lower.push(zones().filter_map(|zone| self.lower[zone].as_deref()).min());
            let bounded = zones().all(|zone| self.upper[zone].is_some());
            let greatest = zones().filter_map(|zone| self.upper[zone].as_deref()).max();
            upper.push(greatest.filter(|_| bounded));
        }
        Ok((self.array(&lower)?, self.array(&upper)?))
    }
}

/// The longest prefix within the bound's size, of whole characters for text.
fn cut(value: &[u8], text: bool) -> &[u8] {
    let mut end = BOUND_BYTES.min(value.len());
    // A continuation byte (10xxxxxx) belongs to the character before it.
    while text && end > 0 && end < value.len() && value[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &value[..end]
}

/// A short value above every value with this prefix; `None` when there is none.
fn above(prefix: &[u8], text: bool) -> Option<Box<[u8]>> {
    if text {
        let text = std::str::from_utf8(prefix).ok()?;
        for (start, last) in text.char_indices().rev() {
            // The code point after U+D7FF that is a character is U+E000.
            let next = if last == '\u{d7ff}' {
                Some('\u{e000}')
            } else {
                char::from_u32(last as u32 + 1)
            };
            if let Some(next) = next {
                let mut bound = text[..start].to_owned();
                bound.push(next);
                return Some(bound.into_bytes().into_boxed_slice());
            }
        }
        return None;
    }
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut bound = prefix[..=last].to_vec();
    bound[last] += 1;
    Some(bound.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::{above, cut, zones_of};

    #[test]
    fn a_range_covers_the_zones_of_its_first_and_last_row() {
        assert_eq!(zones_of(&(0..1)), 0..1);
        assert_eq!(zones_of(&(0..4096)), 0..1);
        assert_eq!(zones_of(&(4095..4097)), 0..2);
        assert_eq!(zones_of(&(5..5)), 0..0);
    }

    #[test]
    fn text_is_cut_between_characters() {
        let text = format!("{}äöü", "x".repeat(31));
        assert_eq!(cut(text.as_bytes(), true), "x".repeat(31).as_bytes());
        assert_eq!(cut(text.as_bytes(), false).len(), 32);
    }

    #[test]
    fn an_upper_bound_is_above_every_continuation() {
        assert_eq!(above(b"abc", true).as_deref(), Some(&b"abd"[..]));
        assert_eq!(
            above("a\u{d7ff}".as_bytes(), true).as_deref(),
            Some("a\u{e000}".as_bytes())
        );
        assert_eq!(
            above("a\u{10ffff}".as_bytes(), true).as_deref(),
            Some(&b"b"[..])
        );
        assert_eq!(above("\u{10ffff}".as_bytes(), true), None);
        assert_eq!(above(&[1, 255], false).as_deref(), Some(&[2][..]));
        assert_eq!(above(&[255, 255], false), None);
        let bound = above("Straß".as_bytes(), true).expect("there is one");
        assert!(&bound[..] > "Straßen\u{10ffff}".as_bytes());
    }
}
