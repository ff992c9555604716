//! Names of select lists and aliases: texts for expressions, suffixes for what comes twice, and how the user wrote them.

use std::collections::{HashMap, HashSet};

use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, TableAlias, Value};

use super::limits;
use super::source::Source;

/// Separates a name from the number that makes it unique in its select list.
pub(crate) const UNIQUE: char = '\u{1}';
/// Characters of an expression's text that serve as its name.
const MAX_TEXT_NAME: usize = 200;

/// The names that one statement gives.
pub(super) struct Names<'a> {
    source: &'a Source,
    /// How the user wrote them, by their folded names.
    pub(super) written: HashMap<String, String>,
}

impl<'a> Names<'a> {
    pub(super) fn new(source: &'a Source) -> Self {
        Names {
            source,
            written: HashMap::new(),
        }
    }

    pub(super) fn remember(&mut self, ident: &Ident) {
        let written = self.source.written(ident);
        if written != ident.value {
            self.written.entry(ident.value.clone()).or_insert(written);
        }
    }

    /// Remembers how an alias writes its columns, and tells those of one name apart: the name is the first one's.
    pub(super) fn remember_alias(&mut self, alias: &mut TableAlias) {
        let mut seen = HashSet::new();
        for column in &mut alias.columns {
            self.remember(&column.name);
            let name = column.name.value.clone();
            let mut number = 0;
            while !seen.insert(column.name.value.clone()) {
                number += 1;
                column.name.value = format!("{name}{UNIQUE}{number}");
                column.name.quote_style = Some('"');
            }
        }
    }

    /// Names of the select list: texts for expressions, suffixes for what comes twice.
    pub(super) fn name_items(&mut self, items: &mut [SelectItem]) {
        let mut seen: HashSet<String> = HashSet::with_capacity(items.len());
        for item in items {
            let (name, qualified) = match item {
                SelectItem::UnnamedExpr(Expr::Identifier(ident)) => (ident.value.clone(), false),
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                    let Some(last) = parts.last() else { continue };
                    (last.value.clone(), true)
                }
                SelectItem::UnnamedExpr(expr) => (text_name(expr), false),
                SelectItem::ExprWithAlias { alias, .. } => {
                    self.remember(alias);
                    (alias.value.clone(), false)
                }
                _ => continue,
            };
            let column = matches!(
                item,
                SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            );
            let fresh = seen.insert(name.clone());
            if column && (fresh || qualified && !seen.contains(&qualified_name(item))) {
                if qualified {
                    seen.insert(qualified_name(item));
                }
                continue;
            }
            let unique = if fresh {
                name
            } else {
                let mut number = 1;
                loop {
                    let candidate = format!("{name}{UNIQUE}{number}");
                    if seen.insert(candidate.clone()) {
                        break candidate;
                    }
                    number += 1;
                }
            };
            let taken = std::mem::replace(item, SelectItem::Wildcard(Default::default()));
            *item = match taken {
                SelectItem::UnnamedExpr(expr) => SelectItem::ExprWithAlias {
                    expr,
                    alias: Ident::with_quote('"', unique),
                },
                SelectItem::ExprWithAlias { expr, alias } => SelectItem::ExprWithAlias {
                    expr,
                    alias: Ident {
                        value: unique,
                        ..alias
                    },
                },
                other => other,
            };
        }
    }
}

/// A column with its table, without that one's schema.
fn qualified_name(item: &SelectItem) -> String {
    match item {
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
            let parts = &parts[parts.len().saturating_sub(2)..];
            let parts: Vec<&str> = parts.iter().map(|part| part.value.as_str()).collect();
            parts.join(".")
        }
        other => other.to_string(),
    }
}

/// What an expression without an alias is called.
pub(super) fn text_name(expr: &Expr) -> String {
    let text = match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => format!("'{text}'"),
            other => other.to_string(),
        },
        other => other.to_string(),
    };
    let text = limits::written(text);
    if text.len() <= MAX_TEXT_NAME {
        text
    } else {
        text.chars().take(MAX_TEXT_NAME).collect()
    }
}
