//! Values of settings, as they are written.

use crate::catalog::fold;
use crate::error::{Error, Result, SqlState};

/// A truth value as it is written.
pub(super) fn boolean(name: &str, value: &str) -> Result<bool> {
    match fold(value).as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(invalid(name, value)),
    }
}

/// 22023 for a value that a setting does not take.
pub(super) fn invalid(name: &str, value: &str) -> Error {
    Error::new(
        SqlState::InvalidParameterValue,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}
