//! Schedules of five fields: minute, hour, day of the month, month, day of the week.

use std::fmt;

use jiff::civil::{Date, Weekday};

use crate::limits::ITEMS_MAX;

/// Why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleError {
    /// It has another number of fields.
    Fields(usize),
    /// One of its fields cannot be read.
    Field {
        /// The name of the field.
        name: &'static str,
        /// Its text.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// No day is like that.
    Never,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fields(count) => write!(
                f,
                "has {count} fields: write five, for minute, hour, day of the month, month and day of the week, such as \"0 2 * * 0\""
            ),
            Self::Field { name, text, why } => write!(f, "{name} {text:?} {why}"),
            Self::Never => f.write_str("names no day that any year has: correct day of the month and month"),
        }
    }
}

/// When something begins, by the clock on the wall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// A day has to match both when one of the two fields is open; else one of them suffices, as cron has it.
    needs_both_days: bool,
}

/// A field: its name, its lowest and highest value, and the names of values, from the lowest on.
struct Field(&'static str, u8, u8, &'static [&'static str]);

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// The days of each month in a leap year.
const MONTH_DAYS: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

impl Schedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// The text is none.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(ScheduleError::Fields(fields.len()));
        };
        let is_open = |field: &str| field.starts_with('*') || field == "?";
        let mut weekday_bits = Field("day of the week", 0, 7, WEEKDAYS).read(weekdays)?;
        // Both 0 and 7 are Sunday.
        if weekday_bits & (1 << 7) != 0 {
            weekday_bits = weekday_bits & !(1 << 7) | 1;
        }
        let schedule = Self {
            minutes: Field("minute", 0, 59, &[]).read(minutes)?,
            hours: Field("hour", 0, 23, &[]).read(hours)?,
            days: Field("day of the month", 1, 31, &[]).read(days)?,
            months: Field("month", 1, 12, MONTHS).read(months)?,
            weekdays: weekday_bits,
            needs_both_days: is_open(days) || is_open(weekdays),
        };
        if schedule.names_a_day() { Ok(schedule) } else { Err(ScheduleError::Never) }
    }

    /// Whether a year has a day that may match. Where a day of the week alone suffices every month has one.
    fn names_a_day(&self) -> bool {
        !self.needs_both_days
            || (1..=12_u8)
                .zip(MONTH_DAYS)
                .any(|(month, last)| has(self.months, month) && (1..=last).any(|day| has(self.days, day)))
    }

    /// Whether it has times in this month.
    pub(crate) fn has_month(&self, month: i8) -> bool {
        u8::try_from(month).is_ok_and(|month| has(self.months, month))
    }

    /// Whether it has times on this day.
    pub(crate) fn has_day(&self, date: Date) -> bool {
        let day = u8::try_from(date.day()).is_ok_and(|day| has(self.days, day));
        let weekday = has(self.weekdays, sunday_zero(date.weekday()));
        self.has_month(date.month()) && if self.needs_both_days { day && weekday } else { day || weekday }
    }

    /// Hours and minutes of the times of a day, in ascending order.
    pub(crate) fn times(&self) -> impl DoubleEndedIterator<Item = (i8, i8)> + '_ {
        let hours = (0..24_u8).filter(|hour| has(self.hours, *hour));
        hours.flat_map(|hour| {
            let minutes = (0..60_u8).filter(|minute| has(self.minutes, *minute));
            minutes.map(move |minute| (hour.cast_signed(), minute.cast_signed()))
        })
    }
}

fn has(bits: u64, number: u8) -> bool {
    bits & (1 << number) != 0
}

fn sunday_zero(weekday: Weekday) -> u8 {
    weekday.to_sunday_zero_offset().cast_unsigned()
}

impl Field {
    /// The values of a field, a bit each.
    fn read(&self, text: &str) -> Result<u64, ScheduleError> {
        let items: Vec<&str> = text.split(',').take(ITEMS_MAX + 1).collect();
        if items.len() > ITEMS_MAX {
            return Err(self.wrong(text, &format!("has more than {ITEMS_MAX} items")));
        }
        items.into_iter().try_fold(0, |bits, item| Ok(bits | self.item(item)?))
    }

    fn item(&self, item: &str) -> Result<u64, ScheduleError> {
        let Self(_, lowest, highest, _) = *self;
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => {
                let step = number(step).filter(|step| *step > 0 && *step <= highest);
                let step = step.ok_or_else(|| {
                    self.wrong(item, &format!("needs a step of 1 to {highest} after the slash"))
                })?;
                (range, Some(step))
            }
            None => (item, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (lowest, highest),
            Some((first, last)) => (self.value(first, item)?, self.value(last, item)?),
            None => {
                let first = self.value(range, item)?;
                // From this value on, as cron has it.
                (first, if step.is_some() { highest } else { first })
            }
        };
        if first > last {
            return Err(self.wrong(item, "ends before it begins"));
        }
        let values = (first..=last).step_by(usize::from(step.unwrap_or(1)));
        Ok(values.fold(0, |bits, value| bits | 1 << value))
    }

    fn value(&self, text: &str, item: &str) -> Result<u8, ScheduleError> {
        let Self(_, lowest, highest, names) = *self;
        let by_name = || names.iter().zip(lowest..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        let value = number(text).or_else(|| by_name().map(|(_, value)| value));
        value.filter(|value| (lowest..=highest).contains(value)).ok_or_else(|| {
            let or_names = match (names.first(), names.last()) {
                (Some(first), Some(last)) => format!(", or {first} to {last}"),
                _ => String::new(),
            };
            self.wrong(item, &format!("needs numbers from {lowest} to {highest}{or_names}"))
        })
    }

    fn wrong(&self, text: &str, why: &str) -> ScheduleError {
        ScheduleError::Field { name: self.0, text: text.to_owned(), why: why.to_owned() }
    }
}

/// A number of digits alone.
fn number(text: &str) -> Option<u8> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str) -> Vec<(i8, i8)> {
        Schedule::parse(text).unwrap().times().collect()
    }

    #[test]
    fn lists_ranges_steps_and_names_are_read() {
        assert_eq!(times("0 2 * * 0"), [(2, 0)]);
        assert_eq!(times("*/30 1-2 * * *"), [(1, 0), (1, 30), (2, 0), (2, 30)]);
        assert_eq!(times("5,50 23 * * *"), [(23, 5), (23, 50)]);
        assert_eq!(times("50/5 0 * * *"), [(0, 50), (0, 55)]);
        assert_eq!(times("0-10/5 0 * * *"), [(0, 0), (0, 5), (0, 10)]);
        let same = |a: &str, b: &str| assert_eq!(Schedule::parse(a), Schedule::parse(b), "{a}");
        same("0 0 * jan-MAR Sat,sun", "0 0 * 1-3 6,7");
        same("0 0 * * 0", "0 0 * * 7");
        same(" 0\t0 ?  * sun ", "0 0 * * 0");
    }

    #[test]
    fn a_day_matches_by_one_field_when_both_are_named() {
        let on = |text: &str, day: Date| Schedule::parse(text).unwrap().has_day(day);
        let (friday, thirteenth) = (jiff::civil::date(2026, 11, 20), jiff::civil::date(2026, 12, 13));
        assert!(on("0 0 13 * 5", friday) && on("0 0 13 * 5", thirteenth));
        assert!(!on("0 0 * * 5", thirteenth) && on("0 0 * * 5", friday));
        assert!(!on("0 0 13 * *", friday) && on("0 0 13 * *", thirteenth));
        assert!(!on("0 0 13 11 5", thirteenth), "the month always counts");
    }

    #[test]
    fn what_is_no_schedule_says_why() {
        for (text, wanted) in [
            ("", "has 0 fields"),
            ("0 2 * *", "has 4 fields"),
            ("0 2 * * 0 2026", "has 6 fields"),
            ("60 2 * * 0", "minute \"60\" needs numbers from 0 to 59"),
            ("0 24 * * 0", "hour \"24\" needs numbers from 0 to 23"),
            ("0 0 0 * *", "day of the month \"0\" needs numbers from 1 to 31"),
            ("0 0 * 13 *", "month \"13\" needs numbers from 1 to 12, or jan to dec"),
            ("0 0 * * 8", "day of the week \"8\" needs numbers from 0 to 7, or sun to sat"),
            ("5-1 0 * * *", "minute \"5-1\" ends before it begins"),
            ("*/0 0 * * *", "minute \"*/0\" needs a step of 1 to 59 after the slash"),
            ("*/999 0 * * *", "needs a step"),
            ("+1 0 * * *", "needs numbers"),
            ("1, 0 * * *", "minute \"\" needs numbers"),
            ("@daily * * * *", "needs numbers"),
            ("0 0 30 2 *", "names no day"),
            ("0 0 31 4,6 *", "names no day"),
        ] {
            let error = Schedule::parse(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text:?}: {error}");
        }
        assert!(Schedule::parse("0 0 29 2 *").is_ok() && Schedule::parse("0 0 31 2 1").is_ok());
        let many = |count| format!("{} 0 * * *", vec!["1"; count].join(","));
        assert!(Schedule::parse(&many(ITEMS_MAX)).is_ok());
        assert!(
            Schedule::parse(&many(ITEMS_MAX + 1)).unwrap_err().to_string().contains("more than 60 items")
        );
    }
}
