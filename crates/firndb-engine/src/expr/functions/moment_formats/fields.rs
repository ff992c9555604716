//! The parts of a date and a time that a text names, and the moment that they make.
//!
//! Days are found by what was named last in this list: year, week of the year (`%U`, `%W`) or of the ISO year, day of the year, and
//! month or day of the month, which win over the others. What is not named is the beginning of the year given as the default.

use arrow::array::timezone::Tz;

use crate::expr::convert::{
    MICROS_PER_DAY, civil_from_days, days_from_civil, instant, timestamp_out_of_range,
};
use crate::{Error, Result, SqlState};

/// What a text says about a moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    pub(super) year: Option<i64>,
    pub(super) month: Option<u32>,
    pub(super) day: Option<u32>,
    pub(super) day_of_year: Option<u32>,
    /// A week that begins on Sunday, or on Monday.
    pub(super) week_from_sunday: Option<u32>,
    pub(super) week_from_monday: Option<u32>,
    pub(super) iso_year: Option<i64>,
    pub(super) iso_week: Option<u32>,
    /// From 0, Sunday.
    pub(super) weekday: Option<u32>,
    /// Days since the first of January 1970.
    pub(super) days: Option<i64>,
    pub(super) hour: Option<u32>,
    /// Whether the hour is one of a clock of twelve, whose afternoon may be said.
    pub(super) afternoon: Option<bool>,
    pub(super) minute: Option<u32>,
    pub(super) second: Option<u32>,
    pub(super) micros: Option<i64>,
    /// Seconds since midnight.
    pub(super) second_of_day: Option<i64>,
    /// Seconds ahead of UTC.
    pub(super) offset: Option<i64>,
    pub(super) zone: Option<Tz>,
    /// Microseconds since 1970 UTC, where they are said.
    pub(super) epoch: Option<i64>,
}

/// Days of a month.
pub(in crate::expr) fn days_of_month(year: i64, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A day of a calendar year, checked.
pub(in crate::expr) fn date(year: i64, month: i64, day: i64) -> Result<i64> {
    let out_of_range = || {
        Error::new(
            SqlState::DatetimeFieldOverflow,
            format!("date out of range: {year}-{month}-{day}"),
        )
    };
    let known = u32::try_from(month)
        .ok()
        .filter(|month| (1..=12).contains(month));
    let known = known.zip(u32::try_from(day).ok());
    let (month, day) = known
        .filter(|(month, day)| (1..=days_of_month(year, *month)).contains(day))
        .ok_or_else(out_of_range)?;
    if year.unsigned_abs() > 5_900_000 {
        return Err(out_of_range());
    }
    Ok(days_from_civil(year, month, day))
}

/// Days since the Sunday before, of a day since 1970.
pub(super) fn weekday(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

/// The Monday that begins an ISO year.
fn first_monday(iso_year: i64) -> i64 {
    let fourth = days_from_civil(iso_year, 1, 4);
    fourth - (weekday(fourth) + 6) % 7
}

/// The ISO year and week of a day.
pub(super) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - (weekday(days) + 6) % 7 + 3;
    let (year, _, _) = civil_from_days(thursday);
    (year, (thursday - first_monday(year)) / 7 + 1)
}

impl Fields {
    /// Whether the text says where on earth its clock is.
    pub(super) fn is_zoned(&self) -> bool {
        self.offset.is_some() || self.zone.is_some() || self.epoch.is_some()
    }

    /// Days since 1970.
    pub(super) fn date(&self, default_year: i64) -> Result<i64> {
        if let Some(days) = self.days {
            return Ok(days);
        }
        let year = self.year.unwrap_or(default_year);
        if self.month.is_some() || self.day.is_some() {
            let month = i64::from(self.month.unwrap_or(1));
            return date(year, month, i64::from(self.day.unwrap_or(1)));
        }
        if self.iso_week.is_some() && self.iso_year.is_none() && self.year.is_some() {
            return Err(Error::new(
                SqlState::InvalidDatetimeFormat,
                "a week of the ISO year stands beside a year that is none",
            )
            .with_hint("Read the year by %G, or by IYYY."));
        }
        if self.iso_year.is_some() || self.iso_week.is_some() {
            let year = self.iso_year.or(self.year).unwrap_or(default_year);
            date(year, 1, 1)?;
            let monday = first_monday(year);
            let week = i64::from(self.iso_week.unwrap_or(1));
            let behind = i64::from((self.weekday.unwrap_or(1) + 6) % 7);
            return Ok(monday + 7 * (week - 1) + behind);
        }
        let new_year = date(year, 1, 1)?;
        if let Some(week) = self.week_from_sunday {
            let sunday = new_year + (7 - weekday(new_year)) % 7;
            let behind = i64::from(self.weekday.unwrap_or(0));
            return Ok(sunday + 7 * (i64::from(week) - 1) + behind);
        }
        if let Some(week) = self.week_from_monday {
            let monday = new_year + (8 - weekday(new_year)) % 7;
            let behind = i64::from((self.weekday.unwrap_or(1) + 6) % 7);
            return Ok(monday + 7 * (i64::from(week) - 1) + behind);
        }
        Ok(new_year + i64::from(self.day_of_year.unwrap_or(1)) - 1)
    }

    /// Microseconds since midnight.
    fn time(&self) -> Result<i64> {
        let hour = match (self.hour.unwrap_or(0), self.afternoon) {
            (hour, None) => hour,
            (hour @ 13.., Some(_)) => {
                return Err(Error::new(
                    SqlState::DatetimeFieldOverflow,
                    format!(
                        "invalid hour: {hour} AM/PM, expected an hour within the range [0..12]"
                    ),
                ));
            }
            (hour, Some(afternoon)) => hour % 12 + if afternoon { 12 } else { 0 },
        };
        let seconds = self.second_of_day.unwrap_or_else(|| {
            i64::from(hour) * 3_600
                + i64::from(self.minute.unwrap_or(0)) * 60
                + i64::from(self.second.unwrap_or(0))
        });
        Ok(seconds * 1_000_000 + self.micros.unwrap_or(0))
    }

    /// Microseconds since 1970: in UTC where a zone is named, and on a clock of no zone otherwise.
    pub(super) fn moment(&self, default_year: i64) -> Result<i64> {
        if let Some(epoch) = self.epoch {
            return Ok(epoch);
        }
        let time = self.time()?;
        let days = self.date(default_year)?;
        let local = days.checked_mul(MICROS_PER_DAY);
        let local = local.and_then(|midnight| midnight.checked_add(time));
        let moment = local.and_then(|local| match (self.offset, self.zone) {
            (Some(offset), _) => local.checked_sub(offset * 1_000_000),
            (None, Some(zone)) => instant(local, zone),
            (None, None) => Some(local),
        });
        moment.ok_or_else(timestamp_out_of_range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_of_years() {
        let day = |year, month, day| date(year, month, day).unwrap();
        assert_eq!(iso_week(day(2020, 12, 31)), (2020, 53));
        assert_eq!(iso_week(day(2021, 1, 1)), (2020, 53));
        assert_eq!(iso_week(day(2012, 1, 1)), (2011, 52));
        let of_week = Fields {
            year: Some(2020),
            week_from_sunday: Some(10),
            weekday: Some(1),
            ..Fields::default()
        };
        assert_eq!(of_week.date(1900).unwrap(), day(2020, 3, 9));
    }

    #[test]
    fn days_that_no_calendar_has() {
        assert!(date(2020, 2, 30).is_err());
        assert!(date(2020, 0, 1).is_err());
        assert!(date(i64::MAX, 1, 1).is_err());
    }
}
