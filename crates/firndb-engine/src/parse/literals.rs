//! Numbers of SQL text whose type DataFusion's parser would lose.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, CastKind, ExactNumberInfo, Expr, Value, VisitMut, VisitorMut,
};

use crate::{Error, Result, SqlState};

/// Gives numbers with an exponent the type DOUBLE; those with a point are decimals, those without integers. To be done
/// before a statement is planned.
///
/// # Errors
/// 22003 for a number of more than 38 digits.
pub fn type_literals<T: VisitMut>(statement: &mut T) -> Result<()> {
    match statement.visit(&mut Literals) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Literals;

impl VisitorMut for Literals {
    type Break = Error;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::Value(value) = expr else {
            return ControlFlow::Continue(());
        };
        let Value::Number(number, _) = &value.value else {
            return ControlFlow::Continue(());
        };
        if number.contains(['e', 'E']) && !number.starts_with("0x") {
            let text = Value::SingleQuotedString(number.clone());
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::Value(text.with_span(value.span))),
                data_type: ast::DataType::Double(ExactNumberInfo::None),
                array: false,
                format: None,
            };
            return ControlFlow::Continue(());
        }
        let digits = number
            .trim_start_matches(['0', '_'])
            .bytes()
            .filter(u8::is_ascii_digit)
            .count();
        if digits > 38 {
            return ControlFlow::Break(Error::new(
                SqlState::NumericValueOutOfRange,
                format!("the number {number} has more than 38 digits"),
            ));
        }
        ControlFlow::Continue(())
    }
}
