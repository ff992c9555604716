//! Joins and set operations that the planner would read differently than SQL means them.
//!
//! The planner takes an unqualified column of a USING or NATURAL join from the left side, which holds NULL where only the right side of
//! an outer join has a row; and it computes INTERSECT ALL and EXCEPT ALL as semi and anti joins, which do not count. Both would
//! be wrong answers, so both are refused.

use datafusion::sql::sqlparser::ast::{
    JoinConstraint, JoinOperator, SetExpr, SetOperator, SetQuantifier, TableWithJoins,
};

use crate::error::{Error, Result};

/// Checks the joins of a FROM clause; a SEMI or ANTI join without a side is one of the left side.
pub(super) fn joins<'a>(from: impl IntoIterator<Item = &'a mut TableWithJoins>) -> Result<()> {
    for join in from.into_iter().flat_map(|table| &mut table.joins) {
        match &mut join.join_operator {
            JoinOperator::Semi(constraint) => {
                let constraint = std::mem::replace(constraint, JoinConstraint::None);
                join.join_operator = JoinOperator::LeftSemi(constraint);
            }
            JoinOperator::Anti(constraint) => {
                let constraint = std::mem::replace(constraint, JoinConstraint::None);
                join.join_operator = JoinOperator::LeftAnti(constraint);
            }
            JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint) => match constraint {
                JoinConstraint::Using(_) => return Err(merged("USING")),
                JoinConstraint::Natural => return Err(merged("NATURAL")),
                _ => {}
            },
            _ => {}
        }
    }
    Ok(())
}

fn merged(how: &str) -> Error {
    Error::unsupported(format!("{how} in a RIGHT or FULL join is not supported"))
        .with_hint("Join ON the columns' equality and select coalesce(left, right).")
}

/// Checks the set operations of a query's body. A chain of them is as deep as it is long, so it is walked without recursion.
pub(super) fn set_operations(body: &SetExpr) -> Result<()> {
    let mut open = vec![body];
    while let Some(body) = open.pop() {
        let SetExpr::SetOperation {
            op,
            set_quantifier,
            left,
            right,
        } = body
        else {
            continue;
        };
        if *set_quantifier == SetQuantifier::All && *op != SetOperator::Union {
            return Err(Error::unsupported(format!("{op} ALL is not supported")));
        }
        open.push(left);
        open.push(right);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::parse_query;
    use super::*;

    fn check(sql: &str) -> Result<String> {
        let mut query = parse_query(sql)?;
        set_operations(&query.body)?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            joins(&mut select.from)?;
        }
        Ok(query.to_string())
    }

    #[test]
    fn semi_and_anti_joins_are_of_the_left_side() {
        assert!(
            check("SELECT * FROM a SEMI JOIN b ON a.x = b.x")
                .unwrap()
                .contains("LEFT SEMI JOIN")
        );
        assert!(
            check("SELECT * FROM a ANTI JOIN b ON a.x = b.x")
                .unwrap()
                .contains("LEFT ANTI JOIN")
        );
    }

    #[test]
    fn what_would_be_answered_wrongly_is_refused() {
        for sql in [
            "SELECT * FROM a FULL JOIN b USING (x)",
            "SELECT * FROM a RIGHT JOIN b USING (x)",
            "SELECT * FROM a NATURAL FULL JOIN b",
            "SELECT 1 INTERSECT ALL SELECT 1",
            "SELECT 1 EXCEPT ALL SELECT 1 UNION SELECT 2",
        ] {
            assert!(check(sql).is_err(), "{sql}");
        }
        for sql in [
            "SELECT * FROM a LEFT JOIN b USING (x)",
            "SELECT * FROM a FULL JOIN b ON a.x = b.x",
            "SELECT 1 UNION ALL SELECT 1",
        ] {
            assert!(check(sql).is_ok(), "{sql}");
        }
    }
}
