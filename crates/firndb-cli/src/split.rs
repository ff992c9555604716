//! Splits a growing text into statements.
//!
//! A statement ends at a `;` outside of quotes and comments. Text arrives line by line and is looked at once, so a statement of a
//! million lines costs no more than its length. The lexical rules are PostgreSQL's: `'…'` with doubled quotes, `E'…'` with
//! backslashes, `"…"`, `$tag$…$tag$`, `-- …` and nested `/* … */`.

/// One statement of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Its text, without the `;`.
    pub text: String,
    /// The line of the input on which the text begins, from 1.
    pub line: usize,
}

/// Where in the lexical structure the end of the looked-at text lies.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Inside {
    Nothing,
    /// A string; `true` where a backslash escapes.
    String(bool),
    Identifier,
    /// A dollar-quoted string and its delimiter, dollars included.
    Dollar(String),
    LineComment,
    /// Block comments, by depth.
    BlockComment(usize),
}

/// A text that grows at its end and gives up statements at its beginning.
#[derive(Debug)]
pub(crate) struct Splitter {
    text: String,
    /// Bytes of `text` that were looked at.
    seen: usize,
    inside: Inside,
    /// Whether the looked-at text holds more than white space and comments.
    tokens: bool,
    /// The line on which `text` begins.
    line: usize,
}

impl Splitter {
    /// An empty text that begins on line 1.
    pub(crate) fn new() -> Self {
        Splitter {
            text: String::new(),
            seen: 0,
            inside: Inside::Nothing,
            tokens: false,
            line: 1,
        }
    }

    /// Appends whole lines.
    pub(crate) fn push(&mut self, lines: &str) {
        self.text.push_str(lines);
    }

    /// Counts a line that is no part of any statement. Requires that none is pending.
    pub(crate) fn skip_line(&mut self) {
        let blank = std::mem::take(&mut self.text);
        self.line += count_lines(&blank) + 1;
        self.seen = 0;
        self.inside = Inside::Nothing;
    }

    /// Takes the next complete statement away; empty ones are skipped.
    pub(crate) fn next_statement(&mut self) -> Option<Statement> {
        while let Some(end) = self.find_end() {
            let rest = self.text.split_off(end + 1);
            let mut text = std::mem::replace(&mut self.text, rest);
            text.truncate(end);
            let statement = self.take(text);
            if statement.is_some() {
                return statement;
            }
        }
        None
    }

    /// Whether the text, as far as it was looked at by `next_statement`, holds the beginning of a statement (or of a quote or
    /// block comment).
    pub(crate) fn pending(&self) -> bool {
        self.tokens || matches!(self.inside, Inside::BlockComment(_))
    }

    /// Takes what is left at the end of the input: a statement without `;`.
    pub(crate) fn finish(&mut self) -> Option<Statement> {
        let text = std::mem::take(&mut self.text);
        self.take(text)
    }

    /// Makes a statement of a text that was at the beginning, and begins anew behind it.
    fn take(&mut self, text: String) -> Option<Statement> {
        let tokens = std::mem::take(&mut self.tokens);
        self.seen = 0;
        self.inside = Inside::Nothing;
        let body = text.trim_start();
        let line = self.line + count_lines(&text[..text.len() - body.len()]);
        self.line += count_lines(&text);
        tokens.then(|| Statement {
            text: body.trim_end().to_string(),
            line,
        })
    }

    /// Looks at the text that was not seen yet, up to the next `;` that ends a statement.
    fn find_end(&mut self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = self.seen;
        while at < bytes.len() {
            let byte = bytes[at];
            let next = bytes.get(at + 1).copied();
            match &mut self.inside {
                Inside::Nothing => {
                    let mut width = 1;
                    match byte {
                        b';' => {
                            self.seen = at + 1;
                            return Some(at);
                        }
                        b'-' if next == Some(b'-') => {
                            self.inside = Inside::LineComment;
                            at += 2;
                            continue;
                        }
                        b'/' if next == Some(b'*') => {
                            self.inside = Inside::BlockComment(1);
                            at += 2;
                            continue;
                        }
                        b'\'' => self.inside = Inside::String(is_escape_string(bytes, at)),
                        b'"' => self.inside = Inside::Identifier,
                        b'$' => {
                            if let Some(delimiter) = dollar_delimiter(&self.text, at) {
                                width = delimiter.len();
                                self.inside = Inside::Dollar(delimiter.to_string());
                            }
                        }
                        _ => {}
                    }
                    self.tokens |= !byte.is_ascii_whitespace();
                    at += width;
                }
                Inside::String(escapes) => {
                    if byte == b'\\' && *escapes {
                        at += 1;
                    } else if byte == b'\'' {
                        // A doubled quote closes and opens again; the state that matters is whether backslashes escape.
                        if next == Some(b'\'') {
                            at += 1;
                        } else {
                            self.inside = Inside::Nothing;
                        }
                    }
                    at += 1;
                }
                Inside::Identifier => {
                    if byte == b'"' {
                        self.inside = Inside::Nothing;
                    }
                    at += 1;
                }
                Inside::Dollar(delimiter) => {
                    if bytes[at..].starts_with(delimiter.as_bytes()) {
                        at += delimiter.len();
                        self.inside = Inside::Nothing;
                    } else {
                        at += 1;
                    }
                }
                Inside::LineComment => {
                    if byte == b'\n' {
                        self.inside = Inside::Nothing;
                    }
                    at += 1;
                }
                Inside::BlockComment(depth) => {
                    if byte == b'*' && next == Some(b'/') {
                        *depth -= 1;
                        if *depth == 0 {
                            self.inside = Inside::Nothing;
                        }
                        at += 2;
                    } else if byte == b'/' && next == Some(b'*') {
                        *depth += 1;
                        at += 2;
                    } else {
                        at += 1;
                    }
                }
            }
        }
        self.seen = at;
        None
    }
}

fn count_lines(text: &str) -> usize {
    text.bytes().filter(|&byte| byte == b'\n').count()
}

/// Whether the quote at `at` follows an `E` that is a word of its own.
fn is_escape_string(bytes: &[u8], at: usize) -> bool {
    let prefix = at.checked_sub(1).map(|before| bytes[before]);
    let word = at.checked_sub(2).map(|before| bytes[before]);
    matches!(prefix, Some(b'e' | b'E')) && !word.is_some_and(is_word)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// The delimiter `$tag$` at `at`, unless the dollar belongs to a parameter (`$1`) or an identifier (`a$b`).
fn dollar_delimiter(text: &str, at: usize) -> Option<&str> {
    if at > 0 && is_word(text.as_bytes()[at - 1]) {
        return None;
    }
    let tag = &text[at + 1..];
    let length = tag.find('$')?;
    let tag = &tag[..length];
    let valid = !tag.starts_with(|c: char| c.is_ascii_digit())
        && tag.bytes().all(|byte| is_word(byte) && byte != b'$');
    valid.then(|| &text[at..at + length + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statements of a text and what is left of it.
    fn split(text: &str) -> (Vec<String>, Option<String>) {
        let mut splitter = Splitter::new();
        let mut statements = Vec::new();
        for line in text.split_inclusive('\n') {
            splitter.push(line);
            while let Some(statement) = splitter.next_statement() {
                statements.push(statement.text);
            }
        }
        (statements, splitter.finish().map(|rest| rest.text))
    }

    fn whole(text: &str) {
        assert_eq!(split(&format!("{text};")), (vec![text.to_string()], None));
    }

    #[test]
    fn semicolons_separate() {
        assert_eq!(
            split("select 1; select 2;\nselect\n3"),
            (
                vec!["select 1".into(), "select 2".into()],
                Some("select\n3".into())
            )
        );
    }

    #[test]
    fn empty_statements_are_none() {
        assert_eq!(split(";; -- nothing\n;/* ; */;\n"), (vec![], None));
    }

    #[test]
    fn quotes_hide_semicolons() {
        whole("select ';', 'it''s;', \"a;b\", \"a\"\";\"");
    }

    #[test]
    fn a_backslash_escapes_only_in_escape_strings() {
        whole(r"select E'\';'");
        assert_eq!(
            split(r"select '\'; select 2;"),
            (vec![r"select '\'".into(), "select 2".into()], None)
        );
        assert_eq!(
            split(r"select some'\'; x;"),
            (vec![r"select some'\'".into(), "x".into()], None)
        );
    }

    #[test]
    fn dollar_quotes_hide_everything() {
        whole("select $$ ; ' \" -- $$");
        whole("select $tag$ ; $$ ; $other$ ; $tag$");
        whole("select $tag$ line ;\n line ; $tag$");
    }

    #[test]
    fn parameters_and_identifiers_with_dollars_are_no_quotes() {
        assert_eq!(
            split("select $1, $2; select a$b$c;"),
            (vec!["select $1, $2".into(), "select a$b$c".into()], None)
        );
    }

    #[test]
    fn comments_hide_semicolons_and_quotes() {
        whole("select 1 -- it's; not the end\n + 1");
        whole("select /* ; ' /* nested ; */ still ; */ 1");
    }

    #[test]
    fn statements_know_their_line() {
        let mut splitter = Splitter::new();
        splitter.push("\n\nselect 1;\n\n  select\n2; select 3;\n");
        let lines: Vec<usize> = std::iter::from_fn(|| splitter.next_statement())
            .map(|statement| statement.line)
            .collect();
        assert_eq!(lines, [3, 5, 6]);
    }

    #[test]
    fn pending_tells_an_open_statement_from_blank_text() {
        let pending = |text: &str| {
            let mut splitter = Splitter::new();
            splitter.push(text);
            while splitter.next_statement().is_some() {}
            splitter.pending()
        };
        assert!(!pending("select 1;\n"));
        assert!(!pending("select 1; -- done\n"));
        assert!(!pending("\n  \n"));
        assert!(pending("select\n"));
        assert!(pending("select 1; select\n"));
        assert!(pending("select ';\n"));
        assert!(pending("/* open\n"));
    }

    #[test]
    fn text_beyond_ascii_is_left_alone() {
        whole("select 'Grüße; 雪', \"naïve;\"");
        whole("select $ß$ ; $ß$");
    }
}
