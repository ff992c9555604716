//! The proleptic Gregorian calendar: days and microseconds since 1970-01-01, read from text and printed.
//!
//! Day numbers follow Howard Hinnant's `chrono-Compatible Low-Level Date Algorithms`: years begin in March, so that
//! the leap day ends a year, and 400 years are an era of 146,097 days.

use std::fmt::Write;

pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(crate) const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Why a text is no moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does not look like one.
    Syntax,
    /// It looks like one, but there is no such day, hour or year.
    Range,
}

/// What a text says: a day, the microseconds of a time of day, and an offset from UTC in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) days: i32,
    pub(super) time: i64,
    pub(super) offset: Option<i32>,
}

pub(crate) fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year (0 is 1 BC), month and day of a day number.
pub(crate) fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year.rem_euclid(4) == 0
            && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) =>
        {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970.
pub(super) fn day_of(year: i64, month: i64, day: i64) -> Result<i32, Fault> {
    if !(1..=12).contains(&month) || day < 1 || day > i64::from(days_in_month(year, month as u32)) {
        return Err(Fault::Range);
    }
    let days = days_from_civil(year, month as u32, day as u32);
    i32::try_from(days).map_err(|_| Fault::Range)
}

/// Reads `year-month-day[ (BC)]`, then perhaps a blank or T, a time and an offset.
pub(super) fn parse_numbers(text: &str) -> Result<Moment, Fault> {
    let mut cursor = Cursor(text.trim().as_bytes());
    // Year 0 is 1 BC, -1 the one before.
    let sign = if cursor.one_of(b"-").is_some() { -1 } else { 1 };
    let year = sign * cursor.number(1, 7).ok_or(Fault::Syntax)?;
    let separator = cursor.one_of(b"-/").ok_or(Fault::Syntax)?;
    let month = cursor.number(1, 2).ok_or(Fault::Syntax)?;
    cursor.one_of(&[separator]).ok_or(Fault::Syntax)?;
    let day = cursor.number(1, 2).ok_or(Fault::Syntax)?;
    let mut year = year;
    let mut time = 0;
    let mut offset = None;
    let mut before_christ = cursor.before_christ();
    if !cursor.0.is_empty() {
        cursor.one_of(b" T").ok_or(Fault::Syntax)?;
        cursor.blanks();
        time = cursor.time_of_day()?;
        offset = cursor.offset()?;
        before_christ |= cursor.before_christ();
    }
    if !cursor.0.is_empty() {
        return Err(Fault::Syntax);
    }
    if before_christ {
        if year <= 0 {
            return Err(Fault::Range);
        }
        year = 1 - year;
    }
    Ok(Moment {
        days: day_of(year, month, day)?,
        time,
        offset,
    })
}

/// Reads `hour:minute[:second[.fraction]]`.
pub(super) fn parse_time(text: &str) -> Result<i64, Fault> {
    let mut cursor = Cursor(text.trim().as_bytes());
    let time = cursor.time_of_day()?;
    if cursor.0.is_empty() {
        Ok(time)
    } else {
        // A whole timestamp also tells a time.
        parse_numbers(text).map(|moment| moment.time % MICROS_PER_DAY)
    }
}

/// Microseconds since 1970 of a date, a timestamp or a time of day, which is one of the first of January 2000, on the clock of UTC,
/// as SQLite reads them.
pub(crate) fn parse_utc(text: &str) -> Option<i64> {
    const FIRST_OF_2000: i32 = 10_957;
    let moment = match parse_numbers(text) {
        Ok(moment) => moment,
        Err(_) => {
            let mut cursor = Cursor(text.trim().as_bytes());
            let time = cursor.time_of_day().ok()?;
            let offset = cursor.offset().ok()?;
            if !cursor.0.is_empty() {
                return None;
            }
            Moment {
                days: FIRST_OF_2000,
                time,
                offset,
            }
        }
    };
    let local = i64::from(moment.days)
        .checked_mul(MICROS_PER_DAY)?
        .checked_add(moment.time)?;
    local.checked_sub(i64::from(moment.offset.unwrap_or(0)) * MICROS_PER_SECOND)
}

/// What is left of a text.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl Cursor<'_> {
    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self
            .0
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if count < least || count > most {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        Some(
            digits
                .iter()
                .fold(0, |value, digit| value * 10 + i64::from(digit - b'0')),
        )
    }

    fn one_of(&mut self, choices: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        if !choices.contains(first) {
            return None;
        }
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn blanks(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }

    /// AM, or PM, which is true.
    pub(super) fn half_of_day(&mut self) -> Option<bool> {
        let start = self.0.get(..2)?.to_ascii_lowercase();
        let afternoon = match start.as_slice() {
            b"am" => false,
            b"pm" => true,
            _ => return None,
        };
        self.0 = &self.0[2..];
        Some(afternoon)
    }

    fn before_christ(&mut self) -> bool {
        let text = self.0.trim_ascii_start();
        for spelling in [&b"(BC)"[..], b"BC"] {
            if text.len() >= spelling.len() && text[..spelling.len()].eq_ignore_ascii_case(spelling)
            {
                self.0 = &text[spelling.len()..];
                return true;
            }
        }
        false
    }

    /// 24:00:00 is the end of the day.
    pub(super) fn time_of_day(&mut self) -> Result<i64, Fault> {
        let hour = self.number(1, 2).ok_or(Fault::Syntax)?;
        self.one_of(b":").ok_or(Fault::Syntax)?;
        let minute = self.number(1, 2).ok_or(Fault::Syntax)?;
        let (mut second, mut micros) = (0, 0);
        if self.one_of(b":").is_some() {
            second = self.number(1, 2).ok_or(Fault::Syntax)?;
            if self.one_of(b".").is_some() {
                let digits = self
                    .0
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                let (fraction, rest) = self.0.split_at(digits);
                self.0 = rest;
                for position in 0..6 {
                    let digit = fraction
                        .get(position)
                        .map_or(0, |digit| i64::from(digit - b'0'));
                    micros = micros * 10 + digit;
                }
            }
        }
        if hour > 24 || minute > 59 || second > 59 || hour == 24 && minute + second + micros > 0 {
            return Err(Fault::Range);
        }
        Ok((hour * 3_600 + minute * 60 + second) * MICROS_PER_SECOND + micros)
    }

    /// `Z`, `UTC`, `+02`, `+0230` or `-02:30`.
    pub(super) fn offset(&mut self) -> Result<Option<i32>, Fault> {
        let before = self.0;
        self.blanks();
        if self.0.eq_ignore_ascii_case(b"z") || self.0.eq_ignore_ascii_case(b"utc") {
            self.0 = &[];
            return Ok(Some(0));
        }
        let Some(sign) = self.one_of(b"+-") else {
            self.0 = before;
            return Ok(None);
        };
        let digits = self.number(1, 4).ok_or(Fault::Syntax)?;
        let (hours, minutes) = if digits >= 100 {
            (digits / 100, digits % 100)
        } else if self.one_of(b":").is_some() {
            (digits, self.number(2, 2).ok_or(Fault::Syntax)?)
        } else {
            (digits, 0)
        };
        if hours > 15 || minutes > 59 {
            return Err(Fault::Range);
        }
        let seconds = (hours * 3_600 + minutes * 60) as i32;
        Ok(Some(if sign == b'-' { -seconds } else { seconds }))
    }
}

/// `2020-01-05`, years before 1 as `0044-03-15 (BC)`.
pub(crate) fn print_date(out: &mut String, days: i32) {
    let (year, month, day) = civil_from_days(i64::from(days));
    let shown = if year > 0 { year } else { 1 - year };
    let _ = write!(out, "{shown:04}-{month:02}-{day:02}");
    if year <= 0 {
        out.push_str(" (BC)");
    }
}

/// `10:11:12.5`: the fraction without trailing zeros.
pub(crate) fn print_time(out: &mut String, micros: i64) {
    let seconds = micros / MICROS_PER_SECOND;
    let _ = write!(
        out,
        "{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    );
    print_fraction(out, micros % MICROS_PER_SECOND);
}

pub(super) fn print_fraction(out: &mut String, micros: i64) {
    if micros != 0 {
        let digits = format!("{micros:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

pub(crate) fn print_timestamp(out: &mut String, micros: i64) {
    let days = micros.div_euclid(MICROS_PER_DAY) as i32;
    let (year, month, day) = civil_from_days(i64::from(days));
    let shown = if year > 0 { year } else { 1 - year };
    let _ = write!(out, "{shown:04}-{month:02}-{day:02} ");
    print_time(out, micros.rem_euclid(MICROS_PER_DAY));
    if year <= 0 {
        out.push_str(" (BC)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Result<i32, Fault> {
        parse_numbers(text).map(|moment| moment.days)
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for days in [
            -1_000_000, -719_469, -719_468, -1, 0, 59, 60, 11_016, 18_262, 2_932_896,
        ] {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
        assert_eq!(civil_from_days(0), (1970, 1, 1));
    }

    #[test]
    fn dates_are_read() {
        assert_eq!(date("1970-01-01"), Ok(0));
        assert_eq!(date(" 2020-1-5 "), Ok(18_266));
        assert_eq!(date("2020/01/05"), Ok(18_266));
        assert_eq!(date("2020-02-29"), Ok(18_321));
        assert_eq!(date("2021-02-29"), Err(Fault::Range));
        assert_eq!(date("20200105"), Err(Fault::Syntax));
        assert_eq!(date("abc"), Err(Fault::Syntax));
    }

    #[test]
    fn years_before_christ_are_read_and_printed() {
        let mut text = String::new();
        print_date(&mut text, date("0044-03-15 (BC)").unwrap());
        assert_eq!(text, "0044-03-15 (BC)");
    }

    #[test]
    fn timestamps_are_read_with_fraction_and_offset() {
        let moment = parse_numbers("2020-01-05T10:11:12.1234567-02:30").unwrap();
        assert_eq!(
            moment.time,
            ((10 * 60 + 11) * 60 + 12) * 1_000_000 + 123_456
        );
        assert_eq!(moment.offset, Some(-9_000));
        assert_eq!(parse_numbers("2020-01-05 25:00:00"), Err(Fault::Range));
        assert_eq!(parse_numbers("2020-01-05 10"), Err(Fault::Syntax));
    }

    #[test]
    fn times_print_without_trailing_zeros() {
        let mut text = String::new();
        print_timestamp(&mut text, 18_266 * MICROS_PER_DAY + 36_672_500_000);
        assert_eq!(text, "2020-01-05 10:11:12.5");
    }
}
