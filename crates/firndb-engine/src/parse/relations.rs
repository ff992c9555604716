//! Joins that the planner knows under other names, or would take for others.

use datafusion::sql::sqlparser::ast::{JoinConstraint, JoinOperator, TableFactor, TableWithJoins};

use crate::error::{Error, Result};

/// A SEMI or ANTI join without a side is one of the left side; `a POSITIONAL JOIN b`, which reads as an alias, is refused.
pub(super) fn joins<'a>(from: impl IntoIterator<Item = &'a mut TableWithJoins>) -> Result<()> {
    for table in from {
        let positional = matches!(
            &table.relation,
            TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. }
                if !alias.explicit && alias.name.quote_style.is_none() && alias.name.value == "positional"
        );
        if positional && !table.joins.is_empty() {
            return Err(Error::unsupported("POSITIONAL JOIN is not supported"));
        }
        sides(table);
    }
    Ok(())
}

fn sides(table: &mut TableWithJoins) {
    for join in &mut table.joins {
        match &mut join.join_operator {
            JoinOperator::Semi(constraint) => {
                let constraint = std::mem::replace(constraint, JoinConstraint::None);
                join.join_operator = JoinOperator::LeftSemi(constraint);
            }
            JoinOperator::Anti(constraint) => {
                let constraint = std::mem::replace(constraint, JoinConstraint::None);
                join.join_operator = JoinOperator::LeftAnti(constraint);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::SetExpr;

    use super::super::parse_query;
    use super::*;

    #[test]
    fn semi_and_anti_joins_are_of_the_left_side() {
        for (kind, side) in [("SEMI", "LEFT SEMI JOIN"), ("ANTI", "LEFT ANTI JOIN")] {
            let mut query =
                parse_query(&format!("SELECT * FROM a {kind} JOIN b ON a.x = b.x")).unwrap();
            if let SetExpr::Select(select) = query.body.as_mut() {
                joins(&mut select.from).unwrap();
            }
            assert!(query.to_string().contains(side));
        }
    }
}
