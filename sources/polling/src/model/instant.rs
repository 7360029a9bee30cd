use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// A moment: microseconds since 1970-01-01 00:00:00 UTC, leap seconds aside.
///
/// Finer parts are cut off towards the past, so that a cursor never passes what it was taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// So many microseconds since 1970-01-01 00:00:00 UTC.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01 00:00:00 UTC.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// A day and a time in UTC; `None` for a day that no calendar has.
    pub fn utc(year: i32, month: u32, day: u32, hour: u32, minute: u32, second: u32) -> Option<Self> {
        let is_time = hour < 24 && minute < 60 && second < 60;
        let days = days_from_civil(year, month, day).filter(|_| is_time)?;
        Some(Self(days * DAY + i64::from(hour * 3600 + minute * 60 + second) * SECOND))
    }

    /// Reads `2026-01-31T12:00:00.25+01:00` (RFC 3339): a blank may stand for the `T`, seconds may be left out, the zone may
    /// not: without one nobody knows which moment is meant.
    pub fn parse(text: &str) -> Option<Self> {
        parse(text.trim())
    }

    /// A moment so much later; the farthest one there is at the end of time.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// A moment so much earlier.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier`; nothing if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The system's clock.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// As Postgres writes it under the pinned settings: `2026-01-31 12:00:00.25+00`.
    pub(crate) fn to_postgres(self) -> String {
        let text = self.to_string();
        let text = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
        format!("{}+00", text.replacen('T', " ", 1))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self::default().plus(after),
            Err(before) => Self::default().minus(before.duration()),
        }
    }
}

/// `2026-01-31T12:00:00.000000Z`: always of this width from the year 0 to 9999, so that texts sort as moments do.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let (year, month, day) = civil_from_days(days);
        let (seconds, micros) = (rest / SECOND, rest % SECOND);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// A moment as a source said it; the driver judges whether it is one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SourceInstant {
    /// Known.
    At(Timestamp),
    /// Seconds since 1970-01-01 00:00:00 UTC.
    Seconds(f64),
    /// A text as [`Timestamp::parse`] takes it.
    Text(String),
}

impl SourceInstant {
    /// The moment.
    ///
    /// # Errors
    /// Why it is none, in a few words, with the value.
    pub fn decode(&self) -> Result<Timestamp, String> {
        match self {
            Self::At(at) => Ok(*at),
            Self::Seconds(seconds) => {
                let micros = (seconds * 1e6).floor();
                // The bounds of i64, as floating-point numbers that it holds.
                let fits = (-9.2e18..=9.2e18).contains(&micros);
                if fits { Ok(Timestamp(micros as i64)) } else { Err(format!("the instant is not finite ({seconds})")) }
            }
            Self::Text(text) => {
                let shown: String = text.chars().take(60).collect();
                Timestamp::parse(text).ok_or_else(|| format!("the instant can't be read ({shown:?})"))
            }
        }
    }
}

impl fmt::Display for SourceInstant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(at) => fmt::Display::fmt(at, f),
            Self::Seconds(seconds) => write!(f, "{seconds} s"),
            Self::Text(text) => write!(f, "{:?}", text.chars().take(60).collect::<String>()),
        }
    }
}

impl From<Timestamp> for SourceInstant {
    fn from(at: Timestamp) -> Self {
        Self::At(at)
    }
}

impl From<SystemTime> for SourceInstant {
    fn from(at: SystemTime) -> Self {
        Self::At(at.into())
    }
}

/// Seconds since 1970-01-01 00:00:00 UTC.
impl From<f64> for SourceInstant {
    fn from(seconds: f64) -> Self {
        Self::Seconds(seconds)
    }
}

impl From<&str> for SourceInstant {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for SourceInstant {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

fn parse(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let (year, month, day) = parse_date(date)?;
    let at = rest.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = rest.split_at(at);
    let (whole, fraction) = time.split_once(['.', ',']).unwrap_or((time, ""));
    let mut parts = whole.split(':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |second| digits(second, 2))?;
    if parts.next().is_some() || (time.contains(['.', ',']) && fraction.is_empty()) {
        return None;
    }
    let base = Timestamp::utc(year, month, day, hour, minute, second)?;
    Some(Timestamp(base.0 + micros_of(fraction)? - zone_seconds(zone)? * SECOND))
}

/// A calendar day as `2026-01-31`.
pub(crate) fn parse_date(text: &str) -> Option<(i32, u32, u32)> {
    let mut parts = text.split('-');
    let year = i32::try_from(digits(parts.next()?, 4)?).ok()?;
    let (month, day) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    days_from_civil(year, month, day).filter(|_| parts.next().is_none())?;
    Some((year, month, day))
}

fn digits(text: &str, width: usize) -> Option<u32> {
    let all = text.len() == width && text.bytes().all(|byte| byte.is_ascii_digit());
    if all { text.parse().ok() } else { None }
}

fn micros_of(fraction: &str) -> Option<i64> {
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let padded: String = fraction.chars().chain(std::iter::repeat('0')).take(6).collect();
    padded.parse().ok()
}

fn zone_seconds(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => return Some(0),
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest.len() {
        2 => (digits(rest, 2)?, 0),
        4 => (digits(rest.get(..2)?, 2)?, digits(rest.get(2..)?, 2)?),
        5 if rest.as_bytes()[2] == b':' => (digits(rest.get(..2)?, 2)?, digits(rest.get(3..)?, 2)?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then(|| sign * i64::from(hours * 3600 + minutes * 60))
}

/// Days since 1970-01-01 of a day in the Gregorian calendar; `None` for one that it does not have.
fn days_from_civil(year: i32, month: u32, day: u32) -> Option<i64> {
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    // Years begin in March, so that the leap day is the last.
    let year = i64::from(year) - i64::from(month < 3);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_of_year = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_of_year + 2) / 5 + i64::from(day) - 1;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn days_in(year: i32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_of_year = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_of_year + 2) / 5 + 1;
    let month = if month_of_year < 10 { month_of_year + 3 } else { month_of_year - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_moment_reads_as_it_is_written() {
        for (text, written) in [
            ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000Z"),
            ("2026-01-31 12:00:00.25+01:00", "2026-01-31T11:00:00.250000Z"),
            ("2024-02-29t23:59:59.1234567-0530", "2024-03-01T05:29:59.123456Z"),
            ("1969-12-31T23:59+00", "1969-12-31T23:59:00.000000Z"),
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), written, "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "yesterday",
            "2026-01-31",
            "2026-01-31T12:00:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00+1",
            "2026-01-31T1é:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
        for seconds in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
            assert!(SourceInstant::Seconds(seconds).decode().is_err(), "{seconds}");
        }
    }

    #[test]
    fn postgres_writes_no_more_digits_than_it_must() {
        let at = |text| Timestamp::parse(text).unwrap().to_postgres();
        assert_eq!(at("2026-01-31T12:00:10Z"), "2026-01-31 12:00:10+00");
        assert_eq!(at("2026-01-31T12:00:00.250Z"), "2026-01-31 12:00:00.25+00");
    }

    proptest! {
        #[test]
        fn every_moment_reads_back_and_texts_sort_as_moments(a in 0i64..4_102_444_800_000_000, b in 0i64..4_102_444_800_000_000) {
            let (a, b) = (Timestamp(a), Timestamp(b));
            prop_assert_eq!(Timestamp::parse(&a.to_string()), Some(a));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }
}
