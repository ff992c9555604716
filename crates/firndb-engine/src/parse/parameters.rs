//! Parameters and their values.
//!
//! A value that SQL can write becomes a literal of the AST, so that it means what the same text would mean: a string takes the
//! type of what it meets, an integer the least type that fits. Values without a literal (blobs, lists, structs, intervals)
//! stay `$k`, typed, and the planner replaces them by their values.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;

use arrow::array::Array;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion::common::DataFusionError;
use datafusion::common::ParamValues;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    self, CastKind, ExactNumberInfo, Expr, TimezoneInfo, UnaryOperator, Value, VisitMut, VisitorMut,
};

use super::{Command, ParameterNames};
use crate::error::{Error, Result, SqlState};
use crate::types::one_nan_of;

/// The values of a statement's parameters: `$k` is the k-th.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    values: Vec<ScalarValue>,
}

impl Arguments {
    /// Values by position; 42P02 when they are not as many as the parameters.
    pub fn positional(names: &ParameterNames, values: &[ScalarValue]) -> Result<Self> {
        if !names.named.is_empty() {
            return Err(mismatch(format!(
                "the statement has named parameters (${}), but values were given by position",
                names.named.join(", $")
            )));
        }
        if names.positional != values.len() {
            return Err(mismatch(format!(
                "the statement has {} parameters, but {} values were given",
                names.positional,
                values.len()
            )));
        }
        Ok(Arguments {
            values: values.iter().map(one_nan_of).collect::<Result<_>>()?,
        })
    }

    /// Values by name; 42P02 for a parameter without a value and for a value without a parameter.
    pub fn named(names: &ParameterNames, values: &HashMap<String, ScalarValue>) -> Result<Self> {
        let plain = |name: &str| name.trim_start_matches(['$', ':', '@']).to_owned();
        let given: HashMap<String, &ScalarValue> = values
            .iter()
            .map(|(name, value)| (plain(name), value))
            .collect();
        let wanted: Vec<String> = if names.named.is_empty() {
            (1..=names.positional)
                .map(|number| number.to_string())
                .collect()
        } else {
            names.named.clone()
        };
        for name in given.keys() {
            if !wanted.contains(name) {
                return Err(mismatch(format!("the statement has no parameter ${name}")));
            }
        }
        let values = wanted
            .iter()
            .map(|name| {
                let value = given
                    .get(name)
                    .ok_or_else(|| mismatch(format!("there is no value for parameter ${name}")))?;
                one_nan_of(value)
            })
            .collect::<Result<_>>()?;
        Ok(Arguments { values })
    }

    /// The same values and another one: the name of its parameter.
    pub(super) fn push(&mut self, value: ScalarValue) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    /// The value of a parameter, from 0.
    pub fn get(&self, index: usize) -> Option<&ScalarValue> {
        self.values.get(index)
    }

    /// The values.
    pub fn values(&self) -> &[ScalarValue] {
        &self.values
    }

    /// The types of the parameters, for the planner.
    pub fn types(&self) -> Vec<Option<FieldRef>> {
        self.values
            .iter()
            .map(|value| {
                let field = arrow::datatypes::Field::new("parameter", value.data_type(), true);
                Some(std::sync::Arc::new(field))
            })
            .collect()
    }

    /// Puts the values in the place of what is left of the parameters in a plan.
    pub fn apply(&self, plan: LogicalPlan) -> std::result::Result<LogicalPlan, DataFusionError> {
        if self.values.is_empty() {
            return Ok(plan);
        }
        let values = self
            .values
            .iter()
            .map(|value| ScalarAndMetadata::new(value.clone(), None))
            .collect();
        plan.replace_params_with_values(&ParamValues::List(values))
    }

    /// As `apply`, for an expression.
    pub fn apply_to(
        &self,
        expression: datafusion::logical_expr::Expr,
    ) -> std::result::Result<datafusion::logical_expr::Expr, DataFusionError> {
        if self.values.is_empty() {
            return Ok(expression);
        }
        let replaced = expression.transform(|node| {
            let value = match &node {
                datafusion::logical_expr::Expr::Placeholder(placeholder) => placeholder
                    .id
                    .trim_start_matches('$')
                    .parse::<usize>()
                    .ok()
                    .and_then(|number| self.values.get(number.checked_sub(1)?)),
                _ => None,
            };
            Ok(match value {
                Some(value) => Transformed::yes(datafusion::logical_expr::lit(value.clone())),
                None => Transformed::no(node),
            })
        })?;
        Ok(replaced.data)
    }
}

fn mismatch(message: String) -> Error {
    Error::new(SqlState::UndefinedParameter, message)
}

/// A statement with literals in the place of its parameters.
pub fn bind<'a>(command: &'a Command, arguments: &Arguments) -> Cow<'a, Command> {
    if arguments.values.is_empty() {
        return Cow::Borrowed(command);
    }
    let mut bound = command.clone();
    let mut binder = Binder { arguments };
    let _: ControlFlow<()> = match &mut bound {
        Command::Sql(statement) => statement.visit(&mut binder),
        Command::Summarize(query) => query.visit(&mut binder),
        Command::SetVariable(_, query) => query.visit(&mut binder),
        Command::Nothing(_)
        | Command::ResetVariable(_)
        | Command::AlterSequence(_)
        | Command::RenameView(_)
        | Command::SetConstraints(..) => ControlFlow::Continue(()),
    };
    Cow::Owned(bound)
}

struct Binder<'a> {
    arguments: &'a Arguments,
}

impl VisitorMut for Binder<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(value) = expr
            && let Value::Placeholder(name) = &value.value
        {
            let index = name
                .trim_start_matches('$')
                .parse::<usize>()
                .ok()
                .and_then(|number| number.checked_sub(1));
            if let Some(value) = index.and_then(|index| self.arguments.values.get(index))
                && let Some(bound) = literal(value)
            {
                *expr = bound;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The literal for a value, if SQL has one.
pub(crate) fn literal(value: &ScalarValue) -> Option<Expr> {
    if value.is_null() && !value.data_type().is_nested() {
        return Some(Expr::value(Value::Null));
    }
    Some(match value {
        ScalarValue::Boolean(Some(flag)) => Expr::value(Value::Boolean(*flag)),
        ScalarValue::Int8(Some(number)) => integer(i64::from(*number)),
        ScalarValue::Int16(Some(number)) => integer(i64::from(*number)),
        ScalarValue::Int32(Some(number)) => integer(i64::from(*number)),
        ScalarValue::Int64(Some(number)) => integer(*number),
        ScalarValue::UInt8(Some(number)) => integer(i64::from(*number)),
        ScalarValue::UInt16(Some(number)) => integer(i64::from(*number)),
        ScalarValue::UInt32(Some(number)) => integer(i64::from(*number)),
        ScalarValue::UInt64(Some(number)) => Expr::value(Value::Number(number.to_string(), false)),
        ScalarValue::Utf8(Some(text))
        | ScalarValue::Utf8View(Some(text))
        | ScalarValue::LargeUtf8(Some(text)) => {
            Expr::value(Value::SingleQuotedString(text.clone()))
        }
        ScalarValue::Float64(Some(_)) => typed(value, ast::DataType::DoublePrecision)?,
        ScalarValue::Float32(Some(_)) => typed(value, ast::DataType::Real)?,
        ScalarValue::Date32(Some(_)) | ScalarValue::Date64(Some(_)) => {
            typed(value, ast::DataType::Date)?
        }
        ScalarValue::Time64Microsecond(Some(_)) | ScalarValue::Time64Nanosecond(Some(_)) => {
            typed(value, ast::DataType::Time(None, TimezoneInfo::None))?
        }
        ScalarValue::TimestampSecond(Some(_), zone)
        | ScalarValue::TimestampMillisecond(Some(_), zone)
        | ScalarValue::TimestampMicrosecond(Some(_), zone)
        | ScalarValue::TimestampNanosecond(Some(_), zone) => {
            let zoned = if zone.is_some() {
                TimezoneInfo::WithTimeZone
            } else {
                TimezoneInfo::None
            };
            typed(value, ast::DataType::Timestamp(None, zoned))?
        }
        ScalarValue::Decimal32(Some(_), precision, scale)
        | ScalarValue::Decimal64(Some(_), precision, scale)
        | ScalarValue::Decimal128(Some(_), precision, scale) => typed(
            value,
            ast::DataType::Decimal(ExactNumberInfo::PrecisionAndScale(
                u64::from(*precision),
                i64::from(*scale),
            )),
        )?,
        ScalarValue::FixedSizeBinary(16, Some(bytes)) => text_as(
            uuid::Uuid::from_slice(bytes).ok()?.to_string(),
            ast::DataType::Uuid,
        ),
        _ => return None,
    })
}

fn integer(number: i64) -> Expr {
    let magnitude = Expr::value(Value::Number(number.unsigned_abs().to_string(), false));
    if number >= 0 {
        magnitude
    } else if number == i64::MIN {
        text_as(number.to_string(), ast::DataType::BigInt(None))
    } else {
        Expr::Nested(Box::new(Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(magnitude),
        }))
    }
}

/// A value as its text, cast to its type.
fn typed(value: &ScalarValue, data_type: ast::DataType) -> Option<Expr> {
    let array = value.to_array().ok()?;
    let array = match array.data_type() {
        DataType::Timestamp(_, zone) => cast(
            &array,
            &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        )
        .ok()?,
        _ => array,
    };
    let text = cast(&array, &DataType::Utf8).ok()?;
    let text = text
        .as_any()
        .downcast_ref::<arrow::array::StringArray>()
        .filter(|text| !text.is_empty() && text.is_valid(0))
        .map(|text| text.value(0).to_owned())?;
    Some(text_as(text, data_type))
}

fn text_as(text: String, data_type: ast::DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::SingleQuotedString(text))),
        data_type,
        array: false,
        format: None,
    }
}
