//! Reading files: what columns are found, what values come out, what errors say.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use firndb_engine::files::options::{FileOptions, Format, OptionValue};
use firndb_engine::files::table::FileTable;
use firndb_engine::files::writer::FileWriter;
use firndb_engine::files::{file_relation, table_functions};
use firndb_engine::scan::physical_rules;
use firndb_engine::types::sql_name;
use firndb_engine::{Error, SqlState};

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("firndb-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path.to_string_lossy().into_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn context() -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(2)
        .with_round_robin_repartition(false);
    let mut builder = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    for rule in physical_rules() {
        builder = builder.with_physical_optimizer_rule(rule);
    }
    let context = SessionContext::new_with_state(builder.build());
    for (name, function) in table_functions() {
        context.register_udtf(name, function);
    }
    context
}

async fn try_query(sql: &str) -> Result<Vec<RecordBatch>, Error> {
    let frame = context().sql(sql).await.map_err(Error::from)?;
    frame.collect().await.map_err(Error::from)
}

async fn table(sql: &str) -> String {
    let batches = try_query(sql).await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

fn open(path: &str, format: Format, options: &[(&str, OptionValue)]) -> Result<FileTable, Error> {
    let mut set = FileOptions::new(format);
    for (name, value) in options {
        set.set(name, value)?;
    }
    FileTable::open(&[path.to_owned()], set)
}

fn columns(table: &FileTable) -> Vec<String> {
    use datafusion::catalog::TableProvider;
    table
        .schema()
        .fields()
        .iter()
        .map(|f| format!("{} {}", f.name(), sql_name(f)))
        .collect()
}

async fn rows_of(table: FileTable) -> Result<Vec<RecordBatch>, Error> {
    use futures::TryStreamExt;
    table.stream().try_collect().await
}

#[tokio::test]
async fn csv_columns_get_the_types_that_all_values_have() {
    let folder = Folder::new();
    let path = folder.file(
        "t.csv",
        "id,price,day,at,seen,open,note,zoned\n\
         1,1.5,2024-02-29,2024-02-29 12:30:00,10:11:12,true,hello,2024-01-01 00:00:00+02\n\
         2,-3e2,1999-12-31,1999-12-31T23:59:59.5,23:59:59,false,\"a,b\",2024-01-01T10:00:00Z\n\
         3,,,,,,,\n",
    );
    let table = open(&path, Format::Csv, &[]).unwrap();
    assert_eq!(
        columns(&table),
        [
            "id BIGINT",
            "price DOUBLE",
            "day DATE",
            "at TIMESTAMP",
            "seen TIME",
            "open BOOLEAN",
            "note VARCHAR",
            "zoned TIMESTAMP WITH TIME ZONE"
        ]
    );
    let rows = rows_of(table).await.unwrap();
    let shown = pretty_format_batches(&rows).unwrap().to_string();
    for value in [
        "a,b",
        "-300.0",
        "2024-02-29",
        "1999-12-31T23:59:59.500",
        "2023-12-31T22:00:00Z",
    ] {
        assert!(shown.contains(value), "{value} in\n{shown}");
    }
}

#[tokio::test]
async fn a_quoted_empty_field_is_text_and_an_empty_one_is_null() {
    let folder = Folder::new();
    let path = folder.file("t.csv", "a,b\n\"\",1\n,2\nx,3\n");
    let shown = table(&format!(
        "SELECT b, a IS NULL AS missing FROM read_csv('{path}') ORDER BY b"
    ))
    .await;
    assert!(shown.contains("| 1 | false"), "{shown}");
    assert!(shown.contains("| 2 | true"), "{shown}");
}

#[tokio::test]
async fn quotes_newlines_and_crlf_are_understood() {
    let folder = Folder::new();
    let path = folder.file(
        "t.csv",
        "a;b\r\n\"line one\nline two\";\"say \"\"hi\"\"\"\r\nplain;x\r\n",
    );
    let rows = rows_of(open(&path, Format::Csv, &[]).unwrap())
        .await
        .unwrap();
    let a = arrow::array::AsArray::as_string_view(rows[0].column(0).as_ref());
    let b = arrow::array::AsArray::as_string_view(rows[0].column(1).as_ref());
    assert_eq!(a.value(0), "line one\nline two");
    assert_eq!(b.value(0), "say \"hi\"");
    assert_eq!((a.value(1), b.value(1)), ("plain", "x"));
}

#[tokio::test]
async fn a_file_without_a_header_gets_numbered_columns() {
    let folder = Folder::new();
    let path = folder.file("t.csv", "1|x\n2|y\n");
    let table = open(&path, Format::Csv, &[]).unwrap();
    assert_eq!(columns(&table), ["column0 BIGINT", "column1 VARCHAR"]);
}

#[tokio::test]
async fn options_are_taken_as_pairs_of_name_and_value() {
    let folder = Folder::new();
    let path = folder.file("t.txt", "# made by hand\n1~NULL\n2~'x~y'\n");
    let shown = table(&format!(
        "SELECT * FROM read_csv('{path}', 'delim', '~', 'header', false, 'skip', 1, 'nullstr', 'NULL', \
         'quote', '''', 'names', make_array('n', 's'))"
    ))
    .await;
    assert!(shown.contains("| n | s   |"), "{shown}");
    assert!(shown.contains("| 1 |     |"), "{shown}");
    assert!(shown.contains("| 2 | x~y |"), "{shown}");
}

#[tokio::test]
async fn declared_columns_are_not_guessed() {
    let folder = Folder::new();
    let path = folder.file("t.csv", "007,1.10\n008,2.25\n");
    let pairs = vec![
        ("code".to_owned(), "VARCHAR".to_owned()),
        ("price".to_owned(), "DECIMAL(6,2)".to_owned()),
    ];
    let table = open(
        &path,
        Format::Csv,
        &[("columns", OptionValue::Pairs(pairs))],
    )
    .unwrap();
    assert_eq!(columns(&table), ["code VARCHAR", "price DECIMAL(6,2)"]);
    let rows = rows_of(table).await.unwrap();
    let shown = pretty_format_batches(&rows).unwrap().to_string();
    assert!(shown.contains("| 007  | 1.10"), "{shown}");
}

#[tokio::test]
async fn an_unknown_option_is_named() {
    let folder = Folder::new();
    let path = folder.file("t.csv", "a\n1\n");
    let error = try_query(&format!(
        "SELECT * FROM read_csv('{path}', 'colour', 'red')"
    ))
    .await
    .unwrap_err();
    assert_eq!(error.state, SqlState::SyntaxError);
    assert!(error.message.contains("colour"), "{error}");
}

#[tokio::test]
async fn a_value_that_does_not_fit_names_the_line() {
    let folder = Folder::new();
    let mut text = String::from("n,s\n");
    for i in 0..50_000 {
        text.push_str(&format!("{i},\"two\nlines\"\n"));
    }
    text.push_str("oops,x\n");
    let path = folder.file("t.csv", text);
    let error = rows_of(open(&path, Format::Csv, &[]).unwrap())
        .await
        .unwrap_err();
    assert_eq!(
        error.state,
        SqlState::InvalidTextRepresentation,
        "{error:?}"
    );
    let detail = error.detail.unwrap();
    assert!(detail.contains("line 100002"), "{detail}");
    assert!(detail.contains("column n"), "{detail}");
}

#[tokio::test]
async fn a_short_line_and_a_long_line_are_malformed() {
    let folder = Folder::new();
    for (name, text, message, line) in [
        (
            "short.csv",
            "a,b\n1,2\n3\n",
            "missing data for column \"b\"",
            "line 3",
        ),
        ("long.csv", "a,b\n1,2\n3,4,5\n", "extra data", "line 3"),
    ] {
        let path = folder.file(name, text);
        let given = [("delim", OptionValue::Text(",".into()))];
        let table = open(&path, Format::Csv, &given).unwrap();
        let error = match rows_of(table).await {
            Err(error) => error,
            Ok(rows) => panic!("{name}: {rows:?}"),
        };
        assert_eq!(error.state, SqlState::BadCopyFileFormat);
        assert!(error.message.contains(message), "{error}");
        assert!(error.detail.unwrap().contains(line));
    }
}

#[tokio::test]
async fn invalid_utf8_names_the_line() {
    let folder = Folder::new();
    let path = folder.file("t.csv", b"a\nok\nb\xffad\n");
    let outcome = match open(&path, Format::Csv, &[]) {
        Ok(table) => rows_of(table).await.map(|_| ()),
        Err(error) => Err(error),
    };
    let error = outcome.unwrap_err();
    assert_eq!(error.state, SqlState::CharacterNotInRepertoire);
    assert!(error.detail.unwrap().contains("line 3"));
}

#[tokio::test]
async fn an_unterminated_quote_is_malformed() {
    let folder = Folder::new();
    let path = folder.file("t.csv", "a,b\n1,\"never closed\n2,3\n");
    let outcome = match open(&path, Format::Csv, &[]) {
        Ok(table) => rows_of(table).await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert_eq!(outcome.unwrap_err().state, SqlState::BadCopyFileFormat);
}

#[tokio::test]
async fn a_missing_file_is_undefined() {
    let error = try_query("SELECT * FROM read_parquet('/nowhere/at/all.parquet')")
        .await
        .unwrap_err();
    assert_eq!(error.state, SqlState::UndefinedFile);
    let error = try_query("SELECT * FROM read_csv('/nowhere/*.csv')")
        .await
        .unwrap_err();
    assert_eq!(error.state, SqlState::UndefinedFile);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_csv_keeps_its_order() {
    let folder = Folder::new();
    let mut text = String::from("i,s\n");
    for i in 0..1_200_000 {
        text.push_str(&format!("{i},row {i}\n"));
    }
    let path = folder.file("t.csv", text);
    let rows = rows_of(open(&path, Format::Csv, &[]).unwrap())
        .await
        .unwrap();
    let mut next = 0;
    for batch in rows {
        assert!(batch.num_rows() <= 32_768);
        let column = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(
            batch.column(0).as_ref(),
        );
        for value in column.values() {
            assert_eq!(*value, next);
            next += 1;
        }
    }
    assert_eq!(next, 1_200_000);
}

#[tokio::test]
async fn globs_and_lists_read_files_in_order() {
    let folder = Folder::new();
    folder.file("b.csv", "n\n3\n4\n");
    folder.file("a.csv", "n\n1\n2\n");
    let pattern = folder.path("*.csv").to_string_lossy().into_owned();
    let shown = table(&format!("SELECT n FROM read_csv('{pattern}')")).await;
    let digits: String = shown.chars().filter(char::is_ascii_digit).collect();
    assert_eq!(digits, "1234");
    let (a, b) = (folder.path("a.csv"), folder.path("b.csv"));
    let shown = table(&format!(
        "SELECT n FROM read_csv(make_array('{}', '{}'))",
        b.display(),
        a.display()
    ))
    .await;
    let digits: String = shown.chars().filter(char::is_ascii_digit).collect();
    assert_eq!(digits, "3412");
}

#[tokio::test]
async fn json_lines_and_arrays_read_alike() {
    let folder = Folder::new();
    let lines = folder.file(
        "l.json",
        "{\"a\": 1, \"b\": \"x\"}\n{\"a\": null, \"c\": [1, 2]}\n",
    );
    let array = folder.file(
        "a.json",
        "[{\"a\": 1, \"b\": \"x\"},\n {\"a\": null, \"c\": [1, 2]}]",
    );
    let one = table(&format!("SELECT a, b, c FROM read_json('{lines}')")).await;
    let other = table(&format!("SELECT a, b, c FROM read_json('{array}')")).await;
    assert_eq!(one, other);
    assert!(one.contains("[1, 2]"), "{one}");
}

#[tokio::test]
async fn malformed_json_is_an_error() {
    let folder = Folder::new();
    let path = folder.file("t.json", "{\"a\": 1}\n{\"a\": \n");
    let error = try_query(&format!("SELECT * FROM read_json('{path}')"))
        .await
        .unwrap_err();
    assert_eq!(error.state, SqlState::BadCopyFileFormat, "{error:?}");
}

/// Writes rows of a query to `name` and reads them back as a table.
async fn written(
    folder: &Folder,
    name: &str,
    sql: &str,
    options: &[(&str, OptionValue)],
) -> PathBuf {
    let batches = try_query(sql).await.unwrap();
    let path = folder.path(name);
    let mut set = FileOptions::new(Format::of_path(Path::new(name)).unwrap());
    for (name, value) in options {
        set.set(name, value).unwrap();
    }
    let mut writer = FileWriter::create(&path, &batches[0].schema(), &set).unwrap();
    for batch in &batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    path
}

const SAMPLE: &str = "SELECT * FROM (VALUES \
    (1, 'plain', 1.25, DATE '2024-02-29', true), \
    (2, 'with \"quotes\", commas', -0.5, DATE '1970-01-01', false), \
    (3, '', NULL, NULL, NULL), \
    (4, NULL, 3.0, DATE '0099-01-01', true)) AS t(id, s, x, d, b) ORDER BY id";

#[tokio::test]
async fn what_is_written_is_read_back() {
    let folder = Folder::new();
    let expected = table(SAMPLE).await;
    for name in [
        "t.csv",
        "t.csv.gz",
        "t.csv.zst",
        "t.parquet",
        "t.arrow",
        "t.arrows",
        "t.json",
        "t.ndjson.gz",
    ] {
        let path = written(&folder, name, SAMPLE, &[]).await;
        let relation = file_relation(&path.to_string_lossy()).unwrap().unwrap();
        let context = context();
        context.register_table("t", relation).unwrap();
        // JSON has no dates: they come back as text.
        let sql = "SELECT id, s, x, CAST(d AS DATE) AS d, b FROM t ORDER BY id";
        let rows = context.sql(sql).await.unwrap().collect().await.unwrap();
        let shown = pretty_format_batches(&rows).unwrap().to_string();
        assert_eq!(shown, expected, "{name}");
    }
}

#[tokio::test]
async fn csv_tells_null_from_empty_text() {
    let folder = Folder::new();
    let path = written(&folder, "t.csv", SAMPLE, &[]).await;
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with("id,s,x,d,b\n"), "{text}");
    assert!(text.contains("\n3,\"\",,,\n"), "{text}");
    assert!(text.contains("\n4,,3"), "{text}");
    assert!(text.contains("\"with \"\"quotes\"\", commas\""), "{text}");
}

#[tokio::test]
async fn a_writer_that_is_dropped_leaves_nothing() {
    let folder = Folder::new();
    let batches = try_query(SAMPLE).await.unwrap();
    let path = folder.path("t.parquet");
    let options = FileOptions::new(Format::Parquet);
    let mut writer = FileWriter::create(&path, &batches[0].schema(), &options).unwrap();
    writer.write(&batches[0]).unwrap();
    drop(writer);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[tokio::test]
async fn parquet_files_are_pruned_and_keep_their_order() {
    let folder = Folder::new();
    let sql = "SELECT value AS i, value % 10 AS d FROM generate_series(0, 199999) AS g(value) ORDER BY value";
    let groups = [("row_group_size", OptionValue::Text("10000".into()))];
    let path = written(&folder, "t.parquet", sql, &groups).await;
    let context = context();
    let relation = file_relation(&path.to_string_lossy()).unwrap().unwrap();
    context.register_table("t", relation).unwrap();
    let rows = context
        .sql("SELECT i FROM t WHERE d = 3 LIMIT 4")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    let shown = pretty_format_batches(&rows).unwrap().to_string();
    let numbers: Vec<&str> = shown
        .split(|c: char| !c.is_ascii_digit())
        .filter(|s| !s.is_empty())
        .collect();
    assert_eq!(numbers, ["3", "13", "23", "33"]);
    let count = context
        .sql("SELECT count(*) FROM t WHERE i >= 150000")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert!(
        pretty_format_batches(&count)
            .unwrap()
            .to_string()
            .contains("50000")
    );
}

#[tokio::test]
async fn a_path_without_a_known_extension_is_no_relation() {
    assert!(file_relation("notes.txt").unwrap().is_none());
    assert!(file_relation("orders").unwrap().is_none());
}
