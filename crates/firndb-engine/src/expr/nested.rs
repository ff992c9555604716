//! Lists and structs by more or less, as in PostgreSQL and DuckDB: member by member, NULL within being greater than every value.
//!
//! DataFusion compares them with NULL as the least, unlike what it sorts them by. `a < b` becomes `order(a, b) < 0`, the order
//! being -1, 0 or 1, and NULL where one of the two is.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int8Array, make_comparator};
use arrow::buffer::NullBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result, exec_err};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};

use super::canonical_float::meeting;
use super::cast::Cast;
use super::convert::Rule;
use crate::types::canonical;

/// The comparison by more or less of two nested values.
pub(super) fn comparison(binary: &BinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    use Operator::{Gt, GtEq, Lt, LtEq};
    if !matches!(binary.op, Lt | LtEq | Gt | GtEq) {
        return Ok(None);
    }
    let (_, left) = binary.left.to_field(schema)?;
    let (_, right) = binary.right.to_field(schema)?;
    if !is_ordered(left.data_type()) || !is_ordered(right.data_type()) {
        return Ok(None);
    }
    let common = match left.data_type() == right.data_type() {
        true => Some(left.data_type().clone()),
        false => meeting(left.data_type(), right.data_type())
            .or_else(|| comparison_coercion(left.data_type(), right.data_type())),
    };
    let Some(common) = common else {
        return Ok(None);
    };
    let to: Arc<Field> = Arc::new(Field::new("", common, true));
    let brought = |expr: &Expr, from: &Field| match from.data_type() == to.data_type() {
        true => Ok(expr.clone()),
        false => Cast::call(expr.clone(), from, &to, Rule::Explicit),
    };
    let order = ScalarUDF::new_from_impl(Order {
        signature: Signature::any(2, Volatility::Immutable),
    })
    .call(vec![
        brought(&binary.left, &left)?,
        brought(&binary.right, &right)?,
    ]);
    Ok(Some(Expr::BinaryExpr(BinaryExpr::new(
        Box::new(order),
        binary.op,
        Box::new(lit(0_i8)),
    ))))
}

/// Whether values of a type are compared member by member.
pub(super) fn is_ordered(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(_, _)
            | DataType::Struct(_)
    )
}

const NAME: &str = "nested_order";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Order {
    signature: Signature,
}

impl ScalarUDFImpl for Order {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return exec_err!("{NAME} takes two values");
        };
        let left = left.to_array(args.number_rows)?;
        let right = right.to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(order(&left, &right)?))
    }
}

fn order(left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
    let options = SortOptions {
        descending: false,
        nulls_first: false,
    };
    let compare = make_comparator(&canonical(left)?, &canonical(right)?, options)?;
    let nulls = NullBuffer::union(
        left.logical_nulls().as_ref(),
        right.logical_nulls().as_ref(),
    );
    let orders: Int8Array = (0..left.len())
        .map(|row| match &nulls {
            Some(nulls) if nulls.is_null(row) => None,
            _ => Some(match compare(row, row) {
                Ordering::Less => -1_i8,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            }),
        })
        .collect();
    Ok(Arc::new(orders))
}
