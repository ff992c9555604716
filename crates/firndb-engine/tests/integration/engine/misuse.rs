//! Every function with arguments that it does not take: an error in SQL's words, and never a panic.

use datafusion::execution::session_state::SessionStateBuilder;
use firndb_engine::{Error, Outcome, Parameters, Session, SqlState, expr, parse};

use crate::engine::support::{Ask, database};

/// A value of each type, and some that functions are likely to choke on.
const VALUES: [&str; 24] = [
    "NULL",
    "true",
    "1::TINYINT",
    "-1",
    "1::UBIGINT",
    "1.5::DECIMAL(10, 2)",
    "1::HUGEINT",
    "2.5::DOUBLE",
    "'abc'",
    "'\\xAA'::BLOB",
    "DATE '2020-01-02'",
    "TIME '01:02:03'",
    "TIMESTAMP '2020-01-02 03:04:05'",
    "TIMESTAMPTZ '2020-01-02 03:04:05+00'",
    "INTERVAL '1 day'",
    "'00000000-0000-0000-0000-000000000001'::UUID",
    "'{\"a\": 1}'::JSON",
    "'sad'::mood",
    "[1, 2]",
    "[]",
    "{'a': 1}",
    "MAP {'k': 1}",
    "['00000000-0000-0000-0000-000000000001'::UUID]",
    "[[1]]",
];

/// Words of Arrow and DataFusion that no user has written.
const FOREIGN: [&str; 24] = [
    "Utf8",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Float32",
    "Float64",
    "Date32",
    "Time64",
    "Decimal128",
    "FixedSize",
    "BinaryView",
    "Timestamp(",
    "List(",
    "Struct(",
    "Map(",
    "MonthDayNano",
    "arrow_array",
    "DataFusion",
    "nternal error",
    "ScalarValue",
    "ColumnarValue",
    "oercion",
    "__firndb",
];

/// Functions whose business are Arrow's types.
const OF_ARROW: [&str; 2] = ["arrow_", "cast_to_type"];

/// The names of all functions but those that wait.
fn names() -> Vec<String> {
    let builder = SessionStateBuilder::new().with_default_features();
    let state = expr::configure(builder).build();
    let mut names: Vec<String> = state
        .scalar_functions()
        .keys()
        .chain(state.aggregate_functions().keys())
        .chain(state.window_functions().keys())
        .chain(state.higher_order_functions().keys())
        .cloned()
        .chain(parse::macro_names().map(str::to_owned))
        .filter(|name| {
            name.chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        })
        .filter(|name| !name.starts_with("__") && !name.contains("sleep"))
        .collect();
    names.sort();
    names.dedup();
    names
}

fn run(session: &Session, sql: &str) -> Option<Error> {
    let read = |outcome: Outcome| match outcome.rows {
        Some(rows) => rows.collect().map(|_| ()),
        None => Ok(()),
    };
    session
        .execute(sql, &Parameters::default())
        .and_then(read)
        .err()
}

/// What is wrong with an error; `None` where it speaks SQL.
fn fault(name: &str, error: &Error) -> Option<String> {
    if OF_ARROW.iter().any(|arrow| name.contains(arrow)) {
        return None;
    }
    if error.state == SqlState::InternalError {
        return Some(format!("XX000 {}", error.message));
    }
    let word = FOREIGN.iter().find(|word| error.message.contains(*word))?;
    Some(format!("\"{word}\" in: {}", error.message))
}

fn calls(name: &str, turn: usize) -> Vec<String> {
    let other = |place: usize, step: usize| VALUES[(place * step + turn) % VALUES.len()];
    let mut calls = vec![format!("SELECT {name}()")];
    for (place, value) in VALUES.iter().enumerate() {
        calls.push(format!("SELECT {name}({value})"));
        calls.push(format!("SELECT {name}({value}, {})", other(place, 7)));
        if place % 4 == turn % 4 {
            let (second, third) = (other(place, 5), other(place, 11));
            calls.push(format!("SELECT {name}({value}, {second}, {third})"));
            calls.push(format!(
                "SELECT {name}(x) FROM (VALUES ({value}), ({value})) t(x)"
            ));
        }
    }
    calls
}

#[test]
fn functions_refuse_what_they_do_not_take_in_the_words_of_sql() {
    let database = database();
    database
        .connect()
        .unwrap()
        .run("CREATE TYPE mood AS ENUM ('sad', 'ok')");
    let names = names();
    assert!(names.len() > 400, "only {} functions", names.len());
    let faults: Vec<String> = std::thread::scope(|scope| {
        let halves: Vec<_> = (0..2)
            .map(|half| {
                let (session, names) = (database.connect().unwrap(), &names);
                scope.spawn(move || {
                    let mut faults = Vec::new();
                    for (turn, name) in names.iter().enumerate().skip(half).step_by(2) {
                        for sql in calls(name, turn) {
                            let error = run(&session, &sql);
                            let fault = error.and_then(|error| fault(name, &error));
                            faults.extend(fault.map(|fault| format!("{sql}\n    {fault}")));
                        }
                    }
                    faults
                })
            })
            .collect();
        halves
            .into_iter()
            .flat_map(|half| half.join().unwrap())
            .collect()
    });
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn operators_refuse_what_they_do_not_take_in_the_words_of_sql() {
    let database = database();
    let session = database.connect().unwrap();
    session.run("CREATE TYPE mood AS ENUM ('sad', 'ok')");
    let operators = [
        "+",
        "-",
        "*",
        "/",
        "%",
        "||",
        "=",
        "<",
        ">=",
        "<>",
        "IS DISTINCT FROM",
        "AND",
        "LIKE",
        "ILIKE",
        "SIMILAR TO",
        "&",
        "|",
        "<<",
        "~",
        "->>",
        "UNION SELECT",
        "IN",
    ];
    let mut faults = Vec::new();
    for operator in operators {
        for left in VALUES {
            for right in VALUES {
                let sql = match operator {
                    "IN" => format!("SELECT {left} IN ({right})"),
                    _ => format!("SELECT {left} {operator} {right}"),
                };
                let fault = run(&session, &sql).and_then(|error| fault(operator, &error));
                faults.extend(fault.map(|fault| format!("{sql}\n    {fault}")));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}
