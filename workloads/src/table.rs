//! The Parquet file of a profile as columns of integers; every problem names the column, the row and the value.

use anyhow::{Context, Result, anyhow, bail};
use polars::prelude::{Column, DataFrame, DataType, ParquetReader, SerReader};
use std::io::Cursor;

/// A read profile table.
pub(crate) struct Table(DataFrame);

impl Table {
    /// From the bytes of a Parquet file.
    pub(crate) fn read(bytes: Vec<u8>) -> Result<Table> {
        let frame = ParquetReader::new(Cursor::new(bytes)).finish().context("not a readable Parquet file")?;
        Ok(Table(frame))
    }

    pub(crate) fn rows(&self) -> usize {
        self.0.height()
    }

    fn column(&self, name: &str) -> Result<&Column> {
        self.0.column(name).map_err(|_| {
            let there: Vec<_> = self.0.get_column_names().iter().map(|n| n.to_string()).collect();
            anyhow!("column {name} is missing; the file has {}", there.join(", "))
        })
    }

    /// A column of texts.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>> {
        let column = self.column(name)?;
        let texts = column.str().with_context(|| format!("column {name} is {}, not text", column.dtype()))?;
        let row = |(row, text): (usize, Option<&str>)| match text {
            Some(text) => Ok(text.to_owned()),
            None => bail!("row {row}, column {name}: the text is missing"),
        };
        texts.iter().enumerate().map(row).collect()
    }

    /// A column of whole numbers that may be missing, each at most `max`.
    pub(crate) fn optional(&self, name: &str, max: u64) -> Result<Vec<Option<u64>>> {
        let numbers = self.floats(name)?;
        let row = |(row, number): (usize, Option<f64>)| match number {
            None => Ok(None),
            // Exact up to 2^53, far beyond any nanosecond or byte count here.
            Some(x) if x >= 0.0 && x.fract() == 0.0 && x <= max as f64 => Ok(Some(x as u64)),
            Some(x) => bail!("row {row}, column {name}: {x} is not a whole number from 0 to {max}"),
        };
        numbers.into_iter().enumerate().map(row).collect()
    }

    /// A column of whole numbers, each at most `max`.
    pub(crate) fn numbers(&self, name: &str, max: u64) -> Result<Vec<u64>> {
        let row = |(row, number): (usize, Option<u64>)| {
            number.with_context(|| format!("row {row}, column {name}: the number is missing"))
        };
        self.optional(name, max)?.into_iter().enumerate().map(row).collect()
    }

    /// A column of numbers that may be missing.
    pub(crate) fn floats(&self, name: &str) -> Result<Vec<Option<f64>>> {
        let column = self.column(name)?;
        let cast = column.strict_cast(&DataType::Float64);
        let cast = cast.with_context(|| format!("column {name} is {}, not numbers", column.dtype()))?;
        Ok(cast.f64()?.iter().collect())
    }
}
