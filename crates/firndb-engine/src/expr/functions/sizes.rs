//! Numbers of bytes as people read them, and the neighbours of a double.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, StringViewBuilder};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::Result;

use super::kernel::{Kernel, Takes};

const BINARY: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const DECIMAL: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    let text = |_: &[DataType]| Some(DataType::Utf8View);
    vec![
        Kernel {
            name: "format_bytes",
            aliases: &["formatreadablesize", "pg_size_pretty"],
            takes: &[Takes::Integer],
            arguments: (1, 1),
            yields: text,
            run: |args| Ok(sizes(&args[0], 1_024, BINARY)),
        },
        Kernel {
            name: "formatreadabledecimalsize",
            aliases: &[],
            takes: &[Takes::Integer],
            arguments: (1, 1),
            yields: text,
            run: |args| Ok(sizes(&args[0], 1_000, DECIMAL)),
        },
        Kernel {
            name: "nextafter",
            aliases: &[],
            takes: &[Takes::Double],
            arguments: (2, 2),
            yields: |_| Some(DataType::Float64),
            run: next_after,
        },
    ]
}

/// With one digit behind the point, cut off.
fn sizes(numbers: &ArrayRef, step: u64, units: [&str; 6]) -> ArrayRef {
    let mut builder = StringViewBuilder::new();
    for number in numbers.as_primitive::<Int64Type>() {
        let Some(number) = number else {
            builder.append_null();
            continue;
        };
        let sign = if number < 0 { "-" } else { "" };
        let size = number.unsigned_abs();
        let mut power = 1_u64;
        let mut unit = None;
        for name in units {
            if size / power < step {
                break;
            }
            power *= step;
            unit = Some(name);
        }
        builder.append_value(match unit {
            None if size == 1 => format!("{sign}1 byte"),
            None => format!("{sign}{size} bytes"),
            Some(unit) => {
                let tenths = u128::from(size) * 10 / u128::from(power);
                format!("{sign}{}.{} {unit}", tenths / 10, tenths % 10)
            }
        });
    }
    Arc::new(builder.finish())
}

fn next_after(args: &[ArrayRef]) -> Result<ArrayRef> {
    let (from, to) = (
        args[0].as_primitive::<Float64Type>(),
        args[1].as_primitive::<Float64Type>(),
    );
    let next = |(from, to): (Option<f64>, Option<f64>)| {
        let (from, to) = (from?, to?);
        Some(match from.partial_cmp(&to) {
            None => f64::NAN,
            Some(std::cmp::Ordering::Equal) => to,
            Some(std::cmp::Ordering::Less) => from.next_up(),
            Some(std::cmp::Ordering::Greater) => from.next_down(),
        })
    };
    let result: Float64Array = from.iter().zip(to).map(next).collect();
    Ok(Arc::new(result))
}
