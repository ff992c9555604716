//! What `information_schema` says about tables and views: their names, and the statements that would create them.

use std::fmt::Write;

use firndb::Parameters;

use crate::commands::text;
use crate::failure::Failure;
use crate::shell::Shell;

/// A table or view.
#[derive(Debug)]
pub(crate) struct Relation {
    schema: String,
    name: String,
    view: bool,
    /// Whether its schema is the one that unqualified names are looked for in.
    current: bool,
}

impl Relation {
    /// Its name as it can be written in SQL: quoted where needed, with its schema unless that is the current one.
    pub(crate) fn display_name(&self) -> String {
        let name = quote_identifier(&self.name);
        if self.current {
            name
        } else {
            format!("{}.{name}", quote_identifier(&self.schema))
        }
    }

    fn is(&self, name: &str) -> bool {
        let qualified = format!("{}.{}", self.schema, self.name);
        self.name.eq_ignore_ascii_case(name) || qualified.eq_ignore_ascii_case(name)
    }
}

/// The user's tables and views whose names are LIKE a pattern, without regard to case.
pub(crate) fn relations(shell: &Shell, pattern: &str) -> Result<Vec<Relation>, Failure> {
    let rows = shell.ask(
        "SELECT table_schema, table_name, table_type = 'VIEW', table_schema = 'main' \
         FROM information_schema.tables \
         WHERE table_schema NOT IN ('information_schema', 'pg_catalog') AND table_name ILIKE $1 \
         ORDER BY table_schema, table_name",
        vec![text(pattern)],
    )?;
    Ok(rows.into_iter().filter_map(relation).collect())
}

fn relation(row: Vec<String>) -> Option<Relation> {
    let [schema, name, view, current] = <[String; 4]>::try_from(row).ok()?;
    Some(Relation {
        schema,
        name,
        view: view == "true",
        current: current == "true",
    })
}

/// The statements that would create every table and view, or the one of a name.
pub(crate) fn statements(shell: &Shell, name: Option<&str>) -> Result<String, Failure> {
    let mut relations = relations(shell, "%")?;
    if let Some(name) = name {
        relations.retain(|relation| relation.is(name));
        if relations.is_empty() {
            return Err(Failure::Usage(format!("there is no table or view {name}")));
        }
    }
    // Views read tables, so those come first.
    relations.sort_by_key(|relation| relation.view);
    let mut out = String::new();
    if name.is_none() {
        create_sequences(shell, &mut out)?;
    }
    for relation in &relations {
        if relation.view {
            create_view(shell, relation, &mut out)?;
        } else {
            create_table(shell, relation, &mut out)?;
        }
    }
    // A foreign key may refer to a table that comes later.
    for relation in relations.iter().filter(|relation| !relation.view) {
        let keys = shell.ask(
            "SELECT constraint_name, constraint_text FROM firndb_constraints() \
             WHERE schema_name = $1 AND table_name = $2 AND constraint_type = 'FOREIGN KEY' ORDER BY constraint_name",
            vec![text(&relation.schema), text(&relation.name)],
        )?;
        for key in keys {
            if let [name, definition] = key.as_slice() {
                let _ = writeln!(
                    out,
                    "ALTER TABLE {} ADD CONSTRAINT {} {definition};",
                    relation.display_name(),
                    quote_identifier(name)
                );
            }
        }
    }
    Ok(out)
}

/// Sequences that no identity column makes.
fn create_sequences(shell: &Shell, out: &mut String) -> Result<(), Failure> {
    let rows = shell.ask(
        "SELECT sequence_schema, sequence_name, start_value, increment, minimum_value, maximum_value, cycle_option \
         FROM information_schema.sequences ORDER BY 1, 2",
        Vec::new(),
    )?;
    for row in rows {
        let [schema, name, start, step, least, greatest, cycle] = row.as_slice() else {
            continue;
        };
        let cycle = if cycle == "YES" { " CYCLE" } else { "" };
        let _ = writeln!(
            out,
            "CREATE SEQUENCE {}.{} INCREMENT BY {step} MINVALUE {least} MAXVALUE {greatest} START WITH {start}{cycle};",
            quote_identifier(schema),
            quote_identifier(name)
        );
    }
    Ok(())
}

fn create_view(shell: &Shell, view: &Relation, out: &mut String) -> Result<(), Failure> {
    let rows = shell.ask(
        "SELECT view_definition FROM information_schema.views WHERE table_schema = $1 AND table_name = $2",
        vec![text(&view.schema), text(&view.name)],
    )?;
    let definition = rows.into_iter().flatten().next().unwrap_or_default();
    let definition = definition.trim().trim_end_matches(';');
    let name = view.display_name();
    let shown = column_names(shell, &format!("SELECT * FROM {name}"))?;
    // The view's own names for its columns, where it has any.
    let columns = if shown == column_names(shell, definition)? {
        String::new()
    } else {
        format!(" ({})", shown.join(", "))
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "CREATE VIEW {name}{columns} AS {definition};");
    Ok(())
}

fn column_names(shell: &Shell, query: &str) -> Result<Vec<String>, Failure> {
    let schema = shell
        .session()
        .describe(query, &Parameters::default(), None)?;
    let fields = schema.fields().iter();
    Ok(fields.map(|field| quote_identifier(field.name())).collect())
}

fn create_table(shell: &Shell, table: &Relation, out: &mut String) -> Result<(), Failure> {
    let of_table = || vec![text(&table.schema), text(&table.name)];
    let columns = shell.ask(
        "SELECT column_name, data_type, is_nullable, column_default, identity_generation, generation_expression \
         FROM information_schema.columns \
         WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position",
        of_table(),
    )?;
    let mut lines: Vec<String> = columns.iter().filter_map(|row| column(row)).collect();
    let keys = shell.ask(
        "SELECT c.constraint_name, c.constraint_type, k.column_name \
         FROM information_schema.table_constraints c JOIN information_schema.key_column_usage k \
         ON c.table_schema = k.table_schema AND c.table_name = k.table_name AND c.constraint_name = k.constraint_name \
         WHERE c.table_schema = $1 AND c.table_name = $2 AND c.constraint_type IN ('PRIMARY KEY', 'UNIQUE') \
         ORDER BY c.constraint_type, c.constraint_name, k.ordinal_position",
        of_table(),
    )?;
    for key in keys.chunk_by(|before, after| before.first() == after.first()) {
        let kind = key[0].get(1).map_or("", String::as_str);
        let names: Vec<String> = key
            .iter()
            .filter_map(|row| row.get(2))
            .map(|name| quote_identifier(name))
            .collect();
        lines.push(format!("{kind} ({})", names.join(", ")));
    }
    // The standard counts NOT NULL among the checks of `information_schema`; here it belongs to its column.
    let checks = shell.ask(
        "SELECT constraint_text FROM firndb_constraints() \
         WHERE schema_name = $1 AND table_name = $2 AND constraint_type = 'CHECK' ORDER BY constraint_name",
        of_table(),
    )?;
    lines.extend(checks.into_iter().flatten());
    let _ = writeln!(
        out,
        "CREATE TABLE {} (\n    {}\n);",
        table.display_name(),
        lines.join(",\n    ")
    );
    let indexes = shell.ask(
        "SELECT sql FROM firndb_indexes() WHERE schema_name = $1 AND table_name = $2 ORDER BY index_name",
        of_table(),
    )?;
    for index in indexes.into_iter().flatten() {
        let _ = writeln!(out, "{index}");
    }
    Ok(())
}

/// `name TYPE NOT NULL DEFAULT value`
fn column(row: &[String]) -> Option<String> {
    let [name, data_type, nullable, default, identity, generated] = row else {
        return None;
    };
    let mut line = format!("{} {data_type}", quote_identifier(name));
    if nullable == "NO" {
        line.push_str(" NOT NULL");
    }
    if !generated.is_empty() {
        let _ = write!(line, " GENERATED ALWAYS AS ({generated}) STORED");
    } else if !identity.is_empty() {
        let _ = write!(line, " GENERATED {identity} AS IDENTITY");
    } else if !default.is_empty() {
        let _ = write!(line, " DEFAULT {default}");
    }
    Some(line)
}

/// Quotes a possibly qualified name, part by part, where it is not quoted already.
pub(crate) fn quote_name(name: &str) -> String {
    if name.contains('"') {
        return name.to_string();
    }
    name.split('.')
        .map(quote_identifier)
        .collect::<Vec<_>>()
        .join(".")
}

/// Quotes an identifier that is not a plain word.
pub(crate) fn quote_identifier(name: &str) -> String {
    let plain = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !crate::keywords::is_reserved(name);
    if plain {
        name.to_string()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_words_go_unquoted() {
        assert_eq!(quote_identifier("flights_2013"), "flights_2013");
        assert_eq!(quote_identifier("2013"), "\"2013\"");
        assert_eq!(quote_identifier("my table"), "\"my table\"");
        assert_eq!(quote_identifier("a\"b"), "\"a\"\"b\"");
        assert_eq!(quote_identifier("order"), "\"order\"");
    }

    #[test]
    fn qualified_names_are_quoted_part_by_part() {
        assert_eq!(quote_name("s.my table"), "s.\"my table\"");
        assert_eq!(quote_name("\"a.b\""), "\"a.b\"");
    }
}
