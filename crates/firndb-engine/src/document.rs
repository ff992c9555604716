//! A JSON text as a tree.

use std::borrow::Cow;
use std::fmt::Write;

use crate::error::invalid_text;
use crate::{Error, Result};

/// Levels of arrays and objects in one another.
const MAX_DEPTH: usize = 1_000;
/// Characters of a text that an error shows.
const SHOWN: usize = 100;

/// A JSON value. Numbers are the digits of the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Boolean(bool),
    Number(Cow<'a, str>),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Reads a text, all of it (RFC 8259).
pub(crate) fn parse(text: &str) -> Result<Json<'_>> {
    let mut reader = Reader {
        text,
        at: 0,
        depth: 0,
    };
    reader.blanks();
    let value = reader.value()?;
    reader.blanks();
    if reader.at < text.len() {
        return Err(reader.fault("text follows the value"));
    }
    Ok(value)
}

impl Json<'_> {
    /// Whether it is an integer, written without a fraction or an exponent.
    pub(crate) fn is_integer(digits: &str) -> bool {
        !digits.contains(['.', 'e', 'E'])
    }

    /// The member of an object; the first of several of one name.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        match self {
            Json::Object(members) => members
                .iter()
                .find_map(|(known, value)| (known == name).then_some(value)),
            _ => None,
        }
    }

    /// Writes it without blanks. Numbers with a fraction or an exponent are written as doubles are.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(digits) if Json::is_integer(digits) => out.push_str(digits),
            Json::Number(digits) => match digits.parse::<f64>() {
                Ok(value) if value.is_finite() => {
                    let _ = write!(out, "{value:?}");
                }
                _ => out.push_str(digits),
            },
            Json::String(text) => quote(out, text),
            Json::Array(items) => {
                out.push('[');
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (place, (name, value)) in members.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    quote(out, name);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Without blanks, as a text of its own.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

/// A text as a JSON string.
pub(crate) fn quote(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn fault(&self, what: &str) -> Error {
        let shown: String = self.text.chars().take(SHOWN).collect();
        invalid_text("json", &shown).with_detail(format!("{what} at byte {}", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Result<Json<'a>> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.fault("unexpected character"))
    }

    fn value(&mut self) -> Result<Json<'a>> {
        match self.peek() {
            Some(b'n') => self.word("null", Json::Null),
            Some(b't') => self.word("true", Json::Boolean(true)),
            Some(b'f') => self.word("false", Json::Boolean(false)),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'[') => self.array(),
            Some(b'{') => self.object(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => Err(self.fault("unexpected character")),
            None => Err(self.fault("unexpected end")),
        }
    }

    fn enter(&mut self) -> Result<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.fault("arrays and objects are nested too deeply"));
        }
        self.blanks();
        Ok(())
    }

    fn leave(&mut self) {
        self.at += 1;
        self.depth -= 1;
    }

    fn array(&mut self) -> Result<Json<'a>> {
        self.enter()?;
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.leave();
            return Ok(Json::Array(items));
        }
        loop {
            self.blanks();
            items.push(self.value()?);
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.leave();
                    return Ok(Json::Array(items));
                }
                _ => return Err(self.fault("expected , or ]")),
            }
        }
    }

    fn object(&mut self) -> Result<Json<'a>> {
        self.enter()?;
        let mut members = Vec::new();
        if self.peek() == Some(b'}') {
            self.leave();
            return Ok(Json::Object(members));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.fault("expected a name in quotes"));
            }
            let name = self.string()?;
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(self.fault("expected :"));
            }
            self.at += 1;
            self.blanks();
            members.push((name, self.value()?));
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.leave();
                    return Ok(Json::Object(members));
                }
                _ => return Err(self.fault("expected , or }")),
            }
        }
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        match self.at > start {
            true => Ok(()),
            false => Err(self.fault("expected a digit")),
        }
    }

    fn number(&mut self) -> Result<Json<'a>> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Json::Number(Cow::Borrowed(&self.text[start..self.at])))
    }

    fn string(&mut self) -> Result<Cow<'a, str>> {
        self.at += 1;
        let start = self.at;
        let mut unescaped: Option<String> = None;
        let mut copied = start;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let rest = &self.text[copied..self.at];
                    self.at += 1;
                    return Ok(match unescaped {
                        None => Cow::Borrowed(rest),
                        Some(mut text) => {
                            text.push_str(rest);
                            Cow::Owned(text)
                        }
                    });
                }
                Some(b'\\') => {
                    let text = unescaped.get_or_insert_default();
                    text.push_str(&self.text[copied..self.at]);
                    let letter = self.escape()?;
                    unescaped.get_or_insert_default().push(letter);
                    copied = self.at;
                }
                Some(0..=31) => return Err(self.fault("control character in a string")),
                Some(_) => self.at += 1,
                None => return Err(self.fault("unexpected end of a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        self.at += 1;
        let letter = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let first = self.four_digits()?;
                let code = match first {
                    0xD800..=0xDBFF => {
                        if !self.text[self.at..].starts_with("\\u") {
                            return Err(self.fault("half of a surrogate pair"));
                        }
                        self.at += 2;
                        let second = self.four_digits()?;
                        if !(0xDC00..=0xDFFF).contains(&second) {
                            return Err(self.fault("half of a surrogate pair"));
                        }
                        0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
                    }
                    code => code,
                };
                return char::from_u32(code).ok_or_else(|| self.fault("half of a surrogate pair"));
            }
            _ => return Err(self.fault("unknown escape")),
        };
        self.at += 1;
        Ok(letter)
    }

    fn four_digits(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4);
        let code = digits
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.fault("expected four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn compact(text: &str) -> Option<String> {
        parse(text).ok().map(|json| json.to_text())
    }

    #[test]
    fn documents_keep_order_duplicates_and_digits() {
        assert_eq!(
            compact(r#" {"b" : 1, "a": [ true , null, "x\u0041\n" ], "b": 123456789012345678901234567890} "#).as_deref(),
            Some(r#"{"b":1,"a":[true,null,"xA\n"],"b":123456789012345678901234567890}"#)
        );
        assert_eq!(compact("1e5").as_deref(), Some("100000.0"));
        assert_eq!(compact(r#""\ud83e\udd86""#).as_deref(), Some("\"🦆\""));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            "{a:1}",
            "[1,]",
            "01",
            "1 2",
            "\"\\x\"",
            "\"\\ud83e\"",
            "nul",
            "[",
            "{\"a\"}",
            "-",
        ] {
            assert_eq!(compact(text), None, "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
