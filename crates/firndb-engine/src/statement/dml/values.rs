//! VALUES lists of INSERT: cells, evaluated without a plan where they are constants.
//!
//! Each cell is assigned to its column by itself, as PostgreSQL does, so that one row's type never changes another's value.
//! Constants (literals, signed numbers, parameters) become Arrow arrays directly, with the types that the planner gives them;
//! all other cells are the select list of a query without FROM.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use futures::TryStreamExt;

use super::query::{is_default, output, select};
use super::{Target, generated};
use crate::statement::StatementContext;
use crate::{Error, Result, SqlState, expr, types};

/// Cells that one query evaluates.
const CELLS_OF_A_QUERY: usize = 256;

/// Digits of the widest decimal.
const DECIMAL_DIGITS: usize = 38;

enum Cell<'e> {
    Constant(ScalarValue),
    Default,
    Computed(&'e ast::Expr),
}

/// The values of a VALUES list, one array for each of its columns, assigned to the table's columns from the first of
/// `columns` on.
pub(super) async fn evaluate(
    target: &Target<'_>,
    columns: &[usize],
    values: &ast::Values,
    with: Option<&ast::With>,
) -> Result<Vec<ArrayRef>> {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    if values.rows.iter().any(|row| row.content.len() != width) {
        return Err(Error::new(
            SqlState::SyntaxError,
            "VALUES lists must all be the same length",
        ));
    }
    for (position, &column) in columns.iter().enumerate().take(width) {
        let given = |row: &ast::Parens<Vec<ast::Expr>>| !is_default(&row.content[position]);
        if target.is_own(column) && values.rows.iter().any(given) {
            return Err(generated::refuse_insert(target, column));
        }
    }
    let context = target.context();
    let mut by_column = Vec::with_capacity(width);
    for position in 0..width {
        let cells = values.rows.iter().map(|row| {
            let expression = &row.content[position];
            if is_default(expression) {
                Cell::Default
            } else {
                constant(expression).map_or(Cell::Computed(expression), Cell::Constant)
            }
        });
        by_column.push(cells.collect::<Vec<_>>());
    }
    let expressions = by_column.iter().flatten().filter_map(|cell| match cell {
        Cell::Computed(expression) => Some(*expression),
        _ => None,
    });
    let expressions: Vec<&ast::Expr> = expressions.collect();
    let mut computed = compute(context, &expressions, with).await?.into_iter();
    let assembled = by_column.into_iter().zip(columns);
    assembled
        .map(|(cells, &column)| assemble(target, column, cells, &mut computed))
        .collect()
}

/// The value of a trivially constant expression, with the type that the planner gives it; `None` if it takes a plan.
///
/// Parameters have become literals before a statement comes here.
pub(crate) fn constant(expression: &ast::Expr) -> Option<ScalarValue> {
    match expression {
        ast::Expr::Nested(inner) => constant(inner),
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => number(digits, false),
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
                Some(ScalarValue::Utf8(Some(text.clone())))
            }
            ast::Value::DollarQuotedString(text) => {
                Some(ScalarValue::Utf8(Some(text.value.clone())))
            }
            ast::Value::Boolean(value) => Some(ScalarValue::Boolean(Some(*value))),
            ast::Value::Null => Some(ScalarValue::Null),
            _ => None,
        },
        ast::Expr::UnaryOp { op, expr } => match (op, expr.as_ref()) {
            (ast::UnaryOperator::Minus | ast::UnaryOperator::Plus, ast::Expr::Value(value)) => {
                match &value.value {
                    ast::Value::Number(digits, _) => {
                        number(digits, *op == ast::UnaryOperator::Minus)
                    }
                    _ => None,
                }
            }
            _ => None,
        },
        ast::Expr::TypedString(typed) => typed_text(&typed.value.value, &typed.data_type),
        ast::Expr::Cast {
            kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
            expr,
            data_type,
            format: None,
            ..
        } => match expr.as_ref() {
            ast::Expr::Value(value) => typed_text(&value.value, data_type),
            _ => None,
        },
        _ => None,
    }
}

/// A string as a value of a type whose text does not depend on the session, such as `DATE '2020-02-29'`. What does not parse is
/// left to the planner, which reports it.
fn typed_text(value: &ast::Value, data_type: &ast::DataType) -> Option<ScalarValue> {
    let ast::Value::SingleQuotedString(text) = value else {
        return None;
    };
    let independent = matches!(
        data_type,
        ast::DataType::Date
            | ast::DataType::Time(None, ast::TimezoneInfo::None)
            | ast::DataType::Timestamp(None, ast::TimezoneInfo::None)
            | ast::DataType::DoublePrecision
            | ast::DataType::Real
            | ast::DataType::BigInt(None)
            | ast::DataType::Decimal(_)
            | ast::DataType::Numeric(_)
    );
    if !independent {
        return None;
    }
    let field = types::column_field("value", data_type, true, &|_| None).ok()?;
    let text: ArrayRef = Arc::new(StringArray::from(vec![text.as_str()]));
    let value = expr::assign(&text, &field).ok()?;
    ScalarValue::try_from_array(&value, 0).ok()
}

/// A number literal: bigint, else unsigned bigint, else decimal of as many digits as are written. Other notations take a plan.
fn number(digits: &str, negative: bool) -> Option<ScalarValue> {
    if !digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return None;
    }
    let signed = |digits: &str| match negative {
        true => format!("-{digits}"),
        false => digits.to_owned(),
    };
    if let Ok(value) = signed(digits).parse::<i64>() {
        return Some(ScalarValue::Int64(Some(value)));
    }
    if !negative && let Ok(value) = digits.parse::<u64>() {
        return Some(ScalarValue::UInt64(Some(value)));
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() > DECIMAL_DIGITS || fraction.contains('.') {
        return None;
    }
    let value = signed(&format!("{whole}{fraction}")).parse::<i128>().ok()?;
    let significant = value.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    let precision = significant.max(fraction.len());
    Some(ScalarValue::Decimal128(
        Some(value),
        u8::try_from(precision).ok()?,
        i8::try_from(fraction.len()).ok()?,
    ))
}

/// Evaluates expressions that no row is needed for; one array of one row each.
async fn compute(
    context: &StatementContext,
    expressions: &[&ast::Expr],
    with: Option<&ast::With>,
) -> Result<Vec<ArrayRef>> {
    let mut results = Vec::with_capacity(expressions.len());
    for chunk in expressions.chunks(CELLS_OF_A_QUERY) {
        let projection = chunk
            .iter()
            .enumerate()
            .map(|(number, expression)| output((*expression).clone(), number))
            .collect();
        let query = select(with, projection, Vec::new(), None);
        let plan = context.plan_query(&query, None).await?;
        if let LogicalPlan::Projection(projection) = &plan
            && matches!(
                projection.input.as_ref(),
                LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)
            )
        {
            return Err(Error::new(
                SqlState::GroupingError,
                "aggregate and window functions are not allowed in VALUES",
            ));
        }
        let mut rows = context.run(plan).await?;
        let mut found = Vec::new();
        while let Some(batch) = rows.try_next().await? {
            if batch.num_rows() > 0 {
                found.push(batch);
            }
        }
        match found.as_slice() {
            [row] if row.num_rows() == 1 => results.extend(row.columns().iter().cloned()),
            _ => {
                return Err(Error::unsupported(
                    "set-returning functions are not allowed in VALUES",
                ));
            }
        }
    }
    Ok(results)
}

/// A column of cells: cells of one type are assigned together, then brought into the order of the rows.
fn assemble(
    target: &Target,
    column: usize,
    cells: Vec<Cell>,
    computed: &mut impl Iterator<Item = ArrayRef>,
) -> Result<ArrayRef> {
    let rows = cells.len();
    let mut constants: Vec<(DataType, Vec<ScalarValue>, Vec<usize>)> = Vec::new();
    let mut defaults = Vec::new();
    let mut parts: Vec<(ArrayRef, Vec<usize>)> = Vec::new();
    for (row, cell) in cells.into_iter().enumerate() {
        match cell {
            Cell::Constant(value) => {
                let kind = value.data_type();
                match constants.iter_mut().find(|(other, ..)| *other == kind) {
                    Some((_, values, rows)) => {
                        values.push(value);
                        rows.push(row);
                    }
                    None => constants.push((kind, vec![value], vec![row])),
                }
            }
            Cell::Default => defaults.push(row),
            Cell::Computed(_) => {
                let value = computed
                    .next()
                    .ok_or_else(|| Error::internal("a cell was not computed"))?;
                parts.push((target.assign(&value, column)?, vec![row]));
            }
        }
    }
    for (_, values, rows) in constants {
        let array = match values.as_slice() {
            [value] => value.to_array()?,
            _ => ScalarValue::iter_to_array(values)?,
        };
        parts.push((target.assign(&array, column)?, rows));
    }
    if !defaults.is_empty() {
        parts.push((target.default(column, defaults.len())?, defaults));
    }
    if let [(array, _)] = parts.as_slice() {
        return Ok(array.clone());
    }
    let mut places = vec![(0, 0); rows];
    for (part, (_, rows)) in parts.iter().enumerate() {
        for (place, &row) in rows.iter().enumerate() {
            places[row] = (part, place);
        }
    }
    let arrays: Vec<&dyn arrow::array::Array> =
        parts.iter().map(|(array, _)| array.as_ref()).collect();
    Ok(interleave(&arrays, &places)?)
}

#[cfg(test)]
mod tests {
    use datafusion::common::ScalarValue;

    use super::number;

    #[test]
    fn integers_take_the_narrowest_of_bigint_unsigned_and_decimal() {
        let cases = [
            ("0", false, ScalarValue::Int64(Some(0))),
            (
                "9223372036854775807",
                false,
                ScalarValue::Int64(Some(i64::MAX)),
            ),
            (
                "9223372036854775808",
                true,
                ScalarValue::Int64(Some(i64::MIN)),
            ),
            (
                "18446744073709551615",
                false,
                ScalarValue::UInt64(Some(u64::MAX)),
            ),
            (
                "18446744073709551615",
                true,
                ScalarValue::Decimal128(Some(-i128::from(u64::MAX)), 20, 0),
            ),
        ];
        for (digits, negative, value) in cases {
            assert_eq!(number(digits, negative), Some(value));
        }
    }

    #[test]
    fn decimals_have_the_digits_that_are_written() {
        assert_eq!(
            number("1.50", false),
            Some(ScalarValue::Decimal128(Some(150), 3, 2))
        );
        assert_eq!(
            number("0.001", true),
            Some(ScalarValue::Decimal128(Some(-1), 3, 3))
        );
        assert_eq!(
            number(".5", false),
            Some(ScalarValue::Decimal128(Some(5), 1, 1))
        );
        assert_eq!(
            number("0.0", false),
            Some(ScalarValue::Decimal128(Some(0), 1, 1))
        );
    }

    #[test]
    fn other_notations_are_left_to_the_planner() {
        for digits in ["1e3", "1_000", "0x10", &"9".repeat(39)] {
            assert_eq!(number(digits, false), None);
        }
    }
}
