//! CAST and TRY_CAST as functions of one argument.
//!
//! DataFusion's own cast stays where it can neither fail nor differ ([`is_lossless`]): its optimizer sees through it.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result as DataFusionResult, ScalarValue, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::Cast as NativeCast;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::arithmetic::decimal_of_integer;
use super::convert::{Conversion, Rule, canonical_type, check_convertible, convert};
use crate::types::{Refinement, UTC, has_members, same_members, sql_name};
use crate::{Error, Result, SqlState};

/// The name of a cast that may fail.
pub(crate) const CAST: &str = "cast";

/// A cast to one type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cast {
    target: FieldRef,
    rule: Rule,
    /// The zone of AT TIME ZONE, instead of the session's.
    zone: Option<Arc<str>>,
    signature: Signature,
}

impl Cast {
    /// `expr AT TIME ZONE zone`: the instant at which clocks there showed a timestamp without a zone, or what they show
    /// at an instant.
    pub(crate) fn at_zone(expr: Expr, source: &Field, zone: Arc<str>) -> Result<Expr> {
        let to = match source.data_type() {
            DataType::Timestamp(_, Some(_)) => None,
            _ => Some(UTC.into()),
        };
        let target = Field::new("", DataType::Timestamp(TimeUnit::Microsecond, to), true);
        check_convertible(source, &target)?;
        let function = Cast {
            target: Arc::new(target),
            rule: Rule::Explicit,
            zone: Some(zone),
            signature: Signature::any(1, Volatility::Immutable),
        };
        Ok(ScalarUDF::new_from_impl(function).call(vec![expr]))
    }

    /// The expression cast to `target`; literals are cast at once.
    pub(crate) fn call(expr: Expr, source: &Field, target: &FieldRef, rule: Rule) -> Result<Expr> {
        if is_lossless(source, target) {
            // What makes text an enum or JSON goes with the cast.
            let refined = matches!(
                Refinement::of(source),
                Refinement::Enum(_) | Refinement::Json
            );
            let same = source.data_type() == target.data_type();
            if same && !has_members(source) && (!refined || source.metadata() == target.metadata())
            {
                return Ok(expr);
            }
            if same && has_members(source) && same_members(source, target) {
                return Ok(expr);
            }
            if (refined || has_members(source)) && source.data_type() == target.data_type() {
                return Ok(Cast::function(expr, target, rule));
            }
            return Ok(match &expr {
                Expr::Literal(value, metadata) => {
                    Expr::Literal(value.cast_to(target.data_type())?, metadata.clone())
                }
                _ => Expr::Cast(NativeCast::new(Box::new(expr), target.data_type().clone())),
            });
        }
        check_convertible(source, target)?;
        if let Expr::Literal(value, None) = &expr
            && !depends_on_zone(source.data_type(), target.data_type())
            && target.metadata().is_empty()
            && let Ok(folded) = convert_scalar(value, source, target, Conversion::new(rule))
        {
            return Ok(Expr::Literal(folded, None));
        }
        Ok(Cast::function(expr, target, rule))
    }

    /// The cast as a call, also where it changes no value.
    pub(crate) fn function(expr: Expr, target: &FieldRef, rule: Rule) -> Expr {
        let function = Cast {
            target: Arc::clone(target),
            rule,
            zone: None,
            signature: Signature::any(1, Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(function).call(vec![expr])
    }
}

impl ScalarUDFImpl for Cast {
    fn name(&self) -> &str {
        match self.rule {
            Rule::Try => "try_cast",
            _ => CAST,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The bare column may stand beside it, as in the input of a join, and so may a cast to another type.
    fn schema_name(&self, args: &[Expr]) -> DataFusionResult<String> {
        match args {
            [value] => Ok(format!(
                "{}({} AS {})",
                self.name(),
                value.schema_name(),
                sql_name(&self.target)
            )),
            _ => exec_err!("a cast takes one argument"),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> DataFusionResult<DataType> {
        Ok(self.target.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DataFusionResult<FieldRef> {
        // A constant that can't be cast is an error, also beside IS NULL, which the optimizer answers for what is never null.
        let constant = args.scalar_arguments.iter().any(Option::is_some);
        let nullable = self.rule == Rule::Try
            || constant
            || args.arg_fields.iter().any(|field| field.is_nullable());
        let field = self.target.as_ref().clone();
        Ok(Arc::new(
            field.with_name(self.name()).with_nullable(nullable),
        ))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let ([value], [source]) = (args.args.as_slice(), args.arg_fields.as_slice()) else {
            return exec_err!("a cast takes one argument");
        };
        let how = Conversion {
            rule: self.rule,
            zone: match &self.zone {
                Some(zone) => Some(named_zone(zone)?),
                None => session_zone(&args.config_options)?,
            },
        };
        Ok(match value {
            ColumnarValue::Array(array) => {
                ColumnarValue::Array(convert(array, source, &self.target, how)?)
            }
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(convert_scalar(value, source, &self.target, how)?)
            }
        })
    }
}

/// The zone that a session's moments are read and shown in.
pub(crate) fn session_zone(options: &ConfigOptions) -> DataFusionResult<Option<Tz>> {
    match options.execution.time_zone.as_deref() {
        None | Some("UTC" | "+00:00") => Ok(None),
        Some(name) => Ok(Some(named_zone(name)?)),
    }
}

fn named_zone(name: &str) -> Result<Tz> {
    Tz::from_str(name).map_err(|_| {
        Error::new(
            SqlState::InvalidParameterValue,
            format!("time zone \"{name}\" not recognized"),
        )
    })
}

pub(crate) fn convert_scalar(
    value: &ScalarValue,
    source: &Field,
    target: &Field,
    how: Conversion,
) -> Result<ScalarValue> {
    let array = convert(&value.to_array()?, source, target, how)?;
    Ok(ScalarValue::try_from_array(&array, 0)?)
}

/// Between moments with and without a zone, and between moments with one and text or dates.
fn depends_on_zone(from: &DataType, to: &DataType) -> bool {
    let zoned = |data_type: &DataType| matches!(data_type, DataType::Timestamp(_, Some(_)));
    zoned(from) != zoned(to)
}

/// Whether every value has one image under Arrow's cast, and that is ours too.
pub(crate) fn is_lossless(source: &Field, target: &Field) -> bool {
    use DataType::{Decimal128, Float32, Float64, Null};
    if has_members(target) && !same_members(source, target) {
        return false;
    }
    match (Refinement::of(source), Refinement::of(target)) {
        (from, to) if from == to && source.data_type() == target.data_type() => {
            return true;
        }
        (_, Refinement::None) => {}
        (Refinement::Digits(from), Refinement::Digits(to)) => {
            return from <= to && source.data_type() == target.data_type();
        }
        _ => return false,
    }
    let (from, to) = (source.data_type(), target.data_type());
    let is_text = |data_type: &DataType| canonical_type(data_type) == DataType::Utf8View;
    match (from, to) {
        (from, to) if from == to => true,
        (Null, _) => true,
        (from, to) if is_text(from) && is_text(to) => true,
        (Float32, Float64) => true,
        // Beyond its digits a float stands for several integers, and a condition on it fixes none of them.
        (from, Float64) if from.is_integer() => from.primitive_width() < Some(8),
        (from, Float32) if from.is_integer() => from.primitive_width() < Some(4),
        (from, to) if from.is_integer() && to.is_integer() => {
            let (narrow, wide) = (from.primitive_width(), to.primitive_width());
            match (from.is_signed_integer(), to.is_signed_integer()) {
                (true, true) | (false, false) => narrow <= wide,
                (false, true) => narrow < wide,
                (true, false) => false,
            }
        }
        (Decimal128(p1, s1), Decimal128(p2, s2)) => holds(*p1, *s1, *p2, *s2),
        (from, Decimal128(p2, s2)) => {
            decimal_of_integer(from).is_some_and(|(p1, s1)| holds(p1, s1, *p2, *s2))
        }
        _ => false,
    }
}

/// Whether a decimal has room for all digits of another.
fn holds(p1: u8, s1: i8, p2: u8, s2: i8) -> bool {
    s2 >= s1 && i16::from(p2) - i16::from(s2) >= i16::from(p1) - i16::from(s1)
}
