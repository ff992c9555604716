//! Long chains of OR in a WHERE as trees of little depth.
//!
//! The parser makes `a OR b OR c …` a tree as deep as the chain is long, and all that walks a tree recurses. OR is associative,
//! also with NULL, and a tree's text has no parentheses of its own, so names stay:
//!
//! ```text
//! ((a OR b) OR c) OR d  ─▶  (a OR b) OR (c OR d)
//! ```
//!
//! Only where a WHERE is asked whether it is true: elsewhere the optimizer may turn ORs into ANDs, which it writes as chains.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value};

/// Terms from which a chain is balanced.
const LONG: usize = 64;

/// Balances the chains of OR in a condition and yields the terms of the longest one.
pub(super) fn balanced(condition: &mut Expr) -> usize {
    let mut longest = 0;
    let mut waiting = vec![condition];
    while let Some(expr) = waiting.pop() {
        match expr {
            Expr::Nested(inner) => waiting.push(inner),
            Expr::BinaryOp {
                op: BinaryOperator::Or,
                ..
            } => longest = longest.max(balance(expr)),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => waiting.extend([left.as_mut(), right.as_mut()]),
            _ => {}
        }
    }
    longest
}

fn balance(expr: &mut Expr) -> usize {
    let terms = length(expr);
    if terms < LONG {
        return terms;
    }
    let mut chain = Vec::with_capacity(terms);
    let mut rest = std::mem::replace(expr, Expr::value(Value::Null));
    loop {
        match rest {
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Or,
                right,
            } => {
                chain.push(*right);
                rest = *left;
            }
            first => {
                chain.push(first);
                break;
            }
        }
    }
    chain.reverse();
    while chain.len() > 1 {
        let mut pairs = Vec::with_capacity(chain.len().div_ceil(2));
        let mut halves = chain.into_iter();
        while let Some(left) = halves.next() {
            pairs.push(match halves.next() {
                Some(right) => Expr::BinaryOp {
                    left: Box::new(left),
                    op: BinaryOperator::Or,
                    right: Box::new(right),
                },
                None => left,
            });
        }
        chain = pairs;
    }
    if let Some(tree) = chain.pop() {
        *expr = tree;
    }
    terms
}

/// How many terms a chain has.
fn length(mut expr: &Expr) -> usize {
    let mut terms = 1;
    while let Expr::BinaryOp {
        left,
        op: BinaryOperator::Or,
        ..
    } = expr
    {
        terms += 1;
        expr = left;
    }
    terms
}
