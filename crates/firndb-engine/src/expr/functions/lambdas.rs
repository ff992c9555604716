//! Functions of lists that run a lambda over the elements: `list_transform`, `list_filter`, `list_reduce`, as in DuckDB.
//!
//! A lambda's parameters are the element and, where it has one more, the element's place from 1. `list_reduce` puts the result so
//! far before them; it goes through all lists at once, one element of each list a step.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, UInt64Array, new_empty_array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{
    CastOptions, cast_with_options, filter, interleave, prep_null_mask_filter, take, take_arrays,
};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature,
    HigherOrderUDF, HigherOrderUDFImpl, LambdaArgument, LambdaParametersProgress, ValueOrLambda,
    Volatility,
};

use crate::types::{flat, full};
use crate::{Error, SqlState};

/// The functions of this module.
pub(in crate::expr) fn functions() -> Vec<Arc<HigherOrderUDF>> {
    [
        (
            Kind::Transform,
            "array_transform",
            &["list_transform", "list_apply", "array_apply", "apply"][..],
        ),
        (Kind::Filter, "array_filter", &["list_filter", "filter"]),
        (Kind::Reduce, "list_reduce", &["array_reduce", "reduce"]),
    ]
    .into_iter()
    .map(|(kind, name, aliases)| {
        Arc::new(HigherOrderUDF::new_from_impl(OverElements {
            kind,
            name,
            aliases: aliases.iter().map(ToString::to_string).collect(),
            signature: HigherOrderSignature::user_defined(Volatility::Immutable),
        }))
    })
    .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Transform,
    Filter,
    Reduce,
}

#[derive(Debug)]
struct OverElements {
    kind: Kind,
    name: &'static str,
    aliases: Vec<String>,
    signature: HigherOrderSignature,
}

impl PartialEq for OverElements {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Eq for OverElements {}

impl Hash for OverElements {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}

fn element(list: &DataType) -> Option<&FieldRef> {
    match list {
        DataType::List(element) => Some(element),
        _ => None,
    }
}

impl OverElements {
    fn usage<T>(&self) -> Result<T> {
        Err(Error::new(
            SqlState::UndefinedFunction,
            match self.kind {
                Kind::Reduce => format!(
                    "{} takes a list, a lambda of two or three parameters and perhaps an initial value",
                    self.name
                ),
                _ => format!("{} takes a list and a lambda", self.name),
            },
        )
        .into())
    }
}

impl HigherOrderUDFImpl for OverElements {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (list, initial) = match (self.kind, types) {
            (_, [list]) => (list, None),
            (Kind::Reduce, [list, initial]) => (list, Some(initial.clone())),
            _ => return self.usage(),
        };
        let list = match list {
            DataType::Null => DataType::new_list(DataType::Null, true),
            DataType::List(_) => list.clone(),
            DataType::LargeList(element)
            | DataType::ListView(element)
            | DataType::LargeListView(element)
            | DataType::FixedSizeList(element, _) => DataType::List(Arc::clone(element)),
            _ => return self.usage(),
        };
        Ok(std::iter::once(list).chain(initial).collect())
    }

    /// Of an empty list no lambda is run, so no part that lambdas share may be computed before.
    fn short_circuits(&self) -> bool {
        true
    }

    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let (list, lambda, initial) = match fields {
            [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda)] => (list, lambda, None),
            [
                ValueOrLambda::Value(list),
                ValueOrLambda::Lambda(lambda),
                ValueOrLambda::Value(initial),
            ] if self.kind == Kind::Reduce => (list, lambda, Some(initial)),
            _ => return self.usage(),
        };
        let list = full(list);
        let Some(element) = element(list.data_type()) else {
            return self.usage();
        };
        let element = Arc::new(flat(&element.as_ref().clone().with_nullable(true)));
        let place = Arc::new(Field::new("", DataType::Int64, false));
        if self.kind != Kind::Reduce {
            return Ok(LambdaParametersProgress::Complete(vec![vec![
                element, place,
            ]]));
        }
        let start = initial.unwrap_or(&element);
        let so_far = match lambda {
            Some(result) if !result.data_type().is_null() => result,
            _ => start,
        };
        // A sum of decimals has more digits than its terms: it begins with all there are.
        let so_far_type = match so_far.data_type() {
            DataType::Decimal128(_, scale) if lambda.is_some() => {
                DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale)
            }
            other => other.clone(),
        };
        let so_far = so_far.as_ref().clone().with_data_type(so_far_type);
        let so_far = Arc::new(so_far.with_nullable(true));
        let parameters = vec![so_far, element, place];
        Ok(match lambda {
            Some(_) => LambdaParametersProgress::Complete(vec![parameters]),
            None => LambdaParametersProgress::Partial(vec![Some(parameters)]),
        })
    }

    fn coerce_values_for_lambdas(
        &self,
        fields: &[ValueOrLambda<DataType, DataType>],
    ) -> Result<Option<Vec<DataType>>> {
        Ok(match fields {
            [
                ValueOrLambda::Value(list),
                ValueOrLambda::Lambda(result),
                ValueOrLambda::Value(_),
            ] => Some(vec![list.clone(), result.clone()]),
            _ => None,
        })
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let [
            ValueOrLambda::Value(list),
            ValueOrLambda::Lambda(lambda),
            ..,
        ] = args.arg_fields
        else {
            return self.usage();
        };
        let result = match self.kind {
            Kind::Transform => {
                let element = full(lambda).with_name(Field::LIST_FIELD_DEFAULT_NAME);
                let element = DataType::List(Arc::new(element.with_nullable(true)));
                return Ok(Arc::new(flat(&Field::new("", element, true))));
            }
            Kind::Filter => {
                if !matches!(lambda.data_type(), DataType::Boolean | DataType::Null) {
                    return plan_err!("the lambda of {} yields no boolean", self.name);
                }
                list
            }
            Kind::Reduce => lambda,
        };
        Ok(Arc::new(
            result.as_ref().clone().with_name("").with_nullable(true),
        ))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let [
            ValueOrLambda::Value(list),
            ValueOrLambda::Lambda(lambda),
            rest @ ..,
        ] = args.args.as_slice()
        else {
            return self.usage();
        };
        let lists = list.to_array(args.number_rows)?;
        let Some(lists) = lists.as_list_opt::<i32>() else {
            return exec_err!("{} runs over lists", self.name);
        };
        let elements = Elements::of(lists)?;
        let result = args.return_field.data_type();
        let made = match self.kind {
            Kind::Transform => transformed(lists, &elements, lambda, result)?,
            Kind::Filter => filtered(lists, &elements, lambda, result)?,
            Kind::Reduce => {
                let initial = match rest {
                    [ValueOrLambda::Value(initial)] => Some(initial.to_array(args.number_rows)?),
                    _ => None,
                };
                reduced(lists, initial, lambda, result)?
            }
        };
        Ok(ColumnarValue::Array(made))
    }
}

/// The elements of all lists that are not NULL, one list after the other.
struct Elements {
    values: ArrayRef,
    /// The list of each element.
    rows: UInt64Array,
    /// Each element's place in its list, from 1.
    places: ArrayRef,
    lengths: Vec<usize>,
}

impl Elements {
    fn of(lists: &ListArray) -> Result<Self> {
        let (mut from, mut rows, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut lengths = Vec::with_capacity(lists.len());
        for (row, bounds) in lists.offsets().windows(2).enumerate() {
            let length = match lists.is_valid(row) {
                true => (bounds[1] - bounds[0]) as u64,
                false => 0,
            };
            let start = bounds[0] as u64;
            from.extend(start..start + length);
            rows.extend(std::iter::repeat_n(row as u64, length as usize));
            places.extend(1..=length as i64);
            lengths.push(length as usize);
        }
        Ok(Elements {
            values: take(lists.values(), &UInt64Array::from(from), None)?,
            rows: rows.into(),
            places: Arc::new(Int64Array::from(places)),
            lengths,
        })
    }

    fn each(&self, lambda: &LambdaArgument) -> Result<ArrayRef> {
        if self.values.is_empty() {
            // Nothing to run it over.
            return Ok(new_empty_array(&DataType::Null));
        }
        let values = || Ok(Arc::clone(&self.values));
        let places = || Ok(Arc::clone(&self.places));
        lambda
            .evaluate(&[&values, &places], |captured| {
                Ok(take_arrays(captured, &self.rows, None)?)
            })?
            .into_array(self.values.len())
    }
}

fn listed(
    lists: &ListArray,
    values: ArrayRef,
    lengths: impl IntoIterator<Item = usize>,
    result: &DataType,
) -> Result<ArrayRef> {
    let Some(element) = element(result) else {
        return exec_err!("a list was planned");
    };
    let values = brought(&values, element.data_type())?;
    Ok(Arc::new(ListArray::try_new(
        Arc::clone(element),
        OffsetBuffer::from_lengths(lengths),
        values,
        lists.nulls().cloned(),
    )?))
}

fn brought(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if values.data_type() == to {
        return Ok(Arc::clone(values));
    }
    let exactly = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    Ok(cast_with_options(values, to, &exactly)?)
}

fn transformed(
    lists: &ListArray,
    elements: &Elements,
    lambda: &LambdaArgument,
    result: &DataType,
) -> Result<ArrayRef> {
    let values = elements.each(lambda)?;
    listed(lists, values, elements.lengths.iter().copied(), result)
}

fn filtered(
    lists: &ListArray,
    elements: &Elements,
    lambda: &LambdaArgument,
    result: &DataType,
) -> Result<ArrayRef> {
    let kept = brought(&elements.each(lambda)?, &DataType::Boolean)?;
    let kept = match kept.logical_null_count() {
        0 => kept.as_boolean().clone(),
        _ => prep_null_mask_filter(kept.as_boolean()),
    };
    let values = filter(&elements.values, &kept)?;
    let mut start = 0;
    let lengths = elements.lengths.iter().map(|length| {
        let of_list = kept.values().slice(start, *length);
        start += length;
        of_list.count_set_bits()
    });
    let lengths: Vec<usize> = lengths.collect();
    listed(lists, values, lengths, result)
}

fn reduced(
    lists: &ListArray,
    initial: Option<ArrayRef>,
    lambda: &LambdaArgument,
    result: &DataType,
) -> Result<ArrayRef> {
    let length = |row: usize| match lists.is_valid(row) {
        true => lists.value_length(row) as usize,
        false => 0,
    };
    let values = lists.values();
    let rows = lists.len();
    let begun = usize::from(initial.is_none());
    let mut so_far = match initial {
        Some(initial) => {
            // A list that is NULL has no result.
            let valid: UInt64Array = (0..rows as u64)
                .map(|row| lists.is_valid(row as usize).then_some(row))
                .collect();
            brought(&take(&initial, &valid, None)?, result)?
        }
        None => {
            if (0..rows).any(|row| lists.is_valid(row) && length(row) == 0) {
                return Err(Error::new(
                    SqlState::InvalidParameterValue,
                    "an empty list cannot be reduced without an initial value",
                )
                .into());
            }
            let first: UInt64Array = (0..rows)
                .map(|row| {
                    lists
                        .is_valid(row)
                        .then(|| lists.value_offsets()[row] as u64)
                })
                .collect();
            brought(&take(values, &first, None)?, result)?
        }
    };
    let longest = (0..rows).map(length).max().unwrap_or(0);
    for step in begun..longest {
        let at_work: Vec<u64> = (0..rows as u64)
            .filter(|row| length(*row as usize) > step)
            .collect();
        let from: UInt64Array = at_work
            .iter()
            .map(|row| Some(lists.value_offsets()[*row as usize] as u64 + step as u64))
            .collect();
        let rows_at_work = UInt64Array::from(at_work);
        let before = take(&so_far, &rows_at_work, None)?;
        let elements = take(values, &from, None)?;
        let place = step as i64 + 1;
        let places: ArrayRef = Arc::new(Int64Array::from(vec![place; rows_at_work.len()]));
        let reduced = lambda
            .evaluate(
                &[
                    &|| Ok(Arc::clone(&before)),
                    &|| Ok(Arc::clone(&elements)),
                    &|| Ok(Arc::clone(&places)),
                ],
                |captured| Ok(take_arrays(captured, &rows_at_work, None)?),
            )?
            .into_array(rows_at_work.len())?;
        let reduced = brought(&reduced, result)?;
        let mut sources: Vec<(usize, usize)> = (0..rows).map(|row| (0, row)).collect();
        for (place, row) in rows_at_work.values().iter().enumerate() {
            sources[*row as usize] = (1, place);
        }
        so_far = interleave(&[so_far.as_ref(), reduced.as_ref()], &sources)?;
    }
    match rows {
        0 => Ok(new_null_array(result, 0)),
        _ => Ok(so_far),
    }
}
