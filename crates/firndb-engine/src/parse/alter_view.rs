//! `ALTER VIEW [IF EXISTS] v RENAME TO w`, which the parser lacks.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// What renames a view.
#[derive(Debug, Clone)]
pub struct RenameView {
    /// The view.
    pub name: ObjectName,
    /// Whether nothing happens where there is none.
    pub if_exists: bool,
    /// Its new name.
    pub to: Ident,
}

/// Parses one; `None`, with nothing taken, for any other ALTER VIEW.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<RenameView>, ParserError> {
    parser.maybe_parse(|parser| {
        parser.expect_keywords(&[Keyword::ALTER, Keyword::VIEW])?;
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let name = parser.parse_object_name(false)?;
        parser.expect_keywords(&[Keyword::RENAME, Keyword::TO])?;
        let to = parser.parse_identifier()?;
        Ok(RenameView {
            name,
            if_exists,
            to,
        })
    })
}
