//! Pieces of syntax that rewritten queries are made of.

use datafusion::sql::sqlparser::ast::{
    Ident, Query, Select, SelectFlavor, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, WildcardAdditionalOptions,
};

/// A query without anything around its body.
pub(super) fn bare_query(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// A subquery in FROM.
pub(super) fn derived(subquery: Query, alias: Option<&str>) -> TableFactor {
    TableFactor::Derived {
        lateral: false,
        subquery: Box::new(subquery),
        alias: alias.map(|name| TableAlias {
            explicit: true,
            name: Ident::with_quote('"', name),
            columns: Vec::new(),
            at: None,
        }),
        sample: None,
    }
}

/// `SELECT * FROM (subquery) AS mark`.
pub(super) fn select_from(subquery: Query, mark: &str) -> SetExpr {
    SetExpr::Select(Box::new(Select {
        select_token:
            datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())],
        exclude: None,
        into: None,
        from: vec![TableWithJoins {
            relation: derived(subquery, Some(mark)),
            joins: Vec::new(),
        }],
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: datafusion::sql::sqlparser::ast::GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }))
}

/// VALUES without rows, which stand in the place of what is taken.
pub(super) fn no_rows() -> datafusion::sql::sqlparser::ast::Values {
    datafusion::sql::sqlparser::ast::Values {
        explicit_row: false,
        value_keyword: false,
        rows: Vec::new(),
    }
}
