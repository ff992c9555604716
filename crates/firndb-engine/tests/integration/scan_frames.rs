//! Frames scanned in place: types, order, limits, skipping of nothing that is needed.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal64Array, DictionaryArray, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use firndb_engine::Frame;
use firndb_engine::scan::{frame_provider, physical_rules};

/// A context as a session has it: ordered, two partitions.
fn context() -> SessionContext {
    let mut config = SessionConfig::new()
        .with_target_partitions(2)
        .with_batch_size(32_768)
        .with_round_robin_repartition(false);
    config.options_mut().sql_parser.map_string_types_to_utf8view = true;
    let mut builder = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    for rule in physical_rules() {
        builder = builder.with_physical_optimizer_rule(rule);
    }
    SessionContext::new_with_state(builder.build())
}

fn frame(columns: Vec<(&str, ArrayRef)>) -> Frame {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    Frame {
        schema: batch.schema(),
        batches: vec![batch],
    }
}

fn numbers(count: i64) -> Frame {
    frame(vec![
        ("a", Arc::new(Int64Array::from_iter_values(0..count))),
        (
            "b",
            Arc::new(Int64Array::from_iter_values((0..count).map(|i| i % 7))),
        ),
    ])
}

async fn query(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    context.sql(sql).await.unwrap().collect().await.unwrap()
}

fn longs(batches: &[RecordBatch], column: usize) -> Vec<i64> {
    batches
        .iter()
        .flat_map(|b| {
            b.column(column)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_in_the_order_of_the_frame() {
    let context = context();
    let provider = frame_provider(&numbers(300_000)).unwrap();
    context.register_table("t", provider).unwrap();
    let rows = query(&context, "SELECT a FROM t").await;
    assert_eq!(longs(&rows, 0), (0..300_000).collect::<Vec<_>>());
    let rows = query(&context, "SELECT a + 1 FROM t WHERE b = 3").await;
    let expected: Vec<i64> = (0..300_000).filter(|i| i % 7 == 3).map(|i| i + 1).collect();
    assert_eq!(longs(&rows, 0), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_gives_the_first_rows() {
    let context = context();
    let provider = frame_provider(&numbers(300_000)).unwrap();
    context.register_table("t", provider).unwrap();
    let rows = query(&context, "SELECT a FROM t LIMIT 5").await;
    assert_eq!(longs(&rows, 0), [0, 1, 2, 3, 4]);
    let rows = query(&context, "SELECT a FROM t WHERE b = 6 LIMIT 3 OFFSET 40000").await;
    assert_eq!(longs(&rows, 0), [280_006, 280_013, 280_020]);
    let rows = query(&context, "SELECT a FROM t WHERE a >= 299998 LIMIT 10").await;
    assert_eq!(longs(&rows, 0), [299_998, 299_999]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_union_gives_its_parts_one_after_the_other() {
    let context = context();
    let provider = frame_provider(&numbers(100_000)).unwrap();
    context.register_table("t", provider).unwrap();
    let rows = query(&context, "SELECT a FROM t UNION ALL SELECT -a FROM t").await;
    let expected: Vec<i64> = (0..100_000).chain((0..100_000).map(|i| -i)).collect();
    assert_eq!(longs(&rows, 0), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_with_a_limited_side_keeps_the_limit() {
    let context = context();
    let provider = frame_provider(&numbers(200_000)).unwrap();
    context.register_table("t", provider).unwrap();
    let few = frame(vec![("k", Arc::new(Int64Array::from(vec![3, 70_000])))]);
    context
        .register_table("few", frame_provider(&few).unwrap())
        .unwrap();
    // Only 0 … 4 are within the limit, so 70,000 must not be found.
    for inner in [
        "SELECT a FROM t LIMIT 5",
        "SELECT a FROM t WHERE b < 7 LIMIT 5",
        "SELECT a FROM t ORDER BY a LIMIT 5",
    ] {
        let sql = format!("SELECT x.a FROM ({inner}) x JOIN few ON few.k = x.a");
        let rows = query(&context, &sql).await;
        assert_eq!(longs(&rows, 0), [3], "{inner}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_finds_all_matches_whatever_its_filters_skip() {
    let context = context();
    let provider = frame_provider(&numbers(200_000)).unwrap();
    context.register_table("t", provider).unwrap();
    let keys: Vec<i64> = (0..200_000).step_by(1_000).collect();
    let few = frame(vec![("k", Arc::new(Int64Array::from(keys.clone())))]);
    context
        .register_table("few", frame_provider(&few).unwrap())
        .unwrap();
    let rows = query(
        &context,
        "SELECT t.a FROM t JOIN few ON few.k = t.a ORDER BY t.a",
    )
    .await;
    assert_eq!(longs(&rows, 0), keys);
    let rows = query(&context, "SELECT a FROM t ORDER BY a DESC LIMIT 3").await;
    assert_eq!(longs(&rows, 0), [199_999, 199_998, 199_997]);
}

#[tokio::test]
async fn columns_come_in_the_types_that_operators_compute_with() {
    let keys = Int32Array::from(vec![Some(0), Some(1), None]);
    let categories = DictionaryArray::<Int32Type>::new(
        keys,
        Arc::new(StringArray::from(vec!["red", "a long name for a colour"])),
    );
    let money = Decimal64Array::from(vec![Some(150), None, Some(-275)])
        .with_precision_and_scale(10, 2)
        .unwrap();
    let frame = frame(vec![
        (
            "name",
            Arc::new(StringArray::from(vec![Some("x"), None, Some("y")])) as ArrayRef,
        ),
        ("category", Arc::new(categories)),
        ("money", Arc::new(money)),
    ]);
    let provider = frame_provider(&frame).unwrap();
    let types: Vec<DataType> = provider
        .schema()
        .fields()
        .iter()
        .map(|f| f.data_type().clone())
        .collect();
    assert_eq!(
        types,
        [
            DataType::Utf8View,
            DataType::Utf8View,
            DataType::Decimal128(10, 2)
        ]
    );
    let context = context();
    context.register_table("f", provider).unwrap();
    let rows = query(
        &context,
        "SELECT category, money FROM f WHERE name IS NOT NULL",
    )
    .await;
    let shown = arrow::util::pretty::pretty_format_batches(&rows)
        .unwrap()
        .to_string();
    assert!(shown.contains("red"), "{shown}");
    assert!(shown.contains("-2.75"), "{shown}");
}

#[tokio::test]
async fn strings_share_the_callers_memory() {
    let text = "a text that is too long to be kept inside a view";
    let strings = StringArray::from(vec![text; 100]);
    let address = strings.values().as_ptr() as usize;
    let end = address + strings.values().len();
    let frame = frame(vec![("s", Arc::new(strings) as ArrayRef)]);
    let context = context();
    context
        .register_table("f", frame_provider(&frame).unwrap())
        .unwrap();
    let rows = query(&context, "SELECT s FROM f").await;
    let views = rows[0].column(0).as_string_view();
    let value = views.value(99).as_ptr() as usize;
    assert!((address..end).contains(&value));
}

#[tokio::test]
async fn a_frame_without_rows_has_its_columns() {
    let frame = Frame {
        schema: Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)])),
        batches: Vec::new(),
    };
    let context = context();
    context
        .register_table("t", frame_provider(&frame).unwrap())
        .unwrap();
    let rows = query(&context, "SELECT count(*), max(a) FROM t").await;
    assert_eq!(longs(&rows, 0), [0]);
    assert!(rows[0].column(1).is_null(0));
}

#[tokio::test]
async fn a_plan_of_several_partitions_ends_in_an_ordered_merge() {
    let context = context();
    let provider = frame_provider(&numbers(100_000)).unwrap();
    context.register_table("t", provider).unwrap();
    let plan = context
        .sql("SELECT a FROM t WHERE b = 1")
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap();
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    assert!(shown.starts_with("OrderedMergeExec"), "{shown}");
    assert!(!shown.contains("RepartitionExec"), "{shown}");
}
