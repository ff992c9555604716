//! Values as text: what the shell prints and what SQL tests compare.
//!
//! The forms are those of a cast to VARCHAR: `true`, `1.0`, `1e+16`, `2024-02-29 12:00:00.5`, `1 year 2 months 03:04:05`, `[1, NULL]`,
//! `{'a': 1}`, `{k=v}`. NULL has no text of its own at the top (each caller chooses one) and is `NULL` inside a nested value.

use arrow::array::{Array, ArrayRef, StringViewArray};
use arrow::datatypes::Field;

use crate::Result;

/// The texts of a column's values.
#[derive(Debug)]
pub struct Column {
    texts: StringViewArray,
}

impl Column {
    /// Shows the values of a column. The field's extension name tells uuid from plain bytes.
    ///
    /// # Errors
    /// 0A000 for an Arrow type that no SQL type is computed as.
    pub fn new(field: &Field, values: &ArrayRef) -> Result<Self> {
        Ok(Column {
            texts: firndb_engine::expr::show(values, field)?,
        })
    }

    /// A value's text; `None` for NULL.
    pub fn text(&self, row: usize) -> Option<&str> {
        self.texts.is_valid(row).then(|| self.texts.value(row))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BinaryViewArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
        Float64Array, Int32Array, IntervalMonthDayNanoArray, ListArray, NullArray, StringArray,
        StructArray, TimestampMicrosecondArray,
    };
    use arrow::datatypes::{DataType, Int32Type, IntervalMonthDayNano};

    use super::*;

    fn texts(values: impl Array + 'static) -> Vec<String> {
        let field = Field::new("x", values.data_type().clone(), true);
        let values: ArrayRef = Arc::new(values);
        let column = Column::new(&field, &values).unwrap();
        (0..values.len())
            .map(|row| column.text(row).unwrap_or("NULL").to_string())
            .collect()
    }

    #[test]
    fn doubles_take_the_fewest_digits_that_read_back() {
        let values = Float64Array::from(vec![
            1.0,
            0.1,
            -0.0,
            1e15,
            1e16,
            1.5e300,
            1e-4,
            1e-5,
            f64::NAN,
            f64::NEG_INFINITY,
        ]);
        assert_eq!(
            texts(values),
            [
                "1.0",
                "0.1",
                "-0.0",
                "1000000000000000.0",
                "1e+16",
                "1.5e+300",
                "0.0001",
                "1e-05",
                "nan",
                "-inf"
            ]
        );
    }

    #[test]
    fn reals_do_not_show_digits_of_a_double() {
        assert_eq!(texts(Float32Array::from(vec![0.1, 1e-7])), ["0.1", "1e-07"]);
    }

    #[test]
    fn decimals_keep_their_scale() {
        let values = Decimal128Array::from(vec![150, -5])
            .with_precision_and_scale(10, 2)
            .unwrap();
        assert_eq!(texts(values), ["1.50", "-0.05"]);
    }

    #[test]
    fn null_has_no_text() {
        assert_eq!(texts(NullArray::new(1)), ["NULL"]);
        assert_eq!(texts(Int32Array::from(vec![None, Some(1)])), ["NULL", "1"]);
    }

    #[test]
    fn timestamps_drop_zeros_at_the_end_of_the_fraction() {
        let values = TimestampMicrosecondArray::from(vec![0, 1_500_000, -1]);
        assert_eq!(
            texts(values),
            [
                "1970-01-01 00:00:00",
                "1970-01-01 00:00:01.5",
                "1969-12-31 23:59:59.999999"
            ]
        );
    }

    #[test]
    fn instants_show_their_offset() {
        let values = TimestampMicrosecondArray::from(vec![0]).with_timezone("UTC");
        assert_eq!(texts(values), ["1970-01-01 00:00:00+00"]);
    }

    #[test]
    fn dates_before_our_era_say_so() {
        assert_eq!(
            texts(Date32Array::from(vec![-735_160, 19_782])),
            ["0044-03-15 (BC)", "2024-02-29"]
        );
    }

    #[test]
    fn intervals_name_their_parts() {
        let values = IntervalMonthDayNanoArray::from(vec![
            IntervalMonthDayNano::new(14, 3, 14_706_500_000_000),
            IntervalMonthDayNano::new(0, -1, 0),
            IntervalMonthDayNano::new(0, 0, 0),
            IntervalMonthDayNano::new(0, 0, -1_000_000_000),
        ]);
        assert_eq!(
            texts(values),
            [
                "1 year 2 months 3 days 04:05:06.5",
                "-1 day",
                "00:00:00",
                "-00:00:01"
            ]
        );
    }

    #[test]
    fn bytes_outside_printable_ascii_are_hexadecimal() {
        assert_eq!(
            texts(BinaryViewArray::from(vec![b"a\x00\xffb\\".as_slice()])),
            ["a\\x00\\xFFb\\x5C"]
        );
    }

    #[test]
    fn uuid_is_told_by_its_extension_name() {
        let bytes: Vec<u8> = (0..16).collect();
        let values = FixedSizeBinaryArray::try_from_iter([bytes].into_iter()).unwrap();
        let field = Field::new("x", DataType::FixedSizeBinary(16), true)
            .with_metadata([("ARROW:extension:name".to_string(), "arrow.uuid".to_string())].into());
        let values: ArrayRef = Arc::new(values);
        let column = Column::new(&field, &values).unwrap();
        assert_eq!(column.text(0), Some("00010203-0405-0607-0809-0a0b0c0d0e0f"));
    }

    #[test]
    fn nested_values_spell_out_null() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
        ]);
        assert_eq!(texts(lists), ["[1, NULL]", "NULL", "[]"]);
        let members = StructArray::from(vec![
            (
                Arc::new(Field::new("a", DataType::Int32, true)),
                Arc::new(Int32Array::from(vec![1])) as ArrayRef,
            ),
            (
                Arc::new(Field::new("b", DataType::Utf8, true)),
                Arc::new(StringArray::from(vec!["plain"])) as ArrayRef,
            ),
        ]);
        assert_eq!(texts(members), ["{'a': 1, 'b': plain}"]);
    }
}
