use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::cmp::{gt_eq, lt_eq};
use arrow::compute::{SortOptions, cast, concat, sort_limit};
use arrow::datatypes::*;

use super::samples::{Nulls, Random, foreign_sample, sample, stored_of, types};
use super::{Extent, Form, build_extents, plan_extents};
use crate::Error;
use crate::memory::{Arena, Budget};

const FORMS: [Form; 3] = [Form::Compute, Form::Consumer, Form::Native];

fn schema_of(stored: &DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("c", stored.clone(), true)]))
}

fn batch_of(column: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("c", column, true)]).expect("a batch")
}

fn arena() -> Arc<Arena> {
    Arena::new(&Budget::new(None)).expect("an arena")
}

/// One extent of one column.
fn frozen(stored: &DataType, column: &ArrayRef) -> Result<Arc<Extent>, Error> {
    let rows = [column.len()];
    Ok(build_extents(
        &arena(),
        &schema_of(stored),
        &[batch_of(Arc::clone(column))],
        &rows,
        1,
    )?
    .remove(0))
}

/// The array in the type that a form gives, by Arrow's own casts.
fn converted(array: &ArrayRef, stored: &DataType, form: Form) -> ArrayRef {
    let stored_array = cast(array, stored).expect("a cast");
    cast(&stored_array, &form.data_type(stored)).expect("a cast")
}

#[test]
fn every_type_comes_back_from_odd_pieces_in_every_form() {
    for (stored, foreign) in types() {
        for nulls in [Nulls::No, Nulls::Some, Nulls::All] {
            let random = &mut Random(7);
            let whole = foreign_sample(&foreign, 10_000, nulls, random);
            // Slices, so that the arrays have offsets; the last rows go to no extent.
            let cuts = [0, 3, 3, 1_000, 1_001, 5_003, 9_999];
            let batches: Vec<_> = cuts
                .windows(2)
                .map(|cut| batch_of(whole.slice(cut[0], cut[1] - cut[0])))
                .collect();
            let rows = [4_113, 0, 1, 3_200];
            let extents =
                build_extents(&arena(), &schema_of(&stored), &batches, &rows, 2).expect("extents");
            let mut first = 0;
            for (extent, rows) in extents.iter().zip(rows) {
                assert_eq!(extent.rows(), rows);
                let column = extent.column(0);
                assert_eq!(column.array().data_type(), &stored);
                column
                    .array()
                    .to_data()
                    .validate_full()
                    .expect("valid data");
                for form in FORMS {
                    for (offset, len) in [
                        (0, rows),
                        (rows / 3, rows / 2),
                        (rows, 0),
                        (rows.min(13), rows.min(100) / 2),
                    ] {
                        let found = column.slice(offset, len, form).expect("a slice");
                        found.to_data().validate_full().expect("valid data");
                        let expected = converted(&whole.slice(first + offset, len), &stored, form);
                        assert_eq!(
                            &found, &expected,
                            "{foreign} as {stored} in {form:?}, {nulls:?}"
                        );
                        let expected_nulls = expected.logical_null_count();
                        assert_eq!(column.null_count(offset, len), expected_nulls);
                    }
                }
                first += rows;
            }
        }
    }
}

#[test]
fn zones_bound_every_valid_value() {
    for (stored, foreign) in types() {
        for nulls in [Nulls::No, Nulls::Some, Nulls::All] {
            let random = &mut Random(11);
            let whole = foreign_sample(&foreign, 13_000, nulls, random);
            let extent = frozen(&stored, &whole).expect("an extent");
            let column = extent.column(0);
            let ranges: Vec<_> = (0..20)
                .map(|_| {
                    let start = random.below(13_000);
                    start..start + random.below(13_001 - start)
                })
                .collect();
            let zones = column.zones(&ranges).expect("zones");
            for (index, range) in ranges.iter().enumerate() {
                let values = column
                    .slice(range.start, range.len(), Form::Compute)
                    .expect("a slice");
                assert_eq!(zones.nulls[index], values.null_count());
                for (bounds, holds) in [
                    (&zones.min, gt_eq as Compare),
                    (&zones.max, lt_eq as Compare),
                ] {
                    let Some(bounds) = bounds else { continue };
                    assert_eq!(bounds.data_type(), values.data_type());
                    let bound = bounds.slice(index, 1);
                    if bound.is_null(0) {
                        continue;
                    }
                    let within = holds(&values, &Scalar::new(&bound)).expect("a comparison");
                    assert!(
                        within.iter().flatten().all(|holds| holds),
                        "{foreign} in {range:?}: {bound:?}"
                    );
                }
                let zone = column.zone(range.start, range.len()).expect("a zone");
                assert_eq!(
                    zone.min.is_some(),
                    zones.min.as_ref().is_some_and(|min| min.is_valid(index))
                );
            }
        }
    }
}

type Compare = fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, arrow::error::ArrowError>;

#[test]
fn zones_without_values_have_no_bounds() {
    let mut values = vec![None; 4_096];
    values.extend((0..4_096).map(Some));
    values.extend(vec![None; 100]);
    let column: ArrayRef = Arc::new(Int32Array::from(values));
    let extent = frozen(&DataType::Int32, &column).expect("an extent");
    let column = extent.column(0);
    assert!(column.zone(0, 4_096).expect("a zone").min.is_none());
    assert!(column.zone(8_192, 100).expect("a zone").max.is_none());
    assert!(column.zone(5, 0).expect("a zone").min.is_none());
    let zone = column.zone(4_000, 4_192).expect("a zone");
    assert_eq!(zone.nulls, 96);
    assert_eq!(
        &zone.min.expect("a bound"),
        &(Arc::new(Int32Array::from(vec![0])) as ArrayRef)
    );
    assert_eq!(
        &zone.max.expect("a bound"),
        &(Arc::new(Int32Array::from(vec![4_095])) as ArrayRef)
    );
}

#[test]
fn extremes_are_those_of_a_sort() {
    for (stored, foreign) in types() {
        if stored.is_nested() || matches!(stored, DataType::Interval(_)) {
            continue;
        }
        for nulls in [Nulls::No, Nulls::Some, Nulls::All] {
            let whole = foreign_sample(&foreign, 9_000, nulls, &mut Random(3));
            let extent = frozen(&stored, &whole).expect("an extent");
            let column = extent.column(0);
            let values = column.slice(0, 9_000, Form::Compute).expect("a slice");
            let end = |descending| {
                let options = SortOptions {
                    descending,
                    nulls_first: false,
                };
                sort_limit(&values, Some(options), Some(1)).expect("a sort")
            };
            let nan = stored.is_floating();
            let unbounded = matches!(stored, DataType::FixedSizeBinary(40));
            if nulls == Nulls::All || nan || unbounded {
                assert!(
                    column.minimum().is_none() && column.maximum().is_none(),
                    "{foreign}"
                );
                continue;
            }
            assert_eq!(
                &column.minimum().expect("a minimum"),
                &end(false),
                "{foreign}"
            );
            assert_eq!(
                &column.maximum().expect("a maximum"),
                &end(true),
                "{foreign}"
            );
        }
    }
}

#[test]
fn floats_without_nan_have_extremes() {
    let column: ArrayRef = Arc::new(Float64Array::from(vec![1.5, -0.0, f64::INFINITY]));
    let extent = frozen(&DataType::Float64, &column).expect("an extent");
    let minimum = extent.column(0).minimum().expect("a minimum");
    assert_eq!(minimum.as_primitive::<Float64Type>().value(0), 0.0);
    let maximum = extent.column(0).maximum().expect("a maximum");
    assert_eq!(
        maximum.as_primitive::<Float64Type>().value(0),
        f64::INFINITY
    );
}

#[test]
fn distinct_values_are_estimated_over_extents() {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200_000).map(|i| i / 4)));
    for foreign in [
        DataType::Int64,
        DataType::Utf8,
        DataType::Float64,
        DataType::Decimal128(10, 0),
    ] {
        let column = cast(&values, &foreign).expect("a cast");
        let stored = stored_of(&foreign);
        let rows = [65_536, 65_536, 68_928];
        let extents = build_extents(&arena(), &schema_of(&stored), &[batch_of(column)], &rows, 2)
            .expect("extents");
        let mut sketch = super::DistinctSketch::default();
        for extent in &extents {
            sketch.merge(extent.column(0).distinct().expect("a sketch"));
        }
        let estimate = sketch.estimate() as f64;
        assert!(
            (estimate - 50_000.0).abs() < 4_000.0,
            "{foreign}: {estimate}"
        );
    }
}

#[test]
fn a_decimal_beyond_its_precision_is_refused() {
    let stored = DataType::Decimal64(4, 2);
    for value in [
        10_000_i128,
        -10_000,
        i128::from(i64::MAX) + 1,
        i128::MIN,
        i128::MAX,
    ] {
        let wide = Decimal128Array::from(vec![Some(0), None, Some(value), Some(1)]);
        let column: ArrayRef = Arc::new(wide.with_precision_and_scale(38, 2).expect("a decimal"));
        let error = frozen(&stored, &column).map(|extent| extent.rows());
        assert!(
            matches!(error, Err(Error::ValueOutOfRange { .. })),
            "{value}: {error:?}"
        );
    }
    let narrow = Decimal64Array::from(vec![99_999])
        .with_precision_and_scale(10, 2)
        .expect("a decimal");
    let error = frozen(&stored, &(Arc::new(narrow) as ArrayRef)).map(|extent| extent.rows());
    let Err(Error::ValueOutOfRange { value, .. }) = error else {
        panic!("{error:?}")
    };
    assert_eq!(value, "999.99");
    let wide = Decimal128Array::from(vec![10_i128.pow(20)])
        .with_precision_and_scale(38, 0)
        .expect("a decimal");
    let error = frozen(&DataType::Decimal128(20, 0), &(Arc::new(wide) as ArrayRef))
        .map(|extent| extent.rows());
    assert!(matches!(error, Err(Error::ValueOutOfRange { .. })));
}

#[test]
fn what_lies_under_a_null_is_no_value() {
    let nulls = NullBuffer::from(vec![true, false, true]);
    let wide = Decimal128Array::new(vec![9_999, i128::MAX, -9_999].into(), Some(nulls));
    let column: ArrayRef = Arc::new(wide.with_precision_and_scale(38, 2).expect("a decimal"));
    let extent = frozen(&DataType::Decimal64(4, 2), &column).expect("an extent");
    let found = extent.column(0).slice(0, 3, Form::Native).expect("a slice");
    let found = found.as_primitive::<Decimal64Type>();
    assert_eq!(
        found.iter().collect::<Vec<_>>(),
        [Some(9_999), None, Some(-9_999)]
    );
}

#[test]
fn types_that_do_not_fit_are_refused() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1]));
    let zoned: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC"));
    let other_scale: ArrayRef = Arc::new(
        Decimal128Array::from(vec![1])
            .with_precision_and_scale(15, 3)
            .expect("a decimal"),
    );
    let microseconds = DataType::Timestamp(TimeUnit::Microsecond, None);
    for (stored, column) in [
        (DataType::Int32, &text),
        (microseconds.clone(), &seconds),
        (microseconds, &zoned),
        (DataType::Decimal64(15, 2), &other_scale),
        (DataType::Timestamp(TimeUnit::Second, None), &seconds),
    ] {
        assert!(
            matches!(frozen(&stored, column), Err(Error::Arrow(_))),
            "{stored}"
        );
    }
}

#[test]
fn nested_values_in_other_representations_are_stored_without_loss() {
    let item = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
    let texts = sample(&DataType::Utf8, 300, Nulls::Some, &mut Random(1));
    let list = |name: &str, data_type: &DataType| -> ArrayRef {
        let offsets = arrow::buffer::OffsetBuffer::from_lengths(vec![3; 100]);
        let values = cast(&texts, data_type).expect("a cast");
        Arc::new(ListArray::new(
            item(name, data_type.clone()),
            offsets,
            values,
            None,
        ))
    };
    let stored = list("item", &DataType::Utf8);
    for foreign in [
        list("element", &DataType::Utf8),
        list("item", &DataType::LargeUtf8),
    ] {
        let extent = frozen(stored.data_type(), &foreign).expect("an extent");
        assert_eq!(extent.column(0).array(), &stored);
    }
    let numbers = DataType::List(item("item", DataType::Int32));
    assert!(matches!(frozen(&numbers, &stored), Err(Error::Arrow(_))));
    let floats: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([Some(
        [Some(1.5)],
    )]));
    assert!(matches!(frozen(&numbers, &floats), Err(Error::Arrow(_))));
}

#[test]
fn a_wrong_number_of_rows_or_columns_is_refused() {
    let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let batches = [batch_of(Arc::clone(&column))];
    let missing = build_extents(&arena(), &schema_of(&DataType::Int32), &batches, &[2, 2], 1);
    assert!(matches!(missing, Err(Error::Internal(_))));
    let two = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Int32, true),
    ]));
    assert!(matches!(
        build_extents(&arena(), &two, &batches, &[3], 1),
        Err(Error::Arrow(_))
    ));
    let extent = frozen(&DataType::Int32, &column).expect("an extent");
    assert!(extent.column(0).slice(2, 2, Form::Native).is_err());
    assert!(extent.column(0).slice(usize::MAX, 2, Form::Native).is_err());
    assert!(extent.column(0).zone(2, 2).is_err());
}

/// A dictionary whose `rows` values together are more than 2 GiB.
fn large(rows: usize) -> (ArrayRef, usize) {
    const VALUE: usize = 1 << 20;
    let values = StringArray::from(vec!["x".repeat(VALUE)]);
    let keys = Int32Array::from(vec![0; rows]);
    (
        Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(values))),
        VALUE,
    )
}

#[test]
fn a_heap_beyond_32_bit_offsets_is_refused() {
    let (column, value) = large(2_048);
    assert!(2_048 * value > i32::MAX as usize);
    assert!(matches!(
        frozen(&DataType::Utf8, &column),
        Err(Error::Limit(_))
    ));
}

#[test]
fn extents_are_planned_to_fit_32_bit_offsets() {
    let (column, value) = large(5_000);
    let plan =
        plan_extents(&schema_of(&DataType::Utf8), &[batch_of(column)], 256, 64).expect("a plan");
    assert_eq!(plan.iter().sum::<usize>(), 5_000 / 256 * 256);
    assert!(
        plan.iter()
            .all(|rows| rows % 256 == 0 && rows * value <= i32::MAX as usize)
    );
    assert_eq!(plan[0], i32::MAX as usize / value / 256 * 256);
}

#[test]
fn extents_are_planned_of_whole_blocks_up_to_the_limit() {
    let column: ArrayRef = Arc::new(Int32Array::from(vec![0; 10_500]));
    let plan =
        plan_extents(&schema_of(&DataType::Int32), &[batch_of(column)], 1_000, 4).expect("a plan");
    assert_eq!(plan, [4_000, 4_000, 2_000]);
}

#[test]
fn a_build_beyond_the_budget_fails_and_gives_all_back() {
    let budget = Budget::new(Some(3 << 20));
    let arena = Arena::new(&budget).expect("an arena");
    let schema = schema_of(&DataType::Int64);
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200_000));
    let batches: Vec<_> = (0..4).map(|_| batch_of(Arc::clone(&column))).collect();
    let failed = build_extents(&arena, &schema, &batches, &[200_000; 4], 2);
    assert!(matches!(failed, Err(Error::OutOfMemory { .. })));
    assert_eq!(budget.usage().frozen, 0);
    let extents = build_extents(&arena, &schema, &batches, &[200_000], 2).expect("one fits");
    assert_eq!(budget.usage().frozen, extents[0].bytes());
    drop(extents);
    assert_eq!(budget.usage().frozen, 0);
}

#[test]
fn views_beyond_the_budget_fail_and_offsets_stay_readable() {
    let budget = Budget::new(None);
    let arena = Arena::new(&budget).expect("an arena");
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..100_000).map(|i| i.to_string()),
    ));
    let batches = [batch_of(column)];
    let extents = build_extents(&arena, &schema_of(&DataType::Utf8), &batches, &[100_000], 1)
        .expect("an extent");
    let frozen = extents[0].column(0);
    budget.set_limit(Some(budget.usage().frozen + 1_000_000));
    assert!(matches!(
        frozen.slice(0, 1, Form::Compute),
        Err(Error::OutOfMemory { .. })
    ));
    assert!(frozen.slice(0, 1, Form::Consumer).is_ok());
    budget.set_limit(None);
    let before = frozen.bytes();
    assert!(frozen.slice(0, 1, Form::Compute).is_ok());
    assert!(frozen.bytes() >= before + 1_600_000);
    assert_eq!(budget.usage().frozen, frozen.bytes());
}

#[test]
fn views_of_every_length_are_right_within_and_at_the_end_of_a_heap() {
    for len in 0..50 {
        let value = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQR"[..len].to_owned();
        let values = [value.clone(), "between".to_owned(), value.clone(), value];
        for count in 1..=values.len() {
            let column: ArrayRef = Arc::new(StringArray::from_iter_values(&values[..count]));
            let extent = frozen(&DataType::Utf8, &column).expect("an extent");
            let views = extent
                .column(0)
                .slice(0, count, Form::Compute)
                .expect("a slice");
            views.to_data().validate_full().expect("valid data");
            assert!(
                views
                    .as_string_view()
                    .iter()
                    .flatten()
                    .eq(values[..count].iter().map(String::as_str))
            );
        }
    }
}

#[test]
fn views_are_built_once_by_many_threads() {
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..50_000).map(|i| format!("number {i:020}")),
    ));
    let extent = frozen(&DataType::Utf8, &column).expect("an extent");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (extent, column) = (&extent, &column);
            scope.spawn(move || {
                let found = extent
                    .column(0)
                    .slice(thread * 7, 40_000, Form::Compute)
                    .expect("a slice");
                assert_eq!(
                    &found,
                    &converted(
                        &column.slice(thread * 7, 40_000),
                        &DataType::Utf8,
                        Form::Compute
                    )
                );
            });
        }
    });
    let views = |offset| {
        extent
            .column(0)
            .slice(offset, 1, Form::Compute)
            .expect("a slice")
    };
    let address = |array: ArrayRef| array.as_string_view().views().as_ptr() as usize;
    assert_eq!(address(views(1)) - address(views(0)), 16);
}

#[test]
fn slices_share_the_extent_and_outlive_it() {
    let arena = arena();
    let column: ArrayRef = Arc::new(Int32Array::from_iter_values(0..20_000));
    let batches = [batch_of(Arc::clone(&column))];
    let extent = build_extents(&arena, &schema_of(&DataType::Int32), &batches, &[20_000], 1)
        .expect("one")
        .remove(0);
    let slice = extent
        .column(0)
        .slice(10_000, 5_000, Form::Compute)
        .expect("a slice");
    let whole = extent
        .column(0)
        .array()
        .as_primitive::<Int32Type>()
        .values()
        .as_ptr();
    assert_eq!(
        slice.as_primitive::<Int32Type>().values().as_ptr() as usize - whole as usize,
        40_000
    );
    drop((extent, arena));
    assert_eq!(&slice, &column.slice(10_000, 5_000));
}

#[test]
fn a_build_copies() {
    let source = Int32Array::from_iter_values(0..10_000);
    let address = source.values().as_ptr();
    let column: ArrayRef = Arc::new(source);
    let extent = frozen(&DataType::Int32, &column).expect("an extent");
    assert_ne!(
        extent
            .column(0)
            .array()
            .as_primitive::<Int32Type>()
            .values()
            .as_ptr(),
        address
    );
}

#[test]
fn recycled_memory_shows_only_new_values() {
    let arena = arena();
    for round in 0..5_i64 {
        let values: ArrayRef = Arc::new(Int64Array::from_iter(
            (0..70_000).map(|i| (i % 7 > 0).then_some(i * round)),
        ));
        let text = cast(&values, &DataType::Utf8).expect("a cast");
        for column in [values, text] {
            let schema = schema_of(column.data_type());
            let batches = [batch_of(Arc::clone(&column))];
            let extent = build_extents(&arena, &schema, &batches, &[70_000], 2)
                .expect("an extent")
                .remove(0);
            assert_eq!(extent.column(0).array(), &column);
            let compute = extent
                .column(0)
                .slice(0, 70_000, Form::Compute)
                .expect("a slice");
            assert_eq!(
                &compute,
                &converted(&column, column.data_type(), Form::Compute)
            );
        }
    }
}

#[test]
fn batches_of_different_types_make_one_column() {
    let stored: ArrayRef = Arc::new(StringArray::from(vec![
        Some("a"),
        None,
        Some("longer than twelve bytes"),
    ]));
    let pieces: Vec<ArrayRef> = [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View]
        .iter()
        .map(|foreign| cast(&stored, foreign).expect("a cast"))
        .collect();
    let batches: Vec<_> = pieces.into_iter().map(batch_of).collect();
    let extent = build_extents(&arena(), &schema_of(&DataType::Utf8), &batches, &[9], 1)
        .expect("an extent")
        .remove(0);
    let expected = concat(&[&stored, &stored, &stored]).expect("an array");
    assert_eq!(extent.column(0).array(), &expected);
}

#[test]
fn threads_change_nothing() {
    let random = &mut Random(5);
    let columns: Vec<ArrayRef> = [
        DataType::Utf8,
        DataType::Int64,
        DataType::Float32,
        DataType::Boolean,
    ]
    .iter()
    .map(|data_type| sample(data_type, 60_000, Nulls::Some, random))
    .collect();
    let batch =
        RecordBatch::try_from_iter(["a", "b", "c", "d"].into_iter().zip(columns)).expect("a batch");
    let build = |threads| {
        build_extents(
            &arena(),
            &batch.schema(),
            std::slice::from_ref(&batch),
            &[20_000; 3],
            threads,
        )
        .expect("extents")
    };
    for (one, many) in build(1).iter().zip(build(4)) {
        for (one, many) in one.columns().iter().zip(many.columns()) {
            assert_eq!(one.array(), many.array());
            assert_eq!(one.minimum().is_some(), many.minimum().is_some());
            let estimates =
                [one, many].map(|column| column.distinct().map(|sketch| sketch.estimate()));
            assert_eq!(estimates[0], estimates[1]);
        }
    }
}

#[test]
fn an_extent_of_no_columns_has_rows() {
    let schema = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(10));
    let batch =
        RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).expect("a batch");
    let extents = build_extents(&arena(), &schema, &[batch], &[10], 2).expect("an extent");
    assert_eq!((extents[0].rows(), extents[0].bytes()), (10, 0));
}

#[test]
fn a_form_keeps_names_nullability_and_metadata() {
    let field = Field::new("a", DataType::Utf8, false)
        .with_metadata([("k".to_owned(), "v".to_owned())].into());
    let stored: SchemaRef = Arc::new(Schema::new(vec![
        field,
        Field::new("b", DataType::Decimal64(9, 2), true),
    ]));
    let compute = Form::Compute.schema(&stored);
    assert_eq!(compute.field(0).data_type(), &DataType::Utf8View);
    assert_eq!(compute.field(1).data_type(), &DataType::Decimal128(9, 2));
    assert_eq!(compute.field(0).metadata(), stored.field(0).metadata());
    assert!(!compute.field(0).is_nullable());
    let consumer = Form::Consumer.schema(&stored);
    assert_eq!(
        (consumer.field(0).data_type(), consumer.field(1).data_type()),
        (&DataType::Utf8, &DataType::Decimal128(9, 2))
    );
    let native = Form::Native.schema(&stored);
    assert_eq!(
        (native.field(0).data_type(), native.field(1).data_type()),
        (&DataType::Utf8View, &DataType::Decimal64(9, 2))
    );
}
