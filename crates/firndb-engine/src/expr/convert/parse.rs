//! Numbers, booleans and UUIDs read from text.

use super::number::POWERS;

/// What a text says a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parsed {
    /// Its digits under the scale asked for.
    Value(i128),
    /// A number beyond 38 digits.
    TooLarge,
    /// No number.
    Invalid,
}

/// The most significant digits that can matter; those after them only lie beyond the rounding digit.
const MOST_DIGITS: usize = 80;

/// Reads `[sign] digits [. digits] [e exponent]` or `0x` digits, with blanks around and underscores between digits,
/// as a decimal of `scale` digits after the point, rounded half away from zero.
pub(super) fn decimal(text: &str, scale: i8) -> Parsed {
    let text = text.trim();
    let (negative, body) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = match body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
        Some(digits) => hexadecimal(digits, scale),
        None => magnitude(body.as_bytes(), scale),
    };
    match magnitude {
        Parsed::Value(value) if negative => Parsed::Value(-value),
        other => other,
    }
}

fn magnitude(text: &[u8], scale: i8) -> Parsed {
    let mut digits = [0u8; MOST_DIGITS];
    let (mut kept, mut seen_digit, mut seen_point) = (0usize, false, false);
    // The number is 0.d1d2d3… · 10^point, d1 the first nonzero digit.
    let mut point = 0i64;
    let mut previous_digit = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'0'..=b'9' => {
                seen_digit = true;
                let significant = kept > 0 || byte != b'0';
                if significant && kept < MOST_DIGITS {
                    digits[kept] = byte - b'0';
                    kept += 1;
                }
                if significant && !seen_point {
                    point += 1;
                } else if !significant && seen_point {
                    point -= 1;
                }
            }
            b'_' if previous_digit && text.get(at + 1).is_some_and(u8::is_ascii_digit) => {}
            b'.' if !seen_point => seen_point = true,
            b'e' | b'E' if seen_digit => {
                let exponent = std::str::from_utf8(&text[at + 1..])
                    .ok()
                    .filter(|digits| digits.len() <= 9)
                    .and_then(|digits| digits.parse::<i64>().ok());
                match exponent {
                    Some(exponent) => point += exponent,
                    None => return Parsed::Invalid,
                }
                at = text.len();
                continue;
            }
            _ => return Parsed::Invalid,
        }
        previous_digit = byte.is_ascii_digit();
        at += 1;
    }
    if !seen_digit {
        return Parsed::Invalid;
    }
    let wanted = point + i64::from(scale);
    if kept == 0 || wanted < 0 {
        return Parsed::Value(0);
    }
    if wanted > 38 {
        return Parsed::TooLarge;
    }
    let wanted = wanted as usize;
    let mut value = 0i128;
    let padded = digits[..kept].iter().chain(std::iter::repeat(&0));
    for &digit in padded.take(wanted) {
        value = value * 10 + i128::from(digit);
    }
    if wanted < kept && digits[wanted] >= 5 {
        value += 1;
    }
    if value < POWERS[38] {
        Parsed::Value(value)
    } else {
        Parsed::TooLarge
    }
}

fn hexadecimal(digits: &str, scale: i8) -> Parsed {
    let Ok(value) = u64::from_str_radix(digits, 16) else {
        return Parsed::Invalid;
    };
    if digits.starts_with('+') {
        return Parsed::Invalid;
    }
    let power = POWERS[usize::try_from(scale).unwrap_or(0).min(38)];
    match i128::from(value).checked_mul(power) {
        Some(value) if value < POWERS[38] => Parsed::Value(value),
        _ => Parsed::TooLarge,
    }
}

/// A floating point number; `Err(true)` when it is one, but beyond the type.
pub(super) fn float(text: &str) -> Result<f64, bool> {
    let trimmed = text.trim();
    let value: f64 = if trimmed.contains('_') {
        if decimal(trimmed, 0) == Parsed::Invalid {
            return Err(false);
        }
        trimmed.replace('_', "").parse().map_err(|_| false)?
    } else {
        trimmed.parse().map_err(|_| false)?
    };
    // Only a text with digits can have overflowed: "inf" and "nan" have none.
    if value.is_infinite() && trimmed.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(true);
    }
    Ok(if value.is_nan() { f64::NAN } else { value })
}

/// What PostgreSQL and DuckDB read as a boolean.
pub(super) fn boolean(text: &str) -> Option<bool> {
    let word = text.trim();
    let is = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    if is(&["true", "t", "yes", "y", "on", "1"]) {
        Some(true)
    } else if is(&["false", "f", "no", "n", "off", "0"]) {
        Some(false)
    } else {
        None
    }
}

/// 32 hexadecimal digits, hyphens between groups of four and braces around allowed.
pub(super) fn uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.trim();
    let text = match text.strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}')?,
        None => text,
    };
    let mut bytes = [0u8; 16];
    let mut count = 0;
    for digit in text.bytes() {
        if digit == b'-' {
            if count == 0 || count % 4 != 0 || count == 32 {
                return None;
            }
            continue;
        }
        let value = char::from(digit).to_digit(16)? as u8;
        if count == 32 {
            return None;
        }
        bytes[count / 2] |= if count % 2 == 0 { value << 4 } else { value };
        count += 1;
    }
    (count == 32).then_some(bytes)
}

/// `\x` and an even number of hexadecimal digits (PostgreSQL), or plain text with `\xHH` for single bytes (DuckDB).
pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let raw = text.as_bytes();
    if let Some(digits) = raw.strip_prefix(b"\\x")
        && digits.len() % 2 == 0
        && digits.iter().all(u8::is_ascii_hexdigit)
    {
        return digits
            .chunks(2)
            .map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?))
            .collect();
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        if byte != b'\\' {
            bytes.push(byte);
            at += 1;
            continue;
        }
        match raw.get(at + 1..at + 4) {
            Some([b'x', high, low]) => bytes.push(nibble(*high)? << 4 | nibble(*low)?),
            _ => return None,
        }
        at += 4;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_fraction_exponent_underscores_and_blanks() {
        for (text, scale, value) in [
            ("12", 0, 12),
            (" 12 ", 0, 12),
            ("-2.5", 0, -3),
            ("12.7", 0, 13),
            ("1e3", 0, 1000),
            ("1_000", 0, 1000),
            ("0x10", 0, 16),
            ("1.25", 1, 13),
            ("0.004", 2, 0),
            ("0.005", 2, 1),
            ("00012.50", 2, 1250),
            ("1.5e-2", 3, 15),
            ("5.", 0, 5),
            (".5", 1, 5),
        ] {
            assert_eq!(decimal(text, scale), Parsed::Value(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_invalid() {
        for text in [
            "", " ", "abc", "1,5", "- 5", "5-", "1e", "1__0", "_1", ".", "0x", "1.2.3",
        ] {
            assert_eq!(decimal(text, 0), Parsed::Invalid, "{text}");
        }
    }

    #[test]
    fn more_than_38_digits_are_too_large() {
        assert_eq!(decimal("1e38", 0), Parsed::TooLarge);
        assert_eq!(decimal(&"9".repeat(38), 0), Parsed::Value(POWERS[38] - 1));
        assert_eq!(
            decimal(&format!("{}.5", "9".repeat(38)), 0),
            Parsed::TooLarge
        );
    }

    #[test]
    fn floats_beyond_their_range_are_no_infinity() {
        assert_eq!(float("1e400"), Err(true));
        assert_eq!(float("-infinity"), Ok(f64::NEG_INFINITY));
        assert_eq!(float("1e"), Err(false));
    }

    #[test]
    fn bytes_are_read_in_both_spellings() {
        assert_eq!(bytes("\\xAA").as_deref(), Some(&[0xAA][..]));
        assert_eq!(bytes("\\xDEAD").as_deref(), Some(&[0xDE, 0xAD][..]));
        assert_eq!(
            bytes("\\xDE\\xADz").as_deref(),
            Some(&[0xDE, 0xAD, b'z'][..])
        );
        assert_eq!(bytes("\\q"), None);
    }
}
