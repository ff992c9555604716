//! The SQL names of fields' types.

use arrow::datatypes::{DataType, Field, IntervalUnit};

use super::{Refinement, TYPE_KEY, full};

/// The SQL name of a field's type, as DuckDB prints it: `DECIMAL(15,2)`, `VARCHAR`, `TIMESTAMP WITH TIME ZONE`, `INTEGER[]` …
pub fn sql_name(field: &Field) -> String {
    name_of(&full(field))
}

fn name_of(field: &Field) -> String {
    match Refinement::of(field) {
        Refinement::Uuid => "UUID".into(),
        Refinement::Json => "JSON".into(),
        Refinement::Length(length, true) => format!("CHAR({length})"),
        Refinement::Length(length, false) => format!("VARCHAR({length})"),
        Refinement::Enum(labels) => match field.metadata().get(TYPE_KEY) {
            Some(name) => name.clone(),
            None => {
                let labels: Vec<String> = labels.iter().map(|label| quoted(label)).collect();
                format!("ENUM({})", labels.join(", "))
            }
        },
        Refinement::Digits(digits) => match (field.data_type(), digits) {
            (DataType::Timestamp(_, None), 0) => "TIMESTAMP_S".into(),
            (DataType::Timestamp(_, None), 3) => "TIMESTAMP_MS".into(),
            (DataType::Timestamp(_, None), digits) => format!("TIMESTAMP({digits})"),
            (DataType::Timestamp(_, Some(_)), digits) => {
                format!("TIMESTAMP({digits}) WITH TIME ZONE")
            }
            (_, digits) => format!("TIME({digits})"),
        },
        Refinement::None => arrow_name(field.data_type()),
    }
}

fn arrow_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Null => "NULL",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "UTINYINT",
        DataType::UInt16 => "USMALLINT",
        DataType::UInt32 => "UINTEGER",
        DataType::UInt64 => "UBIGINT",
        DataType::Float16 | DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "BLOB",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Timestamp(_, None) => "TIMESTAMP",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        DataType::Duration(_)
        | DataType::Interval(
            IntervalUnit::YearMonth | IntervalUnit::DayTime | IntervalUnit::MonthDayNano,
        ) => "INTERVAL",
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            return format!("DECIMAL({precision},{scale})");
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => return format!("{}[]", name_of(item)),
        DataType::FixedSizeList(item, length) => return format!("{}[{length}]", name_of(item)),
        DataType::Struct(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|member| format!("{} {}", identifier(member.name()), name_of(member)))
                .collect();
            return format!("STRUCT({})", members.join(", "));
        }
        DataType::Map(entries, _) => {
            return match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 => {
                    format!("MAP({}, {})", name_of(&pair[0]), name_of(&pair[1]))
                }
                _ => "MAP".into(),
            };
        }
        DataType::Dictionary(_, value) => return arrow_name(value),
        DataType::RunEndEncoded(_, values) => return name_of(values),
        DataType::Union(_, _) => "UNION",
    };
    name.into()
}

fn quoted(label: &str) -> String {
    format!("'{}'", label.replace('\'', "''"))
}

/// An identifier, quoted where plain text would be read as another name.
fn identifier(name: &str) -> String {
    let plain = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .chars()
            .all(|letter| letter == '_' || letter.is_ascii_digit() || letter.is_ascii_lowercase());
    if plain {
        name.into()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}
