//! Joins that the planner knows under other names, or would take for others.
//!
//! `a POSITIONAL JOIN b` reads as `a GLOBAL CROSS JOIN b` (in `spellings`) and becomes `(SELECT * FROM a, b) AS <mark>`.

use datafusion::sql::sqlparser::ast::{
    Ident, JoinConstraint, JoinOperator, SetExpr, TableAlias, TableFactor, TableWithJoins,
};

use super::{asof, parse_query};
use crate::error::Result;

/// The alias of the two sides of a POSITIONAL JOIN; no user's name starts like this.
pub(crate) const POSITIONAL: &str = "__firndb_positional";

/// A SEMI or ANTI join without a side is one of the left side; ASOF and POSITIONAL joins become what the planner takes.
pub(super) fn joins<'a>(from: impl IntoIterator<Item = &'a mut TableWithJoins>) -> Result<()> {
    for table in from {
        positional(table)?;
        sides(table);
        for join in table.joins.iter_mut().filter(|join| join.global) {
            asof::rewrite(join)?;
        }
    }
    Ok(())
}

/// Brings together what stands before a POSITIONAL JOIN and what stands behind it.
fn positional(table: &mut TableWithJoins) -> Result<()> {
    while let Some(place) = (table.joins.iter())
        .position(|join| join.global && matches!(join.join_operator, JoinOperator::CrossJoin(_)))
    {
        let behind = table.joins.split_off(place + 1);
        let Some(right) = table.joins.pop() else {
            return Ok(());
        };
        let mut subquery = parse_query("SELECT * FROM x")?;
        let placeholder = right.relation.clone();
        let left = TableWithJoins {
            relation: std::mem::replace(&mut table.relation, placeholder),
            joins: std::mem::take(&mut table.joins),
        };
        let left = match left.joins.is_empty() {
            true => left.relation,
            false => TableFactor::NestedJoin {
                table_with_joins: Box::new(left),
                alias: None,
            },
        };
        let alone = |relation| TableWithJoins {
            relation,
            joins: Vec::new(),
        };
        if let SetExpr::Select(select) = subquery.body.as_mut() {
            select.from = vec![alone(left), alone(right.relation)];
        }
        table.relation = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(subquery),
            alias: Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('"', POSITIONAL),
                columns: Vec::new(),
                at: None,
            }),
            sample: None,
        };
        table.joins = behind;
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
