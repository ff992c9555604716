//! Aggregates that need all values of a group at once: MODE, QUANTILE_DISC, QUANTILE_CONT, PRODUCT, SKEWNESS, KURTOSIS, ENTROPY, MAD.

use std::collections::HashMap;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, concat, filter, is_not_null, sort_to_indices};
use arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, Int64Type, IntervalMonthDayNano, IntervalUnit, TimeUnit,
};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

use super::frames::Frame;
use super::one_nan;
use crate::expr::convert::type_name;
use crate::expr::places::Enums;
use crate::parse::QUANTILE_FROM_TOP;
use crate::types::canonical;
use crate::{Error, SqlState};

/// The aggregates of this module.
pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    [
        (Kind::Mode, "mode", &[][..]),
        (Kind::Quantile, "quantile_disc", &["quantile"][..]),
        (Kind::QuantileFromTop, QUANTILE_FROM_TOP, &[]),
        (Kind::Percentile, "quantile_cont", &["percentile_cont"]),
        (Kind::Product, "product", &[]),
        (Kind::Skewness, "skewness", &[]),
        (Kind::Kurtosis, "kurtosis", &[]),
        (Kind::KurtosisOfPopulation, "kurtosis_pop", &[]),
        (Kind::Entropy, "entropy", &[]),
        (Kind::Deviation, "mad", &[]),
    ]
    .into_iter()
    .map(|(kind, name, aliases)| Arc::new(gathering(kind, name, aliases)))
    .collect()
}

fn gathering(kind: Kind, name: &'static str, aliases: &[&str]) -> AggregateUDF {
    AggregateUDF::new_from_impl(Gathering {
        kind,
        name,
        aliases: aliases.iter().map(ToString::to_string).collect(),
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

/// The aggregate whose state [`middle`] has.
pub(super) fn percentile_function() -> AggregateUDF {
    gathering(Kind::Percentile, "quantile_cont", &[])
}

/// What gathers moments or texts for the one in their middle.
pub(super) fn middle(args: &AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
    let [field, ..] = args.expr_fields else {
        return exec_err!("median takes an argument");
    };
    if args.is_distinct {
        return Err(Error::unsupported("median(DISTINCT …) of moments is not supported").into());
    }
    let of_texts = field.data_type().is_string();
    Ok(Box::new(Gathered {
        kind: match of_texts {
            true => Kind::Quantile,
            false => Kind::Percentile,
        },
        data_type: field.data_type().clone(),
        values: Vec::new(),
        fraction: Some(0.5),
        enums: Enums::of(field),
    }))
}

/// 42883: no aggregate of this name takes these types.
pub(super) fn undefined(name: &str, types: &[DataType]) -> Error {
    let types: Vec<String> = types.iter().map(type_name).collect();
    Error::new(
        SqlState::UndefinedFunction,
        format!("function {name}({}) does not exist", types.join(", ")),
    )
    .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// The value that comes most often; of several the one that came first.
    Mode,
    /// The value at a fraction of the sorted values.
    Quantile,
    /// The same of the values sorted the other way round.
    QuantileFromTop,
    /// The same as a double, between two values where it falls between them.
    Percentile,
    Product,
    Skewness,
    Kurtosis,
    KurtosisOfPopulation,
    /// The entropy of the values' frequencies in bits.
    Entropy,
    /// The median of the distances from the median.
    Deviation,
}

impl Kind {
    fn keeps_type(self) -> bool {
        matches!(self, Kind::Mode | Kind::Quantile | Kind::QuantileFromTop)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Gathering {
    kind: Kind,
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

impl AggregateUDFImpl for Gathering {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let double = |data_type: &DataType| data_type.is_numeric() || *data_type == DataType::Null;
        Ok(match (self.kind, types) {
            (Kind::Mode | Kind::Entropy, [value]) => vec![value.clone()],
            (Kind::Percentile, [value, fraction]) if double(value) && double(fraction) => {
                vec![DataType::Float64, DataType::Float64]
            }
            (Kind::Percentile, [value, fraction])
                if double(fraction)
                    && let Some(moment) = as_moment(value) =>
            {
                vec![moment, DataType::Float64]
            }
            (Kind::Deviation, [value]) if let Some(moment) = as_moment(value) => vec![moment],
            (Kind::Quantile | Kind::QuantileFromTop, [value, fraction]) if double(fraction) => {
                vec![value.clone(), DataType::Float64]
            }
            (
                Kind::Product
                | Kind::Skewness
                | Kind::Kurtosis
                | Kind::KurtosisOfPopulation
                | Kind::Deviation,
                [value],
            ) if double(value) => vec![DataType::Float64],
            _ => return Err(undefined(self.name, types).into()),
        })
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(value) if self.kind.keeps_type() => Ok(value.clone()),
            Some(DataType::Timestamp(_, _)) if self.kind == Kind::Deviation => {
                Ok(DataType::Interval(IntervalUnit::MonthDayNano))
            }
            Some(moment @ DataType::Timestamp(_, _)) => Ok(moment.clone()),
            _ => Ok(DataType::Float64),
        }
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        let field = Field::new(self.name, self.return_type(&types)?, true);
        Ok(Arc::new(match fields.first() {
            Some(value) if self.kind.keeps_type() => field.with_metadata(value.metadata().clone()),
            _ => field,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let Some(input) = args.input_fields.first() else {
            return exec_err!("{} takes an argument", self.name);
        };
        let item = Field::new_list_field(input.data_type().clone(), true);
        Ok(vec![
            Arc::new(Field::new_list(
                format_state_name(args.name, "values"),
                item,
                true,
            )),
            Arc::new(Field::new(
                format_state_name(args.name, "fraction"),
                DataType::Float64,
                true,
            )),
        ])
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let function = AggregateUDF::new_from_impl(self.clone());
        Ok(Box::new(Frame::new(&function, &args)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let [field, ..] = args.expr_fields else {
            return exec_err!("{} takes an argument", self.name);
        };
        if args.is_distinct && self.kind != Kind::Mode {
            return Err(
                Error::unsupported(format!("{}(DISTINCT …) is not supported", self.name)).into(),
            );
        }
        let gathered = Box::new(Gathered {
            kind: self.kind,
            data_type: field.data_type().clone(),
            values: Vec::new(),
            fraction: None,
            enums: Enums::of(field),
        });
        Ok(one_nan::accumulator(gathered, &args.return_field))
    }
}

/// The values of one group, NULLs left out.
#[derive(Debug)]
struct Gathered {
    kind: Kind,
    data_type: DataType,
    values: Vec<ArrayRef>,
    fraction: Option<f64>,
    /// Where the values have labels, whose order is theirs.
    enums: Option<Enums>,
}

impl Gathered {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let values = match values.logical_null_count() {
            0 => Arc::clone(values),
            _ => filter(values, &is_not_null(values)?)?,
        };
        if !values.is_empty() {
            self.values.push(values);
        }
        Ok(())
    }

    fn all(&self) -> Result<ArrayRef> {
        if self.values.is_empty() {
            return Ok(new_empty_array(&self.data_type));
        }
        let arrays: Vec<&dyn Array> = self.values.iter().map(AsRef::as_ref).collect();
        Ok(concat(&arrays)?)
    }
}

impl Accumulator for Gathered {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if let [_, fractions] = values
            && self.fraction.is_none()
            && !fractions.is_empty()
        {
            let fractions = fractions.as_primitive::<Float64Type>();
            self.fraction = fractions.is_valid(0).then(|| fractions.value(0));
        }
        match values.first() {
            Some(values) => self.add(values),
            None => Ok(()),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, fractions] = states else {
            return exec_err!("a gathered state has two columns");
        };
        let fractions = fractions.as_primitive::<Float64Type>();
        for row in fractions.iter().flatten() {
            self.fraction.get_or_insert(row);
        }
        for values in values.as_list::<i32>().iter().flatten() {
            self.add(&values)?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.all()?;
        let field = Arc::new(Field::new_list_field(self.data_type.clone(), true));
        let list = ListArray::new(
            field,
            OffsetBuffer::from_lengths([values.len()]),
            values,
            None,
        );
        Ok(vec![
            ScalarValue::List(Arc::new(list)),
            ScalarValue::Float64(self.fraction),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = self.all()?;
        if values.is_empty() {
            return match self.kind {
                Kind::Entropy => Ok(ScalarValue::Float64(Some(0.0))),
                Kind::Deviation if self.data_type.is_temporal() => {
                    Ok(ScalarValue::IntervalMonthDayNano(None))
                }
                kind if kind.keeps_type() || self.data_type.is_temporal() => {
                    ScalarValue::try_from(&self.data_type)
                }
                _ => Ok(ScalarValue::Float64(None)),
            };
        }
        match self.kind {
            Kind::Mode => {
                let mut most = (0, 0);
                for (count, first) in frequencies(&values)? {
                    if count > most.0 || count == most.0 && first < most.1 {
                        most = (count, first);
                    }
                }
                ScalarValue::try_from_array(&values, most.1)
            }
            Kind::Quantile | Kind::QuantileFromTop => {
                let keys = match &self.enums {
                    Some(enums) => enums.places(&values)?,
                    None => Arc::clone(&values),
                };
                let from_top = self.kind == Kind::QuantileFromTop;
                quantile(&values, &keys, self.fraction, from_top)
            }
            Kind::Percentile if self.data_type.is_temporal() => between(&values, self.fraction),
            Kind::Percentile => percentile(&values, self.fraction),
            Kind::Deviation if self.data_type.is_temporal() => deviation_of_moments(&values),
            Kind::Deviation => {
                let doubles = values.as_primitive::<Float64Type>().values();
                Ok(ScalarValue::Float64(Some(deviation(doubles))))
            }
            Kind::Entropy => {
                let all = values.len() as f64;
                let bits = |(count, _): (usize, usize)| {
                    let share = count as f64 / all;
                    -share * share.log2()
                };
                // From 0.0: a sum of doubles begins at -0.0, which shows where all values are one.
                let shares = frequencies(&values)?.into_iter().map(bits);
                let entropy = shares.fold(0.0, |sum, bits| sum + bits);
                Ok(ScalarValue::Float64(Some(entropy)))
            }
            kind => {
                let doubles = cast(&values, &DataType::Float64)?;
                let doubles = doubles.as_primitive::<Float64Type>().values();
                Ok(ScalarValue::Float64(moment(kind, doubles)))
            }
        }
    }

    fn size(&self) -> usize {
        let values: usize = self
            .values
            .iter()
            .map(|values| values.get_array_memory_size())
            .sum();
        size_of_val(self) + values
    }
}

/// How often each value comes, and where it came first.
fn frequencies(values: &ArrayRef) -> Result<Vec<(usize, usize)>> {
    let values = canonical(values)?;
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    let rows = converter.convert_columns(&[values])?;
    let mut counts: HashMap<&[u8], (usize, usize), ahash::RandomState> = HashMap::default();
    for (place, row) in rows.iter().enumerate() {
        counts.entry(row.data()).or_insert((0, place)).0 += 1;
    }
    Ok(counts.into_values().collect())
}

fn check_fraction(fraction: f64) -> Result<()> {
    if (0.0..=1.0).contains(&fraction) {
        return Ok(());
    }
    Err(Error::new(
        SqlState::NumericValueOutOfRange,
        format!("percentile value {fraction} is not between 0 and 1"),
    )
    .into())
}

fn percentile(values: &ArrayRef, fraction: Option<f64>) -> Result<ScalarValue> {
    let Some(fraction) = fraction else {
        return Ok(ScalarValue::Float64(None));
    };
    check_fraction(fraction)?;
    let mut sorted = values.as_primitive::<Float64Type>().values().to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = fraction * (sorted.len() - 1) as f64;
    let (low, high) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    // Equal values stay what they are, infinite ones too.
    let value = match low == high {
        true => low,
        false => low + (high - low) * place.fract(),
    };
    Ok(ScalarValue::Float64(Some(value)))
}

/// The value in the middle of at least one, between two where their number is even.
fn middle_of(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        0 => values[half - 1].midpoint(values[half]),
        _ => values[half],
    }
}

fn deviation(values: &[f64]) -> f64 {
    let middle = middle_of(values.to_vec());
    middle_of(values.iter().map(|value| (value - middle).abs()).collect())
}

/// The same of moments, as days and a time.
fn deviation_of_moments(values: &ArrayRef) -> Result<ScalarValue> {
    let micros = |moments: &dyn Array| -> Result<Vec<i64>> {
        let moments = cast(moments, &DataType::Int64)?;
        Ok(moments.as_primitive::<Int64Type>().values().to_vec())
    };
    let ScalarValue::Int64(Some(middle)) = between(values, Some(0.5))?.cast_to(&DataType::Int64)?
    else {
        return exec_err!("moments have no middle");
    };
    let distances = micros(values)?.into_iter().map(|moment| {
        i64::try_from(moment.abs_diff(middle)).map_err(|_| {
            Error::new(SqlState::DatetimeFieldOverflow, "interval out of range").into()
        })
    });
    let distances: ArrayRef = Arc::new(Int64Array::from(distances.collect::<Result<Vec<_>>>()?));
    let ScalarValue::Int64(Some(distance)) = between(&distances, Some(0.5))? else {
        return exec_err!("moments have no middle");
    };
    let day = crate::expr::convert::MICROS_PER_DAY;
    // A distance of 64 bits is fewer than 2^27 days.
    let days = i32::try_from(distance / day).unwrap_or(i32::MAX);
    Ok(ScalarValue::IntervalMonthDayNano(Some(
        IntervalMonthDayNano::new(0, days, distance % day * 1_000),
    )))
}

/// The moment at a fraction of the sorted ones, to the microsecond.
fn between(values: &ArrayRef, fraction: Option<f64>) -> Result<ScalarValue> {
    let Some(fraction) = fraction else {
        return ScalarValue::try_from(values.data_type());
    };
    check_fraction(fraction)?;
    let moments = cast(values, &DataType::Int64)?;
    let mut sorted = moments.as_primitive::<Int64Type>().values().to_vec();
    sorted.sort_unstable();
    let place = fraction * (sorted.len() - 1) as f64;
    let (low, high) = (
        i128::from(sorted[place.floor() as usize]),
        i128::from(sorted[place.ceil() as usize]),
    );
    // Between two values of 64 bits.
    let moment = low + ((high - low) as f64 * place.fract()).round() as i128;
    let moment = Int64Array::from(vec![i64::try_from(moment).ok()]);
    let moment = cast(&moment, values.data_type())?;
    ScalarValue::try_from_array(&moment, 0)
}

fn quantile(
    values: &ArrayRef,
    keys: &ArrayRef,
    fraction: Option<f64>,
    from_top: bool,
) -> Result<ScalarValue> {
    let Some(fraction) = fraction else {
        return ScalarValue::try_from(values.data_type());
    };
    check_fraction(fraction)?;
    let order = ordered(keys)?;
    let place = (fraction * values.len() as f64).ceil().max(1.0) as usize - 1;
    let place = place.min(values.len() - 1);
    let place = if from_top {
        values.len() - 1 - place
    } else {
        place
    };
    let place = order[place];
    ScalarValue::try_from_array(values, place)
}

/// The places of the values, in their order.
fn ordered(values: &ArrayRef) -> Result<Vec<usize>> {
    if !values.data_type().is_nested() {
        let order = sort_to_indices(values, None, None)?;
        return Ok(order.values().iter().map(|place| *place as usize).collect());
    }
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(values))?;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| rows.row(*one).cmp(&rows.row(*other)));
    Ok(order)
}

fn moment(kind: Kind, values: &[f64]) -> Option<f64> {
    if kind == Kind::Product {
        return Some(values.iter().product());
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let central = |power| values.iter().map(|x| (x - mean).powi(power)).sum::<f64>() / n;
    let variance = central(2);
    match kind {
        Kind::Skewness if values.len() > 2 => {
            Some((n * (n - 1.0)).sqrt() / (n - 2.0) * central(3) / variance.powf(1.5))
        }
        Kind::Kurtosis if values.len() > 3 && variance > 0.0 => {
            let excess = (n + 1.0) * central(4) / (variance * variance) - 3.0 * (n - 1.0);
            Some((n - 1.0) * excess / ((n - 2.0) * (n - 3.0)))
        }
        Kind::KurtosisOfPopulation if variance > 0.0 => {
            Some(central(4) / (variance * variance) - 3.0)
        }
        _ => None,
    }
}

/// The moments that a date or timestamp stands for.
pub(super) fn as_moment(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Date32 => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
        DataType::Timestamp(_, zone) => {
            Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        _ => None,
    }
}
