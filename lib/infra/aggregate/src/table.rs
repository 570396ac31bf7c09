//! Tables, as kubectl shows them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Column;

pub(crate) fn columns(columns: &[Column]) -> Value {
    let column = |column: &Column| {
        json!({
            "name": column.name, "type": "string", "format": column.format,
            "description": column.description, "priority": 0,
        })
    };
    columns.iter().map(column).collect()
}

/// The age of an object, as kubectl writes it: two units while it is young, one later.
pub fn age(created: Option<Timestamp>, now: Timestamp) -> String {
    let Some(created) = created else { return "<unknown>".to_owned() };
    let seconds = now.as_second().saturating_sub(created.as_second());
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |big: i64, unit: &str, small: i64, rest: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{rest}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_kubectl_does() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        assert_eq!(age(None, now), "<unknown>");
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (8 * 3600 - 60, "7h59m"),
            (47 * 3600, "47h"),
            (49 * 3600, "2d1h"),
            (10 * 86400, "10d"),
            (2 * 365 * 86400 + 86400, "2y1d"),
            (9 * 365 * 86400, "9y"),
        ] {
            let created = Timestamp::from_second(now.as_second() - seconds).unwrap();
            assert_eq!(age(Some(created), now), text, "{seconds}");
        }
    }
}
