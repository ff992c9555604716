//! `read_csv`, `read_parquet`, `read_json`, `read_arrow`: files in FROM, and with them the functions of [`super::contents`].
//!
//! The first argument is a path, a glob or a list of them; options follow as pairs of a name and a value, which is what
//! `name = value` and `name => value` become before planning.

use std::sync::Arc;

use arrow::array::Array;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, ScalarValue};

use super::arguments::{constant, texts};
use super::options::{FileOptions, Format, OptionValue};
use super::table::FileTable;
use crate::{Error, Result, SqlState};

/// All of them, by name.
pub fn all() -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    [
        ("read_csv", Format::Csv),
        ("read_csv_auto", Format::Csv),
        ("read_parquet", Format::Parquet),
        ("parquet_scan", Format::Parquet),
        ("read_json", Format::Json),
        ("read_json_auto", Format::Json),
        ("read_ndjson", Format::Json),
        ("read_arrow", Format::Arrow),
    ]
    .into_iter()
    .map(|(name, format)| {
        let function: Arc<dyn TableFunctionImpl> = Arc::new(ReadFiles { name, format });
        (name, function)
    })
    .chain(super::contents::all())
    .collect()
}

/// Reads files of a format.
#[derive(Debug)]
struct ReadFiles {
    name: &'static str,
    format: Format,
}

impl ReadFiles {
    fn open(&self, args: &TableFunctionArgs) -> Result<FileTable> {
        let mut values = Vec::with_capacity(args.exprs().len());
        for argument in args.exprs() {
            values.push(constant(argument, args)?);
        }
        let mut values = values.iter();
        let Some(paths) = values.next() else {
            return Err(self.misused("a path, a pattern or a list of paths is required"));
        };
        let paths = texts(paths)
            .ok_or_else(|| self.misused("the first argument must be a path or a list of paths"))?;
        let mut options = FileOptions::new(self.format);
        while let Some(name) = values.next() {
            let (Some(Some(name)), Some(value)) = (name.try_as_str(), values.next()) else {
                return Err(self.misused("options are written as name = value"));
            };
            options.set(name, &option_value(name, value)?)?;
        }
        FileTable::open(&paths, options)
    }

    fn misused(&self, message: &str) -> Error {
        Error::new(
            SqlState::UndefinedFunction,
            format!("{}: {message}", self.name),
        )
    }
}

impl TableFunctionImpl for ReadFiles {
    fn call_with_args(
        &self,
        args: TableFunctionArgs,
    ) -> std::result::Result<Arc<dyn TableProvider>, DataFusionError> {
        Ok(Arc::new(self.open(&args)?))
    }
}

fn option_value(name: &str, value: &ScalarValue) -> Result<OptionValue> {
    if let ScalarValue::Boolean(Some(value)) = value {
        return Ok(OptionValue::Boolean(*value));
    }
    if let Some(text) = value.try_as_str().flatten() {
        return Ok(OptionValue::Text(text.to_owned()));
    }
    if let Some(items) = texts(value) {
        return Ok(OptionValue::List(items));
    }
    if let ScalarValue::Struct(row) = value {
        let pairs = row
            .fields()
            .iter()
            .zip(row.columns())
            .map(|(field, column)| {
                let text = ScalarValue::try_from_array(column, 0).ok()?;
                Some((
                    field.name().clone(),
                    text.try_as_str().flatten()?.to_owned(),
                ))
            });
        if let Some(pairs) = pairs.collect::<Option<Vec<_>>>() {
            return Ok(OptionValue::Pairs(pairs));
        }
    }
    if let ScalarValue::Map(map) = value {
        let list = |array: &dyn Array| {
            (0..array.len())
                .map(|row| {
                    let item = ScalarValue::try_from_array(array, row).ok()?;
                    item.try_as_str().flatten().map(str::to_owned)
                })
                .collect::<Option<Vec<String>>>()
        };
        if let (Some(keys), Some(values)) = (list(map.keys()), list(map.values())) {
            return Ok(OptionValue::Pairs(keys.into_iter().zip(values).collect()));
        }
    }
    if value.data_type().is_numeric() && !value.is_null() {
        return Ok(OptionValue::Text(value.to_string()));
    }
    Err(Error::new(
        SqlState::InvalidParameterValue,
        format!("option \"{name}\" can't be {value}"),
    ))
}
