//! `struct_insert`, `struct_update` and `struct_concat`: structs of the members of others.
//!
//! The parser writes `struct_insert(s, b := 1)` as a call with the names as constants, `(s, 'b', 1)`. Of a struct that is NULL all members are NULL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, StructArray};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::kernel::undefined;
use crate::parse::{STRUCT_INSERT, STRUCT_UPDATE};
use crate::{Error, SqlState};

/// The functions of this module.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    [
        (Kind::Insert, STRUCT_INSERT),
        (Kind::Update, STRUCT_UPDATE),
        (Kind::Concat, "struct_concat"),
    ]
    .into_iter()
    .map(|(kind, name)| {
        Arc::new(ScalarUDF::new_from_impl(Members {
            kind,
            name,
            signature: Signature::variadic_any(Volatility::Immutable),
        }))
    })
    .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// New members behind the struct's own.
    Insert,
    /// Members in the places of those of the same names, others behind them.
    Update,
    /// The members of all structs.
    Concat,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Members {
    kind: Kind,
    name: &'static str,
    signature: Signature,
}

/// Where a member's values come from.
enum Origin {
    /// A member of an argument.
    Member(usize, usize),
    /// An argument.
    Argument(usize),
}

impl Members {
    fn shown(&self) -> &'static str {
        match self.kind {
            Kind::Insert => "struct_insert",
            Kind::Update => "struct_update",
            Kind::Concat => "struct_concat",
        }
    }

    /// The members with their origins. `name` yields the constant text that an argument is.
    fn members(
        &self,
        arguments: &[FieldRef],
        name: &dyn Fn(usize) -> Option<String>,
    ) -> Result<Vec<(FieldRef, Origin)>> {
        let refused = || {
            let types: Vec<DataType> = arguments
                .iter()
                .map(|field| field.data_type().clone())
                .collect();
            undefined(self.shown(), &types)
        };
        let structs = match self.kind {
            Kind::Concat => arguments.len(),
            _ => 1,
        };
        let mut members: Vec<(FieldRef, Origin)> = Vec::new();
        for (place, argument) in arguments.iter().enumerate().take(structs) {
            let DataType::Struct(fields) = argument.data_type() else {
                return Err(refused().into());
            };
            for (position, field) in fields.iter().enumerate() {
                let field = Arc::new(field.as_ref().clone().with_nullable(true));
                members.push((field, Origin::Member(place, position)));
            }
        }
        if self.kind != Kind::Concat {
            if arguments.len() < 3 || arguments.len().is_multiple_of(2) {
                return Err(refused().into());
            }
            for place in (1..arguments.len()).step_by(2) {
                let Some(name) = name(place) else {
                    return Err(refused().into());
                };
                let value = &arguments[place + 1];
                let field = value.as_ref().clone().with_name(&name).with_nullable(true);
                let member = (Arc::new(field), Origin::Argument(place + 1));
                let known = members
                    .iter()
                    .position(|(field, _)| field.name().eq_ignore_ascii_case(&name));
                match known {
                    Some(known) if self.kind == Kind::Update => members[known] = member,
                    _ => members.push(member),
                }
            }
        }
        for (place, (field, _)) in members.iter().enumerate() {
            let twice = members[..place]
                .iter()
                .any(|(other, _)| other.name().eq_ignore_ascii_case(field.name()));
            if twice {
                return Err(Error::new(
                    SqlState::DuplicateColumn,
                    format!(
                        "{}: the struct has two members called \"{}\"",
                        self.shown(),
                        field.name()
                    ),
                )
                .into());
            }
        }
        Ok(members)
    }
}

impl ScalarUDFImpl for Members {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Err(undefined(self.shown(), types).into())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let name = |place: usize| {
            let constant = args.scalar_arguments.get(place).copied().flatten()?;
            constant.try_as_str().flatten().map(str::to_owned)
        };
        if args.arg_fields.is_empty() {
            return Err(undefined(self.shown(), &[]).into());
        }
        let members = self.members(args.arg_fields, &name)?;
        let fields: Fields = members.into_iter().map(|(field, _)| field).collect();
        Ok(Arc::new(Field::new(
            self.name,
            DataType::Struct(fields),
            true,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = |place: usize| match args.args.get(place) {
            Some(ColumnarValue::Scalar(value)) => value.try_as_str().flatten().map(str::to_owned),
            _ => None,
        };
        let members = self.members(&args.arg_fields, &name)?;
        let arrays = args
            .args
            .iter()
            .map(|argument| argument.to_array(args.number_rows))
            .collect::<Result<Vec<ArrayRef>>>()?;
        let mut fields = Vec::with_capacity(members.len());
        let mut columns = Vec::with_capacity(members.len());
        for (field, origin) in members {
            columns.push(match origin {
                Origin::Argument(place) => Arc::clone(&arrays[place]),
                Origin::Member(place, position) => {
                    let Some(of) = arrays[place].as_any().downcast_ref::<StructArray>() else {
                        return Err(Error::internal("a struct is expected").into());
                    };
                    match of.nulls() {
                        None => Arc::clone(of.column(position)),
                        Some(known) => {
                            let unknown = BooleanArray::new(!known.inner(), None);
                            nullif(of.column(position), &unknown)?
                        }
                    }
                }
            });
            fields.push(field);
        }
        let result =
            StructArray::try_new_with_length(fields.into(), columns, None, args.number_rows)?;
        Ok(ColumnarValue::Array(Arc::new(result)))
    }
}
