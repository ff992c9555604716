//! Grouping sets as the planner can read them.
//!
//! ```text
//! GROUP BY CUBE (1, 2)                        ─▶  GROUP BY CUBE (a, b)                    positions are the select list's
//! GROUP BY ROLLUP ((a, b), c)                 ─▶  GROUP BY GROUPING SETS ((a, b, c), (a, b), ())
//! GROUP BY (a, b)                             ─▶  GROUP BY a, b
//! GROUP BY ROLLUP (a, a)                      ─▶  GROUP BY GROUPING SETS ((a), (a), ())
//! GROUP BY GROUPING SETS (ROLLUP (a, b), c)   ─▶  GROUP BY GROUPING SETS ((a, b), (a), (), (c))
//! ```

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Select,
    SelectItem,
};

use super::outputs::{by_number, is_wild};
use crate::error::{Error, Result, SqlState};

/// How many grouping sets GROUP BY asks for: those of its CUBEs, ROLLUPs and GROUPING SETS multiply.
pub(super) fn count(select: &Select) -> usize {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else {
        return 1;
    };
    let counts = keys.iter().map(|key| match key {
        Expr::Cube(members) => cubed(members.len()),
        Expr::Rollup(members) => members.len().saturating_add(1),
        Expr::GroupingSets(sets) => {
            let sets = sets.iter().map(|set| match nested(set) {
                Some((Kind::Cube, members)) => cubed(members.len()),
                Some((Kind::Rollup, members)) => members.len().saturating_add(1),
                None => 1,
            });
            sets.fold(0, usize::saturating_add).max(1)
        }
        _ => 1,
    });
    counts.fold(1, usize::saturating_mul)
}

fn cubed(members: usize) -> usize {
    1_usize
        .checked_shl(u32::try_from(members).unwrap_or(u32::MAX))
        .unwrap_or(usize::MAX)
}

/// Rewrites the grouping sets of a SELECT. Their [`count`] has been checked.
pub(super) fn rewrite(select: &mut Select) -> Result<()> {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else {
        return Ok(());
    };
    // A row of keys is the keys.
    if keys.iter().any(|key| matches!(key, Expr::Tuple(_))) {
        let flat = std::mem::take(keys).into_iter().flat_map(|key| match key {
            Expr::Tuple(members) => members,
            key => vec![key],
        });
        *keys = flat.collect();
    }
    for key in keys {
        let (Expr::Cube(members) | Expr::Rollup(members) | Expr::GroupingSets(members)) = key
        else {
            continue;
        };
        for member in members.iter_mut().flatten() {
            at_position(member, &select.projection)?;
        }
        let sets = match key {
            Expr::Cube(members) if irregular(members) => subsets(members),
            Expr::Rollup(members) if irregular(members) => prefixes(members),
            Expr::GroupingSets(sets) if sets.iter().any(|set| nested(set).is_some()) => {
                let mut all = Vec::new();
                for set in sets.iter() {
                    let Some((kind, mut members)) = nested(set) else {
                        all.push(set.clone());
                        continue;
                    };
                    for member in members.iter_mut().flatten() {
                        at_position(member, &select.projection)?;
                    }
                    all.extend(match kind {
                        Kind::Cube => subsets(&members),
                        Kind::Rollup => prefixes(&members),
                    });
                }
                all
            }
            _ => continue,
        };
        *key = Expr::GroupingSets(sets);
    }
    Ok(())
}

enum Kind {
    Cube,
    Rollup,
}

/// A CUBE or ROLLUP within GROUPING SETS, which the parser reads as the call of a function.
fn nested(set: &[Expr]) -> Option<(Kind, Vec<Vec<Expr>>)> {
    let [Expr::Function(Function { name, args, .. })] = set else {
        return None;
    };
    let kind = match name.0.as_slice() {
        [name] => match name.as_ident()?.value.to_ascii_lowercase().as_str() {
            "cube" => Kind::Cube,
            "rollup" => Kind::Rollup,
            _ => return None,
        },
        _ => return None,
    };
    let FunctionArguments::List(list) = args else {
        return None;
    };
    let members = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Tuple(members))) => Some(members.clone()),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Nested(member))) => {
            Some(vec![member.as_ref().clone()])
        }
        FunctionArg::Unnamed(FunctionArgExpr::Expr(member)) => Some(vec![member.clone()]),
        _ => None,
    });
    Some((kind, members.collect::<Option<_>>()?))
}

/// The expression of the select list that a number names.
fn at_position(member: &mut Expr, items: &[SelectItem]) -> Result<()> {
    match by_number(member, items) {
        None => Ok(()),
        Some((_, Some(expr))) => {
            *member = expr.clone();
            Ok(())
        }
        Some(_) if items.iter().any(is_wild) => Err(Error::unsupported(
            "a position in grouping sets beside * is not supported",
        )
        .with_hint("Write the column's name.")),
        Some((place, None)) => Err(Error::new(
            SqlState::InvalidColumnReference,
            format!("GROUP BY position {place} is not in select list"),
        )),
    }
}

/// Whether a CUBE or ROLLUP has members of several columns, or one twice.
fn irregular(members: &[Vec<Expr>]) -> bool {
    let mut seen = Vec::with_capacity(members.len());
    members.iter().any(|member| match member.as_slice() {
        [one] => {
            let again = seen.iter().any(|other| is_same(other, one));
            seen.push(one.clone());
            again
        }
        _ => true,
    })
}

/// Whether two expressions are one, as far as their text tells: a column may have its table before it.
fn is_same(one: &Expr, other: &Expr) -> bool {
    fn last(expr: &Expr) -> Option<&str> {
        match expr {
            Expr::Identifier(name) => Some(&name.value),
            Expr::CompoundIdentifier(parts) => parts.last().map(|part| part.value.as_str()),
            _ => None,
        }
    }
    match (one, other) {
        (Expr::CompoundIdentifier(one), Expr::CompoundIdentifier(other)) => one == other,
        _ => one == other || last(one).is_some_and(|name| last(other) == Some(name)),
    }
}

/// The columns of some members, each once.
fn together<'a>(members: impl Iterator<Item = &'a Vec<Expr>>) -> Vec<Expr> {
    let mut set: Vec<Expr> = Vec::new();
    for column in members.flatten() {
        if !set.iter().any(|other| is_same(other, column)) {
            set.push(column.clone());
        }
    }
    set
}

fn prefixes(members: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let lengths = (0..=members.len()).rev();
    lengths
        .map(|length| together(members.iter().take(length)))
        .collect()
}

fn subsets(members: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let choices = (0..cubed(members.len())).rev();
    choices
        .map(|choice| {
            let chosen = members.iter().zip((0..members.len()).rev());
            together(
                chosen
                    .filter(|(_, bit)| choice >> bit & 1 == 1)
                    .map(|(member, _)| member),
            )
        })
        .collect()
}
