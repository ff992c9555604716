//! What the results of functions are more than their Arrow types say.
//!
//! DataFusion's functions over lists, structs and maps yield plain Arrow types: a list of JSON would be a list of texts. The
//! table of [`wanted`] says of which argument each part of a result is, and [`call`] and [`unnested`] put what that argument
//! says of it around the result as [`Refined`], which changes no value.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::{HigherOrderFunction, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Projection, RecursiveQuery, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Unnest, Volatility,
};

use crate::types::{Refinement, TYPE_KEY, flat, full};

/// A call whose field says what its arguments say of the values in it; `None` where there is nothing to add.
pub(super) fn call(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let name = function.func.name();
    if !is_known(name) {
        return Ok(None);
    }
    let mut fields = Vec::with_capacity(function.args.len());
    for arg in &function.args {
        fields.push(full(arg.to_field(schema)?.1.as_ref()));
    }
    if !fields.iter().any(says_more) {
        return Ok(None);
    }
    let Some(wanted) = wanted(name, &function.args, &fields) else {
        return Ok(None);
    };
    let call = Expr::ScalarFunction(function.clone());
    let (_, own) = call.to_field(schema)?;
    Ok(refined(&own, &wanted).map(|field| Refined::around(call, field)))
}

/// A call with a lambda, whose field says what its elements or the lambda's body say. DataFusion types a lambda's body without
/// its metadata.
pub(super) fn over_elements(
    function: &HigherOrderFunction,
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    let (Some(list), Some(Expr::Lambda(lambda))) = (function.args.first(), function.args.get(1))
    else {
        return Ok(None);
    };
    let body = || -> Result<Field> { Ok(full(lambda.body.to_field(schema)?.1.as_ref())) };
    let wanted = match function.func.name() {
        "array_transform" => list_of(&body()?),
        "list_reduce" => body()?,
        _ => full(list.to_field(schema)?.1.as_ref()),
    };
    if !says_more(&wanted) {
        return Ok(None);
    }
    let call = Expr::HigherOrderFunction(function.clone());
    let (_, own) = call.to_field(schema)?;
    Ok(refined(&own, &wanted).map(|field| Refined::around(call, field)))
}

/// The rows of an UNNEST, whose columns say what the lists and structs say of their values.
pub(super) fn unnested(unnest: Unnest) -> Result<LogicalPlan> {
    let given = unnest.input.schema();
    let mut changed = false;
    let mut members = std::collections::HashMap::new();
    let mut columns = Vec::with_capacity(unnest.schema.fields().len());
    for (place, (qualifier, own)) in unnest.schema.iter().enumerate() {
        let column = Expr::from((qualifier, own));
        let from = unnest.dependency_indices.get(place).copied();
        let source = from.map(|from| full(given.field(from)));
        let wanted = match (from, source) {
            (Some(from), Some(source)) if unnest.struct_type_columns.contains(&from) => {
                let next: &mut usize = members.entry(from).or_default();
                let member = match source.data_type() {
                    DataType::Struct(fields) => fields.get(*next).cloned(),
                    _ => None,
                };
                *next += 1;
                member.map(|member| member.as_ref().clone())
            }
            (Some(from), Some(source)) => {
                let (_, name) = (from, own.name());
                let depth = unnest
                    .list_type_columns
                    .iter()
                    .find(|(at, list)| *at == from && list.output_column.name() == name)
                    .map_or(0, |(_, list)| list.depth);
                (0..depth).try_fold(source, |field, _| element(&field))
            }
            _ => None,
        };
        let field = wanted.and_then(|wanted| refined(own, &wanted));
        columns.push(match field {
            Some(field) => {
                changed = true;
                Refined::around(column, field).alias_qualified(qualifier.cloned(), own.name())
            }
            None => column,
        });
    }
    let plan = LogicalPlan::Unnest(unnest);
    if !changed {
        return Ok(plan);
    }
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(plan),
    )?))
}

/// Whether it is a length or a number of digits.
pub(super) fn is_limit(refinement: &Refinement) -> bool {
    matches!(refinement, Refinement::Length(..) | Refinement::Digits(_))
}

/// A field without its length or number of digits.
pub(super) fn unlimited(field: &FieldRef) -> FieldRef {
    let mut metadata = field.metadata().clone();
    metadata.remove(TYPE_KEY);
    Arc::new(field.as_ref().clone().with_metadata(metadata))
}

/// A plan whose columns have no length or number of digits, where `free` says so.
pub(super) fn without_limits(plan: &Arc<LogicalPlan>, free: &[bool]) -> Result<Arc<LogicalPlan>> {
    let columns = plan
        .schema()
        .iter()
        .zip(free)
        .map(|((qualifier, own), free)| {
            let column = Expr::from((qualifier, own));
            match *free && is_limit(&Refinement::of(own)) {
                true => Refined::around(column, unlimited(own))
                    .alias_qualified(qualifier.cloned(), own.name()),
                false => column,
            }
        });
    let projection = Projection::try_new(columns.collect(), Arc::clone(plan))?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}

/// A recursive query whose terms say of their columns what it did when it was planned, as its steps read a table of those. Above
/// it the columns say what the first rows do.
pub(super) fn recursive(query: RecursiveQuery) -> Result<LogicalPlan> {
    let typed = Arc::clone(&query.schema);
    let limited = |field: &FieldRef| is_limit(&Refinement::of(field));
    let differ = |own: &FieldRef, typed: &FieldRef| {
        let concerned = own.data_type().is_nested() || limited(own) || limited(typed);
        concerned && own.metadata() != typed.metadata()
    };
    let adjusted = |term: &Arc<LogicalPlan>| -> Result<Arc<LogicalPlan>> {
        let mut changed = false;
        let columns = term.schema().iter().zip(typed.fields());
        let columns: Vec<Expr> = columns
            .map(|((qualifier, own), typed)| {
                let column = Expr::from((qualifier, own));
                if !differ(own, typed) {
                    return column;
                }
                changed = true;
                Refined::around(column, Arc::clone(typed))
                    .alias_qualified(qualifier.cloned(), own.name())
            })
            .collect();
        if !changed {
            return Ok(Arc::clone(term));
        }
        let plan = Projection::try_new(columns, Arc::clone(term))?;
        Ok(Arc::new(LogicalPlan::Projection(plan)))
    };
    let recursive = query.recursive_term.schema().fields();
    let said: Vec<FieldRef> = query
        .static_term
        .schema()
        .fields()
        .iter()
        .zip(recursive)
        .map(
            |(own, next)| match limited(own) && own.metadata() != next.metadata() {
                // What follows the first rows may be longer.
                true => unlimited(own),
                false => Arc::clone(own),
            },
        )
        .collect();
    let query = LogicalPlan::RecursiveQuery(RecursiveQuery {
        static_term: adjusted(&query.static_term)?,
        recursive_term: adjusted(&query.recursive_term)?,
        ..query
    });
    if !said
        .iter()
        .zip(typed.fields())
        .any(|(own, typed)| differ(own, typed))
    {
        return Ok(query);
    }
    let columns = typed
        .iter()
        .zip(&said)
        .map(|((qualifier, typed), own)| {
            let column = Expr::from((qualifier, typed));
            match differ(own, typed) {
                true => Refined::around(column, Arc::clone(own))
                    .alias_qualified(qualifier.cloned(), typed.name()),
                false => column,
            }
        })
        .collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(query),
    )?))
}

/// Whether a full field, or one within, is more than its Arrow type. What is a UUID shows without a word.
pub(super) fn says_more(field: &Field) -> bool {
    flat(field)
        .metadata()
        .keys()
        .any(|key| *field.data_type() != DataType::FixedSizeBinary(16) || !key.starts_with("ARROW"))
}

/// The functions of which [`wanted`] knows.
fn is_known(name: &str) -> bool {
    matches!(
        name,
        "map" | "flatten" | "concat" | "named_struct" | "struct" | "row" | "get_field"
    ) || ["array", "list_", "map_", "make_", "struct_", "element_"]
        .iter()
        .any(|known| name.starts_with(known))
}

/// A field of the result's shape that says what the arguments say of it.
fn wanted(name: &str, args: &[Expr], fields: &[Field]) -> Option<Field> {
    let first = fields.first()?;
    Some(match name {
        "array_distinct" | "array_sort" | "array_reverse" | "array_slice" | "array_pop_front"
        | "array_pop_back" | "array_remove" | "array_remove_n" | "array_remove_all"
        | "array_compact" | "array_resize" | "list_where" | "list_select" | "list_rotate" => {
            first.clone()
        }
        "array_concat" | "concat" | "array_union" | "array_intersect" | "array_except" => {
            merged(fields)?
        }
        "array_append" => merged(&[first.clone(), list_of(fields.get(1)?)])?,
        "array_prepend" => merged(&[list_of(first), fields.get(1)?.clone()])?,
        "array_replace" | "array_replace_n" | "array_replace_all" => {
            merged(&[first.clone(), list_of(fields.get(2)?)])?
        }
        "make_array" => list_of(&merged(fields)?),
        "array_repeat" => list_of(first),
        "array_element" | "array_min" | "array_max" | "array_any_value" | "array_first"
        | "array_last" | "list_mode" | "list_quantile_disc" | "list_first" | "list_last"
        | "list_min" | "list_max" | "list_any_value" | "flatten" => element(first)?,
        "map" => map_of(&element(first)?, &element(fields.get(1)?)?),
        "map_from_entries" => match element(first)?.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => map_of(&pair[0], &pair[1]),
            _ => return None,
        },
        "list_histogram" => map_of(&element(first)?, &Field::new("", DataType::Null, true)),
        "map_keys" => list_of(&entry(first)?.0),
        "map_values" | "map_extract" => list_of(&entry(first)?.1),
        "map_entries" => {
            let (key, value) = entry(first)?;
            list_of(&struct_of([&key, &value]))
        }
        "named_struct" => struct_of(fields.iter().skip(1).step_by(2)),
        "struct" | "row" => struct_of(fields),
        "get_field" => args
            .get(1..)?
            .iter()
            .try_fold(first.clone(), |field, key| member(&field, key))?,
        "arrays_zip" => {
            let items = fields.iter().map(element).collect::<Option<Vec<_>>>()?;
            list_of(&struct_of(&items))
        }
        _ => return None,
    })
}

fn list_of(item: &Field) -> Field {
    Field::new_list(
        "",
        item.clone().with_name(Field::LIST_FIELD_DEFAULT_NAME),
        true,
    )
}

fn struct_of<'a>(members: impl IntoIterator<Item = &'a Field>) -> Field {
    let members: Fields = members.into_iter().cloned().collect();
    Field::new("", DataType::Struct(members), true)
}

fn map_of(key: &Field, value: &Field) -> Field {
    let pair = struct_of([key, value]).with_name("entries");
    Field::new("", DataType::Map(Arc::new(pair), false), true)
}

fn element(list: &Field) -> Option<Field> {
    match list.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.as_ref().clone())
        }
        _ => None,
    }
}

/// The fields of a map's keys and values.
fn entry(map: &Field) -> Option<(Field, Field)> {
    let DataType::Map(entries, _) = map.data_type() else {
        return None;
    };
    match entries.data_type() {
        DataType::Struct(pair) if pair.len() == 2 => {
            Some((pair[0].as_ref().clone(), pair[1].as_ref().clone()))
        }
        _ => None,
    }
}

/// The member of a struct of a name, or the value of a map.
fn member(field: &Field, key: &Expr) -> Option<Field> {
    let DataType::Struct(fields) = field.data_type() else {
        return Some(entry(field)?.1);
    };
    let Expr::Literal(value, _) = key else {
        return None;
    };
    let found = match value {
        ScalarValue::Int64(Some(place)) => {
            fields.get(usize::try_from(*place).ok()?.checked_sub(1)?)
        }
        other => {
            let name = other.try_as_str().flatten()?;
            fields.iter().find(|field| field.name() == name)
        }
    };
    found.map(|field| field.as_ref().clone())
}

/// What several fields, NULLs aside, say in common.
pub(super) fn merged(fields: &[Field]) -> Option<Field> {
    let mut known = fields.iter().filter(|field| !is_nothing(field));
    let first = known.next().or(fields.first())?.clone();
    Some(known.fold(first, |common, other| both(&common, other)))
}

/// NULL, or a list of nothing but NULL.
fn is_nothing(field: &Field) -> bool {
    match field.data_type() {
        DataType::Null => true,
        DataType::List(item) => is_nothing(item),
        _ => false,
    }
}

fn both(one: &Field, other: &Field) -> Field {
    let within = zipped(one.data_type(), other.data_type(), &both);
    let (data_type, same) = match within {
        Some(data_type) => (data_type, true),
        None => (
            one.data_type().clone(),
            alike(one.data_type(), other.data_type()),
        ),
    };
    let metadata = match same && one.metadata() == other.metadata() {
        true => one.metadata().clone(),
        false => Default::default(),
    };
    one.clone()
        .with_data_type(data_type)
        .with_metadata(metadata)
}

/// The field `own` with what `wanted` says of it, flat; `None` where it says so already.
pub(super) fn refined(own: &Field, wanted: &Field) -> Option<FieldRef> {
    let field = flat(&overlaid(&full(own), wanted));
    (field.metadata() != flat(&full(own)).metadata()).then(|| Arc::new(field))
}

fn overlaid(own: &Field, wanted: &Field) -> Field {
    let within = zipped(own.data_type(), wanted.data_type(), &overlaid);
    let fits = within.is_some() || alike(own.data_type(), wanted.data_type());
    let mut metadata = own.metadata().clone();
    if fits && metadata.is_empty() {
        metadata.clone_from(wanted.metadata());
    }
    let data_type = within.unwrap_or_else(|| own.data_type().clone());
    own.clone()
        .with_data_type(data_type)
        .with_metadata(metadata)
}

/// Whether values of two types that are not nested are the same ones.
fn alike(one: &DataType, other: &DataType) -> bool {
    one == other || one.is_string() && other.is_string()
}

/// A type of the first one's shape whose fields are made of those of both; `None` for what is not nested, or of other shapes.
fn zipped(
    one: &DataType,
    other: &DataType,
    make: &dyn Fn(&Field, &Field) -> Field,
) -> Option<DataType> {
    let made = |one: &FieldRef, other: &FieldRef| Arc::new(make(one, other));
    Some(match (one, other) {
        (
            DataType::List(one),
            DataType::List(other) | DataType::LargeList(other) | DataType::FixedSizeList(other, _),
        ) => DataType::List(made(one, other)),
        (DataType::LargeList(one), DataType::List(other) | DataType::LargeList(other)) => {
            DataType::LargeList(made(one, other))
        }
        (
            DataType::FixedSizeList(one, length),
            DataType::List(other) | DataType::FixedSizeList(other, _),
        ) => DataType::FixedSizeList(made(one, other), *length),
        (DataType::Map(one, sorted), DataType::Map(other, _)) => {
            DataType::Map(made(one, other), *sorted)
        }
        (DataType::Struct(one), DataType::Struct(other)) if one.len() == other.len() => {
            let members = one.iter().zip(other).map(|(one, other)| made(one, other));
            DataType::Struct(members.collect())
        }
        _ => return None,
    })
}

/// A value whose field says more of it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Refined {
    field: FieldRef,
    signature: Signature,
}

impl Refined {
    /// The values of `expr` under the metadata of `field`.
    pub(super) fn around(expr: Expr, field: FieldRef) -> Expr {
        let function = Refined {
            field,
            signature: Signature::any(1, Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(function).call(vec![expr])
    }
}

impl ScalarUDFImpl for Refined {
    fn name(&self) -> &str {
        "refined"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [own] => Ok(own.clone()),
            _ => exec_err!("a refined value is one"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [own] = args.arg_fields else {
            return exec_err!("a refined value is one");
        };
        let field = own.as_ref().clone();
        Ok(Arc::new(field.with_metadata(self.field.metadata().clone())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match <[ColumnarValue; 1]>::try_from(args.args) {
            Ok([value]) => Ok(value),
            Err(_) => exec_err!("a refined value is one"),
        }
    }
}
