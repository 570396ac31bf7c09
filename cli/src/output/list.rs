//! Lists, as kubectl prints them: a table, a wider one, names only, JSON or YAML.

use std::io::Write;

use clap::{Args, ValueEnum};
use olm_text::{one_line, visible};
use serde::Serialize;

use super::{Format, answer, columns};

/// The output format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ListFormat {
    /// A table.
    #[default]
    Text,
    /// A table with all columns.
    Wide,
    /// Names, one per line.
    Name,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

/// How a list is printed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ListArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: ListFormat,
    /// Leave out the titles of the columns
    #[arg(long)]
    pub(crate) no_headers: bool,
}

/// A column of a table.
pub(crate) struct Column<T> {
    title: &'static str,
    is_wide: bool,
    cell: Box<dyn Fn(&T) -> String>,
}

impl<T> Column<T> {
    /// A column of every table.
    pub(crate) fn new(title: &'static str, cell: impl Fn(&T) -> String + 'static) -> Self {
        Self { title, is_wide: false, cell: Box::new(cell) }
    }

    /// A column of wide tables only.
    pub(crate) fn wide(title: &'static str, cell: impl Fn(&T) -> String + 'static) -> Self {
        Self::new(title, cell).in_wide_tables()
    }

    /// The column, but in wide tables only.
    pub(crate) fn in_wide_tables(self) -> Self {
        Self { is_wide: true, ..self }
    }
}

impl ListArgs {
    /// Writes a list; `name` is that of an item for scripts.
    pub(crate) fn write<T: Serialize>(
        self,
        out: &mut dyn Write,
        items: &[T],
        table: &[Column<T>],
        name: impl Fn(&T) -> String,
    ) -> anyhow::Result<()> {
        match self.output {
            ListFormat::Json => answer(out, Format::Json, &items, |_| String::new()),
            ListFormat::Yaml => answer(out, Format::Yaml, &items, |_| String::new()),
            ListFormat::Name => {
                for item in items {
                    writeln!(out, "{}", one_line(&name(item)))?;
                }
                Ok(())
            }
            ListFormat::Text | ListFormat::Wide => {
                write!(out, "{}", visible(&self.table(items, table)))?;
                Ok(())
            }
        }
    }

    fn table<T>(self, items: &[T], table: &[Column<T>]) -> String {
        let is_shown = |column: &&Column<T>| self.output == ListFormat::Wide || !column.is_wide;
        let shown: Vec<&Column<T>> = table.iter().filter(is_shown).collect();
        let titles = shown.iter().map(|column| column.title.to_owned()).collect();
        let cell = |column: &&Column<T>, item| one_line(&(column.cell)(item)).into_owned();
        let rows = items.iter().map(|item| shown.iter().map(|column| cell(column, item)).collect());
        let head = (!self.no_headers).then_some(titles);
        let rows: Vec<Vec<String>> = head.into_iter().chain(rows).collect();
        columns(&rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> [Column<&'static str>; 2] {
        [
            Column::new("NAME", |name: &&'static str| (*name).to_owned()),
            Column::wide("TWICE", |name: &&'static str| format!("{name}\n{name}")),
        ]
    }

    fn written(output: ListFormat, no_headers: bool) -> String {
        let mut text = Vec::new();
        let args = ListArgs { output, no_headers };
        args.write(&mut text, &["a", "b\u{1b}"], &table(), |name| (*name).to_owned()).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn each_format_has_what_it_promises() {
        assert_eq!(written(ListFormat::Text, false), "NAME\na\nb\\u{1b}\n");
        assert_eq!(written(ListFormat::Text, true), "a\nb\\u{1b}\n");
        assert_eq!(
            written(ListFormat::Wide, false),
            "NAME     TWICE\na        a a\nb\\u{1b}  b\\u{1b} b\\u{1b}\n"
        );
        assert_eq!(written(ListFormat::Name, false), "a\nb\\u{1b}\n");
        assert_eq!(written(ListFormat::Json, false), "[\n  \"a\",\n  \"b\\u001b\"\n]\n");
        assert_eq!(written(ListFormat::Yaml, false), "- a\n- \"b\\u001b\"\n");
    }
}
