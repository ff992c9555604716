//! What an operator between two expressions becomes: typed, checked, and with literals brought to the other side's type.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::common::{ExprSchema, Result as DataFusionResult, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use super::arithmetic::{Arithmetic, ArithmeticOperator, MomentOperation, resolve};
use super::canonical_float::meeting;
use super::cast::{Cast, convert_scalar};
use super::convert::{
    Conversion, MICROS_PER_DAY, POWERS, Rule, check_convertible, message_name, rescale, within,
};
use crate::types::comparable_metadata;
use crate::{Error, Result, SqlState};

/// Types an arithmetic operator. `None` leaves the expression to DataFusion (an untyped parameter, arrays …).
pub(crate) fn arithmetic(
    operator: ArithmeticOperator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> DataFusionResult<Option<Expr>> {
    if matches!(left, Expr::Placeholder(_)) || matches!(right, Expr::Placeholder(_)) {
        return Ok(None);
    }
    let (left, right) = (&typed_literal(left)?, &typed_literal(right)?);
    let (_, left_field) = left.to_field(schema)?;
    let (_, right_field) = right.to_field(schema)?;
    let left = untyped_text(left.clone(), &left_field, &right_field)?;
    let right = untyped_text(right.clone(), &right_field, &left_field)?;
    let (left, right) = literals(left, right, schema)?;
    let (_, left_field) = left.to_field(schema)?;
    let (_, right_field) = right.to_field(schema)?;
    let (left_type, right_type) = (left_field.data_type(), right_field.data_type());
    // So many times an interval, the number being NULL.
    let interval = |data_type: &DataType| matches!(data_type, DataType::Interval(_));
    if matches!(
        operator,
        ArithmeticOperator::Multiply | ArithmeticOperator::Divide
    ) && (left_type.is_null() && interval(right_type)
        || interval(left_type) && right_type.is_null())
    {
        let null = ScalarValue::IntervalMonthDayNano(None);
        return Ok(Some(Expr::Literal(null, None)));
    }
    if let Some(planned) = moments(operator, &left, left_type, &right, right_type, schema)? {
        return Ok(Some(planned));
    }
    let Some(mut operands) = resolve(operator, left_type, right_type)? else {
        let known = |data_type: &DataType| {
            data_type.is_numeric()
                || data_type.is_string()
                || matches!(data_type, DataType::Boolean | DataType::Date32)
        };
        if known(left_type) && known(right_type) {
            return Err(undefined(operator.symbol(), &left_field, &right_field).into());
        }
        return Ok(None);
    };
    // Quotients and what meets a floating point number are computed as such: `//` of decimals too.
    let mut operator = operator;
    if operator == ArithmeticOperator::IntegerDivide && operands.result.is_floating() {
        operator = ArithmeticOperator::Divide;
        if let Some(floats) = resolve(operator, &operands.result, &operands.result)? {
            operands = floats;
        }
    }
    let left = to_type(left, &left_field, &operands.left)?;
    let right = to_type(right, &right_field, &operands.right)?;
    Ok(Some(Arithmetic::call(operator, left, right)))
}

/// `DATE '1998-12-01'` and the like, which SqlToRel plans as a cast of text, as the literal that they are.
fn typed_literal(expr: &Expr) -> DataFusionResult<Expr> {
    if let Expr::Cast(cast) = expr
        && let Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::Utf8View(_), None) =
            cast.expr.as_ref()
    {
        let source = Field::new("", DataType::Utf8, true);
        return Ok(Cast::call(
            cast.expr.as_ref().clone(),
            &source,
            &cast.field,
            Rule::Explicit,
        )?);
    }
    Ok(expr.clone())
}

/// The error of an operator that its operands lack.
fn undefined(symbol: &str, left: &Field, right: &Field) -> Error {
    Error::new(
        SqlState::UndefinedFunction,
        format!(
            "operator does not exist: {} {symbol} {}",
            message_name(left),
            message_name(right)
        ),
    )
    .with_hint(
        "No operator matches the given name and argument types. You might need to add explicit type casts.",
    )
}

/// Negation: of an integer as 0 - x, so that the smallest one overflows; of a floating point number likewise, so that there is one NaN.
pub(crate) fn negation(operand: &Expr, schema: &dyn ExprSchema) -> DataFusionResult<Option<Expr>> {
    let (_, field) = operand.to_field(schema)?;
    let zero = match field.data_type() {
        integer if integer.is_integer() => ScalarValue::new_zero(integer)?,
        DataType::Interval(IntervalUnit::MonthDayNano) => ScalarValue::new_interval_mdn(0, 0, 0),
        // -0.0 - x is -x for every number, zeros included, and the one NaN for NaN.
        DataType::Float64 => ScalarValue::Float64(Some(-0.0)),
        DataType::Float32 => ScalarValue::Float32(Some(-0.0)),
        // The sign of decimals turns without loss.
        _ => return Ok(None),
    };
    let zero = Expr::Literal(zero, None);
    let difference = match field.data_type() {
        DataType::Interval(_) => MomentOperation::SubtractIntervals.call(zero, operand.clone()),
        _ => Arithmetic::call(ArithmeticOperator::Minus, zero, operand.clone()),
    };
    Ok(Some(difference))
}

/// Types a comparison. `None` leaves it as it is.
pub(crate) fn comparison(
    left: &Expr,
    operator: Operator,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> DataFusionResult<Option<Expr>> {
    if matches!(left, Expr::Placeholder(_)) || matches!(right, Expr::Placeholder(_)) {
        return Ok(None);
    }
    let (typed_left, typed_right) = (typed_literal(left)?, typed_literal(right)?);
    let (_, left_field) = typed_left.to_field(schema)?;
    let (_, right_field) = typed_right.to_field(schema)?;
    let new_left = aligned(typed_left, &left_field, &right_field)?;
    let new_right = aligned(typed_right, &right_field, &left_field)?;
    let (_, left_field) = new_left.to_field(schema)?;
    let (_, right_field) = new_right.to_field(schema)?;
    if let Some(dates) = compare_dates(&new_left, &left_field, operator, &new_right, &right_field) {
        return Ok(Some(dates));
    }
    if let Some(real) = compare_real(&new_left, &left_field, operator, &new_right, &right_field)? {
        return Ok(Some(real));
    }
    let (new_left, new_right) = meet(new_left, &left_field, new_right, &right_field)?;
    if new_left == *left && new_right == *right {
        return Ok(None);
    }
    Ok(Some(Expr::BinaryExpr(BinaryExpr::new(
        Box::new(new_left),
        operator,
        Box::new(new_right),
    ))))
}

/// The two sides of a join's equality in one type, where DataFusion would choose another than we.
pub(crate) fn joined(
    left: Expr,
    left_schema: &dyn ExprSchema,
    right: Expr,
    right_schema: &dyn ExprSchema,
) -> DataFusionResult<(Expr, Expr)> {
    let (_, left_field) = left.to_field(left_schema)?;
    let (_, right_field) = right.to_field(right_schema)?;
    Ok(meet(left, &left_field, right, &right_field)?)
}

/// A literal as the type of what it is compared with, where that changes nothing but its type; text as any type.
pub(crate) fn aligned(expr: Expr, field: &Field, other: &Field) -> Result<Expr> {
    let expr = untyped_text(expr, field, other)?;
    let Expr::Literal(value, metadata) = &expr else {
        return Ok(expr);
    };
    let exact = match (value, other.data_type()) {
        (ScalarValue::Int64(Some(number)), to) if to.is_integer() => {
            integer_scalar(to, i128::from(*number))
        }
        (ScalarValue::Int64(Some(number)), DataType::Decimal128(p, s)) => {
            decimal_scalar(i128::from(*number), 0, *p, *s)
        }
        (ScalarValue::UInt64(Some(number)), DataType::Decimal128(p, s)) => {
            decimal_scalar(i128::from(*number), 0, *p, *s)
        }
        (ScalarValue::Decimal128(Some(number), _, from), DataType::Decimal128(p, s)) => {
            decimal_scalar(*number, *from, *p, *s)
        }
        (ScalarValue::Decimal128(Some(_), _, _), DataType::Float64) => {
            convert_scalar(value, field, other, Conversion::new(Rule::Explicit)).ok()
        }
        _ => None,
    };
    Ok(match exact {
        Some(value) => Expr::Literal(value, metadata.clone()),
        None => expr,
    })
}

fn decimal_scalar(value: i128, from: i8, precision: u8, scale: i8) -> Option<ScalarValue> {
    if scale < from {
        return None;
    }
    let value = within(
        rescale(value, from, scale)?,
        POWERS[usize::from(precision).min(38)],
    )?;
    Some(ScalarValue::Decimal128(Some(value), precision, scale))
}

fn integer_scalar(data_type: &DataType, value: i128) -> Option<ScalarValue> {
    Some(match data_type {
        DataType::Int8 => ScalarValue::Int8(Some(value.try_into().ok()?)),
        DataType::Int16 => ScalarValue::Int16(Some(value.try_into().ok()?)),
        DataType::Int32 => ScalarValue::Int32(Some(value.try_into().ok()?)),
        DataType::Int64 => ScalarValue::Int64(Some(value.try_into().ok()?)),
        DataType::UInt8 => ScalarValue::UInt8(Some(value.try_into().ok()?)),
        DataType::UInt16 => ScalarValue::UInt16(Some(value.try_into().ok()?)),
        DataType::UInt32 => ScalarValue::UInt32(Some(value.try_into().ok()?)),
        DataType::UInt64 => ScalarValue::UInt64(Some(value.try_into().ok()?)),
        _ => return None,
    })
}

/// A text literal has no type of its own: beside a number, moment, boolean, UUID or list it is one.
fn untyped_text(expr: Expr, field: &Field, other: &Field) -> Result<Expr> {
    let Expr::Literal(value, _) = &expr else {
        return Ok(expr);
    };
    let to = other.data_type();
    let Some(Some(text)) = value.try_as_str() else {
        return Ok(expr);
    };
    if to.is_string() || to.is_null() || matches!(to, DataType::Dictionary(_, _)) {
        return Ok(expr);
    }
    if to.is_integer() && text.trim().parse::<i128>().is_err() {
        return Err(super::convert::invalid_text(&message_name(other), text));
    }
    let target = Field::new("", to.clone(), true).with_metadata(comparable_metadata(other));
    let target = Arc::new(target);
    if check_convertible(field, &target).is_err() {
        return Ok(expr);
    }
    let zoned = matches!(to, DataType::Timestamp(_, Some(_)));
    if zoned {
        return Cast::call(expr, field, &target, Rule::Explicit);
    }
    let how = Conversion::new(Rule::Explicit);
    Ok(Expr::Literal(
        convert_scalar(value, field, &target, how)?,
        None,
    ))
}

/// Integer literals become the smallest type that holds them, or that of the integer beside them.
fn literals(left: Expr, right: Expr, schema: &dyn ExprSchema) -> DataFusionResult<(Expr, Expr)> {
    fn number(expr: &Expr) -> Option<i128> {
        match expr {
            Expr::Literal(ScalarValue::Int64(Some(number)), None) => Some(i128::from(*number)),
            Expr::Literal(ScalarValue::UInt64(Some(number)), None) => Some(i128::from(*number)),
            _ => None,
        }
    }
    fn smallest(value: i128) -> ScalarValue {
        integer_scalar(&DataType::Int32, value)
            .or_else(|| integer_scalar(&DataType::Int64, value))
            .unwrap_or(ScalarValue::Decimal128(Some(value), 38, 0))
    }
    fn beside(value: i128, other: &DataType) -> ScalarValue {
        if let DataType::Decimal128(_, _) = other {
            let digits = POWERS
                .iter()
                .take_while(|power| **power <= value.abs())
                .count();
            return ScalarValue::Decimal128(Some(value), digits.max(1) as u8, 0);
        }
        integer_scalar(other, value).unwrap_or_else(|| smallest(value))
    }
    let literal = |value| Expr::Literal(value, None);
    Ok(match (number(&left), number(&right)) {
        (Some(l), Some(r)) => (literal(smallest(l)), literal(smallest(r))),
        (Some(l), None) => {
            let other = right.get_type(schema)?;
            (literal(beside(l, &other)), right)
        }
        (None, Some(r)) => {
            let other = left.get_type(schema)?;
            (left, literal(beside(r, &other)))
        }
        (None, None) => (left, right),
    })
}

fn to_type(expr: Expr, field: &Field, to: &DataType) -> Result<Expr> {
    let target = Arc::new(Field::new("", to.clone(), true));
    Cast::call(expr, field, &target, Rule::Explicit)
}

/// Arithmetic in which a date, time, timestamp or interval takes part.
fn moments(
    operator: ArithmeticOperator,
    left: &Expr,
    left_type: &DataType,
    right: &Expr,
    right_type: &DataType,
    schema: &dyn ExprSchema,
) -> DataFusionResult<Option<Expr>> {
    use ArithmeticOperator::{Divide, Minus, Multiply, Plus};
    use DataType::{Date32, Float64, Int64, Interval, Time64, Timestamp};
    let cast = |expr: &Expr, to: DataType| -> DataFusionResult<Expr> {
        let (_, field) = expr.to_field(schema)?;
        Ok(to_type(expr.clone(), &field, &to)?)
    };
    let stamp = || Timestamp(TimeUnit::Microsecond, None);
    let interval = || Interval(IntervalUnit::MonthDayNano);
    let planned = match (left_type, operator, right_type) {
        (Date32, Plus, days) if days.is_integer() => {
            MomentOperation::AddDays.call(left.clone(), cast(right, Int64)?)
        }
        (days, Plus, Date32) if days.is_integer() => {
            MomentOperation::AddDays.call(right.clone(), cast(left, Int64)?)
        }
        (Date32, Minus, days) if days.is_integer() => {
            MomentOperation::SubtractDays.call(left.clone(), cast(right, Int64)?)
        }
        (Date32, Minus, Date32) => MomentOperation::DaysBetween.call(left.clone(), right.clone()),
        (Date32, Plus, Time64(_)) => MomentOperation::AtTime.call(left.clone(), right.clone()),
        (Time64(_), Plus, Date32) => MomentOperation::AtTime.call(right.clone(), left.clone()),
        (Date32, Plus, Interval(_)) => shifted(
            cast(left, stamp())?,
            Operator::Plus,
            cast(right, interval())?,
        ),
        (Interval(_), Plus, Date32) => shifted(
            cast(right, stamp())?,
            Operator::Plus,
            cast(left, interval())?,
        ),
        (Date32, Minus, Interval(_)) => shifted(
            cast(left, stamp())?,
            Operator::Minus,
            cast(right, interval())?,
        ),
        (Timestamp(TimeUnit::Microsecond, _), Plus, Interval(_)) => {
            shifted(left.clone(), Operator::Plus, cast(right, interval())?)
        }
        (Interval(_), Plus, Timestamp(TimeUnit::Microsecond, _)) => {
            shifted(right.clone(), Operator::Plus, cast(left, interval())?)
        }
        (Timestamp(TimeUnit::Microsecond, _), Minus, Interval(_)) => {
            shifted(left.clone(), Operator::Minus, cast(right, interval())?)
        }
        (Timestamp(_, zone), Minus, Timestamp(_, other)) if zone.is_some() == other.is_some() => {
            MomentOperation::Between.call(cast(left, micros(zone))?, cast(right, micros(other))?)
        }
        (Timestamp(_, zone), Minus, Date32) => {
            MomentOperation::Between.call(cast(left, micros(zone))?, cast(right, micros(zone))?)
        }
        (Date32, Minus, Timestamp(_, zone)) => {
            MomentOperation::Between.call(cast(left, micros(zone))?, cast(right, micros(zone))?)
        }
        (Time64(_), Plus, Interval(_)) => {
            MomentOperation::AddToTime.call(left.clone(), cast(right, interval())?)
        }
        (Interval(_), Plus, Time64(_)) => {
            MomentOperation::AddToTime.call(right.clone(), cast(left, interval())?)
        }
        (Time64(_), Minus, Interval(_)) => {
            MomentOperation::SubtractFromTime.call(left.clone(), cast(right, interval())?)
        }
        (Interval(_), Plus, Interval(_)) => {
            MomentOperation::AddIntervals.call(cast(left, interval())?, cast(right, interval())?)
        }
        (Interval(_), Minus, Interval(_)) => MomentOperation::SubtractIntervals
            .call(cast(left, interval())?, cast(right, interval())?),
        (Interval(_), Multiply, number) if number.is_numeric() => {
            MomentOperation::Multiply.call(cast(left, interval())?, cast(right, Float64)?)
        }
        (number, Multiply, Interval(_)) if number.is_numeric() => {
            MomentOperation::Multiply.call(cast(right, interval())?, cast(left, Float64)?)
        }
        (Interval(_), Divide, number) if number.is_numeric() => {
            MomentOperation::Divide.call(cast(left, interval())?, cast(right, Float64)?)
        }
        _ => return Ok(None),
    };
    return Ok(Some(planned));

    fn micros(zone: &Option<Arc<str>>) -> DataType {
        Timestamp(TimeUnit::Microsecond, zone.clone())
    }
    /// A timestamp ± an interval, folded where both are known, so that scans see a literal to skip by.
    fn shifted(stamp: Expr, operator: Operator, interval: Expr) -> Expr {
        if let (Expr::Literal(stamp, None), Expr::Literal(interval, None)) = (&stamp, &interval) {
            let folded = match operator {
                Operator::Plus => stamp.add_checked(interval),
                _ => stamp.sub_checked(interval),
            };
            if let Ok(folded) = folded {
                return Expr::Literal(folded, None);
            }
        }
        Expr::BinaryExpr(BinaryExpr::new(
            Box::new(stamp),
            operator,
            Box::new(interval),
        ))
    }
}

/// A date beside a timestamp that is known compares as a date, which scans can skip by.
fn compare_dates(
    left: &Expr,
    left_field: &Field,
    operator: Operator,
    right: &Expr,
    right_field: &Field,
) -> Option<Expr> {
    let (date, stamp, operator) =
        match (left_field.data_type(), right, right_field.data_type(), left) {
            (
                DataType::Date32,
                Expr::Literal(ScalarValue::TimestampMicrosecond(Some(stamp), None), _),
                _,
                _,
            ) => (left, *stamp, operator),
            (
                _,
                _,
                DataType::Date32,
                Expr::Literal(ScalarValue::TimestampMicrosecond(Some(stamp), None), _),
            ) => (right, *stamp, operator.swap()?),
            _ => return None,
        };
    let day = i32::try_from(stamp.div_euclid(MICROS_PER_DAY)).ok()?;
    let midnight = stamp.rem_euclid(MICROS_PER_DAY) == 0;
    // Between two midnights: before the moment is up to its day, after it is beyond its day.
    let operator = match operator {
        _ if midnight => operator,
        Operator::Lt | Operator::LtEq => Operator::LtEq,
        Operator::Gt | Operator::GtEq => Operator::Gt,
        _ => return None,
    };
    let day = Expr::Literal(ScalarValue::Date32(Some(day)), None);
    Some(Expr::BinaryExpr(BinaryExpr::new(
        Box::new(date.clone()),
        operator,
        Box::new(day),
    )))
}

/// A REAL compares with a number that is known as with the REAL at or beside it, so that its column stays bare; what it cannot
/// equal, it is compared with as a double.
fn compare_real(
    left: &Expr,
    left_field: &Field,
    operator: Operator,
    right: &Expr,
    right_field: &Field,
) -> Result<Option<Expr>> {
    use Operator::{Gt, GtEq, Lt, LtEq};
    let (real, number, number_field, operator) = match (left, right) {
        (Expr::Literal(_, _), Expr::Literal(_, _)) => return Ok(None),
        (real, Expr::Literal(number, _)) if *left_field.data_type() == DataType::Float32 => {
            (real, number, right_field, Some(operator))
        }
        (Expr::Literal(number, _), real) if *right_field.data_type() == DataType::Float32 => {
            (real, number, left_field, operator.swap())
        }
        _ => return Ok(None),
    };
    let (Some(operator), Some(number)) = (operator, double_of(number, number_field)?) else {
        return Ok(None);
    };
    let nearest = number as f32;
    let operator = match (operator, f64::from(nearest).partial_cmp(&number)) {
        // Equal, or both NaN.
        (operator, Some(Ordering::Equal) | None) => operator,
        (Gt | GtEq, Some(Ordering::Greater)) => GtEq,
        (Gt | GtEq, Some(Ordering::Less)) => Gt,
        (Lt | LtEq, Some(Ordering::Greater)) => Lt,
        (Lt | LtEq, Some(Ordering::Less)) => LtEq,
        _ => return Ok(None),
    };
    Ok(Some(Expr::BinaryExpr(BinaryExpr::new(
        Box::new(real.clone()),
        operator,
        Box::new(Expr::Literal(ScalarValue::Float32(Some(nearest)), None)),
    ))))
}

/// A number as a double, if it is one and not NULL.
pub(super) fn double_of(number: &ScalarValue, field: &Field) -> Result<Option<f64>> {
    if !field.data_type().is_numeric() {
        return Ok(None);
    }
    let double = Field::new("", DataType::Float64, true);
    let how = Conversion::new(Rule::Explicit);
    Ok(match convert_scalar(number, field, &double, how)? {
        ScalarValue::Float64(double) => double,
        _ => None,
    })
}

/// Both sides in one type, where DataFusion would choose another than we.
pub(super) fn meet(
    left: Expr,
    left_field: &Field,
    right: Expr,
    right_field: &Field,
) -> Result<(Expr, Expr)> {
    use DataType::{Date32, Timestamp};
    let (l, r) = (left_field.data_type(), right_field.data_type());
    if let Some(common) = meeting(l, r) {
        let left = to_type(left, left_field, &common)?;
        return Ok((left, to_type(right, right_field, &common)?));
    }
    let takes_text = |data_type: &DataType| {
        data_type.is_numeric()
            || data_type.is_temporal()
            || matches!(data_type, DataType::Boolean | DataType::FixedSizeBinary(16))
    };
    let cast = |expr: Expr, from: &Field, to: &Field| -> Result<Expr> {
        let target = Field::new("", super::convert::canonical_type(to.data_type()), true)
            .with_metadata(comparable_metadata(to));
        Cast::call(expr, from, &Arc::new(target), Rule::Explicit)
    };
    Ok(match (l, r) {
        (text, other) if text.is_string() && takes_text(other) => {
            (cast(left, left_field, right_field)?, right)
        }
        (other, text) if text.is_string() && takes_text(other) => {
            (left, cast(right, right_field, left_field)?)
        }
        // A boolean beside an integer is 0 or 1.
        (DataType::Boolean, number) if number.is_integer() => {
            (cast(left, left_field, right_field)?, right)
        }
        (number, DataType::Boolean) if number.is_integer() => {
            (left, cast(right, right_field, left_field)?)
        }
        (Date32, Timestamp(_, _)) => (cast(left, left_field, right_field)?, right),
        (Timestamp(_, _), Date32) => (left, cast(right, right_field, left_field)?),
        (Timestamp(_, None), Timestamp(_, Some(_))) => {
            (cast(left, left_field, right_field)?, right)
        }
        (Timestamp(_, Some(_)), Timestamp(_, None)) => {
            (left, cast(right, right_field, left_field)?)
        }
        _ => (left, right),
    })
}
