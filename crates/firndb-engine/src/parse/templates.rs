//! `to_date` and `to_timestamp` of a text and a template, which is PostgreSQL's or, with a percent sign, a format of `strptime`:
//!
//! ```text
//! to_date(text, template)          CAST(plain(text, template) AS DATE)
//! to_timestamp(text, template)     coalesce(zoned(text, template) AT TIME ZONE 'UTC', CAST(plain(text, template) AS TIMESTAMPTZ))
//! ```
//!
//! Where the text names its zone the moment is `zoned`, and `plain` otherwise; the other one is NULL.

use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, TimezoneInfo, Value};

use super::pieces::call;

/// The moment that a text is by a template, on the clock that it does not name.
pub(crate) const PLAIN_MOMENT_BY: &str = "__firndb_plain_moment_by";
/// The moment that a text is by a template, in UTC, if it names its zone.
pub(crate) const ZONED_MOMENT_BY: &str = "__firndb_zoned_moment_by";

/// A call of `to_date` or `to_timestamp` by a template.
pub(super) fn rewrite(name: &str, given: &[Expr]) -> Option<Expr> {
    let [_, template] = given else {
        return None;
    };
    let moment = |name: &str| call(name, given.to_vec());
    match name {
        "to_date" => Some(cast(moment(PLAIN_MOMENT_BY), DataType::Date)),
        // Several formats give a timestamp, and so does one of strptime.
        "to_timestamp" if is_format(template) => None,
        "to_timestamp" => {
            let utc = Expr::value(Value::SingleQuotedString("UTC".to_owned()));
            let zoned = Expr::AtTimeZone {
                timestamp: Box::new(moment(ZONED_MOMENT_BY)),
                time_zone: Box::new(utc),
            };
            let instant = DataType::Timestamp(None, TimezoneInfo::WithTimeZone);
            let plain = cast(moment(PLAIN_MOMENT_BY), instant);
            Some(call("coalesce", vec![zoned, plain]))
        }
        _ => None,
    }
}

fn is_format(template: &Expr) -> bool {
    matches!(template, Expr::Value(value) if matches!(&value.value, Value::SingleQuotedString(text) if text.contains('%')))
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}
