//! String constants take the type of what they meet: `coalesce(day, '2020-01-01')`, `[day, '2020-01-01']`,
//! `list_contains(days, '2020-01-01')`, `CASE … THEN '1 day' ELSE pause END`.
//!
//! DataFusion refuses such calls when it plans SQL text, by the types of their arguments alone. So those functions are registered as
//! [`Untyped`], which take any arguments and know the type of their result; `super::semantics` puts the function itself
//! in the call's place, with the constants cast.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

use super::cast::Cast;
use super::convert::Rule;
use crate::types::{flat, full};
use crate::{Error, SqlState};

/// A function in its place among those registered, if strings may take other types in its calls.
pub(super) fn registered(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    let meeting = match function.name() {
        "coalesce" | "make_array" => Meeting::All,
        "array_has" | "array_append" | "array_position" | "array_positions" | "array_remove"
        | "array_remove_all" => Meeting::Members { list: 0, value: 1 },
        "array_prepend" => Meeting::Members { list: 1, value: 0 },
        _ => return function,
    };
    let signature = Signature::variadic_any(function.signature().volatility);
    Arc::new(ScalarUDF::new_from_impl(Untyped {
        aliases: function.aliases().to_vec(),
        inner: function,
        meeting,
        signature,
    }))
}

/// A call of a function that is registered as [`Untyped`], as a call of itself.
pub(super) fn typed_call(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let Some(untyped) = function.func.inner().downcast_ref::<Untyped>() else {
        return Ok(None);
    };
    let args: Vec<&Expr> = function.args.iter().collect();
    let fields = fields_of(&args, schema)?;
    let constants: Vec<bool> = args.iter().map(|arg| is_string_constant(arg)).collect();
    let args = match untyped.meeting.typed(&fields, &constants) {
        Some(wanted) => cast(&args, &fields, &wanted)?,
        None => function.args.clone(),
    };
    let call = ScalarFunction::new_udf(Arc::clone(&untyped.inner), args);
    Ok(Some(Expr::ScalarFunction(call)))
}

/// Values of one result, the string constants among them in the type of the others; `None` where they stay as they are.
pub(super) fn meeting(values: &[&Expr], schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    let constants: Vec<bool> = values
        .iter()
        .map(|value| is_string_constant(value))
        .collect();
    if !constants.contains(&true) {
        return Ok(None);
    }
    let fields = fields_of(values, schema)?;
    match Meeting::All.typed(&fields, &constants) {
        Some(wanted) => cast(values, &fields, &wanted).map(Some),
        None => Ok(None),
    }
}

/// [`meeting`], where each of the constants is of the others' type.
pub(super) fn meeting_exactly(values: &[&Expr], schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    let typed = meeting(values, schema)?;
    Ok(typed.filter(|typed| {
        let mut pairs = values.iter().zip(typed);
        pairs.all(|(value, typed)| *value == typed || matches!(typed, Expr::Literal(_, _)))
    }))
}

fn fields_of(values: &[&Expr], schema: &DFSchema) -> Result<Vec<FieldRef>> {
    let fields = values.iter().map(|value| Ok(value.to_field(schema)?.1));
    fields.collect()
}

fn cast(values: &[&Expr], fields: &[FieldRef], wanted: &[FieldRef]) -> Result<Vec<Expr>> {
    let pairs = values.iter().zip(fields.iter().zip(wanted));
    pairs
        .map(|(value, (from, to))| match Arc::ptr_eq(from, to) {
            true => Ok((*value).clone()),
            false => Ok(Cast::call((*value).clone(), from, to, Rule::Explicit)?),
        })
        .collect()
}

fn is_string_constant(value: &Expr) -> bool {
    match value {
        Expr::Literal(value, None) => is_string(value),
        Expr::Alias(alias) => is_string_constant(&alias.expr),
        _ => false,
    }
}

fn is_string(value: &ScalarValue) -> bool {
    value.try_as_str().flatten().is_some()
}

/// Which arguments of a call are of one type.
#[derive(Debug, Clone, Copy)]
enum Meeting {
    All,
    /// A value and the members of a list, by their places among the arguments.
    Members {
        list: usize,
        value: usize,
    },
}

impl Meeting {
    /// The arguments' fields with the string constants among them in the others' type, if any is.
    fn typed(self, fields: &[FieldRef], constants: &[bool]) -> Option<Vec<FieldRef>> {
        let mut wanted = fields.to_vec();
        match self {
            Meeting::All => {
                let others = fields.iter().zip(constants);
                let others =
                    others.filter(|(field, constant)| !**constant && !field.data_type().is_null());
                let Some(target) = common(others.map(|(field, _)| field)) else {
                    return texts(fields);
                };
                let mut changed = false;
                for (field, _) in wanted.iter_mut().zip(constants).filter(|(_, is)| **is) {
                    *field = Arc::clone(&target);
                    changed = true;
                }
                changed.then_some(wanted)
            }
            Meeting::Members { list, value } => {
                let (DataType::List(member)
                | DataType::LargeList(member)
                | DataType::FixedSizeList(member, _)) = full(fields.get(list)?).data_type().clone()
                else {
                    return None;
                };
                if !*constants.get(value)? || takes_strings(member.data_type()) {
                    return None;
                }
                let member = member.as_ref().clone().with_nullable(true);
                *wanted.get_mut(value)? = Arc::new(flat(&member));
                Some(wanted)
            }
        }
    }
}

/// The type in which values meet that are no string constants, unless strings are among them.
fn common<'a>(fields: impl Iterator<Item = &'a FieldRef>) -> Option<FieldRef> {
    let fields: Vec<&FieldRef> = fields.collect();
    let first = *fields.first()?;
    if fields.iter().any(|field| takes_strings(field.data_type())) {
        return None;
    }
    let same = fields.iter().all(|field| {
        field.data_type() == first.data_type() && field.metadata() == first.metadata()
    });
    if same {
        return Some(Arc::new(first.as_ref().clone().with_nullable(true)));
    }
    let types: Vec<DataType> = fields
        .iter()
        .map(|field| field.data_type().clone())
        .collect();
    let common = type_union_resolution(&types)?;
    (!takes_strings(&common)).then(|| Arc::new(Field::new("", common, true)))
}

/// Strings beside values that they have no type in common with, like dates: all of them as strings.
fn texts(fields: &[FieldRef]) -> Option<Vec<FieldRef>> {
    let text = fields.iter().find(|field| field.data_type().is_string())?;
    let types: Vec<DataType> = fields
        .iter()
        .map(|field| field.data_type().clone())
        .collect();
    let numbers = types.iter().any(DataType::is_numeric);
    if types.iter().any(DataType::is_nested) || !numbers && type_union_resolution(&types).is_some()
    {
        return None;
    }
    let target = Arc::new(Field::new("", text.data_type().clone(), true));
    let wanted = fields.iter().map(|field| {
        let stays = takes_strings(field.data_type());
        Arc::clone(if stays { field } else { &target })
    });
    Some(wanted.collect())
}

/// Whether a string is a value of the type as it is, or the type is none that its text could be of.
fn takes_strings(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Null
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Dictionary(_, _)
    )
}

#[derive(Debug)]
struct Untyped {
    inner: Arc<ScalarUDF>,
    meeting: Meeting,
    aliases: Vec<String>,
    signature: Signature,
}

impl PartialEq for Untyped {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Untyped {}

impl Hash for Untyped {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl ScalarUDFImpl for Untyped {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        exec_err!("{} has a type by its arguments' fields", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let constants = args.scalar_arguments.iter();
        let constants: Vec<bool> = constants
            .map(|value| value.is_some_and(is_string))
            .collect();
        let typed = self.meeting.typed(args.arg_fields, &constants);
        let given = typed.as_deref().unwrap_or(args.arg_fields);
        let fields = fields_with_udf(given, self.inner.as_ref()).map_err(|_| {
            Error::new(
                SqlState::UndefinedFunction,
                format!("function {} of these arguments does not exist", self.name()),
            )
            .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
        })?;
        self.inner.return_field_from_args(ReturnFieldArgs {
            arg_fields: &fields,
            scalar_arguments: args.scalar_arguments,
        })
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
}
