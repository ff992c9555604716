//! Aggregates over window frames that leave rows out: `EXCLUDE CURRENT ROW`, `GROUP`, `TIES`.
//!
//! DataFusion knows no such frames. Here an aggregate becomes a window function, which is given each row's frame and knows the row
//! by counting; what is left of the frame is up to three ranges of rows, aggregated anew. Where taking rows out of a state is
//! exact, the frame's state moves along with the frame instead, and only the rows left out are taken from it and put back.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::{filter, partition};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{
    AccumulatorArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

use crate::parse::EXCLUDING;

/// The window function of such a name, if it is one; `aggregate` finds aggregates.
pub(crate) fn function(
    name: &str,
    aggregate: impl Fn(&str) -> Option<Arc<AggregateUDF>>,
) -> Option<Arc<WindowUDF>> {
    let mut words = name.strip_prefix(EXCLUDING)?.trim_start().splitn(4, ' ');
    let excluded = match words.next()? {
        "row" => Excluded::Row,
        "group" => Excluded::Group,
        _ => Excluded::Ties,
    };
    let distinct = words.next()? == "distinct";
    let filtered = words.next()? == "filtered";
    Some(Arc::new(WindowUDF::new_from_impl(Excluding {
        name: name.to_owned(),
        aggregate: aggregate(words.next()?)?,
        excluded,
        distinct,
        filtered,
        signature: Signature::user_defined(Volatility::Immutable),
    })))
}

/// What is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Excluded {
    Row,
    Group,
    Ties,
}

#[derive(Debug)]
struct Excluding {
    name: String,
    aggregate: Arc<AggregateUDF>,
    excluded: Excluded,
    distinct: bool,
    /// Whether the last argument is a condition.
    filtered: bool,
    signature: Signature,
}

impl PartialEq for Excluding {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Excluding {}

impl Hash for Excluding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Excluding {
    /// How many of the arguments are the aggregate's.
    fn own(&self, arguments: usize) -> usize {
        arguments - usize::from(self.filtered && arguments > 0)
    }
}

impl WindowUDFImpl for Excluding {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let own = self.own(types.len());
        let fields: Vec<FieldRef> = types[..own]
            .iter()
            .map(|data_type| Arc::new(Field::new("", data_type.clone(), true)))
            .collect();
        let mut coerced: Vec<DataType> = fields_with_udf(&fields, self.aggregate.as_ref())?
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        coerced.extend(types[own..].iter().map(|_| DataType::Boolean));
        Ok(coerced)
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let own = self.own(args.input_fields().len());
        let fields = args.input_fields()[..own].to_vec();
        let moves = matches!(self.aggregate.name(), "sum" | "avg" | "count")
            && !self.distinct
            && fields.iter().all(|field| !field.data_type().is_floating());
        Ok(Box::new(Partition {
            return_field: self.aggregate.return_field(&fields)?,
            schema: Schema::new(fields.clone()),
            fields,
            exprs: args.input_exprs()[..own].to_vec(),
            arguments: args.input_fields().len(),
            aggregate: Arc::clone(&self.aggregate),
            excluded: self.excluded,
            distinct: self.distinct,
            filtered: self.filtered,
            ignore_nulls: args.ignore_nulls(),
            row: 0,
            groups: None,
            moving: None,
            moves,
        }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let own = self.own(args.input_fields().len());
        let result = self.aggregate.return_field(&args.input_fields()[..own])?;
        Ok(Arc::new(
            result
                .as_ref()
                .clone()
                .with_name(args.name())
                .with_nullable(true),
        ))
    }
}

/// The state of one partition.
#[derive(Debug)]
struct Partition {
    aggregate: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    fields: Vec<FieldRef>,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// Arguments, a condition among them; behind them come the keys of ORDER BY.
    arguments: usize,
    excluded: Excluded,
    distinct: bool,
    filtered: bool,
    ignore_nulls: bool,
    /// The row whose frame comes next.
    row: usize,
    /// The peers of each row, once they are known.
    groups: Option<Vec<Range<usize>>>,
    /// A state over the frame of the row before.
    moving: Option<(Box<dyn Accumulator>, Range<usize>)>,
    moves: bool,
}

impl Partition {
    fn accumulator(&self, moving: bool) -> Result<Box<dyn Accumulator>> {
        let args = AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &[],
            is_reversed: false,
            name: self.aggregate.name(),
            is_distinct: self.distinct,
            exprs: &self.exprs,
            expr_fields: &self.fields,
        };
        match moving {
            true => self.aggregate.create_sliding_accumulator(args),
            false => self.aggregate.accumulator(args),
        }
    }

    /// The aggregate's arguments of some rows; only those that fulfil the condition.
    fn part(&self, values: &[ArrayRef], rows: Range<usize>) -> Result<Vec<ArrayRef>> {
        let own = self.arguments - usize::from(self.filtered);
        let slice = |array: &ArrayRef| array.slice(rows.start, rows.len());
        if !self.filtered {
            return Ok(values[..own].iter().map(slice).collect());
        }
        let condition = slice(&values[own]);
        let condition: &BooleanArray = condition.as_boolean();
        values[..own]
            .iter()
            .map(|array| Ok(filter(&slice(array), condition)?))
            .collect()
    }

    /// The rows that a row's exclusion concerns: its own, or those of its peers. Without ORDER BY all rows are peers.
    fn peers(&mut self, values: &[ArrayRef], row: usize) -> Result<Range<usize>> {
        let keys = &values[self.arguments..];
        let rows = values.first().map_or(0, |values| values.len());
        if self.excluded == Excluded::Row {
            return Ok(row..row + 1);
        }
        if keys.is_empty() {
            return Ok(0..rows);
        }
        if self.groups.is_none() {
            self.groups = Some(partition(keys)?.ranges());
        }
        let groups = self.groups.as_deref().unwrap_or_default();
        let place = groups.partition_point(|group| group.end <= row);
        Ok(groups.get(place).cloned().unwrap_or(row..row + 1))
    }

    /// The state over a frame, from that over the frame of the row before.
    fn moved(&mut self, values: &[ArrayRef], frame: &Range<usize>) -> Result<Box<dyn Accumulator>> {
        let (mut state, before) = match self.moving.take() {
            Some((state, before)) if before.start <= frame.start && before.end <= frame.end => {
                (state, before)
            }
            _ => (self.accumulator(true)?, frame.start..frame.start),
        };
        let left = before.start..frame.start.min(before.end);
        if !left.is_empty() {
            state.retract_batch(&self.part(values, left)?)?;
        }
        let entered = before.end.max(frame.start)..frame.end;
        if !entered.is_empty() {
            state.update_batch(&self.part(values, entered)?)?;
        }
        Ok(state)
    }
}

/// What two ranges share.
fn shared(left: &Range<usize>, right: &Range<usize>) -> Range<usize> {
    let start = left.start.max(right.start);
    start..left.end.min(right.end).max(start)
}

impl PartitionEvaluator for Partition {
    fn uses_window_frame(&self) -> bool {
        true
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        if values.len() < self.arguments {
            return exec_err!("{} has {} arguments", self.aggregate.name(), self.arguments);
        }
        let row = self.row;
        self.row += 1;
        let peers = self.peers(values, row)?;
        let own = match self.excluded {
            Excluded::Ties => shared(range, &(row..row + 1)),
            _ => row..row,
        };
        let out = shared(range, &peers);
        if self.moves {
            let mut state = self.moved(values, range)?;
            let parts = [
                out.start..own.start.clamp(out.start, out.end),
                own.end.clamp(out.start, out.end)..out.end,
            ];
            let parts = match own.is_empty() {
                true => vec![out],
                false => parts.to_vec(),
            };
            for part in &parts {
                if !part.is_empty() {
                    state.retract_batch(&self.part(values, part.clone())?)?;
                }
            }
            let value = state.evaluate()?;
            for part in &parts {
                if !part.is_empty() {
                    state.update_batch(&self.part(values, part.clone())?)?;
                }
            }
            self.moving = Some((state, range.clone()));
            return Ok(value);
        }
        let mut state = self.accumulator(false)?;
        let kept = match out.is_empty() {
            true => vec![range.clone()],
            false => vec![range.start..out.start, own, out.end..range.end],
        };
        for part in kept {
            if !part.is_empty() {
                state.update_batch(&self.part(values, part)?)?;
            }
        }
        state.evaluate()
    }
}
