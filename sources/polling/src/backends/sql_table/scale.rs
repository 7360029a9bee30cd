//! How a cursor's values and moments relate: where a pass ends, and where the next begins. Pure.

use std::time::Duration;

use super::catalog::{Order, SourceColumn};
use super::cell::{Cell, zone_text};
use super::dialect::Dialect;
use super::settings::{CursorSettings, CursorUnit, LookBack};
use crate::BackendError;
use crate::model::Timestamp;

/// What a cursor counts in.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scale {
    /// Texts of moments.
    Moments {
        /// Between day and time.
        separator: char,
        /// Minutes east of UTC of what is written.
        minutes: i32,
        /// How a text ends that is compared with them.
        suffix: &'static str,
        parts: Parts,
    },
    /// Whole numbers that are moments.
    Units(CursorUnit),
    /// Numbers that only grow.
    Numbers,
    /// Values that only grow.
    Plain,
}

/// How finely moments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    Micros,
    /// Compared as texts, so that a fraction or a zone behind the seconds makes a text later.
    Seconds,
    Days,
}

impl Scale {
    /// The scale of a column. `newest` is the greatest value of a column whose type tells nothing.
    ///
    /// # Errors
    /// `Configuration` for a column that no cursor can be, or settings that do not fit it.
    pub(super) fn of(
        dialect: Dialect,
        column: &SourceColumn,
        cursor: &CursorSettings,
        zone_minutes: i32,
        newest: &Cell,
    ) -> Result<Self, BackendError> {
        let wrong = |why: &str| {
            let name = &cursor.column;
            Err(BackendError::configuration(format!("the column can't be a cursor: {why} (column={name})")))
        };
        let suffix = if dialect == Dialect::Postgres { "+00" } else { "" };
        let moments = |minutes, suffix, parts| Self::Moments { separator: ' ', minutes, suffix, parts };
        let scale = match (cursor.unit, column.order) {
            (Some(unit), Order::Number | Order::Unknown) => Self::Units(unit),
            (Some(_), _) => return wrong("a `unit` is for whole numbers"),
            (None, Order::Instant) => moments(0, suffix, Parts::Micros),
            (None, Order::Local) => moments(zone_minutes, "", Parts::Micros),
            (None, Order::Day) => moments(zone_minutes, "", Parts::Days),
            (None, Order::Number) => Self::Numbers,
            (None, Order::Text) => Self::Plain,
            (None, Order::Unknown) => match newest {
                Cell::Text(text) => match written(text, zone_minutes) {
                    Ok(scale) => scale,
                    Err(why) => return wrong(why),
                },
                Cell::Integer(_) | Cell::Real(_) => Self::Numbers,
                Cell::Null | Cell::Blob(_) => Self::Plain,
            },
            (None, Order::None) => return wrong("values of its type have no exact order"),
        };
        match (&scale, cursor.look_back, newest) {
            (Self::Numbers, LookBack::Time(_), _) => wrong("it holds numbers, so `look_back` must be a number"),
            // A column of SQLite that is empty tells nothing yet.
            (Self::Plain, LookBack::Time(_) | LookBack::Numbers(_), newest)
                if column.order != Order::Unknown || !newest.is_null() =>
            {
                wrong("nothing can be taken from its values, so there is no `look_back`")
            }
            (Self::Moments { .. } | Self::Units(_), LookBack::Numbers(_), _) => {
                wrong("it holds moments, so `look_back` must be a length of time")
            }
            _ => Ok(scale),
        }
    }

    /// The value that stands for a moment: all that are earlier are before it. `None`: the scale knows no moments.
    pub(super) fn value(&self, at: Timestamp) -> Option<Cell> {
        match self {
            Self::Moments { separator, minutes, suffix, parts } => {
                // Always of this width from the year 0 to 9999.
                let text = shifted(at, i64::from(*minutes)).to_string();
                let (day, time) = (text.get(..10)?, text.get(11..)?);
                let time = time.trim_end_matches('Z');
                Some(Cell::Text(match parts {
                    Parts::Micros => format!("{day}{separator}{time}{suffix}"),
                    Parts::Seconds => format!("{day}{separator}{}", time.get(..8)?),
                    Parts::Days => day.to_owned(),
                }))
            }
            Self::Units(unit) => Some(Cell::Integer(at.micros().div_euclid(micros(*unit)))),
            Self::Numbers | Self::Plain => None,
        }
    }

    /// Where the next pass begins, inclusive, so far behind `high`. `None`: at the beginning, since nobody can tell.
    pub(super) fn before(&self, high: &Cell, look_back: LookBack) -> Option<Cell> {
        match (self, look_back) {
            (Self::Numbers, LookBack::Numbers(count)) => earlier(high, count),
            (_, LookBack::Time(span)) => self.value(self.moment(high)?.minus(span)),
            _ => Some(high.clone()),
        }
    }

    fn moment(&self, value: &Cell) -> Option<Timestamp> {
        match self {
            Self::Moments { minutes, parts, .. } => {
                let text = value.text()?;
                let zone = zone_text(*minutes);
                if *parts == Parts::Days {
                    return Timestamp::parse(&format!("{text}T00:00:00{zone}"));
                }
                Timestamp::parse(&text).or_else(|| Timestamp::parse(&format!("{text}{zone}")))
            }
            Self::Units(unit) => {
                let number: i64 = value.text()?.parse().ok()?;
                number.checked_mul(micros(*unit)).map(Timestamp::from_micros)
            }
            Self::Numbers | Self::Plain => None,
        }
    }
}

/// How moments are written in a text of a column whose type tells nothing.
fn written(text: &str, zone_minutes: i32) -> Result<Scale, &'static str> {
    let moments = |separator, minutes, parts| Scale::Moments { separator, minutes, suffix: "", parts };
    if Timestamp::parse(&format!("{text}T00:00:00Z")).is_some() {
        return Ok(moments(' ', zone_minutes, Parts::Days));
    }
    let separator = text.chars().nth(10).unwrap_or(' ');
    if Timestamp::parse(&format!("{text}Z")).is_some() {
        return Ok(moments(separator, zone_minutes, Parts::Seconds));
    }
    match Timestamp::parse(text) {
        Some(_) if text.ends_with(['Z', 'z']) || text.ends_with("+00:00") || text.ends_with("+00") => {
            Ok(moments(separator, 0, Parts::Seconds))
        }
        Some(_) => Err("texts with zones do not sort as moments do"),
        None => Ok(Scale::Plain),
    }
}

fn earlier(high: &Cell, count: u64) -> Option<Cell> {
    let number: i128 = match high {
        Cell::Integer(number) => i128::from(*number),
        // Digits behind the point are dropped towards what is earlier.
        Cell::Text(text) => {
            let whole = text.split('.').next().unwrap_or_default();
            whole.parse::<i128>().ok()? - i128::from(text.starts_with('-') && text.contains('.'))
        }
        Cell::Real(number) => return Some(Cell::Real(number - count as f64)),
        Cell::Null | Cell::Blob(_) => return None,
    };
    let number = number - i128::from(count);
    Some(match high {
        Cell::Integer(_) => Cell::Integer(i64::try_from(number).unwrap_or(i64::MIN)),
        _ => Cell::Text(number.to_string()),
    })
}

fn micros(unit: CursorUnit) -> i64 {
    match unit {
        CursorUnit::Seconds => 1_000_000,
        CursorUnit::Millis => 1_000,
        CursorUnit::Micros => 1,
    }
}

fn shifted(at: Timestamp, minutes: i64) -> Timestamp {
    let span = Duration::from_secs(minutes.unsigned_abs() * 60);
    if minutes < 0 { at.minus(span) } else { at.plus(span) }
}

#[cfg(test)]
mod tests {
    use super::super::catalog::Native;
    use super::*;
    use crate::model::ColumnType;

    fn column(order: Order) -> SourceColumn {
        let kind = ColumnType::Text;
        SourceColumn { name: "at".to_owned(), native: Native::Other, order, kind, nullable: false, primary: None }
    }

    fn scale(dialect: Dialect, order: Order, newest: &Cell) -> Result<Scale, String> {
        let cursor = CursorSettings::new("at");
        Scale::of(dialect, &column(order), &cursor, 120, newest).map_err(|error| error.to_string())
    }

    fn text(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn the_horizon_is_written_as_the_column_writes_its_moments() {
        let noon = at("2026-01-31T12:00:00.123456Z");
        let newest = text("2026-01-31 09:00:00");
        for (dialect, order, newest, wanted) in [
            (Dialect::Postgres, Order::Instant, &Cell::Null, text("2026-01-31 12:00:00.123456+00")),
            (Dialect::Postgres, Order::Local, &Cell::Null, text("2026-01-31 14:00:00.123456")),
            (Dialect::MySql, Order::Instant, &Cell::Null, text("2026-01-31 12:00:00.123456")),
            (Dialect::MySql, Order::Day, &Cell::Null, text("2026-01-31")),
            (Dialect::Sqlite, Order::Unknown, &newest, text("2026-01-31 14:00:00")),
            (Dialect::Sqlite, Order::Unknown, &text("2026-01-31T09:00:00.5Z"), text("2026-01-31T12:00:00")),
            (Dialect::Sqlite, Order::Unknown, &text("2026-01-31"), text("2026-01-31")),
        ] {
            let found = scale(dialect, order, newest).unwrap().value(noon);
            assert!(found == Some(wanted.clone()), "{dialect:?} {order:?}: {:?}", found.and_then(|cell| cell.text()));
        }
    }

    #[test]
    fn a_scale_without_moments_has_no_horizon() {
        for (order, newest) in
            [(Order::Number, Cell::Null), (Order::Unknown, Cell::Integer(7)), (Order::Text, Cell::Null)]
        {
            assert!(scale(Dialect::Sqlite, order, &newest).unwrap().value(at("2026-01-31T12:00:00Z")).is_none());
        }
        assert!(scale(Dialect::Sqlite, Order::Unknown, &text("2026-01-31T12:00:00+05:00")).is_err());
        assert!(scale(Dialect::Postgres, Order::None, &Cell::Null).is_err());
    }

    #[test]
    fn looking_back_loses_no_digit_of_where_it_looks_from() {
        let postgres = scale(Dialect::Postgres, Order::Instant, &Cell::Null).unwrap();
        let high = text("2026-01-31 12:00:00.123457+00");
        let second = LookBack::Time(Duration::from_secs(1));
        assert!(postgres.before(&high, LookBack::Nothing) == Some(high.clone()));
        assert!(postgres.before(&high, second) == Some(text("2026-01-31 11:59:59.123457+00")));
        assert!(postgres.before(&text("infinity"), second).is_none());
        let numbers = Scale::Numbers;
        assert!(
            numbers.before(&text("12345678901234567890123"), LookBack::Numbers(3))
                == Some(text("12345678901234567890120"))
        );
        assert!(numbers.before(&text("-1.5"), LookBack::Numbers(1)) == Some(text("-3")));
        assert!(numbers.before(&Cell::Integer(i64::MIN), LookBack::Numbers(1)) == Some(Cell::Integer(i64::MIN)));
    }

    #[test]
    fn settings_that_do_not_fit_the_column_are_refused() {
        let with = |order, look_back, unit| {
            let cursor = CursorSettings::new("at").with(|cursor| (cursor.look_back, cursor.unit) = (look_back, unit));
            Scale::of(Dialect::Postgres, &column(order), &cursor, 0, &Cell::Null)
        };
        let time = LookBack::Time(Duration::from_secs(1));
        assert!(with(Order::Number, time, None).is_err());
        assert!(with(Order::Number, time, Some(CursorUnit::Millis)).is_ok());
        assert!(with(Order::Instant, LookBack::Numbers(1), None).is_err());
        assert!(with(Order::Text, time, None).is_err());
        assert!(with(Order::Instant, time, Some(CursorUnit::Seconds)).is_err());
    }
}
