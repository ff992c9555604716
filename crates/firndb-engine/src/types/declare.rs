//! From the types of SQL text to fields: CREATE TABLE, ALTER TABLE and CAST.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, Fields,
    IntervalUnit, TimeUnit,
};
use datafusion::common::Result as DataFusionResult;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{
    self, ArrayElemTypeDef, CharacterLength, EnumMember, ExactNumberInfo, TimezoneInfo,
};

use super::{
    EXTENSION_KEY, JSON_EXTENSION, LABELS_KEY, TYPE_KEY, UTC, UUID_EXTENSION, compute_field, flat,
};
use crate::{Error, Result, SqlState};

/// The longest VARCHAR(n), as in PostgreSQL.
const MAX_CHARACTERS: u64 = 10_485_760;
/// What DECIMAL alone means, as in DuckDB.
const DEFAULT_DECIMAL: (u8, i8) = (18, 3);

/// The field that stores a column of a SQL type (stored Arrow types: see `firndb_storage::Form`). The SQL type's name, where Arrow
/// does not tell it (varchar(n), char(n), uuid, json, enum), travels as field metadata.
/// `named` finds the types that have names.
pub fn column_field(
    name: &str,
    sql: &ast::DataType,
    nullable: bool,
    named: &dyn Fn(&str) -> Option<NamedType>,
) -> Result<Field> {
    let declared = Declaration::resolve(sql, named)?;
    let stored = match declared.data_type {
        DataType::Decimal128(precision, scale) if precision <= DECIMAL64_MAX_PRECISION => {
            DataType::Decimal64(precision, scale)
        }
        other => other,
    };
    let field = Field::new(name, stored, nullable).with_metadata(declared.metadata);
    Ok(flat(&field))
}

/// What a name that was given to a type stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedType {
    /// An enum type of these labels, in order.
    Enum(Vec<String>),
    /// Another type, in which no other alias is named.
    Alias(ast::DataType),
}

/// Resolves the type names of casts; types with names are those that the catalog lists.
#[derive(Debug, Default)]
pub struct TypeNames {
    /// Each type by its folded name.
    pub named: HashMap<String, NamedType>,
}

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, sql: &ast::DataType) -> DataFusionResult<Option<FieldRef>> {
        let labels = |name: &str| self.named.get(name).cloned();
        let stored = column_field("", sql, true, &labels)?;
        Ok(Some(Arc::new(compute_field(&stored))))
    }
}

/// A type as it may appear at any depth: decimals are `Decimal128`.
struct Declaration {
    data_type: DataType,
    metadata: HashMap<String, String>,
}

impl From<DataType> for Declaration {
    fn from(data_type: DataType) -> Self {
        Declaration {
            data_type,
            metadata: HashMap::new(),
        }
    }
}

impl Declaration {
    fn resolve(
        sql: &ast::DataType,
        named: &dyn Fn(&str) -> Option<NamedType>,
    ) -> Result<Declaration> {
        use ast::DataType as Sql;
        let data_type = match sql {
            Sql::Boolean | Sql::Bool => DataType::Boolean,
            Sql::TinyInt(_) => DataType::Int8,
            Sql::SmallInt(_) | Sql::Int2(_) | Sql::Int16 => DataType::Int16,
            Sql::Int(_)
            | Sql::Integer(_)
            | Sql::Int4(_)
            | Sql::Int32
            | Sql::MediumInt(_)
            | Sql::Signed
            | Sql::SignedInteger => DataType::Int32,
            Sql::BigInt(_) | Sql::Int8(_) | Sql::Int64 => DataType::Int64,
            Sql::HugeInt | Sql::Int128 => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
            Sql::UTinyInt | Sql::TinyIntUnsigned(_) | Sql::UInt8 => DataType::UInt8,
            Sql::USmallInt | Sql::SmallIntUnsigned(_) | Sql::Int2Unsigned(_) | Sql::UInt16 => {
                DataType::UInt16
            }
            Sql::IntUnsigned(_)
            | Sql::IntegerUnsigned(_)
            | Sql::Int4Unsigned(_)
            | Sql::MediumIntUnsigned(_)
            | Sql::Unsigned
            | Sql::UnsignedInteger
            | Sql::UInt32 => DataType::UInt32,
            Sql::UBigInt | Sql::BigIntUnsigned(_) | Sql::Int8Unsigned(_) | Sql::UInt64 => {
                DataType::UInt64
            }
            Sql::Real | Sql::Float4 | Sql::Float32 => DataType::Float32,
            Sql::Double(_) | Sql::DoublePrecision | Sql::Float8 | Sql::Float64 => DataType::Float64,
            Sql::Float(ExactNumberInfo::Precision(1..=24)) => DataType::Float32,
            Sql::Float(_) => DataType::Float64,
            Sql::Numeric(info)
            | Sql::Decimal(info)
            | Sql::Dec(info)
            | Sql::BigDecimal(info)
            | Sql::BigNumeric(info) => decimal(info)?,
            Sql::Varchar(length)
            | Sql::CharacterVarying(length)
            | Sql::CharVarying(length)
            | Sql::Nvarchar(length) => return text("VARCHAR", length),
            Sql::Char(length) | Sql::Character(length) => return text("CHAR", length),
            Sql::Text
            | Sql::TinyText
            | Sql::MediumText
            | Sql::LongText
            | Sql::String(_)
            | Sql::Clob(_)
            | Sql::CharacterLargeObject(_)
            | Sql::CharLargeObject(_) => DataType::Utf8,
            Sql::Bytea
            | Sql::Blob(_)
            | Sql::TinyBlob
            | Sql::MediumBlob
            | Sql::LongBlob
            | Sql::Bytes(_)
            | Sql::Binary(_)
            | Sql::Varbinary(_) => DataType::Binary,
            Sql::Date | Sql::Date32 => DataType::Date32,
            Sql::Time(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
                let time = DataType::Time64(TimeUnit::Microsecond);
                return of_digits("TIME", time, *precision);
            }
            Sql::Timestamp(precision, zone) => {
                let zoned = matches!(zone, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone);
                return timestamp(*precision, zoned);
            }
            Sql::Datetime(precision) | Sql::TimestampNtz(precision) => {
                return timestamp(*precision, false);
            }
            Sql::Interval { .. } => DataType::Interval(IntervalUnit::MonthDayNano),
            Sql::Uuid => return Ok(uuid()),
            Sql::JSON | Sql::JSONB => return Ok(json()),
            Sql::Enum(members, _) => {
                let labels = members
                    .iter()
                    .map(|member| match member {
                        EnumMember::Name(label) | EnumMember::NamedValue(label, _) => label.clone(),
                    })
                    .collect();
                return enumeration(None, labels);
            }
            Sql::Array(
                ArrayElemTypeDef::SquareBracket(element, _)
                | ArrayElemTypeDef::AngleBracket(element)
                | ArrayElemTypeDef::Parenthesis(element),
            ) => {
                let element = Declaration::resolve(element, named)?.into_field("item", true);
                DataType::List(Arc::new(element))
            }
            Sql::Struct(members, _) | Sql::Tuple(members) => {
                let mut fields = Vec::with_capacity(members.len());
                for (position, member) in members.iter().enumerate() {
                    let name = match &member.field_name {
                        Some(name) => name.value.clone(),
                        None => format!("c{position}"),
                    };
                    fields.push(
                        Declaration::resolve(&member.field_type, named)?.into_field(&name, true),
                    );
                }
                DataType::Struct(Fields::from(fields))
            }
            Sql::Map(key, value) => {
                let key = Declaration::resolve(key, named)?.into_field("key", false);
                let value = Declaration::resolve(value, named)?.into_field("value", true);
                let entries = DataType::Struct(Fields::from(vec![key, value]));
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
            Sql::Nullable(inner) => return Declaration::resolve(inner, named),
            Sql::Custom(name, modifiers) => return custom(name, modifiers, named),
            other => {
                return Err(unsupported(&other.to_string().to_lowercase()));
            }
        };
        Ok(data_type.into())
    }

    fn into_field(self, name: &str, nullable: bool) -> Field {
        Field::new(name, self.data_type, nullable).with_metadata(self.metadata)
    }
}

/// 0A000 for a type of other systems, with one to take in its place.
fn unsupported(name: &str) -> Error {
    let error = Error::unsupported(format!("type {name} is not supported"));
    let instead = match name {
        "timestamp_ns" => "TIMESTAMP has microseconds.",
        "timetz" | "time with time zone" => "TIME has no zone, TIMESTAMPTZ has a date.",
        "bit" | "bitstring" | "bit varying" => {
            "Integers have & | << >> and bit_count, BLOB has bytes."
        }
        "uhugeint" | "uint128" | "bignum" | "varint" => "HUGEINT and DECIMAL have up to 38 digits.",
        _ => return error,
    };
    error.with_hint(instead)
}

fn custom(
    name: &ast::ObjectName,
    modifiers: &[String],
    named: &dyn Fn(&str) -> Option<NamedType>,
) -> Result<Declaration> {
    let written = name.0.last().map(ToString::to_string).unwrap_or_default();
    let written = written.trim_matches('"');
    let folded = written.to_lowercase();
    if let Some(found) = named(written).or_else(|| named(&folded))
        && modifiers.is_empty()
    {
        return match found {
            NamedType::Enum(labels) => enumeration(Some(written), labels),
            NamedType::Alias(data_type) => Declaration::resolve(&data_type, &|name| {
                named(name).filter(|found| matches!(found, NamedType::Enum(_)))
            }),
        };
    }
    let data_type = match folded.as_str() {
        "bool" | "logical" => DataType::Boolean,
        "tinyint" | "int1" => DataType::Int8,
        "short" => DataType::Int16,
        "long" => DataType::Int64,
        "hugeint" | "int128" => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
        "utinyint" | "uint8" => DataType::UInt8,
        "usmallint" | "uint16" => DataType::UInt16,
        "uinteger" | "uint32" | "uint" => DataType::UInt32,
        "ubigint" | "uint64" => DataType::UInt64,
        "float4" => DataType::Float32,
        "float8" | "double" => DataType::Float64,
        "money" => DataType::Decimal128(19, 2),
        "string" | "text" | "name" | "citext" => DataType::Utf8,
        "bpchar" => DataType::Utf8,
        "bytea" | "blob" => DataType::Binary,
        "datetime" | "timestamp_us" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamp_ms" => return timestamp(Some(3), false),
        "timestamp_s" => return timestamp(Some(0), false),
        "timestamp_ns" => {
            return Err(unsupported(&folded).with_hint(
                "TIMESTAMP has six digits of a second, TIMESTAMP_MS three, TIMESTAMP_S none.",
            ));
        }
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        "uuid" | "guid" => return Ok(uuid()),
        "json" | "jsonb" => return Ok(json()),
        "bit" | "bitstring" | "uhugeint" | "uint128" | "bignum" | "varint" | "timetz"
        | "variant" | "geometry" => return Err(unsupported(&folded)),
        _ => {
            return Err(Error::new(
                SqlState::UndefinedObject,
                format!("type \"{written}\" does not exist"),
            ));
        }
    };
    Ok(data_type.into())
}

fn decimal(info: &ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => {
            return Ok(DataType::Decimal128(DEFAULT_DECIMAL.0, DEFAULT_DECIMAL.1));
        }
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision @ 1..=DECIMAL128_MAX_PRECISION), Ok(scale @ 0..))
            if scale as u8 <= precision =>
        {
            Ok(DataType::Decimal128(precision, scale))
        }
        (Ok(1..=DECIMAL128_MAX_PRECISION), _) => Err(Error::new(
            SqlState::InvalidParameterValue,
            format!("DECIMAL scale {scale} must be between 0 and precision {precision}"),
        )),
        _ => Err(Error::new(
            SqlState::InvalidParameterValue,
            format!(
                "DECIMAL precision {precision} must be between 1 and {DECIMAL128_MAX_PRECISION}"
            ),
        )),
    }
}

fn text(kind: &str, length: &Option<CharacterLength>) -> Result<Declaration> {
    let Some(CharacterLength::IntegerLength { length, .. }) = length else {
        return Ok(DataType::Utf8.into());
    };
    if !(1..=MAX_CHARACTERS).contains(length) {
        return Err(Error::new(
            SqlState::InvalidParameterValue,
            format!(
                "length for type {} must be between 1 and {MAX_CHARACTERS}",
                kind.to_lowercase()
            ),
        ));
    }
    Ok(Declaration {
        data_type: DataType::Utf8,
        metadata: HashMap::from([(TYPE_KEY.into(), format!("{kind}({length})"))]),
    })
}

fn timestamp(precision: Option<u64>, with_zone: bool) -> Result<Declaration> {
    let zone = with_zone.then(|| UTC.into());
    let stamp = DataType::Timestamp(TimeUnit::Microsecond, zone);
    of_digits("TIMESTAMP", stamp, precision)
}

/// A timestamp or time whose seconds have so many digits behind the point.
fn of_digits(kind: &str, data_type: DataType, digits: Option<u64>) -> Result<Declaration> {
    match digits {
        None | Some(6) => Ok(data_type.into()),
        Some(digits @ 0..6) => Ok(Declaration {
            data_type,
            metadata: HashMap::from([(TYPE_KEY.into(), format!("{kind}({digits})"))]),
        }),
        Some(digits) => Err(Error::unsupported(format!(
            "{}s have at most 6 digits of a second, not {digits}",
            kind.to_lowercase()
        ))),
    }
}

fn uuid() -> Declaration {
    Declaration {
        data_type: DataType::FixedSizeBinary(16),
        metadata: HashMap::from([(EXTENSION_KEY.into(), UUID_EXTENSION.into())]),
    }
}

fn json() -> Declaration {
    Declaration {
        data_type: DataType::Utf8,
        metadata: HashMap::from([(EXTENSION_KEY.into(), JSON_EXTENSION.into())]),
    }
}

fn enumeration(name: Option<&str>, labels: Vec<String>) -> Result<Declaration> {
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = labels.iter().find(|label| !seen.insert(label.as_str())) {
        return Err(Error::new(
            SqlState::DuplicateObject,
            format!("enum label \"{twice}\" is used more than once"),
        ));
    }
    let labels = serde_json::to_string(&labels)
        .map_err(|error| Error::internal(format!("enum labels: {error}")))?;
    let mut metadata = HashMap::from([(LABELS_KEY.to_string(), labels)]);
    if let Some(name) = name {
        metadata.insert(TYPE_KEY.into(), name.into());
    }
    Ok(Declaration {
        data_type: DataType::Utf8,
        metadata,
    })
}
