//! Dates whose month is a word, as PostgreSQL reads them:
//!
//! ```text
//! January 8, 1999     8-Jan-1999     1999 Jan 8     Friday, 8 Jan 99 04:05:06 PM     Jan 8, 99 BC     epoch
//! ```
//!
//! Dates of numbers alone are read in the order year, month, day only (`calendar`): no setting says which of `1/8/1999` is the month.

use super::MICROS_PER_DAY;
use super::calendar::{Cursor, Fault, Moment, day_of, parse_numbers};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// The place of a name, in full or of at least three letters.
fn named(names: &[&str], word: &str) -> Option<usize> {
    let word = word.to_ascii_lowercase();
    let known = |name: &&str| *name == word || (word.len() == 3 && name.starts_with(&word));
    names
        .iter()
        .position(known)
        .or_else(|| (word == "sept" && names.len() == 12).then_some(8))
}

/// Reads a date in numbers or with a word for its month, perhaps with a time behind it.
pub(super) fn parse_moment(text: &str) -> Result<Moment, Fault> {
    match parse_numbers(text) {
        Err(Fault::Syntax) => parse(text),
        read => read,
    }
}

fn parse(text: &str) -> Result<Moment, Fault> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("epoch") {
        return Ok(Moment {
            days: 0,
            time: 0,
            offset: None,
        });
    }
    // Few texts are so long, and most of those that are no dates have no month.
    if text.len() > 64 || !text.is_ascii() {
        return Err(Fault::Syntax);
    }
    let (date, time) = match text.find(':') {
        None => (text, ""),
        Some(colon) => {
            let start = text[..colon].rfind([' ', 'T', 't']).ok_or(Fault::Syntax)?;
            (&text[..start], &text[start + 1..])
        }
    };
    let mut before_christ = false;
    let (mut month, mut numbers) = (None, Vec::with_capacity(2));
    let parts: Vec<&str> = date
        .split([' ', ',', '-', '/', '.'])
        .filter(|part| !part.is_empty())
        .collect();
    for (place, part) in parts.iter().enumerate() {
        if part.bytes().all(|byte| byte.is_ascii_digit()) && part.len() <= 7 {
            // The month's place among the numbers says what they are.
            numbers.push((part.parse::<i64>().map_err(|_| Fault::Syntax)?, part.len()));
        } else if let Some(found) = named(&MONTHS, part) {
            if month.replace((found as u32 + 1, numbers.len())).is_some() {
                return Err(Fault::Syntax);
            }
        } else if place + 1 == parts.len()
            && matches!(part.to_ascii_lowercase().as_str(), "bc" | "ad")
        {
            before_christ = part.eq_ignore_ascii_case("bc");
        } else if place > 0 || named(&DAYS, part).is_none() {
            return Err(Fault::Syntax);
        }
    }
    let (Some((month, before)), [first, second]) = (month, numbers.as_slice()) else {
        return Err(Fault::Syntax);
    };
    if before > 1 {
        return Err(Fault::Syntax);
    }
    let (mut year, day, digits) = match first.1 > 2 {
        true => (first.0, second.0, first.1),
        false => (second.0, first.0, second.1),
    };
    if digits <= 2 && !before_christ {
        year += if year < 70 { 2_000 } else { 1_900 };
    }
    if before_christ {
        year = 1 - year;
    }
    let days = day_of(year, i64::from(month), day)?;
    let (mut time_of_day, mut offset) = (0, None);
    if !time.is_empty() {
        let mut cursor = Cursor(time.as_bytes());
        time_of_day = cursor.time_of_day()?;
        cursor.blanks();
        if let Some(afternoon) = cursor.half_of_day() {
            let hour = time_of_day / (MICROS_PER_DAY / 24);
            if !(1..=12).contains(&hour) {
                return Err(Fault::Range);
            }
            let half = MICROS_PER_DAY / 2;
            time_of_day = time_of_day % half + if afternoon { half } else { 0 };
        }
        offset = cursor.offset()?;
        cursor.blanks();
        if !cursor.0.is_empty() {
            return Err(Fault::Syntax);
        }
    }
    Ok(Moment {
        days,
        time: time_of_day,
        offset,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_words() {
        let wanted = day_of(1999, 1, 8).unwrap();
        for text in [
            "January 8, 1999",
            "8-Jan-1999",
            "1999 jan 8",
            "Jan-08-1999",
            "Friday, 8 Jan 99",
            "1999-Jan-08",
        ] {
            assert_eq!(parse(text).unwrap().days, wanted, "{text}");
        }
        let afternoon = parse("Jan 8 1999 04:05:06 PM").unwrap();
        assert_eq!(afternoon.time, 57_906_000_000);
    }

    #[test]
    fn what_is_no_date() {
        for text in [
            "",
            "January",
            "Jan 8",
            "8 8 1999",
            "Jan Feb 1999",
            "Foo 8 1999",
            "Jan 1 2 3",
            "é",
        ] {
            assert_eq!(parse(text), Err(Fault::Syntax), "{text}");
        }
        assert_eq!(parse("Feb 30 1999"), Err(Fault::Range));
    }
}
