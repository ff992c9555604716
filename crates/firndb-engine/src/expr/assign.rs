//! The assignment cast: how INSERT, UPDATE and append bring values to a column's type.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::array::timezone::Tz;
use arrow::datatypes::Field;

use super::convert::{Conversion, Rule, check_convertible, convert, message_name};
use crate::types::{Refinement, compute_field, has_members};
use crate::{Error, Result, SqlState};

/// Assignment cast: converts values to a column's type, as INSERT, UPDATE and append do (numbers round, text parses, varchar(n) and enum
/// labels are enforced). Yields the column's `Form::Compute` type. Moments without a zone are in UTC. Errors name the column: 22003,
/// 22001, 22P02, 42804.
pub fn assign(values: &ArrayRef, column: &Field) -> Result<ArrayRef> {
    assign_in(values, column, None)
}

/// As `assign`; moments without a zone are in this one.
pub(crate) fn assign_in(values: &ArrayRef, column: &Field, zone: Option<Tz>) -> Result<ArrayRef> {
    let target = compute_field(column);
    if values.data_type() == target.data_type()
        && matches!(Refinement::of(column), Refinement::None | Refinement::Uuid)
        && !has_members(column)
    {
        return Ok(Arc::clone(values));
    }
    let source = Field::new(column.name(), values.data_type().clone(), true);
    if check_convertible(&source, &target).is_err() {
        return Err(Error::new(
            SqlState::DatatypeMismatch,
            format!(
                "column \"{}\" is of type {} but expression is of type {}",
                column.name(),
                message_name(&target),
                message_name(&source)
            ),
        )
        .with_hint("You will need to rewrite or cast the expression."));
    }
    let how = Conversion {
        rule: Rule::Assignment,
        zone,
    };
    convert(values, &source, &target, how).map_err(|error| {
        if error.detail.is_some() {
            let message = format!("{} in column \"{}\"", error.message, column.name());
            Error { message, ..error }
        } else {
            error.with_detail(format!("Column \"{}\".", column.name()))
        }
    })
}
