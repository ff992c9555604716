//! + - * / // % and negation that report overflow and division by zero.
//!
//! ```text
//! a + b ──plan──▶ types::resolve ──▶ operands cast without loss ──▶ Arithmetic(+) ──▶ integer │ decimal │ float kernel
//! ```
//!
//! The planner (`super::planner`) gives both operands the types that [`types::resolve`] asks for, so a kernel meets two
//! integers or floats of one type, or two decimals of any scale. Kernels compute a whole batch with wrapping
//! operations and gather the overflows in one flag; only when it is set do they look for the row to blame.

mod decimal;
mod kernels;
mod moments;
mod types;

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result as DataFusionResult, ScalarValue, exec_err};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

pub(crate) use moments::MomentOperation;
pub(crate) use types::{Operands, decimal_of_integer, resolve};

use super::convert::{out_of_range, with_integer};
use crate::{Error, SqlState};

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ArithmeticOperator {
    Plus,
    Minus,
    Multiply,
    /// `/`, which yields a floating point number.
    Divide,
    /// `//`, which cuts towards zero.
    IntegerDivide,
    Modulo,
}

impl ArithmeticOperator {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            ArithmeticOperator::Plus => "+",
            ArithmeticOperator::Minus => "-",
            ArithmeticOperator::Multiply => "*",
            ArithmeticOperator::Divide => "/",
            ArithmeticOperator::IntegerDivide => "//",
            ArithmeticOperator::Modulo => "%",
        }
    }
}

pub(crate) fn division_by_zero() -> Error {
    Error::new(SqlState::DivisionByZero, "division by zero")
}

/// A checked operator as a function of two arguments, already of the types that [`resolve`] asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arithmetic {
    operator: ArithmeticOperator,
    signature: Signature,
}

/// The signature is the same for all.
impl Hash for Arithmetic {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.operator.hash(state);
    }
}

impl Arithmetic {
    pub(crate) fn call(operator: ArithmeticOperator, left: Expr, right: Expr) -> Expr {
        let function = Arithmetic {
            operator,
            signature: Signature::any(2, Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(function).call(vec![left, right])
    }

    /// Whether a right operand of zero is an error.
    pub(crate) fn divides(&self) -> bool {
        matches!(
            self.operator,
            ArithmeticOperator::Divide
                | ArithmeticOperator::IntegerDivide
                | ArithmeticOperator::Modulo
        )
    }

    pub(crate) fn operator(&self) -> ArithmeticOperator {
        self.operator
    }

    /// Whether the operands have the types that [`resolve`] asks for.
    pub(crate) fn takes(&self, left: &DataType, right: &DataType) -> DataFusionResult<bool> {
        Ok(resolve(self.operator, left, right)?
            .is_some_and(|operands| operands.left == *left && operands.right == *right))
    }

    fn operands(&self, left: &DataType, right: &DataType) -> DataFusionResult<Operands> {
        match resolve(self.operator, left, right)? {
            Some(operands) if operands.left == *left && operands.right == *right => Ok(operands),
            _ => exec_err!(
                "operands of {} have the types {left} and {right}",
                self.operator.symbol()
            ),
        }
    }
}

/// Nodes of an expression whose name is its text.
const MAX_NAMED_NODES: usize = 64;

/// Whether an operator's name may be its text. The planner asks for the names of all levels again and again, so that texts would cost the cube
/// of a chain's length; longer expressions are told apart by a hash.
fn is_short(args: &[Expr]) -> bool {
    let mut nodes = 0;
    let mut open: Vec<&Expr> = args.iter().collect();
    while let Some(node) = open.pop() {
        nodes += 1;
        match node {
            _ if nodes > MAX_NAMED_NODES => return false,
            Expr::Column(_) | Expr::Literal(_, _) => {}
            Expr::ScalarFunction(function) => open.extend(&function.args),
            other => {
                // The walk itself can't fail.
                let _ = other.apply_children(|child| {
                    open.push(child);
                    Ok(TreeNodeRecursion::Continue)
                });
            }
        }
    }
    true
}

/// The same for equal expressions of one process. What a long chain is made of is hashed by hand, and much faster than by `Expr`'s own hash.
fn hash_of(args: &[Expr]) -> u64 {
    let mut hasher = ahash::RandomState::with_seeds(1, 2, 3, 4).build_hasher();
    let mut open: Vec<&Expr> = args.iter().rev().collect();
    while let Some(node) = open.pop() {
        match node {
            Expr::Column(column) => {
                hasher.write_u8(1 + u8::from(column.relation.is_some()));
                column.name.hash(&mut hasher);
                if let Some(relation) = &column.relation {
                    relation.table().hash(&mut hasher);
                    relation.schema().hash(&mut hasher);
                }
            }
            Expr::ScalarFunction(function)
                if let Some(arithmetic) = function.func.inner().downcast_ref::<Arithmetic>() =>
            {
                hasher.write_u8(3);
                arithmetic.operator.hash(&mut hasher);
                open.extend(function.args.iter().rev());
            }
            other => other.hash(&mut hasher),
        }
    }
    hasher.finish()
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        self.operator.symbol()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> DataFusionResult<String> {
        Ok(match args {
            _ if !is_short(args) => format!("{}#{:016x}", self.operator.symbol(), hash_of(args)),
            [left, right] => format!(
                "{} {} {}",
                left.schema_name(),
                self.operator.symbol(),
                right.schema_name()
            ),
            _ => self.operator.symbol().into(),
        })
    }

    fn return_type(&self, types: &[DataType]) -> DataFusionResult<DataType> {
        match types {
            [left, right] => Ok(self.operands(left, right)?.result),
            _ => exec_err!("an operator takes two operands"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DataFusionResult<FieldRef> {
        let types: Vec<DataType> = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let result = self.return_type(&types)?;
        Ok(Arc::new(Field::new(self.name(), result, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return exec_err!("an operator takes two operands");
        };
        let (left_type, right_type) = (left.data_type(), right.data_type());
        let scalar = matches!(
            (left, right),
            (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_))
        );
        let rows = if scalar { 1 } else { args.number_rows };
        let result = args.return_field.data_type();
        let computed: ArrayRef = match (&left_type, &right_type) {
            (DataType::Decimal128(_, _), DataType::Decimal128(_, _)) => {
                decimal::compute(self.operator, left, right, rows, result)?
            }
            (DataType::Float64, DataType::Float64) => {
                kernels::float::<Float64Type>(self.operator, left, right, rows)?
            }
            (DataType::Float32, DataType::Float32) => {
                kernels::float::<Float32Type>(self.operator, left, right, rows)?
            }
            (one, other) if one == other => {
                with_integer!(one, T => kernels::integer::<T>(self.operator, left, right, rows)
                    .map_err(|fault| fault.into_error(one))?,
                    else return exec_err!("{one} has no {}", self.operator.symbol()))
            }
            _ => {
                return exec_err!(
                    "operands of {} have the types {left_type} and {right_type}",
                    self.operator.symbol()
                );
            }
        };
        if scalar {
            ScalarValue::try_from_array(&computed, 0).map(ColumnarValue::Scalar)
        } else {
            Ok(ColumnarValue::Array(computed))
        }
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> DataFusionResult<Interval> {
        let [left, right] = inputs else {
            return exec_err!("an operator takes two operands");
        };
        let (left_type, right_type) = (left.data_type(), right.data_type());
        let result = self.return_type(&[left_type.clone(), right_type.clone()])?;
        if left_type == result && right_type == result && result.is_integer() {
            match self.operator {
                ArithmeticOperator::Plus => return left.add(*right),
                ArithmeticOperator::Minus => return left.sub(*right),
                ArithmeticOperator::Multiply => return left.mul(*right),
                _ => {}
            }
        }
        Interval::make_unbounded(&result)
    }

    /// Sums and differences never wrap, so they keep order.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> DataFusionResult<SortProperties> {
        let [left, right] = inputs else {
            return Ok(SortProperties::Unordered);
        };
        let (left, right) = (&left.sort_properties, &right.sort_properties);
        Ok(match self.operator {
            ArithmeticOperator::Plus => left.add(right),
            ArithmeticOperator::Minus => left.sub(right),
            _ => match (left, right) {
                (SortProperties::Singleton, SortProperties::Singleton) => SortProperties::Singleton,
                _ => SortProperties::Unordered,
            },
        })
    }
}

impl kernels::Fault {
    fn into_error(self, data_type: &DataType) -> Error {
        match self {
            kernels::Fault::Overflow => out_of_range(data_type),
            kernels::Fault::DivisionByZero => division_by_zero(),
            kernels::Fault::Operands(error) => error,
        }
    }
}
