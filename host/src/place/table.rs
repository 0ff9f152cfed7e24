//! A table in a database: the newest objects, each with its time and its event.

use std::path::PathBuf;

use rusqlite::params;
use tokio::sync::OnceCell;

use super::{Failure, facts};
use crate::state::{Database, Migrations};

/// A table with the columns `id`, `time`, `event` and one for the object.
pub(crate) struct Table {
    name: &'static str,
    rows_max: i64,
    /// A file of its own, and the tables there.
    file: Option<(PathBuf, &'static [Migrations])>,
    database: OnceCell<Database>,
}

impl Table {
    /// Returns the table `name` of the host's own store, which holds at most `rows_max` rows.
    pub(crate) fn of(database: Database, name: &'static str, rows_max: i64) -> Self {
        Self { name, rows_max, file: None, database: OnceCell::new_with(Some(database)) }
    }

    /// As [`Table::of`], in a file of its own that is opened when something is written.
    pub(crate) fn in_file(
        path: PathBuf,
        migrations: &'static [Migrations],
        name: &'static str,
        rows_max: i64,
    ) -> Self {
        Self { name, rows_max, file: Some((path, migrations)), database: OnceCell::new() }
    }

    pub(super) async fn insert(&self, objects: &[&str]) -> Result<(), Failure> {
        let database = self.database.get_or_try_init(|| self.open()).await?;
        let rows: Vec<_> =
            objects.iter().map(|object| (facts(object), (*object).to_owned())).collect();
        let (name, rows_max) = (self.name, self.rows_max);
        let write = move |db: &mut rusqlite::Connection| {
            let change = db.transaction()?;
            for ([time, event], object) in &rows {
                let [time, event] = [time, event].map(|fact| fact.as_deref().unwrap_or_default());
                let insert = format!("INSERT INTO {name} VALUES (NULL, ?1, ?2, ?3)");
                change.execute(&insert, params![time, event, object])?;
            }
            let oldest =
                format!("DELETE FROM {name} WHERE id <= (SELECT max(id) FROM {name}) - ?1");
            change.execute(&oldest, [rows_max])?;
            change.commit()
        };
        database.run(write).await.map_err(Failure::passing)
    }

    async fn open(&self) -> Result<Database, Failure> {
        let Some((path, migrations)) = &self.file else {
            return Err(Failure::lasting("there is no database"));
        };
        Database::open_own(path.clone(), migrations).await.map_err(Failure::passing)
    }
}
