//! Paths into JSON documents.
//!
//! ```text
//! $.a."b c"[0][#-1]    members and items, from the end too     $.*, $[*], $..a    any member, any item, any member below
//! /a/0                 JSON pointer (RFC 6901)                 a                  the member of that name
//! ```

use crate::expr::convert::json::Json;
use crate::{Error, Result, SqlState};

/// A path: its steps from the document down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Member(String),
    /// An item, from the end where negative.
    Item(i64),
    /// The place behind the last item, which a document gets by being written to.
    Append,
    /// A member, or an item where the value is an array and the name a number.
    Pointer(String),
    AnyMember,
    AnyItem,
    /// The value and all below it.
    Below,
}

impl Path {
    /// Reads a path.
    pub(super) fn parse(text: &str) -> Result<Path> {
        let steps = match text.as_bytes().first() {
            Some(b'$') => steps(text)?,
            Some(b'/') => text[1..]
                .split('/')
                .map(|name| Step::Pointer(name.replace("~1", "/").replace("~0", "~")))
                .collect(),
            None => Vec::new(),
            Some(_) => vec![Step::Member(text.to_owned())],
        };
        Ok(Path { steps })
    }

    /// The path of an item.
    pub(super) fn item(place: i64) -> Path {
        Path {
            steps: vec![Step::Item(place)],
        }
    }

    /// Whether it may lead to several values.
    pub(super) fn is_wild(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step, Step::AnyMember | Step::AnyItem | Step::Below))
    }

    /// The values it leads to.
    pub(super) fn all<'j, 't>(&self, document: &'j Json<'t>) -> Vec<&'j Json<'t>> {
        let mut found = vec![document];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                take(value, step, &mut next);
            }
            found = next;
        }
        found
    }

    /// The first value it leads to.
    pub(super) fn first<'j, 't>(&self, document: &'j Json<'t>) -> Option<&'j Json<'t>> {
        self.all(document).into_iter().next()
    }
}

/// The place of an item that is counted from either end.
pub(super) fn place(item: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let place = if item < 0 {
        length.checked_add(item)?
    } else {
        item
    };
    (0..length)
        .contains(&place)
        .then(|| place.unsigned_abs() as usize)
}

fn take<'j, 't>(value: &'j Json<'t>, step: &Step, found: &mut Vec<&'j Json<'t>>) {
    match (step, value) {
        (Step::Member(name), _) => found.extend(value.member(name)),
        (Step::Item(item), Json::Array(items)) => {
            found.extend(place(*item, items.len()).and_then(|place| items.get(place)));
        }
        (Step::Pointer(name), Json::Array(items)) => {
            found.extend(
                name.parse::<usize>()
                    .ok()
                    .and_then(|place| items.get(place)),
            );
        }
        (Step::Pointer(name), _) => found.extend(value.member(name)),
        (Step::AnyMember, Json::Object(members)) => {
            found.extend(members.iter().map(|(_, value)| value));
        }
        (Step::AnyItem, Json::Array(items)) => found.extend(items),
        (Step::Below, _) => below(value, found),
        _ => {}
    }
}

fn below<'j, 't>(value: &'j Json<'t>, found: &mut Vec<&'j Json<'t>>) {
    found.push(value);
    match value {
        Json::Array(items) => items.iter().for_each(|item| below(item, found)),
        Json::Object(members) => members.iter().for_each(|(_, value)| below(value, found)),
        _ => {}
    }
}

fn steps(text: &str) -> Result<Vec<Step>> {
    let refused = |at: usize| {
        Error::new(
            SqlState::InvalidTextRepresentation,
            format!("invalid JSON path \"{text}\""),
        )
        .with_detail(format!("near byte {at}"))
        .with_hint("A path is like $.member.\"another member\"[0][#-1], or /member/0.")
    };
    let bytes = text.as_bytes();
    let mut steps = Vec::new();
    let mut at = 1;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'.' => {
                at += 1;
                if bytes.get(at) == Some(&b'.') {
                    steps.push(Step::Below);
                    at += 1;
                }
                match bytes.get(at) {
                    Some(b'"') => {
                        let length = text[at + 1..].find('"').ok_or_else(|| refused(start))?;
                        steps.push(Step::Member(text[at + 1..at + 1 + length].to_owned()));
                        at += length + 2;
                    }
                    Some(b'[') if steps.last() == Some(&Step::Below) => {}
                    _ => {
                        let length = text[at..].find(['.', '[']).unwrap_or(text.len() - at);
                        match &text[at..at + length] {
                            "" => return Err(refused(start)),
                            "*" => steps.push(Step::AnyMember),
                            name => steps.push(Step::Member(name.to_owned())),
                        }
                        at += length;
                    }
                }
            }
            b'[' => {
                let length = text[at..].find(']').ok_or_else(|| refused(start))?;
                let inner = text[at + 1..at + length].trim();
                at += length + 1;
                let from_end = inner.strip_prefix('#').map(str::trim_start);
                steps.push(match (inner, from_end) {
                    ("*", _) => Step::AnyItem,
                    (_, Some("")) => Step::Append,
                    (_, Some(back)) if back.starts_with('-') => {
                        Step::Item(back.replace(' ', "").parse().map_err(|_| refused(start))?)
                    }
                    (_, Some(_)) => return Err(refused(start)),
                    (quoted, None) if quoted.len() > 1 && quoted.starts_with(['"', '\'']) => {
                        Step::Member(quoted[1..quoted.len() - 1].to_owned())
                    }
                    (number, None) => Step::Item(number.parse().map_err(|_| refused(start))?),
                });
            }
            _ => return Err(refused(start)),
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::{Path, Step};

    #[test]
    fn paths_are_read_step_by_step() {
        let member = |name: &str| Step::Member(name.to_owned());
        let steps = |text| Path::parse(text).map(|path| path.steps).ok();
        assert_eq!(
            steps("$.a.\"b.c\"[2][#-1]"),
            Some(vec![
                member("a"),
                member("b.c"),
                Step::Item(2),
                Step::Item(-1)
            ])
        );
        assert_eq!(steps("$"), Some(vec![]));
        assert_eq!(steps("a.b"), Some(vec![member("a.b")]));
        assert_eq!(steps("$..b"), Some(vec![Step::Below, member("b")]));
        for text in ["$.", "$[", "$a", "$[x]", "$.a[#1]"] {
            assert_eq!(steps(text), None, "{text}");
        }
    }
}
