//! Functions that DuckDB's and PostgreSQL's users expect, where DataFusion lacks them or names them otherwise.
//!
//! A [`Shorthand`] stands for an expression: it has a type when SQL text is planned, and `super::semantics` puts the
//! expression in its place before anything is computed.

mod arrays;
pub(super) mod attempts;
mod buckets;
mod calendar;
mod concatenation;
mod format;
mod hash;
mod json;
mod justified;
mod kernel;
pub(super) mod lambdas;
mod likeness;
mod lists;
mod made_moments;
pub(super) mod maps;
mod modified_moments;
pub(in crate::expr) mod moment_formats;
mod moments;
mod more_text;
mod numbers;
mod padding;
mod random;
mod regex;
pub(super) mod searches;
mod series;
mod sizes;
mod structs;
mod text;
mod to_char;
mod to_number;

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, FixedSizeBinaryArray, PrimitiveArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::functions;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast, lit,
};

pub(super) use arrays::{bytes_in, is_nothing};
pub(super) use concatenation::as_texts;

use super::arithmetic::{ArithmeticOperator, resolve};
use super::cast::Cast;
use super::convert::{Rule, civil_from_days};
use super::{orders, places};
use crate::parse::{FLAT, LIST_OF};
use crate::types::{EXTENSION_KEY, UTC, UUID_EXTENSION, full, sql_name};
use crate::{Error, SqlState};

/// The scalar functions to register beside or over DataFusion's.
pub(super) fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut all: Vec<Arc<ScalarUDF>> = Form::ALL
        .iter()
        .map(|(name, aliases, form)| {
            Arc::new(ScalarUDF::new_from_impl(Shorthand {
                name,
                aliases: aliases.iter().map(ToString::to_string).collect(),
                form: *form,
                signature: match form.arguments() {
                    0 => Signature::nullary(Volatility::Stable),
                    _ => Signature::variadic_any(Volatility::Immutable),
                },
            }))
        })
        .collect();
    all.push(Arc::new(ScalarUDF::new_from_impl(Now {
        aliases: [
            "current_timestamp",
            "transaction_timestamp",
            "statement_timestamp",
            "get_current_timestamp",
        ]
        .map(String::from)
        .into(),
        // Not stable, or the optimizer would call it before it asks for the statement's time (`simplify`).
        signature: Signature::nullary(Volatility::Volatile),
    })));
    all.push(Arc::new(ScalarUDF::new_from_impl(Clock {
        signature: Signature::nullary(Volatility::Volatile),
    })));
    all.push(Arc::new(ScalarUDF::new_from_impl(RandomUuid {
        name: "uuid",
        aliases: vec!["gen_random_uuid".into()],
        signature: Signature::nullary(Volatility::Volatile),
    })));
    all.push(Arc::new(ScalarUDF::new_from_impl(RandomUuid {
        name: "uuidv7",
        aliases: Vec::new(),
        signature: Signature::nullary(Volatility::Volatile),
    })));
    all.push(Arc::new(ScalarUDF::new_from_impl(DateDiff {
        aliases: vec!["datediff".into()],
        signature: Signature::any(3, Volatility::Immutable),
    })));
    all.extend(
        [
            text::kernels(),
            padding::kernels(),
            numbers::kernels(),
            moments::kernels(),
            made_moments::kernels(),
            justified::kernels(),
            modified_moments::kernels(),
            buckets::kernels(),
            moment_formats::kernels(),
            regex::kernels(),
            sizes::kernels(),
            calendar::kernels(),
            likeness::kernels(),
            maps::kernels(),
            to_char::kernels(),
            format::kernels(),
            series::kernels(),
            more_text::kernels(),
            vec![hash::kernel(), to_number::kernel()],
        ]
        .into_iter()
        .flatten()
        .map(kernel::Kernel::function),
    );
    all.extend(random::functions());
    all.extend(arrays::functions());
    all.extend(concatenation::functions());
    all.extend(lists::functions());
    all.extend(searches::functions());
    all.extend(structs::functions());
    all.extend(json::functions());
    all.push(numbers::round());
    let renamed: [(Arc<ScalarUDF>, &[&'static str]); 8] = [
        (functions::string::upper(), &["ucase"]),
        (functions::string::lower(), &["lcase"]),
        (functions::string::starts_with(), &["prefix"]),
        (functions::string::ends_with(), &["suffix"]),
        (functions::string::ascii(), &["unicode", "ord"]),
        (functions::string::levenshtein(), &["editdist3"]),
        (
            functions::core::get_field(),
            &["struct_extract", "struct_extract_at"],
        ),
        (functions::core::coalesce(), &["ifnull", "nvl"]),
    ];
    for (function, names) in renamed {
        let function = function.as_ref().clone();
        all.push(Arc::new(function.with_aliases(names.iter().copied())));
    }
    all
}

pub(crate) use moment_formats::{moments_as, moments_by};

/// A call of SUBSTRING.
pub(super) fn substring(args: Vec<Expr>) -> Expr {
    static SUBSTRING: LazyLock<Option<Arc<ScalarUDF>>> = LazyLock::new(|| {
        let mut kernels = text::kernels().into_iter();
        kernels
            .find(|kernel| kernel.name == "substr")
            .map(kernel::Kernel::function)
    });
    match SUBSTRING.as_ref() {
        Some(function) => function.call(args),
        None => functions::unicode::substr().call(args),
    }
}

/// DataFusion's aggregates under further names.
pub(super) fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    use datafusion::functions_aggregate::{approx_distinct, first_last};
    [
        (
            approx_distinct::approx_distinct_udaf(),
            &["approx_count_distinct"][..],
        ),
        (first_last::first_value_udaf(), &["first", "arbitrary"]),
        (first_last::last_value_udaf(), &["last"]),
    ]
    .into_iter()
    .map(|(function, names)| {
        let function = function.as_ref().clone();
        Arc::new(function.with_aliases(names.iter().copied()))
    })
    .collect()
}

/// What a shorthand stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    /// A part of a date as a bigint.
    Part(&'static str),
    Epoch,
    FormatTime,
    Matches,
    Length,
    TypeOf,
    If,
    Operator(ArithmeticOperator),
    Today,
    /// The labels of the argument's enum.
    EnumRange,
    EnumFirst,
    EnumLast,
    /// A label's place in its enum, from 0.
    EnumCode,
    /// The names of a struct's members.
    StructKeys,
    /// A list without lists.
    Flat,
    /// A text as a list of values of the second argument's type.
    ListOf,
    /// The end of a period, which the second argument is or is the length of.
    PeriodEnd,
}

impl Form {
    const ALL: &'static [(&'static str, &'static [&'static str], Form)] = &[
        ("year", &[], Form::Part("year")),
        ("quarter", &[], Form::Part("quarter")),
        ("month", &[], Form::Part("month")),
        ("week", &["weekofyear"], Form::Part("week")),
        ("day", &["dayofmonth"], Form::Part("day")),
        ("dayofweek", &["weekday"], Form::Part("dow")),
        ("dayofyear", &[], Form::Part("doy")),
        ("hour", &[], Form::Part("hour")),
        ("minute", &[], Form::Part("minute")),
        ("second", &[], Form::Part("second")),
        ("epoch", &[], Form::Epoch),
        ("strftime", &[], Form::FormatTime),
        ("regexp_matches", &[], Form::Matches),
        ("len", &[], Form::Length),
        ("typeof", &["pg_typeof"], Form::TypeOf),
        ("if", &[], Form::If),
        ("mod", &["fmod"], Form::Operator(ArithmeticOperator::Modulo)),
        (
            "div",
            &[],
            Form::Operator(ArithmeticOperator::IntegerDivide),
        ),
        ("today", &[], Form::Today),
        ("enum_range", &[], Form::EnumRange),
        ("enum_first", &[], Form::EnumFirst),
        ("enum_last", &[], Form::EnumLast),
        ("enum_code", &[], Form::EnumCode),
        ("struct_keys", &[], Form::StructKeys),
        (FLAT, &[], Form::Flat),
        (LIST_OF, &[], Form::ListOf),
        ("__firndb_period_end", &[], Form::PeriodEnd),
    ];

    fn arguments(self) -> usize {
        match self {
            Form::Today => 0,
            Form::Part(_) | Form::Epoch | Form::Length | Form::TypeOf => 1,
            Form::EnumRange | Form::EnumFirst | Form::EnumLast | Form::EnumCode => 1,
            Form::StructKeys | Form::Flat => 1,
            Form::If => 3,
            _ => 2,
        }
    }

    fn return_type(self, types: &[DataType]) -> Result<Option<DataType>> {
        Ok(Some(match self {
            Form::Part(_) | Form::Length => DataType::Int64,
            Form::Epoch => DataType::Float64,
            Form::FormatTime | Form::TypeOf => DataType::Utf8,
            Form::Matches => DataType::Boolean,
            Form::If => match &types[1] {
                DataType::Null => types[2].clone(),
                known => known.clone(),
            },
            Form::Operator(operator) => {
                return Ok(resolve(operator, &types[0], &types[1])?.map(|operands| operands.result));
            }
            Form::Today => DataType::Date32,
            Form::EnumRange | Form::StructKeys => DataType::new_list(DataType::Utf8, true),
            Form::Flat => flat_type(&types[0]),
            Form::EnumFirst | Form::EnumLast => DataType::Utf8,
            Form::EnumCode => DataType::Int64,
            Form::ListOf => DataType::new_list(
                match &types[1] {
                    DataType::Null => DataType::Utf8View,
                    known => known.clone(),
                },
                true,
            ),
            Form::PeriodEnd => match (&types[0], &types[1]) {
                (DataType::Date32, DataType::Interval(_)) => {
                    DataType::Timestamp(TimeUnit::Microsecond, None)
                }
                (start, DataType::Interval(_) | DataType::Null) => start.clone(),
                (_, end) => end.clone(),
            },
        }))
    }

    fn expand(self, args: &[Expr], fields: &[FieldRef]) -> Result<Option<Expr>> {
        use functions::{datetime, regex as expressions, unicode};
        Ok(Some(match (self, args) {
            (Form::Part(part), [moment]) => cast(
                datetime::date_part().call(vec![lit(part), moment.clone()]),
                DataType::Int64,
            ),
            (Form::Epoch, [null]) if fields[0].data_type().is_null() => {
                cast(null.clone(), DataType::Float64)
            }
            (Form::Epoch, [interval]) if matches!(fields[0].data_type(), DataType::Interval(_)) => {
                return Ok(moments::seconds_of_interval(interval.clone()));
            }
            (Form::Epoch, [moment]) => cast(
                datetime::date_part().call(vec![lit("epoch"), moment.clone()]),
                DataType::Float64,
            ),
            // The format may come first, as in DuckDB.
            (Form::FormatTime, [format, moment])
                if fields[0].data_type().is_string() && fields[1].data_type().is_temporal() =>
            {
                let swapped = [moment.clone(), format.clone()];
                let fields = [Arc::clone(&fields[1]), Arc::clone(&fields[0])];
                return self.expand(&swapped, &fields);
            }
            // SQLite's letters for SQLite's argument order.
            (Form::FormatTime, [format, value])
                if !fields[1].data_type().is_temporal()
                    && is_format(format)
                    && !is_format(value) =>
            {
                modified_moments::strftime_of(format.clone(), value.clone())
            }
            (Form::FormatTime, [moment, format]) => {
                moment_formats::formatted(moment.clone(), format.clone())
            }
            (Form::Matches, [text, pattern]) => {
                expressions::regexp_like().call(vec![text.clone(), pattern.clone()])
            }
            (Form::Length, [value]) if fields[0].data_type().is_list() => cast(
                datafusion::functions_nested::expr_fn::array_length(value.clone()),
                DataType::Int64,
            ),
            (Form::Length, [value]) => cast(
                unicode::character_length().call(vec![value.clone()]),
                DataType::Int64,
            ),
            (Form::TypeOf, [_]) => lit(sql_name(&fields[0])),
            (Form::If, [condition, then, otherwise]) => {
                datafusion::logical_expr::when(condition.clone(), then.clone())
                    .otherwise(otherwise.clone())?
            }
            (Form::EnumRange | Form::EnumFirst | Form::EnumLast | Form::EnumCode, [value]) => {
                let Some(labels) = places::labels(&fields[0]) else {
                    return Err(Error::new(
                        SqlState::UndefinedFunction,
                        "this function takes a value of an enum",
                    )
                    .into());
                };
                match self {
                    Form::EnumRange => {
                        let labels: Vec<ScalarValue> =
                            labels.into_iter().map(ScalarValue::from).collect();
                        lit(ScalarValue::List(ScalarValue::new_list_nullable(
                            &labels,
                            &DataType::Utf8,
                        )))
                    }
                    Form::EnumFirst => lit(labels.into_iter().next().unwrap_or_default()),
                    Form::EnumLast => lit(labels.into_iter().next_back().unwrap_or_default()),
                    _ => {
                        let place = orders::place_of(value.clone(), labels);
                        cast(place, DataType::Int64) - lit(1_i64)
                    }
                }
            }
            (Form::Flat, [list]) => {
                let mut list = list.clone();
                let mut given = fields[0].data_type();
                while let DataType::List(item) = given
                    && item.data_type().is_list()
                {
                    list = datafusion::functions_nested::expr_fn::flatten(list);
                    given = item.data_type();
                }
                if let DataType::List(item) = given
                    && let DataType::Struct(_) = item.data_type()
                {
                    let error = Error::unsupported(
                        "unnest(…, recursive := true) of structs is not supported",
                    );
                    return Err(error.with_hint("unnest(list) yields the structs.").into());
                }
                list
            }
            (Form::StructKeys, [value]) => {
                let DataType::Struct(members) = fields[0].data_type() else {
                    let given = fields[0].data_type().clone();
                    return Err(kernel::undefined("struct_keys", &[given]).into());
                };
                let names: Vec<ScalarValue> = members
                    .iter()
                    .map(|member| ScalarValue::from(member.name().as_str()))
                    .collect();
                let names = ScalarValue::new_list_nullable(&names, &DataType::Utf8);
                let names = lit(ScalarValue::List(names));
                datafusion::logical_expr::when(value.clone().is_not_null(), names).end()?
            }
            (Form::ListOf, [text, _]) => {
                let member = match fields[1].data_type() {
                    DataType::Null => Field::new("", DataType::Utf8View, true),
                    _ => full(&fields[1]).with_nullable(true),
                };
                let item = Arc::new(member.with_name(Field::LIST_FIELD_DEFAULT_NAME));
                let list = Field::new("", DataType::List(item), true);
                Cast::call(text.clone(), &fields[0], &Arc::new(list), Rule::Explicit)?
            }
            (Form::PeriodEnd, [_, end]) => match fields[1].data_type() {
                DataType::Null => cast(end.clone(), fields[0].data_type().clone()),
                _ => end.clone(),
            },
            (Form::Today, []) => datetime::current_date().call(vec![]),
            _ => return Ok(None),
        }))
    }
}

/// The innermost list of a list's type.
fn flat_type(given: &DataType) -> DataType {
    match given {
        DataType::List(item) if item.data_type().is_list() => flat_type(item.data_type()),
        other => other.clone(),
    }
}

/// Whether an expression is a literal that can only be a format.
fn is_format(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.try_as_str().flatten().is_some_and(|text| text.contains('%')))
}

/// A function that stands for an expression.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shorthand {
    name: &'static str,
    aliases: Vec<String>,
    form: Form,
    signature: Signature,
}

/// The expression that a call stands for, or the operator that it names.
pub(super) enum Expansion {
    Expression(Expr),
    Operator(ArithmeticOperator, Expr, Expr),
}

/// What a function call is short for; `None` for every other function.
pub(super) fn expand(
    function: &ScalarUDF,
    args: &[Expr],
    fields: &[FieldRef],
) -> Result<Option<Expansion>> {
    let inner: &dyn std::any::Any = function.inner().as_ref();
    let Some(shorthand) = inner.downcast_ref::<Shorthand>() else {
        return Ok(None);
    };
    let operator = match shorthand.form {
        Form::Operator(operator) => Some(operator),
        Form::PeriodEnd if matches!(fields[1].data_type(), DataType::Interval(_)) => {
            Some(ArithmeticOperator::Plus)
        }
        _ => None,
    };
    if let (Some(operator), [left, right]) = (operator, args) {
        return Ok(Some(Expansion::Operator(
            operator,
            left.clone(),
            right.clone(),
        )));
    }
    Ok(shorthand
        .form
        .expand(args, fields)?
        .map(Expansion::Expression))
}

impl ScalarUDFImpl for Shorthand {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let found = if types.len() == self.form.arguments() {
            self.form.return_type(types)?
        } else {
            None
        };
        found.ok_or_else(|| kernel::undefined(self.name, types).into())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{} was not replaced by what it stands for", self.name)
    }
}

/// The moment at which the statement began.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Now {
    aliases: Vec<String>,
    signature: Signature,
}

impl Now {
    fn value(micros: i64) -> ScalarValue {
        ScalarValue::TimestampMicrosecond(Some(micros), Some(UTC.into()))
    }
}

impl ScalarUDFImpl for Now {
    fn name(&self) -> &str {
        "now"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match info.query_execution_start_time() {
            Some(start) => ExprSimplifyResult::Simplified(Expr::Literal(
                Now::value(start.timestamp_micros()),
                None,
            )),
            None => ExprSimplifyResult::Original(args),
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(Now::value(
            chrono::Utc::now().timestamp_micros(),
        )))
    }
}

/// The moment at which it is called, `clock_timestamp()`: one for each batch of rows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Clock {
    signature: Signature,
}

impl ScalarUDFImpl for Clock {
    fn name(&self) -> &str {
        "clock_timestamp"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(Now::value(
            chrono::Utc::now().timestamp_micros(),
        )))
    }
}

/// A UUID of version 7: milliseconds since 1970, then random bits.
fn timed_uuid() -> [u8; 16] {
    let mut bytes = uuid::Uuid::new_v4().into_bytes();
    let moment = chrono::Utc::now().timestamp_millis().to_be_bytes();
    bytes[..6].copy_from_slice(&moment[2..]);
    bytes[6] = 0x70 | bytes[6] & 0x0F;
    bytes
}

/// A random UUID for each row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RandomUuid {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

impl ScalarUDFImpl for RandomUuid {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::FixedSizeBinary(16))
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name(), DataType::FixedSizeBinary(16), false);
        Ok(Arc::new(field.with_metadata(
            [(EXTENSION_KEY.to_string(), UUID_EXTENSION.to_string())].into(),
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let uuids = (0..args.number_rows).map(|_| match self.name {
            "uuidv7" => timed_uuid(),
            _ => uuid::Uuid::new_v4().into_bytes(),
        });
        let array: ArrayRef = if args.number_rows == 0 {
            arrow::array::new_empty_array(&DataType::FixedSizeBinary(16))
        } else {
            Arc::new(FixedSizeBinaryArray::try_from_iter(uuids)?)
        };
        Ok(ColumnarValue::Array(array))
    }
}

/// How many borders of a part of the calendar lie between two moments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DateDiff {
    aliases: Vec<String>,
    signature: Signature,
}

impl ScalarUDFImpl for DateDiff {
    fn name(&self) -> &str {
        "date_diff"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [part, from, to] = args.args.as_slice() else {
            return exec_err!("date_diff takes a part and two moments");
        };
        let unit = |part: &str| {
            let folded = part.to_ascii_lowercase();
            unit(folded.trim_end_matches('s')).ok_or_else(|| calendar::not_recognized(part))
        };
        let from = micros(from, args.number_rows)?;
        let to = micros(to, args.number_rows)?;
        let part = match part {
            ColumnarValue::Scalar(part) => match part.try_as_str() {
                Some(part) => part,
                None => return exec_err!("the part of date_diff is a text"),
            },
            ColumnarValue::Array(parts) => {
                let parts = arrow::compute::cast(parts, &DataType::Utf8View)?;
                let differences = parts
                    .as_string_view()
                    .iter()
                    .zip(from.iter().zip(to.iter()))
                    .map(|row| match row {
                        (Some(part), (Some(from), Some(to))) => {
                            let unit = unit(part)?;
                            Ok(Some(unit(to) - unit(from)))
                        }
                        _ => Ok(None),
                    })
                    .collect::<crate::Result<PrimitiveArray<Int64Type>>>()?;
                return Ok(ColumnarValue::Array(Arc::new(differences)));
            }
        };
        let Some(part) = part else {
            return Ok(ColumnarValue::Scalar(ScalarValue::Int64(None)));
        };
        let unit = unit(part)?;
        let difference: PrimitiveArray<Int64Type> =
            arrow::compute::binary(&from, &to, |from, to| unit(to) - unit(from))?;
        Ok(ColumnarValue::Array(Arc::new(difference)))
    }
}

fn micros(value: &ColumnarValue, rows: usize) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
    let stamp = DataType::Timestamp(TimeUnit::Microsecond, None);
    let array = arrow::compute::cast(&value.to_array(rows)?, &stamp)?;
    Ok(array.as_primitive::<TimestampMicrosecondType>().clone())
}

type Micros = <TimestampMicrosecondType as ArrowPrimitiveType>::Native;

/// The number of a moment's year, month, day … counted from a fixed one.
fn unit(part: &str) -> Option<fn(Micros) -> i64> {
    const SECOND: i64 = 1_000_000;
    const DAY: i64 = 86_400 * SECOND;
    fn year_month(micros: i64) -> (i64, i64) {
        let (year, month, _) = civil_from_days(micros.div_euclid(DAY));
        (year, i64::from(month) - 1)
    }
    Some(match part {
        "year" | "yr" | "y" => |micros| year_month(micros).0,
        "decade" => |micros| year_month(micros).0.div_euclid(10),
        "century" | "centurie" => |micros| (year_month(micros).0 - 1).div_euclid(100),
        "quarter" => |micros| {
            let (year, month) = year_month(micros);
            year * 4 + month / 3
        },
        "month" | "mon" => |micros| {
            let (year, month) = year_month(micros);
            year * 12 + month
        },
        // 1970-01-05 was a Monday.
        "week" | "w" => |micros| (micros.div_euclid(DAY) - 4).div_euclid(7),
        "day" | "d" | "dayofmonth" => |micros| micros.div_euclid(DAY),
        "hour" | "hr" | "h" => |micros| micros.div_euclid(3_600 * SECOND),
        "minute" | "min" | "m" => |micros| micros.div_euclid(60 * SECOND),
        "second" | "sec" => |micros| micros.div_euclid(SECOND),
        "millisecond" => |micros| micros.div_euclid(1_000),
        "microsecond" => |micros| micros,
        _ => return None,
    })
}
