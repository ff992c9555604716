//! What the text of a statement tells before it is parsed: whether it only reads, and which names it mentions.
//!
//! A result that is still being read keeps its snapshot only as long as nothing is written in its transaction; what might write is
//! therefore told from what surely does not by its first words. Doubt counts as writing.

/// Whether `sql` is one query, which can be described now and run when its rows are wanted.
pub(crate) fn is_query(sql: &str) -> bool {
    let tokens = tokens(sql);
    let mut statements = tokens
        .split(|token| matches!(token, Token::Semicolon))
        .filter(|statement| !statement.is_empty());
    match (statements.next(), statements.next()) {
        (Some(statement), None) => only_reads(statement, &QUERYING),
        _ => false,
    }
}

/// Whether any statement of `sql` might write, or end a transaction.
pub(crate) fn may_write(sql: &str) -> bool {
    tokens(sql)
        .split(|token| matches!(token, Token::Semicolon))
        .filter(|statement| !statement.is_empty())
        .any(|statement| !only_reads(statement, &QUERYING) && !only_reads(statement, &TELLING))
}

/// The names in `sql`, keywords included.
pub(crate) fn names(sql: &str) -> Vec<String> {
    let mut names: Vec<String> = tokens(sql)
        .into_iter()
        .filter_map(|token| match token {
            Token::Word(word) => Some(word.to_owned()),
            Token::Quoted(name) => Some(name.replace("\"\"", "\"")),
            _ => None,
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

const QUERYING: [&str; 5] = ["SELECT", "FROM", "WITH", "VALUES", "TABLE"];
const TELLING: [&str; 4] = ["SHOW", "DESCRIBE", "EXPLAIN", "SUMMARIZE"];
const WRITING: [&str; 6] = ["INSERT", "UPDATE", "DELETE", "MERGE", "INTO", "ANALYZE"];

/// Whether a statement begins with one of the words and holds none that writes.
fn only_reads(statement: &[Token<'_>], beginnings: &[&str]) -> bool {
    let first = statement
        .iter()
        .find(|token| !matches!(token, Token::Other('(')));
    let Some(Token::Word(first)) = first else {
        return false;
    };
    let among =
        |words: &[&str], word: &str| words.iter().any(|known| known.eq_ignore_ascii_case(word));
    among(beginnings, first)
        && !statement
            .iter()
            .any(|token| matches!(token, Token::Word(word) if among(&WRITING, word)))
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    /// The inside of a quoted name, quotes still doubled.
    Quoted(&'a str),
    Semicolon,
    Other(char),
}

/// Words, quoted names and punctuation; string literals and comments are left out.
fn tokens(sql: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if first.is_whitespace() => first.len_utf8(),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => comment(rest),
            '\'' => {
                let escapes = matches!(tokens.last(), Some(Token::Word("e" | "E")))
                    && sql[..sql.len() - rest.len()].ends_with(['e', 'E']);
                quoted(rest, '\'', escapes)
            }
            '"' => {
                let length = quoted(rest, '"', false);
                let inside = &rest[1..length];
                tokens.push(Token::Quoted(inside.strip_suffix('"').unwrap_or(inside)));
                length
            }
            '$' => dollar(rest).unwrap_or(1),
            ';' => {
                tokens.push(Token::Semicolon);
                1
            }
            _ if first.is_alphabetic() || first == '_' => {
                let length = rest
                    .find(|next: char| !next.is_alphanumeric() && next != '_' && next != '$')
                    .unwrap_or(rest.len());
                tokens.push(Token::Word(&rest[..length]));
                length
            }
            _ => {
                tokens.push(Token::Other(first));
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    tokens
}

/// Length of the comment that `text` begins with; comments nest.
fn comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0usize);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

/// Length of the quoted text that `text` begins with; a doubled quote stands for one.
fn quoted(text: &str, quote: char, escapes: bool) -> usize {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character == '\\' && escapes {
            characters.next();
        } else if character == quote {
            if characters.peek().is_some_and(|&(_, next)| next == quote) {
                characters.next();
            } else {
                return at + 1;
            }
        }
    }
    text.len()
}

/// Length of the dollar-quoted text that `text` begins with, if it begins with one.
fn dollar(text: &str) -> Option<usize> {
    let tag = &text[..text[1..].find('$')? + 2];
    let name = &tag[1..tag.len() - 1];
    let is_name = name
        .chars()
        .all(|next| next.is_alphanumeric() || next == '_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if !is_name {
        return None;
    }
    // Without an end all that follows is quoted: no statement, and it is not looked through for each of its dollars.
    let end = text[tag.len()..].find(tag);
    Some(end.map_or(text.len(), |end| tag.len() + end + tag.len()))
}
