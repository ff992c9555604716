//! `list_contains(list, value)` and its like: DataFusion's functions that compare a list's members, with `=` as everywhere else.
//!
//! DataFusion has no such function for a decimal beside a double or beside a decimal with other digits, and compares the bits of
//! floating point numbers. Here members and value are brought to the type in which `=` compares them, then to one zero and
//! one NaN. Likewise the keys of a map, and the one that is looked up.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, MapArray, StructArray};
use arrow::compute::{is_null, nullif};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_nested::{array_has, map_extract, position, remove};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};

use crate::expr::canonical_float::meeting;
use crate::types::{canonical, has_floats};

/// The functions of this module, in place of DataFusion's.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    [
        array_has::array_has_udf(),
        array_has::array_has_all_udf(),
        array_has::array_has_any_udf(),
        position::array_position_udf(),
        position::array_positions_udf(),
        remove::array_remove_udf(),
        remove::array_remove_n_udf(),
        remove::array_remove_all_udf(),
    ]
    .into_iter()
    .map(|inner| {
        Arc::new(ScalarUDF::new_from_impl(Search {
            inner,
            signature: Signature::user_defined(Volatility::Immutable),
        }))
    })
    .collect()
}

/// Whether `list` holds all members of `members`.
pub(crate) fn contains_all(list: Expr, members: Expr) -> Expr {
    call(array_has::array_has_all_udf(), vec![list, members])
}

/// A map's value of a key, or NULL.
pub(crate) fn value_of(map: Expr, key: Expr) -> Expr {
    let values = call(map_extract::map_extract_udf(), vec![map, key]);
    datafusion::functions_nested::expr_fn::array_element(values, lit(1_i64))
}

fn call(inner: Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(Search { inner, signature }).call(args)
}

#[derive(Debug)]
struct Search {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl PartialEq for Search {
    fn eq(&self, other: &Self) -> bool {
        self.inner.name() == other.inner.name()
    }
}

impl Eq for Search {}

impl Hash for Search {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.name().hash(state);
    }
}

impl ScalarUDFImpl for Search {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let mut types = types.to_vec();
        if let [list, value, ..] = types.as_mut_slice()
            && let Some(member) = member_of(list)
        {
            let sought = match member_of(value) {
                // Lists are sought for their members, or as members of lists.
                Some(other) if !member.data_type().is_list() => other.data_type(),
                _ => value,
            };
            if let Some(common) = common(member.data_type(), sought) {
                let listed = DataType::new_list(common.clone(), true);
                *value = match member_of(value) {
                    Some(_) if !member.data_type().is_list() => listed.clone(),
                    _ => common,
                };
                *list = listed;
            }
        }
        let fields: Vec<FieldRef> = types
            .into_iter()
            .map(|data_type| Arc::new(Field::new("", data_type, true)))
            .collect();
        let fields = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.inner().return_field_from_args(args)
    }

    /// DataFusion makes an IN of a list that is known, which is not ours.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        for arg in &args {
            if has_floats(&info.get_data_type(arg)?) {
                return Ok(ExprSimplifyResult::Original(args));
            }
        }
        self.inner.inner().simplify(args, info)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for arg in &mut args.args {
            *arg = match arg {
                ColumnarValue::Array(array) => ColumnarValue::Array(searched(array)?),
                ColumnarValue::Scalar(value) if has_floats(&value.data_type()) => {
                    let array = searched(&value.to_array()?)?;
                    ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
                }
                ColumnarValue::Scalar(value) => ColumnarValue::Scalar(value.clone()),
            };
        }
        let of_lists = matches!(self.name(), "array_has_all" | "array_has_any");
        if !of_lists {
            return self.inner.inner().invoke_with_args(args);
        }
        // NULL is no list, and nothing is known of its members.
        let mut unknown = None;
        for arg in &args.args {
            let nulls = is_null(&arg.to_array(args.number_rows)?)?;
            unknown = Some(match unknown {
                Some(before) => arrow::compute::or(&before, &nulls)?,
                None => nulls,
            });
        }
        let rows = args.number_rows;
        let found = self.inner.inner().invoke_with_args(args)?;
        match unknown.filter(|unknown| unknown.true_count() > 0) {
            Some(unknown) => {
                let found = found.into_array(rows)?;
                Ok(ColumnarValue::Array(nullif(&found, &unknown)?))
            }
            None => Ok(found),
        }
    }
}

/// One zero and one NaN in what is compared: of a map, its keys alone.
fn searched(values: &ArrayRef) -> Result<ArrayRef> {
    let Some(map) = values.as_map_opt() else {
        return Ok(canonical(values)?);
    };
    if !has_floats(map.key_type()) {
        return Ok(Arc::clone(values));
    }
    let DataType::Map(field, ordered) = values.data_type() else {
        return Ok(Arc::clone(values));
    };
    let entries = map.entries();
    let columns = vec![canonical(map.keys())?, Arc::clone(map.values())];
    let entries =
        StructArray::try_new(entries.fields().clone(), columns, entries.nulls().cloned())?;
    let map = MapArray::try_new(
        Arc::clone(field),
        map.offsets().clone(),
        entries,
        map.nulls().cloned(),
        *ordered,
    )?;
    Ok(Arc::new(map))
}

fn member_of(list: &DataType) -> Option<&FieldRef> {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item)
        }
        _ => None,
    }
}

/// The type in which numbers of two types compare, where DataFusion's functions would not take them.
fn common(member: &DataType, sought: &DataType) -> Option<DataType> {
    if member == sought {
        return None;
    }
    let decimal = |data_type: &DataType| data_type.is_decimal();
    meeting(member, sought).or_else(|| {
        let numbers = member.is_numeric() && sought.is_numeric();
        (numbers && (decimal(member) || decimal(sought)))
            .then(|| comparison_coercion(member, sought))
            .flatten()
    })
}
