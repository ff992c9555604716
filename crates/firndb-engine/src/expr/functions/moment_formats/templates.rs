//! Reading by PostgreSQL's templates ("Data Type Formatting Functions"): `to_date` and `to_timestamp`.
//!
//! A separator of the template stands for any separator or none, blanks before a part are passed over, text in double quotes is passed
//! over by its length, and what follows the last part is not read. Reading ends with the text: parts that it lacks are the beginning of
//! their unit, and the year is 1 BC. Parts that say nothing about a day (`Q`, `D`) are read and dropped, as in PostgreSQL.

use super::fields::Fields;
use super::{DAYS, MONTHS};
use crate::{Error, Result, SqlState};

/// Patterns; longer ones stand before what they begin with.
const PATTERNS: [&str; 49] = [
    "y,yyy", "yyyy", "yyy", "yy", "y", "iyyy", "iyy", "iy", "iddd", "id", "iw", "i", "hh24",
    "hh12", "hh", "mi", "ms", "month", "mon", "mm", "ddd", "day", "dd", "dy", "d", "sssss", "ssss",
    "ss", "us", "ff1", "ff2", "ff3", "ff4", "ff5", "ff6", "a.m.", "p.m.", "am", "pm", "b.c.",
    "a.d.", "bc", "ad", "ww", "w", "cc", "j", "q", "rm",
];
/// Patterns of zones, and prefixes that change nothing when text is read.
const ZONES: [&str; 4] = ["tzh", "tzm", "tz", "of"];
const PREFIXES: [&str; 3] = ["fm", "fx", "tm"];
const ROMAN: [&str; 12] = [
    "viii", "vii", "iii", "xii", "vi", "iv", "ix", "xi", "ii", "v", "x", "i",
];
const ROMAN_MONTHS: [u32; 12] = [8, 7, 3, 12, 6, 4, 9, 11, 2, 5, 10, 1];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Pattern(&'static str),
    Separator,
    /// So many letters of the text, whatever they are.
    Skipped(usize),
}

/// A template, ready to read by.
#[derive(Debug, Clone)]
pub(super) struct Template {
    parts: Vec<Part>,
}

fn pattern_at(rest: &str) -> Option<&'static str> {
    let known = PATTERNS.iter().chain(&ZONES).chain(&PREFIXES);
    known
        .filter(|pattern| {
            rest.get(..pattern.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(pattern))
        })
        .max_by_key(|pattern| pattern.len())
        .copied()
}

impl Template {
    /// Reads a template.
    pub(super) fn new(template: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(first) = rest.chars().next() {
            if first == '"' {
                let quoted = &rest[1..];
                let end = quoted.find('"').unwrap_or(quoted.len());
                parts.push(Part::Skipped(quoted[..end].chars().count()));
                rest = quoted.get(end + 1..).unwrap_or_default();
                continue;
            }
            if let Some(pattern) = pattern_at(rest) {
                rest = &rest[pattern.len()..];
                if !PREFIXES.contains(&pattern) {
                    parts.push(Part::Pattern(pattern));
                    let folded = rest.get(..3).unwrap_or(rest).to_ascii_lowercase();
                    // Not the T of `DDTHH24`.
                    let ordinal = folded.starts_with("th") && folded != "thh";
                    if ordinal && is_number(pattern) {
                        parts.push(Part::Skipped(2));
                        rest = &rest[2..];
                    }
                }
                continue;
            }
            if first.is_ascii_alphanumeric() && !matches!(first, 'T' | 'Z' | 't' | 'z') {
                return Err(Error::new(
                    SqlState::InvalidParameterValue,
                    format!(
                        "the pattern at \"{rest}\" of the template \"{template}\" is not known"
                    ),
                )
                .with_hint("Write text between double quotes, or use strptime and its format."));
            }
            parts.push(match first.is_ascii_alphanumeric() {
                true => Part::Skipped(1),
                false => Part::Separator,
            });
            rest = &rest[first.len_utf8()..];
        }
        Ok(Template { parts })
    }

    /// Whether the template reads a zone.
    pub(super) fn reads_zone(&self) -> bool {
        let zone = |part: &Part| matches!(part, Part::Pattern(pattern) if ZONES.contains(pattern));
        self.parts.iter().any(zone)
    }

    /// What a text says by this template.
    pub(super) fn read(&self, text: &str) -> Result<Fields> {
        let mut reader = Reader {
            rest: text.trim_start(),
            said: Said::default(),
            fields: Fields::default(),
        };
        for (place, part) in self.parts.iter().enumerate() {
            if reader.rest.is_empty() {
                break;
            }
            match part {
                Part::Skipped(letters) => {
                    for _ in 0..*letters {
                        let next = reader.rest.chars().next();
                        reader.rest = &reader.rest[next.map_or(0, char::len_utf8)..];
                    }
                }
                Part::Separator => reader.separator(),
                Part::Pattern(pattern) => {
                    let beside = self.parts.get(place + 1);
                    let glued = matches!(beside, Some(Part::Pattern(next)) if is_number(next));
                    reader.pattern(pattern, glued).map_err(|reason| {
                        Error::new(
                            SqlState::InvalidDatetimeFormat,
                            format!("could not parse \"{text}\" by the template: {reason}"),
                        )
                    })?;
                }
            }
        }
        reader.settle()
    }
}

fn is_number(pattern: &str) -> bool {
    !matches!(
        pattern,
        "month"
            | "mon"
            | "day"
            | "dy"
            | "a.m."
            | "p.m."
            | "am"
            | "pm"
            | "b.c."
            | "a.d."
            | "bc"
            | "ad"
            | "rm"
            | "tz"
            | "of"
            | "tzh"
    )
}

/// Digits that a pattern takes where another number follows it.
fn width(pattern: &str) -> usize {
    match pattern {
        "tzh" | "tz" | "of" | "hh24" | "hh12" | "cc" | "iw" | "ww" | "tzm" | "mi" | "mm" | "dd"
        | "ss" | "hh" | "yy" | "iy" => 2,
        "yyyy" | "iyyy" => 4,
        "ms" | "yyy" | "iyy" | "ddd" | "iddd" => 3,
        "ff1" => 1,
        "ff2" => 2,
        "ff3" => 3,
        "ff4" => 4,
        "ff5" | "ssss" | "sssss" => 5,
        "us" | "ff6" => 6,
        "j" => 7,
        _ => 1,
    }
}

/// What is put together when everything was read.
#[derive(Debug, Default)]
struct Said {
    before_christ: bool,
    century: Option<i64>,
    /// A year's last two digits.
    short_year: Option<i64>,
    twelve: bool,
    offset_hours: Option<(bool, i64)>,
    offset_minutes: i64,
    month_week: Option<u32>,
    year_week: Option<u32>,
}

struct Reader<'a> {
    rest: &'a str,
    said: Said,
    fields: Fields,
}

type Read<T> = std::result::Result<T, String>;

impl Reader<'_> {
    fn separator(&mut self) {
        self.rest = self.rest.trim_start();
        if let Some(next) = self.rest.chars().next()
            && !next.is_alphanumeric()
            && !matches!(next, '+' | '-')
        {
            self.rest = self.rest[next.len_utf8()..].trim_start();
        } else if let Some(behind) = self.rest.strip_prefix('-')
            && behind.starts_with(|next: char| !next.is_ascii_whitespace())
        {
            self.rest = behind;
        }
    }

    fn digits(&mut self, pattern: &str, glued: bool) -> Read<(i64, usize)> {
        self.rest = self.rest.trim_start();
        let most = if glued { width(pattern) } else { 18 };
        let digits = self
            .rest
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        let number = self.rest[..digits].parse();
        self.rest = &self.rest[digits..];
        let upper = pattern.to_uppercase();
        number
            .map(|number| (number, digits))
            .map_err(|_| format!("invalid value for \"{upper}\", expected a number"))
    }

    fn number(&mut self, pattern: &str, glued: bool, least: i64, greatest: i64) -> Read<u32> {
        let (number, _) = self.digits(pattern, glued)?;
        match (least..=greatest).contains(&number) {
            true => Ok(number as u32),
            false => Err(format!(
                "the value {number} for \"{}\" is not between {least} and {greatest}",
                pattern.to_uppercase()
            )),
        }
    }

    fn fraction(&mut self, pattern: &str, glued: bool, unit: usize) -> Read<i64> {
        let (number, digits) = self.digits(pattern, glued)?;
        if digits > unit.max(6) {
            return Err(format!(
                "too many digits for \"{}\"",
                pattern.to_uppercase()
            ));
        }
        let micros = match digits <= 6 {
            true => number * 10_i64.pow(6 - digits as u32),
            false => number / 10_i64.pow(digits as u32 - 6),
        };
        Ok(micros)
    }

    fn name(&mut self, pattern: &str, names: &[&str], letters: Option<usize>) -> Read<usize> {
        self.rest = self.rest.trim_start();
        for (place, name) in names.iter().enumerate() {
            let name = letters.map_or(*name, |letters| &name[..letters]);
            let start = self.rest.get(..name.len());
            if start.is_some_and(|start| start.eq_ignore_ascii_case(name)) {
                self.rest = &self.rest[name.len()..];
                return Ok(place);
            }
        }
        Err(format!("invalid value for \"{}\"", pattern.to_uppercase()))
    }

    fn pattern(&mut self, pattern: &'static str, glued: bool) -> Read<()> {
        let names = |places: usize| Some(places as u32 + 1);
        match pattern {
            "y,yyy" => {
                let (thousands, _) = self.digits("y", false)?;
                self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
                let (rest, _) = self.digits("yyy", true)?;
                self.fields.year = thousands
                    .checked_mul(1_000)
                    .and_then(|year| year.checked_add(rest));
            }
            "yyyy" | "yyy" | "yy" | "y" => {
                let (year, digits) = self.digits(pattern, glued)?;
                self.fields.year = Some(match pattern {
                    "yyyy" => year,
                    _ if digits < 4 => near_2020(year),
                    _ => year,
                });
                self.said.short_year = (pattern != "yyyy").then_some(year);
            }
            "iyyy" | "iyy" | "iy" | "i" => {
                let (year, digits) = self.digits(pattern, glued)?;
                let short = pattern != "iyyy" && digits < 4;
                self.fields.iso_year = Some(if short { near_2020(year) } else { year });
            }
            "cc" => self.said.century = Some(self.digits(pattern, glued)?.0),
            "month" => self.fields.month = names(self.name(pattern, &MONTHS, None)?),
            "mon" => self.fields.month = names(self.name(pattern, &MONTHS, Some(3))?),
            "rm" => {
                let place = self.name(pattern, &ROMAN, None)?;
                self.fields.month = Some(ROMAN_MONTHS[place]);
            }
            "day" => drop(self.name(pattern, &DAYS, None)?),
            "dy" => drop(self.name(pattern, &DAYS, Some(3))?),
            "mm" => self.fields.month = Some(self.number(pattern, glued, 1, 12)?),
            "dd" => self.fields.day = Some(self.number(pattern, glued, 1, 31)?),
            "ddd" => self.fields.day_of_year = Some(self.number(pattern, glued, 1, 366)?),
            "iddd" => {
                let day = self.number(pattern, glued, 1, 371)? - 1;
                self.fields.iso_week = Some(day / 7 + 1);
                self.fields.weekday = Some((day + 1) % 7);
            }
            "iw" => self.fields.iso_week = Some(self.number(pattern, glued, 1, 53)?),
            "id" => self.fields.weekday = Some(self.number(pattern, glued, 1, 7)? % 7),
            "ww" => self.said.year_week = Some(self.number(pattern, glued, 1, 53)?),
            "w" => self.said.month_week = Some(self.number(pattern, glued, 1, 5)?),
            "d" | "q" => drop(self.digits(pattern, glued)?),
            "j" => self.fields.days = Some(self.digits(pattern, glued)?.0 - 2_440_588),
            "hh24" => self.fields.hour = Some(self.number(pattern, glued, 0, 23)?),
            "hh12" | "hh" => {
                self.said.twelve = true;
                self.fields.hour = Some(self.number(pattern, glued, 1, 12)?);
            }
            "mi" => self.fields.minute = Some(self.number(pattern, glued, 0, 59)?),
            "ss" => self.fields.second = Some(self.number(pattern, glued, 0, 59)?),
            "ssss" | "sssss" => {
                let second = self.number(pattern, glued, 0, 86_399)?;
                self.fields.second_of_day = Some(i64::from(second));
            }
            "ms" => self.fields.micros = Some(self.fraction(pattern, glued, 3)?),
            "us" | "ff1" | "ff2" | "ff3" | "ff4" | "ff5" | "ff6" => {
                self.fields.micros = Some(self.fraction(pattern, glued, 6)?);
            }
            "am" | "pm" | "a.m." | "p.m." => {
                let halves: [&str; 2] = match pattern.len() {
                    2 => ["am", "pm"],
                    _ => ["a.m.", "p.m."],
                };
                self.fields.afternoon = Some(self.name(pattern, &halves, None)? == 1);
            }
            "bc" | "ad" | "b.c." | "a.d." => {
                let eras: [&str; 2] = match pattern.len() {
                    2 => ["ad", "bc"],
                    _ => ["a.d.", "b.c."],
                };
                self.said.before_christ = self.name(pattern, &eras, None)? == 1;
            }
            "tzh" | "of" | "tz" => self.zone(pattern)?,
            "tzm" => self.said.offset_minutes = i64::from(self.number(pattern, glued, 0, 59)?),
            _ => debug_assert!(false, "a pattern that is not read"),
        }
        Ok(())
    }

    fn zone(&mut self, pattern: &str) -> Read<()> {
        self.rest = self.rest.trim_start();
        let sign = self.rest.chars().next();
        if let Some(sign @ ('+' | '-')) = sign {
            self.rest = &self.rest[1..];
            let hours = i64::from(
                self.number(pattern, true, 0, 15)
                    .map_err(|_| format!("invalid value for \"{}\"", pattern.to_uppercase()))?,
            );
            self.said.offset_hours = Some((sign == '-', hours));
            if pattern != "tzh"
                && let Some(minutes) = self.rest.strip_prefix(':')
            {
                self.rest = minutes;
                self.said.offset_minutes = i64::from(self.number("tzm", true, 0, 59)?);
            }
            return Ok(());
        }
        if pattern == "tzh" && sign.is_some_and(|sign| sign.is_ascii_digit()) {
            let hours = self.number(pattern, true, 0, 15)?;
            self.said.offset_hours = Some((false, i64::from(hours)));
            return Ok(());
        }
        let part = |letter: char| letter.is_ascii_alphanumeric() || "_/".contains(letter);
        let end = self
            .rest
            .find(|letter| !part(letter))
            .unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        let known = match name.eq_ignore_ascii_case("z") {
            true => "UTC",
            false => name,
        };
        let zone = known
            .parse()
            .map_err(|_| format!("time zone \"{name}\" not recognized"))?;
        (self.fields.zone, self.rest) = (Some(zone), rest);
        Ok(())
    }

    /// The parts that depend on one another.
    fn settle(self) -> Result<Fields> {
        let Reader {
            said, mut fields, ..
        } = self;
        if let Some(century) = said.century {
            let in_century = said.short_year.map_or(1, |year| year % 100);
            if fields.year.is_none() || said.short_year.is_some() {
                fields.year = Some((century - 1).saturating_mul(100).saturating_add(in_century));
            }
        }
        if said.before_christ {
            fields.year = fields.year.map(|year| 1 - year);
        }
        if said.twelve && fields.afternoon.is_none() {
            fields.afternoon = Some(false);
        }
        if let Some(week) = said.year_week
            && fields.day_of_year.is_none()
        {
            fields.day_of_year = Some((week - 1) * 7 + 1);
        }
        if let Some(week) = said.month_week
            && fields.day.is_none()
        {
            fields.day = Some((week - 1) * 7 + 1);
        }
        if let Some((behind, hours)) = said.offset_hours {
            let seconds = hours * 3_600 + said.offset_minutes * 60;
            fields.offset = Some(if behind { -seconds } else { seconds });
        }
        Ok(fields)
    }
}

/// A year of less than four digits in the century that brings it nearest to 2020.
fn near_2020(year: i64) -> i64 {
    match year {
        ..70 => year + 2_000,
        70..100 => year + 1_900,
        100..520 => year + 2_000,
        520..1_000 => year + 1_000,
        _ => year,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str, template: &str) -> i64 {
        Template::new(template)
            .unwrap()
            .read(text)
            .unwrap()
            .date(0)
            .unwrap()
    }

    #[test]
    fn dates_by_templates() {
        let wanted = day("2000-12-05", "YYYY-MM-DD");
        for (text, template) in [
            ("05 Dec 2000", "DD Mon YYYY"),
            ("20001205", "YYYYMMDD"),
            ("2000/december/5", "YYYY-Month-DD"),
            ("2000-340", "YYYY-DDD"),
            ("5th of XII, 00", "DDth \"of\" RM, YY"),
            ("2000-49-2", "IYYY-IW-ID"),
            ("2451884", "J"),
            ("  2000   12 5 and more", "YYYY-MM-DD"),
        ] {
            assert_eq!(day(text, template), wanted, "{text} by {template}");
        }
    }

    #[test]
    fn every_pattern_is_read() {
        for pattern in PATTERNS.iter().chain(&ZONES) {
            assert_eq!(
                Template::new(pattern).unwrap().parts,
                [Part::Pattern(pattern)]
            );
        }
    }
}
