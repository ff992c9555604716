//! A statement's text: positions in it, and names as they were written.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::Location;

use crate::catalog::fold;

/// The text of one or more statements.
#[derive(Debug)]
pub struct Source {
    text: String,
}

impl Source {
    /// A source of this text.
    pub fn new(text: &str) -> Self {
        Source {
            text: text.to_owned(),
        }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its length in characters.
    pub fn characters(&self) -> usize {
        self.text.chars().count()
    }

    /// A place as a character offset from 0.
    pub fn position(&self, location: Location) -> Option<usize> {
        let byte = self.byte(location)?;
        Some(self.text[..byte].chars().count())
    }

    /// An identifier as it was written, quotes taken off; its folded form where the text does not show it.
    pub fn written(&self, ident: &Ident) -> String {
        self.written_at(&ident.value, ident.span.start)
    }

    /// As `written`, by value and place.
    pub fn written_at(&self, folded: &str, location: Location) -> String {
        let Some(start) = self.byte(location) else {
            return folded.to_owned();
        };
        let rest = &self.text[start..];
        let written: String = match rest.strip_prefix('"') {
            None => rest.chars().take(folded.chars().count()).collect(),
            Some(quoted) => {
                let mut name = String::new();
                let mut characters = quoted.chars().peekable();
                while let Some(character) = characters.next() {
                    if character == '"' && characters.next_if_eq(&'"').is_none() {
                        break;
                    }
                    name.push(character);
                }
                name
            }
        };
        if fold(&written) == fold(folded) {
            written
        } else {
            folded.to_owned()
        }
    }

    /// The word, or else the character, at a place.
    pub fn word_at(&self, location: Location) -> Option<String> {
        let rest = &self.text[self.byte(location)?..];
        let part = |character: &char| character.is_alphanumeric() || *character == '_';
        let word: String = rest.chars().take_while(part).collect();
        match word.is_empty() {
            true => rest.chars().next().map(String::from),
            false => Some(word),
        }
    }

    /// Where the text first names `name`, as a whole word and without regard to case.
    pub fn find(&self, name: &str) -> Option<usize> {
        let (text, name) = (fold(&self.text), fold(name));
        if name.is_empty() {
            return None;
        }
        let part = |character: char| character.is_alphanumeric() || character == '_';
        let mut from = 0;
        while let Some(found) = text[from..].find(&name) {
            let start = from + found;
            let end = start + name.len();
            let before = text[..start].chars().next_back();
            let after = text[end..].chars().next();
            if !before.is_some_and(part) && !after.is_some_and(part) {
                return Some(text[..start].chars().count());
            }
            from = end;
        }
        None
    }

    /// Whether this character stands at a place.
    pub fn is_at(&self, character: char, location: Location) -> bool {
        self.byte(location)
            .is_some_and(|byte| self.text[byte..].starts_with(character))
    }

    fn byte(&self, location: Location) -> Option<usize> {
        if location.line == 0 || location.column == 0 {
            return None;
        }
        let line = usize::try_from(location.line).ok()? - 1;
        let column = usize::try_from(location.column).ok()? - 1;
        let start = if line == 0 {
            0
        } else {
            self.text.match_indices('\n').nth(line - 1)?.0 + 1
        };
        let rest = &self.text[start..];
        let within = match rest.char_indices().nth(column) {
            Some((byte, _)) => byte,
            None => rest.len(),
        };
        Some(start + within)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Location;

    use super::Source;

    #[test]
    fn a_position_counts_characters_over_lines() {
        let source = Source::new("sélect\n  über");
        assert_eq!(source.position(Location { line: 2, column: 3 }), Some(9));
    }

    #[test]
    fn a_quoted_name_is_read_with_its_case_and_quotes() {
        let source = Source::new("select \"A \"\"b\"\"\"");
        let name = source.written_at("a \"b\"", Location { line: 1, column: 8 });
        assert_eq!(name, "A \"b\"");
    }

    #[test]
    fn find_takes_whole_words_only() {
        let source = Source::new("SELECT idx, ID FROM t");
        assert_eq!(source.find("id"), Some(12));
    }
}
