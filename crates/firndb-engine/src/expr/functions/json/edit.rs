//! Documents changed, compared and described.

use std::borrow::Cow;

use super::path::{Path, Step, place};
use crate::expr::convert::json::Json;

/// What a value put at a path does there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Put {
    /// Only where there is none.
    Insert,
    /// Only where there is one.
    Replace,
    Set,
}

/// Puts a value at a path, of which all but the last step must lead somewhere.
pub(super) fn put<'a>(document: &mut Json<'a>, path: &Path, value: Json<'a>, how: Put) {
    let Some((last, above)) = path.steps.split_last() else {
        if how != Put::Insert {
            *document = value;
        }
        return;
    };
    let Some(container) = descend(document, above) else {
        return;
    };
    match (last, container) {
        (Step::Member(name) | Step::Pointer(name), Json::Object(members)) => {
            match members.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) if how != Put::Insert => *old = value,
                None if how != Put::Replace => members.push((Cow::Owned(name.clone()), value)),
                _ => {}
            }
        }
        (Step::Append, Json::Array(items)) if how != Put::Replace => items.push(value),
        (Step::Item(item), Json::Array(items)) => match place(*item, items.len()) {
            Some(place) if how != Put::Insert => items[place] = value,
            None if how != Put::Replace && *item == items.len() as i64 => items.push(value),
            _ => {}
        },
        _ => {}
    }
}

/// Takes away what a path leads to; false where the whole document goes.
pub(super) fn remove(document: &mut Json<'_>, path: &Path) -> bool {
    let Some((last, above)) = path.steps.split_last() else {
        return false;
    };
    match (last, descend(document, above)) {
        (Step::Member(name) | Step::Pointer(name), Some(Json::Object(members))) => {
            if let Some(place) = members.iter().position(|(known, _)| known == name) {
                members.remove(place);
            }
        }
        (Step::Item(item), Some(Json::Array(items))) => {
            if let Some(place) = place(*item, items.len()) {
                items.remove(place);
            }
        }
        _ => {}
    }
    true
}

fn descend<'j, 'a>(document: &'j mut Json<'a>, steps: &[Step]) -> Option<&'j mut Json<'a>> {
    steps
        .iter()
        .try_fold(document, |value, step| match (step, value) {
            (Step::Member(name) | Step::Pointer(name), Json::Object(members)) => members
                .iter_mut()
                .find_map(|(known, value)| (known == name).then_some(value)),
            (Step::Item(item), Json::Array(items)) => {
                let place = place(*item, items.len())?;
                items.get_mut(place)
            }
            _ => None,
        })
}

/// RFC 7396: members of the patch go into the document, NULLs take members out.
pub(super) fn merge<'a>(document: Json<'a>, patch: Json<'a>) -> Json<'a> {
    let Json::Object(changes) = patch else {
        return patch;
    };
    let mut members = match document {
        Json::Object(members) => members,
        _ => Vec::new(),
    };
    for (name, change) in changes {
        let at = members.iter().position(|(known, _)| *known == name);
        match (at, change) {
            (Some(at), Json::Null) => {
                members.remove(at);
            }
            (None, Json::Null) => {}
            (Some(at), change) => {
                let old = std::mem::replace(&mut members[at].1, Json::Null);
                members[at].1 = merge(old, change);
            }
            (None, change) => members.push((name, merge(Json::Null, change))),
        }
    }
    Json::Object(members)
}

/// Whether a document holds another: an object's members in an object, items in an array, at any depth.
pub(super) fn contains(document: &Json<'_>, part: &Json<'_>) -> bool {
    if covers(document, part) {
        return true;
    }
    match document {
        Json::Array(items) => items.iter().any(|item| contains(item, part)),
        Json::Object(members) => members.iter().any(|(_, value)| contains(value, part)),
        _ => false,
    }
}

fn covers(document: &Json<'_>, part: &Json<'_>) -> bool {
    match (document, part) {
        (Json::Object(_), Json::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            document
                .member(name)
                .is_some_and(|value| covers(value, wanted))
        }),
        (Json::Array(items), Json::Array(wanted)) => wanted
            .iter()
            .all(|wanted| items.iter().any(|item| covers(item, wanted))),
        (Json::Number(left), Json::Number(right)) => {
            left == right || left.parse::<f64>().ok() == right.parse::<f64>().ok()
        }
        _ => document == part,
    }
}

/// What a value is, in the names of DuckDB's types.
pub(super) fn type_of(value: &Json<'_>) -> &'static str {
    match value {
        Json::Null => "NULL",
        Json::Boolean(_) => "BOOLEAN",
        Json::Number(digits) if !Json::is_integer(digits) => "DOUBLE",
        Json::Number(digits) if digits.parse::<u64>().is_ok() => "UBIGINT",
        Json::Number(digits) if digits.parse::<i64>().is_ok() => "BIGINT",
        Json::Number(_) => "DOUBLE",
        Json::String(_) => "VARCHAR",
        Json::Array(_) => "ARRAY",
        Json::Object(_) => "OBJECT",
    }
}

/// The types of a document's values, as a document.
pub(super) fn structure<'a>(value: &Json<'a>) -> Json<'a> {
    match value {
        Json::Object(members) => Json::Object(
            members
                .iter()
                .map(|(name, value)| (name.clone(), structure(value)))
                .collect(),
        ),
        Json::Array(items) => {
            let item = items
                .iter()
                .map(structure)
                .reduce(both)
                .unwrap_or(named("NULL"));
            Json::Array(vec![item])
        }
        other => named(type_of(other)),
    }
}

fn named<'a>(name: &'static str) -> Json<'a> {
    Json::String(Cow::Borrowed(name))
}

/// A structure that two others fit.
fn both<'a>(left: Json<'a>, right: Json<'a>) -> Json<'a> {
    match (left, right) {
        (left, right) if left == right => left,
        (Json::String(null), other) | (other, Json::String(null)) if null == "NULL" => other,
        (Json::Object(mut members), Json::Object(others)) => {
            for (name, other) in others {
                match members.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => {
                        let old = std::mem::replace(known, Json::Null);
                        *known = both(old, other);
                    }
                    None => members.push((name, other)),
                }
            }
            Json::Object(members)
        }
        (Json::Array(mut left), Json::Array(mut right)) => match (left.pop(), right.pop()) {
            (Some(left), Some(right)) => Json::Array(vec![both(left, right)]),
            _ => Json::Array(Vec::new()),
        },
        (Json::String(left), Json::String(right)) => {
            let number = |name: &str| matches!(name, "UBIGINT" | "BIGINT" | "DOUBLE");
            match (left.as_ref(), right.as_ref()) {
                ("UBIGINT" | "BIGINT", "UBIGINT" | "BIGINT") => named("BIGINT"),
                (left, right) if number(left) && number(right) => named("DOUBLE"),
                _ => named("JSON"),
            }
        }
        _ => named("JSON"),
    }
}

/// A document over several lines.
pub(super) fn pretty(value: &Json<'_>, indent: usize, out: &mut String) {
    let line = |out: &mut String, indent: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", indent));
    };
    match value {
        Json::Array(items) if !items.is_empty() => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                line(out, indent + 1);
                pretty(item, indent + 1, out);
            }
            line(out, indent);
            out.push(']');
        }
        Json::Object(members) if !members.is_empty() => {
            out.push('{');
            for (place, (name, value)) in members.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                line(out, indent + 1);
                Json::String(name.clone()).write(out);
                out.push_str(": ");
                pretty(value, indent + 1, out);
            }
            line(out, indent);
            out.push('}');
        }
        other => other.write(out),
    }
}
