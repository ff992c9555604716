//! `list_sum`, `list_avg` …: what an aggregate makes of each list's values.
//!
//! Each runs the aggregate of its name over the values of one list after the other, so that sums are as exact and of the same type
//! as over rows. A list that is NULL has none.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::physical_expr::expressions::Column;

use super::kernel::undefined;
use crate::expr::aggregate;

/// The aggregates that lists have, and the functions' further names.
const AGGREGATES: [(&str, &[&str]); 19] = [
    ("sum", &["array_sum"]),
    ("avg", &["array_avg"]),
    ("median", &[]),
    ("mode", &[]),
    ("product", &["array_product"]),
    ("stddev", &["list_stddev_samp"]),
    ("stddev_pop", &[]),
    ("var_samp", &["list_variance"]),
    ("var_pop", &[]),
    ("bool_and", &[]),
    ("bool_or", &[]),
    ("bit_and", &[]),
    ("bit_or", &[]),
    ("bit_xor", &[]),
    ("skewness", &[]),
    ("kurtosis", &[]),
    ("kurtosis_pop", &[]),
    ("entropy", &[]),
    ("approx_distinct", &["list_approx_count_distinct"]),
];

/// The functions of this module.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let known: Vec<Arc<AggregateUDF>> = aggregate::functions()
        .into_iter()
        .chain(all_default_aggregate_functions())
        .collect();
    AGGREGATES
        .iter()
        .filter_map(|(name, aliases)| {
            let named = |function: &&Arc<AggregateUDF>| {
                function.name() == *name || function.aliases().iter().any(|alias| alias == name)
            };
            let aggregate = known.iter().find(named)?;
            Some(Arc::new(ScalarUDF::new_from_impl(ListAggregate {
                name: format!("list_{name}"),
                aliases: aliases.iter().map(ToString::to_string).collect(),
                aggregate: Arc::clone(aggregate),
                signature: Signature::user_defined(Volatility::Immutable),
            })))
        })
        .collect()
}

#[derive(Debug)]
struct ListAggregate {
    name: String,
    aliases: Vec<String>,
    aggregate: Arc<AggregateUDF>,
    signature: Signature,
}

impl PartialEq for ListAggregate {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ListAggregate {}

impl Hash for ListAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

fn item(list: &DataType) -> Option<&FieldRef> {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item)
        }
        _ => None,
    }
}

impl ListAggregate {
    fn undefined(&self, types: &[DataType]) -> crate::Error {
        undefined(&self.name, types)
    }

    fn accumulator(&self, values: &FieldRef) -> Result<Box<dyn Accumulator>> {
        let result = self.aggregate.return_field(std::slice::from_ref(values))?;
        let column = Arc::new(Column::new(values.name(), 0));
        self.aggregate.accumulator(AccumulatorArgs {
            return_field: result,
            schema: &Schema::new(vec![Arc::clone(values)]),
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: &self.name,
            is_distinct: false,
            exprs: &[column],
            expr_fields: std::slice::from_ref(values),
        })
    }

    /// The aggregates of the lists that are not NULL.
    fn run(&self, lists: &ListArray, result: &DataType) -> Result<ArrayRef> {
        let values = Arc::new(Field::new("values", lists.value_type(), true));
        if lists.is_empty() {
            return Ok(arrow::array::new_empty_array(result));
        }
        let results = (0..lists.len())
            .map(|row| {
                if lists.is_null(row) {
                    return ScalarValue::try_from(result);
                }
                let mut accumulator = self.accumulator(&values)?;
                accumulator.update_batch(&[lists.value(row)])?;
                accumulator.evaluate()
            })
            .collect::<Result<Vec<_>>>()?;
        ScalarValue::iter_to_array(results)
    }
}

impl ScalarUDFImpl for ListAggregate {
    fn name(&self) -> &str {
        &self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// One list, its values of a type that the aggregate takes.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let refused = || self.undefined(types);
        let [list] = types else {
            return Err(refused().into());
        };
        let given = match list {
            DataType::Null => &Arc::new(Field::new_list_field(DataType::Null, true)),
            list => item(list).ok_or_else(refused)?,
        };
        let taken = fields_with_udf(std::slice::from_ref(given), self.aggregate.as_ref())
            .map_err(|_| refused())?;
        let [taken] = taken.as_slice() else {
            return Err(refused().into());
        };
        Ok(vec![DataType::new_list(taken.data_type().clone(), true)])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [list] = types else {
            return Err(self.undefined(types).into());
        };
        let item = item(list).ok_or_else(|| self.undefined(types))?;
        let result = self.aggregate.return_field(std::slice::from_ref(item))?;
        Ok(result.data_type().clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [lists] = args.args.as_slice() else {
            return Err(self.undefined(&[]).into());
        };
        let result = args.return_field.data_type();
        match lists {
            ColumnarValue::Array(lists) => {
                let results = self.run(lists.as_list::<i32>(), result)?;
                Ok(ColumnarValue::Array(results))
            }
            ColumnarValue::Scalar(lists) => {
                let results = self.run(lists.to_array()?.as_list::<i32>(), result)?;
                ScalarValue::try_from_array(&results, 0).map(ColumnarValue::Scalar)
            }
        }
    }
}
