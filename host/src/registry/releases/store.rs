//! Where versions lie: the embedded store, or PostgreSQL. Both are asked in the same words.

use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, TransactionBehavior, params_from_iter};

use super::postgres::Postgres;
use crate::state::Database;

/// The tables of the embedded store.
pub const MIGRATIONS: &[&str] = &[include_str!("sqlite.sql")];

#[derive(Debug, Clone)]
pub(super) enum Store {
    Embedded(Database),
    Postgres(Arc<Postgres>),
}

/// A value of a row, or one that goes along with a statement.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Bytes(Vec<u8>),
    Int(i64),
    Null,
    Text(String),
}

pub(super) type Row = Vec<Cell>;

/// SQL that both know, and its values: `$1` is the first, and each comes up for the first time after
/// the one before it, as SQLite numbers them so.
pub(super) type Statement = (&'static str, Vec<Cell>);

impl Store {
    /// Carries out all statements or none, and returns the rows of each. What several of them do is on
    /// disk then, and no two stores do several of them at once.
    ///
    /// # Errors
    /// What the store says.
    pub(super) async fn run(&self, all: Vec<Statement>) -> Result<Vec<Vec<Row>>, String> {
        match self {
            Self::Embedded(database) => {
                let done = database.run(move |db| run(db, all)).await;
                done.map_err(|error| error.to_string())
            }
            Self::Postgres(postgres) => postgres.run(&all).await,
        }
    }

    /// Carries out one statement and returns its rows.
    ///
    /// # Errors
    /// As [`Store::run`].
    pub(super) async fn one(
        &self,
        sql: &'static str,
        cells: Vec<Cell>,
    ) -> Result<Vec<Row>, String> {
        let mut rows = self.run(vec![(sql, cells)]).await?;
        Ok(rows.pop().unwrap_or_default())
    }
}

fn run(db: &mut Connection, all: Vec<Statement>) -> rusqlite::Result<Vec<Vec<Row>>> {
    let writes = all.len() > 1;
    let behavior =
        if writes { TransactionBehavior::Immediate } else { TransactionBehavior::Deferred };
    let transaction = db.transaction_with_behavior(behavior)?;
    let rows = all.into_iter().map(|statement| rows(&transaction, statement));
    let rows = rows.collect::<Result<_, _>>()?;
    transaction.commit()?;
    Ok(rows)
}

fn rows(db: &Connection, (sql, cells): Statement) -> rusqlite::Result<Vec<Row>> {
    let mut statement = db.prepare(sql)?;
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        (0..columns).map(|column| Ok(Cell::from(row.get_ref(column)?))).collect()
    };
    statement.query_map(params_from_iter(cells), row)?.collect()
}

impl From<ValueRef<'_>> for Cell {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Blob(bytes) => Self::Bytes(bytes.to_vec()),
            ValueRef::Integer(number) => Self::Int(number),
            ValueRef::Text(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
            // No column holds a real number.
            ValueRef::Null | ValueRef::Real(_) => Self::Null,
        }
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Null => ValueRef::Null,
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}
