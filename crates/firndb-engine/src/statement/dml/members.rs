//! SET of a struct's member: `UPDATE t SET s.a = 1`, as in PostgreSQL.
//!
//! ```text
//! s.a = 1, s.b.c = 2   ─▶   s = struct_update(struct_update(s, 'a', 1), 'b', struct_update(s['b'], 'c', 2))
//! ```
//!
//! The values are computed of the row as it was, so that members may be swapped. A struct that is NULL becomes one whose other members are NULL.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, Value};

use super::Target;
use crate::catalog::fold;
use crate::parse::{STRUCT_UPDATE, call};
use crate::{Error, Result, SqlState};

/// What a SET clause names: a column, and the names of members within it.
pub(super) struct Place {
    pub(super) column: usize,
    pub(super) members: Vec<String>,
}

impl Place {
    /// Resolves a name: `column`, `table.column`, and behind either the names of members.
    pub(super) fn resolve(target: &Target, name: &ast::ObjectName) -> Result<Place> {
        let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
        let (Some(parts), [_, _, ..]) = (parts, name.0.as_slice()) else {
            let column = target.position(name)?;
            return Ok(Place {
                column,
                members: Vec::new(),
            });
        };
        let of_table = target.is_called(parts[0]);
        let (column, rest) = match of_table && target.find(parts[1]).is_ok() {
            true => (target.find(parts[1])?, &parts[2..]),
            false if of_table && target.find(parts[0]).is_err() => {
                (target.find(parts[1])?, &parts[2..])
            }
            false => (target.find(parts[0])?, &parts[1..]),
        };
        let mut data_type = target.schema().field(column).data_type();
        let mut members = Vec::with_capacity(rest.len());
        for part in rest {
            let field = match data_type {
                DataType::Struct(fields) => {
                    let exact = fields.iter().find(|field| *field.name() == part.value);
                    let folded = || {
                        fields
                            .iter()
                            .find(|field| fold(field.name()) == fold(&part.value))
                    };
                    exact.or_else(folded)
                }
                _ => {
                    return Err(Error::new(
                        SqlState::DatatypeMismatch,
                        format!(
                            "cannot assign to member \"{}\" of \"{}\", which is no struct",
                            part.value,
                            target.schema().field(column).name()
                        ),
                    ));
                }
            };
            let field = field.ok_or_else(|| {
                Error::new(
                    SqlState::UndefinedColumn,
                    format!(
                        "column \"{}\" has no member \"{}\"",
                        target.schema().field(column).name(),
                        part.value
                    ),
                )
            })?;
            members.push(field.name().clone());
            data_type = field.data_type();
        }
        Ok(Place { column, members })
    }
}

/// A struct with another value at the end of a path of members.
pub(super) fn updated(of: Expr, path: &[String], value: Expr) -> Expr {
    let Some((member, rest)) = path.split_first() else {
        return value;
    };
    let name = || Expr::value(Value::SingleQuotedString(member.clone()));
    let within = call("get_field", vec![of.clone(), name()]);
    let value = updated(within, rest, value);
    call(STRUCT_UPDATE, vec![of, name(), value])
}

/// Whether two paths are of one member, or of one within the other.
pub(super) fn overlap(one: &[String], other: &[String]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}
